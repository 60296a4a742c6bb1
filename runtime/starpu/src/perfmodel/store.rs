//! The measurements of models, and their files.
//!
//! A file has one line for each table (a kind of device and an implementation), followed by a line
//! for each footprint and each sample of several parameters. It appears under its name when it is
//! complete.

use std::collections::BTreeMap;
use std::ffi::c_int;
use std::fmt::Write as _;
use std::path::{Path, PathBuf};
use std::{env, fs, io};

use super::fit::{Sums, power_and_constant};

/// The first line of a file; files with another one are not read.
const TITLE: &str = "zellige-starpu model 1";
/// The most samples of several parameters that a table keeps, the newest.
const SAMPLES: usize = 1024;

/// A device in the name of a table: kind, number, cores.
pub type Device = (u32, c_int, c_int);

/// Measurements of one footprint.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Line {
    pub size: usize,
    pub flops: f64,
    pub count: u32,
    pub errors: u32,
    pub sum: f64,
    pub sum2: f64,
    /// The first measurement has been set aside: caches were cold then.
    pub begun: bool,
}

impl Line {
    pub fn mean(&self) -> f64 {
        self.sum / f64::from(self.count)
    }

    /// The relative deviation.
    pub fn deviation(&self) -> f64 {
        let n = f64::from(self.count);
        (self.sum2 / n - self.mean().powi(2)).max(0.0).sqrt()
    }

    /// Adds `count` measurements, unless they are far from all earlier ones. Where such strangers
    /// become as many as those, it is the earlier ones that are forgotten.
    fn add(&mut self, time: f64, count: u32) -> bool {
        let most = f64::from(super::MAX_ERROR.get()) / 100.0;
        let n = f64::from(count);
        if self.count > 0 && (time - self.mean()).abs() > most * self.mean() {
            self.errors += count;
            if self.errors < self.count {
                return false;
            }
            *self = Line { size: self.size, flops: self.flops, begun: true, ..Line::default() };
        }
        self.count += count;
        self.sum += n * time;
        self.sum2 += n * time * time;
        true
    }
}

/// Measurements on one kind of device with one implementation.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Table {
    pub lines: BTreeMap<u32, Line>,
    pub sums: Sums,
    /// Products of parameters with their time as the last entry.
    pub samples: Vec<Vec<f64>>,
}

impl Table {
    /// Adds `count` measurements of a time in microseconds. Returns false if they were set aside.
    pub fn add(&mut self, footprint: u32, size: usize, flops: f64, time: f64, count: u32) -> bool {
        let line = self.lines.entry(footprint).or_default();
        (line.size, line.flops) = (size, flops);
        if !std::mem::replace(&mut line.begun, true) && count == 1 {
            return false;
        }
        if line.add(time, count) {
            self.sums.add(size, time, count);
            return true;
        }
        false
    }

    /// Adds a sample of several parameters.
    pub fn sample(&mut self, row: Vec<f64>) {
        if self.samples.len() == SAMPLES {
            self.samples.remove(0);
        }
        self.samples.push(row);
    }

    /// The mean of a footprint with at least `minimum` measurements.
    pub fn expected(&self, footprint: u32, minimum: u32) -> Option<f64> {
        let line = self.lines.get(&footprint)?;
        (line.count >= minimum.max(1)).then(|| line.mean())
    }

    /// a, b and c of `time = a size^b + c`, where enough sizes were measured.
    pub fn nonlinear(&self, minimum: u32) -> Option<(f64, f64, f64)> {
        if self.sums.count < minimum || !self.sums.spread() {
            return None;
        }
        let measured = self.lines.values().filter(|line| line.count > 0 && line.size > 0);
        power_and_constant(&measured.map(|line| (line.size as f64, line.mean())).collect::<Vec<_>>())
    }

    /// alpha and beta of `time = alpha size^beta`, where enough sizes were measured.
    pub fn linear(&self, minimum: u32) -> Option<(f64, f64)> {
        if self.sums.count < minimum || !self.sums.spread() { None } else { self.sums.power() }
    }
}

/// All tables of a model, by devices and implementation.
pub type Tables = BTreeMap<(Vec<Device>, u32), Table>;

/// The text of a file of these tables.
pub fn write(tables: &Tables) -> String {
    let mut text = format!("{TITLE}\n");
    for ((devices, implementation), table) in tables {
        let devices: Vec<String> = devices.iter().map(|d| format!("{}:{}:{}", d.0, d.1, d.2)).collect();
        let s = &table.sums;
        let _ = writeln!(
            text,
            "table {} {implementation} {} {:e} {:e} {:e} {:e} {} {}",
            devices.join(","),
            s.count,
            s.x,
            s.xx,
            s.y,
            s.xy,
            s.least,
            s.most
        );
        for (footprint, l) in &table.lines {
            let _ = writeln!(
                text,
                "footprint {footprint:08x} {} {:e} {} {} {:e} {:e}",
                l.size, l.flops, l.count, l.errors, l.sum, l.sum2
            );
        }
        for sample in &table.samples {
            text.push_str("sample");
            for value in sample {
                let _ = write!(text, " {value:e}");
            }
            text.push('\n');
        }
    }
    text
}

/// The tables of a file's text; `None` if it is no such file.
pub fn parse(text: &str) -> Option<Tables> {
    let mut lines = text.lines();
    if lines.next() != Some(TITLE) {
        return None;
    }
    let mut tables = Tables::new();
    let mut table: Option<&mut Table> = None;
    for line in lines {
        let words: Vec<&str> = line.split(' ').collect();
        match words[..] {
            ["table", devices, implementation, count, x, xx, y, xy, least, most] => {
                let devices: Option<Vec<Device>> = devices
                    .split(',')
                    .map(|device| {
                        let mut numbers = device.split(':');
                        let kind = numbers.next()?.parse().ok()?;
                        Some((kind, numbers.next()?.parse().ok()?, numbers.next()?.parse().ok()?))
                    })
                    .collect();
                let entry = tables.entry((devices?, implementation.parse().ok()?)).or_default();
                entry.sums = Sums {
                    count: count.parse().ok()?,
                    x: x.parse().ok()?,
                    xx: xx.parse().ok()?,
                    y: y.parse().ok()?,
                    xy: xy.parse().ok()?,
                    least: least.parse().ok()?,
                    most: most.parse().ok()?,
                };
                table = Some(entry);
            }
            ["footprint", footprint, size, flops, count, errors, sum, sum2] => {
                let line = Line {
                    size: size.parse().ok()?,
                    flops: flops.parse().ok()?,
                    count: count.parse().ok()?,
                    errors: errors.parse().ok()?,
                    sum: sum.parse().ok()?,
                    sum2: sum2.parse().ok()?,
                    begun: true,
                };
                table.as_mut()?.lines.insert(u32::from_str_radix(footprint, 16).ok()?, line);
            }
            ["sample", ref values @ ..] => {
                let values: Option<Vec<f64>> = values.iter().map(|value| value.parse().ok()).collect();
                table.as_mut()?.samples.push(values?);
            }
            _ => return None,
        }
    }
    Some(tables)
}

/// The folder of the files: `$STARPU_PERF_MODEL_DIR`, or zellige's cache, in `$STARPU_HOME` where
/// that is set.
pub fn folder() -> Option<PathBuf> {
    let variable = |name: &str| env::var_os(name).filter(|value| !value.is_empty()).map(PathBuf::from);
    if let Some(folder) = variable("STARPU_PERF_MODEL_DIR") {
        return Some(folder);
    }
    if let Some(home) = variable("STARPU_HOME") {
        return Some(home.join("zellige").join("starpu-models"));
    }
    let models = zellige_runtime::model::default_path().ok()?;
    Some(models.parent()?.join("starpu-models"))
}

/// The file of the model of a name on this host.
pub fn path(symbol: &str) -> Option<PathBuf> {
    let plain = |text: &str| -> String {
        text.chars().map(|c| if c.is_ascii_alphanumeric() || "-_.".contains(c) { c } else { '_' }).collect()
    };
    let host = env::var("STARPU_HOSTNAME").ok().or_else(|| {
        let name = fs::read_to_string("/proc/sys/kernel/hostname").ok()?;
        Some(name.trim().to_owned())
    });
    Some(folder()?.join(format!("{}.{}", plain(symbol), plain(&host.unwrap_or_else(|| "host".into())))))
}

/// Reads the file of a path: `Ok(None)` if there is none.
pub fn read(path: &Path) -> io::Result<Option<Tables>> {
    match fs::read_to_string(path) {
        Ok(text) => match parse(&text) {
            Some(tables) => Ok(Some(tables)),
            None => Err(io::Error::new(io::ErrorKind::InvalidData, "it is no file of performance models")),
        },
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(None),
        Err(error) => Err(error),
    }
}

/// Writes a file and the folders that it needs.
pub fn save(path: &Path, tables: &Tables) -> io::Result<()> {
    if let Some(folder) = path.parent() {
        fs::create_dir_all(folder)?;
    }
    let mut whole = path.as_os_str().to_owned();
    whole.push(format!(".{}", std::process::id()));
    let whole = PathBuf::from(whole);
    fs::write(&whole, write(tables))?;
    fs::rename(&whole, path)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_first_execution_is_set_aside_and_strangers_are_not_counted() {
        let mut table = Table::default();
        for time in [900.0, 100.0, 102.0, 98.0, 100.0] {
            table.add(7, 64, 1.0, time, 1);
        }
        let line = table.lines[&7];
        assert_eq!((line.count, line.errors), (4, 0));
        assert_eq!(table.expected(7, 4), Some(100.0));
        assert_eq!(table.expected(7, 5), None);
        table.add(7, 64, 1.0, 400.0, 1);
        assert_eq!((table.lines[&7].count, table.lines[&7].errors), (4, 1));
        for _ in 0..3 {
            table.add(7, 64, 1.0, 400.0, 1);
        }
        assert_eq!((table.lines[&7].count, table.lines[&7].mean()), (1, 400.0));
    }

    #[test]
    fn a_file_gives_back_what_was_written() {
        let mut tables = Tables::new();
        let table = tables.entry((vec![(0, 0, 1)], 1)).or_default();
        for size in [10, 1000, 100_000] {
            table.add(size as u32, size, 2.5, 0.1 * size as f64, 12);
        }
        table.sample(vec![1.0, 2e9, 0.125]);
        assert_eq!(parse(&write(&tables)), Some(tables.clone()));
        assert_eq!(parse("something else"), None);
        assert_eq!(parse(&format!("{}nonsense", write(&tables))), None);
        let (alpha, beta) = tables[&(vec![(0, 0, 1)], 1)].linear(10).unwrap();
        assert!((alpha - 0.1).abs() < 1e-6 && (beta - 1.0).abs() < 1e-6);
    }
}
