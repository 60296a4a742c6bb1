//! Kinds of devices, which determine the views of operands.

use super::{List, Slot};
use crate::buffer::Element;
use crate::device::DeviceScratch;
use crate::value::{Data, DeviceList, DeviceMut, DeviceRef, DeviceSlot};

/// A kind of device, which determines the views of operands in its bodies.
pub trait DeviceKind: 'static {
    /// Reading view.
    type Ref<'v, D: Data>;
    /// Updating view.
    type Mut<'v, D: Data>;
    /// Writing view, for a value that is not read.
    type Slot<'v, D: Data>;
    /// A list of reading views.
    type List<'v, D: Data>;
    /// Workspace.
    type Scratch<'v, T: Element>;
}

/// CPU cores: bodies see host memory through the data type's own views.
///
/// ```
/// use zellige_runtime::{Codelet, Cpu, Operands, Read, Runtime, Submit, TaskContext, TaskError, Update, read, update};
///
/// struct Add;
///
/// impl Codelet for Add {
///     type Operands = (Read<f64>, Update<f64>);
///
///     fn name(&self) -> &'static str {
///         "add"
///     }
///
///     // Here the views are a tuple (&f64, &mut f64).
///     fn cpu(&self, (x, y): <Self::Operands as Operands>::Views<'_, Cpu>, _cx: &mut TaskContext<'_>) -> Result<(), TaskError> {
///         *y += x;
///         Ok(())
///     }
/// }
///
/// let rt = Runtime::builder().workers(1).build()?;
/// let (x, y) = (rt.register(1.5f64), rt.register(2.0f64));
/// rt.submit(Add, (read(&x), update(&y)))?;
/// assert_eq!(rt.take(y)?, 3.5);
/// # Ok::<(), zellige_runtime::Error>(())
/// ```
#[derive(Debug)]
pub struct Cpu;

impl DeviceKind for Cpu {
    type Ref<'v, D: Data> = D::Ref<'v>;
    type Mut<'v, D: Data> = D::Mut<'v>;
    type Slot<'v, D: Data> = Slot<'v, D>;
    type List<'v, D: Data> = List<'v, D>;
    type Scratch<'v, T: Element> = &'v mut [T];
}

/// Device kind for devices with an [architecture](crate::device::Arch) of their own: bodies see the
/// addresses of values in device memory, and put operations on a stream
/// ([`DeviceContext`](crate::codelet::DeviceContext)).
///
/// A value of a [`Portable`](crate::data::Portable) type consists of its header, on the host, and
/// its parts, on the device. The operations that a body queues run later: the body reads headers
/// and addresses, never a number.
#[derive(Debug)]
pub struct OnDevice;

impl DeviceKind for OnDevice {
    type Ref<'v, D: Data> = DeviceRef<'v, D>;
    type Mut<'v, D: Data> = DeviceMut<'v, D>;
    type Slot<'v, D: Data> = DeviceSlot<'v, D>;
    type List<'v, D: Data> = DeviceList<'v, D>;
    type Scratch<'v, T: Element> = DeviceScratch;
}
