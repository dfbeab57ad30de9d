//! What was found, as a table and as JSON.

use super::{Answer, Candidate, Question};
use crate::io::Failure;
use crate::units::plain_table;
use gemmulate::Plan;
use serde_json::json;
use std::io::Write;

/// Functions, and units and plans of one, that the table shows: small products are what many plans make of them.
const SHOWN: usize = 8;

impl Question<'_> {
    /// The plans given that some of the functions cannot run at this size: on how many, and the first one's reason.
    fn left_out(&self) -> Vec<(&Plan, usize, String)> {
        if self.args.plans.is_empty() {
            return Vec::new();
        }
        // K as the unit sees it: packed codes are fewer.
        let sizes: Vec<_> = self.groups.iter().map(|units| self.inputs.on(&units[0]).map(|x| x.size).ok()).collect();
        let refused = |plan: &Plan| -> Vec<String> {
            let checked = self.groups.iter().zip(&sizes).filter_map(|(units, size)| {
                let [m, n, k] = (*size)?;
                plan.check(&units[0], m, n, k).err().map(|why| why.to_string())
            });
            checked.collect()
        };
        let all = self.args.plans.iter().map(|plan| (plan, refused(plan)));
        all.filter_map(|(plan, reasons)| Some((plan, reasons.len(), reasons.into_iter().next()?))).collect()
    }

    pub(super) fn table(&self, out: &mut impl Write, answer: &Answer) -> Result<(), Failure> {
        let (total, tried) = (self.d.len(), answer.tried.len());
        if answer.exact {
            writeln!(out, "of {tried} functions and plans, these give all {total} elements bit for bit:")?;
        } else {
            let computed = if answer.left > 0 { " that was computed whole" } else { "" };
            writeln!(out, "of {tried} functions and plans none{computed} gives D")?;
            // Before the table: what that leaves out is often the answer.
            if !self.args.rounded {
                writeln!(out, "units whose formats do not hold A and B exactly were left out: --rounded tries them")?;
            }
            if total > 1 && answer.matches.iter().all(|c| c.differ == total) {
                writeln!(out, "and none comes near: are A, B and D of one product, and none transposed?")?;
            }
            writeln!(out, "the closest:")?;
        }
        let mut columns = vec!["units", "plans", "D", "elements that differ", "first difference"];
        columns.extend(self.args.rounded.then_some("--round"));
        let mut table = plain_table(&columns);
        let rows = rows(&answer.matches);
        for row in rows.iter().take(SHOWN) {
            let c = row[0];
            let names: Vec<String> = self.groups[c.group].iter().map(ToString::to_string).collect();
            let plans: Vec<String> = row.iter().flat_map(|c| &c.plans).map(ToString::to_string).collect();
            let value = |code: u64| format!("{:e}", c.out.to_f64(code));
            let first = c.first.map_or("-".into(), |at @ [_, i, j]| {
                format!("row {i}, column {j}: {}, not {}", value(c.found), value(self.d.code(at)))
            });
            let differ = format!("{} of {total}", c.differ);
            let mut cells = vec![column(&names), column(&plans), c.out.to_string(), differ, first];
            cells.extend(self.args.rounded.then(|| c.round.to_string()));
            table.add_row(cells);
        }
        writeln!(out, "{table}")?;
        if rows.len() > SHOWN {
            writeln!(out, "{} more functions do, too", rows.len() - SHOWN)?;
        }
        if rows.len() > SHOWN || rows.iter().any(|row| row.iter().map(|c| c.plans.len()).sum::<usize>() > SHOWN) {
            writeln!(out, "--json has all of them")?;
        }
        writeln!(
            out,
            "each unit of a row goes with each of its plans, and stands for every M and N of its instruction"
        )?;
        if let (true, Some(best)) = (self.args.rounded, answer.matches.first()) {
            let all = answer.matches.iter().all(|c| c.round == best.round);
            let how = if all { format!("by --round {}", best.round) } else { "as its last column says".into() };
            writeln!(out, "what a unit does not hold of its operands is rounded {how}")?;
        }
        if answer.left > 0 {
            let why = "agree on samples and were not computed whole: --limit gives them time";
            writeln!(out, "{} more {why}", answer.left)?;
        }
        for (plan, refused, why) in self.left_out() {
            writeln!(out, "left out on {refused} of {} functions: {plan} ({why})", self.groups.len())?;
        }
        Ok(())
    }

    pub(super) fn json(&self, answer: &Answer) -> serde_json::Value {
        let one = |c: &Candidate| {
            json!({
                "units": self.groups[c.group].iter().map(|u| u.name.clone()).collect::<Vec<_>>(),
                "plans": c.plans.iter().map(ToString::to_string).collect::<Vec<_>>(), "output": c.out.name,
                "round": c.round.to_string(), "differ": c.differ, "of": self.d.len(), "first": c.first.map(|[_, i, j]| [i, j]),
                "bits": c.first.map(|at| [format!("{:x}", c.found), format!("{:x}", self.d.code(at))]),
            })
        };
        let matches: Vec<_> = answer.matches.iter().map(one).collect();
        let left_out: Vec<_> = self
            .left_out()
            .into_iter()
            .map(|(plan, functions, why)| json!({"plan": plan.to_string(), "functions": functions, "why": why}))
            .collect();
        json!({
            "exact": answer.exact, "tried": answer.tried.len(), "not_computed": answer.left, "matches": matches,
            "left_out": left_out,
        })
    }
}

/// Those together that are one function's and give all of D.
fn rows(matches: &[Candidate]) -> Vec<Vec<&Candidate>> {
    let mut rows: Vec<Vec<&Candidate>> = Vec::new();
    for c in matches {
        let alike = |row: &&mut Vec<&Candidate>| {
            c.differ == 0 && row[0].differ == 0 && (row[0].group, row[0].out) == (c.group, c.out)
        };
        match rows.iter_mut().find(alike) {
            Some(row) => row.push(c),
            None => rows.push(vec![c]),
        }
    }
    rows
}

/// One below the other, as many as are shown.
fn column(all: &[String]) -> String {
    let more = all.len().saturating_sub(SHOWN);
    let mut lines: Vec<String> = all.iter().take(SHOWN).cloned().collect();
    lines.extend((more > 0).then(|| format!("and {more} more")));
    lines.join("\n")
}
