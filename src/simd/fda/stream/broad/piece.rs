//! A piece of 4 rows by 32 columns, in assembly (`piece.s`), and the way there.

use super::{Start, VECTORS_OF_PIECE, Work};
use crate::simd::fda::out;
use core::arch::{asm, naked_asm};
use core::mem::{offset_of, size_of};
use std::arch::x86_64::*;

/// The code for results of a kind and steps of `L` products: where some f16 may be infinite already (`ENDLESS`), sums
/// are watched (`CHECK`), or c comes last (`LAST`, where an f16 may be infinite, too).
#[unsafe(naked)]
unsafe extern "C" fn piece<const OUT: u8, const ENDLESS: bool, const CHECK: bool, const LAST: bool, const L: usize>() {
    naked_asm!(
        include_str!("piece.s"),
        l = const L,
        cut = const (OUT == out::F32_CUT) as u8,
        rne = const (OUT == out::F32_RNE) as u8,
        rd = const (OUT == out::F32_RD) as u8,
        ru = const (OUT == out::F32_RU) as u8,
        f16 = const (OUT == out::F16_RNE) as u8,
        down = const (OUT == out::ROUND_DOWN) as u8,
        endless = const ENDLESS as u8,
        watched = const CHECK as u8,
        last = const LAST as u8,
        start = const size_of::<Start>(),
        more = const offset_of!(Work, more),
        steps = const offset_of!(Work, steps),
        last_piece = const offset_of!(Work, last),
        last_c = const offset_of!(Work, last_c),
        next_a_val = const offset_of!(Work, next.a_val),
        next_b_val = const offset_of!(Work, next.b_val),
        next_a_exp = const offset_of!(Work, next.a_exp),
        next_b_exp = const offset_of!(Work, next.b_exp),
        next_a_sign = const offset_of!(Work, next.a_sign),
        next_b_sign = const offset_of!(Work, next.b_sign),
        next_c = const offset_of!(Work, next.c),
        rests = const offset_of!(Start, rests),
        c_in_q = const offset_of!(Work, c_in_q),
        limit = const offset_of!(Work, limit),
        most = const offset_of!(Work, most),
        over = const offset_of!(Work, over),
        tiny = const offset_of!(Work, tiny),
        safe = const offset_of!(Work, safe),
        small = const offset_of!(Work, small),
        kept = const offset_of!(Work, kept),
        low = const offset_of!(Work, low),
        high = const offset_of!(Work, high),
        watched_bits = const offset_of!(Work, watched),
        sub = const offset_of!(Work, sub),
        floor = const offset_of!(Work, floor),
        up = const offset_of!(Work, up),
        down_by = const offset_of!(Work, down),
        exponent = const offset_of!(Work, exponent),
        half = const offset_of!(Work, half),
        keep = const offset_of!(Work, keep),
        one = const offset_of!(Work, one),
        zero = const offset_of!(Work, zero),
        last_place = const offset_of!(Work, last_place),
        least_c = const offset_of!(Work, least_c),
        offset = const offset_of!(Work, offset),
        begins = const offset_of!(Work, unit_step.begins),
        first_ends = const offset_of!(Work, unit_step.first_ends),
        ends = const offset_of!(Work, unit_step.ends),
        to_c = const offset_of!(Work, unit_step.to_c),
        apart = const offset_of!(Work, unit_step.apart),
        sums_left = const offset_of!(Work, unit_step.sums_left),
        most_left = const offset_of!(Work, unit_step.most_left),
    )
}

/// The code for results of a kind and steps of `L` products; watched with `CHECK`.
pub(super) fn code<const OUT: u8, const CHECK: bool, const L: usize>() -> unsafe extern "C" fn() {
    match OUT {
        // These sums are below 2^30 q: `round_down::select` sees to it.
        out::ROUND_DOWN => piece::<OUT, false, false, false, L>,
        _ => piece::<OUT, false, CHECK, false, L>,
    }
}

/// The same for f16 results of which some may be infinite already.
pub(super) fn code_endless<const CHECK: bool, const L: usize>() -> unsafe extern "C" fn() {
    piece::<{ out::F16_RNE }, true, CHECK, false, L>
}

/// The same where c comes last.
pub(super) fn code_last<const OUT: u8, const L: usize>() -> unsafe extern "C" fn() {
    match OUT {
        out::F16_RNE => piece::<OUT, true, false, true, L>,
        _ => piece::<{ out::F32_RZ }, false, false, true, L>,
    }
}

/// Where the first piece finds what it needs: see the registers.
pub(super) struct At {
    pub(super) a: *const f64,
    pub(super) b: *const f64,
    pub(super) b_exp: *const u8,
    pub(super) a_exp: *const u32,
    pub(super) to: *mut __m512i,
    pub(super) work: *mut Work,
    pub(super) a_sign: *const u32,
    pub(super) b_sign: *const u32,
    pub(super) c: *const f32,
    pub(super) largest: *const __m512i,
    pub(super) places: *const __m512i,
    pub(super) put: *mut f32,
}

/// What a piece leaves to the next one.
pub(super) struct Carried {
    pub(super) start: *mut Start,
    pub(super) sums: [__m512i; VECTORS_OF_PIECE],
}

/// What it says.
pub(super) struct Found {
    /// The largest of the two rows' exponents, as bytes.
    pub(super) exponents: [__m512i; 2],
    /// The largest f16 of the piece before, or the largest c in units of q of the piece to come where results are
    /// rounded down.
    pub(super) peak: __m512,
    /// The bits of all sums that are watched.
    pub(super) watched: __m512i,
    /// How many pieces of the step in which it ended are left to others. Steps that were not begun are left in
    /// `Work::steps`.
    pub(super) left: usize,
}

/// A piece, and as many after it as `Work::more` and `Work::steps` say, until somebody has to look at one.
///
/// # Safety
/// For each of them what the registers lead to is there, `to` and `put` to be written, B's panels, states and `Work`
/// aligned as they are; `work` has the code of this kind of steps and its constants, and `carried` is a piece's before
/// or means one whose results go aside.
#[inline]
#[target_feature(enable = "avx512f,avx512bw,avx512dq,avx512vl,avx512vpopcntdq")]
pub(super) unsafe fn call(at: At, carried: &mut Carried) -> Found {
    let (m0, m1, peak, watched): (__m512i, __m512i, __m512, __m512i);
    let left: usize;
    let [s0, s1, s2, s3, s4, s5, s6, s7] = &mut carried.sums;
    // SAFETY: the caller's promise; the code touches nothing else, and no other registers.
    unsafe {
        asm!(
            "call [r8 + {code}]",
            code = const offset_of!(Work, code),
            inout("rdi") at.a => _,
            inout("rsi") at.b => _,
            inout("rdx") at.b_exp => _,
            inout("rcx") at.a_exp => _,
            inout("rax") at.to => left,
            in("r8") at.work,
            inout("r9") at.a_sign => _,
            inout("r10") at.b_sign => _,
            inout("r11") at.put => _,
            inout("r12") at.c => _,
            inout("r13") at.largest => _,
            inout("r14") at.places => _,
            inout("r15") carried.start,
            in("k1") 0xAAAA_u16,
            in("k2") 0x5555_u16,
            out("k3") _, out("k4") _, out("k5") _,
            out("zmm0") _, out("zmm1") _, out("zmm2") _, out("zmm3") _,
            out("zmm4") _, out("zmm5") _, out("zmm6") _, out("zmm7") _,
            out("zmm8") _, out("zmm9") _, out("zmm10") _, out("zmm11") _,
            out("zmm12") _, out("zmm13") _, out("zmm14") _, out("zmm15") _,
            inout("zmm16") *s0, inout("zmm17") *s1, inout("zmm18") *s2, inout("zmm19") *s3,
            inout("zmm20") *s4, inout("zmm21") *s5, inout("zmm22") *s6, inout("zmm23") *s7,
            out("zmm24") peak, out("zmm25") _, out("zmm26") _, out("zmm27") _,
            out("zmm28") _, out("zmm29") watched, out("zmm30") m0, out("zmm31") m1,
        );
    }
    Found { exponents: [m0, m1], peak, watched, left }
}
