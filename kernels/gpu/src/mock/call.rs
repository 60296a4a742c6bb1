//! Operations that can be put on a stream, and the bytes that they use.

use std::sync::Arc;

use super::history::Use;
use crate::call::{Arg, Factors, Gemm, Potrf, Syrk, Trsm};
use crate::driver::{Address, Place};

/// Source or destination of a copy. Host memory is given by its (exposed) address.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum End {
    Host(u64),
    Gpu(u32, u64),
}

impl From<Place> for End {
    fn from(place: Place) -> End {
        match place {
            Place::Host(at) => End::Host(at.expose_provenance() as u64),
            Place::Gpu(gpu, at) => End::Gpu(gpu, at.0),
        }
    }
}

/// An operation.
#[derive(Clone, Debug)]
pub(super) enum Call {
    Copy { to: End, from: End, bytes: u64 },
    Zero { at: Address, bytes: u64 },
    Launch { name: Arc<str>, grid: [u32; 3], block: [u32; 3], args: Vec<Arg> },
    Gemm { shape: Gemm, at: Vec<[Address; 3]> },
    Trsm(Trsm),
    Syrk(Syrk),
    Potrf(Potrf),
}

/// Bytes that an operation uses.
#[derive(Clone, Copy, Debug)]
pub(super) struct Operand {
    pub(super) end: End,
    pub(super) bytes: u64,
    pub(super) kind: Use,
}

impl Call {
    /// Returns the name in messages.
    pub(super) fn name(&self) -> String {
        match self {
            Call::Copy { .. } => "copy".into(),
            Call::Zero { .. } => "zero".into(),
            Call::Launch { name, .. } => format!("kernel {name}"),
            Call::Gemm { at, .. } if at.len() == 1 => "gemm".into(),
            Call::Gemm { at, .. } => format!("{} gemm", at.len()),
            Call::Trsm(_) => "trsm".into(),
            Call::Syrk(_) => "syrk".into(),
            Call::Potrf(_) => "potrf".into(),
        }
    }

    /// Returns the corresponding call of CUDA.
    pub(super) fn cuda(&self) -> &'static str {
        match self {
            Call::Copy { .. } => "cuMemcpyAsync",
            Call::Zero { .. } => "cuMemsetD8Async",
            Call::Launch { .. } => "cuLaunchKernel",
            Call::Gemm { at, .. } if at.len() == 1 => "cublasGemmEx",
            Call::Gemm { .. } => "cublasGemmBatchedEx",
            Call::Trsm(_) => "cublasTrsm",
            Call::Syrk(_) => "cublasSyrk",
            Call::Potrf(_) => "cusolverDnPotrf",
        }
    }

    /// Returns true for operations that compute, not for copies.
    pub(super) fn is_launch(&self) -> bool {
        !matches!(self, Call::Copy { .. } | Call::Zero { .. })
    }

    /// Returns the operands on a stream of this GPU, in the order in which the operation is
    /// executed with them.
    pub(super) fn operands(&self, gpu: u32) -> Vec<Operand> {
        let here = |at: Address, bytes, kind| Operand { end: End::Gpu(gpu, at.0), bytes, kind };
        match self {
            Call::Copy { to, from, bytes } => vec![
                Operand { end: *to, bytes: *bytes, kind: Use::Write },
                Operand { end: *from, bytes: *bytes, kind: Use::Read },
            ],
            Call::Zero { at, bytes } => vec![here(*at, *bytes, Use::Write)],
            Call::Launch { args, .. } => args
                .iter()
                .filter_map(|arg| match *arg {
                    Arg::Read(at, bytes) => Some(here(at, bytes, Use::Read)),
                    Arg::Write(at, bytes) | Arg::Update(at, bytes) => Some(here(at, bytes, Use::Write)),
                    Arg::I32(_) | Arg::U32(_) | Arg::U64(_) | Arg::F32(_) | Arg::F64(_) => None,
                })
                .collect(),
            Call::Gemm { shape, at } => {
                let (a, b) = (shape.shape_a(), shape.shape_b());
                let bytes = [shape.a.span(a.0, a.1), shape.b.span(b.0, b.1), shape.c.span(shape.m, shape.n)];
                let uses = [Use::Read, Use::Read, Use::Write];
                let one = |at: &[Address; 3]| [0, 1, 2].map(|i| here(at[i], bytes[i], uses[i]));
                // Last, and only if a product reads them.
                let factors = match shape.factors {
                    Factors::Device(factors) if bytes[2] > 0 && !at.is_empty() => {
                        Some(here(factors, Factors::BYTES, Use::Read))
                    }
                    Factors::Device(_) | Factors::Host { .. } => None,
                };
                at.iter().flat_map(one).chain(factors).collect()
            }
            Call::Trsm(trsm) => vec![
                here(trsm.l.at, trsm.l.span(trsm.order(), trsm.order()), Use::Read),
                here(trsm.b.at, trsm.b.span(trsm.m, trsm.n), Use::Write),
            ],
            Call::Syrk(syrk) => vec![
                here(syrk.a.at, syrk.a.span(syrk.n, syrk.k), Use::Read),
                here(syrk.c.at, syrk.c.span(syrk.n, syrk.n), Use::Write),
            ],
            Call::Potrf(potrf) => vec![
                here(potrf.a.at, potrf.a.span(potrf.n, potrf.n), Use::Write),
                here(potrf.workspace, potrf.workspace_bytes, Use::Write),
                here(potrf.info, 4, Use::Write),
            ],
        }
    }
}

/// Two operands of one operation that share bytes which it writes.
pub(super) fn overlap(operands: &[Operand]) -> Option<(Operand, Operand)> {
    let mut sorted: Vec<(u8, u64, Operand)> = operands
        .iter()
        .filter(|operand| operand.bytes > 0)
        .map(|operand| match operand.end {
            End::Host(at) => (0, at, *operand),
            End::Gpu(_, at) => (1, at, *operand),
        })
        .collect();
    sorted.sort_by_key(|(space, at, _)| (*space, *at));
    // The operand that reaches furthest so far, among all and among those that are written.
    let mut reach: [Option<(u8, u64, Operand)>; 2] = [None, None];
    for (space, at, operand) in sorted {
        let before = if operand.kind.writes() { reach[0] } else { reach[1] };
        if let Some((_, _, other)) = before.filter(|(there, to, _)| (*there, *to) > (space, at)) {
            return Some((other, operand));
        }
        let to = at.saturating_add(operand.bytes);
        for (written, furthest) in [false, true].into_iter().zip(&mut reach) {
            let counts = !written || operand.kind.writes();
            if counts && furthest.is_none_or(|(there, end, _)| (there, end) < (space, to)) {
                *furthest = Some((space, to, operand));
            }
        }
    }
    None
}
