//! `zellige bench gpu` without a GPU, and with invalid options.

use crate::common;
use crate::common::{finish, folder, left, zellige};

/// Runs the verb with all GPUs of this machine hidden from the driver.
fn without_gpus(arguments: &[&str]) -> common::Ran {
    let folder = folder(4);
    let mut command = zellige(folder.path());
    command.env("CUDA_VISIBLE_DEVICES", "").args(["bench", "gpu"]).args(arguments);
    let ran = finish(&mut command);
    assert!(left(folder.path()).is_empty(), "{ran:#?}");
    ran
}

#[test]
fn without_a_gpu_it_ends_with_4_and_names_it() {
    for (arguments, device) in [(&["--json", "gpu.json"][..], "cuda:0"), (&["--device", "cuda:3"], "cuda:3")]
    {
        let ran = without_gpus(arguments).expect(4);
        assert!(ran.stderr.contains(&format!("--device {device} is not available")), "{ran:#?}");
        assert!(ran.stderr.contains("zellige machine show") && ran.stdout.is_empty(), "{ran:#?}");
    }
}

#[test]
fn wrong_options_are_found_first() {
    for (arguments, said) in [
        (&["--tile", "1000"][..], "--tile: 1000 is not a multiple of 16"),
        (&["--n", "0"], "--n"),
        (&["--precision", "fp99"], "fp99"),
    ] {
        let ran = without_gpus(arguments).expect(2);
        assert!(ran.stderr.contains(said), "{said}: {ran:#?}");
    }
}

#[test]
fn help_says_what_is_measured_and_how_it_ends() {
    let help = without_gpus(&["--help"]).expect(0).stdout;
    // The help may wrap anywhere.
    let help = help.split_whitespace().collect::<Vec<_>>().join(" ");
    for part in ["page-locked", "cuSOLVER", "30 %", "left out", "4 no GPU", "--quick", "x3,panel=x3"] {
        assert!(help.contains(part), "{part}: {help}");
    }
}
