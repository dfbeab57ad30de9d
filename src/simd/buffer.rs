//! Buffers aligned to cache lines, kept from chunk to chunk.

#![allow(unsafe_code, reason = "bytes are looked at as numbers")]

#[derive(Clone, Copy, Debug)]
#[repr(C, align(64))]
struct Line([u8; 64]);

/// A reusable buffer aligned to cache lines.
#[derive(Debug, Default)]
pub(crate) struct Buffer(Vec<Line>);

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
        self.0.resize((n * size_of::<T>()).div_ceil(64), Line([0; 64]));
        self.view_mut()
    }

    pub(crate) fn view<T: Plain>(&self) -> &[T] {
        // SAFETY: lines are initialised bytes aligned to 64, T is plain and its size divides 64.
        unsafe { core::slice::from_raw_parts(self.0.as_ptr().cast(), self.0.len() * 64 / size_of::<T>()) }
    }

    pub(crate) fn view_mut<T: Plain>(&mut self) -> &mut [T] {
        // SAFETY: as in `view`, and the borrow is unique.
        unsafe { core::slice::from_raw_parts_mut(self.0.as_mut_ptr().cast(), self.0.len() * 64 / size_of::<T>()) }
    }
}
