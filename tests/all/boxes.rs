//! Boxes and commands that are no units.

use crate::custom::Random;
use gemmulate::Unit;
use gemmulate::format::{E4M3, E5M2, F16, F32};
use gemmulate::probe::{BlackBox, Command, FitOptions, Input, Interface, NoTree, SummationTree, features, fit};
use std::time::Duration;

/// Boxes that are no units: the same answer always, another one each time, parts of the question.
#[derive(Debug)]
enum Strange {
    Constant(u64),
    Erratic(Random),
    Echo,
}

#[derive(Debug)]
struct NoUnit(Strange, Interface);

impl BlackBox for NoUnit {
    fn interface(&self) -> Interface {
        self.1
    }

    fn dot_adds(&mut self, inputs: &[Input]) -> Result<Vec<u64>, gemmulate::Error> {
        let mask = self.1.d.code_mask();
        let answer = |x: &Input| match &mut self.0 {
            Strange::Constant(d) => *d,
            Strange::Erratic(r) => r.below(u64::MAX),
            Strange::Echo => x.c ^ x.a.iter().fold(0u64, |sum, a| sum.rotate_left(3) ^ a),
        };
        Ok(inputs.iter().map(answer).map(|d| d & mask).collect())
    }
}

/// A box that leaves its last answer out.
#[derive(Debug)]
struct Short(Unit);

impl BlackBox for Short {
    fn interface(&self) -> Interface {
        BlackBox::interface(&self.0)
    }

    fn dot_adds(&mut self, inputs: &[Input]) -> Result<Vec<u64>, gemmulate::Error> {
        let mut answers = self.0.dot_adds(inputs)?;
        answers.pop();
        Ok(answers)
    }
}

/// A box that takes its time.
#[derive(Debug)]
struct Slow {
    unit: Unit,
    an_answer: Duration,
    answered: u64,
}

impl BlackBox for Slow {
    fn interface(&self) -> Interface {
        BlackBox::interface(&self.unit)
    }

    fn dot_adds(&mut self, inputs: &[Input]) -> Result<Vec<u64>, gemmulate::Error> {
        std::thread::sleep(self.an_answer * inputs.len() as u32);
        self.answered += inputs.len() as u64;
        self.unit.dot_adds(inputs)
    }
}

/// However slow the machine is: asked no more after 300 ms, such a box has given at most 300 answers and those of the
/// last round trip.
#[test]
fn a_slow_box_is_asked_no_longer_than_it_may_be() {
    let unit = Unit::find("volta/mma.m8n8k4.f32.f16.f16.f32").unwrap();
    let mut slow = Slow { unit, an_answer: Duration::from_millis(1), answered: 0 };
    let options = FitOptions { time: Duration::from_millis(300), ..FitOptions::default() };
    let error = fit(&mut slow, &options).unwrap_err();
    assert!(matches!(error, gemmulate::Error::OutOfTime { .. }), "{error}");
    assert!(slow.answered < 500, "{}", slow.answered);
}

#[test]
fn a_box_with_too_few_answers_is_an_error() {
    for name in ["volta/mma.m8n8k4.f32.f16.f16.f32", "custom/m1n1k2.f32.e2m1.e2m1.f32/dot:block=1:F=30"] {
        let mut short = Short(Unit::find(name).unwrap());
        let options = FitOptions::default();
        let errors = [
            features(&mut short).unwrap_err(),
            match SummationTree::find(&mut short) {
                Err(NoTree::Failed(error)) => error,
                other => panic!("{name}: {other:?}"),
            },
            fit(&mut short, &options).unwrap_err(),
        ];
        for error in errors {
            assert!(error.to_string().contains("as many as the inputs"), "{name}: {error}");
        }
    }
}

/// As of a function that extends the sign of d.
#[test]
fn an_answer_wider_than_d_is_an_error() {
    let unit = Unit::find("volta/mma.m8n8k4.f32.f16.f16.f32").unwrap();
    let interface = BlackBox::interface(&unit);
    let mut wide = gemmulate::probe::from_fn(interface, |x| x.eval(&unit).unwrap() as i32 as i64 as u64);
    let error = features(&mut wide).unwrap_err().to_string();
    assert!(error.contains("an answer of a box must be a code of f32") && error.contains("ffffffff"), "{error}");
    let mut narrow = gemmulate::probe::from_fn(interface, |x| x.eval(&unit).unwrap());
    assert_eq!(fit(&mut narrow, &FitOptions::default()).unwrap().mismatches, 0);
}

/// Whatever a box answers, nothing panics, and no model is claimed for what no unit computes.
#[test]
fn boxes_that_are_no_units_are_survived() {
    use gemmulate::format::{BF16, E2M1, UE8M0};
    use gemmulate::instr::ScaleRule;
    let options = FitOptions { time: Duration::from_secs(2), vectors: 2000, ..FitOptions::default() };
    let scale = Some(ScaleRule { format: UE8M0, block: 2 });
    let interfaces = [
        Interface { k: 1, a: F16, b: F16, c: F32, d: F32, scale: None },
        Interface { k: 3, a: BF16, b: E5M2, c: F16, d: F32, scale: None },
        Interface { k: 4, a: E2M1, b: E4M3, c: F32, d: F16, scale },
        Interface { k: 2, a: E2M1, b: E2M1, c: E2M1, d: E2M1, scale: None },
    ];
    for interface in interfaces {
        for d in [0, 1, interface.d.code_mask(), interface.d.max_code(true)] {
            let _ = features(&mut NoUnit(Strange::Constant(d), interface)).unwrap();
            // What 1 x 1 is not 1 for has no model, and none is looked for.
            let constant = fit(&mut NoUnit(Strange::Constant(d), interface), &options).unwrap();
            assert!(constant.does_not_sum.is_some() && constant.mismatches > 0, "{interface:?} {d:x}");
        }
        for seed in 0..3 {
            let _ = features(&mut NoUnit(Strange::Erratic(Random(seed)), interface)).unwrap();
        }
        let erratic = fit(&mut NoUnit(Strange::Erratic(Random(7)), interface), &options).unwrap_err();
        assert!(matches!(erratic, gemmulate::Error::Inconsistent { .. }), "{interface:?}: {erratic}");
        let echo = fit(&mut NoUnit(Strange::Echo, interface), &options).unwrap();
        let _ = features(&mut NoUnit(Strange::Echo, interface)).unwrap();
        assert!(echo.mismatches > 0, "{interface:?}");
        let c = echo.counterexample.unwrap();
        assert_ne!(c.answer, c.model);
    }
}

/// A unit that gives one answer in `period` with its last bit flipped.
#[derive(Debug)]
struct Flaky {
    unit: Unit,
    period: usize,
    asked: usize,
}

impl BlackBox for Flaky {
    fn interface(&self) -> Interface {
        BlackBox::interface(&self.unit)
    }

    fn dot_adds(&mut self, inputs: &[Input]) -> Result<Vec<u64>, gemmulate::Error> {
        let mut answers = self.unit.dot_adds(inputs)?;
        for d in &mut answers {
            self.asked += 1;
            *d ^= u64::from(self.asked.is_multiple_of(self.period));
        }
        Ok(answers)
    }
}

/// A box that now and then answers otherwise is told with the input and both answers, one of them the
/// unit's own: where it errs among the first answers, while a model is falsified, or never again.
#[test]
fn a_box_that_is_no_function_is_said_to_be_none() {
    for (name, period) in [
        ("volta/mma.m8n8k4.f32.f16.f16.f32", 997),
        ("volta/mma.m8n8k4.f32.f16.f16.f32", 5003),
        ("cdna2/v_mfma_f32_32x32x8f16", 40_009),
        ("hopper/mma.m16n8k16.f16.f16.f16.f16", 100_003),
    ] {
        let unit = Unit::find(name).unwrap();
        let error = fit(&mut Flaky { unit: unit.clone(), period, asked: 0 }, &FitOptions::default()).unwrap_err();
        let gemmulate::Error::Inconsistent { input, first, again } = &error else { panic!("{name}: {error}") };
        let own = unit.dot_add_bits(&input.a, &input.b, input.c).unwrap();
        assert!(first != again && [*first, *again].contains(&own), "{name}, one in {period}: {error}");
        let said = error.to_string();
        assert!(said.contains(&format!("`{input}`")) && said.contains(&format!("{first:x}")), "{said}");
    }
}

fn command(text: &str, timeout: f32) -> gemmulate::Error {
    let interface = Interface { k: 2, a: F16, b: F16, c: F32, d: F32, scale: None };
    let mut target = match Command::start(text, interface, Duration::from_secs_f32(timeout)) {
        Ok(target) => target,
        Err(error) => return error,
    };
    features(&mut target).unwrap_err()
}

#[cfg(unix)]
#[test]
fn bad_commands_give_clear_errors() {
    let cases = [
        ("sleep 100", 0.3, "gave no answer for 0.3 s"),
        ("exit 3", 20.0, "exit status: 3"),
        ("echo bad news >&2; exit 1", 20.0, "it said: bad news"),
        // Noticed before the first question, or as its answer.
        ("yes hello", 20.0, "`hello`"),
        ("yes 123456789", 20.0, "`123456789`"),
        ("head -c 100000 /dev/zero; sleep 100", 20.0, "more than 256 bytes"),
        ("yes 0", 20.0, "unasked"),
        ("while read l; do echo; done", 0.3, "gave no answer but"),
        ("/no/such/program", 20.0, "127"),
    ];
    for (text, timeout, message) in cases {
        let error = command(text, timeout).to_string();
        assert!(error.contains(message), "{text}: {error}");
    }
}
