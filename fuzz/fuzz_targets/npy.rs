//! Headers of npy files, arrays of each kind, and archives of them (npz).
#![no_main]

use libfuzzer_sys::fuzz_target;
use zellige_fuzz::file;
use zellige_files::array::Array;
use zellige_psa::files::archives;
use zellige_psa::files::arrays::{self, Quantity};

fuzz_target!(|bytes: &[u8]| {
    if bytes.starts_with(b"PK") {
        let _ = arrays::read(&file("input.npz", bytes), 2, Quantity::Number);
        let _ = arrays::read(&file("input.npz", bytes).join("signals"), 3, Quantity::Number);
        let _ = archives::read_basis(&file("input.npz", bytes));
        return;
    }
    let path = file("input.npy", bytes);
    if let Ok(array) = Array::open(&path) {
        let count = array.sides().iter().product::<usize>();
        assert!(array.reals().map_or(true, |values| values.len() == count));
    }
    for dimensions in 1..=3 {
        if let Ok(array) = arrays::read(&path, dimensions, Quantity::Number) {
            assert_eq!(array.shape.iter().product::<usize>(), array.numbers.len());
        }
    }
    let _ = zellige_tor::files::npy::read(&path);
    let _ = zellige_sparse::files::read(&path);
    let _ = zellige_sparse::files::read_vectors(&path, None);
});
