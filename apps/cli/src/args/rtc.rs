//! Options of `zellige tor rtc`.

use clap::Args;

use super::paths::{Input, Output, OutputFile};
use super::{CudaDevices, Device};

pub(super) const RTC_HELP: &str = "\
Examples
  Latency of a reconstructor of 8 bits, one worker beside the sender:
    zellige tor build demo.toml --bits 8 -o R.npz
    zellige tor rtc R.npz --frames 1000000 --report rtc.html
  1000 frames per second over UDP, two workers:
    zellige tor rtc R.npz --workers 2 --rate 1000 --udp 0 --frames 60000";

/// Options of `tor rtc`.
#[derive(Debug, Args)]
pub struct RtcArgs {
    /// Reconstructor or command matrix: .npz or .fits of few bits (tor build --bits), or other
    /// .fits or .npy, which is multiplied in float32.
    #[arg(value_name = "R.npz")]
    pub rec: Input,
    /// Frames that count, after 100 first ones.
    #[arg(long, value_name = "N", default_value_t = 100_000, value_parser = clap::value_parser!(u64).range(1..=4_000_000_000))]
    pub frames: u64,
    /// Number of threads that multiply, each bound to a core; one more sends [default: one per core
    /// less one].
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u16).range(1..=1024))]
    pub workers: Option<u16>,
    /// Device that multiplies: cpu, or a GPU, e.g. cuda:0, for a reconstructor of few bits; the
    /// commands are the same.
    #[arg(long, value_name = "cpu|cuda:N", default_value = "cpu", value_parser = one_device)]
    pub device: Device,
    /// Frames per second [default: each is sent when the commands of the one before have come].
    #[arg(long, value_name = "HZ", value_parser = rate)]
    pub rate: Option<f64>,
    /// Send packets over UDP, to this port of the machine (0: any), instead of rings in memory.
    #[arg(long, value_name = "PORT")]
    pub udp: Option<u16>,
    /// Time in us from the first packet of a frame, after which the frame ends without the others.
    ///
    /// Slopes that are missing are those of the frame before. Such frames are counted, and are not
    /// in the histogram.
    #[arg(long, value_name = "US", default_value_t = 1000, value_parser = clap::value_parser!(u32).range(1..))]
    pub timeout_us: u32,
    /// Write the results as JSON; `-` is standard output.
    #[arg(long, value_name = "FILE|-", help_heading = "Results")]
    pub json: Option<Output>,
    /// Write an HTML page with a histogram of the latency.
    #[arg(long, value_name = "FILE.html", help_heading = "Results")]
    pub report: Option<OutputFile>,
}

fn one_device(text: &str) -> Result<Device, String> {
    let device = text.parse()?;
    match &device {
        Device::Cuda(CudaDevices { numbers, with_cpu })
            if *with_cpu || numbers.as_ref().is_none_or(|n| n.len() != 1) =>
        {
            Err("use cpu, or one GPU, e.g. cuda:0".into())
        }
        _ => Ok(device),
    }
}

fn rate(text: &str) -> Result<f64, String> {
    let parsed = text.parse::<f64>().ok().filter(|hz| (1e-3..=1e7).contains(hz));
    parsed.ok_or_else(|| "use a number of frames per second from 0.001 to 1e7, e.g. 1000".into())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn one_device_multiplies() {
        for good in ["cpu", "cuda:0", "cuda:3"] {
            assert_eq!(one_device(good).unwrap().to_string(), good);
        }
        for bad in ["cuda", "cuda:0,1", "cuda:0+cpu", "gpu"] {
            assert!(one_device(bad).is_err(), "{bad}");
        }
    }

    #[test]
    fn rates_are_positive() {
        assert_eq!(rate("500"), Ok(500.0));
        for bad in ["", "0", "-1", "nan", "inf", "1 kHz"] {
            assert!(rate(bad).is_err(), "{bad}");
        }
    }
}
