//! Building blocks of methods and operators: the graph of a step, vector tasks, formulas, and the
//! scalars of a method.

pub use crate::formulas::{Formulas, Value};
pub use crate::inner_solver::{InnerResult, InnerSolver, Limit, Limits, MemoryUse, Setting};
pub use crate::iteration::{Recorded, begin_solve, iterate, steps_per_graph};
pub use crate::log::{OffsetLogger, ScaledLogger};
pub use crate::numbers::{Numbers, NumbersHandle, State};
pub use crate::operator::{Workspace, apply_to};
pub use crate::reduction::{dots, norm, unit_scale};
pub use crate::space::joined;
pub use crate::steps::{Gated, Steps, Sums, are_done};
pub use crate::task_scope::TaskScope;
pub use crate::vector_task::{Coefficient, Term, VectorTask, minus, plus, times};
