//! The other readings of what sources dispute, as units.

use gemmulate::Unit;
use gemmulate::accumulate::{
    BlockedC, Floor, GenericDot, GroupedRoundDown, OverflowBesideC, Recipe, RoundDown, SubnormalC, ZeroProducts,
};
use gemmulate::special::NanRule;

/// A unit that differs from the default in one disputed rule, and its score.
pub(crate) struct Rival {
    /// The rule and the other reading.
    pub(crate) name: &'static str,
    /// The unit with that reading.
    pub(crate) unit: Unit,
    /// Of the vectors that tell the two apart: answers like the default's, like the rival's, like neither's.
    pub(crate) score: [u64; 3],
    /// How many vectors were kept for it.
    pub(crate) kept: u64,
}

/// Every rival of a unit.
pub(crate) fn of(unit: &Unit) -> Vec<Rival> {
    let others: Vec<(&'static str, Recipe)> = match unit.recipe {
        Some(Recipe::Generic(g)) => vec![
            ("D1 floor: a zero c counts as emin, no floor", Recipe::Generic(GenericDot { floor: Floor::ZeroC, ..g })),
            (
                "D2 zero products: count by their exponents",
                Recipe::Generic(GenericDot { zero_products: ZeroProducts::OwnExponent, ..g }),
            ),
            (
                "D3 subnormal c: normalised exponent",
                Recipe::Generic(GenericDot { subnormal_c: SubnormalC::Normalised, ..g }),
            ),
            ("D6 NaN: only the top fraction bit", Recipe::Generic(GenericDot { nan: NanRule::Quiet, ..g })),
            ("D7 width: one fraction bit more", Recipe::Generic(GenericDot { frac_bits: g.frac_bits + 1, ..g })),
            (
                "D7 width: one fraction bit fewer",
                Recipe::Generic(GenericDot { frac_bits: g.frac_bits.saturating_sub(1), ..g }),
            ),
            ("fp8 operands keep their own exponents", Recipe::Generic(GenericDot { via_f16: false, ..g })),
        ],
        Some(Recipe::RoundDown(r)) => round_down(r).into_iter().map(|(name, r)| (name, Recipe::RoundDown(r))).collect(),
        Some(Recipe::GroupedRoundDown(r)) => {
            let mut all: Vec<_> = round_down(r.base)
                .into_iter()
                .map(|(name, base)| (name, Recipe::GroupedRoundDown(GroupedRoundDown { base, ..r })))
                .collect();
            let dropped = GroupedRoundDown { special_c: BlockedC::Dropped, ..r };
            all.push(("D9 special c: dropped beside large products", Recipe::GroupedRoundDown(dropped)));
            all
        }
        _ => Vec::new(),
    };
    let rival = |(name, recipe): (&'static str, Recipe)| {
        let unit = unit.with_accumulator(recipe).ok().filter(|other| other != unit)?;
        Some(Rival { name, unit, score: [0; 3], kept: 0 })
    };
    others.into_iter().filter_map(rival).collect()
}

fn round_down(r: RoundDown) -> [(&'static str, RoundDown); 2] {
    [
        ("D5 floors: 31 only", RoundDown { sum_bits: 31, total_bits: None, ..r }),
        ("D8 overflow beside an infinite c: c wins", RoundDown { overflow_beside_c: OverflowBesideC::CWins, ..r }),
    ]
}
