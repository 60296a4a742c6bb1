//! Options of every verb that runs tasks on devices of the user's choice.

use std::fmt;
use std::path::PathBuf;
use std::str::FromStr;

use clap::Args;

use super::policy_names;

/// Explanation of the device options in `--help`.
pub(super) const DEVICES: &str = "\
Devices (--device): where tasks run
  cpu                CPU cores.
  cuda               All GPUs that the driver shows; CUDA_VISIBLE_DEVICES hides
                     some. GPUs run the tasks that have a GPU implementation
                     and fit; CPU workers (--workers) run the others.
  cuda:0,2           These GPUs, numbered as in `zellige machine show`.
  cuda+cpu, cuda:1+cpu
                     CPU workers also run tasks that GPUs can run, as --sched
                     decides. CPU and GPU round differently, so that results
                     depend on where a task runs.
  --device-memory 30%
                     Limit the tiles in the memory of each GPU to this amount;
                     other tiles stay in host memory.
  --logical-gpus 2   Split each GPU into two devices with half of the memory
                     each, to test several devices on one GPU.
  --host-memory 8GB  Limit the tiles in host memory to this amount; other tiles
                     go to a temporary file in the folder --swap.

If a requested device or library is missing, the command names it and ends with exit code 4.";

/// Workers, devices and memory of a run.
#[derive(Clone, Debug, Args)]
#[command(next_help_heading = "Execution")]
pub struct ExecutionArgs {
    /// Number of CPU worker threads [default: one per core].
    ///
    /// The default is one for each core that this process may use. The submitting thread is not
    /// counted.
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u16).range(1..))]
    pub workers: Option<u16>,
    /// Scheduling policy [default: lws; dmdas with GPUs].
    #[arg(long, value_name = "P", value_parser = policy_names(), hide_short_help = true)]
    pub sched: Option<String>,
    /// Devices: cpu, cuda, cuda:0,2, cuda+cpu.
    ///
    /// They run the tasks; see "Devices" below.
    #[arg(long, value_name = "DEVICE", default_value = "cpu")]
    pub device: Device,
    /// Memory of each GPU for tiles, e.g. 20GB, 512MiB or 30%.
    ///
    /// The default is the free memory less 5 %.
    #[arg(long, value_name = "BYTES|P%", hide_short_help = true)]
    pub device_memory: Option<MemorySize>,
    /// Split each GPU into this number of devices, each with an equal part of the memory.
    #[arg(long, value_name = "K", value_parser = clap::value_parser!(u16).range(1..=16), hide_short_help = true)]
    pub logical_gpus: Option<u16>,
    /// Host memory for tiles, e.g. 8GB or 50%; the rest goes to a swap file.
    ///
    /// There is no limit by default.
    #[arg(long, value_name = "BYTES|P%", hide_short_help = true)]
    pub host_memory: Option<MemorySize>,
    /// Folder of the swap file [default: the temporary folder].
    ///
    /// A local disk is best.
    #[arg(long, value_name = "FOLDER", requires = "host_memory", hide_short_help = true)]
    pub swap: Option<PathBuf>,
    /// Print the memory use and the transfers of each memory node on standard error.
    #[arg(long, hide_short_help = true)]
    pub stats: bool,
}

impl ExecutionArgs {
    /// Returns the options of a run on CPU workers, by default one per core.
    pub fn on_cpu(workers: Option<u16>) -> Self {
        ExecutionArgs {
            workers,
            sched: None,
            device: Device::Cpu,
            device_memory: None,
            logical_gpus: None,
            host_memory: None,
            swap: None,
            stats: false,
        }
    }
}

/// Devices that run tasks; see [`ExecutionArgs::device`].
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Device {
    /// CPU cores.
    Cpu,
    /// NVIDIA GPUs.
    Cuda(CudaDevices),
}

/// Selection of GPUs, and whether CPU workers share their tasks.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct CudaDevices {
    /// Numbers that the driver gives them; `None`: all.
    pub numbers: Option<Vec<u32>>,
    /// Whether CPU workers also run tasks that GPUs can run.
    pub with_cpu: bool,
}

impl FromStr for Device {
    type Err = String;

    fn from_str(text: &str) -> Result<Device, String> {
        if text == "cpu" {
            return Ok(Device::Cpu);
        }
        let (cuda, with_cpu) = text.strip_suffix("+cpu").map_or((text, false), |cuda| (cuda, true));
        let numbers = match cuda.strip_prefix("cuda") {
            Some("") => None,
            Some(list) => Some(numbers(list.strip_prefix(':').ok_or_else(wanted)?)?),
            None => return Err(wanted()),
        };
        Ok(Device::Cuda(CudaDevices { numbers, with_cpu }))
    }
}

fn wanted() -> String {
    "use cpu, cuda, or numbers of GPUs as in cuda:0,2; with +cpu after cuda, CPU workers also run GPU tasks"
        .into()
}

fn numbers(list: &str) -> Result<Vec<u32>, String> {
    let mut numbers = Vec::new();
    for word in list.split(',') {
        let number: u32 = word.trim().parse().map_err(|_| wanted())?;
        if numbers.contains(&number) {
            return Err(format!("GPU {number} is named twice; --logical-gpus splits each GPU into several"));
        }
        numbers.push(number);
    }
    Ok(numbers)
}

impl fmt::Display for Device {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Device::Cuda(CudaDevices { numbers, with_cpu }) = self else { return f.write_str("cpu") };
        f.write_str("cuda")?;
        for (at, number) in numbers.iter().flatten().enumerate() {
            write!(f, "{}{number}", if at == 0 { ':' } else { ',' })?;
        }
        f.write_str(if *with_cpu { "+cpu" } else { "" })
    }
}

/// Amount of memory, absolute or relative; see [`ExecutionArgs::device_memory`].
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum MemorySize {
    /// Number of bytes.
    Bytes(u64),
    /// Fraction of the total memory, above 0 and at most 1.
    Share(f64),
}

impl MemorySize {
    /// Returns the amount in bytes, for a memory of `total` bytes.
    pub fn of(self, total: u64) -> u64 {
        match self {
            MemorySize::Bytes(bytes) => bytes,
            MemorySize::Share(share) => (total as f64 * share) as u64,
        }
    }
}

/// Upper limit of an amount in bytes, larger than any memory.
const MOST_BYTES: f64 = 1e18;

impl FromStr for MemorySize {
    type Err = String;

    fn from_str(text: &str) -> Result<MemorySize, String> {
        let wanted =
            || "use bytes as in 20GB, 512MiB or 3e9, or a percentage above 0 and at most 100%".to_string();
        let text = text.trim();
        // The unit follows the last digit: the e of 3e9 is part of the number.
        let unit = text.rfind(|c: char| c.is_ascii_digit() || c == '.').map_or(0, |at| at + 1);
        let (number, unit) = text.split_at(unit);
        let number = number.trim().parse::<f64>().ok().filter(|x| *x > 0.0).ok_or_else(wanted)?;
        let scale = match unit.trim().to_ascii_lowercase().as_str() {
            "%" if number <= 100.0 => return Ok(MemorySize::Share(number / 100.0)),
            "" | "b" => 1.0,
            "kb" => 1e3,
            "mb" => 1e6,
            "gb" => 1e9,
            "tb" => 1e12,
            "kib" => f64::from(1 << 10),
            "mib" => f64::from(1 << 20),
            "gib" => f64::from(1 << 30),
            "tib" => f64::from(1 << 30) * f64::from(1 << 10),
            _ => return Err(wanted()),
        };
        let bytes = number * scale;
        if (1.0..=MOST_BYTES).contains(&bytes) { Ok(MemorySize::Bytes(bytes as u64)) } else { Err(wanted()) }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn cuda(numbers: Option<&[u32]>, with_cpu: bool) -> Device {
        Device::Cuda(CudaDevices { numbers: numbers.map(<[u32]>::to_vec), with_cpu })
    }

    #[test]
    fn devices_are_written_as_they_are_read() {
        for (text, device) in [
            ("cpu", Device::Cpu),
            ("cuda", cuda(None, false)),
            ("cuda:0", cuda(Some(&[0]), false)),
            ("cuda:3,0,12", cuda(Some(&[3, 0, 12]), false)),
            ("cuda+cpu", cuda(None, true)),
            ("cuda:1,2+cpu", cuda(Some(&[1, 2]), true)),
        ] {
            assert_eq!(text.parse::<Device>().as_ref(), Ok(&device));
            assert_eq!(device.to_string(), text);
        }
        assert_eq!("cuda:0, 2".parse::<Device>(), Ok(cuda(Some(&[0, 2]), false)));
    }

    #[test]
    fn other_devices_are_refused_with_what_may_stand_there() {
        for text in [
            "",
            "abacus",
            "CUDA",
            "gpu",
            "cpu+cuda",
            "cpu:0",
            "cuda:",
            "cuda0",
            "cuda:a",
            "cuda:-1",
            "cuda:0,",
            "cuda:0;1",
            "cuda:1.0",
            "cuda:99999999999",
            "cuda+",
            "cuda+gpu",
        ] {
            let error = text.parse::<Device>().expect_err(text);
            assert!(error.contains("cuda:0,2"), "{text}: {error}");
        }
        let twice = "cuda:1,1".parse::<Device>().unwrap_err();
        assert!(twice.contains("GPU 1 is named twice") && twice.contains("--logical-gpus"), "{twice}");
    }

    #[test]
    fn memory_is_bytes_or_a_share() {
        for (text, bytes) in [
            ("4096", 4096),
            ("1B", 1),
            ("20GB", 20_000_000_000),
            ("1.5 GiB", 3 << 29),
            ("512mib", 512 << 20),
            ("64KiB", 64 << 10),
            ("2kb", 2000),
            ("3e9", 3_000_000_000),
            ("1MB", 1_000_000),
            ("1TiB", 1 << 40),
            ("1TB", 1_000_000_000_000),
        ] {
            assert_eq!(text.parse(), Ok(MemorySize::Bytes(bytes)), "{text}");
        }
        assert_eq!("30%".parse(), Ok(MemorySize::Share(0.3)));
        assert_eq!("12.5 %".parse(), Ok(MemorySize::Share(0.125)));
        for text in [
            "",
            "%",
            "0%",
            "101%",
            "-5%",
            "nan",
            "inf",
            "0",
            "0.5",
            "-1GB",
            "GB",
            "20G",
            "20 apples",
            "1e30",
            "1e30GB",
            "1GB2",
        ] {
            assert!(text.parse::<MemorySize>().is_err(), "{text}");
        }
    }
}
