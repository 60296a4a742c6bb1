//! FITS images and matrices. The reader catches panics of the parser that it uses.
#![no_main]

use libfuzzer_sys::fuzz_target;
use zellige_fuzz::{allow_panics_of, file};
use zellige_tor::files::fits;

fuzz_target!(init: allow_panics_of("fitsrs"), |bytes: &[u8]| {
    let path = file("input.fits", bytes);
    if let Ok(image) = fits::read(&path, None) {
        assert_eq!(image.shape.iter().product::<usize>(), image.values.len());
    }
    let _ = fits::read_matrix(&path, Some("R"));
});
