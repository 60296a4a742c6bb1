//! Display of the performance models of this machine.

use std::fs;
use std::io;
use std::path::{Path, PathBuf};

use anyhow::Context;
use schemars::JsonSchema;
use serde::Serialize;
use zellige_app::table::{Side, Table};
use zellige_app::text::digits;
use zellige_runtime::model::{Models, Row, Source, default_path};

use crate::models::{State, Unusable, cached};
use crate::out;

/// Known performance models, for people and scripts.
#[derive(Debug, Serialize, JsonSchema)]
pub struct Known {
    /// Path of the file; `null` if there is no cache folder.
    path: Option<PathBuf>,
    state: State,
    /// The reason why an existing file is not used.
    why: Option<String>,
    models: Vec<KnownModel>,
    links: Vec<KnownLink>,
}

#[derive(Debug, Serialize, JsonSchema)]
struct KnownModel {
    codelet: String,
    /// Name of the implementation; empty if the codelet has one only.
    implementation: String,
    kind: String,
    label: String,
    /// Shape (m, n, k); zeros if the codelet reports none.
    shape: [u32; 3],
    flops: f64,
    bytes: u64,
    samples: u64,
    median_seconds: Option<f64>,
    spread_seconds: f64,
    /// The estimate that scheduling policies use; `null` if there is none.
    estimate_seconds: Option<f64>,
    source: Option<Source>,
    gflops: Option<f64>,
}

#[derive(Debug, Serialize, JsonSchema)]
struct KnownLink {
    from: String,
    to: String,
    bytes_per_second: f64,
    latency_seconds: f64,
}

impl KnownModel {
    /// Returns the name of the codelet, with the implementation if there are several.
    fn title(&self) -> String {
        if self.implementation.is_empty() {
            return self.codelet.clone();
        }
        format!("{} ({})", self.codelet, self.implementation)
    }
}

impl From<Row> for KnownModel {
    fn from(row: Row) -> Self {
        let gflops = row.gflops();
        KnownModel {
            codelet: row.codelet,
            implementation: row.implementation,
            kind: row.kind,
            label: row.label,
            shape: row.shape,
            flops: row.flops,
            bytes: row.bytes,
            samples: row.samples,
            median_seconds: row.median.map(|time| time.as_secs_f64()),
            spread_seconds: row.spread.as_secs_f64(),
            estimate_seconds: row.estimate.map(|estimate| estimate.time.as_secs_f64()),
            source: row.estimate.map(|estimate| estimate.source),
            gflops,
        }
    }
}

impl Known {
    /// Reads the models of this machine. A file that cannot be used is described; it is not an
    /// error.
    pub fn load() -> Known {
        match cached() {
            Ok((models, path)) => Known::of(&models, path),
            Err(Unusable { path, state, why }) => {
                Known { path, state, why, models: Vec::new(), links: Vec::new() }
            }
        }
    }

    /// Returns the rows of these models, which are stored in `path`.
    pub fn of(models: &Models, path: PathBuf) -> Known {
        let link = |(from, to, link): (String, String, zellige_runtime::model::LinkModel)| KnownLink {
            from,
            to,
            bytes_per_second: link.bandwidth(),
            latency_seconds: link.latency(),
        };
        Known {
            path: Some(path),
            state: State::Fresh,
            why: None,
            models: models.rows().into_iter().map(KnownModel::from).collect(),
            links: models.links().into_iter().map(link).collect(),
        }
    }

    /// Returns a line on the file, and tables of the models.
    pub fn text(&self, colour: bool) -> String {
        let heading = match (self.state, &self.path) {
            (State::Fresh, Some(path)) => format!("{} known, in {}", self.models.len(), path.display()),
            (state, path) => Unusable { path: path.clone(), state, why: self.why.clone() }.to_string(),
        };
        let mut text = format!("{:<12} {heading}\n", "models");
        if !self.models.is_empty() {
            text.push_str(&self.model_table().render(colour));
        }
        if !self.links.is_empty() {
            text.push_str(&self.link_table().render(colour));
        }
        text
    }

    fn model_table(&self) -> Table {
        let mut table = Table::new(&[
            ("codelet", Side::Left),
            ("kind", Side::Left),
            ("label", Side::Left),
            ("shape", Side::Left),
            ("samples", Side::Right),
            ("median us", Side::Right),
            ("spread us", Side::Right),
            ("source", Side::Left),
            ("Gflop/s", Side::Right),
        ]);
        let micros = |seconds: f64| digits(1e6 * seconds);
        for model in &self.models {
            table.row([
                model.title(),
                model.kind.clone(),
                model.label.clone(),
                shape(model.shape),
                model.samples.to_string(),
                model.median_seconds.map_or("-".into(), micros),
                micros(model.spread_seconds),
                source(model.source).into(),
                model.gflops.map_or("-".into(), digits),
            ]);
        }
        table
    }

    fn link_table(&self) -> Table {
        let columns =
            [("from", Side::Left), ("to", Side::Left), ("GB/s", Side::Right), ("latency us", Side::Right)];
        let mut table = Table::new(&columns);
        for link in &self.links {
            let figures = [digits(1e-9 * link.bytes_per_second), digits(1e6 * link.latency_seconds)];
            table.row([link.from.clone(), link.to.clone()].into_iter().chain(figures));
        }
        table
    }
}

/// Formats a shape: `64x32` for (64, 32, 0), `-` if the codelet reports none.
fn shape(shape: [u32; 3]) -> String {
    let used = shape.iter().rposition(|&x| x != 0).map_or(0, |last| last + 1);
    let sides: Vec<String> = shape[..used].iter().map(u32::to_string).collect();
    if sides.is_empty() { "-".into() } else { sides.join("x") }
}

fn source(source: Option<Source>) -> &'static str {
    match source {
        Some(Source::History) => "history",
        Some(Source::Regression) => "regression",
        Some(Source::User) => "user",
        None => "too few",
    }
}

/// Removes the file of models (`zellige machine forget`).
///
/// # Errors
/// There is no cache folder, or the file cannot be removed.
pub fn forget() -> anyhow::Result<()> {
    let path = default_path()?;
    out::print(&remove(&path)?)
}

fn remove(path: &Path) -> anyhow::Result<String> {
    match fs::remove_file(path) {
        Ok(()) => Ok(format!("removed {}\n", path.display())),
        Err(e) if e.kind() == io::ErrorKind::NotFound => {
            Ok(format!("nothing to remove: {} does not exist\n", path.display()))
        }
        Err(e) => Err(e).with_context(|| format!("{}: cannot be removed", path.display())),
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use zellige_runtime::TaskInfo;

    use super::*;

    #[test]
    fn shapes_are_short() {
        assert_eq!(shape([64, 32, 16]), "64x32x16");
        assert_eq!(shape([64, 32, 0]), "64x32");
        assert_eq!(shape([64, 0, 0]), "64");
        assert_eq!(shape([0, 0, 8]), "0x0x8");
        assert_eq!(shape([0; 3]), "-");
    }

    #[test]
    fn a_table_says_what_is_known() {
        let models = Models::new();
        let cpu = models.kind("cpu");
        let info = TaskInfo { flops: 2e6, label: "fp32", shape: [100; 3], ..TaskInfo::default() };
        for _ in 0..11 {
            models.record(models.id("gemm", &info), cpu, info.flops, 120_000, Duration::from_micros(25));
        }
        let known = Known::of(&models, "/cache/models.json".into());
        let text = known.text(false);
        let words: Vec<&str> = text.lines().last().unwrap().split_whitespace().collect();
        assert_eq!(words, ["gemm", "cpu", "fp32", "100x100x100", "10", "25.0", "0.00", "history", "80.0"]);
        assert!(text.starts_with("models       1 known, in /cache/models.json\n"), "{text}");
    }
}
