//! A view cannot outlive the body that it was given to.
use std::sync::Mutex;
use zellige_runtime::{Runtime, Submit, read};

fn main() {
    let rt = Runtime::new().unwrap();
    let x = rt.register(vec![1.0f32]);
    let kept: Mutex<Option<&'static [f32]>> = Mutex::new(None);
    rt.task("leak").operands((read(&x),)).cpu(move |(x,)| *kept.lock().unwrap() = Some(x)).submit().unwrap();
}
