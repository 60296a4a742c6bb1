//! Building blocks of codelets besides [`Codelet`](crate::Codelet) itself: device functions and
//! their views, deferred selection, and user-defined operands.
//!
//! ```
//! use zellige_runtime::*;
//!
//! /// Adds the elements of all vectors to a sum.
//! struct Total;
//!
//! impl Codelet for Total {
//!     type Operands = (ReadList<Vec<f64>>, Commute<f64>, Scratch<f64>);
//!
//!     fn name(&self) -> &'static str {
//!         "total"
//!     }
//!
//!     // Asked when the operands are ready, with what is known of them.
//!     fn selects(&self) -> bool {
//!         true
//!     }
//!
//!     fn select(&self, metas: &[Meta]) -> Choice {
//!         let bytes: usize = metas.iter().map(|meta| meta.bytes).sum();
//!         Choice { variant: u32::from(bytes > 1 << 20), label: if bytes > 1 << 20 { "large" } else { "small" }, ..Choice::default() }
//!     }
//!
//!     fn cpu(
//!         &self,
//!         (vectors, total, sums): <Self::Operands as Operands>::Views<'_, Cpu>,
//!         cx: &mut TaskContext<'_>,
//!     ) -> Result<(), TaskError> {
//!         assert_eq!(cx.variant(), 0);
//!         sums.iter_mut().zip(vectors.iter()).for_each(|(sum, vector)| *sum = vector.iter().sum());
//!         *total += sums.iter().sum::<f64>();
//!         Ok(())
//!     }
//! }
//!
//! let rt = Runtime::new()?;
//! let (x, total) = ([rt.register(vec![1.0, 2.0]), rt.register(vec![3.0])], rt.register(0.5));
//! rt.submit(Total, (reads(&x), commute(&total), scratch(2)))?;
//! assert_eq!(rt.take(total)?, 6.5);
//! # Ok::<(), zellige_runtime::Error>(())
//! ```

pub use crate::body::{
    DeviceBatch, DeviceBatchFunction, DeviceFunction, DeviceMember, DeviceTable, DeviceViews, Outcome,
};
pub use crate::operand::{DeviceKind, MetaList, OnDevice, Operand};
pub use crate::task::{Apart, MAX_OPERAND_FORMATS, Spec};
pub use crate::value::{DeviceContext, DeviceList, DeviceMut, DeviceRef, DeviceSlot, NewValue};
