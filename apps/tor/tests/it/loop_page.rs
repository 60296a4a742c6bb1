//! Report page of simulated loops.

use std::path::Path;
use std::sync::atomic::{AtomicU64, Ordering};
use zellige_runtime::Runtime;
use zellige_tor::end_to_end::{Compared, LoopOptions, LoopPictures, LoopRun, Study, expose};
use zellige_tor::params::{self, Input, Mode};
use zellige_tor::pipeline::{GemmShare, NotSpd, Observer, Silent};
use zellige_tor::report::{loops, text};
use zellige_tor::system::SensorModel;

fn small() -> Input {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("systems/scao.toml");
    let mut input = params::read(&path, None, Mode::Strict).unwrap();
    (input.system.diameter, input.system.nssp) = (2.4, 6);
    input.system.stars[0].nssp = 6;
    input.system.simulation.sensor = SensorModel::Gradients;
    input
}

fn run(
    input: &Input,
    options: &LoopOptions,
    study: Study,
    observer: &dyn Observer,
) -> Option<(LoopRun, LoopPictures)> {
    let rt = Runtime::builder().workers(2).build().unwrap();
    let shares = Some(GemmShare { sp: 0.25, hp1: 0.75, ..GemmShare::default() });
    let compared = Compared { name: "hp1:band=2".into(), matrices: None, shares };
    expose(&rt, input, &compared, (options, study), observer, &mut || ()).unwrap()
}

const OPTIONS: LoopOptions = LoopOptions { frames: 30, skip: 5, seed: 1, noise: true, images: 5 };

#[test]
fn the_page_shows_what_was_simulated() {
    let input = small();
    let study = Study { seeds: 2, budget: true, pictures: true, ..Study::default() };
    let (run, pictures) = run(&input, &OPTIONS, study, &Silent).unwrap();
    let frames: Vec<u64> = pictures.film.iter().map(|shot| shot.frame).collect();
    assert_eq!(frames, [9, 14, 19, 24, 29, 34]);
    // The pictures of a frame are those of the exposure.
    assert!(pictures.history.len() == 30 && pictures.psfs.len() == 2);
    let lost = NotSpd { tile: 7, pivot: 3, row: 717, suggestion: Some("hp2".into()) };
    let runs = [run, LoopRun::without_exposure("hp3<".into(), lost)];
    let page = loops::page("Loop", &input, &runs, &[pictures, LoopPictures::default()]).unwrap().finish();
    for part in [
        "Strehl ratio against frame",
        "Point-spread functions",
        "Residual phase",
        "Last frame",
        "Error budget",
        "Time of a frame",
        "hp1: 75.0 % of the products",
        "not positive definite at tile 7",
        "integrals",
        "2 seeds from 1",
    ] {
        assert!(page.contains(part), "{part}");
    }
    for foreign in ["http:", "https:", "<script", "@import", "url(", "NaN", ">inf", "hp3<"] {
        assert!(!page.contains(foreign), "{foreign}");
    }
    for tag in ["section", "svg", "figure", "table", "div"] {
        let open = page.matches(&format!("<{tag}>")).count() + page.matches(&format!("<{tag} ")).count();
        assert_eq!(open, page.matches(&format!("</{tag}>")).count(), "{tag}");
    }
    let words = text::of_loops(&runs, false);
    for part in
        ["fp32 25.0 %, hp1 75.0 %", "hp3<: not positive definite", "tomographic", "task time per frame"]
    {
        assert!(words.contains(part), "{part}: {words}");
    }
}

/// Observer that asks for an end after some steps.
struct Ends {
    seen: AtomicU64,
    after: u64,
}

impl Observer for Ends {
    fn stage(&self, _name: &str, _total: u64) {}

    fn advance(&self, done: u64) {
        self.seen.fetch_max(done, Ordering::Relaxed);
    }

    fn warn(&self, _text: &str) {}

    fn cancelled(&self) -> bool {
        self.seen.load(Ordering::Relaxed) >= self.after
    }
}

#[test]
fn an_end_keeps_the_frames_so_far() {
    let input = small();
    let options = LoopOptions { frames: 2000, ..OPTIONS };
    let study = Study { seeds: 3, budget: true, pictures: true, ..Study::default() };
    let ends = Ends { seen: AtomicU64::new(0), after: 60 };
    let (run_, pictures) = run(&input, &options, study, &ends).unwrap();
    let frames = run_.frames();
    assert!((55..200).contains(&frames) && !run_.complete, "{frames}");
    assert!(run_.budget.is_empty() && run_.seeds.is_empty());
    assert_eq!((pictures.history.len() as u64, pictures.psfs.len()), (frames, 2));
    // The exposure so far is that of fewer frames.
    let shorter = LoopOptions { frames, ..OPTIONS };
    let (wanted, _) = run(&input, &shorter, Study::default(), &Silent).unwrap();
    assert_eq!(run_.result.unwrap().targets[0].rms_nm, wanted.result.unwrap().targets[0].rms_nm);
    // Before the exposure there is nothing to keep.
    let ends = Ends { seen: AtomicU64::new(0), after: 1 };
    assert!(run(&input, &LoopOptions { skip: 500, ..options }, study, &ends).is_none());
}
