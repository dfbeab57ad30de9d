//! What every other test takes for granted: that a box sums, and always in the same way.

use super::{BlackBox, Error, Input, Interface, Lab, Observation};

/// A box whose first inputs are asked twice.
pub(super) struct Repeated<'a> {
    target: &'a mut dyn BlackBox,
    /// Inputs still to be asked twice.
    left: usize,
    differ: Option<[Observation; 2]>,
}

/// Inputs asked twice: enough to meet one wrong bit in a thousand answers.
const TWICE: usize = 4000;

impl<'a> Repeated<'a> {
    pub(super) fn new(target: &'a mut dyn BlackBox) -> Self {
        Self { target, left: TWICE, differ: None }
    }

    /// An input that was answered in two ways.
    pub(super) fn differ(&self) -> Option<&[Observation]> {
        self.differ.as_ref().map(<[Observation; 2]>::as_slice)
    }
}

impl BlackBox for Repeated<'_> {
    fn interface(&self) -> Interface {
        self.target.interface()
    }

    fn dot_adds(&mut self, inputs: &[Input]) -> Result<Vec<u64>, Error> {
        let first = self.target.dot_adds(inputs)?;
        let again = &inputs[..self.left.min(inputs.len())];
        if self.differ.is_none() && !again.is_empty() {
            self.left -= again.len();
            let second = self.target.dot_adds(again)?;
            let answers = again.iter().zip(first.iter().zip(second));
            self.differ = answers.into_iter().find(|(_, (x, y))| *x != y).map(|(input, (&x, y))| {
                [(x, "asked once"), (y, "asked again")].map(|(d, when)| Observation::new(input.clone(), d, when))
            });
        }
        Ok(first)
    }
}

/// Why nothing can be told, if 1 x 1, c = 1, their negatives or 1 + 1 come out as anything else.
pub(super) fn failure(lab: &mut Lab<'_>) -> Result<Option<(String, Vec<Observation>)>, Error> {
    let k = lab.bench.interface.k;
    let name = |place: usize| if place == k { "c = 1".into() } else { format!("1 x 1 at k = {place}") };
    let mut wanted = Vec::new();
    let mut inputs = Vec::new();
    for place in 0..=k {
        let next = (place + 1) % (k + 1);
        for (terms, shows) in [
            (vec![(place, false, 1, 0)], name(place)),
            (vec![(place, true, 1, 0)], format!("-({})", name(place))),
            (vec![(place, false, 1, 0), (next, false, 1, 0)], format!("{} and {}", name(place), name(next))),
        ] {
            let want = lab.bench.d(terms[0].1, terms.len() as u128, 0);
            if let (Some(input), Some(want)) = (lab.bench.terms(&terms), want) {
                wanted.push(want);
                inputs.push((Some(input), shows));
            }
        }
    }
    let d = lab.bench.interface.d;
    let seen = lab.ask(inputs)?;
    let wrong = seen.into_iter().zip(wanted).find(|(o, want)| o.d != *want);
    Ok(wrong.map(|(o, want)| {
        let why = format!("it does not sum: {} gives {}, not {}", o.shows, d.to_f64(o.d), d.to_f64(want));
        (why, vec![o])
    }))
}
