//! What every other test takes for granted: that a box sums.

use super::{Error, Lab, Observation};

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
