//! A codelet that reads f32 cannot be handed f64.
use zellige_runtime::{Codelet, Cpu, Operands, Read, Runtime, Submit, TaskContext, TaskError, read};

struct Sum;

impl Codelet for Sum {
    type Operands = (Read<Vec<f32>>,);
    fn name(&self) -> &'static str {
        "sum"
    }
    fn cpu(&self, _: <Self::Operands as Operands>::Views<'_, Cpu>, _: &mut TaskContext<'_>) -> Result<(), TaskError> {
        Ok(())
    }
}

fn main() {
    let rt = Runtime::new().unwrap();
    let x = rt.register(vec![1.0f64]);
    rt.submit(Sum, (read(&x),)).unwrap();
}
