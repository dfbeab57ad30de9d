//! Small products with products aligned one by one: up to four tiles of 16 x 8 side by side (AVX2).
//!
//! As in `fda/small.rs` the operands change roles: a tile's 16 rows of A are a piece's columns, its 8 columns of B the
//! rows of a row group. The passes of a step are those of large products, for they ask of the rows only a word for each
//! product, the byte of which that adds to a column's exponents is its tile's; and values, of which each tile hands
//! them its own.

mod read;
mod turned;

use self::turned::put_words;
use super::{Buffers, Places, fused, group, round_down};
use crate::format::FormatSpec;
use crate::gemm::small::{COLUMNS, DEPTH, ROWS, Results, TILES, Tiles};
use crate::simd::buffer::Buffer;
use crate::simd::decode::{Decoder, LOW, Reading};
use crate::simd::fda::fixed::Lines;
use crate::simd::fda::round_to_zero::APART;
use crate::simd::fda::small::tiles_of;
use crate::simd::fda::step::{Consts, EXP32, Step};
use crate::simd::fda::{Fda, MR, NR, Reach, Set, align, fits_f32, out, same};
use crate::simd::ops::array_of;
use crate::simd::sixteen::{Extent, Sixteen, Squares};
use crate::simd::squares::{SIDE, turn, turn_as_wide};
use crate::simd::{Avx2, Isa};
use crate::view::{Rows, Word};
use core::arch::x86_64::*;
use core::cell::RefCell;
use core::mem::{MaybeUninit, offset_of};

/// Exponents that a window spans.
const WINDOW: i16 = 32;
/// Vectors of 16 that all of a tile's columns of B fill.
const FLAT: usize = DEPTH * MR / 16;

const _: () = assert!(ROWS == 16 && COLUMNS == MR && TILES * ROWS == NR && SIDE == COLUMNS);

/// One operand of four tiles: of A each position's 16 rows; of B products by FDA, column and position, 16 in a row.
#[derive(Debug)]
#[repr(C, align(64))]
struct Side<const N: usize> {
    values: [[[f32; 16]; N]; TILES],
    exponents: [[[i16; 16]; N]; TILES],
    /// For the search for e_max: a byte of each word for a tile.
    bytes: [[u32; 16]; N],
    /// As wide as a tile has them. The last, for the arrays before are loaded as aligned ones.
    codes: Buffer,
}

/// What bytes are made of.
mod bytes {
    /// Bytes, which a format's exponents were read as.
    pub(super) const READ: u8 = 0;
    /// Exponents none of which is below the window.
    pub(super) const INSIDE: u8 = 1;
    pub(super) const ANY: u8 = 2;
}

/// What a group is computed in.
#[derive(Debug)]
#[repr(C, align(64))]
struct Panels {
    rows: Side<DEPTH>,
    columns: Side<FLAT>,
    /// 8 rows of 64.
    states: [u32; MR * NR],
    /// c, where it is added to the sums of a unit step.
    c: [u32; MR * NR],
    /// What a step's parts hand on; not on the stack, for as large a frame is touched page by page in each call.
    buffers: [MaybeUninit<Buffers>; 2],
}

/// Vectors of these are loaded as aligned ones.
const _: () = {
    assert!(offset_of!(Side<FLAT>, values).is_multiple_of(64) && offset_of!(Side<DEPTH>, values).is_multiple_of(64));
    assert!(offset_of!(Side<DEPTH>, bytes).is_multiple_of(64) && offset_of!(Panels, states).is_multiple_of(64));
    assert!(4 * 16 * FLAT == APART[0] && 4 * 16 * DEPTH == APART[1]);
};

impl<const N: usize> Side<N> {
    /// Room for the largest tiles.
    fn new() -> Self {
        let mut codes = Buffer::default();
        codes.room::<u32>(16 * N);
        let (values, exponents) = ([[[0.0; 16]; N]; TILES], [[[LOW; 16]; N]; TILES]);
        Self { values, exponents, bytes: [[0; 16]; N], codes }
    }

    /// Reads some rows of codes, in some order, for tile `t`; their exponents, if all are finite.
    #[inline(always)]
    fn read<T: Word + Into<u32>>(
        &mut self,
        by: &Reader,
        t: usize,
        from: usize,
        order: &[usize],
        n: usize,
    ) -> Option<Extent> {
        let Self { codes, values, exponents, .. } = self;
        let codes = Rows::of(codes.view::<T>(), 16);
        let to = (&mut values[t][from..from + n], &mut exponents[t][from..from + n]);
        by.sixteen.read_extent(&codes, [from, 0], order, to)
    }

    /// The same of squares, in place of rows.
    #[inline(always)]
    fn read_squares<S: Squares<V>, const V: usize>(
        &mut self,
        by: &Reader,
        t: usize,
        squares: &mut S,
    ) -> Option<Extent> {
        let to = (&mut self.values[t][..], &mut self.exponents[t][..]);
        // SAFETY: `by` is one of `Readers`', which have the proof of AVX2 and F16C; squares are made of codes that are
        // there.
        unsafe { by.sixteen.read_squares(squares, to) }
    }

    /// Exponents within the window that ends at `top` as bytes up to 127; 0 for zeros and for what is below. Whether
    /// there may be any of these.
    #[inline(always)]
    fn put_bytes(&mut self, by: &Reader, n: usize, tiles: usize, [low, top]: [i32; 2]) -> bool {
        if by.top.is_some() {
            self.put_bytes_of::<{ bytes::READ }>(n, tiles, top)
        } else if low > top - i32::from(WINDOW) {
            self.put_bytes_of::<{ bytes::INSIDE }>(n, tiles, top)
        } else {
            self.put_bytes_of::<{ bytes::ANY }>(n, tiles, top)
        }
    }

    #[inline(always)]
    fn put_bytes_of<const OF: u8>(&mut self, n: usize, tiles: usize, top: i32) -> bool {
        let (base, mut below) = ((top - 127) as i16, [0i16; 16]);
        for (p, bytes) in self.bytes[..n].iter_mut().enumerate() {
            // Two tiles' in words of 16 bits, and two more's.
            let mut pairs = [[0i16; 16]; 2];
            for t in 0..tiles {
                let exponents = &self.exponents[t][p];
                for j in 0..16 {
                    let byte = match OF {
                        bytes::READ => exponents[j],
                        bytes::INSIDE => exponents[j].saturating_sub(base).max(0),
                        _ => {
                            let byte = exponents[j].saturating_sub(base);
                            let inside = -i16::from(byte > 127 - WINDOW);
                            below[j] |= !inside & -i16::from(exponents[j] > LOW);
                            byte & inside
                        }
                    };
                    pairs[t / 2][j] |= byte << (8 * (t % 2));
                }
            }
            // SAFETY: `put_bytes`, which alone calls this, is given one of `Readers`', which have the proof of AVX2.
            *bytes = unsafe { side_by_side(&pairs) };
        }
        OF == bytes::ANY && below.into_iter().fold(0, |x, y| x | y) != 0
    }
}

thread_local! {
    static PANELS: RefCell<Box<Panels>> = RefCell::new(Box::new(Panels {
        rows: Side::new(),
        columns: Side::new(),
        states: [0; MR * NR],
        c: [0; MR * NR],
        buffers: [const { MaybeUninit::uninit() }; 2],
    }));
}

/// How A and B are read, where tiles of a unit can be computed.
#[derive(Debug)]
pub(in crate::simd::fda) struct Readers {
    set: Avx2,
    a: Reader,
    b: Reader,
    /// The place of every product of a unit step, if these are not as they come.
    order: Vec<usize>,
    /// Whether a step's sums can leave 31 bits.
    weighs: bool,
    /// The largest sum of a row's fractions in a step with which they cannot, where these are found as codes are read.
    fractions: Option<u32>,
}

/// How an operand is read.
#[derive(Debug)]
struct Reader {
    sixteen: Sixteen,
    /// The largest exponent of a format, all of which a window holds.
    top: Option<i32>,
}

impl Reader {
    fn new(spec: &FormatSpec, reach: Reach, via_f16: bool) -> Option<Self> {
        let decoder = Decoder::new(*spec, Reading { via_f16, ..Reading::default() });
        let sixteen = Sixteen::new(Isa::Avx2, &decoder)?;
        let top = (reach.emax - reach.emin < WINDOW.into() && !sixteen.tracks_exponents()).then_some(reach.emax);
        // `span` needs one of the two.
        debug_assert!(top.is_some() || sixteen.tracks_exponents());
        let base = top.map(|top| (top - 127) as i16);
        Some(Self { sixteen: base.map_or(sixteen, |base| sixteen.above(base)), top })
    }

    /// A zero's exponent, as it is read.
    fn zero(&self) -> i16 {
        if self.top.is_some() { 0 } else { LOW }
    }

    /// The exponent that byte 127 stands for, the format's largest or the data's; before it the data's smallest, if
    /// that counts.
    fn span(&self, extent: Extent) -> [i32; 2] {
        match self.top {
            Some(top) => [top, top],
            // Of nothing but zeros any will do.
            None if extent == Extent::NONE => [0, 0],
            None => [extent.low, extent.high],
        }
    }
}

impl Readers {
    pub(in crate::simd::fda) fn new(fda: &Fda) -> Option<Self> {
        let unit = &fda.unit;
        let set = match fda.set {
            Set::Avx512(proof) if fda.aligned => proof.avx2(),
            Set::Avx2(proof) => proof,
            _ => return None,
        };
        let narrow = unit.a.storage_bits <= 32 && unit.b.storage_bits <= 32 && unit.scale.is_none();
        let chain = !(fda.c_last && fda.out == out::F16_RNE) && same(&unit.c, &unit.d);
        // Positions of B are turned eight at a time.
        let whole = SIDE.is_multiple_of(fda.block) || fda.block.is_multiple_of(SIDE);
        if !narrow || !chain || !whole || !fits_f32(unit) {
            return None;
        }
        let reader = |spec, reach| Reader::new(spec, reach, fda.via_f16);
        let order = if fda.is_in_order() { Vec::new() } else { fda.order.clone() };
        let (a, b) = (reader(&unit.a, fda.a)?, reader(&unit.b, fda.b)?);
        let weighs = fda.round_down.is_none() && fda.may_risk();
        // By way of f16 small numbers have larger significands than their codes say.
        let by_codes = fda.block == 16 && order.is_empty() && !fda.via_f16 && unit.a.storage_bits <= 16;
        let leading = 16 << unit.a.fraction_bits;
        let fractions =
            fda.risk_limit().checked_sub(leading).filter(|_| weighs && by_codes && a.sixteen.takes_squares(false));
        Some(Self { set, a, b, order, weighs, fractions })
    }

    /// Computes D for all tiles but those of the mask returned.
    pub(in crate::simd::fda) fn run(&self, fda: &Fda, tiles: &mut Tiles<'_>) -> u32 {
        PANELS.with_borrow_mut(|panels| {
            let mut run = Run { fda, by: self, tiles, panels, extents: [Extent::NONE; 2], hard: 0 };
            // SAFETY: `self` has the proof that the instructions are there.
            unsafe { run.all() };
            run.hard
        })
    }
}

/// One group on its way.
struct Run<'a, 'b> {
    fda: &'a Fda,
    by: &'a Readers,
    tiles: &'a mut Tiles<'b>,
    panels: &'a mut Panels,
    /// Exponents of A and of B, so far.
    extents: [Extent; 2],
    /// Tiles that are left to the ordinary kernel.
    hard: u32,
}

impl Run<'_, '_> {
    /// Packs, computes, and leaves D's codes in the group.
    #[target_feature(enable = "avx2,fma,f16c")]
    fn all(&mut self) {
        let (fda, k) = (self.fda, self.tiles.k);
        for t in 0..self.tiles.count {
            self.read(t);
        }
        let (flat, tiles) = ((k * MR).div_ceil(16), self.tiles.count);
        let (a, b) = (&self.by.a, &self.by.b);
        let spans = [a.span(self.extents[0]), b.span(self.extents[1])];
        let (q, fast) = fda.consts_of(spans[0][1] + spans[1][1], false);
        // Numbers below the normal f32s are themselves here, not zeros, so that no top is too low for them.
        if !fast {
            self.hard = !0;
            return;
        }
        let Panels { rows, columns, .. } = &mut *self.panels;
        let tiny = rows.put_bytes(a, k, tiles, spans[0]) | columns.put_bytes(b, flat, tiles, spans[1]);
        if fda.all_count() && (tiny || !fda.none_vanishes([spans[0][1], spans[1][1]])) {
            self.hard = !0;
            return;
        }
        self.weigh();
        self.begin(q.lowest());
        let q = Consts { aligned: true, narrow: false, tiny: tiny.into(), ..q };
        match (fda.out, q.keep) {
            (out::ROUND_DOWN, _) => match (q.floors.halves, q.block) {
                (false, 4) if q.floors.totals_in_f32 => self.sums::<1, 4, true>(&q),
                (false, 8) => self.sums::<1, 8, false>(&q),
                (false, _) => self.sums::<1, 0, false>(&q),
                (true, 16) => self.sums::<2, 16, false>(&q),
                (true, _) => self.sums::<2, 0, false>(&q),
            },
            (out::F32_RZ, -1) => self.each_length::<{ out::F32_RZ }>(&q),
            (out::F32_RZ, _) => self.each_length::<{ out::F32_CUT }>(&q),
            (out::F32_RNE, _) => self.each_length::<{ out::F32_RNE }>(&q),
            (out::F32_RD, _) => self.each_length::<{ out::F32_RD }>(&q),
            (out::F32_RU, _) => self.each_length::<{ out::F32_RU }>(&q),
            _ => self.each_length::<{ out::F16_RNE }>(&q),
        }
        self.end();
    }

    /// States: +0, or C, whose tiles are left out where something in it is not of ordinary size.
    #[target_feature(enable = "avx2,fma,f16c")]
    fn begin(&mut self, lowest: u32) {
        let states = &mut self.panels.states;
        states.fill(0);
        if !self.tiles.from_c {
            return;
        }
        let Results::Words(d) = &self.tiles.d else {
            // C is in words, always.
            self.hard = !0;
            return;
        };
        let (least, most) = if self.fda.c_last { (0, EXP32 as u32) } else { (lowest << 23, 181 << 23) };
        for (t, d) in d.iter().enumerate().take(self.tiles.count) {
            for i in (0..ROWS).step_by(SIDE) {
                let lines = core::array::from_fn(|n| &d[(i + n) * COLUMNS..][..COLUMNS]);
                turn(lines, [&[]; SIDE], &mut states[ROWS * t + i..], NR);
            }
            let mut ordinary = true;
            for row in states.as_chunks_mut::<NR>().0 {
                let c = row[ROWS * t..].first_chunk_mut::<ROWS>().expect("64 columns");
                if self.fda.out == out::F16_RNE {
                    *c = from_halves(c);
                }
                for c in c {
                    let magnitude = *c & i32::MAX as u32;
                    ordinary &= (magnitude >= least) & (magnitude < most) | (magnitude == 0);
                    // Minus zero is plus zero.
                    *c = if magnitude == 0 { 0 } else { *c };
                }
            }
            self.hard |= u32::from(!ordinary) << t;
        }
    }

    #[target_feature(enable = "avx2,fma,f16c")]
    fn each_length<const OUT: u8>(&mut self, q: &Consts) {
        match q.block {
            _ if q.frac_bits > 25 => self.fdas::<OUT, 0, true>(q),
            4 => self.fdas::<OUT, 4, false>(q),
            8 => self.fdas::<OUT, 8, false>(q),
            16 => self.fdas::<OUT, 16, false>(q),
            32 => self.fdas::<OUT, 32, false>(q),
            _ => self.fdas::<OUT, 0, false>(q),
        }
    }

    /// All steps of all tiles.
    #[target_feature(enable = "avx2,fma,f16c")]
    fn fdas<const OUT: u8, const L: usize, const PAIRS: bool>(&mut self, q: &Consts) {
        let (l, set) = (q.length::<L>(), self.by.set);
        let (c_last, every) = (self.fda.c_last, self.fda.c_every);
        for k in (0..self.tiles.k).step_by(l) {
            if c_last && k.is_multiple_of(every) {
                // FDAs from +0 on, to which c is added then.
                self.panels.c = self.panels.states;
                self.panels.states.fill(0);
            }
            // The step first: it borrows all panels, which would end the pointers to a part.
            let (step, to) = (self.step(k), Places::of(&mut self.panels.buffers[0]));
            // SAFETY: the panels have room for this step of four tiles, each `APART` from the next one, aligned to 64
            // bytes as the states are, 8 rows of 64. A step has `L` products, or with 0 any number. Since its pointers
            // were made only `buffers` have been borrowed, which they do not lead to.
            self.hard |= tiles_of(unsafe {
                // In assembly one tile takes as long as two.
                if const { fused::has::<Avx2, L, PAIRS>() } && self.tiles.count > 1 && q.align == align::TOWARD_ZERO {
                    fused::step_of_tiles::<Avx2, OUT, L>(set, &step, q, to)
                } else {
                    group::<Avx2, OUT, L, PAIRS>(set, &step, q, 0, to)
                }
            });
            if c_last && (k + l).is_multiple_of(every) {
                self.add_c();
            }
        }
    }

    /// An IEEE addition of finite numbers; of these sums none is so large that it could overflow.
    #[target_feature(enable = "avx2,fma,f16c")]
    fn add_c(&mut self) {
        let Panels { states, c, .. } = &mut *self.panels;
        for (sum, c) in states.iter_mut().zip(c) {
            *sum = (f32::from_bits(*c) + f32::from_bits(*sum)).to_bits();
        }
    }

    /// The same of sums that are rounded down.
    #[target_feature(enable = "avx2,fma,f16c")]
    fn sums<const SUMS: usize, const L: usize, const IN_F32: bool>(&mut self, q: &Consts) {
        for k in (0..self.tiles.k).step_by(q.length::<L>()) {
            let step = self.step(k);
            let [first, second] = &mut self.panels.buffers;
            let places = [Places::of(first), Places::of(second)];
            let to = array_of(|i| places[i]);
            // SAFETY: as in `fdas`; with two sums `L` is 16 or 0.
            self.hard |= tiles_of(unsafe { round_down::group::<Avx2, SUMS, L, IN_F32>(self.by.set, &step, q, 0, &to) });
        }
    }

    /// The step that begins at position `k`.
    fn step(&mut self, k: usize) -> Step {
        let Panels { rows, columns, states, .. } = &mut *self.panels;
        Step {
            a_val: core::ptr::null(),
            b_val: core::ptr::null(),
            a_val32: columns.values.as_flattened().as_flattened()[k * MR..].as_ptr(),
            b_val32: rows.values.as_flattened()[k..].as_ptr().cast(),
            a_exp: columns.bytes.as_flattened()[k * MR..].as_ptr(),
            b_exp: rows.bytes[k..].as_ptr().cast(),
            a_sign: core::ptr::null(),
            b_sign: core::ptr::null(),
            a_wide: core::ptr::null(),
            b_wide: core::ptr::null(),
            a_fixed: Lines::NONE,
            b_fixed: Lines::NONE,
            c: states.as_mut_ptr().cast(),
            vectors: self.tiles.count,
            apart: [16 * FLAT, 16 * DEPTH],
        }
    }

    /// D's codes, row by row.
    #[target_feature(enable = "avx2,fma,f16c")]
    fn end(&mut self) {
        let half = self.fda.out == out::F16_RNE;
        let states = self.panels.states.as_chunks::<NR>().0;
        for t in 0..self.tiles.count {
            let lines: [&[u32; ROWS]; COLUMNS] = array_of(|j| states[j][ROWS * t..].first_chunk().expect("64 columns"));
            let codes: [[u16; ROWS]; COLUMNS] =
                if half { array_of(|j| to_halves(lines[j])) } else { [[0; ROWS]; COLUMNS] };
            let halves = array_of(|j| &codes[j][..]);
            match &mut self.tiles.d {
                Results::Words(d) if half => _ = turn(halves, [&[]; SIDE], &mut d[t], COLUMNS),
                // SAFETY: this function is compiled for AVX2.
                Results::Words(d) => unsafe { put_words(&lines, &mut d[t]) },
                Results::Halves(d) if half => _ = turn_as_wide(halves, &mut d[t], COLUMNS),
                // Codes of f32 do not fit.
                Results::Halves(_) => self.hard |= 1 << t,
            }
        }
    }
}

/// Words of 16 bits and others as their upper halves.
#[inline]
#[target_feature(enable = "avx2")]
fn side_by_side([lower, upper]: &[[i16; 16]; 2]) -> [u32; 16] {
    let mut to = [0; 16];
    // SAFETY: 16 halves each, and 16 words.
    unsafe {
        let (x, y) = (_mm256_loadu_si256(lower.as_ptr().cast()), _mm256_loadu_si256(upper.as_ptr().cast()));
        let (even, odd) = (_mm256_unpacklo_epi16(x, y), _mm256_unpackhi_epi16(x, y));
        let to = to.as_mut_ptr().cast::<__m256i>();
        _mm256_storeu_si256(to, _mm256_permute2x128_si256::<0x20>(even, odd));
        _mm256_storeu_si256(to.add(1), _mm256_permute2x128_si256::<0x31>(even, odd));
    }
    to
}

/// The f32 codes of f16's.
#[inline]
#[target_feature(enable = "avx2,f16c")]
fn from_halves(codes: &[u32; 16]) -> [u32; 16] {
    let (narrow, mut to) = (codes.map(|x| x as u16), [0; 16]);
    for (from, to) in narrow.as_chunks::<8>().0.iter().zip(to.as_chunks_mut::<8>().0) {
        // SAFETY: eight halves, and eight words.
        unsafe {
            let x = _mm256_cvtph_ps(_mm_loadu_si128(from.as_ptr().cast()));
            _mm256_storeu_ps(to.as_mut_ptr().cast(), x);
        }
    }
    to
}

/// The f16 codes of f32's that are f16's numbers.
#[inline]
#[target_feature(enable = "avx2,f16c")]
fn to_halves(codes: &[u32; 16]) -> [u16; 16] {
    let mut to = [0u16; 16];
    for (from, to) in codes.as_chunks::<8>().0.iter().zip(to.as_chunks_mut::<8>().0) {
        // SAFETY: eight words, and eight halves.
        unsafe {
            let x = _mm256_loadu_ps(from.as_ptr().cast());
            _mm_storeu_si128(to.as_mut_ptr().cast(), _mm256_cvtps_ph::<{ _MM_FROUND_TO_NEAREST_INT }>(x));
        }
    }
    to
}
