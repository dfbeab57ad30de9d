//! FDRDA and GFDRDA, the round-down sums of CDNA3, on the FDA's panels.
//!
//! (3) and (4), products cut toward zero below their own largest exponent and summed, are the FDA's accumulators begun
//! without c: an integer `s` in units of `q = 2^(e_dot - F)`. (5) to (7): while c and the total are below `2^32 q` no
//! floor takes a bit of the sum of products or of the total (`select` checks the widths), and the floor of c, at the
//! coarser of q and its own last place, is the one at q. So `d = RNE(s + floor(c / q)) q`: a conversion rounding down,
//! an integer addition, a conversion to nearest. From `2^30 q` on, where the sum may leave i32, in units of 2q, what
//! that cuts off the sum of products setting the last bit: totals are `2^26 q` at least, so that it lies below the one
//! that decides how d is rounded. From `3 * 2^30 q` on, where totals may reach `2^32 q`, floors are taken in f64, or as
//! below.
//!
//! From `2^30 q` on c is a whole number of q with 24 bits, and so is a sum of at most `2^29 q` once it is rounded to
//! odd at `2^5 q`; the last place of a d of `2^30 q` or more is `2^7 q` at least, so that their f32 sum to nearest is
//! the total rounded once. What a total drops from `2^32 q` on is cut off the sum first: five places at most while c is
//! below `2^35 q`. How many they are the total's exponent says. That of an f32 sum toward zero is good enough, for it
//! is wrong only next to a power of two, to which all of these totals are rounded; that of one to nearest is not.
//!
//! `avx512` has accumulators of f64, and floors in f64; `stream::broad` totals in f32 for one sum of 4 or 8 products.
//! `halves` has two sums, and totals in f32 wherever c is, two places below the total's last one instead of `2^5 q`.
//! `aligned` has sums of products truncated one by one, with both kinds of totals in f32.

pub(super) mod avx512;
mod halves;

use super::fixed::Tables;
use super::hard::Hard;
use super::run::InVain;
use super::{Fda, Reach, Set, out, same};
use crate::format::F32;
use crate::gemm::kernel::Kernel;
use crate::simd::Isa;
use crate::simd::decode::{Decoder, Reading};
use crate::simd::lanes::power;
use crate::simd::round_down::Sums;
use crate::unit::Unit;
use std::sync::{Arc, OnceLock};

/// c in units of q from which on sums could pass 2^31: with the products at most 2^30; and from which on 2^32.
pub(super) const LARGE: f32 = 1_073_741_824.0;
pub(super) const FAR: f32 = 3_221_225_472.0;
/// And from which on it is the result: sums are less than half of its last place, also of the one below a power of two.
pub(super) const ALL: f32 = (1_u64 << 56) as f32;
/// From which on more than five places of a total are dropped (`Floors::totals_in_f32`).
pub(super) const FAR_IN_F32: f32 = 32.0 * LARGE;

/// Where sums and totals are rounded down.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Floors {
    /// `1.5 * 2^52` last places kept of a sum, and of a total, of exponent 0: where floors are taken in f64.
    pub(super) sum: f64,
    pub(super) total: f64,
    /// GFDRDA: even and odd k have sums of their own.
    pub(super) halves: bool,
    /// And c counts as 0 below this many units of `2^(e_max - F)`.
    pub(super) least: f32,
    /// The exponent of a total in units of q above which it drops places, and that of c above which the sum does.
    pub(super) kept: u8,
    pub(super) kept_of_sum: u8,
    /// How far the exponent may lie below c's of the F-th place below which a sum of products has nothing, and no floor
    /// takes a bit of the sum or the total.
    pub(super) below_c: i32,
    /// There is one sum, at most `2^29 q`, and totals keep fewer places than sums: so that from `2^30 q` on a total is
    /// the f32 sum of c and of the sum rounded to odd at `2^5 q`, as long as c is below `2^35 q`.
    pub(super) totals_in_f32: bool,
}

/// The kernel for both recipes, for results in f32.
pub(crate) fn select(unit: &Unit, isa: Isa) -> Option<Arc<dyn Kernel>> {
    Some(Arc::new(kernel(unit, isa)?))
}

/// What `select` makes.
pub(super) fn kernel(unit: &Unit, isa: Isa) -> Option<Fda> {
    let set = Set::new(isa)?;
    let (sums, blocks) = Sums::new(unit)?;
    let (r, k, f) = (sums.r, unit.shape.k, sums.r.frac_bits);
    let block = r.group.min(k);
    let (a, b) = (Reach::of(unit, &unit.a, false)?, Reach::of(unit, &unit.b, false)?);
    let formats = same(&unit.c, &F32) && same(&unit.d, &F32) && unit.a.fraction_bits + unit.b.fraction_bits <= 22;
    // c's last place is at or above 2^(e_c - F), and floors keep all of 32 bits.
    let widths = (23..=25).contains(&f) && r.sum_bits >= 31 && r.total_bits.is_none_or(|bits| bits >= 31);
    // Sums of products are clearly below 2^30 q: beside a large c a total has more bits than are kept of it.
    let digits = |fraction_bits: u32| (2u64 << fraction_bits) - 1;
    let most = (block as u64 * digits(unit.a.fraction_bits) * digits(unit.b.fraction_bits)) << f;
    let limit = ((1 << 30) - (1 << 26)) << (unit.a.fraction_bits + unit.b.fraction_bits);
    let whole = block <= 32 && k.is_multiple_of(block) && most <= limit;
    let halves = sums.reach.is_none_or(|reach| (0..=100).contains(&reach) && block.is_multiple_of(2));
    if !formats || !widths || !whole || !halves {
        return None;
    }
    // Sums have at most 44 bits below the exponent of c, so that totals have 45 below their own.
    let magic = |bits: u32| 1.5 * power(52 - bits.min(50) as i32);
    // Totals drop all places that sums do (a total is at least half of such a c), and sums have 24 bits in units of 32
    // q.
    let total = r.total_bits.filter(|bits| *bits < r.sum_bits);
    let short = most <= (1 << 29) << (unit.a.fraction_bits + unit.b.fraction_bits);
    let floors = Floors {
        sum: magic(r.sum_bits),
        total: magic(r.total_bits.unwrap_or(50)),
        halves: sums.reach.is_some(),
        least: power(f as i32 - sums.reach.unwrap_or(0)) as f32,
        kept: r.total_bits.unwrap_or(128).min(128) as u8,
        kept_of_sum: r.sum_bits.min(128) as u8,
        below_c: 30 - f.min(24) as i32,
        totals_in_f32: short && total.is_some() && sums.reach.is_none(),
    };
    let decoders = [unit.a, unit.b].map(|spec| Decoder::new(spec, Reading::default()));
    let hard = Hard { sums, decoders, floors };
    // Integer sums take c where it is a multiple of `2^(e_max - F)`: then it is not out of reach.
    let integers = hard.takes_exact_c() && matches!(set, Set::Avx512(_));
    let mut fda = Fda {
        block,
        order: blocks.concat(),
        frac_bits: f,
        // Products below are out of the fast kernel's range.
        e_zero: (a.emin + b.emin).max(-220).min(unit.d.emin()),
        zero_c: false,
        nan: r.nan,
        out: out::ROUND_DOWN,
        keep: -1,
        narrow: false,
        aligned: !matches!(set, Set::Avx512(_)),
        a,
        b,
        via_f16: false,
        flush: super::Flush::default(),
        align: super::align::TOWARD_ZERO,
        c_last: false,
        c_every: k,
        streams_unit_steps: false,
        fixed: if integers { Tables::new(unit, block, f.min(24)) } else { None },
        in_vain: InVain::on(set),
        slow_subnormals: set.slow_subnormals(),
        round_down: Some(hard),
        small: None,
        whole: None,
        anew: OnceLock::new(),
        unit: unit.clone(),
        set,
    };
    fda.choose_small(|| kernel(unit, Isa::Avx2));
    Some(fda)
}
