//! Results of deferred selections.

use crate::format::Format;

/// Maximum number of operands of one task for which a deferred selection can request a format.
pub const MAX_OPERAND_FORMATS: usize = 4;

/// Elements of lists that are requested in another format than the others.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Apart {
    /// Bit `i`: element `i` of each list. Elements from 32 on cannot be selected.
    pub elements: u32,
    /// Format of these elements.
    pub format: Format,
}

/// Result of the deferred selection of a codelet, made once its operands are ready.
///
/// ```
/// use zellige_runtime::{Choice, Codelet, Meta, Runtime, Submit, TaskContext, TaskError, Update, update};
///
/// /// Works with half of the numbers where there are few.
/// struct Halve;
///
/// impl Codelet for Halve {
///     type Operands = (Update<Vec<f64>>,);
///
///     fn name(&self) -> &'static str {
///         "halve"
///     }
///
///     fn selects(&self) -> bool {
///         true
///     }
///
///     fn select(&self, metas: &[Meta]) -> Choice {
///         Choice { variant: u32::from(metas[0].bytes > 1000), ..Choice::default() }
///     }
///
///     fn cpu(&self, (x,): (&mut [f64],), cx: &mut TaskContext<'_>) -> Result<(), TaskError> {
///         let some = if cx.variant() == 1 { x.len() } else { x.len() / 2 };
///         x[..some].iter_mut().for_each(|x| *x /= 2.0);
///         Ok(())
///     }
/// }
///
/// let rt = Runtime::builder().workers(1).build()?;
/// let x = rt.register(vec![1.0f64; 4]);
/// rt.submit(Halve, (update(&x),))?;
/// assert_eq!(rt.take(x)?, [0.5, 0.5, 1.0, 1.0]);
/// # Ok::<(), zellige_runtime::Error>(())
/// ```
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Choice {
    /// Requested format for each of the first operands; `None` keeps the format requested at
    /// submission.
    pub formats: [Option<Format>; MAX_OPERAND_FORMATS],
    /// Elements of [lists](crate::reads) that are requested in another format than the rest of
    /// their list.
    pub apart: Option<Apart>,
    /// Value passed to the body as [`TaskContext::variant`](crate::TaskContext::variant).
    pub variant: u32,
    /// Label that replaces the submitted one in traces and for performance models, unless it is
    /// empty.
    pub label: &'static str,
}

impl Choice {
    /// The empty selection.
    pub(crate) const NONE: Choice =
        Choice { formats: [None; MAX_OPERAND_FORMATS], apart: None, variant: 0, label: "" };
}

impl Default for Choice {
    fn default() -> Self {
        Choice::NONE
    }
}
