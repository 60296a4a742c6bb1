//! A body cannot borrow what may be gone when it runs.
use zellige_runtime::{Runtime, Submit, update};

fn main() {
    let rt = Runtime::new().unwrap();
    let x = rt.register(1.0f32);
    let factor = 2.0f32;
    let by_reference = &factor;
    rt.task("scale").operands((update(&x),)).cpu(|(x,)| *x *= *by_reference).submit().unwrap();
}
