//! Matrices and vectors of every format, plain and compressed.
#![no_main]

use std::path::Path;

use libfuzzer_sys::fuzz_target;
use zellige_fuzz::file;
use zellige_sparse::files::{self, market};

fuzz_target!(|bytes: &[u8]| {
    if let Ok(read) = market::read_from(&mut &*bytes, Path::new("input.mtx")) {
        // A matrix that was read is valid: each column index is within its bounds.
        let a = read.matrix;
        if a.columns() < 1 << 16 && a.rows() < 1 << 16 {
            let mut y = vec![0.0; a.rows()];
            a.multiply(&vec![1.0; a.columns()], &mut y).expect("lengths that fit");
        }
    }
    let path = file("input.mtx", bytes);
    let _ = files::read(&path);
    let _ = files::read_vectors(&path, None);
    let _ = files::read_vectors(&path, Some(3));
});
