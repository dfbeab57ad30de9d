//! What of a recipe has an edge.

use super::super::bench::top;
use super::super::black_box::Interface;
use super::last_bit;
use crate::accumulate::{CPosition, Floor, GenericDot, Pattern, Recipe, RoundDown};

/// A model's blocks, widths (fraction bits) and floor.
pub(super) fn parameters(recipe: &Recipe, i: &Interface) -> (Vec<Vec<usize>>, Vec<u32>, Option<i32>) {
    let runs = |group: usize| Pattern::Runs.blocks(i.k, group);
    let floor = |f: Floor| match f {
        Floor::BelowEmin(n) => Some(i.d.emin() - n),
        Floor::ZeroC => Some(i.d.emin()),
        Floor::None => None,
    };
    let round_down = |x: &RoundDown| {
        let widths = [Some(x.frac_bits), Some(x.sum_bits), x.total_bits];
        (runs(x.group), widths.into_iter().flatten().collect(), None)
    };
    match recipe {
        Recipe::Generic(x) => {
            let mut widths: Vec<u32> = x.output_bits.into_iter().collect();
            // An exact sum is questioned at every width; most where the largest product or sum cuts the last bit there
            // is, which hardly any input shows.
            if x.exact {
                widths.extend((8..=64).step_by(5));
                let span = (top(&i.a) + top(&i.b) - last_bit(&i.a) - last_bit(&i.b)) as u32;
                widths.extend([span - 1, span - 1, span, span + 3].iter().filter(|w| (8..=72).contains(*w)));
            } else {
                widths.push(x.frac_bits);
            }
            (x.pattern.blocks(i.k, x.block), widths, floor(x.floor))
        }
        Recipe::RoundDown(x) => round_down(x),
        Recipe::GroupedRoundDown(x) => round_down(&x.base),
        Recipe::GroupScaled(x) => (runs(x.group), vec![x.frac_bits], floor(x.floor)),
        Recipe::Pairwise(x) => (runs(x.group), Vec::new(), None),
        Recipe::Sequential(_) => (runs(1), Vec::new(), None),
        Recipe::Software(_) => (runs(2), Vec::new(), None),
    }
}

/// The widths of CDNA3's sums.
pub(super) fn sums(recipe: &Recipe) -> Vec<i32> {
    let of = |x: &RoundDown| [Some(x.sum_bits), x.total_bits].into_iter().flatten().map(|w| w as i32).collect();
    match recipe {
        Recipe::RoundDown(x) => of(x),
        Recipe::GroupedRoundDown(x) => of(&x.base),
        _ => Vec::new(),
    }
}

/// The fraction bits of results, as often as they are worth asking; all are `full`.
pub(super) fn results(recipe: &Recipe, full: i32) -> Vec<i32> {
    match recipe {
        Recipe::Generic(GenericDot { output_bits: Some(bits), c, .. }) => {
            // A late c is added to a step's sum that has been rounded to fewer.
            let narrow = if *c == CPosition::Late { 1 } else { 7 };
            let mut all = vec![*bits as i32; narrow];
            all.push(full);
            all
        }
        _ => vec![full],
    }
}
