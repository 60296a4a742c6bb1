//! Links that are measured on first use.

use std::fmt::Write as _;
use std::sync::{Arc, Mutex, Once};
use std::time::Duration;

use tracing::field::{Field, Visit};
use tracing::{Event, Metadata, Subscriber, span};
use zellige_runtime::model::{LinkModel, Models};
use zellige_runtime::{Emulated, Runtime, RuntimeBuilder, Submit, update};

/// Returns a builder of a runtime without CPU workers that aborts with a message if it hangs.
fn builder(models: &Arc<Models>) -> RuntimeBuilder {
    Runtime::builder().workers(0).models(Arc::clone(models)).watchdog(Some(Duration::from_secs(20))).on_stall(
        |text| {
            eprintln!("stalled: {text}");
            std::process::abort();
        },
    )
}

/// Doubles a vector on the first device and takes it back.
fn double(rt: &Runtime) -> Vec<u64> {
    let x = rt.register(vec![21u64; 100]);
    let double = |(x,): (&mut [u64],)| x.iter_mut().for_each(|v| *v *= 2);
    rt.task("double").operands((update(&x),)).cpu(double).on_worker(0).submit().unwrap();
    rt.take(x).unwrap()
}

/// Returns true if a link was measured with plausible results: a transfer takes at least the
/// configured time, so that a faster or lower-latency result was measured wrongly, or disturbed.
/// Strongly disturbed results are rejected.
fn can_be(models: &Models, (from, to): (&str, &str), bandwidth: f64, latency: f64) -> bool {
    models.link(from, to).is_some_and(|link| {
        link.bandwidth() < 1.3 * bandwidth
            && link.bandwidth() > 0.01 * bandwidth
            && link.latency() >= 0.7 * latency
    })
}

#[test]
fn a_link_is_measured_when_it_is_first_used() {
    // A delayed transfer makes a link look faster: one undisturbed measurement of several is
    // enough.
    let measured = (0..10).any(|_| {
        let models = Arc::new(Models::new());
        let device = Emulated::new(1 << 20).bandwidth(100e6).latency(Duration::from_micros(300));
        let rt = builder(&models).device(device.measured_links()).build().unwrap();
        assert!(models.links().is_empty(), "nothing has been used");
        assert_eq!(double(&rt), [42; 100]);
        drop(rt);
        let ways = [("host", "emulated 0"), ("emulated 0", "host")];
        assert!(models.links().len() <= ways.len(), "nothing else has been used");
        ways.iter().all(|&way| can_be(&models, way, 100e6, 300e-6))
    });
    assert!(measured, "never as it was declared");
}

#[test]
fn links_to_peers_have_figures_of_their_own() {
    let measured = (0..10).any(|_| {
        let models = Arc::new(Models::new());
        let device = Emulated::new(1 << 20).bandwidth(400e6).measured_links();
        let rt = builder(&models).device(device.clone()).device(device).peers(50e6).build().unwrap();
        rt.measure_links();
        let (peers, host) =
            ([("emulated 0", "emulated 1"), ("emulated 1", "emulated 0")], ("host", "emulated 1"));
        models.links().len() == 6
            && peers.iter().all(|&way| can_be(&models, way, 50e6, 0.0))
            && can_be(&models, host, 400e6, 0.0)
            && models.link(host.0, host.1).is_some_and(|link| link.bandwidth() > 65e6)
    });
    assert!(measured, "never as they were declared");
}

#[test]
fn links_are_learnt_from_transfers() {
    const BYTES: usize = 1 << 20;
    let models = Arc::new(Models::new());
    let wrong = LinkModel::new(2e6, 0.0).unwrap();
    let ways = [("host", "emulated 0"), ("emulated 0", "host")];
    ways.iter().for_each(|(from, to)| models.set_link(from, to, wrong));
    let device = Emulated::new(4 * BYTES as u64).bandwidth(4e9).measured_links();
    let rt = builder(&models).device(device).build().unwrap();
    let x = rt.register(vec![0u8; BYTES]);
    for round in 1..=40 {
        let task = rt.task("count").operands((update(&x),)).cpu(|(x,): (&mut [u8],)| x[0] += 1);
        task.on_worker(0).submit().unwrap();
        let mut seen = rt.write(&x).unwrap();
        assert_eq!(seen[0], round);
        seen[1] = round;
    }
    drop(rt);
    // A hundred milliseconds for each would be faster than the known speed.
    assert!(ways.iter().all(|(from, to)| models.link(from, to).unwrap().bandwidth() > 3e6), "{models:?}");
}

#[test]
fn what_is_declared_or_known_is_not_measured() {
    let models = Arc::new(Models::new());
    let known = LinkModel::new(3e9, 1e-5).unwrap();
    models.set_link("host", "emulated 1", known);
    models.set_link("emulated 1", "host", known);
    let device = Emulated::new(1 << 20);
    let rt = builder(&models).device(device.clone()).device(device.measured_links()).build().unwrap();
    assert_eq!(double(&rt), [42; 100]);
    rt.measure_links();
    assert_eq!(models.links().len(), 2);
    assert!(models.links().iter().all(|(.., link)| *link == known));
}

/// Records all warnings of this process.
struct Warnings;

static WARNED: Mutex<Vec<String>> = Mutex::new(Vec::new());

impl Subscriber for Warnings {
    fn enabled(&self, metadata: &Metadata<'_>) -> bool {
        *metadata.level() == tracing::Level::WARN
    }

    fn new_span(&self, _span: &span::Attributes<'_>) -> span::Id {
        span::Id::from_u64(1)
    }

    fn record(&self, _span: &span::Id, _values: &span::Record<'_>) {}

    fn record_follows_from(&self, _span: &span::Id, _follows: &span::Id) {}

    fn event(&self, event: &Event<'_>) {
        let mut text = Text(String::new());
        event.record(&mut text);
        WARNED.lock().unwrap().push(text.0);
    }

    fn enter(&self, _span: &span::Id) {}

    fn exit(&self, _span: &span::Id) {}
}

struct Text(String);

impl Visit for Text {
    fn record_debug(&mut self, _field: &Field, value: &dyn std::fmt::Debug) {
        write!(self.0, "{value:?} ").unwrap();
    }
}

#[test]
fn a_link_that_cannot_be_is_named_and_not_kept() {
    static ONCE: Once = Once::new();
    ONCE.call_once(|| tracing::subscriber::set_global_default(Warnings).unwrap());
    let models = Arc::new(Models::new());
    let modem = Emulated::new(1 << 20).kind("modem").bandwidth(500e3).measured_links();
    let rt = builder(&models).device(modem).build().unwrap();
    assert_eq!(double(&rt), [42; 100]);
    drop(rt);
    assert!(models.links().is_empty());
    let warned = WARNED.lock().unwrap();
    for way in ["from host to modem 0", "from modem 0 to host"] {
        let texts: Vec<&String> = warned.iter().filter(|text| text.contains(way)).collect();
        assert_eq!(texts.len(), 1, "{warned:?}");
        assert!(
            texts[0].contains("B/s is not believable") && texts[0].contains("measure again"),
            "{texts:?}"
        );
        assert!(texts[0].contains("4e9 B/s and 2e-5 s are assumed"), "{texts:?}");
    }
}

#[test]
fn a_device_that_fails_while_its_link_is_measured_is_an_error() {
    for operation in 0..40 {
        let models = Arc::new(Models::new());
        let dying = Emulated::new(1 << 20).bandwidth(1e9).fails_at(operation).measured_links();
        let rt = builder(&models).device(dying).build().unwrap();
        if operation % 2 == 0 {
            rt.measure_links();
        }
        let x = rt.register(vec![21u64; 100]);
        let task = rt.task("t").operands((update(&x),)).cpu(|_| ()).on_worker(0).submit().unwrap();
        if let Err(error) = rt.wait(&task) {
            assert!(error.to_string().contains("emulated 0 failed"), "{error}");
        }
    }
}
