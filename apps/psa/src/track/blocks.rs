//! Parallel processing of independent events: a task for each block of events.

use std::ops::Range;
use std::sync::Arc;

use zellige_runtime::{Data, Meta, Runtime, Submit, write};

use crate::Error;
use crate::observe::Observer;

/// Result of a task.
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

/// Calls `make` in tasks, one for each block of `block` numbers below `count`, and then `each` with
/// the results, in order.
///
/// # Errors
/// Those of tasks: a task that panicked, or was cancelled.
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
