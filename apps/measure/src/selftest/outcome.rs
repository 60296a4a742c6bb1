//! Results of the checks of a GPU.

use schemars::JsonSchema;
use serde::Serialize;
use zellige_app::table::{Side, Table};
use zellige_app::text::bytes;

use super::kernels::{KernelCheck, Unfinished};

/// Results of the checks of one GPU.
#[derive(Debug, Serialize, JsonSchema)]
pub struct GpuReport {
    /// Number of the GPU.
    pub number: u32,
    /// Name of the GPU.
    pub name: String,
    /// Kernels in each precision.
    pub kernels: Vec<KernelRow>,
    /// Precision rules on the check system.
    pub rules: Vec<RuleRow>,
    /// Factorisations in much and in little memory.
    pub factors: Vec<FactorRow>,
    /// Injected faults.
    pub faults: Vec<FaultRow>,
    /// Time (s).
    pub seconds: f64,
}

/// Number of [`KernelRow`]s: conversions, products, updates and solves, factorisations.
pub const CHECKS: u64 = 4 + 9 + 8 + 2;

/// A kernel in one precision; `error` and `apart` are parts of their bounds.
#[derive(Debug, Serialize, JsonSchema)]
pub struct KernelRow {
    /// The codelet, `convert`, or the task of an application.
    pub kernel: &'static str,
    /// Name of the precision, or of the target format.
    pub precision: &'static str,
    /// Number of tiles, products or answers that were checked.
    pub tiles: usize,
    /// The largest error against float64.
    pub error: f64,
    /// The largest difference from the CPU.
    pub apart: f64,
    /// True if the check passed.
    pub passed: bool,
    /// Reason why nothing was checked; `null` if it was.
    pub skipped: Option<String>,
    /// Reason why the check did not finish; `null` if it did.
    pub failed: Option<String>,
}

/// Returns the text for a check that needs a compute capability that a GPU, which `has` a lower
/// one, lacks.
pub fn skipped(needed: (u32, u32), has: (u32, u32)) -> String {
    format!("needs {}.{}, this GPU is {}.{}", needed.0, needed.1, has.0, has.1)
}

impl KernelRow {
    /// Creates a row for a failure before any check.
    pub fn none(failed: String) -> Self {
        KernelRow {
            kernel: "runtime",
            precision: "",
            tiles: 0,
            error: f64::NAN,
            apart: f64::NAN,
            passed: false,
            skipped: None,
            failed: Some(failed),
        }
    }

    /// Creates the row of a check on a GPU of this compute capability.
    pub fn new(check: &KernelCheck, capability: (u32, u32)) -> Self {
        let &KernelCheck { kernel, precision, tiles, error, apart, .. } = check;
        let (skipped, failed) = match &check.unfinished {
            None => (None, None),
            Some(Unfinished::Needs(needed)) => (Some(skipped(*needed, capability)), None),
            Some(Unfinished::Failed(why)) => (None, Some(why.clone())),
        };
        KernelRow { kernel, precision, tiles, error, apart, passed: check.passed(), skipped, failed }
    }
}

/// A precision rule on the check system: its Strehl ratio, or none if it lost definiteness.
#[derive(Debug, Serialize, JsonSchema)]
pub struct RuleRow {
    /// The rule.
    pub rule: String,
    /// Strehl ratio on CPU workers; `null` if definiteness was lost.
    pub strehl_cpu: Option<f64>,
    /// Strehl ratio on the GPU; `null` if definiteness was lost.
    pub strehl_gpu: Option<f64>,
    /// True if the check passed.
    pub passed: bool,
    /// Reason why it did not run; `null` if it did.
    pub skipped: Option<String>,
    /// Reason why it did not finish; `null` if it did.
    pub failed: Option<String>,
}

impl RuleRow {
    /// Creates a row without results.
    pub fn new(rule: &str) -> Self {
        RuleRow {
            rule: rule.into(),
            strehl_cpu: None,
            strehl_gpu: None,
            passed: true,
            skipped: None,
            failed: None,
        }
    }
}

/// A factorisation; the first row is the one that the others must repeat bit by bit.
#[derive(Clone, Debug, Serialize, JsonSchema)]
pub struct FactorRow {
    /// Description of the case.
    pub what: String,
    /// GPUs, or parts of one.
    pub devices: usize,
    /// Bytes of each device's memory.
    pub memory: u64,
    /// Time (s).
    pub seconds: f64,
    /// Estimated `|A - L L^T| / |A|`.
    pub backward_error: f64,
    /// Bytes that were transferred to any memory.
    pub bytes_moved: u64,
    /// Number of evicted replicas.
    pub evictions: u64,
    /// True if the check passed.
    pub passed: bool,
    /// Reason why it did not finish; `null` if it did.
    pub failed: Option<String>,
}

impl FactorRow {
    /// Creates a row without results.
    pub fn new(what: &str, devices: usize, memory: u64) -> Self {
        FactorRow {
            what: what.into(),
            devices,
            memory,
            seconds: f64::NAN,
            backward_error: f64::NAN,
            bytes_moved: 0,
            evictions: 0,
            passed: false,
            failed: None,
        }
    }
}

/// An injected fault and its message.
#[derive(Debug, Serialize, JsonSchema)]
pub struct FaultRow {
    /// Description of the fault.
    pub what: &'static str,
    /// The message.
    pub said: String,
    /// True if the check passed.
    pub passed: bool,
}

impl GpuReport {
    /// Returns the number of failed checks.
    pub fn failures(&self) -> usize {
        let rows = self.kernels.iter().map(|row| row.passed);
        let rows = rows.chain(self.rules.iter().map(|row| row.passed));
        let rows = rows.chain(self.factors.iter().map(|row| row.passed));
        rows.chain(self.faults.iter().map(|row| row.passed)).filter(|passed| !passed).count()
    }

    /// Returns true if no check failed.
    pub fn passed(&self) -> bool {
        self.failures() == 0
    }

    /// Formats the results as tables.
    pub fn text(&self, colours: bool) -> String {
        let mut text = format!("GPU {}: {}\n", self.number, self.name);
        for table in [self.kernel_table(), self.rule_table(), factor_table(&self.factors), self.fault_table()]
        {
            text += &table.render(colours);
            text.push('\n');
        }
        text += &format!("{} checks failed; {:.0} s\n\n", self.failures(), self.seconds);
        text
    }

    fn kernel_table(&self) -> Table {
        let columns = [
            ("kernel", Side::Left),
            ("precision", Side::Left),
            ("tiles", Side::Right),
            ("error / bound", Side::Right),
            ("from CPU / bound", Side::Right),
            ("", Side::Left),
        ];
        let mut table = Table::new(&columns);
        for row in &self.kernels {
            let parts = [format!("{:.3}", row.error), format!("{:.3}", row.apart)];
            let [error, apart] = parts;
            let names = [row.kernel.into(), row.precision.into(), row.tiles.to_string()];
            table.row(names.into_iter().chain([
                error,
                apart,
                verdict(row.passed, &row.skipped, &row.failed),
            ]));
        }
        table
    }

    fn rule_table(&self) -> Table {
        let columns = [
            ("rule (n = 912)", Side::Left),
            ("Strehl, CPU", Side::Right),
            ("GPU", Side::Right),
            ("", Side::Left),
        ];
        let mut table = Table::new(&columns);
        for row in &self.rules {
            let ran = row.skipped.is_none() && row.failed.is_none();
            let lost = if ran { "lost" } else { "" };
            let strehl = |x: Option<f64>| x.map_or(lost.into(), |x| format!("{x:.6}"));
            table.row([
                row.rule.clone(),
                strehl(row.strehl_cpu),
                strehl(row.strehl_gpu),
                verdict(row.passed, &row.skipped, &row.failed),
            ]);
        }
        table
    }

    fn fault_table(&self) -> Table {
        let mut table = Table::new(&[("on purpose", Side::Left), ("said", Side::Left), ("", Side::Left)]);
        for row in &self.faults {
            table.row([row.what.into(), row.said.clone(), verdict(row.passed, &None, &None)]);
        }
        table
    }
}

/// A row for each kernel of CPU workers.
pub fn kernel_table(rows: &[KernelRow]) -> Table {
    let mut table = Table::new(&[
        ("kernel (CPU)", Side::Left),
        ("precision", Side::Left),
        ("tiles", Side::Right),
        ("error / bound", Side::Right),
        ("", Side::Left),
    ]);
    for row in rows {
        let names = [row.kernel.into(), row.precision.into(), row.tiles.to_string()];
        let said = verdict(row.passed, &row.skipped, &row.failed);
        table.row(names.into_iter().chain([format!("{:.3}", row.error), said]));
    }
    table
}

/// A row for each factorisation.
pub fn factor_table(rows: &[FactorRow]) -> Table {
    let columns = [
        ("factorisation", Side::Left),
        ("devices", Side::Right),
        ("memory of each", Side::Right),
        ("s", Side::Right),
        ("backward error", Side::Right),
        ("moved", Side::Right),
        ("evictions", Side::Right),
        ("", Side::Left),
    ];
    let mut table = Table::new(&columns);
    for row in rows {
        table.row([
            row.what.clone(),
            row.devices.to_string(),
            bytes(row.memory),
            format!("{:.3}", row.seconds),
            format!("{:.1e}", row.backward_error),
            bytes(row.bytes_moved),
            row.evictions.to_string(),
            verdict(row.passed, &None, &row.failed),
        ]);
    }
    table
}

/// Returns the text at the end of a row.
pub fn verdict(passed: bool, skipped: &Option<String>, failed: &Option<String>) -> String {
    match (skipped, failed) {
        (Some(why), _) => format!("skipped: {why}"),
        (_, Some(why)) => format!("FAILED: {why}"),
        _ if passed => "ok".into(),
        _ => "FAILED".into(),
    }
}
