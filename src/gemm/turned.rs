//! Products of many rows and few columns as ones of few rows and many columns.
//!
//! Kernels have columns of B in their lanes, and few columns leave most lanes idle. Where nothing tells A from B,
//! D^T = B^T A^T has the same bits.

use super::builder::Gemm;
use super::operand::{Codes, Source};
use super::product::Request;
use super::schedule::Schedule;
use super::sink::{Run, Sink};
use crate::accumulate::Recipe;
use crate::format::FormatSpec;
use crate::simd::Isa;

/// Rows of A from which on it is worth it.
const ROWS: usize = 64;

impl<D> Gemm<'_, D> {
    /// B^T and A^T, where D is better computed by them.
    pub(super) fn turned<'s>(
        &self,
        request: &Request<'_>,
        sources: [&'s dyn Source; 2],
        schedule: &Schedule,
    ) -> Option<[Codes<'s>; 2]> {
        let (unit, [a, b]) = (self.unit, sources);
        let ([rows, k], [_, columns]) = (a.shape(), b.shape());
        // Any A may be in one piece here: that is asked again below.
        if !self.turns(request, [rows, columns, k], schedule, true) {
            return None;
        }
        let [a, b] = [a.codes()?.transposed(), b.codes()?.transposed()];
        // Codes too narrow for the unit's are an error that names the operand.
        let wide = [a, b].iter().all(|codes| codes.width() >= unit.a.storage_bits);
        (wide && self.turns(request, [rows, columns, k], schedule, a.has_rows())).then_some([b, a])
    }

    /// Whether a product of M, N and K goes by B^T and A^T, if its operands are codes: A's columns in one piece each,
    /// or not.
    pub(super) fn turns(&self, request: &Request<'_>, [m, n, _]: [usize; 3], schedule: &Schedule, piece: bool) -> bool {
        let unit = self.unit;
        let tall = m >= ROWS && m / 4 >= n;
        let as_it_is = |format: &Option<FormatSpec>| format.is_none_or(|format| format == unit.a);
        let plain = request.formats.iter().all(as_it_is) && self.is_plain(request) && schedule.is_one_chain();
        let symmetric = unit.a == unit.b && self.isa != Some(Isa::Reference);
        let few = unit.recipe.as_ref().is_some_and(|recipe| (1..=most_columns(recipe, piece)).contains(&n));
        tall && symmetric && plain && few
    }
}

/// Up to how many columns a recipe's kernels gain by it, if A's are each in one piece or not: docs/performance.md,
/// Columns, has what it comes of. (All recipes multiply elements, and block scales, which commutes, before they add;
/// what an accumulator without one does, nobody knows.)
const fn most_columns(recipe: &Recipe, in_one_piece: bool) -> usize {
    match recipe {
        // Chains read A's rows where they lie, and have tiles of few columns.
        Recipe::Sequential(_) => in_one_piece as usize,
        // Four bits an element: what the transposition costs counts.
        Recipe::GroupScaled(_) => 4,
        Recipe::Pairwise(p) if p.group >= 4 => 4,
        Recipe::Pairwise(_) => 8,
        Recipe::Generic(g) if g.exact && g.block >= 4 => 8,
        Recipe::Generic(_) | Recipe::RoundDown(_) | Recipe::GroupedRoundDown(_) => 32,
        _ => 0,
    }
}

/// The place of D^T.
pub(super) struct Turned<'a>(pub(super) &'a mut dyn Sink);

impl Sink for Turned<'_> {
    fn shape(&self) -> [usize; 2] {
        let [rows, columns] = self.0.shape();
        [columns, rows]
    }

    fn write(&mut self, [i, j]: [usize; 2], width: usize, codes: Run<'_>) {
        // Each row is part of a column.
        match codes {
            Run::Narrow(codes) => {
                let rows = codes.chunks_exact(width).zip(i..);
                rows.for_each(|(row, i)| self.0.write([j, i], 1, Run::Narrow(row)));
            }
            Run::Wide(codes) => {
                let rows = codes.chunks_exact(width).zip(i..);
                rows.for_each(|(row, i)| self.0.write([j, i], 1, Run::Wide(row)));
            }
        }
    }

    fn read(&self, i: usize, j: usize, into: &mut [u64]) {
        into.iter_mut().zip(j..).for_each(|(to, j)| self.0.read(j, i, core::slice::from_mut(to)));
    }
}
