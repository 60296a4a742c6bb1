//! Scheduling policies by name, and the machine as they see it.

use crate::sched::SchedView;

pub use crate::engine::World;
pub use crate::sched::by_name;

/// Returns the machine behind a view.
pub fn world<'a>(view: &SchedView<'a>) -> &'a dyn World {
    view.world()
}

/// Returns the view of a machine.
pub fn view(world: &dyn World) -> SchedView<'_> {
    SchedView::new(world)
}
