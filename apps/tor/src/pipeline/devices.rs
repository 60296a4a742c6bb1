//! Devices with their own memory that a run had.

use serde::Serialize;
use zellige_runtime::Runtime;

/// A device with its own memory, and its use.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, schemars::JsonSchema)]
pub struct DeviceUse {
    /// Name in traces, e.g. `cuda 0`.
    pub name: String,
    /// Description of the device, e.g. `GPU 0: NVIDIA H200`.
    pub device: String,
    /// Bytes of its memory that the run was allowed to use.
    pub memory_bytes: u64,
    /// Peak memory use in bytes; 0 if it did nothing.
    pub peak_memory_bytes: u64,
    /// Failure of the device, if it failed; other workers then took over its tasks.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub failure: Option<String>,
}

/// Returns the devices of the runtime other than CPU workers.
pub fn devices(rt: &Runtime) -> Vec<DeviceUse> {
    let device = |node: zellige_runtime::NodeUse| {
        Some(DeviceUse {
            name: node.name,
            device: node.device?,
            memory_bytes: node.capacity.unwrap_or(0),
            peak_memory_bytes: node.peak,
            failure: node.failure,
        })
    };
    rt.memory().into_iter().filter_map(device).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::sync::Arc;
    use zellige_cuda::Gpu;
    use zellige_gpu::mock::Mock;
    use zellige_runtime::{Emulated, Submit, update};

    #[test]
    fn devices_are_named_and_the_host_is_none() {
        let mock = Arc::new(Mock::builder().gpus(2).build());
        let rt = Runtime::builder()
            .workers(1)
            .device(Gpu::new(mock.clone(), 1).memory(5000))
            .device(Gpu::new(mock, 1).memory(6000))
            .device(Emulated::new(7000))
            .policy("eager")
            .build()
            .unwrap();
        let used = devices(&rt);
        let text: Vec<String> =
            used.iter().map(|d| format!("{}, {}, {}", d.name, d.device, d.memory_bytes)).collect();
        assert_eq!(
            text,
            [
                "cuda 0, GPU 1: mock GPU, 5000",
                "cuda 1, GPU 1: mock GPU, 6000",
                "emulated 2, made of host threads, 7000"
            ]
        );
        assert!(used.iter().all(|device| device.peak_memory_bytes == 0), "{used:?}");

        let x = rt.register(vec![1.0f64; 100]);
        rt.task("there").operands((update(&x),)).cpu(|(_,)| ()).on_kinds(&["emulated"]).submit().unwrap();
        rt.take(x).unwrap();
        let peaks: Vec<u64> = devices(&rt).iter().map(|device| device.peak_memory_bytes).collect();
        assert_eq!(peaks, [0, 0, 800]);
        assert!(devices(&Runtime::builder().workers(1).build().unwrap()).is_empty());
    }
}
