//! Runs of frames with a sender: none is lost, and the histogram has all of them.

use crate::rtc::{gpu, matrix, two_matrices};
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};
use zellige_tor::report;
use zellige_tor::rtc::{Packed, RtcResult, RtcSetting, run};

fn setting(frames: u64) -> RtcSetting {
    RtcSetting { frames, workers: 1, rate_hz: None, udp_port: None, timeout_us: 1e7 }
}

fn frames(setting: &RtcSetting, stop: &(dyn Fn() -> bool + Sync)) -> RtcResult {
    // More slopes than fit one packet, and more commands.
    let matrix = Packed::of_matrix(&matrix(400, 800, 0)).unwrap();
    run("R.npz", matrix, None, setting, false, stop).unwrap()
}

#[test]
fn every_frame_is_counted_once() {
    let cases = [
        setting(2000),
        RtcSetting { workers: 2, ..setting(300) },
        RtcSetting { udp_port: Some(0), ..setting(300) },
        RtcSetting { rate_hz: Some(2000.0), ..setting(200) },
    ];
    for setting in cases {
        let result = frames(&setting, &|| false);
        let lost =
            (result.losses.lost_frames, result.losses.incomplete_frames, result.losses.malformed_packets);
        assert_eq!((result.frames, lost), (setting.frames, (0, 0, 0)), "{setting:?}");
        for times in [&result.latency, &result.whole] {
            let counted: u64 = times.histogram.iter().map(|bin| bin.frames).sum();
            assert_eq!(counted, setting.frames);
            assert!(times.histogram.windows(2).all(|pair| pair[0].up_to_us < pair[1].up_to_us));
            let order = [0.0, times.p50_us, times.p99_us, times.p999_us, times.max_us];
            assert!(order.is_sorted() && times.p50_us > 0.0, "{order:?}");
        }
        assert!(result.latency.p50_us <= result.whole.p50_us);
        assert_eq!((result.rows, result.columns, result.bits), (400, 800, 32.0));
        assert_eq!(result.bytes_per_frame, 448 * 800 * 4, "blocks of 64 rows");
        let text = report::rtc::text(&result, false);
        assert!(text.contains("last packet to last command") && !text.contains("incomplete"), "{text}");
        let page = report::rtc::page("Frames", &result).finish();
        let bars = page.matches("class=\"f-c0\"").count();
        assert_eq!(bars, result.latency.histogram.len());
    }
}

#[test]
fn a_run_on_a_gpu_loses_no_frame() {
    let Some((_mock, place)) = gpu() else { return };
    let [few, _] = two_matrices();
    let result = run("R.npz", few, Some(&place), &setting(50), false, &|| false).unwrap();
    assert_eq!((result.frames, result.losses.lost_frames, result.gpu), (50, 0, Some(0)));
    assert!(report::rtc::text(&result, false).contains("GPU 0"));
    let float = Packed::of_matrix(&matrix(400, 800, 0)).unwrap();
    let refused = run("R.npy", float, Some(&place), &setting(50), false, &|| false).unwrap_err();
    assert!(refused.to_string().contains("float32"), "{refused}");
}

#[test]
fn a_run_can_be_stopped() {
    let asked = AtomicU64::new(0);
    let result = frames(&setting(1_000_000), &|| asked.fetch_add(1, Relaxed) >= 150);
    assert!((40..=60).contains(&result.frames), "{}", result.frames);
    assert_eq!(result.losses.lost_frames, 0, "what was not sent is not lost");
}
