//! Plans as text: a preset, then what differs from it as `key=value`.

use super::plan::{AtomicOrder, Epilogue, Plan, Preset, Promotion, ScaleBlocks, Slices, SplitMode, Start, Tail};
use crate::error::Error;
use crate::format::format_named;

/// Every key, with what it takes.
const KEYS: [(&str, &str); 15] = [
    ("block", "MxNxK, as in 128x128x64"),
    ("split-k", "a number of slices"),
    ("split-align", "a number of elements"),
    ("slices", "contiguous or interleaved"),
    ("split-mode", "parallel, serial or atomic"),
    ("order", "a permutation of the slices, as in 2,0,1"),
    ("seed", "a number"),
    ("flush", "yes or no"),
    ("stream-k", "a number of workers"),
    ("promote", "a number of elements, or none"),
    ("scales", "ROWSxKxCOLUMNS that share a scale, as in 1x128x128, or none"),
    ("tail", "first or last"),
    ("start", "zero or c"),
    ("epilogue", "2x, 3x, rounded or plain"),
    ("out", "f32, f16, bf16 or another format"),
];

pub(crate) fn write(plan: &Plan) -> String {
    let preset = Plan::from(plan.preset);
    let mut text = plan.preset.to_string();
    let mut put = |key: &str, value: String| {
        text.push_str(&format!(" {key}={value}"));
    };
    if let Some([m, n, k]) = plan.block {
        put("block", format!("{m}x{n}x{k}"));
    }
    if plan.slices != preset.slices {
        put("split-k", plan.slices.to_string());
    }
    if let Some(elements) = plan.split_align {
        put("split-align", elements.to_string());
    }
    if plan.slicing != preset.slicing {
        put("slices", name_of(&SLICES, plan.slicing).into());
    }
    // An order alone would read as atomic.
    let ordered = plan.order != AtomicOrder::Ascending;
    if plan.mode != preset.mode || (ordered && plan.mode != SplitMode::Atomic) {
        put("split-mode", name_of(&MODES, plan.mode).into());
    }
    match &plan.order {
        AtomicOrder::Ascending => {}
        AtomicOrder::Given(order) => {
            put("order", order.iter().map(ToString::to_string).collect::<Vec<_>>().join(","));
        }
        AtomicOrder::Seed(seed) => put("seed", seed.to_string()),
    }
    if plan.flush != preset.flush {
        put("flush", if plan.flush { "yes" } else { "no" }.into());
    }
    if let Some(workers) = plan.stream_k {
        put("stream-k", workers.to_string());
    }
    match plan.promotion {
        Promotion::Preset => {}
        Promotion::Never => put("promote", "none".into()),
        Promotion::Every(interval) => put("promote", interval.to_string()),
    }
    // Without promotion there are none unless they are named.
    let scales = if plan.promotion == Promotion::Never { None } else { preset.scales };
    if plan.scales != scales {
        put("scales", plan.scales.map_or("none".into(), |s| format!("{}x{}x{}", s.rows, s.k, s.columns)));
    }
    if plan.tail != preset.tail {
        put("tail", name_of(&TAILS, plan.tail).into());
    }
    if plan.start != preset.start {
        put("start", name_of(&STARTS, plan.start).into());
    }
    if plan.epilogue != preset.epilogue {
        put("epilogue", name_of(&EPILOGUES, plan.epilogue).into());
    }
    if let Some(format) = plan.output {
        put("out", format.to_string());
    }
    text
}

#[cfg(feature = "serde")]
impl From<Plan> for String {
    fn from(plan: Plan) -> Self {
        plan.to_string()
    }
}

#[cfg(feature = "serde")]
impl TryFrom<String> for Plan {
    type Error = Error;
    fn try_from(text: String) -> Result<Self, Self::Error> {
        text.parse()
    }
}

const MODES: [(SplitMode, &str); 3] =
    [(SplitMode::Parallel, "parallel"), (SplitMode::Serial, "serial"), (SplitMode::Atomic, "atomic")];
const SLICES: [(Slices, &str); 2] = [(Slices::Contiguous, "contiguous"), (Slices::Interleaved, "interleaved")];
const TAILS: [(Tail, &str); 2] = [(Tail::Last, "last"), (Tail::First, "first")];
const STARTS: [(Start, &str); 2] = [(Start::Zero, "zero"), (Start::C, "c")];
const EPILOGUES: [(Epilogue, &str); 4] =
    [(Epilogue::TwoX, "2x"), (Epilogue::ThreeX, "3x"), (Epilogue::Rounded, "rounded"), (Epilogue::Plain, "plain")];

fn name_of<T: PartialEq>(names: &[(T, &'static str)], value: T) -> &'static str {
    names.iter().find(|(x, _)| *x == value).map_or("?", |(_, name)| name)
}

fn named<T: Copy>(names: &[(T, &str)], text: &str) -> Option<T> {
    names.iter().find(|(_, name)| *name == text).map(|(x, _)| *x)
}

pub(crate) fn read(text: &str) -> Result<Plan, Error> {
    let bad = |expected: String| Error::parse("plan", text, expected);
    let lower = text.to_ascii_lowercase();
    let mut words = lower.split_whitespace().peekable();
    let names = Preset::ALL.iter().map(|(_, name)| *name).collect::<Vec<_>>().join(", ");
    let first = *words.peek().ok_or_else(|| bad(format!("a preset, one of {names}, then key=value")))?;
    // Without a preset everything is in order.
    let preset = if first.contains('=') {
        Preset::InOrder
    } else {
        words.next();
        let preset = Preset::ALL.iter().find(|(_, name)| *name == first);
        preset.ok_or_else(|| bad(format!("one of the presets {names}, or key=value, first")))?.0
    };
    let mut plan = Plan::from(preset);
    let mut seen: Vec<&str> = Vec::new();
    for word in words {
        let (key, value) = word.split_once('=').ok_or_else(|| bad(format!("key=value, not `{word}`")))?;
        let Some((_, takes)) = KEYS.iter().find(|(name, _)| *name == key) else {
            let keys: Vec<&str> = KEYS.iter().map(|(name, _)| *name).collect();
            return Err(bad(format!("`{key}` to be one of {}", keys.join(", "))));
        };
        if seen.contains(&key) {
            return Err(bad(format!("{key} once")));
        }
        seen.push(key);
        set(&mut plan, key, value).ok_or_else(|| bad(format!("{key} to be {takes}, not `{value}`")))?;
    }
    finish(&mut plan, &seen).map_err(bad)?;
    Ok(plan)
}

/// What keys say of one another.
fn finish(plan: &mut Plan, seen: &[&str]) -> Result<(), String> {
    let given = |key: &str| seen.contains(&key);
    if given("order") && given("seed") {
        return Err("order or seed, not both".into());
    }
    if (given("order") || given("seed")) && !given("split-mode") {
        plan.mode = SplitMode::Atomic;
    }
    if plan.promotion == Promotion::Never && !given("scales") {
        plan.scales = None;
    }
    Ok(())
}

fn set(plan: &mut Plan, key: &str, value: &str) -> Option<()> {
    let number = || value.parse::<usize>().ok();
    match key {
        "block" => plan.block = Some(three(value)?),
        "split-k" => plan.slices = number()?,
        "split-align" => plan.split_align = Some(number()?),
        "slices" => plan.slicing = named(&SLICES, value)?,
        "split-mode" => plan.mode = named(&MODES, value)?,
        "order" => {
            let order: Result<Vec<usize>, _> = value.split_terminator(',').map(str::parse).collect();
            plan.order = AtomicOrder::Given(order.ok()?);
        }
        "seed" => plan.order = AtomicOrder::Seed(value.parse().ok()?),
        "flush" => plan.flush = named(&[(true, "yes"), (false, "no")], value)?,
        "stream-k" => plan.stream_k = Some(number()?),
        "promote" if value == "none" => plan.promotion = Promotion::Never,
        "promote" => plan.promotion = Promotion::Every(number()?),
        "scales" if value == "none" => plan.scales = None,
        "scales" => {
            let [rows, k, columns] = three(value)?;
            plan.scales = Some(ScaleBlocks { rows, k, columns });
        }
        "tail" => plan.tail = named(&TAILS, value)?,
        "start" => plan.start = named(&STARTS, value)?,
        "epilogue" => plan.epilogue = named(&EPILOGUES, value)?,
        "out" => plan.output = Some(*format_named(value)?),
        _ => return None,
    }
    Some(())
}

fn three(value: &str) -> Option<[usize; 3]> {
    let numbers: Result<Vec<usize>, _> = value.split('x').map(str::parse).collect();
    numbers.ok()?.try_into().ok()
}
