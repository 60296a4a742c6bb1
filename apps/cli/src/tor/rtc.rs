//! `zellige tor rtc`.

use zellige_tor::report;
use zellige_tor::rtc::{GpuPlace, Packed, RtcSetting, run};

use crate::args::{CudaDevices, Device, RtcArgs};
use crate::exit::CommandError;
use crate::results::{is_stdout, write_json, write_page};
use crate::{devices, interrupt, out};

/// Multiplies frames of slopes in real time. Ctrl-C ends them, and those so far are the result.
///
/// # Errors
/// A GPU that is not there, a file that is no reconstructor, a port in use, outputs that cannot be
/// written, Ctrl-C.
pub fn rtc(args: &RtcArgs) -> anyhow::Result<()> {
    let gpu = place(args)?;
    let matrix = Packed::read(&args.rec)?;
    let setting = RtcSetting {
        frames: args.frames,
        workers: if gpu.is_some() { 1 } else { args.workers.map_or_else(beside_the_sender, usize::from) },
        rate_hz: args.rate,
        udp_port: args.udp,
        timeout_us: args.timeout_us.into(),
    };
    let name = args.rec.display().to_string();
    interrupt::keeps();
    let result = run(&name, matrix, gpu.as_ref(), &setting, true, &interrupt::seen)?;
    if result.frames == 0 {
        interrupt::check()?;
    }
    if let Some(report) = &args.report {
        write_page(report, report::rtc::page(&format!("Frames of {name}"), &result))?;
    }
    write_json(args.json.as_ref(), &[&result])?;
    if !is_stdout(args.json.as_ref()) {
        out::print(&report::rtc::text(&result, out::colours(&std::io::stdout())))?;
    }
    match interrupt::seen() {
        true => {
            let done = format!("the results are of {} of {} frames", result.frames, args.frames);
            Err(CommandError::Kept(done).into())
        }
        false => Ok(()),
    }
}

/// Returns the GPU that is to multiply, if one is.
fn place(args: &RtcArgs) -> Result<Option<GpuPlace>, CommandError> {
    let Device::Cuda(CudaDevices { numbers: Some(numbers), .. }) = &args.device else { return Ok(None) };
    if args.workers.is_some() {
        return Err(CommandError::option(
            "--workers",
            "leave it out: with --device cuda:N the GPU multiplies",
        ));
    }
    let number = numbers[0];
    Ok(Some(GpuPlace { driver: devices::one(number, &[])?, number }))
}

/// Returns the number of workers that leave the sender a core.
fn beside_the_sender() -> usize {
    std::thread::available_parallelism().map_or(1, |cores| (cores.get() - 1).max(1))
}
