//! `zellige formats`: the number formats of the project, their range and accuracy, and their uses.

mod catalogue;
mod probe;

use schemars::JsonSchema;
use serde::Serialize;
use zellige_app::table::{Side, Table};

use crate::args::FormatsArgs;
use crate::out;
use crate::results::{is_stdout, page_of, write_json, write_page};
pub use catalogue::all;

/// A number format.
#[derive(Clone, Debug, PartialEq, Serialize, JsonSchema)]
pub struct FormatResult {
    /// Name, as options take it.
    pub name: String,
    /// Bits that a number takes in memory, with its part of a shared exponent or scale.
    pub bits: f64,
    /// Bits of the sign.
    pub sign: u32,
    /// Bits of a number's own exponent.
    pub exponent: u32,
    /// Significant bits: with the leading one that is not stored, if there is an exponent.
    pub significand: u32,
    /// Largest finite number; null where numbers are relative to a shared scale.
    pub largest: Option<f64>,
    /// Smallest positive number with all significant bits.
    pub smallest_normal: Option<f64>,
    /// Smallest positive number.
    pub smallest: Option<f64>,
    /// Unit roundoff: the largest relative error of rounding to nearest, relative to the largest
    /// number that shares the scale, if one is shared.
    pub unit_roundoff: f64,
    /// Numbers that share an exponent or scale; none if each number has its own.
    pub shared_by: Option<&'static str>,
    /// Uses.
    pub used: Vec<String>,
}

/// Prints the formats and writes the requested files.
///
/// # Errors
/// An output that cannot be written.
pub fn run(args: &FormatsArgs) -> anyhow::Result<()> {
    let formats = all();
    if let Some(target) = &args.report {
        write_page(target, page_of("Number formats", &formats)?)?;
    }
    write_json(args.json.as_ref(), &formats)?;
    match is_stdout(args.json.as_ref()) {
        true => Ok(()),
        false => out::print(&text(&formats, out::colours(&std::io::stdout()))),
    }
}

const COLUMNS: [(&str, Side); 9] = [
    ("format", Side::Left),
    ("bits", Side::Right),
    ("sign", Side::Right),
    ("exponent", Side::Right),
    ("significand", Side::Right),
    ("smallest", Side::Right),
    ("normal from", Side::Right),
    ("largest", Side::Right),
    ("u", Side::Right),
];

fn text(formats: &[FormatResult], colour: bool) -> String {
    let mut table = Table::new(&[&COLUMNS[..], &[("used by", Side::Left)]].concat());
    for format in formats {
        table.row(cells(format).into_iter().chain([format.used.join(", ")]));
    }
    table.render(colour)
}

/// Returns the cells of [`COLUMNS`].
fn cells(format: &FormatResult) -> [String; 9] {
    let range = |x: Option<f64>| x.map_or("-".into(), |x| format!("{x:.2e}"));
    let exponent = match format.shared_by {
        Some(_) => "shared".into(),
        None => format.exponent.to_string(),
    };
    [
        format.name.clone(),
        format!("{:.2}", format.bits).trim_end_matches('0').trim_end_matches('.').to_owned(),
        format.sign.to_string(),
        exponent,
        format.significand.to_string(),
        range(format.smallest),
        range(format.smallest_normal),
        range(format.largest),
        format!("{:.2e}", format.unit_roundoff),
    ]
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Returns the page docs/reference/formats.md.
    fn page() -> String {
        let mut page = String::from(
            "# Number formats\n\nEvery format in which the project stores numbers, as `zellige formats` prints it (generated: `ZELLIGE_WRITE_DOCS=1 cargo \
             test -p zellige-cli formats`). Bits are those that a number takes in memory. Significant bits count the leading one that is not stored. `u` is \
             the unit roundoff: the largest relative error of rounding to nearest, for a shared exponent or scale relative to the largest number that \
             shares it. Numbers from *smallest* to *normal from* have fewer significant bits.\n\n",
        );
        let names: Vec<&str> = COLUMNS.iter().map(|(name, _)| *name).chain(["used by"]).collect();
        page += &format!("| {} |\n|{}\n", names.join(" | "), " --- |".repeat(names.len()));
        for format in all() {
            let used = format.used.join(", ");
            let shared = format.shared_by.map_or(String::new(), |by| format!(" (shared by {by})"));
            page += &format!("| {} | {used}{shared} |\n", cells(&format).join(" | "));
        }
        page
    }

    #[test]
    fn the_page_is_what_the_code_has() {
        let file = concat!(env!("CARGO_MANIFEST_DIR"), "/../../docs/reference/formats.md");
        if std::env::var_os("ZELLIGE_WRITE_DOCS").is_some() {
            std::fs::write(file, page()).expect("the page can be written");
        }
        let written = std::fs::read_to_string(file).unwrap_or_default();
        assert!(written == page(), "{file}: ZELLIGE_WRITE_DOCS=1 cargo test -p zellige-cli formats");
    }

    /// The defining numbers of IEEE 754-2019, of bfloat16, of OCP's E4M3 and of the thesis' Tables
    /// 3.1 and 4.1.
    #[test]
    fn formats_have_their_defining_numbers() {
        let formats = all();
        let of = |name: &str| formats.iter().find(|format| format.name == name).expect(name);
        let expected = [
            ("fp64", 64.0, 11, 53, f64::MAX, f64::MIN_POSITIVE, f64::from_bits(1)),
            ("fp32", 32.0, 8, 24, f32::MAX.into(), 2f64.powi(-126), 2f64.powi(-149)),
            ("fp16", 16.0, 5, 11, 65504.0, 2f64.powi(-14), 2f64.powi(-24)),
            ("bf16", 16.0, 8, 8, 255.0 * 2f64.powi(120), 2f64.powi(-126), 2f64.powi(-133)),
            ("e4m3", 8.0, 4, 4, 448.0, 2f64.powi(-6), 2f64.powi(-9)),
            ("tf32", 19.0, 8, 11, 2047.0 * 2f64.powi(117), 2f64.powi(-126), 2f64.powi(-136)),
        ];
        for (name, bits, exponent, significand, largest, normal, smallest) in expected {
            let found = of(name);
            assert_eq!(
                (found.bits, found.exponent, found.significand),
                (bits, exponent, significand),
                "{name}"
            );
            let range = [found.largest, found.smallest_normal, found.smallest];
            assert_eq!(range, [largest, normal, smallest].map(Some), "{name}");
        }
        for (name, exponent, significand) in [
            ("rp56", 11, 45),
            ("rp48", 11, 37),
            ("rp40", 11, 29),
            ("rp24", 8, 16),
            ("rpre48", 3, 45),
            ("rpreu8", 3, 6),
        ] {
            assert_eq!((of(name).exponent, of(name).significand), (exponent, significand), "{name}");
        }
        for format in &formats {
            let of_bits = 0.5f64.powi(format.significand as i32);
            // Sums of two numbers may have a bit more than their bound.
            assert!((0.49..=2.01).contains(&(format.unit_roundoff / of_bits)), "{format:?}");
            assert!(!format.used.is_empty(), "{format:?}");
        }
    }
}
