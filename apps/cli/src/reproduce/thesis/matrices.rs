//! Tables of matrices, with generated matrices of the same size in their place, and sets of formats
//! beyond those of the command.

use zellige_kernels::packed::PackedFormat::{
    self, Fp32, Fp64, Rpre8, Rpre16, Rpre24, Rpre32, Rpre40, Rpre48, Rpreu8, Rpreu16, Rpreu24, Rpreu32,
    Rpreu40, Rpreu48,
};
use zellige_sparse::Csr;
use zellige_sparse::adaptive::FormatSet;
use zellige_sparse::exact::ExactProduct;

use super::super::Context;
use super::super::found::Found;
use super::super::published::all;
use super::products::{NamedMatrix, matrices};
use super::theory::Buckets;

/// A kind of generated matrices: unknowns of a node, and nonzeros of a row far from the surface.
struct MatrixKind {
    name: &'static str,
    unknowns: f64,
    /// Nodes along an edge beyond the number of elements.
    more: f64,
    density: f64,
}

/// Finds the kinds' nonzeros of a row: the most that a generated matrix has.
fn kinds(context: &Context<'_>) -> anyhow::Result<Vec<MatrixKind>> {
    let of = |NamedMatrix { name, a }: NamedMatrix| {
        let most = a.iter().map(|row| row.1.len()).max().unwrap_or(0) as f64;
        let (unknowns, more) = match name {
            "elasticity" => (3.0, 1.0),
            "biot" | "stokes" => (4.0, 1.0),
            _ => (1.0, 0.0),
        };
        MatrixKind { name, unknowns, more, density: most }
    };
    Ok(matrices(context)?.into_iter().map(of).collect())
}

/// Proposes generated matrices for those of a table.
fn stand_ins(context: &Context<'_>, item: &str) -> anyhow::Result<Found> {
    let mut found = Found::default();
    let kinds = kinds(context)?;
    let published = all();
    let of = |column: &'static str| {
        published.iter().filter(move |one| one.paper == "thesis" && one.item == item && one.column == column)
    };
    let (mut near, mut count) = (0, 0);
    for (n, nonzeros) in of("n").zip(of("nonzeros")) {
        let density = nonzeros.value / n.value;
        let apart = |kind: &&MatrixKind| (kind.density / density).ln().abs();
        let Some(kind) = kinds.iter().min_by(|a, b| apart(a).total_cmp(&apart(b))) else { continue };
        let edge = ((n.value / kind.unknowns).cbrt() - kind.more).round().max(1.0);
        let size = kind.unknowns * (edge + kind.more).powi(3);
        found.value(n.row, "n", size);
        found.value(n.row, "nonzeros", size * kind.density);
        found.command(format!("zellige matrix generate {} --size {edge:.0} -o {}.mtx", kind.name, n.row));
        count += 1;
        near += usize::from(apart(&kind) < 2f64.ln());
    }
    found.leave(
        "nonzeros of the matrices in a row",
        format!("{near} of {count} have a generated kind with half to twice as many; numbers here are those of the commands, before the surface is cut"),
    );
    found.leave(
        "the matrices themselves",
        "files of SuiteSparse are read (zellige spmv FILE), those of industry are not public",
    );
    Ok(found)
}

/// Proposes generated matrices for the 32 of chapter 3.
pub fn of_chapter3(context: &Context<'_>) -> anyhow::Result<Found> {
    stand_ins(context, "table3.2")
}

/// Proposes generated matrices for those of chapter 4.
pub fn of_chapter4(context: &Context<'_>) -> anyhow::Result<Found> {
    let mut found = stand_ins(context, "table4.4")?;
    found.judge("there are eight matrices", false, "the table lists seven");
    Ok(found)
}

const REDUCED: &[PackedFormat] = &[Fp64, Rpre48, Rpre40, Rpre32, Rpre24, Rpre16, Rpre8];
const UNSIGNED: &[PackedFormat] = &[Fp64, Rpreu48, Rpreu40, Rpreu32, Rpreu24, Rpreu16, Rpreu8];
/// Any other list, of formats with bits of exponent by the formula.
const SHORT: &[PackedFormat] = &[Fp64, Rpre32, Rpre16];

/// Returns `ceil(log2 ceil(log2 u_{k+1} / u_k))` of the scaled formats, the largest.
fn exponent_bits(formats: &[PackedFormat]) -> u32 {
    let next = formats.iter().skip(1).map(|format| format.roundoff_log2()).chain([0]);
    let scaled = formats.iter().zip(next).filter(|(format, _)| format.is_scaled());
    let decades =
        scaled.map(|(format, next)| (next - format.roundoff_log2()).unsigned_abs()).max().unwrap_or(1);
    decades.next_power_of_two().ilog2()
}

/// Bytes of a matrix in buckets, each with columns and row starts, in percent of FP64.
fn percent(buckets: &Buckets, a: &Csr) -> f64 {
    let mut counts = vec![0usize; buckets.formats.len() + 1];
    for row in a.iter() {
        buckets.counts(row.1).iter().zip(&mut counts).for_each(|(one, all)| *all += one);
    }
    let of = |(&count, format): (&usize, &PackedFormat)| {
        // Formats without a sign have two buckets.
        let starts = if count == 0 {
            0
        } else if format.has_sign() {
            1
        } else {
            2
        };
        count * (4 + format.bytes()) + 4 * starts * (a.rows() + 1)
    };
    100.0 * counts.iter().zip(buckets.formats).map(of).sum::<usize>() as f64 / a.bytes() as f64
}

/// Counts bits of exponent by formula, and bytes with RPRE24 in the place of FP32.
pub fn own_sets(context: &Context<'_>) -> anyhow::Result<Found> {
    let mut found = Found::default();
    let lists = [
        ("AP7RE", FormatSet::Ap7Re.formats()),
        ("AP7REU", FormatSet::Ap7Reu.formats()),
        ("AP7RE, RPRE24 for FP32", REDUCED),
        ("AP7REU, RPREU24 for FP32", UNSIGNED),
        ("FP64, RPRE32, RPRE16", SHORT),
    ];
    for (name, formats) in lists {
        found.value(name, "bits of exponent", exponent_bits(formats).into());
    }
    let (mut larger, mut all) = (0, 0);
    for NamedMatrix { name, a } in matrices(context)? {
        let norm = a.norm_inf();
        let of = |formats| percent(&Buckets::of_formats(formats, 0.5f64.powi(37), norm), &a);
        for (set, formats) in lists.iter().take(4) {
            found.value(*set, format!("{name}, % of FP64's bytes"), of(formats));
        }
        all += 1;
        larger += usize::from(of(REDUCED) >= of(lists[0].1) - 1.0);
    }
    found.judge(
        "three bits of exponent suffice for seven formats",
        exponent_bits(REDUCED) == 3,
        "by the formula, for steps of eight bits",
    );
    found.judge(
        "RPRE24 in the place of FP32 gains nothing much",
        2 * larger >= all,
        format!("for {larger} of {all} matrices it saves less than 1 % of FP64's bytes"),
    );
    found.judge(
        "a wider step needs more bits",
        exponent_bits(SHORT) == 4,
        format!("{} bits for steps of 16 bits: {Fp32} has eight", exponent_bits(SHORT)),
    );
    Ok(found)
}

/// Rounds entries of magnitudes up to 1 to FP32, as others do, beside the criterion of the thesis.
pub fn absolute(context: &Context<'_>) -> anyhow::Result<Found> {
    let mut found = Found::default();
    let mut spread = (f64::INFINITY, 0.0f64);
    for NamedMatrix { name, a } in matrices(context)? {
        let x = vec![1.0; a.columns()];
        let exact = ExactProduct::of(&a, &x)?;
        let narrow = |value: f64| if value.abs() <= 1.0 { f64::from(value as f32) } else { value };
        let y: Vec<f64> = a.iter().map(|row| row.1.iter().map(|&value| narrow(value)).sum()).collect();
        let error = exact.measured(&exact.errors(&y)?).normwise;
        let share = a.iter().flat_map(|row| row.1).filter(|value| value.abs() <= 1.0).count();
        found.value(name, "% of nonzeros in FP32", 100.0 * share as f64 / a.nonzeros() as f64);
        found.value(name, "normwise backward error", error);
        spread = (spread.0.min(error), spread.1.max(error));
    }
    found.judge(
        "entries in [-1, 1] can be stored in single precision",
        spread.1 <= 16.0 * f64::EPSILON,
        format!("errors are {:.0e} to {:.0e}: they depend on the units of the matrix, which a relative criterion does not", spread.0, spread.1),
    );
    Ok(found)
}
