//! Data of one segment: signals of its points and of events, and figures of merit in `f64`.

mod best;
mod block;
mod events;
mod figure_of_merit;
mod point_grid;

pub(super) use best::Best;
pub use block::{Block, SampleFormat};
pub(super) use block::{BlockHeader, THOUSAND};
pub use events::SegmentEvents;
pub(super) use events::{in_two_parts, narrowed};
pub(super) use figure_of_merit::{figure_of_merit, power_sum};
pub(super) use point_grid::Lattice;
pub(crate) use point_grid::PointGrid;
