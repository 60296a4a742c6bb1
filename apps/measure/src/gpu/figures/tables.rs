//! The figures as tables.

use super::super::{reconstructors, sparse, summary::summary};
use super::{Conditions, Figures, GpuFigures, Latencies, ReplayTimes};
use zellige_app::table::{Side, Table};
use zellige_app::text::{bytes, digits};

/// Columns of a table for [`Conditions::cells`].
const CONDITIONS: [(&str, Side); 2] = [("MHz", Side::Right), ("W", Side::Right)];

impl Figures {
    /// Returns the tables, and lines for missing measurements.
    pub fn text(&self, colours: bool) -> String {
        let GpuFigures { number, name, .. } = &self.gpu;
        let mut text =
            format!("GPU {number}: {name}, tile {}, median of {}\n", self.tile, self.repeats.max(1));
        let tables = [
            self.product_table(),
            self.routine_table(),
            self.factor_table(),
            self.memory_table(),
            self.with_cpu_table(),
            self.several_table(),
            self.sparse_table(),
            self.tor_table(),
        ];
        for table in tables {
            text += &table.render(colours);
            text.push('\n');
        }
        if let Some(copies) = &self.copies {
            let [to_gpu, to_host, within] =
                [copies.to_gpu, copies.to_host, copies.within].map(|rate| digits(rate / 1e9));
            text += &format!(
                "copies of {}: {to_gpu} GB/s to the GPU, {to_host} GB/s back, {within} GB/s within it\n",
                bytes(copies.bytes as u64)
            );
        }
        if let Some(Latencies { launch_seconds, blocking_seconds, spinning_seconds }) = &self.latencies {
            let [launch, blocking, spinning] =
                [launch_seconds, blocking_seconds, spinning_seconds].map(|seconds| digits(seconds * 1e6));
            text += &format!(
                "host: {launch} us to launch, {blocking} us to detect an end, {spinning} us if it spins\n"
            );
        }
        self.left_out.iter().for_each(|line| text += &format!("left out: {line}\n"));
        if let Some(ReplayTimes { tasks, task_by_task_seconds, one_launch_seconds }) = &self.replays {
            let ns = |seconds: f64| digits(seconds * 1e9);
            let one = one_launch_seconds
                .map_or("not possible".into(), |seconds| format!("{} ns a task", ns(seconds)));
            text += &format!(
                "replays of {tasks} tasks: task by task {} ns a task, in one launch {one}\n",
                ns(*task_by_task_seconds)
            );
        }
        self.failed.iter().for_each(|line| text += &format!("FAILED: {line}\n"));
        if let Some(summary) = summary(self) {
            text += &format!("\n{}", summary.render(colours));
        }
        text
    }

    fn product_table(&self) -> Table {
        let columns = [
            ("product", Side::Left),
            ("Tflop/s", Side::Right),
            ("plain", Side::Right),
            ("fraction", Side::Right),
            ("peak", Side::Right),
            ("of peak", Side::Right),
        ];
        let mut table = with_conditions(&columns);
        for row in &self.products {
            let rate = &row.rate;
            let rates =
                [rate.tflops, rate.plain_tflops, rate.fraction, row.peak_tflops, row.fraction_of_peak];
            let cells = [rate.precision.to_string()].into_iter().chain(rates.map(digits));
            table.row(cells.chain(rate.conditions.cells()));
        }
        table
    }

    fn routine_table(&self) -> Table {
        let columns =
            [("routine", Side::Left), ("order", Side::Right), ("us", Side::Right), ("Tflop/s", Side::Right)];
        let mut table = Table::new(&columns);
        for row in &self.routines {
            let name = format!("{:?}", row.routine);
            table.row([name, row.order.to_string(), digits(row.seconds * 1e6), digits(row.tflops)]);
        }
        table
    }

    fn factor_table(&self) -> Table {
        let columns = [
            ("n", Side::Right),
            ("Cholesky", Side::Left),
            ("s", Side::Right),
            ("Tflop/s", Side::Right),
            ("of limit", Side::Right),
            ("x cuSOLVER f32", Side::Right),
            ("idle", Side::Right),
            ("x bound", Side::Right),
            ("predicted", Side::Right),
        ];
        let mut table = with_conditions(&columns);
        for size in &self.cholesky {
            let mut row = |what: &str, rates: [f64; 2], ratios: [Option<f64>; 5], conditions: &Conditions| {
                let ratios = ratios.map(|ratio| ratio.map_or_else(String::new, digits));
                let cells =
                    [size.n.to_string(), what.into()].into_iter().chain(rates.map(digits)).chain(ratios);
                table.row(cells.chain(conditions.cells()));
            };
            for (what, whole) in [("cuSOLVER f32", &size.cusolver_f32), ("cuSOLVER f64", &size.cusolver_f64)]
            {
                if let Some(whole) = whole {
                    row(what, [whole.seconds, whole.tflops], [None; 5], &whole.conditions);
                }
            }
            for tiled in &size.tiled {
                let of_trace = [Some(tiled.idle_share), Some(tiled.over_bound)];
                let [limit, x, predicted] =
                    [tiled.fraction_of_limit, tiled.x_cusolver_f32, tiled.predicted_by_measured];
                let ratios = [limit, x, of_trace[0], of_trace[1], predicted];
                row(&tiled.rule, [tiled.seconds, tiled.tflops], ratios, &tiled.conditions);
            }
        }
        table
    }

    fn memory_table(&self) -> Table {
        let columns = [
            ("memory", Side::Left),
            ("devices", Side::Right),
            ("of each", Side::Right),
            ("s", Side::Right),
            ("Tflop/s", Side::Right),
            ("of limit", Side::Right),
            ("moved", Side::Right),
            ("evictions", Side::Right),
        ];
        let mut table = with_conditions(&columns);
        for row in &self.memory {
            let cells = [
                row.what.clone(),
                row.devices.to_string(),
                bytes(row.memory_each),
                digits(row.seconds),
                digits(row.tflops),
                row.fraction_of_limit.map_or_else(String::new, digits),
                bytes(row.bytes_moved),
                row.evictions.to_string(),
            ];
            table.row(cells.into_iter().chain(row.conditions.cells()));
        }
        table
    }

    fn with_cpu_table(&self) -> Table {
        let columns = [
            ("n", Side::Right),
            ("CPU and GPU", Side::Left),
            ("CPU workers", Side::Right),
            ("GPU alone s", Side::Right),
            ("with CPU s", Side::Right),
            ("ratio", Side::Right),
        ];
        let mut table = with_conditions(&columns);
        for row in &self.with_cpu {
            let names = [row.n.to_string(), row.rule.into(), row.workers.to_string()];
            let figures = [row.alone_seconds, row.with_cpu_seconds, row.ratio].map(digits);
            table.row(names.into_iter().chain(figures).chain(row.conditions.cells()));
        }
        table
    }

    fn several_table(&self) -> Table {
        let columns = [
            ("n", Side::Right),
            ("several GPUs", Side::Left),
            ("GPUs", Side::Right),
            ("s", Side::Right),
            ("Tflop/s", Side::Right),
            ("x one", Side::Right),
            ("idle", Side::Right),
            ("moved", Side::Right),
        ];
        let mut table = with_conditions(&columns);
        for row in &self.several {
            let cells = [
                row.n.to_string(),
                row.rule.into(),
                row.gpus.to_string(),
                digits(row.seconds),
                digits(row.tflops),
                row.x_one.map_or_else(String::new, digits),
                digits(row.idle_share),
                bytes(row.bytes_moved),
            ];
            table.row(cells.into_iter().chain(row.conditions.cells()));
        }
        table
    }

    fn sparse_table(&self) -> Table {
        let mut table = with_conditions(&sparse::COLUMNS);
        self.sparse.iter().for_each(|row| table.row(row.cells()));
        table
    }

    fn tor_table(&self) -> Table {
        let mut table = with_conditions(&reconstructors::COLUMNS);
        self.tor.iter().for_each(|row| table.row(row.cells()));
        table
    }
}

/// A table whose last columns are clock rate and power.
fn with_conditions(columns: &[(&'static str, Side)]) -> Table {
    Table::new(&[columns, &CONDITIONS].concat())
}
