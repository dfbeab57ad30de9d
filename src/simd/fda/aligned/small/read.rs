//! A tile's operands, from codes to values and exponents: turned in registers, or by way of codes in memory where
//! products are not as they come, squares do not fill K, or steps have other lengths than 4, 8, 16 and 32 (of words of
//! 32 bits, 4 and 8).

use super::turned::{ColumnsOfB, RowsOfA};
use super::{COLUMNS, Run};
use crate::gemm::small::TileCodes;
use crate::simd::fda::MR;
use crate::simd::ops::array_of;
use crate::simd::sixteen::Extent;
use crate::simd::squares::{SIDE, turn_as_wide};
use crate::simd::wide::in_order;
use crate::view::Word;

/// Codes of a tile, of 16 or 32 bits.
pub(super) trait Code: Word + Into<u32> + Default {
    const WIDE: bool = size_of::<Self>() == 4;
}

impl Code for u16 {}
impl Code for u32 {}

impl Run<'_, '_> {
    /// Reads the operands of a tile.
    #[target_feature(enable = "avx2,fma,f16c")]
    pub(super) fn read(&mut self, t: usize) {
        let rows = match self.tiles.a[t] {
            TileCodes::Halves(a) => self.read_rows(t, a),
            TileCodes::Words(a) => self.read_rows(t, a),
        };
        let columns = match self.tiles.b[t] {
            TileCodes::Halves(b) => self.read_columns(t, b),
            TileCodes::Words(b) => self.read_columns(t, b),
        };
        if let (Some(rows), Some(columns)) = (rows, columns) {
            self.extents = [self.extents[0].and(rows), self.extents[1].and(columns)];
            return;
        }
        self.hard |= 1 << t;
        // Zeros, that others can be computed beside.
        self.panels.rows.exponents[t].fill([self.by.a.zero(); 16]);
        self.panels.columns.exponents[t].fill([self.by.b.zero(); 16]);
    }

    /// A, each position's rows side by side; its exponents, if all are finite.
    #[inline]
    #[target_feature(enable = "avx2,fma,f16c")]
    fn read_rows<T: Code>(&mut self, t: usize, a: &[T]) -> Option<Extent> {
        let (by, k) = (self.by, self.tiles.k);
        let rows = &mut self.panels.rows;
        if by.order.is_empty() && by.a.sixteen.takes_squares(T::WIDE) {
            let fraction = by.fractions.map(|_| self.fda.unit.a.fraction_bits);
            if let Some(mut squares) = RowsOfA::<T, 8>::new(a, k, fraction) {
                let extent = rows.read_squares(&by.a, t, &mut squares);
                if by.fractions.is_some_and(|most| squares.largest() > most) {
                    self.hard |= 1 << t;
                }
                return extent;
            }
            // A step of 16 products fills squares of 8 positions.
            debug_assert!(fraction.is_none());
            if let Some(mut squares) = RowsOfA::<T, 4>::new(a, k, fraction) {
                return rows.read_squares(&by.a, t, &mut squares);
            }
        }
        self.read_any_rows(t, a)
    }

    /// The same by way of codes in memory.
    #[target_feature(enable = "avx2,fma,f16c")]
    fn read_any_rows<T: Code>(&mut self, t: usize, a: &[T]) -> Option<Extent> {
        let (by, k, step) = (self.by, self.tiles.k, self.fda.unit.shape.k);
        let to = self.panels.rows.codes.view_mut::<T>();
        for half in [0, SIDE] {
            let lines: [&[T]; SIDE] = array_of(|i| &a[(half + i) * k..][..k]);
            let done = turn_as_wide(lines, &mut to[half..], 16);
            for p in done..k {
                (0..SIDE).for_each(|i| to[16 * p + half + i] = lines[i][p]);
            }
        }
        // No closures around large bodies: what is not inlined loses the instruction set.
        let mut extent = Extent::NONE;
        for from in (0..k).step_by(step) {
            extent = extent.and(self.panels.rows.read::<T>(&by.a, t, from, &by.order, step)?);
        }
        Some(extent)
    }

    /// B, by FDA, column and position; its exponents, if all are finite.
    #[inline]
    #[target_feature(enable = "avx2,fma,f16c")]
    fn read_columns<T: Code>(&mut self, t: usize, b: &[T]) -> Option<Extent> {
        let (by, k) = (self.by, self.tiles.k);
        let columns = &mut self.panels.columns;
        if by.order.is_empty() && by.b.sixteen.takes_squares(T::WIDE) {
            match (self.fda.block, T::WIDE) {
                (4, _) => {
                    if let Some(mut squares) = ColumnsOfB::<T, 4, 2>::new(b, k) {
                        return columns.read_squares(&by.b, t, &mut squares);
                    }
                }
                (8, _) => {
                    if let Some(mut squares) = ColumnsOfB::<T, 8, 4>::new(b, k) {
                        return columns.read_squares(&by.b, t, &mut squares);
                    }
                }
                (16, false) => {
                    if let Some(mut squares) = ColumnsOfB::<T, 16, 8>::new(b, k) {
                        return columns.read_squares(&by.b, t, &mut squares);
                    }
                }
                (32, false) => {
                    if let Some(mut squares) = ColumnsOfB::<T, 32, 8>::new(b, k) {
                        return columns.read_squares(&by.b, t, &mut squares);
                    }
                }
                _ => (),
            }
        }
        self.read_any_columns(t, b)
    }

    /// The same by way of codes in memory.
    #[target_feature(enable = "avx2,fma,f16c")]
    fn read_any_columns<T: Code>(&mut self, t: usize, b: &[T]) -> Option<Extent> {
        let (by, k, step, l) = (self.by, self.tiles.k, self.fda.unit.shape.k, self.fda.block);
        let to = self.panels.columns.codes.view_mut::<T>();
        let line = |p: usize| {
            let place = if by.order.is_empty() { p } else { p / step * step + by.order[p % step] };
            &b[place * COLUMNS..][..COLUMNS]
        };
        if l >= SIDE {
            for s in (0..k).step_by(l) {
                for from in (0..l).step_by(SIDE) {
                    turn_as_wide(array_of(|i| line(s + from + i)), &mut to[s * MR + from..], l);
                }
            }
        } else {
            for p in 0..k {
                let place = p / l * MR * l + p % l;
                line(p).iter().enumerate().for_each(|(j, &code)| to[place + j * l] = code);
            }
        }
        // An odd K ends within the last sixteen.
        let flat = (k * MR).div_ceil(16);
        to[k * MR..16 * flat].fill(T::default());
        self.panels.columns.read::<T>(&by.b, t, 0, &[], flat)
    }

    /// Leaves out tiles whose sums might leave 31 bits, as packing does with rows of A.
    #[target_feature(enable = "avx2,fma,f16c")]
    pub(super) fn weigh(&mut self) {
        if !self.by.weighs || self.by.fractions.is_some() {
            return;
        }
        let (l, fraction_bits) = (self.fda.block, self.fda.unit.a.fraction_bits);
        let limit = ((u64::from(self.fda.risk_limit()) + 1) << (23 - fraction_bits)) - 1;
        for (t, values) in self.panels.rows.values.iter().enumerate().take(self.tiles.count) {
            let mut most = [0u32; 16];
            for values in values[..self.tiles.k].chunks_exact(l) {
                let mut sum = [0u32; 16];
                for values in values {
                    in_order();
                    for j in 0..16 {
                        sum[j] += values[j].to_bits() & 0x7F_FFFF | 0x80_0000;
                    }
                }
                for j in 0..16 {
                    most[j] = most[j].max(sum[j]);
                }
            }
            if u64::from(most.into_iter().fold(0, u32::max)) > limit {
                self.hard |= 1 << t;
            }
        }
    }
}
