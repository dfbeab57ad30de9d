//! Strided views of matrices: any layout, reversed and broadcast ones included, without copies.
#![allow(unsafe_code, reason = "elements are reached by strides; every view proves its bounds when it is made")]

use crate::error::Error;
use crate::types::{E2M1, E2M3, E3M2, E4M3Fnuz, E5M2Fnuz, Tf32};
use core::any::TypeId;
use core::fmt;
use core::marker::PhantomData;
use core::ops::Range;
use core::ptr::NonNull;
use ndarray::{ArrayBase, ArrayView2, Data, Ix2};

/// A read-only matrix anywhere in memory: element (i, j) is `i * row stride + j * column stride`
/// elements from the first. Strides may be zero (broadcast) or negative (reversed).
///
/// ```
/// use gemmulate::view::View;
/// let data = [1, 2, 3, 4, 5, 6];
/// let columns = View::from_slice(&data, [2, 3], [1, 2], 0)?; // column-major
/// assert_eq!(columns.get(1, 2), Some(&6));
/// assert_eq!(columns.transposed().get(2, 1), Some(&6));
/// # Ok::<(), gemmulate::Error>(())
/// ```
pub struct View<'a, T> {
    /// Element (0, 0); dangling when the view is empty.
    first: NonNull<T>,
    shape: [usize; 2],
    strides: [isize; 2],
    life: PhantomData<&'a T>,
}

impl<T> Clone for View<'_, T> {
    fn clone(&self) -> Self {
        *self
    }
}

impl<T> Copy for View<'_, T> {}

impl<T> fmt::Debug for View<'_, T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("View").field("shape", &self.shape).field("strides", &self.strides).finish_non_exhaustive()
    }
}

// SAFETY: a view is a shared reference to its elements.
unsafe impl<T: Sync> Send for View<'_, T> {}
// SAFETY: as above.
unsafe impl<T: Sync> Sync for View<'_, T> {}

impl<'a, T> View<'a, T> {
    /// A matrix inside a slice: element (i, j) is `slice[offset + i * strides[0] + j * strides[1]]`.
    ///
    /// # Errors
    /// When an element would lie outside the slice.
    pub fn from_slice(slice: &'a [T], shape: [usize; 2], strides: [isize; 2], offset: usize) -> Result<Self, Error> {
        if shape.contains(&0) {
            return Ok(Self { first: NonNull::dangling(), shape, strides, life: PhantomData });
        }
        let (low, high) = extent(shape, strides, offset)
            .ok_or_else(|| Error::shape("a strided view", "within the address space", format!("{shape:?}")))?;
        if low < 0 || high >= slice.len() as i128 {
            let expected = format!("within its slice of {} elements", slice.len());
            return Err(Error::shape("a strided view", expected, format!("from {low} to {high}")));
        }
        // SAFETY: `offset` is one of the indices reached. Not of a single element: all others are reached from here,
        // too.
        let first = unsafe { NonNull::from(slice).cast::<T>().add(offset) };
        Ok(Self { first, shape, strides, life: PhantomData })
    }

    /// Rows and columns.
    pub const fn shape(&self) -> [usize; 2] {
        self.shape
    }

    /// The same matrix with rows and columns exchanged.
    #[must_use]
    pub const fn transposed(self) -> Self {
        let ([m, n], [r, c]) = (self.shape, self.strides);
        Self { shape: [n, m], strides: [c, r], ..self }
    }

    /// Element (i, j).
    pub fn get(&self, i: usize, j: usize) -> Option<&'a T> {
        if i >= self.shape[0] || j >= self.shape[1] {
            return None;
        }
        let offset = i as isize * self.strides[0] + j as isize * self.strides[1];
        // SAFETY: the view's constructor proved that every element in its shape exists.
        Some(unsafe { self.first.offset(offset).as_ref() })
    }

    /// Copies `into.len()` elements of row `i` from column `j` on, each through `f`. Columns beyond
    /// the matrix are left alone.
    pub(crate) fn read<U>(&self, i: usize, j: usize, into: &mut [U], f: impl Fn(T) -> U)
    where
        T: Copy,
    {
        let [rows, columns] = self.shape;
        if i >= rows || j >= columns {
            return;
        }
        let count = into.len().min(columns - j);
        self.read_block([i..i + 1, j..j + count], into, count, f);
    }

    /// Copies a block, each element through `f`: row after row, `ld` elements apart.
    ///
    /// # Panics
    /// When the block is not inside the matrix, or `into` is too short.
    #[inline]
    pub(crate) fn read_block<U>(
        &self,
        [rows, columns]: [Range<usize>; 2],
        into: &mut [U],
        ld: usize,
        f: impl Fn(T) -> U,
    ) where
        T: Copy,
    {
        if rows.is_empty() || columns.is_empty() {
            return;
        }
        assert!(rows.end <= self.shape[0] && columns.end <= self.shape[1] && columns.len() <= ld);
        let ([down, right], width) = (self.strides, columns.len());
        // SAFETY: every element (i, j) of the block lies in the shape, as `get` argues.
        let at = |i: usize, j: usize| unsafe { self.first.as_ptr().offset(i as isize * down + j as isize * right) };
        if right == 1 && down == width as isize && ld == width {
            // SAFETY: the rows follow one another.
            let run = unsafe { core::slice::from_raw_parts(at(rows.start, columns.start), rows.len() * width) };
            into[..run.len()].iter_mut().zip(run).for_each(|(to, &x)| *to = f(x));
            return;
        }
        if right == 1 {
            for (to, i) in into.chunks_mut(ld).zip(rows) {
                // SAFETY: `width` elements of row i, one after another.
                let run = unsafe { core::slice::from_raw_parts(at(i, columns.start), width) };
                // The next row may be far away: processors expect what follows, not it.
                #[cfg(target_arch = "x86_64")]
                for byte in (0..width * size_of::<T>()).step_by(64) {
                    use core::arch::x86_64::_MM_HINT_T0;
                    let next = run.as_ptr().wrapping_offset(down).cast::<u8>();
                    crate::simd::prefetch::<_MM_HINT_T0, _>(next.wrapping_add(byte));
                }
                to[..width].iter_mut().zip(run).for_each(|(to, &x)| *to = f(x));
            }
            return;
        }
        // Squares, so that every cache line is used up before it is gone, whatever way the lines run.
        for (to, i) in into.chunks_mut(SQUARE * ld).zip(rows.clone().step_by(SQUARE)) {
            for j in columns.clone().step_by(SQUARE) {
                for (to, i) in to.chunks_mut(ld).zip(i..rows.end.min(i + SQUARE)) {
                    let to = &mut to[j - columns.start..width.min(j - columns.start + SQUARE)];
                    // SAFETY: as above.
                    to.iter_mut().zip(j..).for_each(|(to, j)| *to = f(unsafe { *at(i, j) }));
                }
            }
        }
    }

    /// Copies a block of codes, their low 32 bits, as [`View::read_block`] does; where columns are each in one piece, a
    /// square after another.
    ///
    /// # Panics
    /// As there.
    pub(crate) fn read_words(&self, [rows, columns]: [Range<usize>; 2], into: &mut [u32], ld: usize)
    where
        T: Word,
    {
        #[cfg(target_arch = "x86_64")]
        if self.strides[1] != 1
            && let Some(lines) = self.transposed().rows()
        {
            use crate::simd::squares::{SIDE, turn};
            assert!(columns.len() <= ld);
            let (line, squares) = (|j: usize| &lines.row(j)[rows.clone()], columns.len() / SIDE * SIDE);
            let eight = |j: usize| core::array::from_fn::<_, SIDE, _>(|n| line(columns.start + j + n));
            let mut done = 0;
            for j in (0..squares).step_by(SIDE) {
                let next = if j + SIDE < squares { eight(j + SIDE) } else { [&[][..]; SIDE] };
                done = turn(eight(j), next, &mut into[j..], ld);
            }
            if done > 0 {
                let beside = [rows.clone(), columns.start + squares..columns.end];
                self.read_block(beside, &mut into[squares..], ld, T::word);
                if done < rows.len() {
                    let below = [rows.start + done..rows.end, columns.start..columns.start + squares];
                    self.read_block(below, &mut into[done * ld..], ld, T::word);
                }
                return;
            }
        }
        self.read_block([rows, columns], into, ld, T::word);
    }

    /// Asks for the elements, row by row where rows follow one another, to be brought into the caches.
    pub(crate) fn prefetch(&self) {
        #[cfg(target_arch = "x86_64")]
        if self.strides == [self.shape[1] as isize, 1] {
            use core::arch::x86_64::_MM_HINT_T0;
            for byte in (0..size_of::<T>() * self.shape[0] * self.shape[1]).step_by(64) {
                crate::simd::prefetch::<_MM_HINT_T0, _>(self.first.as_ptr().cast::<u8>().wrapping_add(byte));
            }
        }
    }

    /// A part of the matrix.
    ///
    /// # Panics
    /// When it is not inside.
    pub(crate) fn part(&self, [rows, columns]: [Range<usize>; 2]) -> Self {
        let shape = [rows.len(), columns.len()];
        assert!(rows.end <= self.shape[0] && columns.end <= self.shape[1]);
        if shape.contains(&0) {
            return Self { first: NonNull::dangling(), shape, ..*self };
        }
        let offset = rows.start as isize * self.strides[0] + columns.start as isize * self.strides[1];
        // SAFETY: (rows.start, columns.start) lies in the shape, as `get` argues.
        Self { first: unsafe { self.first.offset(offset) }, shape, ..*self }
    }

    /// The elements as integers of their size, where they are numbers whose codes are their bits in memory.
    pub(crate) fn words<U: 'static>(self) -> Option<View<'a, U>>
    where
        T: 'static,
    {
        let Self { first, shape, strides, .. } = self;
        // The two types have one size and alignment, and all bit patterns are valid in both.
        are_words::<T, U>().then_some(View { first: first.cast(), shape, strides, life: PhantomData })
    }

    /// Its rows, if the elements of each are one after another.
    pub(crate) fn rows(self) -> Option<Rows<'a, T>> {
        (self.strides[1] == 1 && self.shape[1] > 0).then_some(Rows(self))
    }

    /// A row, if its elements are one after another.
    #[cfg(target_arch = "x86_64")]
    pub(crate) fn row(&self, i: usize) -> Option<&'a [T]> {
        let contiguous = self.strides[1] == 1 && i < self.shape[0] && self.shape[1] > 0;
        // SAFETY: the row's elements exist, as `get` argues.
        contiguous.then(|| unsafe {
            core::slice::from_raw_parts(self.first.as_ptr().offset(i as isize * self.strides[0]), self.shape[1])
        })
    }
}

/// A matrix with the elements of each row one after another.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Rows<'a, T>(View<'a, T>);

impl<'a, T> Rows<'a, T> {
    /// Rows that follow one another: as many as are whole.
    pub(crate) fn of(slice: &'a [T], columns: usize) -> Self {
        let (rows, strides) = (slice.len().checked_div(columns).unwrap_or(0), [columns as isize, 1]);
        Self(View { first: NonNull::from(slice).cast(), shape: [rows, columns], strides, life: PhantomData })
    }

    /// A row.
    ///
    /// # Panics
    /// When there is none.
    #[inline(always)]
    pub(crate) fn row(&self, i: usize) -> &'a [T] {
        let View { first, shape: [rows, columns], strides: [apart, _], .. } = self.0;
        assert!(i < rows);
        // SAFETY: the row's elements exist, as `View::get` argues, and are one after another.
        unsafe { core::slice::from_raw_parts(first.as_ptr().offset(i as isize * apart), columns) }
    }
}

/// That a number lies in memory as its code does. The crates of `f16`, `bf16` and the fp8 types promise it: each is
/// transparent over an integer that holds its bits. So are this crate's own types.
const fn is_like<T, U>() -> bool {
    size_of::<T>() == size_of::<U>() && align_of::<T>() == align_of::<U>()
}

const _: () = assert!(is_like::<f32, u32>() && is_like::<f64, u64>() && is_like::<Tf32, u32>());
const _: () = assert!(is_like::<E5M2Fnuz, u8>() && is_like::<E4M3Fnuz, u8>() && is_like::<E2M1, u8>());
const _: () = assert!(is_like::<E3M2, u8>() && is_like::<E2M3, u8>());
#[cfg(feature = "half")]
const _: () = assert!(is_like::<half::f16, u16>() && is_like::<half::bf16, u16>());
#[cfg(feature = "float8")]
const _: () = assert!(is_like::<float8::F8E4M3, u8>() && is_like::<float8::F8E5M2, u8>());

/// Whether one of two types is a number's, the other its codes', and the codes are the bits in memory: then both have
/// one size and alignment, and all bit patterns are valid in both.
fn are_words<T: 'static, U: 'static>() -> bool {
    let is = |x: TypeId| [TypeId::of::<T>(), TypeId::of::<U>()].contains(&x);
    let float =
        (is(TypeId::of::<f32>()) && is(TypeId::of::<u32>())) || (is(TypeId::of::<f64>()) && is(TypeId::of::<u64>()));
    #[cfg(feature = "half")]
    let float = float || ((is(TypeId::of::<half::f16>()) || is(TypeId::of::<half::bf16>())) && is(TypeId::of::<u16>()));
    #[cfg(feature = "float8")]
    let float =
        float || ((is(TypeId::of::<float8::F8E4M3>()) || is(TypeId::of::<float8::F8E5M2>())) && is(TypeId::of::<u8>()));
    let own = [
        TypeId::of::<E5M2Fnuz>(),
        TypeId::of::<E4M3Fnuz>(),
        TypeId::of::<E3M2>(),
        TypeId::of::<E2M3>(),
        TypeId::of::<E2M1>(),
    ];
    float
        || (is(TypeId::of::<Tf32>()) && is(TypeId::of::<u32>()))
        || (own.into_iter().any(is) && is(TypeId::of::<u8>()))
}

/// Elements as integers of their size, where they are numbers whose codes are their bits in memory.
pub(crate) fn words<T: 'static, U: 'static>(elements: &[T]) -> Option<&[U]> {
    // SAFETY: what `are_words` says.
    are_words::<T, U>().then(|| unsafe { core::slice::from_raw_parts(elements.as_ptr().cast(), elements.len()) })
}

/// The same, to be written to.
pub(crate) fn words_mut<T: 'static, U: 'static>(elements: &mut [T]) -> Option<&mut [U]> {
    // SAFETY: what `are_words` says.
    are_words::<T, U>()
        .then(|| unsafe { core::slice::from_raw_parts_mut(elements.as_mut_ptr().cast(), elements.len()) })
}

/// An unsigned integer that holds a code.
pub(crate) trait Word: crate::simd::buffer::Plain {
    /// Its low 32 bits.
    fn word(self) -> u32;
}

macro_rules! words {
    ($($ty:ty),*) => { $(impl Word for $ty {
        #[inline]
        #[allow(clippy::unnecessary_cast, reason = "one body for all widths")]
        fn word(self) -> u32 { self as u32 }
    })* };
}
words!(u8, u16, u32, u64);

/// Rows and columns of a square whose lines the first-level cache holds in either direction.
const SQUARE: usize = 16;

/// The lowest and highest index reached, if they can be computed.
fn extent(shape: [usize; 2], strides: [isize; 2], offset: usize) -> Option<(i128, i128)> {
    let mut low = offset as i128;
    let mut high = low;
    for (n, s) in shape.into_iter().zip(strides) {
        let reach = (n as i128 - 1).checked_mul(s as i128)?;
        isize::try_from(reach).ok()?;
        if reach < 0 {
            low += reach;
        } else {
            high += reach;
        }
    }
    Some((low, high))
}

impl<'a, T> From<ArrayView2<'a, T>> for View<'a, T> {
    fn from(array: ArrayView2<'a, T>) -> Self {
        let shape = [array.nrows(), array.ncols()];
        let strides = [array.strides()[0], array.strides()[1]];
        let first = NonNull::new(array.as_ptr().cast_mut()).unwrap_or(NonNull::dangling());
        // ndarray keeps the invariant this type needs: every element of a non-empty shape exists.
        Self { first, shape, strides, life: PhantomData }
    }
}

impl<'a, T, S: Data<Elem = T>> From<&'a ArrayBase<S, Ix2>> for View<'a, T> {
    fn from(array: &'a ArrayBase<S, Ix2>) -> Self {
        array.view().into()
    }
}

/// A matrix to write to, inside a slice: element (i, j) is
/// `slice[offset + i * strides[0] + j * strides[1]]`.
#[derive(Debug)]
pub struct ViewMut<'a, T> {
    slice: &'a mut [T],
    shape: [usize; 2],
    strides: [isize; 2],
    offset: usize,
}

impl<'a, T> ViewMut<'a, T> {
    /// A matrix inside a slice.
    ///
    /// # Errors
    /// When an element would lie outside the slice, or two would lie in one place.
    pub fn from_slice(
        slice: &'a mut [T],
        shape: [usize; 2],
        strides: [isize; 2],
        offset: usize,
    ) -> Result<Self, Error> {
        View::from_slice(slice, shape, strides, offset)?;
        let empty = shape.contains(&0);
        if !empty && shape.iter().zip(&strides).any(|(&n, &s)| n > 1 && s == 0) {
            return Err(Error::shape("a writable view", "without a zero stride", format!("{strides:?}")));
        }
        if !empty && overlaps(shape, strides.map(isize::unsigned_abs)) {
            return Err(Error::shape("a writable view", "one place for each element", format!("strides {strides:?}")));
        }
        Ok(Self { slice, shape, strides, offset })
    }

    /// Rows and columns.
    pub const fn shape(&self) -> [usize; 2] {
        self.shape
    }

    /// All from the first element on, and how far rows are apart, if their elements are one after another and rows do
    /// not overlap.
    pub(crate) fn rows_mut(&mut self) -> Option<(&mut [T], usize)> {
        let ([_, n], [down, right]) = (self.shape, self.strides);
        let down = usize::try_from(down).ok().filter(|down| right == 1 && *down >= n)?;
        Some((self.slice.get_mut(self.offset..)?, down))
    }

    fn at(&self, i: usize, j: usize) -> Option<usize> {
        if i >= self.shape[0] || j >= self.shape[1] {
            return None;
        }
        self.offset.checked_add_signed(i as isize * self.strides[0] + j as isize * self.strides[1])
    }

    /// Element (i, j).
    pub fn get(&self, i: usize, j: usize) -> Option<&T> {
        self.slice.get(self.at(i, j)?)
    }

    /// Element (i, j), to be changed.
    pub fn get_mut(&mut self, i: usize, j: usize) -> Option<&mut T> {
        let at = self.at(i, j)?;
        self.slice.get_mut(at)
    }

    /// Writes `from`, row after row of `width`, from row `i` and column `j` on, each through `f`. What is beyond the
    /// matrix is left out.
    pub(crate) fn write<U: Copy>(&mut self, [i, j]: [usize; 2], width: usize, from: &[U], f: impl Fn(U) -> T) {
        let count = width.min(self.shape[1].saturating_sub(j));
        let contiguous = self.strides[1] == 1;
        for (i, from) in (i..).zip(from.chunks(width.max(1))) {
            let from = &from[..count.min(from.len())];
            match self.at(i, j).and_then(|at| self.slice.get_mut(at..at.checked_add(from.len())?)) {
                Some(row) if contiguous => row.iter_mut().zip(from).for_each(|(to, &x)| *to = f(x)),
                _ => (j..).zip(from).for_each(|(j, &x)| {
                    if let Some(to) = self.get_mut(i, j) {
                        *to = f(x);
                    }
                }),
            }
        }
    }
}

/// Whether two elements lie in one place: so many rows apart are as far as so many columns. No stride is 0 but of a
/// single row or column.
fn overlaps([m, n]: [usize; 2], [down, right]: [usize; 2]) -> bool {
    let gcd = |mut a: usize, mut b: usize| {
        while b > 0 {
            (a, b) = (b, a % b);
        }
        a
    };
    let common = gcd(down, right).max(1);
    m > 1 && n > 1 && right / common < m && down / common < n
}

#[cfg(test)]
mod tests {
    use super::*;
    use ndarray::{Array2, s};

    #[test]
    fn written_views_have_one_place_for_each_element() {
        let mut random = 1u64;
        let mut below = |n: u64| {
            random = random.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1);
            (random >> 33) % n
        };
        let mut found = [0; 2];
        for _ in 0..4000 {
            let [m, n] = [1 + below(6) as usize, 1 + below(6) as usize];
            let [down, right] = [below(15) as isize - 7, below(15) as isize - 7];
            let places = (0..m as isize).flat_map(|i| (0..n as isize).map(move |j| i * down + j * right));
            let distinct = places.clone().collect::<std::collections::BTreeSet<_>>().len() == places.count();
            let mut slice = [0u8; 200];
            let view = ViewMut::from_slice(&mut slice, [m, n], [down, right], 100);
            assert_eq!(view.is_ok(), distinct, "{m} x {n}, {down}, {right}");
            found[usize::from(distinct)] += 1;
        }
        assert!(found.iter().all(|&n| n > 400), "{found:?}");
    }

    #[test]
    fn any_layout_reads_as_ndarray_does() {
        let base = Array2::from_shape_fn((7, 9), |(i, j)| i * 100 + j);
        let row = Array2::from_shape_fn((1, 9), |(_, j)| j);
        let views = [
            base.view(),
            base.t(),
            base.slice(s![..;-2, 1..;3]),
            base.slice(s![2..2, ..]),
            row.broadcast((4, 9)).expect("broadcast"),
        ];
        for array in views {
            let view = View::from(array);
            for ((i, j), x) in array.indexed_iter() {
                assert_eq!(view.get(i, j), Some(x));
                let mut run = vec![0; array.ncols() - j];
                view.read(i, j, &mut run, |x| x);
                assert_eq!(run, array.slice(s![i, j..]).to_vec());
            }
            assert_eq!(view.get(array.nrows(), 0), None);
        }
    }

    #[test]
    fn bounds_are_proved() {
        let data = [0; 12];
        assert!(View::from_slice(&data, [3, 4], [4, 1], 0).is_ok());
        assert!(View::from_slice(&data, [3, 4], [-4, 1], 8).is_ok());
        assert!(View::from_slice(&data, [3, 4], [-4, 1], 7).is_err());
        assert!(View::from_slice(&data, [3, 5], [4, 1], 0).is_err());
        assert!(View::from_slice(&data, [usize::MAX, 2], [isize::MAX, 1], 0).is_err());
        assert!(View::from_slice(&data, [0, 5], [4, 1], 99).is_ok());
        assert!(ViewMut::from_slice(&mut [0; 12], [3, 4], [0, 1], 0).is_err());
    }

    /// Blocks of columns that are each in one piece, forwards, backwards and of one column, against one element after
    /// another.
    #[test]
    fn words_are_read_by_squares() {
        fn check<T: Word>(codes: &[T]) {
            for strides in [[1, 61], [1, -61], [1, 0], [61, 1], [-61, 1], [1, 61 * 2]] {
                let first = if strides.contains(&-61) { 61 * 40 } else { 0 };
                let [m, n] = [41, if strides[1] == 122 { 20 } else { 40 }];
                let view = View::from_slice(codes, [m, n], strides, first).unwrap();
                for (i, j, rows, columns) in
                    [(0, 0, m, n), (3, 1, 8, 8), (5, 2, 17, 9), (1, 0, 7, 16), (2, 3, 30, 15), (9, 9, 9, 1)]
                {
                    let ld = columns + 3;
                    let mut words = vec![7; (rows - 1) * ld + columns];
                    view.read_words([i..i + rows, j..j + columns], &mut words, ld);
                    for (at, word) in words.into_iter().enumerate() {
                        let expected = (at % ld < columns).then(|| view.get(i + at / ld, j + at % ld).unwrap().word());
                        assert_eq!(word, expected.unwrap_or(7), "{strides:?} {i} {j} {rows} {columns}");
                    }
                }
            }
        }
        let word = |n: u32| n.wrapping_mul(0x9E37_79B9) >> 3;
        check::<u8>(&(0..61 * 41).map(|n| word(n) as u8).collect::<Vec<_>>());
        check::<u16>(&(0..61 * 41).map(|n| word(n) as u16).collect::<Vec<_>>());
        check::<u32>(&(0..61 * 41).map(word).collect::<Vec<_>>());
        check::<u64>(&(0..61 * 41).map(|n| u64::from(word(n)) << 17).collect::<Vec<_>>());
    }
}
