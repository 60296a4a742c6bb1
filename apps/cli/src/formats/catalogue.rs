//! List of the number formats, made by asking the crates that have them.

use half::{bf16, f16};
use zellige_dense::GemmPrecision;
use zellige_kernels::StorageFormat;
use zellige_kernels::few_bits::FewBits;
use zellige_kernels::formats::bits;
use zellige_kernels::packed::block::{BLOCK, BlockFormat};
use zellige_kernels::packed::{PackedFormat, Rounding};
use zellige_kernels::sites::{COMPONENTS, MatrixNumber, SiteFormat};
use zellige_psa::search::{Precision, SampleFormat};
use zellige_sparse::adaptive::FormatSet;
use zellige_sparse::krylov::Packed;
use zellige_stochastic::Sample;

use super::FormatResult;
use super::probe::{Round, probe};

/// Returns all formats: those of tiles, of packed matrices, of blocks, of links and of quark
/// fields, and integers.
pub fn all() -> Vec<FormatResult> {
    let tiles = StorageFormat::ALL.into_iter().map(of_tiles);
    let tf32 = floating("tf32", 19, &|x| f64::from(bits::tf32_from_f32(x as f32)), None);
    let packed = PackedFormat::ALL.into_iter().filter(|one| !is_tile(one.name())).map(of_entries);
    let mut formats: Vec<FormatResult> = tiles.chain([tf32]).chain(packed).collect();
    formats.extend(BlockFormat::ALL.map(|one| {
        let bits = 8.0 * one.block_bytes() as f64 / BLOCK as f64;
        shared(one.name(), bits, one.unit_roundoff(), "8 numbers")
    }));
    let sites = SiteFormat::ALL.into_iter().filter(|one| !is_float(*one));
    formats.extend(sites.map(|one| {
        let bits = 8.0 * one.bytes() as f64 / COMPONENTS as f64;
        let used = vec![format!("quarks {}", one.name())];
        FormatResult { used, ..shared(one.name(), bits, one.unit_roundoff(), "6 numbers of a site") }
    }));
    let links = MatrixNumber::ALL.into_iter().filter(|one| !is_tile(one.name()));
    formats.extend(links.map(|one| {
        shared(one.name(), 8.0 * one.bytes() as f64, one.unit_roundoff(), "all numbers of the field")
    }));
    for format in formats.iter_mut().filter(|format| format.used.is_empty()) {
        format.used = uses(&format.name);
    }
    formats.push(integers_of_samples());
    // Those of 16 bits are in the list already.
    formats.extend(FewBits::BITS.filter(|bits| *bits < 16).map(integers_of_control));
    formats
}

fn is_tile(name: &str) -> bool {
    name.parse::<StorageFormat>().is_ok()
}

fn is_float(format: SiteFormat) -> bool {
    matches!(format, SiteFormat::Fp64 | SiteFormat::Fp32)
}

/// Returns a floating-point format of so many bits; `roundoff` is its definition, if it has one.
fn floating(name: &str, bits: u32, round: Round<'_>, roundoff: Option<f64>) -> FormatResult {
    let found = probe(round);
    FormatResult {
        name: name.to_owned(),
        bits: bits.into(),
        sign: 1,
        exponent: bits - found.significand,
        significand: found.significand,
        largest: Some(found.largest),
        smallest_normal: Some(found.smallest_normal),
        smallest: Some(found.smallest),
        unit_roundoff: roundoff.unwrap_or_else(|| 0.5f64.powi(found.significand as i32)),
        shared_by: None,
        used: Vec::new(),
    }
}

/// Returns a format of integers that share a scale.
fn shared(name: &str, bits: f64, unit_roundoff: f64, by: &'static str) -> FormatResult {
    FormatResult {
        name: name.to_owned(),
        bits,
        sign: 1,
        exponent: 0,
        significand: -unit_roundoff.log2() as u32,
        largest: None,
        smallest_normal: None,
        smallest: None,
        unit_roundoff,
        shared_by: Some(by),
        used: Vec::new(),
    }
}

fn of_tiles(format: StorageFormat) -> FormatResult {
    let half = |x: f32| bits::f32_from_f16(bits::f16_from_f32(x));
    let round = |x: f64| match format {
        StorageFormat::F64 => x,
        StorageFormat::F32 => f64::from(x as f32),
        StorageFormat::F16 => f64::from(half(bits::f32_to_odd(x))),
        StorageFormat::BF16 => f64::from(bits::f32_from_bf16(bits::bf16_from_f32(bits::f32_to_odd(x)))),
        StorageFormat::E4M3 => f64::from(bits::f32_from_e4m3(bits::e4m3_from_f32(bits::f32_to_odd(x)))),
        StorageFormat::F16x2 => {
            let upper = half(x as f32);
            f64::from(upper) + f64::from(half((x - f64::from(upper)) as f32))
        }
    };
    let whole = floating(format.name(), 8 * format.bytes() as u32, &round, Some(format.unit_roundoff()));
    // Two numbers, each with an exponent.
    let pair = format == StorageFormat::F16x2;
    FormatResult { exponent: if pair { 10 } else { whole.exponent }, sign: if pair { 2 } else { 1 }, ..whole }
}

fn of_entries(format: PackedFormat) -> FormatResult {
    let round = |x: f64| format.decode(format.encode(x, Rounding::Nearest));
    let bits = 8 * format.bytes() as u32;
    let signed = floating(format.name(), bits, &round, Some(format.unit_roundoff()));
    match format.has_sign() {
        true => signed,
        false => FormatResult { sign: 0, exponent: signed.exponent + 1, ..signed },
    }
}

/// Returns the 16-bit fixed point of samples.
fn integers_of_samples() -> FormatResult {
    let roundoff = 0.5 / f64::from(SampleFormat::STEPS);
    let used = vec!["samples of searches (psa run int16)".to_owned(), "matrices of tor rtc".to_owned()];
    let scope = "all samples of a signal, a row of a group of columns";
    FormatResult { used, ..shared("int16", 16.0, roundoff, scope) }
}

/// Returns the integers of the matrices of a real-time controller.
fn integers_of_control(bits: u32) -> FormatResult {
    let used = vec!["matrices of tor rtc".to_owned()];
    let roundoff = 0.5 / f64::from((1u32 << (bits - 1)) - 1);
    FormatResult {
        used,
        ..shared(&format!("int{bits}"), bits.into(), roundoff, "a row of a group of columns")
    }
}

/// Returns the uses of the format of this name.
fn uses(name: &str) -> Vec<String> {
    let mut uses = Vec::new();
    uses.extend(named("rules", &rules(name)));
    uses.extend(named("sets", &sets(name)));
    if FormatSet::UNIFORM.iter().any(|set| set.name().eq_ignore_ascii_case(name)) {
        uses.push("uniform products".into());
    }
    if name.parse::<Packed>().is_ok() {
        uses.push("bases of GMRES".into());
    }
    let quarks = SiteFormat::ALL.into_iter().filter(|one| short_name(*one) == name).map(|one| one.name());
    uses.extend(named("quarks", &quarks.collect::<Vec<_>>()));
    if MatrixNumber::ALL.iter().any(|one| one.name() == name) {
        uses.push("links".into());
    }
    if name.parse::<Precision>().is_ok() {
        uses.push("searches".into());
    }
    let stochastic =
        [digits::<f64>("fp64"), digits::<f32>("fp32"), digits::<f16>("fp16"), digits::<bf16>("bf16")];
    uses.extend(
        stochastic
            .iter()
            .filter(|one| one.0 == name)
            .map(|(_, digits)| format!("stochastic ({digits} digits)")),
    );
    if uses.is_empty() {
        uses.push("kernels alone".into());
    }
    uses
}

fn named(what: &str, names: &[&str]) -> Option<String> {
    (!names.is_empty()).then(|| format!("{what} {}", names.join(" ")))
}

fn digits<T: Sample>(name: &'static str) -> (&'static str, u32) {
    (name, T::DIGITS)
}

fn short_name(format: SiteFormat) -> &'static str {
    match format {
        SiteFormat::Fp64 => "fp64",
        SiteFormat::Fp32 => "fp32",
        other => other.name(),
    }
}

/// Returns the precisions of tile products that have this format for operands, sums or results.
fn rules(name: &str) -> Vec<&'static str> {
    let has = |rule: &GemmPrecision| {
        let formats = [rule.operand_format(), rule.accumulator_format(), rule.output_format()];
        formats.iter().any(|format| format.name() == name) || rule.name() == name
    };
    GemmPrecision::ALL.into_iter().filter(has).map(GemmPrecision::name).collect()
}

/// Returns the sets of formats of adaptive matrices that contain this format.
fn sets(name: &str) -> Vec<&'static str> {
    let has = |set: &FormatSet| set.formats().iter().any(|format| format.name() == name);
    FormatSet::ALL.into_iter().filter(has).map(FormatSet::name).collect()
}
