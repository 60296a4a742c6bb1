//! A graph of a million tasks never exists in memory at once. This is a binary of its own, because
//! it measures its resident memory.

use zellige_runtime::{Handle, Runtime, Submit, read, update};

/// Returns the resident set of this process (bytes), as reported by the kernel; `None` if it is not
/// reported.
fn resident() -> Option<usize> {
    let status = std::fs::read_to_string("/proc/self/status").ok()?;
    let line = status.lines().find(|line| line.starts_with("VmRSS:"))?;
    Some(line.split_whitespace().nth(1)?.parse::<usize>().ok()? * 1024)
}

#[test]
fn a_million_tasks_stay_below_200_megabytes() {
    let rt = Runtime::builder().workers(2).build().unwrap();
    let pool: Vec<Handle<f32>> = (0..1024).map(|_| rt.register(0.0)).collect();
    let Some(before) = resident() else {
        println!("skipped: no /proc/self/status here");
        return;
    };
    let mut most = 0;
    for i in 0..1_000_000 {
        let operands = (read(&pool[(i / 32) % 32]), read(&pool[32 + i % 32]), update(&pool[64 + i % 960]));
        rt.task("tile").operands(operands).cpu(|(_, _, y)| *y += 1.0).submit().unwrap();
        if i % 10_000 == 0 {
            most = most.max(resident().unwrap_or(0));
        }
    }
    rt.wait_all().unwrap();
    let grown = most.saturating_sub(before);
    println!("grew by {} KiB", grown / 1024);
    assert!(grown < 200 << 20, "grew by {grown} bytes");
    let total: f32 = pool.into_iter().map(|x| rt.take(x).unwrap()).sum();
    assert_eq!(total, 1e6);
}
