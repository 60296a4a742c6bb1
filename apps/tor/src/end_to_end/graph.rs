//! The loop as recorded tasks.
//!
//! Two frames are recorded, with wavefronts of their own, and replayed: the turbulence of a frame
//! is computed while the frame before is still measured.

use super::control::Controller;
use super::exposure::Exposure;
use super::simulation::{Simulation, mirror_of};
use super::stages::Stage;
use super::telemetry::Recorder;
use crate::pipeline::{Observer, PipelineError};
use std::sync::Arc;
use std::time::{Duration, Instant};
use zellige_runtime::{Bindings, Data, Handle, Meta, Runtime, Submit, read, update};

/// Most frames that are submitted before this thread waits for them.
const AHEAD: u64 = 32;
/// Time after which this thread looks whether an end is asked for. Frames that take longer are
/// submitted in smaller numbers.
const PATIENCE: Duration = Duration::from_millis(200);
/// Frames of a recording.
const RECORDED: u64 = 2;

type Vector = Handle<Vec<f64>>;

/// A value that tasks use as a whole.
struct Whole<T>(T);

impl<T: Send + Sync + 'static> Data for Whole<T> {
    type Ref<'v> = &'v T;
    type Mut<'v> = &'v mut T;

    fn view(&self) -> &T {
        &self.0
    }

    fn view_mut(&mut self) -> &mut T {
        &mut self.0
    }

    fn meta(&self) -> Meta {
        Meta { bytes: size_of::<T>(), ..Meta::default() }
    }
}

/// Data that last from frame to frame.
struct LoopData {
    /// Number of the next frame.
    clock: Handle<u64>,
    /// Slopes of each star.
    slopes: Vec<Vector>,
    mirrors: Vec<MirrorData>,
    exposures: Vec<Handle<Whole<Exposure>>>,
    telemetry: Option<Handle<Whole<Recorder>>>,
}

/// Commands on a mirror, and their controller.
struct MirrorData {
    commands: Vector,
    controller: Handle<Whole<Controller>>,
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
        let setup = Arc::clone(&self.setup);
        let zeros = |length: usize| rt.register(vec![0.0; length]);
        let of_stars = |length: &dyn Fn(usize) -> usize| -> Vec<Vector> {
            (0..setup.stars()).map(|star| zeros(length(star))).collect()
        };
        let mirror = |(controller, commands): (Controller, &Vec<f64>)| MirrorData {
            commands: rt.register(commands.clone()),
            controller: rt.register(Whole(controller)),
        };
        let data = LoopData {
            clock: rt.register(self.frame),
            slopes: of_stars(&|star| setup.range(star).len()),
            mirrors: self.controllers.drain(..).zip(&self.mirrors).map(mirror).collect(),
            exposures: self.exposures.drain(..).map(|e| rt.register(Whole(e))).collect(),
            telemetry: self.telemetry.clone().map(|t| rt.register(Whole(t))),
        };
        let buffers: Vec<FrameData> = (0..RECORDED)
            .map(|_| FrameData {
                number: rt.register(0),
                stars: of_stars(&|star| setup.star_points(star)),
                targets: (0..setup.targets()).map(|_| zeros(setup.target_points())).collect(),
            })
            .collect();
        let record = |count: usize| {
            rt.record(|recorder| {
                buffers[..count].iter().try_for_each(|frame| self.frame_tasks(recorder, &data, frame))
            })
        };
        let (two, one) = (record(RECORDED as usize)?, record(1)?);
        let [of_two, of_one] = [&two, &one].map(Bindings::recorded);
        let (mut done, mut ahead) = (0, 2 * RECORDED);
        while done < frames && !observer.cancelled() {
            let start = Instant::now();
            let batch = ahead.min(frames - done);
            for _ in 0..batch / RECORDED {
                rt.replay(&of_two)?;
            }
            if batch % RECORDED == 1 {
                rt.replay(&of_one)?;
            }
            rt.wait_all()?;
            done += batch;
            ahead =
                if start.elapsed() < PATIENCE { (2 * ahead).min(AHEAD) } else { (ahead / 2).max(RECORDED) };
            observer.advance(done);
        }
        drop((of_two, of_one, two, one));
        self.frame = rt.take(data.clock)?;
        for exposure in data.exposures {
            self.exposures.push(rt.take(exposure)?.0);
        }
        self.mirrors.clear();
        for mirror in data.mirrors {
            self.mirrors.push(rt.take(mirror.commands)?);
            self.controllers.push(rt.take(mirror.controller)?.0);
        }
        Ok(())
    }

    /// Submits the tasks of one frame.
    fn frame_tasks(
        &self,
        on: &impl Submit,
        data: &LoopData,
        frame: &FrameData,
    ) -> Result<(), zellige_runtime::Error> {
        on.task("frame")
            .operands((update(&data.clock), update(&frame.number)))
            .cpu(|(clock, number)| {
                *number = *clock;
                *clock += 1;
            })
            .submit()?;
        for (star, wavefront) in frame.stars.iter().enumerate() {
            let (setup, clock) = (Arc::clone(&self.setup), self.clock.clone());
            on.task("star_wavefront")
                .operands((read(&frame.number), update(wavefront)))
                .cpu(move |(frame, out)| {
                    clock.time(Stage::Turbulence, || setup.star_wavefront(star, *frame, out));
                })
                .submit()?;
        }
        for (target, wavefront) in frame.targets.iter().enumerate() {
            let (setup, clock) = (Arc::clone(&self.setup), self.clock.clone());
            on.task("target_wavefront")
                .operands((read(&frame.number), update(wavefront)))
                .cpu(move |(frame, out)| {
                    clock.time(Stage::Turbulence, || setup.target_wavefront(target, *frame, out));
                })
                .submit()?;
        }
        let Some(first) = data.mirrors.first() else { return Ok(()) };
        for (star, (wavefront, slopes)) in frame.stars.iter().zip(&data.slopes).enumerate() {
            let (setup, clock) = (Arc::clone(&self.setup), self.clock.clone());
            on.task("sensor")
                .operands((read(&frame.number), read(&first.commands), update(wavefront), update(slopes)))
                .cpu(move |(frame, commands, wavefront, slopes)| {
                    clock.time(Stage::Sensor, || setup.measure(star, *frame, commands, wavefront, slopes));
                })
                .submit()?;
        }
        let immediate = self.setup.is_immediate();
        if !immediate {
            self.image_tasks(on, data, frame)?;
        }
        for mirror in &data.mirrors {
            let clock = self.clock.clone();
            on.task("control")
                .operands((
                    data.slopes.iter().map(read).collect::<Vec<_>>(),
                    update(&mirror.controller),
                    update(&mirror.commands),
                ))
                .cpu(move |(slopes, controller, commands)| {
                    let all: Vec<f64> = slopes.iter().flat_map(|s| s.iter().copied()).collect();
                    clock.time(Stage::Control, || controller.step(&all, commands));
                })
                .submit()?;
        }
        if immediate {
            self.image_tasks(on, data, frame)?;
        }
        Ok(())
    }

    /// Submits the tasks that add a frame to the exposures.
    fn image_tasks(
        &self,
        on: &impl Submit,
        data: &LoopData,
        frame: &FrameData,
    ) -> Result<(), zellige_runtime::Error> {
        if let Some(telemetry) = &data.telemetry {
            let commands = data.mirrors.iter().map(|mirror| read(&mirror.commands)).collect::<Vec<_>>();
            on.task("telemetry")
                .operands((
                    read(&frame.number),
                    data.slopes.iter().map(read).collect::<Vec<_>>(),
                    commands,
                    update(telemetry),
                ))
                .cpu(|(frame, slopes, commands, telemetry)| {
                    let [slopes, commands] = [&slopes, &commands].map(|all| all.iter().map(|v| &v[..]));
                    telemetry.get().add(*frame, slopes, commands);
                })
                .submit()?;
        }
        for (target, (wavefront, exposure)) in frame.targets.iter().zip(&data.exposures).enumerate() {
            let (setup, clock) = (Arc::clone(&self.setup), self.clock.clone());
            let mirror = &data.mirrors[mirror_of(target, data.mirrors.len())];
            on.task("image")
                .operands((read(&frame.number), read(&mirror.commands), update(wavefront), update(exposure)))
                .cpu(move |(frame, commands, wavefront, exposure)| {
                    clock.time(Stage::Image, || {
                        setup.expose(target, *frame, commands, wavefront, exposure);
                    });
                })
                .submit()?;
        }
        Ok(())
    }
}
