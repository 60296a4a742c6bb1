//! Memory that replicas leave on memory nodes.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use zellige_runtime::data::{Portability, Portable};
use zellige_runtime::{Data, Emulated, Meta, Runtime, RuntimeBuilder, Submit, update};

/// Returns a builder of a runtime that aborts with a message if it hangs.
fn builder(cpus: usize) -> RuntimeBuilder {
    Runtime::builder().workers(cpus).watchdog(Some(Duration::from_secs(20))).on_stall(|text| {
        eprintln!("stalled: {text}");
        std::process::abort();
    })
}

/// Current and maximum number of live objects of a kind.
#[derive(Default)]
struct Census {
    alive: AtomicUsize,
    most: AtomicUsize,
}

/// Identity comparison.
impl PartialEq for Census {
    fn eq(&self, other: &Self) -> bool {
        std::ptr::eq(self, other)
    }
}

/// Counted bytes.
struct Counted {
    bytes: Vec<u8>,
    census: Arc<Census>,
}

impl Counted {
    fn new(fill: u8, census: &Arc<Census>) -> Self {
        let alive = census.alive.fetch_add(1, Ordering::SeqCst) + 1;
        census.most.fetch_max(alive, Ordering::SeqCst);
        Counted { bytes: vec![fill; 1000], census: Arc::clone(census) }
    }
}

impl Drop for Counted {
    fn drop(&mut self) {
        self.census.alive.fetch_sub(1, Ordering::SeqCst);
    }
}

impl Data for Counted {
    type Ref<'v> = &'v [u8];
    type Mut<'v> = &'v mut [u8];

    fn view(&self) -> &[u8] {
        &self.bytes
    }

    fn view_mut(&mut self) -> &mut [u8] {
        &mut self.bytes
    }

    fn meta(&self) -> Meta {
        Meta { bytes: self.bytes.len(), ..Meta::default() }
    }

    fn portability() -> Option<Portability<Self>> {
        Some(Portability::of())
    }
}

impl Portable for Counted {
    type Header = Arc<Census>;

    fn header(&self) -> Self::Header {
        Arc::clone(&self.census)
    }

    fn blank(census: &Self::Header) -> Self {
        Counted::new(0, census)
    }

    fn parts(&self) -> Vec<&[u8]> {
        vec![&self.bytes]
    }

    fn parts_mut(&mut self) -> Vec<&mut [u8]> {
        vec![&mut self.bytes]
    }
}

#[test]
fn what_replicas_leave_takes_no_memory_and_ends_with_the_runtime() {
    for fails_at in [None, Some(30)] {
        let census: Arc<Census> = Arc::default();
        let device = Emulated::new(3000);
        let device = fails_at.iter().fold(device, |device, &at| device.fails_at(at));
        let rt = builder(1).device(device).build().unwrap();
        let data: Vec<_> = (0..6).map(|i| rt.register(Counted::new(i, &census))).collect();
        for x in data.iter().cycle().take(60) {
            rt.task("inc").operands((update(x),)).cpu(|(x,)| x[0] += 1).submit().unwrap();
        }
        drop(rt);
        assert!(census.most.load(Ordering::SeqCst) <= 6 + 3, "all on the host, and what the device holds");
        // Each handle has its value back, or the value was lost with the device.
        assert!(census.alive.load(Ordering::SeqCst) <= data.len());
        drop(data);
        assert_eq!(census.alive.load(Ordering::SeqCst), 0);
    }
}
