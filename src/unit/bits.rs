//! Dot-adds and instructions on codes, one element after another: the reference.

use super::Unit;
use crate::accumulate::Dot;
use crate::error::Error;
use crate::format::FormatSpec;
use crate::instr::{ScaleRule, Shape};
use crate::num::Num;
use crate::trace::Trace;

impl Unit {
    /// One dot-add on codes: `a` and `b` of length K.
    ///
    /// # Errors
    /// When a slice has the wrong length, or the unit needs scales.
    pub fn dot_add_bits(&self, a: &[u64], b: &[u64], c: u64) -> Result<u64, Error> {
        self.dot_add_scaled_bits(a, b, c, &[], &[])
    }

    /// One dot-add on codes, with [`Unit::scales`] scales per operand.
    ///
    /// # Errors
    /// When a slice has the wrong length.
    pub fn dot_add_scaled_bits(
        &self,
        a: &[u64],
        b: &[u64],
        c: u64,
        scale_a: &[u64],
        scale_b: &[u64],
    ) -> Result<u64, Error> {
        self.with_dot(a, b, c, scale_a, scale_b, |dot| self.accumulator.dot_add(dot))
    }

    /// One dot-add on codes, and what happened on the way ([`vectors::draw`](crate::vectors::draw) draws it for
    /// people).
    ///
    /// # Errors
    /// When a slice has the wrong length.
    pub fn trace_bits(
        &self,
        a: &[u64],
        b: &[u64],
        c: u64,
        scale_a: &[u64],
        scale_b: &[u64],
    ) -> Result<(u64, Trace), Error> {
        let mut trace = Trace::default();
        let d = self.with_dot(a, b, c, scale_a, scale_b, |dot| self.accumulator.trace(dot, &mut trace))?;
        Ok((d, trace))
    }

    /// Checks lengths, unpacks, computes, packs.
    fn with_dot(
        &self,
        a: &[u64],
        b: &[u64],
        c: u64,
        scale_a: &[u64],
        scale_b: &[u64],
        compute: impl FnOnce(&Dot<'_>) -> Num,
    ) -> Result<u64, Error> {
        let k = self.shape.k;
        check_length("a", a.len(), k)?;
        check_length("b", b.len(), k)?;
        check_length("scale_a", scale_a.len(), self.scales())?;
        check_length("scale_b", scale_b.len(), self.scales())?;
        let scaled = self.scale.map_or(0, |_| k);
        with_numbers(2 * k + 2 * scaled, self.d.zero(), |nums| {
            let (na, rest) = nums.split_at_mut(k);
            let (nb, rest) = rest.split_at_mut(k);
            let (nsa, nsb) = rest.split_at_mut(scaled);
            unpack(&self.a, a, na);
            unpack(&self.b, b, nb);
            if let Some(rule) = self.scale {
                unpack_scales(&rule, scale_a, nsa);
                unpack_scales(&rule, scale_b, nsb);
            }
            let dot = Dot { a: na, b: nb, c: self.c.decode(c), scale_a: nsa, scale_b: nsb, out: &self.d };
            Ok(self.d.encode_result(&compute(&dot)))
        })
    }

    /// One whole instruction on codes in row-major order: `a` is blocks x M x K, `b` is
    /// blocks x K x N, `c` and the result are blocks x M x N.
    ///
    /// # Errors
    /// When a slice has the wrong length, or the unit needs scales.
    pub fn mma_bits(&self, a: &[u64], b: &[u64], c: &[u64]) -> Result<Vec<u64>, Error> {
        self.mma_scaled_bits(a, b, c, &[], &[])
    }

    /// One whole block-scaled instruction on codes: as [`Unit::mma_bits`], with `scale_a` of
    /// blocks x M x [`Unit::scales`] and `scale_b` of blocks x [`Unit::scales`] x N.
    ///
    /// # Errors
    /// When a slice has the wrong length.
    pub fn mma_scaled_bits(
        &self,
        a: &[u64],
        b: &[u64],
        c: &[u64],
        scale_a: &[u64],
        scale_b: &[u64],
    ) -> Result<Vec<u64>, Error> {
        let Shape { m, n, k } = self.shape;
        let (blocks, s) = (self.blocks, self.scales());
        check_length("a", a.len(), blocks * m * k)?;
        check_length("b", b.len(), blocks * k * n)?;
        check_length("c", c.len(), blocks * m * n)?;
        check_length("scale_a", scale_a.len(), blocks * m * s)?;
        check_length("scale_b", scale_b.len(), blocks * s * n)?;
        let column = |from: &[u64], height: usize, j: usize| (0..height).map(|i| from[i * n + j]).collect::<Vec<_>>();
        let mut d = vec![0; c.len()];
        for block in 0..blocks {
            let (a, b) = (&a[block * m * k..], &b[block * k * n..]);
            let (sa, sb) = (&scale_a[block * m * s..], &scale_b[block * s * n..]);
            for j in 0..n {
                let (b_col, sb_col) = (column(b, k, j), column(sb, s, j));
                for i in 0..m {
                    let at = (block * m + i) * n + j;
                    d[at] = self.dot_add_scaled_bits(&a[i * k..][..k], &b_col, c[at], &sa[i * s..][..s], &sb_col)?;
                }
            }
        }
        Ok(d)
    }
}

/// Calls `f` with room for `count` numbers, on the stack unless they are very many. Filling the
/// room takes longer than many a dot-add, so it comes in two sizes.
fn with_numbers<R>(count: usize, fill: Num, f: impl FnOnce(&mut [Num]) -> R) -> R {
    match count {
        0..=32 => f(&mut [fill; 32][..count]),
        33..=256 => f(&mut [fill; 256][..count]),
        _ => f(&mut vec![fill; count]),
    }
}

fn unpack(format: &FormatSpec, codes: &[u64], into: &mut [Num]) {
    for (num, &code) in into.iter_mut().zip(codes) {
        *num = format.decode(code);
    }
}

fn unpack_scales(rule: &ScaleRule, codes: &[u64], into: &mut [Num]) {
    for (block, &code) in into.chunks_mut(rule.block).zip(codes) {
        block.fill(rule.format.decode(code));
    }
}

fn check_length(operand: &str, found: usize, expected: usize) -> Result<(), Error> {
    if found == expected {
        return Ok(());
    }
    Err(Error::shape(operand, format!("{expected} long"), format!("{found} long")))
}
