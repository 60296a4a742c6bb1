//! Events that do not know each other, in blocks, each block a task.

use std::ops::Range;
use std::sync::Arc;

use zellige_runtime::{Data, Meta, Runtime, Submit, write};

use crate::Error;
use crate::observe::Observer;

/// What a task made of its events.
struct Made<T>(T);

impl<T: Send + Sync + 'static> Data for Made<T> {
    type Ref<'v> = &'v T;
    type Mut<'v> = &'v mut T;

    fn view(&self) -> &T {
        &self.0
    }

    fn view_mut(&mut self) -> &mut T {
        &mut self.0
    }

    fn meta(&self) -> Meta {
        Meta { bytes: size_of::<T>(), ..Meta::default() }
    }
}

/// Calls `make` by tasks for blocks of `block` of the numbers below `count`, and `each` with what
/// comes of them, in their order.
///
/// # Errors
/// Those of tasks: one that panicked, or was cancelled.
pub(super) fn in_blocks<T: Send + Sync + 'static>(
    rt: &Runtime,
    name: &'static str,
    [count, block]: [usize; 2],
    observer: &dyn Observer,
    make: impl Fn(Range<usize>) -> T + Send + Sync + 'static,
    mut each: impl FnMut(T),
) -> Result<(), Error> {
    observer.stage(name, count as u64);
    let make = Arc::new(make);
    let mut blocks = Vec::new();
    for begin in (0..count).step_by(block) {
        let range = begin..(begin + block).min(count);
        let made = rt.register_empty::<Made<T>>();
        let make = Arc::clone(&make);
        rt.task(name)
            .operands((write(&made),))
            .cpu(move |(mut made,)| made.put(Made(make(range.clone()))))
            .submit()?;
        blocks.push(made);
    }
    for (k, made) in blocks.into_iter().enumerate() {
        each(rt.take(made)?.0);
        observer.advance(((k + 1) * block).min(count) as u64);
    }
    Ok(())
}
