//! Accumulation of a solution along search directions.

use crate::buffer::Buffer;
use crate::error::Error;
use crate::inner_solver::Setting;
use crate::reliable::Reliable;
use crate::scalar::Scalar;
use crate::steps::Steps;
use crate::vector::MultiVector;
use crate::vector_task::{VectorTask, plus, times};

/// The correction `d` of a method, to which each step adds `alpha p`: in its own task, several
/// directions as a [block](Buffer), or in a narrow vector first.
pub(crate) struct Accumulator<E: Scalar> {
    d: MultiVector<E>,
    /// The part of `d` since the last flush, if it is not accumulated in float64.
    narrow: Option<MultiVector<E>>,
    buffer: Option<Buffer<E>>,
}

impl<E: Scalar> Accumulator<E> {
    /// Creates an accumulator with the settings of reliable updates, if there are any.
    pub(crate) fn new(setting: Setting<'_, E>, reliable: Option<&Reliable<'_, E>>) -> Self {
        let narrow = reliable.filter(|reliable| !reliable.stabilisation().wide_solution);
        Accumulator {
            d: setting.zeros(),
            narrow: narrow.map(|reliable| setting.stored(reliable.storage())),
            buffer: reliable.and_then(|reliable| Buffer::new(setting, reliable.buffer(), 1)),
        }
    }

    /// Returns `d`, which is complete after a [flush](Accumulator::flush).
    pub(crate) fn solution(&self) -> &MultiVector<E> {
        &self.d
    }

    /// Returns the number of its vectors.
    pub(crate) fn vectors(&self) -> usize {
        1 + usize::from(self.narrow.is_some())
    }

    /// Returns true if `d` is complete only after a flush.
    pub(crate) fn is_deferred(&self) -> bool {
        self.narrow.is_some() || self.buffer.is_some()
    }

    /// Adds `d = 0` to a task.
    pub(crate) fn begin<'s, 'g>(
        &self,
        steps: &Steps<'_, E>,
        task: VectorTask<'s, 'g, E>,
    ) -> Result<VectorTask<'s, 'g, E>, Error> {
        self.buffer.as_ref().map_or(Ok(()), |buffer| buffer.begin(steps))?;
        let task = task.assign(&self.d, []);
        Ok(self.narrow.iter().fold(task, |task, narrow| task.assign(narrow, [])))
    }

    /// Adds `d += alpha p` to a task of step `k`, or records that this is due later.
    pub(crate) fn add<'s, 'g>(
        &self,
        steps: &Steps<'_, E>,
        task: VectorTask<'s, 'g, E>,
        k: usize,
        alpha: usize,
        p: &MultiVector<E>,
    ) -> Result<VectorTask<'s, 'g, E>, Error> {
        match &self.buffer {
            None => Ok(task.add(self.target(), plus(alpha, p))),
            Some(buffer) => buffer.keep(steps, k, vec![(alpha, None)]).map(|()| task),
        }
    }

    /// Records that `d` becomes complete after step `k`, for columns that are not done by the
    /// numbers of `open`.
    pub(crate) fn flush(
        &self,
        open: &Steps<'_, E>,
        k: usize,
        directions: &[MultiVector<E>],
    ) -> Result<(), Error> {
        if let Some(buffer) = &self.buffer {
            buffer.flush(open, k, [(self.target(), directions)].into_iter())?;
        }
        let Some(narrow) = &self.narrow else { return Ok(()) };
        open.task("solution.flush").add(&self.d, times(1.0, narrow)).assign(narrow, []).submit()
    }

    /// Returns the vector that directions are added to.
    fn target(&self) -> &MultiVector<E> {
        self.narrow.as_ref().unwrap_or(&self.d)
    }
}
