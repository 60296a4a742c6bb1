//! Commands of a frame from its slopes.

use super::Packed;
use super::arrivals::Arrivals;
use super::control::Control;
use super::gpu::{GpuPlace, Placed};
use super::swap::{Store, Swapper};
use super::threads::{RowPart, Shared, help, pause, pin};
use crate::Error;
use crate::end_to_end::ControlLaw;
use std::sync::Arc;
use std::thread::JoinHandle;
use zellige_runtime::internal::threads::{SMALL_STACK, start_thread};

/// A product of a reconstructor with the slopes of one frame after the other.
///
/// Its threads share the blocks of rows; the calling thread is one of them. Commands have the same
/// bits for any number of threads and any division of the slopes, as long as groups of columns
/// become complete in the same order.
#[derive(Debug)]
pub struct Rtc {
    shared: Arc<Shared>,
    helpers: Vec<Helper>,
    part: RowPart,
    arrivals: Arrivals,
    control: Option<Control>,
    commands: Vec<f32>,
    /// Whether a frame has begun.
    open: bool,
    /// Groups that have become complete, as a number of steps.
    steps: usize,
    /// Next group of the calling thread: group `.1` of step `.0`.
    next: (usize, usize),
}

#[derive(Debug)]
struct Helper {
    rows: std::ops::Range<usize>,
    thread: JoinHandle<()>,
}

impl Rtc {
    /// Starts `workers - 1` threads, at most one for each 64 rows. With `pinned`, worker `k` is
    /// bound to the `k`-th CPU that the process may use, the calling thread to the first.
    ///
    /// # Errors
    /// The system starts no thread.
    pub fn new(matrix: Packed, workers: usize, pinned: bool) -> Result<Self, Error> {
        let workers = workers.clamp(1, matrix.blocks());
        Rtc::start(Placed::new(matrix, None)?, workers, pinned, None)
    }

    /// Has a GPU multiply, with the commands of the CPU bit by bit; the calling thread, bound to
    /// the first CPU if `pinned`, hands it the groups of columns that are complete. Reconstructors
    /// that replace this one are copied to the GPU when they are offered.
    ///
    /// # Errors
    /// A reconstructor in float32; the errors of the GPU.
    pub fn on_gpu(matrix: Packed, place: &GpuPlace, pinned: bool) -> Result<Self, Error> {
        let matrix = Placed::new(matrix, Some(place))?;
        let product = place.product(matrix.shape())?;
        let mut rtc = Rtc::start(matrix, 1, pinned, Some(place.clone()))?;
        rtc.part.use_gpu(product);
        Ok(rtc)
    }

    fn start(matrix: Placed, workers: usize, pinned: bool, gpu: Option<GpuPlace>) -> Result<Self, Error> {
        let (rows, cols) = matrix.shape();
        let matrix = Arc::new(matrix);
        let store = Arc::new(Store::new(Arc::clone(&matrix), gpu));
        let mut rtc = Rtc {
            shared: Arc::new(Shared::new((rows, cols), workers - 1, store)),
            helpers: Vec::new(),
            part: RowPart::new(Arc::clone(&matrix), 0, workers),
            arrivals: Arrivals::new(cols),
            control: None,
            commands: vec![0.0; rows],
            open: false,
            steps: 0,
            next: (0, 0),
        };
        for worker in 1..workers {
            let part = RowPart::new(Arc::clone(&matrix), worker, workers);
            let (rows, shared) = (part.rows(), Arc::clone(&rtc.shared));
            let body = move || {
                if pinned {
                    pin(worker);
                }
                help(&shared, worker - 1, part);
            };
            let name = format!("rtc-{worker}");
            let started = start_thread(name, SMALL_STACK, body);
            let thread = started.map_err(|error| Error::numeric("workers", error.to_string()))?;
            rtc.helpers.push(Helper { rows, thread });
        }
        if pinned {
            pin(0);
        }
        Ok(rtc)
    }

    /// Puts a control law on top: commands are then those of the law, in volts, for the next frame.
    /// A pseudo-open loop needs the interaction matrix `D`, measurements x actuators, arcsec per
    /// volt. `D u` is computed between frames, by the calling thread.
    ///
    /// # Errors
    /// A pseudo-open loop without an interaction matrix that fits.
    pub fn with_control(mut self, law: ControlLaw, interaction: Option<Packed>) -> Result<Self, Error> {
        self.control = Some(Control::new(law, self.matrix().shape(), interaction)?);
        Ok(self)
    }

    /// Returns the number of threads that multiply; 1 with a GPU.
    pub fn workers(&self) -> usize {
        self.shared.helpers() + 1
    }

    /// Returns the reconstructor in use.
    pub fn matrix(&self) -> &Packed {
        &self.part.matrix
    }

    /// Returns the version of the reconstructor in use: 0 is the first one.
    pub fn version(&self) -> u64 {
        self.shared.store.version()
    }

    /// Returns what replaces the reconstructor while frames go on.
    pub fn swapper(&self) -> Swapper {
        Swapper(Arc::clone(&self.shared.store))
    }

    /// Returns the number of slopes that the frame waits for.
    pub fn missing(&self) -> usize {
        if self.open { self.arrivals.missing() } else { self.part.slopes.values.len() }
    }

    /// Takes slopes of the frame, from slope `first` on, and multiplies all groups of columns that
    /// are complete. Slopes that the frame has already are left out. Returns the number of new
    /// ones.
    ///
    /// # Errors
    /// Slopes beyond the last column.
    pub fn receive(&mut self, first: usize, slopes: &[f32]) -> Result<usize, Error> {
        let new = self.take(first, slopes)?;
        while self.work() {}
        Ok(new)
    }

    /// Takes slopes like [`receive`](Rtc::receive), and leaves the work of this thread for later.
    pub(super) fn take(&mut self, first: usize, slopes: &[f32]) -> Result<usize, Error> {
        let cols = self.part.slopes.values.len();
        if first.checked_add(slopes.len()).is_none_or(|end| end > cols) {
            let problem = format!("{} from {first} on, of a matrix with {cols} columns", slopes.len());
            return Err(Error::shape("slopes", problem));
        }
        self.begin();
        let (before, missing, shared) = (self.steps, self.arrivals.missing(), &self.shared);
        let own = &mut self.part.slopes.values;
        let seen = self.control.as_ref().map_or(&[][..], Control::seen);
        self.arrivals.mark(
            self.part.matrix.edges(),
            first..first + slopes.len(),
            |j| {
                own[j] = slopes[j - first] + seen.get(j).unwrap_or(&0.0);
                shared.put_slope(j, own[j]);
            },
            |groups| {
                shared.put_step(self.steps, &groups);
                self.steps += 1;
            },
        );
        if self.steps > before {
            self.shared.publish(self.arrivals.frame(), self.steps);
        }
        Ok(missing - self.arrivals.missing())
    }

    fn begin(&mut self) {
        if !self.open {
            self.prepare();
            self.shared.store.take(&mut self.part.matrix);
            self.arrivals.begin(self.part.matrix.edges());
            self.part.begin();
            (self.open, self.steps, self.next) = (true, 0, (0, 0));
        }
    }

    /// Computes what the next frame needs before its slopes come.
    pub(super) fn prepare(&mut self) {
        self.control.iter_mut().for_each(Control::prepare);
    }

    /// Multiplies some groups of columns; returns false if no more are complete.
    pub(super) fn work(&mut self) -> bool {
        let steps = if self.open { self.steps } else { 0 };
        let run = self.shared.next(&mut self.next, steps, self.part.most());
        run.map(|groups| self.part.add(groups)).is_some()
    }

    /// Ends the frame and returns its commands. Slopes that have not come are those of the frame
    /// before, at first 0.
    ///
    /// # Errors
    /// A thread has ended by a panic, or a GPU has failed.
    pub fn finish(&mut self) -> Result<&[f32], Error> {
        self.finish_by_rows(|_, _| {})
    }

    /// Ends the frame like [`finish`](Rtc::finish), and hands over the commands of each thread,
    /// with their first row, as soon as they are complete; with a control law, all at once.
    ///
    /// # Errors
    /// The errors of [`finish`](Rtc::finish).
    pub fn finish_by_rows(&mut self, mut done: impl FnMut(usize, &[f32])) -> Result<&[f32], Error> {
        self.begin();
        let (before, shared) = (self.steps, &self.shared);
        self.arrivals.give_up(|groups| {
            shared.put_step(self.steps, &groups);
            self.steps += 1;
        });
        if self.steps > before {
            self.shared.publish(self.arrivals.frame(), self.steps);
        }
        while self.work() {}
        if let Err(error) = self.part.end() {
            // The next slopes are those of another frame.
            self.open = false;
            return Err(Error::numeric("product on a GPU", error.to_string()));
        }
        let own = self.part.sums();
        self.commands[..own.len()].copy_from_slice(own);
        let is_plain = self.control.is_none();
        if is_plain {
            done(0, own);
        }
        for (k, helper) in self.helpers.iter().enumerate() {
            let mut round = 0;
            while !self.shared.is_done(k, self.arrivals.frame()) {
                if helper.thread.is_finished() {
                    return Err(Error::numeric("worker", "its thread has ended by a panic"));
                }
                pause(&mut round);
            }
            let commands = &mut self.commands[helper.rows.clone()];
            self.shared.commands(helper.rows.clone(), commands);
            if is_plain {
                done(helper.rows.start, commands);
            }
        }
        if let Some(control) = &mut self.control {
            control.apply(&mut self.commands);
            done(0, &self.commands);
        }
        self.open = false;
        Ok(&self.commands)
    }

    /// Returns the commands of the last frame.
    pub fn commands(&self) -> &[f32] {
        &self.commands
    }

    /// Multiplies the slopes of a whole frame.
    ///
    /// # Errors
    /// There are more or fewer slopes than columns; the errors of [`finish`](Rtc::finish).
    pub fn step(&mut self, slopes: &[f32]) -> Result<&[f32], Error> {
        let cols = self.part.slopes.values.len();
        if slopes.len() != cols {
            return Err(Error::shape("slopes", format!("{} instead of {cols}", slopes.len())));
        }
        self.receive(0, slopes)?;
        self.finish()
    }
}

impl Drop for Rtc {
    fn drop(&mut self) {
        self.shared.end();
        for helper in self.helpers.drain(..) {
            // A panic of a thread was an error of the frame.
            let _ = helper.thread.join();
        }
    }
}
