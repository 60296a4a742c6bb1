//! A slice registered in a scope must outlive the scope.
use zellige_runtime::Runtime;

fn main() {
    let rt = Runtime::new().unwrap();
    rt.scope(|s| {
        let mut short = vec![1.0f32];
        let _handle = s.slice(&mut short, 1, 1);
    });
}
