//! What units and formats are, in sentences.

use gemmulate::Unit;
use gemmulate::accumulate::{
    BlockedC, CPosition, Floor, GenericDot, OverflowBesideC, Pattern, Recipe, RoundDown, SubnormalC, ZeroProducts,
};
use gemmulate::format::{F32, FormatSpec, Specials};
use gemmulate::round::Rounding;
use gemmulate::special::NanRule;

/// What a unit computes, step by step.
pub(crate) fn steps(unit: &Unit) -> Vec<String> {
    match &unit.recipe {
        Some(Recipe::Generic(dot)) => generic(unit, dot),
        Some(Recipe::Sequential(fma)) => vec![
            format!("d = c{}.", in_d(unit, &fma.rounding.to_string())),
            format!(
                "For k in order: d = a_k * b_k + d, rounded once ({}) to {}; subnormals are kept.",
                fma.rounding, unit.d
            ),
            nan(unit, fma.nan),
        ],
        Some(Recipe::Pairwise(sum)) => vec![
            if sum.flush_inputs {
                "Operands below their format's smallest normal number are read as +0."
            } else {
                "Subnormal operands are kept."
            }
            .into(),
            format!("Every product is rounded (rne) to {}.", unit.d),
            format!("Groups of {} products are summed in pairs, every sum rounded (rne).", sum.group),
            format!("d = c{}; the groups are added to d in order, every sum rounded (rne).", in_d(unit, "rne")),
            if sum.flush_results {
                "Subnormal products and sums become zero, keeping their sign."
            } else {
                "Subnormal results are kept."
            }
            .into(),
            nan(unit, sum.nan),
        ],
        Some(Recipe::RoundDown(r)) => round_down(unit, r, "all products"),
        Some(Recipe::GroupedRoundDown(g)) => {
            let mut steps = round_down(unit, &g.base, "the products of even k and of odd k, apart");
            let special = match g.special_c {
                BlockedC::Dropped => ", an infinity or NaN likewise, its exponent being 0",
                _ => "; an infinity or NaN stays",
            };
            steps.insert(
                3,
                format!("The two sums are cut toward minus infinity at {} fraction bits and added.", g.base.frac_bits),
            );
            steps.insert(
                4,
                format!("c counts as zero if its exponent is more than {} below the largest{special}.", g.c_reach),
            );
            steps
        }
        Some(Recipe::GroupScaled(g)) => vec![
            format!("Groups of {} products are summed exactly, and multiplied by their two scales exactly.", g.group),
            format!("e_max is the largest exponent of those, {}, and c's.", floor(g.floor)),
            format!("Every group and c are cut toward zero {} bits below e_max.", g.frac_bits),
            format!("They are summed exactly and rounded ({}) to {}.", g.output_rounding, unit.d),
            nan(unit, g.nan),
        ],
        Some(Recipe::Software(software)) => vec![
            "There is no such tensor core instruction: the compiler emits FMAs in IEEE f32 (rne).".into(),
            if unit.d.fraction_bits > 10 {
                "t = +0; t = a_k * b_k + t for k in order, rounded each time; d = c + t."
            } else {
                "d = (c + (a_0 b_0 + a_1 b_1)) + (a_2 b_2 + a_3 b_3), each parenthesis an FMA on a rounded product."
            }
            .into(),
            match (F32.holds(&unit.c), unit.d == F32) {
                (true, true) => "Subnormals are kept.".into(),
                (true, false) => format!("It is rounded (rne) to {} at the end; subnormals are kept.", unit.d),
                (false, _) => {
                    format!("c is rounded (rne) to f32 first, d to {} at the end; subnormals are kept.", unit.d)
                }
            },
            nan(unit, software.nan),
        ],
        _ => vec![format!("{:?}", unit.accumulator)],
    }
}

fn generic(unit: &Unit, dot: &GenericDot) -> Vec<String> {
    let mut steps = Vec::new();
    let mut say = |text: String| steps.push(text);
    if dot.block < unit.shape.k {
        let order = match dot.pattern {
            Pattern::Runs => "consecutive products",
            Pattern::EvenOdd => "products, even k first, then odd k",
            Pattern::InterleavedPairs => "products, those of even floor(k/2) first, then the others",
        };
        say(format!("K is taken in steps of {} {order}; each step's d is the next one's c.", dot.block));
    }
    if dot.flush_inputs {
        say("Subnormal a, b and c are read as +0.".into());
    }
    if dot.via_f16 {
        say("a and b are converted to f16, where their subnormals are normal numbers.".into());
    }
    say(special(unit, dot.nan, dot.product_limit.then_some("")));
    let scales = if unit.scale.is_some() { ", scales included" } else { "" };
    let normal = if dot.normalise_products { "normalised" } else { "not normalised (1.5 x 1.5 is 2.25 x 2^0)" };
    say(format!("Products are exact{scales}, {normal}."));
    if !dot.exact {
        let zeros = match dot.zero_products {
            ZeroProducts::OwnExponent => "products, a zero counting with its format's smallest exponent",
            _ => "non-zero products",
        };
        let with_c = match (dot.c, dot.subnormal_c) {
            (CPosition::With, SubnormalC::Normalised) => " and c's, which counts as normalised",
            (CPosition::With, _) => " and c's",
            _ => "",
        };
        say(format!("e_max is the largest exponent of the {zeros}{with_c}, {}.", floor(dot.floor)));
        let sticky = if dot.sticky { ", one more bit telling whether anything was cut off" } else { "" };
        say(format!("Every term is rounded ({}) {} bits below e_max{sticky}.", dot.alignment, dot.frac_bits));
    }
    let bits = dot.output_bits.map_or(String::new(), |bits| format!(" at {bits} fraction bits"));
    let zero = if dot.negative_zero { "; a negative sum that rounds to zero is -0" } else { "" };
    let flushed = if dot.flush_results { "; a subnormal one becomes +0" } else { "" };
    say(format!(
        "The terms are summed exactly, in any order, and rounded ({}) to {}{bits}{zero}{flushed}.",
        dot.output_rounding, unit.d
    ));
    if unit.d.fraction_bits <= 10 && dot.output_rounding != Rounding::NearestEven {
        say("(NVIDIA's units round such results to nearest even: out=rne.)".into());
    }
    let rounded = in_d(unit, "rne");
    let c = if rounded.is_empty() { "c".into() } else { format!("c{rounded},") };
    match dot.c {
        CPosition::With => {}
        CPosition::Late => say(format!("{c} is added to that in IEEE arithmetic (rne){flushed}.")),
        CPosition::Last => {
            say(format!("The steps start at +0; {c} is added at the end in IEEE arithmetic (rne){flushed}."));
        }
    }
    steps
}

fn floor(floor: Floor) -> String {
    match floor {
        Floor::BelowEmin(0) => "but at least emin(D)".into(),
        Floor::BelowEmin(n) if n < 0 => format!("but at least emin(D) + {}", n.unsigned_abs()),
        Floor::BelowEmin(n) => format!("but at least emin(D) - {n}"),
        Floor::ZeroC => "a zero c counting as emin(D)".into(),
        Floor::None => "without a lower bound".into(),
    }
}

/// What happens to a c that D does not hold, before anything else.
fn in_d(unit: &Unit, rounding: &str) -> String {
    if unit.d.holds(&unit.c) { String::new() } else { format!(", rounded ({rounding}) to {}", unit.d) }
}

/// The NaN that is returned.
fn nan(unit: &Unit, rule: NanRule) -> String {
    let (d, choice) = (&unit.d, if unit.has_any_nan() { ": no source says which" } else { "" });
    d.nan_code(rule).map_or_else(
        || format!("{d} has no NaN: its largest number stands for it."),
        |code| format!("NaN is {code:x}{choice}."),
    )
}

/// What infinities and NaN decide, large products among them where these are `limited`, with what is to be said of
/// them.
fn special(unit: &Unit, rule: NanRule, limited: Option<&str>) -> String {
    let limit = limited.map_or(String::new(), |more| format!("Products of 2^128 and more are infinities{more}. "));
    let nan = nan(unit, rule);
    format!("{limit}NaN or 0 x Inf gives NaN; infinities of both signs give NaN, of one sign that infinity. {nan}")
}

fn round_down(unit: &Unit, r: &RoundDown, what: &str) -> Vec<String> {
    let total =
        r.total_bits.map_or(String::new(), |bits| format!(", cut toward minus infinity at {bits} fraction bits"));
    let beside = match r.overflow_beside_c {
        OverflowBesideC::CWins => ", over which an infinite c wins",
        _ => "",
    };
    let scales = if unit.scale.is_some() { ", scales included" } else { "" };
    vec![
        format!("K is taken in steps of {}; each step's d is the next one's c.", r.group),
        special(unit, r.nan, Some(beside)),
        format!(
            "Of {what}{scales}: each is cut toward zero {} bits below the largest exponent, and they are summed exactly.",
            r.frac_bits
        ),
        format!(
            "That sum and c are aligned to the larger exponent and cut toward minus infinity at {} and {} fraction bits.",
            r.sum_bits, r.frac_bits
        ),
        format!("They are summed exactly{total}, and rounded (rne)."),
    ]
}

/// A format's layout in one line.
pub(crate) fn format(f: &FormatSpec) -> String {
    let sign = if f.signed { "1 sign, " } else { "" };
    let specials = match f.specials {
        Specials::Ieee => "Inf and NaN",
        Specials::NanAllOnes => "NaN, no Inf",
        Specials::NanNegativeZero => "one NaN, no Inf, no -0",
        Specials::None => "no Inf or NaN",
    };
    let (name, bits) = (f.name, f.storage_bits);
    let ignored =
        if f.ignored_low_bits == 0 { String::new() } else { format!(", {} ignored low bits", f.ignored_low_bits) };
    format!(
        "{name}: {bits} bits ({sign}{} exponent, {} fraction{ignored}), {specials}",
        f.exponent_bits, f.fraction_bits
    )
}
