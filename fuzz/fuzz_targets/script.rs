//! Precision policies in scripts: compiled, and asked.
#![no_main]

use libfuzzer_sys::fuzz_target;
use zellige_fuzz::text;
use zellige_dense::{GemmQuery, Phase, PrecisionPolicy, Script};

fuzz_target!(|bytes: &[u8]| {
    let Some(text) = text(bytes) else { return };
    let Ok(script) = Script::compile("input.rhai", text) else { return };
    for (i, j, k) in [(1, 1, 0), (7, 5, 3)] {
        let (norm_a_ij, norm_l_ik, norm_l_jk, norm_a) = (1e-3, 2.0, f64::NAN, 100.0);
        let _ = script.choose(&GemmQuery {
            phase: Phase::Factor,
            i,
            j,
            k,
            nt: 10,
            norm_a_ij,
            norm_l_ik,
            norm_l_jk,
            norm_a,
        });
    }
});
