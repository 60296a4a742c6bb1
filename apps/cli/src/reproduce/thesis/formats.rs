//! Tables of formats, from the definitions in the code.

use super::super::Context;
use super::super::found::Found;
use crate::formats::{FormatResult, all};

/// Names of a format in the thesis and in the code.
type Names<'n> = (&'n str, &'static str);

const COLUMNS: [&str; 4] = ["sign", "exponent", "significand", "log2 u"];

/// Compares the formats of a table; `hidden` is 1 if the table leaves out the leading bit.
fn table(names: &[Names<'_>], hidden: u32) -> Found {
    let mut found = Found::default();
    let formats = all();
    for (theirs, ours) in names {
        if let Some(format) = formats.iter().find(|format| format.name == *ours) {
            for (column, number) in COLUMNS.into_iter().zip(numbers(format, hidden)) {
                found.value(*theirs, column, number);
            }
        }
    }
    found.command("zellige formats");
    found
}

fn numbers(format: &FormatResult, hidden: u32) -> [f64; 4] {
    let significand = format.significand - hidden;
    [f64::from(format.sign), f64::from(format.exponent), f64::from(significand), format.unit_roundoff.log2()]
}

/// Returns the number of a row and column.
fn of(found: &Found, row: &str, column: &str) -> Option<f64> {
    found.values.iter().find(|value| value.0 == row && value.1 == column).map(|value| value.2)
}

/// Compares the formats of 1985.
pub fn ieee(_: &Context<'_>) -> anyhow::Result<Found> {
    let mut found = table(&[("FP32", "fp32"), ("FP64", "fp64")], 0);
    let agrees =
        of(&found, "FP32", "significand") == Some(24.0) && of(&found, "FP64", "exponent") == Some(11.0);
    found.judge("FP32 and FP64 have 8 and 11 bits of exponent, 24 and 53 of significand", agrees, "probed");
    Ok(found)
}

/// Compares the later formats.
pub fn later(_: &Context<'_>) -> anyhow::Result<Found> {
    let mut found = table(&[("FP16", "fp16"), ("BFLOAT16", "bf16"), ("FP8-E4M3", "e4m3")], 0);
    let half = of(&found, "FP16", "exponent") == Some(5.0) && of(&found, "BFLOAT16", "exponent") == Some(8.0);
    found.judge("FP16 and BFLOAT16 have 5 and 8 bits of exponent", half, "probed");
    let exponent = of(&found, "FP8-E4M3", "exponent").unwrap_or(0.0);
    found.judge(
        "FP8-E4M3 has 5 bits of exponent and 3 of significand",
        exponent == 5.0,
        "by its name and by OCP's definition it has 4 of exponent and 3 of significand besides the leading one: with that bit, as the rows above count, 4 and 4",
    );
    found.leave("FP128 and FP8-E5M2", "nothing in the project stores numbers in them");
    Ok(found)
}

/// Compares the formats of chapter 3, whose table leaves out the leading bit.
pub fn adaptive(_: &Context<'_>) -> anyhow::Result<Found> {
    let names = [
        ("bfloat16", "rp16"),
        ("FP24", "rp24"),
        ("FP32", "fp32"),
        ("FP40", "rp40"),
        ("FP48", "rp48"),
        ("FP56", "rp56"),
        ("FP64", "fp64"),
    ];
    Ok(roundoffs(table(&names, 1), &[-8, -16, -24, -29, -37, -45, -53]))
}

/// Compares the formats with reduced precision.
pub fn reduced(_: &Context<'_>) -> anyhow::Result<Found> {
    let names = ["fp64", "rp56", "rp48", "rp40", "fp32", "rp24", "rp16"];
    Ok(named_alike(&names, &[-53, -45, -37, -29, -24, -16, -8]))
}

/// Compares the formats with three bits of exponent.
pub fn reduced_exponent(_: &Context<'_>) -> anyhow::Result<Found> {
    let names = ["rpre48", "rpre40", "rpre32", "rpre24", "rpre16", "rpre8"];
    Ok(named_alike(&names, &[-45, -37, -29, -21, -13, -5]))
}

/// Compares the formats without a sign.
pub fn unsigned(_: &Context<'_>) -> anyhow::Result<Found> {
    let names = ["rpreu48", "rpreu40", "rpreu32", "rpreu24", "rpreu16", "rpreu8"];
    Ok(named_alike(&names, &[-46, -38, -30, -22, -14, -6]))
}

/// Compares formats that the thesis names as the code does, in capitals.
fn named_alike(names: &[&'static str], expected: &[i32]) -> Found {
    let capitals: Vec<String> = names.iter().map(|name| name.to_uppercase()).collect();
    let names: Vec<Names<'_>> = capitals.iter().map(String::as_str).zip(names.iter().copied()).collect();
    roundoffs(table(&names, 0), expected)
}

/// Judges the unit roundoffs of a table.
fn roundoffs(mut found: Found, expected: &[i32]) -> Found {
    let ours: Vec<f64> =
        found.values.iter().filter(|value| value.1 == "log2 u").map(|value| value.2).collect();
    let agrees = ours.iter().copied().eq(expected.iter().map(|&log2| f64::from(log2)));
    found.judge("unit roundoffs", agrees, "those of rounding to nearest");
    found
}
