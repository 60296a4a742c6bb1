//! Frames allocate nothing: a binary of its own, whose allocator counts.
#![allow(unsafe_code)]

use std::alloc::{GlobalAlloc, Layout, System};
use std::sync::atomic::{AtomicUsize, Ordering};

use zellige_tor::Matrix;
use zellige_tor::rtc::{Packed, Rtc};

struct Counting;

static REQUESTS: AtomicUsize = AtomicUsize::new(0);

// SAFETY: every call goes to the system's allocator as it came.
unsafe impl GlobalAlloc for Counting {
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        REQUESTS.fetch_add(1, Ordering::Relaxed);
        // SAFETY: as the caller says of its layout.
        unsafe { System.alloc(layout) }
    }

    unsafe fn dealloc(&self, ptr: *mut u8, layout: Layout) {
        // SAFETY: as the caller says of the memory and its layout.
        unsafe { System.dealloc(ptr, layout) }
    }
}

#[global_allocator]
static COUNTING: Counting = Counting;

#[test]
fn frames_allocate_nothing() {
    let matrix = |seed: usize| {
        Packed::of_matrix(&Matrix::from_fn(300, 200, |i, j| ((i * 7 + j * seed) % 10) as f64)).unwrap()
    };
    let mut rtc = Rtc::new(matrix(3), 2, false).unwrap();
    let slopes = vec![0.5f32; 200];
    rtc.step(&slopes).unwrap();
    let swapper = rtc.swapper();
    let mut frames = || {
        let before = REQUESTS.load(Ordering::Relaxed);
        for _ in 0..100 {
            rtc.receive(120, &slopes[120..]).unwrap();
            rtc.receive(0, &slopes[..110]).unwrap();
            rtc.finish().unwrap();
        }
        REQUESTS.load(Ordering::Relaxed) - before
    };
    // The thread that runs the tests may allocate at the same time, but not each time.
    assert!((0..20).any(|_| frames() == 0));
    let mut swapped = |version| {
        let next = matrix(4);
        let checksum = next.checksum();
        swapper.offer(next, version, checksum).unwrap();
        frames()
    };
    assert!((1..20).any(|version| swapped(version) == 0), "the first frame takes the matrix");
}
