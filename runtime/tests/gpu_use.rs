//! What profilers see of GPUs.

use std::sync::Arc;

use zellige_gpu::Driver;
use zellige_gpu::fake::Fake;
use zellige_runtime::{
    Choice, Codelet, Cpu, Cuda, Gpu, Meta, Operands, Runtime, Submit, TaskContext, TaskError, TaskInfo,
    Update, update,
};

type Views<'v, C, K> = <<C as Codelet>::Operands as Operands>::Views<'v, K>;

/// What the body of [`Clear`] does on a GPU besides its work.
#[derive(Clone, Copy)]
enum Way {
    Plain,
    Within,
    Fails,
    Panics,
}

/// Sets a vector to zero.
struct Clear {
    way: Way,
    info: TaskInfo,
    /// What it is called once its operands are ready.
    late: Option<&'static str>,
}

impl Clear {
    fn plain() -> Self {
        Clear { way: Way::Plain, info: TaskInfo::default(), late: None }
    }
}

impl Codelet for Clear {
    type Operands = (Update<Vec<f64>>,);

    fn name(&self) -> &'static str {
        "clear"
    }

    fn info(&self) -> TaskInfo {
        self.info
    }

    fn late(&self) -> bool {
        self.late.is_some()
    }

    fn choose(&self, _metas: &[Meta]) -> Choice {
        Choice { label: self.late.unwrap_or(""), ..Choice::default() }
    }

    fn cpu(&self, (y,): Views<'_, Self, Cpu>, _cx: &mut TaskContext<'_>) -> Result<(), TaskError> {
        y.fill(0.0);
        Ok(())
    }

    fn has_cuda(&self) -> bool {
        true
    }

    fn cuda(&self, (y,): Views<'_, Self, Cuda>, cx: &mut TaskContext<'_>) -> Result<(), TaskError> {
        let (gpu, (at, bytes)) = (cx.gpu(), y.part(0));
        if let Way::Within = self.way {
            gpu.driver().begin_range("zero");
        }
        // SAFETY: the bytes are the operand's.
        unsafe { gpu.driver().zero(gpu.stream(), at, bytes)? };
        match self.way {
            Way::Plain => Ok(()),
            Way::Within => {
                gpu.driver().end_range();
                Ok(())
            }
            Way::Fails => Err("it fails".into()),
            Way::Panics => panic!("it panics"),
        }
    }
}

#[test]
fn each_body_has_a_range_that_ends_however_it_ends() {
    let fake = Arc::new(Fake::builder().ranges().build());
    let rt = Runtime::builder().workers(0).device(Gpu::new(fake.clone(), 0)).build().unwrap();
    let place = |label, coords| TaskInfo { label, coords: Some(coords), ..TaskInfo::default() };
    let nowhere = u32::MAX;
    let tasks = [
        Clear { info: place("hp1", [3, 2, 1]), ..Clear::plain() },
        Clear { info: place("", [4, 1, nowhere]), way: Way::Within, ..Clear::plain() },
        Clear { info: place("early", [5, 0, 0]), late: Some("x3"), ..Clear::plain() },
        Clear { info: place("early", [6, 0, 0]), late: Some(""), ..Clear::plain() },
        Clear { way: Way::Fails, ..Clear::plain() },
        Clear { way: Way::Panics, ..Clear::plain() },
        Clear::plain(),
    ];
    let count = tasks.len();
    let values: Vec<_> = (0..count).map(|_| rt.register(vec![1.0; 3])).collect();
    for (task, value) in tasks.into_iter().zip(&values) {
        rt.submit(task, (update(value),)).unwrap();
    }
    let ends: Vec<bool> = values.into_iter().map(|value| rt.take(value).is_ok()).collect();
    assert_eq!(ends, [true, true, true, true, false, false, true]);
    drop(rt);
    // They are launched on two streams, whose threads take turns.
    let mut ranges = fake.ranges();
    ranges.sort();
    let wanted = [
        "clear",
        "clear",
        "clear",
        "clear (4, 1)",
        "clear (4, 1) / zero",
        "clear early (6, 0, 0)",
        "clear hp1 (3, 2, 1)",
        "clear x3 (5, 0, 0)",
    ];
    assert_eq!(ranges, wanted);
    assert_eq!((fake.violations(), fake.leaks()), (vec![], vec![]));
}

#[test]
fn nobody_looks_and_there_are_no_ranges() {
    let fake = Arc::new(Fake::builder().build());
    let rt = Runtime::builder().workers(0).device(Gpu::new(fake.clone(), 0)).build().unwrap();
    let value = rt.register(vec![1.0]);
    rt.submit(Clear::plain(), (update(&value),)).unwrap();
    assert_eq!(rt.take(value).unwrap(), [0.0]);
    assert!(!fake.has_ranges() && fake.ranges().is_empty());
}
