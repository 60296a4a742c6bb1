//! Products whose precision depends on their finished operands: single ones, and several in one
//! task.

use std::marker::PhantomData;

use zellige_cuda::{CUDA, GpuTask};
use zellige_kernels::GemmPrecision;
use zellige_runtime::codelet::{Apart, DeviceBatch, DeviceMember, DeviceTable, DeviceViews};
use zellige_runtime::{
    Choice, Codelet, Cpu, DeviceInfo, Meta, Operands, Read, ReadList, Scratch, Subnormals, TaskContext,
    TaskError, TaskInfo, Update,
};

use super::batched::{Member, most, multiply_batched};
use super::fused::{self, multiply_all, multiply_all_on_gpu};
use super::product::{Coordinates, check, formats, multiply, multiply_on_gpu};
use crate::SUBNORMALS;
use crate::gpu::{self, Ops};
use crate::policy::{GemmQuery, PolicyError, SharedPolicy};
use crate::scalar::TileScalar;
use crate::tile::{MatrixNorm, Tile};

/// Query to a policy about one product.
pub(super) struct Question {
    pub(super) coordinates: Coordinates,
    pub(super) policy: SharedPolicy,
}

impl Question {
    /// Queries the policy. `norms`: first operand, second operand, updated tile before the
    /// algorithm began (products do not change its norm), whole matrix.
    fn ask(&self, norms: [f64; 4]) -> Result<GemmPrecision, PolicyError> {
        self.policy.choose(&GemmQuery {
            norm_l_ik: norms[0],
            norm_l_jk: norms[1],
            norm_a_ij: norms[2],
            norm_a: norms[3],
            ..self.coordinates.query
        })
    }

    /// Returns all precisions that the policy may choose, if it declares them.
    fn precisions(&self) -> Vec<GemmPrecision> {
        self.policy.precisions().unwrap_or_default()
    }

    /// Returns the precision of the policy, if tiles of `T` support it.
    fn answer<T: TileScalar>(&self, norms: [f64; 4]) -> Option<GemmPrecision> {
        self.ask(norms).ok().filter(|&precision| check::<T>(precision, &self.coordinates.query).is_ok())
    }

    /// Returns the error of a policy that could not choose, by a second query; `None` if it can
    /// choose now.
    fn error<T: TileScalar>(&self, norms: [f64; 4]) -> Option<TaskError> {
        match self.ask(norms) {
            Ok(precision) => check::<T>(precision, &self.coordinates.query).err().map(TaskError::from),
            Err(error) => Some(error.into()),
        }
    }

    /// Returns the error for a policy that failed once and succeeds now.
    fn inconsistent(&self) -> TaskError {
        let message = "it failed once and succeeded on a second call: its answers must depend on the query only, and be among those that it declares";
        PolicyError::new(self.policy.describe(), &self.coordinates.query, message).into()
    }
}

/// A product whose precision depends on its finished operands.
pub(super) struct DeferredProduct<T> {
    question: Question,
    _element: PhantomData<fn() -> T>,
}

impl<T: TileScalar> DeferredProduct<T> {
    pub(super) fn new(question: Question) -> Self {
        DeferredProduct { question, _element: PhantomData }
    }

    fn failure(&self, norms: [f64; 4]) -> TaskError {
        self.question.error::<T>(norms).unwrap_or_else(|| self.question.inconsistent())
    }
}

impl<T: TileScalar> Codelet for DeferredProduct<T> {
    type Operands = (Read<Tile<T>>, Read<Tile<T>>, Update<Tile<T>>, Read<MatrixNorm>, Scratch<f32>);
    const SUBNORMALS: Option<Subnormals> = SUBNORMALS;

    fn name(&self) -> &'static str {
        "gemm"
    }

    fn info(&self) -> TaskInfo {
        self.question.coordinates.info("late")
    }

    fn has_constraints(&self) -> bool {
        gpu::has_constraints(self.question.precisions())
    }

    fn can_execute(&self, device: &DeviceInfo<'_>) -> bool {
        gpu::can_execute(self.question.precisions(), device)
    }

    fn selects(&self) -> bool {
        true
    }

    /// Selects a variant. The choice is empty if the policy failed: the body then queries it again
    /// and fails with its error.
    fn select(&self, metas: &[Meta]) -> Choice {
        let &[a, b, c, all] = metas else {
            return Choice::default();
        };
        let answer = self.question.answer::<T>([a.norm, b.norm, c.norm, all.norm]);
        answer.map_or_else(Choice::default, |precision| Chosen::of(precision).choice())
    }

    fn cpu(
        &self,
        (a, b, c, all, scratch): <Self::Operands as Operands>::Views<'_, Cpu>,
        cx: &mut TaskContext<'_>,
    ) -> Result<(), TaskError> {
        match Chosen::from_variant(cx.variant()) {
            Some(chosen) => Ok(multiply(chosen.first, &self.question.coordinates, a, b, c, scratch)?),
            None => Err(self.failure([a.norm(), b.norm(), c.norm(), all.0])),
        }
    }

    fn on_devices(&self, table: &mut DeviceTable<Self>) {
        let most = {
            let (m, n, _) = self.question.coordinates.shape;
            most::<T>(T::FULL, (m, n))
        };
        table.add_batched(*CUDA, Self::cuda, most, Self::cuda_batch);
    }
}

impl<T: TileScalar> DeferredProduct<T> {
    fn cuda(
        &self,
        (a, b, c, all, _): DeviceViews<'_, Self>,
        cx: &mut TaskContext<'_>,
    ) -> Result<(), TaskError> {
        match Chosen::from_variant(cx.variant()) {
            Some(chosen) => {
                let ops = Ops::new(cx.gpu())?;
                multiply_on_gpu(&ops, chosen.first, &self.question.coordinates, [&a, &b], &c, cx)
            }
            None => Err(self.failure([a.meta(), b.meta(), c.meta(), all.meta()].map(|meta| meta.norm))),
        }
    }

    fn cuda_batch(batch: DeviceBatch<'_, '_, Self>) -> Vec<Result<(), TaskError>> {
        // All members have the same choice.
        let chosen = batch.first().and_then(|member| Chosen::from_variant(member.cx.variant()));
        let Some(chosen) = chosen else {
            let single =
                |DeviceMember { codelet, views, cx }: DeviceMember<'_, '_, Self>| codelet.cuda(views, cx);
            return batch.into_iter().map(single).collect();
        };
        let member = |DeviceMember {
                          codelet: DeferredProduct { question, .. },
                          views: (a, b, c, ..),
                          cx,
                      }| {
            Member { precision: chosen.first, coordinates: &question.coordinates, a, b, c, cx }
        };
        multiply_batched(&batch.into_iter().map(member).collect::<Vec<_>>())
    }
}

/// Several of them on one tile: one or two precisions that leave their result in `f32`.
pub(super) struct DeferredProducts<T> {
    questions: Vec<Question>,
    _element: PhantomData<fn() -> T>,
}

impl<T: TileScalar> DeferredProducts<T> {
    pub(super) fn new(questions: Vec<Question>) -> Self {
        DeferredProducts { questions, _element: PhantomData }
    }

    fn all_coordinates(&self) -> impl Iterator<Item = &Coordinates> + Clone {
        self.questions.iter().map(|question| &question.coordinates)
    }

    fn precisions(&self) -> impl Iterator<Item = GemmPrecision> {
        self.questions.iter().flat_map(Question::precisions)
    }

    fn products(&self, chosen: Chosen) -> impl Iterator<Item = (&Coordinates, GemmPrecision)> {
        self.all_coordinates().enumerate().map(move |(at, coordinates)| (coordinates, chosen.at(at)))
    }

    /// Returns the first error of a policy that could not choose; `operands` are the norms of both
    /// operands of each product.
    fn failure(&self, operands: impl Iterator<Item = [f64; 2]>, [c, all]: [f64; 2]) -> TaskError {
        let mut each = self.questions.iter().zip(operands);
        let error = each.find_map(|(question, [a, b])| question.error::<T>([a, b, c, all]));
        let last = self.questions.last().map(Question::inconsistent);
        error.or(last).unwrap_or_else(|| "a task of no products".into())
    }
}

impl<T: TileScalar> Codelet for DeferredProducts<T> {
    type Operands = (ReadList<Tile<T>>, ReadList<Tile<T>>, Update<Tile<T>>, Read<MatrixNorm>, Scratch<f32>);
    const SUBNORMALS: Option<Subnormals> = SUBNORMALS;

    fn name(&self) -> &'static str {
        "gemm"
    }

    fn info(&self) -> TaskInfo {
        fused::info(self.all_coordinates(), "late")
    }

    fn has_constraints(&self) -> bool {
        gpu::has_constraints(self.precisions())
    }

    fn can_execute(&self, device: &DeviceInfo<'_>) -> bool {
        gpu::can_execute(self.precisions(), device)
    }

    fn selects(&self) -> bool {
        true
    }

    /// Selects like [`DeferredProduct`], for each product.
    fn select(&self, metas: &[Meta]) -> Choice {
        let count = self.questions.len();
        let (Some((a, rest)), true) = (metas.split_at_checked(count), metas.len() == 2 * count + 2) else {
            return Choice::default();
        };
        let (b, rest) = rest.split_at(count);
        let each = self.questions.iter().zip(a.iter().zip(b));
        let answers =
            each.map(|(question, (a, b))| question.answer::<T>([a.norm, b.norm, rest[0].norm, rest[1].norm]));
        let chosen = answers.collect::<Option<Vec<_>>>().and_then(|answers| Chosen::of_several(&answers));
        chosen.map_or_else(Choice::default, Chosen::choice)
    }

    fn cpu(
        &self,
        (a, b, c, all, scratch): <Self::Operands as Operands>::Views<'_, Cpu>,
        cx: &mut TaskContext<'_>,
    ) -> Result<(), TaskError> {
        match Chosen::from_variant(cx.variant()) {
            Some(chosen) => Ok(multiply_all(self.products(chosen), (&a, &b), c, scratch)?),
            None => {
                let operands = a.iter().zip(b.iter()).map(|(a, b)| [a.norm(), b.norm()]);
                Err(self.failure(operands, [c.norm(), all.0]))
            }
        }
    }

    fn on_devices(&self, table: &mut DeviceTable<Self>) {
        table.add(*CUDA, Self::cuda);
    }
}

impl<T: TileScalar> DeferredProducts<T> {
    fn cuda(
        &self,
        (a, b, c, all, _): DeviceViews<'_, Self>,
        cx: &mut TaskContext<'_>,
    ) -> Result<(), TaskError> {
        match Chosen::from_variant(cx.variant()) {
            Some(chosen) => multiply_all_on_gpu(self.products(chosen), (&a, &b), &c, cx),
            None => {
                let operands = a.iter().zip(b.iter()).map(|(a, b)| [a.meta().norm, b.meta().norm]);
                Err(self.failure(operands, [c.meta().norm, all.meta().norm]))
            }
        }
    }
}

/// The precisions of a task's products, at most two.
#[derive(Clone, Copy, Debug, PartialEq)]
struct Chosen {
    first: GemmPrecision,
    /// Precision of the products whose bits are set in `apart`.
    second: GemmPrecision,
    apart: u32,
}

/// Bits of a variant that number a pair of precisions; the others are those of `apart`.
const PAIR: u32 = 8;

impl Chosen {
    fn of(precision: GemmPrecision) -> Self {
        Chosen { first: precision, second: precision, apart: 0 }
    }

    /// Returns `None` for no precision, more products than fit a variant, more than two precisions,
    /// and two precisions with different result formats.
    fn of_several(precisions: &[GemmPrecision]) -> Option<Self> {
        let &first = precisions.first()?;
        let second = precisions.iter().copied().find(|&p| p != first).unwrap_or(first);
        if precisions.len() > (u32::BITS - PAIR) as usize || first.output_format() != second.output_format() {
            return None;
        }
        let mut apart = 0;
        for (at, &precision) in precisions.iter().enumerate() {
            match precision {
                p if p == first => {}
                p if p == second => apart |= 1 << at,
                _ => return None,
            }
        }
        Some(Chosen { first, second, apart })
    }

    fn at(self, product: usize) -> GemmPrecision {
        if self.apart >> product & 1 == 1 { self.second } else { self.first }
    }

    fn choice(self) -> Choice {
        let [operand, result] = formats(self.first);
        let [other, _] = formats(self.second);
        let label = if self.apart == 0 { self.first.name() } else { "mixed" };
        let apart = (self.apart != 0).then_some(Apart { elements: self.apart, format: other });
        Choice {
            formats: [Some(operand), Some(operand), Some(result), None],
            apart,
            variant: self.variant(),
            label,
        }
    }

    /// Returns the variant of the choice; 0 is reserved for a policy that failed.
    fn variant(self) -> u32 {
        let all = GemmPrecision::ALL;
        let number = |precision| all.iter().position(|&p| p == precision).unwrap_or(0) as u32;
        (self.apart << PAIR) + 1 + number(self.first) + all.len() as u32 * number(self.second)
    }

    fn from_variant(variant: u32) -> Option<Self> {
        let all = GemmPrecision::ALL;
        let pair = ((variant & ((1 << PAIR) - 1)) as usize).checked_sub(1)?;
        let (first, second) = (all[pair % all.len()], *all.get(pair / all.len())?);
        Some(Chosen { first, second, apart: variant >> PAIR })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn choices_of_two_precisions_fit_a_variant() {
        use GemmPrecision::{Hp1, Hp2, Sp, X3};
        assert_eq!(Chosen::from_variant(0), None);
        for first in GemmPrecision::ALL {
            for second in GemmPrecision::ALL {
                for apart in [0, 1, 0x00AB_CDEF, 0x00FF_FFFF] {
                    let chosen = Chosen { first, second, apart };
                    assert_eq!(Chosen::from_variant(chosen.variant()), Some(chosen));
                }
            }
        }
        let chosen = Chosen::of_several(&[Hp1, X3, Hp1, X3, X3]).unwrap();
        assert_eq!((0..5).map(|at| chosen.at(at)).collect::<Vec<_>>(), [Hp1, X3, Hp1, X3, X3]);
        assert_eq!(chosen.choice().label, "mixed");
        assert_eq!(Chosen::of_several(&[Sp; 24]).unwrap().choice().label, "fp32");
        for none in [&[][..], &[Hp1, X3, Sp], &[Hp1, Hp2], &[Sp; 25]] {
            assert_eq!(Chosen::of_several(none), None, "{none:?}");
        }
    }
}
