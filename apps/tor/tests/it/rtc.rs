//! Real-time products: commands are those of the matrix, however slopes arrive.

use proptest::prelude::*;
use std::path::Path;
use std::sync::Arc;
use zellige_gpu::mock::{Fault, Mock};
use zellige_kernels::cuda::FEW_BITS_SOURCES;
use zellige_tor::Matrix;
use zellige_tor::end_to_end::{ControlLaw, Controller};
use zellige_tor::rtc::{GpuPlace, Packed, Rtc};
use zellige_tor::system::LoopMode;

/// Returns one of many different matrices.
pub fn matrix(rows: usize, cols: usize, seed: usize) -> Matrix {
    Matrix::from_fn(rows, cols, |i, j| (((i * 7919 + j * 104_729 + seed * 31) % 1009) as f64 - 504.0) / 504.0)
}

pub fn slopes(cols: usize, frame: usize) -> Vec<f32> {
    (0..cols).map(|j| ((j * 37 + frame * 101) % 211) as f32 / 105.0 - 1.0).collect()
}

/// Fails unless commands are the products in float64 up to the rounding of float32.
pub fn assert_product(matrix: &Matrix, slopes: &[f32], commands: &[f32]) {
    assert_eq!(commands.len(), matrix.rows());
    for (i, &command) in commands.iter().enumerate() {
        let terms = slopes.iter().enumerate().map(|(j, &s)| matrix.col(j)[i] * f64::from(s));
        let (exact, size) = terms.fold((0.0, 0.0), |(sum, size), t| (sum + t, size + t.abs()));
        assert!((f64::from(command) - exact).abs() <= 1e-5 * size, "row {i}: {command} of {exact}");
    }
}

/// Cuts a frame at `cuts` and delivers the parts in the order of `keys`.
fn parts(cols: usize, cuts: &[usize], keys: &[u32]) -> Vec<std::ops::Range<usize>> {
    let mut edges: Vec<usize> = cuts.iter().map(|cut| cut % cols).chain([0, cols]).collect();
    edges.sort_unstable();
    edges.dedup();
    let mut parts: Vec<_> = edges.windows(2).map(|pair| pair[0]..pair[1]).collect();
    parts.sort_by_key(|part| keys[part.start % keys.len()]);
    parts
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(60))]
    #[test]
    fn commands_are_products_for_any_parts_and_workers(
        (rows, cols) in (1usize..400, 1usize..300),
        cuts in prop::collection::vec(0usize..1000, 0..12),
        keys in prop::collection::vec(0u32..100, 1..20),
    ) {
        let matrix = matrix(rows, cols, 0);
        let commands: Vec<Vec<f32>> = [1, 2, 3].into_iter().map(|workers| {
            let mut rtc = Rtc::new(Packed::of_matrix(&matrix).unwrap(), workers, false).unwrap();
            let mut last = Vec::new();
            for frame in 0..3 {
                let slopes = slopes(cols, frame);
                for part in parts(cols, &cuts, &keys) {
                    let new = rtc.receive(part.start, &slopes[part.clone()]).unwrap();
                    assert_eq!(new, part.len());
                    assert_eq!(rtc.receive(part.start, &slopes[part]).unwrap(), 0);
                }
                assert_eq!(rtc.missing(), 0);
                last = rtc.finish().unwrap().to_vec();
                assert_product(&matrix, &slopes, &last);
            }
            last
        }).collect();
        prop_assert!(commands.iter().all(|c| *c == commands[0]));
    }
}

#[test]
fn parts_in_order_do_not_change_bits() {
    let (rows, cols) = (200, 170);
    let mut rtc = Rtc::new(Packed::of_matrix(&matrix(rows, cols, 1)).unwrap(), 2, false).unwrap();
    let slopes = slopes(cols, 5);
    let whole = rtc.step(&slopes).unwrap().to_vec();
    for size in [1, 7, 32, 169] {
        for (k, part) in slopes.chunks(size).enumerate() {
            rtc.receive(k * size, part).unwrap();
        }
        assert_eq!(rtc.finish().unwrap(), whole);
        assert_eq!(rtc.commands(), whole);
    }
}

#[test]
fn missing_slopes_are_those_of_the_frame_before() {
    let (rows, cols) = (130, 100);
    let matrix = matrix(rows, cols, 2);
    let mut rtc = Rtc::new(Packed::of_matrix(&matrix).unwrap(), 2, false).unwrap();
    let (before, after) = (slopes(cols, 0), slopes(cols, 1));
    rtc.receive(40, &before[40..]).unwrap();
    let mut used = before.clone();
    used[..40].fill(0.0);
    assert_product(&matrix, &used, rtc.finish().unwrap());
    rtc.receive(0, &after[..50]).unwrap();
    assert_eq!(rtc.missing(), 50);
    used[..50].copy_from_slice(&after[..50]);
    assert_product(&matrix, &used, rtc.finish().unwrap());
}

#[test]
fn slopes_that_do_not_fit_are_refused() {
    let mut rtc = Rtc::new(Packed::of_matrix(&matrix(3, 10, 0)).unwrap(), 2, false).unwrap();
    assert_eq!(rtc.workers(), 1, "a block of rows is not divided");
    let words = |error: zellige_tor::Error| error.to_string();
    assert!(
        words(rtc.receive(8, &[0.0; 3]).unwrap_err()).contains("3 from 8 on, of a matrix with 10 columns")
    );
    assert!(rtc.receive(usize::MAX, &[0.0; 3]).is_err());
    assert!(words(rtc.step(&[0.0; 9]).unwrap_err()).contains("9 instead of 10"));
    assert!(Packed::of_matrix(&Matrix::zeros(0, 3)).is_err());
    assert!(Packed::of_matrix(&Matrix::from_fn(2, 2, |_, _| 1e300)).is_err());
}

/// Returns commands with the sum of their frame's matrix: two matrices, each of one value.
fn constant(value: f64) -> Packed {
    Packed::of_matrix(&Matrix::from_fn(300, 90, |_, _| value)).unwrap()
}

#[test]
fn a_matrix_is_replaced_between_two_frames() {
    for workers in [1, 2, 3] {
        let mut rtc = Rtc::new(constant(1.0), workers, false).unwrap();
        let (swapper, ready) = (rtc.swapper(), std::sync::Barrier::new(2));
        std::thread::scope(|scope| {
            scope.spawn(|| {
                let next = constant(2.0);
                let checksum = next.checksum();
                ready.wait();
                swapper.offer(next, 7, checksum).unwrap();
            });
            let (mut seen, mut after) = (vec![0], 0);
            for frame in 0..1_000_000 {
                if frame == 100 {
                    ready.wait();
                }
                rtc.receive(30, &[1.0; 40]).unwrap();
                rtc.receive(0, &[1.0; 30]).unwrap();
                std::hint::spin_loop();
                rtc.receive(70, &[1.0; 20]).unwrap();
                let commands = rtc.finish().unwrap().to_vec();
                let expected = if rtc.version() == 7 { 180.0 } else { 90.0 };
                assert!(commands.iter().all(|&c| c == expected), "frame {frame} has a mixture");
                if seen.last() != Some(&rtc.version()) {
                    seen.push(rtc.version());
                }
                after += usize::from(rtc.version() == 7);
                if after == 1000 {
                    break;
                }
            }
            assert_eq!((seen, after), (vec![0, 7], 1000), "one switch");
        });
    }
}

/// Numbers of bits of five blocks of rows and three groups.
fn several_bits() -> Vec<i64> {
    (0..15).map(|at| 4 + at % 13).collect()
}

/// Packs a matrix of 300 x 90 in three groups, with scales of 0.5, by way of a file.
fn few_bits(path: &Path, codes: &[i16], shape: &[usize], bits: &[i64], edges: &[i64]) -> Packed {
    zellige_files::array::npz::NpzWriter::write(path, |npz| {
        npz.put("bits", shape, bits)?;
        npz.put("codes", &[300, 90], codes)?;
        npz.put("edges", &[4], edges)?;
        npz.put("scales", &[300, 3], &vec![0.5f32; 900])
    })
    .unwrap();
    Packed::read(path).unwrap()
}

#[test]
fn a_matrix_may_be_replaced_by_one_of_other_bits_and_groups() {
    let codes: Vec<i16> = (0..300 * 90).map(|at| (at % 15) as i16 - 7).collect();
    let entries = Matrix::from_fn(300, 90, |i, j| 0.5 * f64::from(codes[i * 90 + j]));
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("r.npz");
    // The same everywhere, and other ones in each block.
    for (shape, bits) in [(vec![1], vec![4i64]), (vec![5, 3], several_bits())] {
        let few = few_bits(&path, &codes, &shape, &bits, &[0, 1, 50, 90]);
        assert_eq!((few.mean_bits() > 4.0, few.shape()), (bits.len() > 1, (300, 90)));
        let mut rtc = Rtc::new(constant(1.0), 2, false).unwrap();
        let slopes = slopes(90, 3);
        assert_product(&Matrix::from_fn(300, 90, |_, _| 1.0), &slopes, rtc.step(&slopes).unwrap());
        let (checksum, mean) = (few.checksum(), few.mean_bits());
        rtc.swapper().offer(few, 1, checksum).unwrap();
        assert_product(&entries, &slopes, rtc.step(&slopes).unwrap());
        assert_eq!(rtc.matrix().mean_bits(), mean);
    }
}

#[test]
fn matrices_that_do_not_fit_are_not_taken() {
    let mut rtc = Rtc::new(constant(1.0), 2, false).unwrap();
    let swapper = rtc.swapper();
    let refused = |matrix: Packed, version: u64, change: u64, words: &str| {
        let checksum = matrix.checksum() ^ change;
        let error = swapper.offer(matrix, version, checksum).unwrap_err().to_string();
        assert!(error.contains(words), "{error}");
    };
    refused(constant(2.0), 1, 1, "reconstructor 1: its checksum is");
    let wide = Packed::of_matrix(&Matrix::from_fn(300, 91, |_, _| 2.0)).unwrap();
    refused(wide, 1, 0, "300 x 91 instead of 300 x 90");
    refused(constant(2.0), 0, 0, "version 0 was offered before");
    assert_eq!(rtc.step(&[1.0; 90]).unwrap()[299], 90.0);
    assert_ne!(constant(1.0).checksum(), constant(2.0).checksum());
    // The last offer before a frame counts.
    for version in 1..4 {
        let next = constant(version as f64 + 1.0);
        let checksum = next.checksum();
        swapper.offer(next, version, checksum).unwrap();
    }
    assert_eq!(rtc.step(&[1.0; 90]).unwrap()[299], 360.0);
    assert_eq!(rtc.version(), 3);
    refused(constant(2.0), 3, 0, "version 3 was offered before: give a larger number");
}

/// Commands are those of the simulated loop's controller, whose products are in float64.
#[test]
fn control_laws_are_those_of_the_simulated_loop() {
    let (actuators, cols) = (130, 90);
    let command = Matrix::from_fn(actuators, cols, |i, j| 0.02 * matrix(actuators, cols, 3).col(j)[i]);
    let interaction = Matrix::from_fn(cols, actuators, |i, j| 0.02 * matrix(cols, actuators, 4).col(j)[i]);
    for (mode, gain, delay) in
        [(LoopMode::Closed, 0.4, 2), (LoopMode::Open, 0.7, 1), (LoopMode::PseudoOpen, 0.6, 3)]
    {
        let law = ControlLaw { mode, gain, leak: 0.01, delay, limit: 0.5 };
        let mut controller = Controller::new(law, command.clone(), Some(interaction.clone())).unwrap();
        let plain = Rtc::new(Packed::of_matrix(&command).unwrap(), 2, false).unwrap();
        let mut rtc = plain.with_control(law, Some(Packed::of_matrix(&interaction).unwrap())).unwrap();
        let mut mirror = vec![0.0; actuators];
        for frame in 0..20 {
            let slopes = slopes(cols, frame);
            let exact: Vec<f64> = slopes.iter().map(|&s| s.into()).collect();
            controller.step(&exact, &mut mirror);
            let commands = rtc.step(&slopes).unwrap();
            let close = |(&a, &b): (&f32, &f64)| (f64::from(a) - b).abs() <= 1e-5;
            assert!(commands.iter().zip(&mirror).all(close), "{mode:?}, frame {frame}");
        }
        assert!(mirror.iter().any(|u| u.abs() > 0.05), "{mode:?}: the mirror moves");
    }
    let law = ControlLaw { mode: LoopMode::PseudoOpen, gain: 1.0, leak: 0.0, delay: 1, limit: 1.0 };
    let rtc = Rtc::new(Packed::of_matrix(&command).unwrap(), 1, false).unwrap();
    assert!(rtc.with_control(law, None).is_err());
}

/// A mock GPU with the kernels' own source.
pub fn gpu() -> Option<(Arc<Mock>, GpuPlace)> {
    let mock = Arc::new(zellige_twins::mock(FEW_BITS_SOURCES)?.build());
    Some((mock.clone(), GpuPlace { driver: mock, number: 0 }))
}

/// Two matrices of 300 x 90 with other bits and groups.
pub fn two_matrices() -> [Packed; 2] {
    let folder = tempfile::tempdir().unwrap();
    let codes: Vec<i16> = (0..300 * 90).map(|at| (at * 7919 % 15) as i16 - 7).collect();
    let path = folder.path().join("r.npz");
    let one = few_bits(&path, &codes, &[5, 3], &several_bits(), &[0, 1, 50, 90]);
    [one, few_bits(&path, &codes, &[1], &[6], &[0, 32, 64, 90])]
}

#[test]
fn a_gpu_has_the_commands_of_the_cpu_for_any_parts_and_matrix() {
    let Some((mock, place)) = gpu() else { return };
    let [first, other] = two_matrices();
    let mut by_gpu = Rtc::on_gpu(first.clone(), &place, false).unwrap();
    let mut by_cpu = Rtc::new(first, 2, false).unwrap();
    for frame in 0..6 {
        if frame == 3 {
            let checksum = other.checksum();
            for rtc in [&by_gpu, &by_cpu] {
                rtc.swapper().offer(other.clone(), 1, checksum).unwrap();
            }
        }
        let slopes = slopes(90, frame);
        // In order, one packet late, and cuts within groups.
        let parts = [vec![0..64, 64..90], vec![40..70, 0..40, 70..90], vec![0..17, 17..90]];
        let commands = [&mut by_gpu, &mut by_cpu].map(|rtc| {
            for part in &parts[frame % 3] {
                rtc.receive(part.start, &slopes[part.clone()]).unwrap();
            }
            rtc.finish().unwrap().to_vec()
        });
        assert_eq!(commands[0], commands[1], "frame {frame}");
        assert_eq!(by_gpu.version(), u64::from(frame >= 3));
    }
    // Slopes that are missing are those of the frame before.
    let some = slopes(90, 9);
    let commands = [&mut by_gpu, &mut by_cpu].map(|rtc| {
        rtc.receive(10, &some[10..40]).unwrap();
        rtc.finish().unwrap().to_vec()
    });
    assert_eq!(commands[0], commands[1]);
    drop(by_gpu);
    assert_eq!((mock.violations(), mock.leaks()), (vec![], vec![]));
}

#[test]
fn a_gpu_that_fails_or_has_no_room_is_an_error() {
    let Some((mock, place)) = gpu() else { return };
    let in_float32 = Rtc::on_gpu(constant(1.0), &place, false).unwrap_err().to_string();
    assert!(in_float32.contains("tor build --bits 16"), "{in_float32}");
    let absent = GpuPlace { number: 3, ..place.clone() };
    let [first, other] = two_matrices();
    assert!(Rtc::on_gpu(first.clone(), &absent, false).unwrap_err().to_string().contains("GPU 3"));
    let mut rtc = Rtc::on_gpu(first, &place, false).unwrap();
    let before = rtc.step(&slopes(90, 0)).unwrap().to_vec();
    // An offer that does not fit changes nothing.
    mock.inject(0, Fault::Allocation(1)).unwrap();
    let checksum = other.checksum();
    let refused = rtc.swapper().offer(other, 1, checksum).unwrap_err().to_string();
    assert!(refused.contains("no room"), "{refused}");
    assert_eq!(rtc.step(&slopes(90, 0)).unwrap(), before);
    mock.inject(0, Fault::Launch(1)).unwrap();
    let lost = rtc.step(&slopes(90, 1)).unwrap_err().to_string();
    assert!(lost.contains("GPU"), "{lost}");
    assert!(rtc.step(&slopes(90, 2)).is_err(), "a GPU that is lost does not come back");
}
