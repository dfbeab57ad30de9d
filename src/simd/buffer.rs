//! Buffers aligned to cache lines, large ones to pages, kept from chunk to chunk.

#![allow(unsafe_code, reason = "bytes are looked at as numbers")]

#[derive(Clone, Copy, Debug)]
#[repr(C, align(64))]
struct Line([u8; 64]);

/// Lines of a page.
const PAGE: usize = 4096 / size_of::<Line>();

/// A reusable buffer aligned to cache lines. One of a page or more begins with a page: kernels go through panels by
/// steps that divide a page, and where these lay on one by chance, some processes lost a tenth (docs/kernels.md, "Broad
/// pieces").
#[derive(Debug, Default)]
pub(crate) struct Buffer {
    lines: Vec<Line>,
    /// The lines in use.
    from: usize,
    len: usize,
}

/// Plain numbers: every bit pattern is one, and 64 is a multiple of their size.
///
/// # Safety
/// As said.
pub(crate) unsafe trait Plain: Copy {}

macro_rules! plain {
    // SAFETY: primitive numbers of at most 8 bytes.
    ($($ty:ty),*) => { $(unsafe impl Plain for $ty {})* };
}
plain!(u8, i8, u16, i16, u32, i32, u64, i64, f32, f64);

impl Buffer {
    /// Makes room for at least `n` values and returns all there are, contents unspecified.
    pub(crate) fn room<T: Plain>(&mut self, n: usize) -> &mut [T] {
        self.len = (n * size_of::<T>()).div_ceil(size_of::<Line>());
        let spare = if self.len >= PAGE { PAGE - 1 } else { 0 };
        self.lines.resize(self.len + spare, Line([0; 64]));
        // Lines to the next page.
        let next = self.lines.as_ptr().addr().wrapping_neg() / size_of::<Line>() % PAGE;
        self.from = next.min(spare);
        self.view_mut()
    }

    pub(crate) fn view<T: Plain>(&self) -> &[T] {
        let lines = &self.lines[self.from..][..self.len];
        // SAFETY: lines are initialised bytes aligned to 64, T is plain and its size divides 64.
        unsafe { core::slice::from_raw_parts(lines.as_ptr().cast(), size_of_val(lines) / size_of::<T>()) }
    }

    pub(crate) fn view_mut<T: Plain>(&mut self) -> &mut [T] {
        let lines = &mut self.lines[self.from..][..self.len];
        // SAFETY: as in `view`, and the borrow is unique.
        unsafe { core::slice::from_raw_parts_mut(lines.as_mut_ptr().cast(), size_of_val(lines) / size_of::<T>()) }
    }
}
