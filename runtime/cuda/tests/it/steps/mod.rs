//! Tasks on one number each, on a GPU that checks its use.

use std::sync::Arc;
use std::time::Duration;

use zellige_cuda::{CUDA, GpuTask};
use zellige_gpu::Arg;
use zellige_gpu::mock::{Mock, MockBuilder};
use zellige_gpu::twin::TwinArg;
use zellige_runtime::codelet::{DeviceTable, OnDevice};
use zellige_runtime::{Choice, Codelet, Cpu, Meta, Operands, Read, TaskContext, TaskError, Update, Write};

pub type Views<'v, C, K> = <<C as Codelet>::Operands as Operands>::Views<'v, K>;

pub fn number(bytes: &[u8]) -> f64 {
    f64::from_le_bytes(bytes[..8].try_into().unwrap())
}

/// Creates a mock GPU with `y = a y + x` and `y = a`, for one number; each operation takes `pace`.
pub fn mock(pace: Duration, build: impl FnOnce(MockBuilder) -> MockBuilder) -> Arc<Mock> {
    let kernels = Mock::builder()
        .kernel("step", move |_grid, _block, args| match args {
            [TwinArg::F64(a), TwinArg::Read(x), TwinArg::Update(y)] => {
                std::thread::sleep(pace);
                y.copy_from_slice(&(*a * number(y) + number(x)).to_le_bytes());
                Ok(())
            }
            _ => Err("step takes a, x and y".into()),
        })
        .kernel("set", move |_grid, _block, args| match args {
            [TwinArg::F64(a), TwinArg::Write(y)] => {
                std::thread::sleep(pace);
                y.copy_from_slice(&a.to_le_bytes());
                Ok(())
            }
            _ => Err("set takes a and y".into()),
        });
    Arc::new(build(kernels).build())
}

/// Deferred work of a step.
#[derive(Clone, Copy, PartialEq)]
pub enum End {
    Nothing,
    /// It fails if the result is this.
    FailsOn(f64),
}

/// `y = a y + x`.
pub struct Step {
    pub a: f64,
    pub end: End,
    pub needs_ends: bool,
    pub late: bool,
}

impl Step {
    pub fn by(a: f64) -> Self {
        Step { a, end: End::Nothing, needs_ends: true, late: false }
    }
}

pub fn launch(cx: &TaskContext<'_>, name: &str, args: &[Arg]) -> Result<(), TaskError> {
    let gpu = cx.gpu();
    let kernel = gpu.driver().kernel(gpu.driver().load(gpu.gpu(), b"an image")?, name)?;
    // SAFETY: the arrays are the task's operands, and the arguments those of the kernel.
    unsafe { gpu.driver().launch(gpu.stream(), kernel, [1; 3], [32, 1, 1], 0, args)? };
    Ok(())
}

impl Codelet for Step {
    type Operands = (Read<Vec<f64>>, Update<Vec<f64>>);

    fn name(&self) -> &'static str {
        "step"
    }

    fn selects(&self) -> bool {
        self.late
    }

    fn select(&self, _metas: &[Meta]) -> Choice {
        Choice::default()
    }

    fn cpu(&self, (x, y): Views<'_, Self, Cpu>, _cx: &mut TaskContext<'_>) -> Result<(), TaskError> {
        y[0] = self.a * y[0] + x[0];
        Ok(())
    }

    fn needs_ends(&self) -> bool {
        self.needs_ends
    }

    fn on_devices(&self, table: &mut DeviceTable<Self>) {
        table.add(*CUDA, Self::cuda);
    }
}

impl Step {
    fn cuda(&self, (x, y): Views<'_, Self, OnDevice>, cx: &mut TaskContext<'_>) -> Result<(), TaskError> {
        let ((x, bytes), (y, _)) = (x.part(0), y.part(0));
        launch(cx, "step", &[Arg::F64(self.a), Arg::Read(x, bytes), Arg::Update(y, bytes)])?;
        if let End::FailsOn(wrong) = self.end {
            let then = move |bytes: &[u8]| match number(bytes) {
                found if found == wrong => Err(format!("the result is {found}").into()),
                _ => Ok(()),
            };
            // SAFETY: the bytes are the operand's.
            unsafe { cx.gpu().read_back(y, 8, then)? };
        }
        Ok(())
    }
}

/// `y = a`, written anew.
pub struct Set(pub f64);

impl Codelet for Set {
    type Operands = (Write<Vec<f64>>,);

    fn name(&self) -> &'static str {
        "set"
    }

    fn cpu(&self, (mut y,): Views<'_, Self, Cpu>, _cx: &mut TaskContext<'_>) -> Result<(), TaskError> {
        y.put(vec![self.0]);
        Ok(())
    }

    fn needs_ends(&self) -> bool {
        false
    }

    fn on_devices(&self, table: &mut DeviceTable<Self>) {
        table.add(*CUDA, Self::cuda);
    }
}

impl Set {
    fn cuda(&self, (y,): Views<'_, Self, OnDevice>, cx: &mut TaskContext<'_>) -> Result<(), TaskError> {
        let (y, bytes) = y.put(1, cx.device())?.part(0);
        launch(cx, "set", &[Arg::F64(self.0), Arg::Write(y, bytes)])
    }
}

/// Returns a generator of numbers below its argument, the same ones for the same seed.
pub fn numbers(seed: u64) -> impl FnMut(usize) -> usize {
    let mut state = seed.wrapping_mul(0x9E37_79B9_7F4A_7C15) | 1;
    move |below| {
        state ^= state << 13;
        state ^= state >> 7;
        state ^= state << 17;
        (state % below as u64) as usize
    }
}

pub fn check(mock: &Mock) {
    assert_eq!((mock.violations(), mock.leaks()), (vec![], vec![]));
}
