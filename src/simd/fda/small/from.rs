//! Values of A's lanes, made of words while products are summed.

#![allow(unsafe_code, reason = "functions for one instruction set, and loads of words")]

use super::step::Columns;
use super::words::OR_AND;
use super::{Words, load};
use core::arch::x86_64::*;

/// Values of highest words at the tops of their lanes, enlarged by these bits.
#[inline]
#[target_feature(enable = "avx512f")]
pub(super) fn extended(x: __m512i, enlarge: i64) -> __m512d {
    let (word, enlarge) = (_mm512_set1_epi64(-1 << 48), _mm512_set1_epi64(enlarge));
    _mm512_castsi512_pd(_mm512_ternarylogic_epi64::<OR_AND>(enlarge, x, word))
}

/// How values are made of words at the tops of their lanes, none of them subnormal or zero: moved down, masked, and
/// this added.
#[derive(Clone, Copy, Debug)]
pub(super) struct Fields {
    pub(super) down: i64,
    pub(super) mask: i64,
    pub(super) bias: i64,
}

impl Fields {
    #[inline]
    #[target_feature(enable = "avx512f")]
    pub(super) fn lanes(&self) -> FieldLanes {
        let Self { down, mask, bias } = *self;
        FieldLanes { down: _mm512_set1_epi64(down), mask: _mm512_set1_epi64(mask), bias: _mm512_set1_epi64(bias) }
    }
}

/// The same in every lane: made before a loop, so that it stays in registers.
#[derive(Clone, Copy, Debug)]
pub(super) struct FieldLanes {
    down: __m512i,
    mask: __m512i,
    bias: __m512i,
}

impl FieldLanes {
    #[inline]
    #[target_feature(enable = "avx512f")]
    pub(super) fn values(&self, x: __m512i) -> __m512d {
        let fields = _mm512_and_si512(_mm512_srav_epi64(x, self.down), self.mask);
        _mm512_castsi512_pd(_mm512_add_epi64(fields, self.bias))
    }
}

/// Words of a step's positions, as values are made of them when they are wanted: that is once only, and while products
/// are summed there is time for it.
#[derive(Clone, Copy, Debug)]
pub(super) struct FromWords {
    pub(super) words: *const [Words; 2],
    pub(super) fields: Fields,
}

/// The same of highest words, whose values are enlarged by these bits.
#[derive(Clone, Copy, Debug)]
pub(super) struct FromHighest {
    pub(super) words: *const [Words; 2],
    pub(super) enlarge: i64,
}

impl Columns for FromWords {
    /// How far words move up, and how values are made.
    type Step = (__m512i, FieldLanes);

    #[inline]
    #[target_feature(enable = "avx512f")]
    unsafe fn step(self, t: usize, _l: usize) -> (__m512i, FieldLanes) {
        (up(t), self.fields.lanes())
    }

    #[inline]
    #[target_feature(enable = "avx512f")]
    unsafe fn values(self, (up, fields): (__m512i, FieldLanes), k: usize) -> [__m512d; 2] {
        // SAFETY: the caller has words of this position.
        let [even, odd] = unsafe { moved(self.words.add(k), up) };
        [fields.values(even), fields.values(odd)]
    }
}

impl Columns for FromHighest {
    /// How far words move up.
    type Step = __m512i;

    #[inline]
    #[target_feature(enable = "avx512f")]
    unsafe fn step(self, t: usize, _l: usize) -> __m512i {
        up(t)
    }

    #[inline]
    #[target_feature(enable = "avx512f")]
    unsafe fn values(self, step: __m512i, k: usize) -> [__m512d; 2] {
        // SAFETY: the caller has words of this position.
        let [even, odd] = unsafe { moved(self.words.add(k), step) };
        [extended(even, self.enlarge), extended(odd, self.enlarge)]
    }
}

/// How far the words of tile `t` move to the tops of their lanes.
#[inline]
#[target_feature(enable = "avx512f")]
fn up(t: usize) -> __m512i {
    _mm512_set1_epi64(48 - 16 * t as i64)
}

/// Words of a position so moved.
///
/// # Safety
/// They are there.
#[inline]
#[target_feature(enable = "avx512f")]
unsafe fn moved(words: *const [Words; 2], up: __m512i) -> [__m512i; 2] {
    // SAFETY: the caller's promise.
    let [even, odd] = unsafe { &*words };
    [_mm512_sllv_epi64(load(even), up), _mm512_sllv_epi64(load(odd), up)]
}
