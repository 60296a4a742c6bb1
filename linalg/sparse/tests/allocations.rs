//! Allocations of solvers, step by step: a binary of its own, whose allocator counts.
#![allow(unsafe_code)]

use std::alloc::{GlobalAlloc, Layout, System};
use std::sync::atomic::{AtomicUsize, Ordering};

use zellige_runtime::Runtime;
use zellige_sparse::Error;
use zellige_sparse::generate::{Flow, Transport, flow, transport};
use zellige_sparse::krylov::Stop;
use zellige_sparse::system::{Options, ScalingChoice, System as Solver};

struct Counting;

/// A request of at least this many bytes is one for a vector's part, or more.
const LARGE: usize = 1 << 12;

static LARGE_REQUESTS: AtomicUsize = AtomicUsize::new(0);

// SAFETY: every call goes to the system's allocator as it came.
unsafe impl GlobalAlloc for Counting {
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        count(layout.size());
        // SAFETY: as the caller says of its layout.
        unsafe { System.alloc(layout) }
    }

    unsafe fn alloc_zeroed(&self, layout: Layout) -> *mut u8 {
        count(layout.size());
        // SAFETY: as the caller says of its layout.
        unsafe { System.alloc_zeroed(layout) }
    }

    unsafe fn realloc(&self, ptr: *mut u8, layout: Layout, size: usize) -> *mut u8 {
        count(size);
        // SAFETY: as the caller says of the memory, its layout and the size.
        unsafe { System.realloc(ptr, layout, size) }
    }

    unsafe fn dealloc(&self, ptr: *mut u8, layout: Layout) {
        // SAFETY: as the caller says of the memory and its layout.
        unsafe { System.dealloc(ptr, layout) }
    }
}

#[global_allocator]
static COUNTING: Counting = Counting;

fn count(bytes: usize) {
    if bytes >= LARGE {
        LARGE_REQUESTS.fetch_add(1, Ordering::Relaxed);
    }
}

/// Vectors are made before the first step: ten times as many steps ask for no more memory for them.
#[test]
fn steps_ask_for_no_vectors() -> Result<(), Error> {
    let rt = Runtime::builder().workers(2).build()?;
    let cells = Flow { cells: [24, 20, 18], spread: 0.3, ..Flow::default() };
    let (symmetric, streaming) =
        (flow(&cells)?, transport(&Transport { flow: cells, ..Transport::default() })?);
    for (a, method, precond, inner) in [
        (&symmetric, "cg", "none", "fp64"),
        (&symmetric, "cg", "ilu0", "ap7:cw:2^-24"),
        (&symmetric, "fcg", "amg", "fp64"),
        (&symmetric, "minres", "jacobi", "fp64"),
        (&streaming, "bicgstabl:2", "chebyshev:3", "fp64"),
        (&streaming, "gmres:8", "block:4", "fp64"),
        (&streaming, "fgmres:8", "ilu0", "fp64"),
    ] {
        let requests = |steps: usize, columns: usize| -> Result<usize, Error> {
            let options = Options {
                method: method.parse()?,
                preconditioner: precond.parse()?,
                inner: inner.parse()?,
                scaling: ScalingChoice::Both,
                stop: vec![Stop::Steps(steps)],
                ..Options::default()
            };
            let solver = Solver::new(&rt, a, &options)?;
            let b = vec![vec![1.0; a.rows()]; columns];
            let mut x = vec![vec![0.0; a.rows()]; columns];
            let before = LARGE_REQUESTS.load(Ordering::Relaxed);
            let answers = solver.solve_each(&b, &mut x, &mut vec![(); columns])?;
            assert!(answers.iter().all(|answer| answer.solution.steps == steps), "{method}: {answers:?}");
            Ok(LARGE_REQUESTS.load(Ordering::Relaxed) - before)
        };
        for columns in [1, 4] {
            // Whatever is kept from task to task is there after the first run.
            requests(8, columns)?;
            let (few, many) = (requests(8, columns)?, requests(80, columns)?);
            assert!(few > 0, "{method}: vectors are large requests");
            assert!(
                many <= few + few / 4,
                "{method}, {precond}, {columns} columns: {many} large requests, {few} of fewer steps"
            );
        }
    }
    Ok(())
}
