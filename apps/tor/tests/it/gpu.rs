//! The whole pipeline on a mock GPU: covariances, factorisation and solve by the kernels' own
//! sources, run on the host.

use std::path::Path;
use std::sync::Arc;

use zellige_cuda::Gpu;
use zellige_kernels::cuda::SOURCES;
use zellige_runtime::Runtime;
use zellige_tor::covariance::device::SOURCE;
use zellige_tor::params::{Mode, parse};
use zellige_tor::pipeline::{self, Options, RuleResult, Silent, TileChoice};

/// Reconstructors from a GPU have the same evaluation as those of the CPU: the same outcome of each
/// rule, the same image.
#[test]
fn reconstructors_from_a_gpu_are_those_of_the_cpu() {
    let Some(mock) = zellige_twins::mock(SOURCES.iter().chain([&SOURCE])) else { return };
    let mock = Arc::new(mock.build());
    let text = include_str!("../../systems/demo.toml").replace("nssp = 16 ", "nssp = 6 ");
    let input = parse(Path::new("system.toml"), &text, None, Mode::Strict).unwrap();
    let options = Options {
        rules: ["fp64", "fp32", "hp1:band=2", "hp1:operand=1e-2", "x3,panel=x3"].map(String::from).to_vec(),
        tile: TileChoice::Uniform(40),
        exact: false,
        ..Options::default()
    };
    let run = |rt: &Runtime| pipeline::run(rt, &input, &options, &Silent).unwrap().results;
    let by_cpu = run(&Runtime::builder().workers(2).build().unwrap());
    // One CPU worker runs the tasks without a GPU implementation. The policy decides on the other
    // tasks.
    let rt = Runtime::builder().workers(1).device(Gpu::new(mock.clone(), 0)).trace(true).build().unwrap();
    let by_gpu = run(&rt);
    let trace = rt.take_trace().unwrap();
    drop(rt);
    assert_eq!(mock.violations(), [] as [String; 0]);
    assert_eq!(mock.leaks(), [] as [String; 0]);
    for codelet in ["generate", "trsm", "gemm"] {
        let there = |task: &&zellige_runtime::trace::TaskEvent| task.name == codelet && task.worker == 1;
        assert!(trace.tasks.iter().any(|task| there(&task)), "no {codelet} ran on the GPU");
    }
    for (gpu, cpu) in by_gpu.iter().zip(&by_cpu) {
        let [gpu, cpu] = [gpu, cpu].map(|result: &RuleResult| result.measured.as_ref().unwrap());
        assert!((gpu.strehl_moao - cpu.strehl_moao).abs() < 1e-4, "{} {}", gpu.strehl_moao, cpu.strehl_moao);
        assert!(gpu.backward_error < 2.0 * cpu.backward_error, "{:e}", gpu.backward_error);
    }
}
