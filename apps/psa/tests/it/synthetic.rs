//! Comparison with signals of another program: the same crystal, charges that drift along the
//! field, a bias and a doping of its own.

use std::path::Path;

use crate::common::{detector, example};
use zellige_files::array::Array;
use zellige_psa::basis::Sampling;
use zellige_psa::channels::{CHANNELS, Channel, ChannelSet, Segment};
use zellige_psa::detector::Detector;
use zellige_tests::data;

/// Sampling of its signals, and the value of the whole charge in them.
const SAMPLING: Sampling = Sampling { samples: 40, step: 10.0, before: 2 };
const WHOLE: f32 = 16_384.0;

fn positions(path: &Path) -> Vec<[f32; 3]> {
    let values = Array::open(path).and_then(|array| array.of(&["f4"], 2)?.finite()).expect("positions");
    values.chunks_exact(3).map(|p| [p[0], p[1], p[2]]).collect()
}

/// Returns the root mean square differences of the hit segment, its neighbours and the core, as
/// fractions of the whole charge.
fn differences(detector: &Detector, segment: usize) -> Option<([f64; 3], f64)> {
    let signals = data(&format!("psa/synthetic/seg{segment:02}_basis_i16.npy"))?;
    let theirs =
        Array::open(&signals).and_then(|array| array.of(&["i2"], 3)?.values::<i16>()).expect("signals");
    let positions = positions(&data(&format!("psa/synthetic/seg{segment:02}_pos_f32.npy"))?);
    let segment = Segment::from_index(segment).expect("a segment");
    let channels = ChannelSet::Neighbours.of(segment);
    let (mut squares, mut same, mut compared) = ([0.0; 3], 0, 0);
    for (point, theirs) in positions.iter().zip(theirs.chunks(channels.len() * SAMPLING.samples)).step_by(7) {
        let pulse = detector.pulse(point.map(f64::from));
        let mut ours = vec![0.0; CHANNELS * SAMPLING.samples];
        detector.add(&pulse, 1.0, 0.0, SAMPLING, &mut ours);
        compared += 1;
        if detector.collects(&pulse) != segment {
            continue;
        }
        same += 1;
        for (&channel, theirs) in channels.iter().zip(theirs.chunks(SAMPLING.samples)) {
            let ours = &ours[channel.index() * SAMPLING.samples..][..SAMPLING.samples];
            let pairs = ours.iter().zip(theirs);
            let sum: f64 = pairs.map(|(a, &b)| f64::from(a - f32::from(b) / WHOLE).powi(2)).sum();
            let (kind, of_kind) = match channel {
                Channel::CORE => (2, 1),
                _ if channel == segment.into() => (0, 1),
                _ => (1, channels.len() - 2),
            };
            squares[kind] += sum / (of_kind * SAMPLING.samples) as f64;
        }
    }
    Some((squares.map(|sum| (sum / f64::from(same)).sqrt()), f64::from(same) / f64::from(compared)))
}

#[test]
fn signals_are_like_those_of_another_program() {
    if data("psa/synthetic").is_none() {
        return;
    }
    let detector = detector(&example(), 2.0);
    for segment in [0, 14] {
        let Some(([hit, neighbours, core], same)) = differences(&detector, segment) else { return };
        println!(
            "segment {segment}: rms {hit:.4} hit, {neighbours:.4} neighbours, {core:.4} core; {same:.3} of the points are its"
        );
        assert!(hit < 0.04 && neighbours < 0.02 && core < 0.05, "{segment}: {hit} {neighbours} {core}");
        assert!(same > 0.85, "{segment}: {same}");
    }
}
