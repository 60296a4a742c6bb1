//! Mapping of the runtime's opaque [`Format`] numbers to storage formats.

use zellige_kernels::StorageFormat;
use zellige_runtime::Format;

/// IEEE binary64, see [`StorageFormat::F64`].
pub const F64: Format = Format(1);
/// IEEE binary32, see [`StorageFormat::F32`].
pub const F32: Format = Format(2);
/// IEEE binary16 with a power-of-two scale, see [`StorageFormat::F16`].
pub const F16: Format = Format(3);
/// bfloat16 with a power-of-two scale, see [`StorageFormat::BF16`].
pub const BF16: Format = Format(4);
/// Two binary16 halves with one scale, see [`StorageFormat::F16x2`].
pub const F16X2: Format = Format(5);
/// E4M3 with a power-of-two scale, see [`StorageFormat::E4M3`].
pub const E4M3: Format = Format(6);

/// Returns the runtime's number for a storage format.
pub const fn format_of(storage: StorageFormat) -> Format {
    match storage {
        StorageFormat::F64 => F64,
        StorageFormat::F32 => F32,
        StorageFormat::F16 => F16,
        StorageFormat::BF16 => BF16,
        StorageFormat::F16x2 => F16X2,
        StorageFormat::E4M3 => E4M3,
    }
}

/// Returns the storage format with the runtime's number `format`, if there is one.
pub fn storage_of(format: Format) -> Option<StorageFormat> {
    StorageFormat::ALL.into_iter().find(|&storage| format_of(storage) == format)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_are_distinct_and_never_native() {
        for storage in StorageFormat::ALL {
            assert_ne!(format_of(storage), Format::NATIVE);
            assert_eq!(storage_of(format_of(storage)), Some(storage));
        }
        assert_eq!(storage_of(Format::NATIVE), None);
        assert_eq!(storage_of(Format(7)), None);
    }
}
