//! Products of a block-scaled sum that are first summed in groups, exactly: mxf4's and nvf4's sixteen.

use super::super::bench::{exact, top};
use super::super::black_box::Input;
use super::super::reach::last_bit;
use super::structure::Site;
use super::{Feature, Lab, Observation};
use crate::error::Error;
use crate::instr::ScaleRule;

/// Products of which every pair is asked; of more, half a million pairs and gigabytes of inputs would be.
const MOST: usize = 128;

/// Says in `interleave` which k are summed exactly before they meet: two products, each half of the last unit that X - X
/// leaves of others, leave one together. `bits` is how far below X that is.
pub(super) fn scaled_groups(lab: &mut Lab<'_>, site: &Site, bits: i32, all: &mut [Feature]) -> Result<(), Error> {
    let k = lab.bench.interface.k;
    let (Some(rule), true) = (lab.bench.interface.scale, site.with_c && site.products.len() == k && k <= MOST) else {
        return Ok(());
    };
    let blocks = k / rule.block.max(1);
    let x = (2 * top(&rule.format)).min(bits).min(top(&lab.bench.interface.c));
    let e = x - bits - 1;
    let mut evidence = Vec::new();
    let mut together = vec![vec![false; k]; k];
    // Each k beside an X of another block: the first, and for those of the first the last.
    for home in [0, blocks.saturating_sub(1)] {
        let others: Vec<usize> = (0..k).filter(|i| i / rule.block.max(1) != home).collect();
        let pairs = others.iter().flat_map(|&i| others.iter().filter(move |&&j| i <= j).map(move |&j| [i, j]));
        let pairs: Vec<[usize; 2]> = pairs.collect();
        let made = |pair: &[usize; 2]| input(lab, rule, home * rule.block, x, pair, e);
        let Some(inputs) = pairs.iter().map(made).collect::<Option<Vec<Input>>>() else { return Ok(()) };
        let shows = |[i, j]: [usize; 2]| match i == j {
            true => format!("X - X + 2^{e} at k = {i}, X = 2^{x}"),
            false => format!("X - X + 2^{e} at k = {i} and {j}, X = 2^{x}"),
        };
        let seen = lab.ask(inputs.into_iter().zip(&pairs).map(|(x, pair)| (Some(x), shows(*pair))).collect())?;
        let unit = lab.bench.d(false, 1, e + 1);
        let is_zero = |o: &Observation| lab.bench.interface.d.decode(o.d).is_zero();
        // One alone is cut off, but for those in X's own group.
        let mut cut = vec![false; k];
        pairs.iter().zip(&seen).filter(|([i, j], o)| i == j && is_zero(o)).for_each(|([i, _], _)| cut[*i] = true);
        for (&[i, j], o) in pairs.iter().zip(&seen).filter(|([i, j], _)| i != j && cut[*i] && cut[*j]) {
            let kept = Some(o.d) == unit;
            // Two leave a unit or nothing: anything else is no answer to this.
            if !kept && !is_zero(o) {
                return Ok(());
            }
            together[i][j] |= kept;
            together[j][i] |= kept;
        }
        evidence.extend(telling(&pairs, &seen, unit));
    }
    let groups: Vec<Vec<usize>> = (0..k).map(|i| (0..k).filter(|&j| i == j || together[i][j]).collect()).collect();
    let first_of = |group: &Vec<usize>, i: usize| group.first() == Some(&i);
    let mut sums: Vec<Vec<usize>> =
        groups.iter().enumerate().filter(|(i, g)| first_of(g, *i)).map(|x| x.1.clone()).collect();
    sums.retain(|group| group.len() > 1);
    let Some(size) = sums.first().map(Vec::len) else { return Ok(()) };
    let runs = sums.iter().enumerate().all(|(n, group)| group.iter().copied().eq(n * size..(n + 1) * size));
    let apart = if runs { format!("groups of {size} k apart") } else { format!("those of {sums:?} apart") };
    if let Some(interleave) = all.iter_mut().find(|f| f.name == "interleave") {
        interleave.value = format!("{}; in a block, {apart}", interleave.value).into();
        interleave.evidence.extend(evidence);
    }
    Ok(())
}

/// X as c, -X as product `home`, and 2^e at each of two k, by scales as far as these reach.
fn input(lab: &Lab<'_>, rule: ScaleRule, home: usize, x: i32, pair: &[usize; 2], e: i32) -> Option<Input> {
    let i = lab.bench.interface;
    let mut input = lab.bench.zeros();
    input.c = exact(&i.c, false, 1, x)?;
    let low = last_bit(&rule.format);
    for (at, negative, e) in [(home, true, x), (pair[0], false, e), (pair[1], false, e)] {
        let by = e.clamp(2 * low, 2 * top(&rule.format));
        let (scales, operands) = ([by / 2, by - by / 2], [(e - by) / 2, e - by - (e - by) / 2]);
        let block = at / rule.block.max(1);
        *input.scale_a.get_mut(block)? = exact(&rule.format, false, 1, scales[0])?;
        *input.scale_b.get_mut(block)? = exact(&rule.format, false, 1, scales[1])?;
        input.a[at] = exact(&i.a, negative, 1, operands[0])?;
        input.b[at] = exact(&i.b, false, 1, operands[1])?;
    }
    Some(input)
}

/// A product alone, the first pair that leaves a unit, and the first that does not.
fn telling(pairs: &[[usize; 2]], seen: &[Observation], unit: Option<u64>) -> Vec<Observation> {
    let first = |wanted: &dyn Fn(&[usize; 2], &Observation) -> bool| {
        pairs.iter().zip(seen).find(|(pair, o)| wanted(pair, o)).map(|(_, o)| o.clone())
    };
    let found = [
        first(&|[i, j], _| i == j),
        first(&|[i, j], o| i != j && Some(o.d) == unit),
        first(&|[i, j], o| i != j && Some(o.d) != unit),
    ];
    found.into_iter().flatten().collect()
}
