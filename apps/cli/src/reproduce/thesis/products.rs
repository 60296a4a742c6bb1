//! Chapters 3 and 4: products with generated matrices of the kinds in the thesis' collection.

use zellige_measure::spmv::{Layout, StorageRow, Survey};
use zellige_sparse::Csr;
use zellige_sparse::adaptive::{Accuracy, FormatSet};
use zellige_sparse::generate::{
    Biot, Elasticity, Elements, Flow, Stokes, Transport, biot, elasticity, flow, stokes, transport,
};

use super::super::Context;
use super::super::found::Found;
use FormatSet::{Ap1, Ap2, Ap3, Ap4, Ap7, Ap7Re, Ap7Reu, Fp32, Fp64, Rp16, Rp24, Rp40, Rp48, Rp56};

/// Sums of a row have so many terms at most whose errors add up in the worst case; the constant of
/// equation (3.18) for seven formats.
const CONSTANT: f64 = 16.0;
/// Smallest share of FP64's bytes without dropping: four bytes of index and four of value of
/// twelve.
const FLOOR: f64 = 66.0;

/// A generated matrix.
pub struct NamedMatrix {
    /// Kind.
    pub name: &'static str,
    /// Matrix.
    pub a: Csr,
}

/// Generates a matrix of each kind.
pub fn matrices(context: &Context<'_>) -> anyhow::Result<Vec<NamedMatrix>> {
    ["flow", "transport", "elasticity", "biot", "stokes"]
        .map(|name| matrix(context, name))
        .into_iter()
        .collect()
}

/// Generates a matrix of this kind.
pub fn matrix(context: &Context<'_>, name: &'static str) -> anyhow::Result<NamedMatrix> {
    let (cells, elements) = if context.full { (100, 40) } else { (16, 6) };
    let elements = Elements([elements; 3]);
    let cells = [cells; 3];
    let a = match name {
        "flow" => flow(&Flow { cells, ..Flow::default() })?,
        "transport" => {
            let usual = Transport::default();
            transport(&Transport { flow: Flow { cells, ..usual.flow }, ..usual })?
        }
        "elasticity" => elasticity(&Elasticity { elements, ..Elasticity::default() })?,
        "biot" => biot(&Biot { elements, ..Biot::default() })?,
        _ => stokes(&Stokes { elements, ..Stokes::default() })?,
    };
    Ok(NamedMatrix { name, a })
}

/// Returns `2^-p`.
fn accuracy(p: i32) -> anyhow::Result<Accuracy> {
    Ok(Accuracy::new(0.5f64.powi(p))?)
}

/// Storage and products of a survey.
struct Wish<'a> {
    sets: &'a [FormatSet],
    powers: &'a [i32],
    criteria: &'a [&'a str],
    drops: bool,
    workers: u16,
}

impl Default for Wish<'_> {
    fn default() -> Self {
        Wish {
            sets: &[Ap2, Ap3, Ap7],
            powers: &[53, 37, 24],
            criteria: &["nw", "cw"],
            drops: true,
            workers: 1,
        }
    }
}

/// Stores a matrix in the layout of the thesis, and measures its products.
fn survey(context: &Context<'_>, a: &Csr, wish: &Wish<'_>) -> anyhow::Result<Vec<StorageRow>> {
    let sets: Vec<Option<FormatSet>> = wish.sets.iter().copied().map(Some).collect();
    let accuracies = wish.powers.iter().map(|&p| accuracy(p)).collect::<anyhow::Result<Vec<_>>>()?;
    let survey = Survey {
        layout: Layout::Thesis,
        sets: &sets,
        accuracies: &accuracies,
        criteria: wish.criteria,
        weights: &[],
        drops: wish.drops,
        x: None,
        workers: wish.workers.into(),
        repeats: if context.full { 100 } else { 15 },
    };
    Ok(survey.run(a, |_| ())?)
}

/// Returns target, criterion and set of a row.
fn label(row: &StorageRow) -> String {
    format!("2^{:.0} {} {}", row.accuracy.log2(), row.criterion.to_uppercase(), row.set)
}

fn percent_of_time(row: &StorageRow) -> f64 {
    100.0 * row.seconds.0 / row.seconds.1
}

fn command(found: &mut Found, sets: &str, more: &str) {
    found.command("zellige matrix generate elasticity --size 6 -o e.mtx");
    found.command(format!("zellige spmv e.mtx --sets {sets} --layout thesis --workers 1 {more}").trim_end());
}

/// Surveys all matrices.
fn of_all(context: &Context<'_>, wish: &Wish<'_>) -> anyhow::Result<Vec<(&'static str, Vec<StorageRow>)>> {
    matrices(context)?.iter().map(|named| Ok((named.name, survey(context, &named.a, wish)?))).collect()
}

/// Counts nonzeros by magnitude beside the limits of AP4 at 2^-53.
pub fn buckets(context: &Context<'_>) -> anyhow::Result<Found> {
    let mut found = Found::default();
    for named in matrices(context)? {
        let norm = named.a.norm_inf();
        let mut counts = [0u64; 80];
        for value in named.a.iter().flat_map(|row| row.1).filter(|value| **value != 0.0) {
            let at = -(value.abs() / norm).log2().floor();
            counts[(at as usize).min(counts.len() - 1)] += 1;
        }
        found.curve(named.name, counts.iter().enumerate().map(|(at, &count)| (-(at as f64), count as f64)));
        let rows = survey(
            context,
            &named.a,
            &Wish { sets: &[Ap4], powers: &[53], criteria: &["nw"], ..Wish::default() },
        )?;
        // Limits eps / u_{k+1} of AP4's buckets, and 2^-53 below which entries are dropped.
        let mut sum = 0;
        for (format, log2) in [("FP64", -16), ("RP48", -29), ("FP32", -45), ("RP16", -53)] {
            found.value(
                named.name,
                format!("nonzeros in {format}, above 2^{log2}"),
                rows[0].counts[format] as f64,
            );
            sum += rows[0].counts[format];
        }
        let counted: u64 = counts.iter().take(54).sum();
        found.judge(
            format!("{}: a nonzero is in the first bucket whose limit eps |A| / u it exceeds", named.name),
            counted == sum,
            format!("{counted} nonzeros are above 2^-53 |A|, {sum} are in buckets"),
        );
    }
    command(&mut found, "ap4", "--eps 2^-53 --criterion nw --report e.html");
    Ok(found)
}

/// Compares errors with their targets.
pub fn errors(context: &Context<'_>) -> anyhow::Result<Found> {
    let mut found = Found::default();
    let wish = Wish { sets: &[Fp64, Rp48, Fp32, Ap2, Ap3, Ap7], ..Wish::default() };
    let (mut worst, mut growth) = (0.0f64, [0.0f64; 2]);
    for (name, rows) in of_all(context, &wish)? {
        for row in &rows {
            // A format alone stands beside the target that is its unit roundoff.
            let is_beside = row.set.formats()[0].unit_roundoff() == row.accuracy.get();
            if row.set.is_uniform() && !is_beside {
                continue;
            }
            let error = if row.criterion == "nw" { row.error.normwise } else { row.error.componentwise };
            found.value(name, label(row), error);
            if !row.set.is_uniform() {
                let ratio = error / row.accuracy.get();
                worst = worst.max(ratio);
                if row.set == Ap2 {
                    growth[0] += ratio;
                } else if row.set == Ap7 {
                    growth[1] += ratio;
                }
            }
        }
    }
    found.judge(
        "errors stay close to the target for all targets and sets",
        worst <= CONSTANT,
        format!("the largest is {worst:.1} eps"),
    );
    found.judge(
        "more formats increase the error slightly",
        growth[1] >= growth[0],
        format!("AP7's errors are {:.2} times those of AP2 on average", growth[1] / growth[0]),
    );
    command(&mut found, "fp64,rp48,fp32,ap2,ap3,ap7", "");
    Ok(found)
}

/// Compares bytes.
pub fn storage(context: &Context<'_>) -> anyhow::Result<Found> {
    let mut found = Found::default();
    let (mut least, mut formats, mut criteria, mut halves) = (100.0f64, [0.0; 2], [0.0; 2], false);
    // Viscosities over many decades, as coefficients of semiconductors are, leave few nonzeros.
    let elements = Elements([6; 3]);
    let extreme = stokes(&Stokes { elements, spread: 9.0, ..Stokes::default() })?;
    for row in survey(context, &extreme, &Wish { sets: &[Ap7], powers: &[24], ..Wish::default() })? {
        found.value("stokes, spread 9", label(&row), row.percent);
        least = least.min(row.percent);
    }
    for (name, rows) in of_all(context, &Wish::default())? {
        for row in &rows {
            found.value(name, label(row), row.percent);
            least = least.min(row.percent);
        }
        for of_one in rows.chunks(3) {
            formats[0] += of_one[0].percent;
            formats[1] += of_one[2].percent;
            halves |= of_one[1].percent < 0.6 * of_one[0].percent;
        }
        let (nw, cw) = rows.split_at(rows.len() / 2);
        criteria[0] += nw.iter().map(|row| row.percent).sum::<f64>();
        criteria[1] += cw.iter().map(|row| row.percent).sum::<f64>();
    }
    found.judge(
        "more formats need fewer bytes",
        formats[1] <= formats[0],
        format!("AP7 takes {:.2} of AP2's bytes on average", formats[1] / formats[0]),
    );
    found.judge(
        "the normwise criterion needs fewer bytes than the componentwise",
        criteria[0] <= criteria[1],
        format!("{:.2} of its bytes on average", criteria[0] / criteria[1]),
    );
    found.judge(
        "reductions up to 36 times",
        least <= 100.0 / 36.0,
        format!("the least is {least:.1} %, {:.0} times", 100.0 / least),
    );
    found.judge(
        "three formats nearly halve the bytes of two for some matrices at 2^-24",
        halves,
        "AP3 below 60 % of AP2 for one of the matrices",
    );
    found.value("least of all", "% of FP64", least);
    command(&mut found, "ap2,ap3,ap7", "");
    found.command("zellige matrix generate stokes --size 6 --spread 9 -o s.mtx");
    found.command("zellige spmv s.mtx --sets ap7 --layout thesis --eps 2^-24");
    Ok(found)
}

/// Compares times at the targets of FP64 and FP32.
pub fn times(context: &Context<'_>) -> anyhow::Result<Found> {
    timed(context, &[53, 24], "speedups up to 7 times at 2^-53 and 2^-24", 7.0)
}

/// Compares times at a target between those of formats of the hardware.
pub fn times_between(context: &Context<'_>) -> anyhow::Result<Found> {
    timed(context, &[53, 37, 24], "at 2^-37 products are faster than in FP64", 1.0)
}

fn timed(context: &Context<'_>, powers: &[i32], text: &str, factor: f64) -> anyhow::Result<Found> {
    let mut found = Found::default();
    let mut least = f64::INFINITY;
    for (name, rows) in of_all(context, &Wish { sets: &[Ap2], powers, ..Wish::default() })? {
        for row in &rows {
            found.value(name, format!("{}, time", label(row)), percent_of_time(row));
            found.value(name, format!("{}, bytes", label(row)), row.percent);
            if powers.len() == 2 || row.accuracy.log2() == -37.0 {
                least = least.min(percent_of_time(row));
            }
        }
    }
    let reason = format!(
        "the fastest takes {least:.0} % of FP64 in the thesis' layout, on one worker of this machine"
    );
    found.judge(text, least <= 100.0 / factor, reason);
    command(&mut found, "ap2", "");
    Ok(found)
}

/// Separates dropping and low precision.
pub fn dropping(context: &Context<'_>) -> anyhow::Result<Found> {
    let mut found = Found::default();
    let (mut worst, mut floor, mut bytes) = (0.0f64, f64::INFINITY, [0.0; 2]);
    for named in matrices(context)? {
        let of = |sets: &[FormatSet], drops| {
            survey(
                context,
                &named.a,
                &Wish { sets, drops, powers: &[53], criteria: &["nw"], ..Wish::default() },
            )
        };
        let [all, one, two, dropless] = [
            ("Unif. fp64", of(&[Fp64], true)?),
            ("Adapt. drop only", of(&[Ap1], true)?),
            ("Adapt.", of(&[Ap2], true)?),
            ("Adapt. dropless", of(&[Ap2], false)?),
        ];
        for (variant, rows) in [&all, &dropless, &one, &two] {
            let row = &rows[0];
            found.value(named.name, format!("{variant}: error"), row.error.normwise);
            found.value(named.name, format!("{variant}: % of bytes"), row.percent);
            found.value(named.name, format!("{variant}: % of time"), percent_of_time(row));
            worst = worst.max(row.error.normwise / row.accuracy.get());
        }
        floor = floor.min(dropless.1[0].percent);
        let separate = dropless.1[0].percent.min(one.1[0].percent);
        bytes[0] += two.1[0].percent;
        bytes[1] += separate;
    }
    found.value("least without dropping", "% of bytes", floor);
    found.judge(
        "all variants are as accurate as asked",
        worst <= CONSTANT,
        format!("the largest error is {worst:.1} eps"),
    );
    found.judge(
        "without dropping at least 66 % of the bytes remain",
        floor >= FLOOR,
        format!("{floor:.1} %"),
    );
    found.judge(
        "both together need fewer bytes than either",
        bytes[0] <= bytes[1],
        format!("{:.2} of the smaller of both on average", bytes[0] / bytes[1]),
    );
    command(&mut found, "fp64,ap1,ap2", "--eps 2^-53 --criterion nw");
    Ok(found)
}

/// Multiplies with more and more workers.
pub fn scaling(context: &Context<'_>) -> anyhow::Result<Found> {
    let mut found = Found::default();
    let named = matrix(context, "elasticity")?;
    let most = context.workers.max(2);
    let counts: Vec<u16> =
        (0..16).map(|k| 1u16 << k).take_while(|&count| count < most).chain([most]).collect();
    let mut curves = [Vec::new(), Vec::new()];
    for &workers in &counts {
        let rows = survey(
            context,
            &named.a,
            &Wish { sets: &[Ap2], powers: &[53], criteria: &["nw"], workers, ..Wish::default() },
        )?;
        for (curve, (name, seconds)) in
            curves.iter_mut().zip([("adaptive", rows[0].seconds.0), ("FP64", rows[0].seconds.1)])
        {
            curve.push((f64::from(workers), seconds));
            found.value(format!("{workers} workers"), format!("{name}, us"), 1e6 * seconds);
        }
    }
    for (curve, name) in curves.iter().zip(["adaptive", "FP64"]) {
        let efficiency = |&(workers, seconds): &(f64, f64)| (workers, curve[0].1 / (workers * seconds));
        found.curve(name, curve.iter().map(efficiency));
    }
    found.leave(
        "both products scale to 18 threads, and lose efficiency with the 19th on the second socket",
        format!("{} workers here: neither 18 cores nor two sockets", context.workers),
    );
    command(&mut found, "ap2", "--eps 2^-53 --criterion nw, and again with --workers 2");
    Ok(found)
}

/// Compares the errors of formats alone with those of sets.
pub fn uniform_errors(context: &Context<'_>) -> anyhow::Result<Found> {
    let mut found = Found::default();
    let named = matrix(context, "elasticity")?;
    let formats = [(53, Fp64), (45, Rp56), (37, Rp48), (29, Rp40), (24, Fp32), (16, Rp24), (8, Rp16)];
    let mut worst = 0.0f64;
    let mut curves =
        vec![("RPxx", Vec::new()), ("AP2", Vec::new()), ("AP4", Vec::new()), ("AP7", Vec::new())];
    for (p, uniform) in formats {
        let sets = [uniform, Ap2, Ap4, Ap7];
        let rows = survey(
            context,
            &named.a,
            &Wish { sets: &sets, powers: &[p], criteria: &["nw"], ..Wish::default() },
        )?;
        for (row, (name, curve)) in rows.iter().zip(&mut curves) {
            found.value(format!("2^-{p}"), *name, row.error.normwise);
            curve.push((f64::from(-p), row.error.normwise));
            worst = worst.max(row.error.normwise / row.accuracy.get());
        }
    }
    curves.into_iter().for_each(|(name, points)| found.curve(name, points));
    found.judge(
        "every variant is as accurate as asked",
        worst <= CONSTANT,
        format!("the largest error is {worst:.1} eps"),
    );
    command(
        &mut found,
        "fp64,rp56,rp48,rp40,fp32,rp24,rp16,ap2,ap4,ap7",
        "--criterion nw --eps 2^-53,2^-45,2^-37,2^-29,2^-24,2^-16,2^-8",
    );
    Ok(found)
}

/// Gains of one set beside another (%): the largest of bytes, and that of the time of all.
fn gains(all: &[(&str, Vec<StorageRow>)], set: FormatSet, beside: FormatSet) -> [f64; 2] {
    let (mut bytes, mut time) = (f64::NEG_INFINITY, [0.0; 2]);
    for (_, rows) in all {
        for row in rows.iter().filter(|row| row.set == set) {
            let is_other = |other: &&StorageRow| {
                other.set == beside && other.accuracy == row.accuracy && other.criterion == row.criterion
            };
            if let Some(other) = rows.iter().find(is_other) {
                bytes = bytes.max(100.0 * (1.0 - row.percent / other.percent));
                time[0] += percent_of_time(row);
                time[1] += percent_of_time(other);
            }
        }
    }
    [bytes, 100.0 * (1.0 - time[0] / time[1])]
}

/// Adds the gains of one set beside another, and judges that of the bytes.
fn judge_gains(
    found: &mut Found,
    all: &[(&str, Vec<StorageRow>)],
    pair: [FormatSet; 2],
    published: [f64; 2],
) {
    let [set, beside] = pair;
    let [bytes, time] = gains(all, set, beside);
    let row = format!("{set} over {beside}");
    found.value(row.clone(), "% of bytes gained at most", bytes);
    found.value(row.clone(), "% of time gained together", time);
    found.judge(
        format!("{row}: up to {} % of bytes", published[0]),
        bytes > 0.0 && bytes >= 0.5 * published[0],
        format!("{bytes:.1} % here: half of the published gain or more on other matrices counts"),
    );
    found.judge(
        format!("{row}: gains of time, up to {} %", published[1]),
        time > 0.0,
        format!("{time:.1} % here of all products together, in the thesis' layout"),
    );
}

/// Compares AP2, AP4 and AP7.
pub fn more_formats(context: &Context<'_>) -> anyhow::Result<Found> {
    let mut found = Found::default();
    let wish = Wish {
        sets: &[Fp64, Rp48, Rp40, Fp32, Ap2, Ap4, Ap7],
        powers: &[53, 37, 29, 24],
        criteria: &["nw"],
        ..Wish::default()
    };
    let all = of_all(context, &wish)?;
    let mut least = 100.0f64;
    for (name, rows) in &all {
        for row in rows.iter().filter(|row| !row.set.is_uniform()) {
            found.value(*name, format!("{}, bytes", label(row)), row.percent);
            found.value(*name, format!("{}, time", label(row)), percent_of_time(row));
            least = least.min(row.percent);
        }
    }
    judge_gains(&mut found, &all, [Ap4, Ap2], [24.0, 21.0]);
    judge_gains(&mut found, &all, [Ap7, Ap4], [11.0, 9.0]);
    found.value("least of all", "% of bytes", least);
    found.judge(
        "reductions of bytes up to 99 %",
        least <= 1.5,
        format!("{:.1} % less at most", 100.0 - least),
    );
    command(&mut found, "fp64,rp48,rp40,fp32,ap2,ap4,ap7", "--criterion nw");
    Ok(found)
}

/// Compares AP7 with the sets of three bits of exponent.
pub fn fewer_exponents(context: &Context<'_>) -> anyhow::Result<Found> {
    let mut found = Found::default();
    let wish = Wish { sets: &[Ap7, Ap7Re, Ap7Reu], criteria: &["nw"], ..Wish::default() };
    let all = of_all(context, &wish)?;
    for (name, rows) in &all {
        for row in rows {
            found.value(*name, format!("{}, bytes", label(row)), row.percent);
            found.value(*name, format!("{}, time", label(row)), percent_of_time(row));
        }
    }
    judge_gains(&mut found, &all, [Ap7Re, Ap7], [16.0, 13.0]);
    judge_gains(&mut found, &all, [Ap7Reu, Ap7], [16.0, 13.0]);
    command(&mut found, "ap7,ap7re,ap7reu", "--criterion nw");
    Ok(found)
}

/// Counts nonzeros by format.
pub fn shares(context: &Context<'_>) -> anyhow::Result<Found> {
    let mut found = Found::default();
    let wish =
        Wish { sets: &[Ap2, Ap4, Ap7, Ap7Re, Ap7Reu], powers: &[37], criteria: &["nw"], ..Wish::default() };
    let mut narrower = true;
    for (name, rows) in of_all(context, &wish)? {
        for row in &rows {
            let all: u64 = row.counts.values().sum();
            for (format, &count) in &row.counts {
                found.value(name, format!("{} {format}", row.set), 100.0 * count as f64 / all as f64);
            }
        }
        // Values below 40 bits: formats with the exponent's bits in the significand reach further.
        let narrow = |row: &StorageRow| {
            let is_narrow = |name: &str| {
                name.ends_with("32")
                    || name.ends_with("24")
                    || name.ends_with("16")
                    || name.ends_with('8') && !name.ends_with("48")
            };
            row.counts.iter().filter(|count| is_narrow(count.0)).map(|count| count.1).sum::<u64>()
        };
        narrower &= narrow(&rows[3]) >= narrow(&rows[2]) && narrow(&rows[4]) >= narrow(&rows[3]);
    }
    found.judge(
        "without bits of exponent and sign more nonzeros are stored in few bits",
        narrower,
        "nonzeros in 32 bits or fewer: AP7, AP7RE and AP7REU, every matrix",
    );
    command(&mut found, "ap2,ap4,ap7,ap7re,ap7reu", "--criterion nw --eps 2^-37 --report e.html");
    Ok(found)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn targets_are_unit_roundoffs() {
        for (p, set) in [(53, Fp64), (45, Rp56), (37, Rp48), (29, Rp40), (24, Fp32), (16, Rp24), (8, Rp16)] {
            assert_eq!(accuracy(p).unwrap().get(), set.formats()[0].unit_roundoff(), "{set}");
        }
    }
}
