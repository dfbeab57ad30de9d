//! One block of the aligned dot-add on one row and some columns: docs/numerics.md, 4.12, steps 1 to 8.

#![allow(clippy::needless_range_loop, reason = "a loop over lanes indexes several rows")]
#![allow(unsafe_code, reason = "conversions without a check, whose range the exponents prove")]

use super::decode::{FAR, LOW, SPECIAL};
use super::exact;
use super::lanes::{Encode, Lane, ToInt, any, any_endless, each, exponent, narrow_power, odd, power, to_int, two_sum};
use super::rows::{Block, Body, Side};
use super::wide::{in_order, over, through_memory, truncate};
use crate::accumulate::CPosition;
use num_traits::{AsPrimitive, PrimInt};

/// Exponents within which f32 lanes need no care: scales and results are normal f32.
pub(super) const LOWEST: i16 = -90;
pub(super) const HIGHEST: i16 = 60;
/// F in f32 lanes, at most: with it the truncation step is still a normal f32.
pub(super) const MOST_BITS: u32 = 28;
const _: () = assert!(LOWEST as i32 - MOST_BITS as i32 > -126);
/// The exponent of a sum without terms: low, and a power of two in f64 still.
const NOTHING: i32 = -900;

/// The recipe.
#[derive(Debug)]
pub(super) struct Params {
    /// F.
    pub(super) frac_bits: i32,
    pub(super) sums: Sums,
    pub(super) alignment: ToInt,
    pub(super) sticky: bool,
    pub(super) normalise: bool,
    /// e_zero.
    pub(super) floor: Option<i32>,
    /// The exponent of a zero c, if it has one.
    pub(super) zero_c: Option<i32>,
    /// The smallest exponent a c may have.
    pub(super) c_emin: i32,
    /// Below this magnitude c is +0.
    pub(super) c_flush: f32,
    pub(super) c: CPosition,
    pub(super) encode: Encode,
    /// The IEEE addition of a late c.
    pub(super) late: Encode,
    /// Whether products from 2^128 on are infinite.
    pub(super) limit: bool,
    /// Products whose sum fits into i32; 0: f64 lanes only.
    pub(super) chunk: usize,
    /// How sums in f32 lanes are rounded.
    pub(super) finish: Finish,
    /// What a sum of products may be beside c's term; `i32::MAX` where all are less.
    pub(super) room: i32,
    /// Whether operands far from 1, subnormal ones among them, go that way as well.
    pub(super) far: bool,
}

/// Sums in f64 lanes.
#[derive(Clone, Copy, Debug)]
pub(super) enum Sums {
    /// Of aligned terms, integers that f64 holds.
    Whole,
    /// The same in two parts.
    Parts,
    /// Of terms as they are; and whether products are [`exact::bounded`].
    Exact { bounded: bool },
}

/// How sums in f32 lanes are rounded.
#[derive(Debug)]
pub(super) enum Finish {
    /// Sums of i32 toward zero, to the bits of f32 to keep.
    Cut { keep: u32 },
    /// Sums of i32 to nearest, to at most 22 bits.
    Nearest,
    /// As whatever else, in f64.
    Wide,
}

impl Body for Params {
    fn name(&self) -> &'static str {
        match self.sums {
            Sums::Exact { .. } => "exact, f64 lanes",
            _ if self.chunk > 0 => "aligned, f32 lanes",
            _ => "aligned, f64 lanes",
        }
    }

    fn why(&self) -> String {
        let lanes = match self.sums {
            Sums::Exact { .. } => return "an exact sum of formats that f32 holds: f64 sums without error".into(),
            _ if self.chunk > 0 => "products fit f32 and their sums i32",
            Sums::Whole => "products and sums of up to 51 bits fit f64",
            Sums::Parts => "products fit f64 and sums of up to 90 bits two of them",
        };
        format!("an aligned sum of formats that f32 holds, F = {}: {lanes}", self.frac_bits)
    }

    fn gains_by_width(&self) -> bool {
        self.chunk == 0 && !matches!(self.sums, Sums::Exact { .. })
    }

    fn takes_tiles(&self) -> bool {
        !matches!(self.sums, Sums::Exact { .. })
    }

    #[inline(always)]
    fn begin<const N: usize>(&self, c: [f32; N]) -> [f32; N] {
        if self.c == CPosition::Last { [0.0; N] } else { c }
    }

    #[inline(always)]
    fn block<const NATIVE: bool, const N: usize, A: Side<N>>(&self, k: &Block<'_, N, A>, c: [f32; N]) -> [f32; N] {
        block::<NATIVE, N, A>(k, c, self)
    }

    #[inline(always)]
    fn end<const NATIVE: bool, const N: usize>(&self, c: [f32; N], d: [f32; N]) -> [f32; N] {
        // (8) for a c that comes after all blocks.
        if self.c == CPosition::Last { add::<NATIVE, N>(flushed(c, self), d, self) } else { d }
    }
}

impl Params {
    /// Whether it matters which exponent is the largest: exact sums only ask how large products are.
    #[inline(always)]
    fn needs_exponents(&self) -> bool {
        self.limit || !matches!(self.sums, Sums::Exact { .. })
    }
}

/// d of a block.
#[inline(always)]
fn block<const NATIVE: bool, const N: usize, A: Side<N>>(k: &Block<'_, N, A>, c: [f32; N], p: &Params) -> [f32; N] {
    let products = if p.needs_exponents() { largest(k) } else { [0; N] };
    let c = if p.c_flush > 0.0 { flushed(c, p) } else { c };
    // Far operands are as good as others: as e_max is at least `LOWEST`, what f32 rounds of a product is less than the
    // truncation step. But some processors take long for them.
    let never = if p.far { SPECIAL } else { SPECIAL | FAR };
    if p.chunk > 0 && k.flags & never == 0 {
        let done = narrow::<NATIVE, N, A>(k, c, products, p);
        if let Some(d) = done {
            return d;
        }
    }
    wide_block::<NATIVE, N, A>(k, c, products, p)
}

/// (4) The largest exponent among the products.
#[inline(always)]
pub(super) fn largest<const N: usize, A: Side<N>>(k: &Block<'_, N, A>) -> [i16; N] {
    let mut e = [2 * LOW; N];
    over(
        k.a_exponents,
        k.b_exponents,
        #[inline(always)]
        |a, b: &[i16; N]| {
            for j in 0..N {
                e[j] = e[j].max(b[j] + a.at(j));
            }
        },
    );
    through_memory(e)
}

/// Powers of two for every lane.
struct Powers<const N: usize> {
    /// What makes the truncation step of products without scales 1.
    scale: [f32; N],
    /// The truncation step.
    step: [f32; N],
    /// Its inverse.
    term: [f32; N],
}

/// (4) Powers of e_max, if f32 lanes need no care. Exponents are integers of two bytes, of which vectors have most, or
/// of four, where comparing them takes no more than an instruction and widening them would.
#[inline(always)]
fn powers<T, const N: usize, A: Side<N>>(
    k: &Block<'_, N, A>,
    c: [f32; N],
    products: [i16; N],
    p: &Params,
) -> Option<Powers<N>>
where
    T: PrimInt + AsPrimitive<u16>,
    i16: AsPrimitive<T>,
    i32: AsPrimitive<T>,
{
    let bound = |e: i32| -> T { e.clamp(2 * i32::from(LOW), 1000).as_() };
    let (floor, c_emin, f): (_, _, T) = (bound(p.floor.unwrap_or(i32::MIN)), bound(p.c_emin), p.frac_bits.as_());
    let (low, lowest, highest, bias): (T, T, T, T) = (LOW.as_(), LOWEST.as_(), HIGHEST.as_(), 127i16.as_());
    let (mut e, mut alone, mut bad) = ([T::zero(); N], [T::zero(); N], [T::zero(); N]);
    for j in 0..N {
        let field: T = ((c[j].to_bits() << 1 >> 24) as i32).as_();
        // What is too small for a field is too small to matter.
        let of_c = if field > T::zero() { (field - bias).max(c_emin) } else { low };
        let scale: T = (k.scale_a.at(j) + k.scale_b[j]).as_();
        let product: T = products[j].as_();
        e[j] = (product + scale).max(of_c).max(floor);
        alone[j] = e[j] - scale;
        // Negative outside of the window.
        bad[j] = (e[j] - lowest) | (highest - e[j]) | (alone[j] - lowest) | (highest - alone[j]);
    }
    if bad.iter().fold(T::zero(), |x, y| x | *y) < T::zero() {
        return None;
    }
    let power = |e: T| f32::from_bits(u32::from((bias + e).as_()) << 23);
    Some(Powers {
        scale: each(alone, |e| power(f - e)),
        step: each(e, |e| power(e - f)),
        term: each(e, |e| power(f - e)),
    })
}

/// (4) to (7) in f32 lanes, where every exponent allows it.
#[inline(always)]
fn narrow<const NATIVE: bool, const N: usize, A: Side<N>>(
    k: &Block<'_, N, A>,
    c: [f32; N],
    products: [i16; N],
    p: &Params,
) -> Option<[f32; N]> {
    let (finite, endless) = finite(c);
    let powers =
        if NATIVE { powers::<i32, N, A>(k, finite, products, p) } else { powers::<i16, N, A>(k, finite, products, p) };
    let Powers { scale, step, mut term } = powers?;
    for j in 0..N {
        term[j] *= finite[j];
    }
    let whole = if matches!(p.finish, Finish::Wide) { None } else { integer(k, &scale, term, p) };
    // No closures around large bodies: what is not inlined loses the instruction set.
    let mut d = match (whole, &p.finish) {
        (Some(total), Finish::Cut { keep }) => {
            let (magnitude, _) = truncated(total);
            signed(each(magnitude, |x| x & keep), total, step)
        }
        (Some(total), _) => {
            let (mut odd, lost) = truncated(total);
            for j in 0..N {
                odd[j] |= lost[j];
            }
            nearest(signed(odd, total, step), p)
        }
        (None, _) => {
            let mut total = [0f64; N];
            for (a, b) in k.a.chunks(p.chunk).zip(k.b.chunks(p.chunk)) {
                let sum = sum(&Block { a, b, ..*k }, &scale);
                for j in 0..N {
                    total[j] += f64::from(sum[j]);
                }
            }
            for j in 0..N {
                total[j] = (total[j] + to_int::<NATIVE>(term[j].into(), ToInt::TowardZero)) * f64::from(step[j]);
            }
            p.encode.row::<NATIVE, N>(total)
        }
    };
    if endless {
        for j in 0..N {
            d[j] = if c[j].is_finite() { d[j] } else { c[j] };
        }
    }
    Some(d)
}

/// c, or 0 for an infinite or NaN one; products are finite here, so such a c stays. And whether there is any.
#[inline(always)]
fn finite<const N: usize>(c: [f32; N]) -> ([f32; N], bool) {
    let endless = any_endless(c);
    (if endless { each(c, |c| if c.is_finite() { c } else { 0.0 }) } else { c }, endless)
}

/// (5) and (6) Products, cut toward zero in units of `1 / scale`, and their sum.
#[inline(always)]
pub(super) fn sum<const N: usize, A: Side<N>>(k: &Block<'_, N, A>, scale: &[f32; N]) -> [i32; N] {
    let mut sum = [0i32; N];
    over(
        k.a,
        k.b,
        #[inline(always)]
        |a, b: &[f32; N]| {
            for j in 0..N {
                // SAFETY: a product is below 2^(e_max + 2), scaled below 2^(F + 2), and F is at most 28.
                sum[j] += unsafe { truncate(a.at(j) * b[j] * scale[j]) };
            }
        },
    );
    sum
}

/// (6) The sum of products and of c's term; none where it may not fit.
#[inline(always)]
fn integer<const N: usize, A: Side<N>>(
    k: &Block<'_, N, A>,
    scale: &[f32; N],
    term: [f32; N],
    p: &Params,
) -> Option<[i32; N]> {
    let mut total = if k.a.len() <= p.chunk {
        within(sum(k, scale), p.room)?
    } else {
        let ((a, rest_a), (b, rest_b)) = (k.a.split_at(p.chunk), k.b.split_at(p.chunk));
        let mut first = within(sum(&Block { a, b, ..*k }, scale), p.room / 2)?;
        let second = within(sum(&Block { a: rest_a, b: rest_b, ..*k }, scale), p.room / 2)?;
        for j in 0..N {
            first[j] += second[j];
        }
        first
    };
    for j in 0..N {
        // SAFETY: c is below 2^(e_max + 1), scaled below 2^(F + 1).
        total[j] += unsafe { truncate(term[j]) };
    }
    Some(through_memory(total))
}

/// Sums, if none is above `room`; no sum is above `i32::MAX`, which need not be asked.
#[inline(always)]
fn within<const N: usize>(sum: [i32; N], room: i32) -> Option<[i32; N]> {
    if room == i32::MAX {
        return Some(sum);
    }
    let mut bad = 0;
    for x in sum {
        // Negative outside of the room, i32::MIN included.
        bad |= room.wrapping_sub(x.wrapping_abs()) | x.wrapping_abs();
    }
    (bad >= 0).then_some(sum)
}

/// (7) An integer's magnitude, truncated to 24 bits, as f32's code; and whether that took anything away, 1 or 0.
#[inline(always)]
fn truncated<const N: usize>(total: [i32; N]) -> ([u32; N], [u32; N]) {
    let (mut code, mut lost) = ([0; N], [0; N]);
    for j in 0..N {
        let magnitude = total[j].abs();
        let nearest = magnitude as f32;
        // SAFETY: the magnitude is at most 2^31 - 128, which f32 holds. One less if that was up.
        let rest = magnitude - unsafe { truncate(nearest) };
        code[j] = nearest.to_bits().wrapping_add((rest >> 31) as u32);
        lost[j] = u32::from(rest != 0);
    }
    (code, lost)
}

/// Numbers from their magnitudes' codes, in units of `step`, with signs of integers.
#[inline(always)]
fn signed<const N: usize>(magnitude: [u32; N], sign: [i32; N], step: [f32; N]) -> [f32; N] {
    let mut x = step;
    for j in 0..N {
        x[j] *= f32::from_bits(magnitude[j] | (sign[j] as u32 & 1 << 31));
    }
    x
}

/// (7) Numbers of 24 bits, rounded to odd, to nearest in at most 22 bits.
#[inline(always)]
fn nearest<const N: usize>(mut x: [f32; N], p: &Params) -> [f32; N] {
    // 2^emin, and what lifts a power of two to the number whose last place is the quantum.
    let (least, lift) = (narrow_power(p.encode.emin as i16), 1.5 * narrow_power(23 - p.encode.bits as i16));
    let limit = p.encode.limit as f32;
    for x in &mut x {
        let magic = f32::from_bits(x.to_bits() & 0x7F80_0000).max(least) * lift;
        let rounded = (*x + magic) - magic;
        *x = if rounded.abs() >= limit { f32::INFINITY.copysign(rounded) } else { rounded };
    }
    x
}

/// Everything in f64 lanes: any finite operands, any rounding; and special values.
#[inline(always)]
fn wide_block<const NATIVE: bool, const N: usize, A: Side<N>>(
    k: &Block<'_, N, A>,
    c: [f32; N],
    products: [i16; N],
    p: &Params,
) -> [f32; N] {
    let with_c = p.c != CPosition::Late;
    let mut term = [0f64; N];
    for j in 0..N {
        let finite = if c[j].is_finite() { c[j] } else { 0.0 };
        term[j] = if with_c { finite.into() } else { 0.0 };
    }
    let e = if p.needs_exponents() {
        let products = if p.normalise { normalised(k) } else { each(products, i32::from) };
        exponents(k, &term, products, p)
    } else {
        [0; N]
    };
    // A loop for each rounding, which must not choose in it.
    macro_rules! by {
        ($how:expr) => {
            match (matches!(p.sums, Sums::Parts), p.sticky) {
                (false, false) => aligned::<NATIVE, false, N, A>(k, term, &e, p, $how),
                (false, true) => aligned::<NATIVE, true, N, A>(k, term, &e, p, $how),
                (true, false) => in_parts::<NATIVE, false, N, A>(k, term, &e, p, $how),
                (true, true) => in_parts::<NATIVE, true, N, A>(k, term, &e, p, $how),
            }
        };
    }
    let total = match (p.sums, p.alignment) {
        (Sums::Exact { bounded }, _) => exact::total(k, term, bounded),
        (_, ToInt::NearestEven) => by!(ToInt::NearestEven),
        (_, ToInt::TowardZero) => by!(ToInt::TowardZero),
        (_, ToInt::Down) => by!(ToInt::Down),
        (_, ToInt::Up) => by!(ToInt::Up),
        (_, ToInt::NearestOdd) => by!(ToInt::NearestOdd),
        (_, ToInt::Above(bounds)) => by!(ToInt::Above(bounds)),
    };
    let mut d = p.encode.row::<NATIVE, N>(total);
    let beyond = p.limit && any(each(e, |e| e > 120));
    let endless = with_c && any_endless(c);
    if k.flags & SPECIAL != 0 || beyond || endless {
        d = special(k, if with_c { c } else { [0.0; N] }, d, p.limit);
    }
    if with_c { d } else { add::<NATIVE, N>(c, d, p) }
}

/// (1) c, or +0 for a subnormal one; a zero keeps its sign.
#[inline(always)]
fn flushed<const N: usize>(c: [f32; N], p: &Params) -> [f32; N] {
    each(c, |c| if c != 0.0 && c.abs() < p.c_flush { 0.0 } else { c })
}

/// (4) The largest exponent among products with `1 <= s < 2`.
#[inline(always)]
fn normalised<const N: usize, A: Side<N>>(k: &Block<'_, N, A>) -> [i32; N] {
    let mut largest = [0f64; N];
    for (b, a) in k.b.iter().zip(k.a) {
        in_order();
        for j in 0..N {
            let magnitude = (f64::from(a.at(j)) * f64::from(b[j])).abs();
            largest[j] = if magnitude > largest[j] && magnitude < f64::INFINITY { magnitude } else { largest[j] };
        }
    }
    each(largest, |x| if x > 0.0 { exponent(x) } else { 2 * i32::from(LOW) })
}

/// (4) e_max.
#[inline(always)]
fn exponents<const N: usize, A: Side<N>>(
    k: &Block<'_, N, A>,
    term: &[f64; N],
    products: [i32; N],
    p: &Params,
) -> [i32; N] {
    let (floor, zero_c, c_emin) = (p.floor.unwrap_or(NOTHING), p.zero_c.unwrap_or(NOTHING), p.c_emin);
    let mut e = [0; N];
    for j in 0..N {
        let of_term = exponent(term[j]).max(c_emin);
        let of_c = if term[j] == 0.0 { zero_c } else { of_term };
        e[j] = (products[j] + k.scale(j)).max(of_c).max(floor).max(NOTHING);
    }
    e
}

/// (5) and (6) The exact sum of the aligned terms.
#[inline(always)]
fn aligned<const NATIVE: bool, const STICKY: bool, const N: usize, A: Side<N>>(
    k: &Block<'_, N, A>,
    term: [f64; N],
    e: &[i32; N],
    p: &Params,
    how: ToInt,
) -> [f64; N] {
    let (mut scale, mut sum, f) = ([0f64; N], [0f64; N], p.frac_bits);
    for j in 0..N {
        scale[j] = power((f - e[j] + k.scale(j)).clamp(-1000, 1000));
        // A sum of nothing but negative zeros is zero: only a negative sum may round to -0.
        sum[j] = 0.0 + units::<NATIVE, STICKY>(term[j] * power(f - e[j]), how);
    }
    for (b, a) in k.b.iter().zip(k.a) {
        in_order();
        for j in 0..N {
            sum[j] += units::<NATIVE, STICKY>(f64::from(a.at(j)) * f64::from(b[j]) * scale[j], how);
        }
    }
    for j in 0..N {
        sum[j] *= power(e[j] - f - i32::from(STICKY));
    }
    sum
}

/// (5) and (6) The sum of the aligned terms, rounded to odd.
#[inline(always)]
fn in_parts<const NATIVE: bool, const STICKY: bool, const N: usize, A: Side<N>>(
    k: &Block<'_, N, A>,
    term: [f64; N],
    e: &[i32; N],
    p: &Params,
    how: ToInt,
) -> [f64; N] {
    // Adding it leaves multiples of 2^40 of integers below 2^90; the rest is at most half of that.
    const GRID: f64 = 1.5 * (1u128 << 92) as f64;
    // From here on products and c, of 48 bits at most, are integers, and without an instruction `units` does not hold.
    const WHOLE: f64 = (1u64 << 51) as f64;
    let (mut high, mut low, f) = ([0f64; N], [0f64; N], p.frac_bits);
    let add = |x: f64, high: &mut f64, low: &mut f64| {
        let whole = if STICKY { 2.0 * x } else { x };
        let units = if x.abs() < WHOLE { units::<NATIVE, STICKY>(x, how) } else { whole };
        let part = (units + GRID) - GRID;
        *high += part;
        *low += units - part;
    };
    let mut scale = [0f64; N];
    for j in 0..N {
        scale[j] = power((f - e[j] + k.scale(j)).clamp(-1000, 1000));
        add(term[j] * power(f - e[j]), &mut high[j], &mut low[j]);
    }
    for (b, a) in k.b.iter().zip(k.a) {
        in_order();
        for j in 0..N {
            add(f64::from(a.at(j)) * f64::from(b[j]) * scale[j], &mut high[j], &mut low[j]);
        }
    }
    for j in 0..N {
        let (sum, rest) = two_sum(high[j], low[j]);
        // A sum of nothing but negative zeros is zero.
        high[j] = (0.0 + odd(sum, rest)) * power(e[j] - f - i32::from(STICKY));
    }
    high
}

/// (5) A term as an integer; with a sticky bit, as twice that and the bit.
#[inline(always)]
fn units<const NATIVE: bool, const STICKY: bool>(x: f64, how: ToInt) -> f64 {
    let whole = to_int::<NATIVE>(x, how);
    if !STICKY {
        return whole;
    }
    // Toward the true value where alignment is directed, else a bit of the magnitude.
    let up = how == ToInt::Down || (x > 0.0 && how != ToInt::Up);
    let bit = if up { 1.0 } else { -1.0 };
    2.0 * whole + if whole == x { 0.0 } else { bit }
}

/// (3) S: what infinities, NaN and products beyond the limit decide; IEEE sums of them say the same.
#[inline(always)]
pub(super) fn special<const N: usize, A: Side<N>>(
    k: &Block<'_, N, A>,
    c: [f32; N],
    d: [f32; N],
    limited: bool,
) -> [f32; N] {
    let (mut sum, mut limit) = ([0f64; N], [f64::INFINITY; N]);
    for j in 0..N {
        sum[j] = if c[j].is_finite() { 0.0 } else { c[j].into() };
        if limited {
            limit[j] = power(128 - k.scale(j));
        }
    }
    for (b, a) in k.b.iter().zip(k.a) {
        in_order();
        for j in 0..N {
            let product = f64::from(a.at(j)) * f64::from(b[j]);
            sum[j] += if product.abs() >= limit[j] { f64::INFINITY.copysign(product) } else { product };
        }
    }
    let mut out = d;
    for j in 0..N {
        out[j] = if sum[j].is_finite() { d[j] } else { sum[j] as f32 };
    }
    out
}

/// (8) c + t in IEEE RNE.
#[inline(always)]
fn add<const NATIVE: bool, const N: usize>(c: [f32; N], t: [f32; N], p: &Params) -> [f32; N] {
    // The sum of two f32 in f64, rounded again, is as if rounded once.
    let mut sum = [0f64; N];
    for j in 0..N {
        sum[j] = f64::from(c[j]) + f64::from(t[j]);
    }
    let rounded = p.late.row::<NATIVE, N>(sum);
    let mut d = rounded;
    for j in 0..N {
        d[j] = if sum[j].is_finite() { rounded[j] } else { sum[j] as f32 };
    }
    d
}
