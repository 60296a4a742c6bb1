//! The loop as recorded tasks.
//!
//! Two frames are recorded, with wavefronts of their own, and replayed: the turbulence of a frame
//! is computed while the frame before is still measured.

use super::control::Controller;
use super::exposure::Exposure;
use super::simulation::Simulation;
use crate::pipeline::{Observer, PipelineError};
use std::sync::Arc;
use zellige_runtime::{Bindings, Handle, Runtime, Submit, read, update};

/// Frames that are submitted before this thread waits for them.
const AHEAD: u64 = 32;
/// Frames of a recording.
const RECORDED: u64 = 2;

type Vector = Handle<Vec<f64>>;

/// Data of a mirror.
struct MirrorData {
    /// Commands on the mirror.
    commands: Vector,
    controller: Handle<Controller>,
    /// Slopes of each star. Mirrors of an open loop share them.
    slopes: Vec<Vector>,
}

/// Buffers of one of the recorded frames.
struct FrameData {
    number: Handle<u64>,
    stars: Vec<Vector>,
    targets: Vec<Vector>,
}

impl Simulation {
    /// Simulates `frames` frames as tasks. If the observer asks for an end, the exposure so far is
    /// kept.
    ///
    /// # Errors
    /// A task failed.
    pub fn run(&mut self, rt: &Runtime, frames: u64, observer: &dyn Observer) -> Result<(), PipelineError> {
        observer.stage("frames", frames);
        let bench = Arc::clone(&self.bench);
        let zeros = |length: usize| rt.register(vec![0.0; length]);
        let of_stars = |length: &dyn Fn(usize) -> usize| -> Vec<Vector> {
            (0..bench.stars()).map(|star| zeros(length(star))).collect()
        };
        let shared = of_stars(&|star| bench.range(star).len());
        let mirrors: Vec<MirrorData> = self
            .controllers
            .drain(..)
            .zip(&self.mirrors)
            .map(|(controller, commands)| MirrorData {
                commands: rt.register(commands.clone()),
                controller: rt.register(controller),
                slopes: shared.clone(),
            })
            .collect();
        let exposures: Vec<Handle<Exposure>> = self.exposures.drain(..).map(|e| rt.register(e)).collect();
        let clock = rt.register(self.frame);
        let buffers: Vec<FrameData> = (0..RECORDED)
            .map(|_| FrameData {
                number: rt.register(0),
                stars: of_stars(&|star| bench.star_points(star)),
                targets: (0..bench.targets()).map(|_| zeros(bench.target_points())).collect(),
            })
            .collect();
        let record = |count: usize| {
            rt.record(|recorder| {
                buffers[..count]
                    .iter()
                    .try_for_each(|data| self.frame_tasks(recorder, &clock, data, &mirrors, &exposures))
            })
        };
        let (two, one) = (record(RECORDED as usize)?, record(1)?);
        let [of_two, of_one] = [&two, &one].map(Bindings::recorded);
        let mut done = 0;
        while done < frames && !observer.cancelled() {
            let batch = AHEAD.min(frames - done);
            for _ in 0..batch / RECORDED {
                rt.replay(&of_two)?;
            }
            if batch % RECORDED == 1 {
                rt.replay(&of_one)?;
            }
            rt.wait_all()?;
            done += batch;
            observer.advance(done);
        }
        drop((of_two, of_one, two, one));
        self.frame = rt.take(clock)?;
        self.exposures = exposures.into_iter().map(|e| rt.take(e)).collect::<Result<_, _>>()?;
        self.mirrors.clear();
        for data in mirrors {
            self.mirrors.push(rt.take(data.commands)?);
            self.controllers.push(rt.take(data.controller)?);
        }
        Ok(())
    }

    /// Submits the tasks of one frame.
    fn frame_tasks(
        &self,
        on: &impl Submit,
        clock: &Handle<u64>,
        data: &FrameData,
        mirrors: &[MirrorData],
        exposures: &[Handle<Exposure>],
    ) -> Result<(), zellige_runtime::Error> {
        on.task("frame")
            .operands((update(clock), update(&data.number)))
            .cpu(|(clock, number)| {
                *number = *clock;
                *clock += 1;
            })
            .submit()?;
        let trace = |name: &'static str, of: usize, is_star: bool, out: &Vector| {
            let bench = Arc::clone(&self.bench);
            on.task(name)
                .operands((read(&data.number), update(out)))
                .cpu(move |(frame, out)| match is_star {
                    true => bench.star_wavefront(of, *frame, out),
                    false => bench.target_wavefront(of, *frame, out),
                })
                .submit()
        };
        for (star, wavefront) in data.stars.iter().enumerate() {
            trace("star_wavefront", star, true, wavefront)?;
        }
        for (target, wavefront) in data.targets.iter().enumerate() {
            trace("target_wavefront", target, false, wavefront)?;
        }
        let Some(first) = mirrors.first() else { return Ok(()) };
        for (star, (wavefront, slopes)) in data.stars.iter().zip(&first.slopes).enumerate() {
            let bench = Arc::clone(&self.bench);
            on.task("sensor")
                .operands((read(&data.number), read(&first.commands), update(wavefront), update(slopes)))
                .cpu(move |(frame, commands, wavefront, slopes)| {
                    bench.measure(star, *frame, commands, wavefront, slopes);
                })
                .submit()?;
        }
        let immediate = self.bench.is_immediate();
        if !immediate {
            self.image_tasks(on, data, mirrors, exposures)?;
        }
        for mirror in mirrors {
            on.task("control")
                .operands((
                    mirror.slopes.iter().map(read).collect::<Vec<_>>(),
                    update(&mirror.controller),
                    update(&mirror.commands),
                ))
                .cpu(|(slopes, controller, commands)| {
                    let all: Vec<f64> = slopes.iter().flat_map(|s| s.iter().copied()).collect();
                    controller.step(&all, commands);
                })
                .submit()?;
        }
        if immediate {
            self.image_tasks(on, data, mirrors, exposures)?;
        }
        Ok(())
    }

    /// Submits the tasks that add a frame to the exposures.
    fn image_tasks(
        &self,
        on: &impl Submit,
        data: &FrameData,
        mirrors: &[MirrorData],
        exposures: &[Handle<Exposure>],
    ) -> Result<(), zellige_runtime::Error> {
        for (target, (wavefront, exposure)) in data.targets.iter().zip(exposures).enumerate() {
            let bench = Arc::clone(&self.bench);
            let mirror = if mirrors.len() == 1 { 0 } else { target };
            on.task("image")
                .operands((
                    read(&data.number),
                    read(&mirrors[mirror].commands),
                    update(wavefront),
                    update(exposure),
                ))
                .cpu(move |(frame, commands, wavefront, exposure)| {
                    bench.expose(*frame, commands, wavefront, exposure);
                })
                .submit()?;
        }
        Ok(())
    }
}
