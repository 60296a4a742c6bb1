//! Tuples of operands.

use super::{Operand, Wanted};

use crate::error::TaskError;
use crate::operand::{Cpu, DeviceKind, OnDevice};
use crate::task::{Accesses, Formats, Metas};
use crate::task::{Choice, Env, Refusal};

/// The operands of a task: a tuple of up to eight. It is not meant to be implemented elsewhere.
///
/// ```
/// use zellige_runtime::{Error, Operands, Read, Runtime, Submit, Update, read, update};
///
/// /// Codelets name theirs as a tuple of types; a body sees one view for each.
/// type Axpy = (Read<Vec<f64>>, Update<Vec<f64>>);
///
/// fn count<O: Operands>(_: &O) -> usize {
///     size_of::<O>() / size_of::<Update<Vec<f64>>>()
/// }
///
/// let rt = Runtime::builder().workers(1).build()?;
/// let (x, y) = (rt.register(vec![1.0f64]), rt.register(vec![2.0f64]));
/// let operands: Axpy = (read(&x), update(&y));
/// assert!(count(&operands) >= 2);
/// rt.task("axpy").operands(operands).cpu(|(x, y)| y[0] += 3.0 * x[0]).submit()?;
/// assert_eq!(rt.take(y)?, [5.0]);
/// # Ok::<(), zellige_runtime::Error>(())
/// ```
#[diagnostic::on_unimplemented(
    message = "`{Self}` is no tuple of operands",
    note = "operands are a tuple, one of them too: `(update(&x),)`; `reads` and `updates` make one of a list"
)]
pub trait Operands: Send + Sync + 'static {
    /// View for bodies on devices of kind `K`: a tuple of views.
    type Views<'v, K: DeviceKind>;

    #[doc(hidden)]
    type Held;

    #[doc(hidden)]
    fn declare<'a>(&'a self, out: &mut Accesses<'a>);

    /// Appends the requested format of each access.
    #[doc(hidden)]
    fn formats(&self, choice: &Choice, out: &mut Formats);

    #[doc(hidden)]
    fn metas<'e>(&'e self, env: &mut Env<'e>, out: &mut Metas) -> Result<(), Refusal>;

    /// Acquires all operands, or none.
    #[doc(hidden)]
    fn acquire<'e>(&'e self, env: &mut Env<'e>, choice: &Choice) -> Result<Self::Held, Refusal>;

    #[doc(hidden)]
    fn views(held: &mut Self::Held) -> Self::Views<'_, Cpu>;

    #[doc(hidden)]
    fn release(held: Self::Held, env: &mut Env<'_>, ok: bool) -> Result<(), TaskError>;

    #[doc(hidden)]
    type DeviceHeld;

    #[doc(hidden)]
    fn acquire_on_device<'e>(&'e self, env: &mut Env<'e>) -> Result<Self::DeviceHeld, Refusal>;

    #[doc(hidden)]
    fn views_on_device(held: &mut Self::DeviceHeld) -> Self::Views<'_, OnDevice>;

    #[doc(hidden)]
    fn release_on_device(held: Self::DeviceHeld, env: &mut Env<'_>, ok: bool) -> Result<(), TaskError>;
}

macro_rules! tuple_operands {
    // Acquires operand by operand; a refusal releases the ones that are held already.
    (@acquire $self:ident $env:ident $choice:ident; [$($have:ident)*]) => { Ok(($($have,)*)) };
    (@acquire $self:ident $env:ident $choice:ident; [$($have:ident)*] $name:ident $at:tt $(, $rest:ident $rest_at:tt)*) => {{
        #[allow(non_snake_case)]
        let $name = match $self.$at.acquire($env, Wanted::of($choice, $at)) {
            Ok(held) => held,
            Err(refusal) => {
                // Nothing ran: releasing cannot fail.
                $(let _ = <$have as Operand>::release($have, $env, false);)*
                return Err(refusal);
            }
        };
        tuple_operands!(@acquire $self $env $choice; [$($have)* $name] $($rest $rest_at),*)
    }};
    ($($name:ident $at:tt),*) => {
        #[allow(unused_variables, unused_mut, clippy::unused_unit)]
        impl<$($name: Operand),*> Operands for ($($name,)*) {
            type Views<'v, K: DeviceKind> = ($($name::View<'v, K>,)*);
            type Held = ($($name::Held,)*);

            #[inline]
            fn declare<'a>(&'a self, out: &mut Accesses<'a>) {
                $(self.$at.declare(out);)*
            }

            fn formats(&self, choice: &Choice, out: &mut Formats) {
                $(self.$at.formats(Wanted::of(choice, $at), out);)*
            }

            fn metas<'e>(&'e self, env: &mut Env<'e>, out: &mut Metas) -> Result<(), Refusal> {
                $(self.$at.metas(env, out)?;)*
                Ok(())
            }

            #[inline]
            fn acquire<'e>(&'e self, env: &mut Env<'e>, choice: &Choice) -> Result<Self::Held, Refusal> {
                tuple_operands!(@acquire self env choice; [] $($name $at),*)
            }

            fn views(held: &mut Self::Held) -> Self::Views<'_, Cpu> {
                ($($name::view(&mut held.$at),)*)
            }

            fn release(held: Self::Held, env: &mut Env<'_>, ok: bool) -> Result<(), TaskError> {
                let mut result = Ok(());
                $({
                    let released = $name::release(held.$at, env, ok && result.is_ok());
                    if result.is_ok() {
                        result = released;
                    }
                })*
                result
            }

            type DeviceHeld = ($($name::DeviceHeld,)*);

            fn acquire_on_device<'e>(&'e self, env: &mut Env<'e>) -> Result<Self::DeviceHeld, Refusal> {
                // The ticket of the task holds operands on a device: an operand that was acquired
                // has nothing to release.
                Ok(($(self.$at.acquire_on_device(env)?,)*))
            }

            fn views_on_device(held: &mut Self::DeviceHeld) -> Self::Views<'_, OnDevice> {
                ($($name::view_on_device(&mut held.$at),)*)
            }

            fn release_on_device(held: Self::DeviceHeld, env: &mut Env<'_>, ok: bool) -> Result<(), TaskError> {
                let mut result = Ok(());
                $({
                    let released = $name::release_on_device(held.$at, env, ok && result.is_ok());
                    if result.is_ok() {
                        result = released;
                    }
                })*
                result
            }
        }
    };
}

tuple_operands!();
tuple_operands!(A 0);
tuple_operands!(A 0, B 1);
tuple_operands!(A 0, B 1, C 2);
tuple_operands!(A 0, B 1, C 2, D 3);
tuple_operands!(A 0, B 1, C 2, D 3, E 4);
tuple_operands!(A 0, B 1, C 2, D 3, E 4, F 5);
tuple_operands!(A 0, B 1, C 2, D 3, E 4, F 5, G 6);
tuple_operands!(A 0, B 1, C 2, D 3, E 4, F 5, G 6, H 7);
