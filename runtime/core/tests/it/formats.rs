//! Format replicas and deferred selection, with a toy type: a number stored exactly or rounded to
//! an integer.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use zellige_runtime::codelet::Apart;
use zellige_runtime::*;

const WHOLE: Format = Format(7);

struct Number {
    value: f64,
    format: Format,
    conversions: Arc<AtomicUsize>,
}

impl Data for Number {
    type Ref<'v> = &'v Number;
    type Mut<'v> = &'v mut Number;

    fn view(&self) -> &Number {
        self
    }

    fn view_mut(&mut self) -> &mut Number {
        self
    }

    fn meta(&self) -> Meta {
        Meta { format: self.format, norm: self.value.abs(), bytes: 8 }
    }

    fn convert(&self, to: Format) -> Option<Number> {
        self.conversions.fetch_add(1, Ordering::SeqCst);
        // Long enough for other readers to arrive meanwhile.
        std::thread::sleep(std::time::Duration::from_millis(2));
        (to == WHOLE).then(|| Number {
            value: self.value.round(),
            format: to,
            conversions: Arc::clone(&self.conversions),
        })
    }
}

fn number(value: f64) -> (Number, Arc<AtomicUsize>) {
    let conversions = Arc::new(AtomicUsize::new(0));
    (Number { value, format: Format::NATIVE, conversions: Arc::clone(&conversions) }, conversions)
}

#[test]
fn a_replica_is_made_once_per_version() {
    for workers in [1, 4] {
        let rt = Runtime::builder().workers(workers).build().unwrap();
        let (value, conversions) = number(1.4);
        let x = rt.register(value);
        let sums: Vec<_> = (0..20).map(|_| rt.register(0.0f64)).collect();
        let round = |expected: usize| {
            for sum in &sums {
                rt.task("whole")
                    .operands((read(&x).as_format(WHOLE), update(sum)))
                    .cpu(|(x, sum)| {
                        assert_eq!(x.format, WHOLE);
                        *sum += x.value;
                    })
                    .submit()
                    .unwrap();
                rt.task("exact")
                    .operands((read(&x), update(sum)))
                    .cpu(|(x, sum)| *sum += x.value)
                    .submit()
                    .unwrap();
            }
            rt.wait_all().unwrap();
            assert_eq!(conversions.load(Ordering::SeqCst), expected);
        };
        round(1);
        rt.task("next").operands((update(&x),)).cpu(|(x,)| x.value = 2.6).submit().unwrap();
        round(2);
        for sum in sums {
            assert!((rt.take(sum).unwrap() - (1.0 + 1.4 + 3.0 + 2.6)).abs() < 1e-12);
        }
    }
}

#[test]
fn update_converts_in_place_and_impossible_conversions_fail() {
    let rt = Runtime::builder().workers(2).build().unwrap();
    let (value, _) = number(1.4);
    let x = rt.register(value).named("x");
    rt.task("up").operands((update(&x).as_format(WHOLE),)).cpu(|(x,)| x.value += 0.25).submit().unwrap();
    assert_eq!(rt.read(&x).unwrap().value, 1.25);
    let bad = rt.task("bad").operands((read(&x).as_format(Format(9)),)).cpu(|(_,)| ()).submit().unwrap();
    let error = rt.wait(&bad).unwrap_err().to_string();
    assert!(error.contains("x is stored in Format(7) and cannot be converted to Format(9)"), "{error}");
}

/// Adds `x` to a sum, rounded if its norm, which is known only when `x` is finished, is large.
struct Add;

impl Codelet for Add {
    type Operands = (Read<Number>, Update<f64>);

    fn name(&self) -> &'static str {
        "add"
    }

    fn selects(&self) -> bool {
        true
    }

    fn select(&self, metas: &[Meta]) -> Choice {
        let low = metas[0].norm > 10.0;
        let format = low.then_some(WHOLE);
        Choice {
            formats: [format, None, None, None],
            variant: u32::from(low),
            label: if low { "whole" } else { "exact" },
            ..Choice::default()
        }
    }

    fn cpu(
        &self,
        (x, sum): <Self::Operands as Operands>::Views<'_, Cpu>,
        cx: &mut TaskContext<'_>,
    ) -> Result<(), TaskError> {
        assert_eq!(cx.variant() == 1, x.format == WHOLE);
        *sum += x.value;
        Ok(())
    }
}

#[test]
fn a_late_choice_sees_finished_operands_also_at_every_replay() {
    let rt = Runtime::builder().workers(2).trace(true).build().unwrap();
    let (value, _) = number(0.0);
    let x = rt.register(value).named("x");
    let sum = rt.register(0.0f64).named("sum");
    let step = |s: &Recorder| {
        s.task("grow").operands((update(&x),)).cpu(|(x,)| x.value = 3.0 * x.value + 2.3).submit()?;
        s.submit(Add, (read(&x), update(&sum))).map(drop)
    };
    let graph = rt.record(step).unwrap();
    for _ in 0..3 {
        rt.replay(&Bindings::recorded(&graph)).unwrap();
    }
    // x: 2.3, 9.2, 29.9; the last is rounded.
    assert!((rt.take(sum).unwrap() - (2.3 + 9.2 + 30.0)).abs() < 1e-12);
    let labels: Vec<&str> =
        rt.take_trace().unwrap().tasks.iter().filter(|t| t.name == "add").map(|t| t.label).collect();
    assert_eq!(labels, ["exact", "exact", "whole"]);
}

/// Adds values, rounding those at odd positions.
struct AddAll;

impl Codelet for AddAll {
    type Operands = (ReadList<Number>, Update<f64>);

    fn name(&self) -> &'static str {
        "add all"
    }

    fn selects(&self) -> bool {
        true
    }

    fn select(&self, _metas: &[Meta]) -> Choice {
        Choice { apart: Some(Apart { elements: !0 / 3 * 2, format: WHOLE }), ..Choice::default() }
    }

    fn cpu(
        &self,
        (all, sum): <Self::Operands as Operands>::Views<'_, Cpu>,
        _cx: &mut TaskContext<'_>,
    ) -> Result<(), TaskError> {
        *sum += all.iter().map(|x| x.value).sum::<f64>();
        Ok(())
    }
}

#[test]
fn elements_of_a_list_can_be_chosen_apart() {
    let rt = Runtime::builder().workers(2).build().unwrap();
    let all: Vec<_> = (0..40).map(|at| rt.register(number(f64::from(at) + 0.25).0)).collect();
    let sum = rt.register(0.0f64);
    rt.submit(AddAll, (reads(&all), update(&sum))).unwrap();
    // Positions 1, 3, .., 31 are rounded; from 32 on none is.
    assert_eq!(rt.take(sum).unwrap(), (0..40).sum::<i32>() as f64 + 0.25 * (40.0 - 16.0));
}

/// A codelet that panics when the runtime checks if it has a deferred selection.
struct Undecided;

impl Codelet for Undecided {
    type Operands = (Update<f32>,);

    fn name(&self) -> &'static str {
        "undecided"
    }

    fn selects(&self) -> bool {
        panic!("who knows")
    }

    fn cpu(
        &self,
        _views: <Self::Operands as Operands>::Views<'_, Cpu>,
        _cx: &mut TaskContext<'_>,
    ) -> Result<(), TaskError> {
        Ok(())
    }
}

#[test]
fn a_codelet_that_panics_when_asked_for_its_choice_fails_alone() {
    let rt = Runtime::builder().workers(2).build().unwrap();
    let (x, y) = (rt.register(1f32).named("x"), rt.register(2f32));
    let task = rt.submit(Undecided, (update(&x),)).unwrap();
    let error = rt.wait(&task).unwrap_err().to_string();
    assert!(error.contains("the deferred selection panicked: who knows"), "{error}");
    assert_eq!(rt.take(y).unwrap(), 2.0);
}
