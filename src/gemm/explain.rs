//! One element of a product, step by step: what the unit does and what the plan adds to it.

use super::kernel::{Exact, Kernel, Lanes, Panel};
use super::sink::{Run, Sink};
use crate::unit::Unit;
use crate::vectors::{Input, Vector, draw};
use core::fmt::Write;
use core::ops::Range;
use std::sync::{Mutex, PoisonError};

/// What happens on the way, as text.
#[derive(Debug, Default)]
pub(crate) struct Log(Mutex<String>);

impl Log {
    pub(crate) fn line(&self, text: core::fmt::Arguments<'_>) {
        let mut all = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        // Writing to a string cannot fail.
        let _ = writeln!(all, "{text}");
    }

    pub(crate) fn into_text(self) -> String {
        self.0.into_inner().unwrap_or_else(PoisonError::into_inner)
    }
}

/// A kernel that draws every step of a tile of one element.
#[derive(Debug)]
pub(crate) struct Tracer<'a> {
    pub(crate) unit: &'a Unit,
    pub(crate) log: &'a Log,
}

impl Tracer<'_> {
    fn input(&self, a: &Panel, b: &Panel, s: usize, c: u64) -> Input {
        let step = self.unit.shape.k;
        let codes = |panel: &Panel| (s * step..(s + 1) * step).map(|p| panel.codes.get(p)).collect();
        let scales = |panel: &Panel| match self.unit.scale {
            Some(rule) => {
                (s * step / rule.block..(s + 1) * step / rule.block).map(|slot| panel.scale(0, slot)).collect()
            }
            None => Vec::new(),
        };
        Input { a: codes(a), b: codes(b), c, scale_a: scales(a), scale_b: scales(b) }
    }

    fn step(&self, a: &Panel, b: &Panel, s: usize, c: u64) -> u64 {
        let vector = Vector::from(self.input(a, b, s, c));
        let drawn = draw(self.unit, &vector).unwrap_or_else(|e| e.to_string());
        self.log.line(format_args!("-- {}\n{drawn}", self.unit.shape));
        vector.eval(self.unit).unwrap_or(c)
    }
}

impl Kernel for Tracer<'_> {
    fn name(&self) -> &'static str {
        "trace"
    }

    fn tile(&self) -> [usize; 2] {
        [1, 1]
    }

    fn panel_bytes(&self) -> usize {
        size_of::<u64>()
    }

    fn pack_a(&self, _panel: &mut Panel) {}

    fn pack_b(&self, _panel: &mut Panel) {}

    fn run(&self, a: &Panel, b: &Panel, steps: Range<usize>, state: Lanes<'_>, _exact: Exact<'_>) {
        match state {
            Lanes::Narrow([c]) => *c = steps.fold((*c).into(), |c, s| self.step(a, b, s, c)) as u32,
            Lanes::Wide([c]) => *c = steps.fold(*c, |c, s| self.step(a, b, s, c)),
            _ => {}
        }
    }
}

/// Keeps some elements of D.
#[derive(Debug)]
pub(crate) struct Picked<'a> {
    pub(crate) shape: [usize; 2],
    pub(crate) at: &'a [[usize; 2]],
    /// Their codes, in the order of `at`.
    pub(crate) codes: Vec<u64>,
}

impl<'a> Picked<'a> {
    pub(crate) fn new(shape: [usize; 2], at: &'a [[usize; 2]]) -> Self {
        Self { shape, at, codes: vec![0; at.len()] }
    }

    /// The rows and columns to be computed: neighbours that follow one another go together.
    pub(crate) fn parts(&self) -> Vec<(usize, Range<usize>)> {
        let mut parts: Vec<(usize, Range<usize>)> = Vec::new();
        for &[i, j] in self.at {
            match parts.last_mut() {
                Some((row, columns)) if *row == i && columns.end == j => columns.end += 1,
                _ => parts.push((i, j..j + 1)),
            }
        }
        parts
    }
}

impl Sink for Picked<'_> {
    fn shape(&self) -> [usize; 2] {
        self.shape
    }

    fn write(&mut self, [i, j]: [usize; 2], width: usize, codes: Run<'_>) {
        for (at, to) in self.at.iter().zip(&mut self.codes) {
            let (Some(down), Some(right)) = (at[0].checked_sub(i), at[1].checked_sub(j)) else { continue };
            if right < width {
                *to = match codes {
                    Run::Narrow(codes) => codes.get(down * width + right).map_or(*to, |&x| x.into()),
                    Run::Wide(codes) => codes.get(down * width + right).copied().unwrap_or(*to),
                };
            }
        }
    }

    fn read(&self, _i: usize, _j: usize, _into: &mut [u64]) {}
}
