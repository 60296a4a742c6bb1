//! An operand that is read cannot be written.
use zellige_runtime::{Runtime, Submit, read};

fn main() {
    let rt = Runtime::new().unwrap();
    let x = rt.register(vec![1.0f32]);
    rt.task("write").operands((read(&x),)).cpu(|(x,)| x[0] = 2.0).submit().unwrap();
}
