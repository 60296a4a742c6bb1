//! GPU support of product precisions.

use zellige_gpu::{Compute, GpuInfo};
use zellige_kernels::GemmPrecision;
use zellige_runtime::DeviceInfo;

use super::element;

/// Returns the accumulation type of the products of a precision.
pub(super) fn compute_of(precision: GemmPrecision) -> Compute {
    match precision {
        GemmPrecision::Dp => Compute::F64,
        GemmPrecision::Tf32 => Compute::Tf32,
        GemmPrecision::Hp3 => Compute::F16,
        _ => Compute::F32,
    }
}

/// Returns the first compute capability, (major, minor), of GPUs that support the products of a
/// precision.
pub fn capability_for(precision: GemmPrecision) -> (u32, u32) {
    GpuInfo::products_from(element(precision.operand_format()), compute_of(precision))
}

/// Returns true if some GPUs lack one of these precisions.
pub(crate) fn has_constraints(precisions: impl IntoIterator<Item = GemmPrecision>) -> bool {
    precisions.into_iter().any(|precision| capability_for(precision) > GpuInfo::OLDEST)
}

/// Returns true if a device supports all of these precisions; devices other than GPUs do.
pub(crate) fn can_execute(
    precisions: impl IntoIterator<Item = GemmPrecision>,
    device: &DeviceInfo<'_>,
) -> bool {
    let Some(has) = device.capability else { return true };
    precisions.into_iter().all(|precision| capability_for(precision) <= has)
}

#[cfg(test)]
mod tests {
    use super::*;
    use GemmPrecision::{Bf1, Dp, Fp8, Hp1, Hp3, Sp, Tf32, X3};

    #[test]
    fn old_gpus_lack_some_products_and_cpus_none() {
        let device = |capability| DeviceInfo { worker: 0, kind: "any", memory: None, capability };
        for (precision, from) in [
            (Dp, (7, 0)),
            (Sp, (7, 0)),
            (Hp1, (7, 0)),
            (Hp3, (7, 0)),
            (X3, (7, 0)),
            (Bf1, (8, 0)),
            (Tf32, (8, 0)),
            (Fp8, (8, 9)),
        ] {
            assert_eq!(capability_for(precision), from, "{precision}");
            assert_eq!(has_constraints([precision]), from > (7, 0), "{precision}");
            for has in [(7, 0), (7, 5), (8, 0), (8, 6), (8, 9), (9, 0), (10, 0)] {
                assert_eq!(can_execute([precision], &device(Some(has))), has >= from, "{precision} {has:?}");
            }
            assert!(can_execute([precision], &device(None)));
        }
        assert!(!can_execute([Hp1, Fp8], &device(Some((8, 0)))));
    }
}
