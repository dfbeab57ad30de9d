//! The general step on panels of bytes: they are unpacked for the body of all sets.

use super::Groups;
use super::portable::Packed;
use super::set::Hard;
use super::tile::{COLUMNS, Operands, ROWS, States};
use crate::simd::values::NR;
use core::ops::Range;

/// Columns that are done together.
pub(super) const WIDTH: usize = NR;

impl Packed {
    /// Takes what a panel has of a group, for one of `width` lines: numbers, their presence, the scale.
    #[inline(always)]
    fn put(
        &mut self,
        body: &Groups,
        [g, line, width]: [usize; 3],
        number: impl Fn(usize) -> f32,
        (present, exponent, scale): (i32, i32, f32),
    ) {
        for p in g * body.group..(g + 1) * body.group {
            self.values[p * width + line] = number(p);
        }
        let at = g * width + line;
        // A scale of zero has an exponent that does not count.
        (self.present[at], self.exponents[at], self.scales[at]) = (present as u16, exponent, scale.into());
    }
}

/// Steps on some rows and the columns from `column` on.
#[inline(always)]
pub(super) fn steps(
    how: &Hard<'_>,
    x: &Operands<'_>,
    steps: Range<usize>,
    rows: &[usize],
    column: usize,
    c: &mut States,
) {
    let (body, per_step) = (how.body, x.per_step());
    let (mut a, mut b) = (Packed::of(x.step, per_step), Packed::of(x.step * WIDTH, per_step * WIDTH));
    for s in steps {
        for g in 0..per_step {
            let at = s * per_step + g;
            for j in 0..WIDTH {
                let line = column + j;
                let number = |p: usize| {
                    let at = (s * x.step + p / 4 * 4) * COLUMNS + line * 4 + p % 4;
                    (i32::from(x.b[at]) - x.offset) as f32
                };
                let of_group = (x.present_b[at][line], x.exponents_b[at][line], x.scales_b[at][line]);
                b.put(body, [g, j, WIDTH], number, of_group);
            }
        }
        for &r in rows {
            for g in 0..per_step {
                let at = s * per_step + g;
                let number = |p: usize| x.a[(s * ROWS + r) * x.step + p].into();
                a.put(body, [g, 0, 1], number, (x.present_a[at][r], x.exponents_a[at][r], x.scales_a[at][r]));
            }
            let states = &mut c.0[r].as_chunks_mut::<WIDTH>().0[column / WIDTH];
            let d = body.step::<true, WIDTH>(&a, &b, [0; 3], x.step, *states);
            for (state, d) in states.iter_mut().zip(d) {
                *state = if d.is_nan() { f32::from_bits(how.nan) } else { d };
            }
        }
    }
}
