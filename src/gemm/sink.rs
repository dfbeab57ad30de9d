//! Where D goes.

use super::kernel::Lanes;
use crate::format::{Format, FormatSpec, Overflow};
use crate::round::Rounding;
use crate::view::{ViewMut, words_mut};
use ndarray::ArrayViewMut2;

/// Codes of D on their way out.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Run<'a> {
    Narrow(&'a [u32]),
    Wide(&'a [u64]),
}

/// Where D goes, and where C comes from when D replaces it.
pub(crate) trait Sink: Send {
    fn shape(&self) -> [usize; 2];

    /// Writes codes of D's format from row `i` and column `j` on, row after row of `width`.
    fn write(&mut self, at: [usize; 2], width: usize, codes: Run<'_>);

    /// D's own memory from its first element on, and how far its rows are apart, if codes of 32 or 64 bits stand there
    /// row by row.
    fn in_place(&mut self) -> Option<(Lanes<'_>, usize)> {
        None
    }

    /// What stands there now: codes of row `i` from column `j` on.
    fn read(&self, i: usize, j: usize, into: &mut [u64]);
}

/// An array of values, which may be of a wider type than D.
pub(crate) struct Values<'a, T> {
    pub(crate) array: ArrayViewMut2<'a, T>,
    pub(crate) d: FormatSpec,
}

/// A code of D's format as a value of a wider type.
#[inline]
fn value<T: Format>(d: &FormatSpec, code: u64) -> T {
    // Exact: the caller made sure that T holds every number of D's format.
    let widened = T::SPEC.encode_f64(d.to_f64(code), Rounding::NearestEven, Overflow::Ieee);
    T::from_bits(widened.unwrap_or(0))
}

/// Values of codes, row after row of `width`, from an element on.
fn put<T: Format, C: Copy>(
    array: &mut ArrayViewMut2<'_, T>,
    [i, j]: [usize; 2],
    width: usize,
    codes: &[C],
    d: &FormatSpec,
    code: impl Fn(C) -> u64,
) {
    // Once for all: formats are compared by their names too.
    let own = T::SPEC == *d;
    let value = |x: C| if own { T::from_bits(code(x)) } else { value(d, code(x)) };
    if array.ncols() == width
        && let Some(all) = array.as_slice_mut()
    {
        all[i * width..].iter_mut().zip(codes).for_each(|(to, &x)| *to = value(x));
        return;
    }
    for (codes, mut row) in codes.chunks(width.max(1)).zip(array.outer_iter_mut().skip(i)) {
        match row.as_slice_mut() {
            Some(row) => row[j..].iter_mut().zip(codes).for_each(|(to, &x)| *to = value(x)),
            None => row.iter_mut().skip(j).zip(codes).for_each(|(to, &x)| *to = value(x)),
        }
    }
}

impl<T: Format> Sink for Values<'_, T> {
    fn shape(&self) -> [usize; 2] {
        [self.array.nrows(), self.array.ncols()]
    }

    fn in_place(&mut self) -> Option<(Lanes<'_>, usize)> {
        let ld = self.array.ncols();
        let elements = self.array.as_slice_mut().filter(|_| T::SPEC == self.d)?;
        let lanes = match size_of::<T>() {
            4 => Lanes::Narrow(words_mut(elements)?),
            _ => Lanes::Wide(words_mut(elements)?),
        };
        Some((lanes, ld))
    }

    fn write(&mut self, at: [usize; 2], width: usize, codes: Run<'_>) {
        let (d, array) = (self.d, &mut self.array);
        match codes {
            Run::Narrow(codes) => put(array, at, width, codes, &d, u64::from),
            Run::Wide(codes) => put(array, at, width, codes, &d, |code| code),
        }
    }

    fn read(&self, i: usize, j: usize, into: &mut [u64]) {
        for (t, to) in into.iter_mut().enumerate() {
            *to = self.array[[i, j + t]].to_bits();
        }
    }
}

/// A matrix of bit patterns to write to, each code in the low bits of an unsigned integer.
#[derive(Debug)]
pub enum CodesMut<'a> {
    /// One byte per code.
    U8(ViewMut<'a, u8>),
    /// Two bytes per code.
    U16(ViewMut<'a, u16>),
    /// Four bytes per code.
    U32(ViewMut<'a, u32>),
    /// Eight bytes per code.
    U64(ViewMut<'a, u64>),
}

macro_rules! each_width_mut {
    ($codes:expr, $view:ident => $body:expr) => {
        match $codes {
            CodesMut::U8($view) => $body,
            CodesMut::U16($view) => $body,
            CodesMut::U32($view) => $body,
            CodesMut::U64($view) => $body,
        }
    };
}

impl CodesMut<'_> {
    /// Bits per stored code.
    pub const fn width(&self) -> u32 {
        match self {
            Self::U8(_) => 8,
            Self::U16(_) => 16,
            Self::U32(_) => 32,
            Self::U64(_) => 64,
        }
    }
}

impl Sink for CodesMut<'_> {
    fn shape(&self) -> [usize; 2] {
        each_width_mut!(self, view => view.shape())
    }

    fn in_place(&mut self) -> Option<(Lanes<'_>, usize)> {
        match self {
            Self::U8(_) | Self::U16(_) => None,
            Self::U32(view) => view.rows_mut().map(|(codes, ld)| (Lanes::Narrow(codes), ld)),
            Self::U64(view) => view.rows_mut().map(|(codes, ld)| (Lanes::Wide(codes), ld)),
        }
    }

    fn write(&mut self, at: [usize; 2], width: usize, codes: Run<'_>) {
        match codes {
            Run::Narrow(codes) => each_width_mut!(self, view => view.write(at, width, codes, |code| code as _)),
            Run::Wide(codes) => each_width_mut!(self, view => view.write(at, width, codes, |code| code as _)),
        }
    }

    fn read(&self, i: usize, j: usize, into: &mut [u64]) {
        for (j, to) in (j..).zip(into) {
            *to = each_width_mut!(self, view => view.get(i, j).copied().map_or(0, u64::from));
        }
    }
}
