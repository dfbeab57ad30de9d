//! What units and formats are, in sentences.

use gemmulate::Unit;
use gemmulate::accumulate::{CPosition, Floor, GenericDot, Pattern, Recipe, RoundDown};
use gemmulate::format::{FormatSpec, Specials};

/// What a unit computes, step by step.
pub(crate) fn steps(unit: &Unit) -> Vec<String> {
    match &unit.recipe {
        Some(Recipe::Generic(dot)) => generic(unit, dot),
        Some(Recipe::Sequential(fma)) => vec![
            "d = c.".into(),
            format!("For k in order: d = a_k * b_k + d, rounded once ({}) to {}; subnormals are kept.", fma.rounding, unit.d),
        ],
        Some(Recipe::Pairwise(sum)) => vec![
            if sum.flush_inputs { "Operands below their format's smallest normal number are read as +0." } else { "Subnormal operands are kept." }.into(),
            "Every product is rounded (rne) to f32.".into(),
            format!("Groups of {} products are summed in pairs, every sum rounded (rne).", sum.group),
            "d = c; the groups are added to d in order, every sum rounded (rne).".into(),
            if sum.flush_results { "Subnormal products and sums become zero, keeping their sign." } else { "Subnormal results are kept." }.into(),
        ],
        Some(Recipe::RoundDown(r)) => round_down(r, "all products"),
        Some(Recipe::GroupedRoundDown(g)) => {
            let mut steps = round_down(&g.base, "the products of even k and of odd k, apart");
            steps.insert(2, format!("The two sums are cut toward minus infinity at {} fraction bits and added.", g.base.frac_bits));
            steps.insert(3, format!("c counts as zero if its exponent is more than {} below the largest.", g.c_reach));
            steps
        }
        Some(Recipe::GroupScaled(g)) => vec![
            format!("Groups of {} products are summed exactly, and multiplied by their two scales exactly.", g.group),
            format!("e_max is the largest exponent of those, {}, and c's.", floor(g.floor)),
            format!("Every group and c are cut toward zero {} bits below e_max.", g.frac_bits),
            format!("They are summed exactly and rounded ({}) to {}.", g.output_rounding, unit.d),
        ],
        Some(Recipe::Software(_)) => vec![
            "There is no such tensor core instruction: the compiler emits FMAs in IEEE f32 (rne).".into(),
            if unit.d.fraction_bits > 10 {
                "t = +0; t = a_k * b_k + t for k in order, rounded each time; d = c + t."
            } else {
                "d = (c + (a_0 b_0 + a_1 b_1)) + (a_2 b_2 + a_3 b_3), each parenthesis an FMA on a rounded product; rounded to f16 at the end."
            }
            .into(),
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
    if dot.via_f16 {
        say("a and b are converted to f16, where their subnormals are normal numbers.".into());
    }
    if dot.flush_inputs {
        say("Subnormal operands are read as +0.".into());
    }
    say("NaN or 0 x Inf gives NaN; infinities of both signs give NaN, of one sign that infinity.".into());
    let scales = if unit.scale.is_some() { ", scales included" } else { "" };
    let normal = if dot.normalise_products { "normalised" } else { "not normalised (1.5 x 1.5 is 2.25 x 2^0)" };
    say(format!("Products are exact{scales}, {normal}."));
    if !dot.exact {
        let with_c = if dot.c == CPosition::With { " and c's" } else { "" };
        say(format!("e_max is the largest exponent of the non-zero products{with_c}, {}.", floor(dot.floor)));
        let sticky = if dot.sticky { ", one more bit telling whether anything was cut off" } else { "" };
        say(format!("Every term is rounded ({}) {} bits below e_max{sticky}.", dot.alignment, dot.frac_bits));
    }
    let bits = dot.output_bits.map_or(String::new(), |bits| format!(" at {bits} fraction bits"));
    say(format!(
        "The terms are summed exactly, in any order, and rounded ({}) to {}{bits}.",
        dot.output_rounding, unit.d
    ));
    match dot.c {
        CPosition::With => {}
        CPosition::Late => say("c is added to that in IEEE arithmetic (rne).".into()),
        CPosition::Last => say("The steps start at +0; c is added at the end in IEEE arithmetic (rne).".into()),
    }
    steps
}

fn floor(floor: Floor) -> String {
    match floor {
        Floor::BelowEmin(n) => format!("but at least emin(D) - {n}"),
        Floor::ZeroC => "a zero c counting as emin(D)".into(),
        Floor::None => "without a lower bound".into(),
    }
}

fn round_down(r: &RoundDown, what: &str) -> Vec<String> {
    let total =
        r.total_bits.map_or(String::new(), |bits| format!(", cut toward minus infinity at {bits} fraction bits"));
    vec![
        format!(
            "K is taken in steps of {}; each step's d is the next one's c. Products of 2^128 and more are infinities.",
            r.group
        ),
        format!(
            "Of {what}: each is cut toward zero {} bits below the largest exponent, and they are summed exactly.",
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
