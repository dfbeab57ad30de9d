//! Matrix-vector products as vector-matrix ones.
//!
//! Kernels have columns of B in their lanes, and one column leaves most lanes idle. Where nothing tells A from B,
//! D^T = B^T A^T has the same bits, and its single row a kernel of its own.

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
        let matrix_by_vector = a.shape()[0] >= ROWS && b.shape()[1] == 1;
        let symmetric = unit.a == unit.b;
        let as_it_is = |format: &Option<FormatSpec>| format.is_none_or(|format| format == unit.a);
        let plain = request.formats.iter().all(as_it_is) && self.is_plain(request) && schedule.is_one_chain();
        if !(matrix_by_vector && symmetric && plain && self.isa != Some(Isa::Reference)) {
            return None;
        }
        let [a, b] = [a.codes()?.transposed(), b.codes()?.transposed()];
        // Codes too narrow for the unit's are an error that names the operand.
        let wide = [a, b].iter().all(|codes| codes.width() >= unit.a.storage_bits);
        (wide && gains(unit.recipe.as_ref()?, a.has_rows())).then_some([b, a])
    }
}

/// Whether a recipe's kernels gain by it, if A's columns are each in one piece or not. (All recipes multiply elements, and
/// block scales, which commutes, before they add; what an accumulator without one does, nobody knows.)
const fn gains(recipe: &Recipe, columns: bool) -> bool {
    match recipe {
        // Chains read A's rows where they lie.
        Recipe::Sequential(_) => columns,
        Recipe::Generic(_)
        | Recipe::RoundDown(_)
        | Recipe::GroupedRoundDown(_)
        | Recipe::Pairwise(_)
        | Recipe::GroupScaled(_) => true,
        _ => false,
    }
}

/// The place of a single column as that of a row.
pub(super) struct Turned<'a>(pub(super) &'a mut dyn Sink);

impl Sink for Turned<'_> {
    fn shape(&self) -> [usize; 2] {
        let [rows, columns] = self.0.shape();
        [columns, rows]
    }

    fn write(&mut self, [_, j]: [usize; 2], _width: usize, codes: Run<'_>) {
        self.0.write([j, 0], 1, codes);
    }

    fn read(&self, _i: usize, j: usize, into: &mut [u64]) {
        into.iter_mut().zip(j..).for_each(|(to, j)| self.0.read(j, 0, core::slice::from_mut(to)));
    }
}
