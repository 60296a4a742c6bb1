//! Kernels are compiled by the NVRTC of this machine, if it has one.

use std::path::Path;
use std::time::Instant;

use zellige_gpu::{Compiler, GpuError, Library};

const SOURCE: &str = r#"
extern "C" __global__ void scale(float *x, float factor, int n) {
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i < n) x[i] *= factor;
}
"#;

/// Returns the image, or `None`, with a printed line, if there is no NVRTC.
fn compile(compiler: &Compiler, source: &str, arch: &str) -> Option<Result<Vec<u8>, GpuError>> {
    match compiler.compile("scale.cu", source, arch) {
        Err(error @ GpuError::Missing { library: Library::Nvrtc, .. }) => {
            println!("skipped: {error}");
            None
        }
        result => Some(result),
    }
}

fn files(folder: &Path) -> Vec<std::path::PathBuf> {
    std::fs::read_dir(folder)
        .map(|files| files.map(|file| file.unwrap().path()).collect())
        .unwrap_or_default()
}

#[test]
fn real_architectures_give_cubin_and_virtual_ones_ptx() {
    let compiler = Compiler::new().uncached();
    for arch in ["sm_80", "sm_90"] {
        let Some(image) = compile(&compiler, SOURCE, arch) else { return };
        assert_eq!(image.unwrap()[..4], *b"\x7fELF");
    }
    let ptx = compile(&compiler, SOURCE, "compute_80").unwrap().unwrap();
    let ptx = String::from_utf8(ptx).unwrap();
    assert!(ptx.contains(".target sm_80") && ptx.contains(".entry scale"), "{ptx}");
}

#[test]
fn a_mistake_is_told_with_its_line() {
    let compiler = Compiler::new().uncached();
    let Some(result) = compile(&compiler, "extern \"C\" __global__ void f() {\n  int x = y;\n}", "sm_80")
    else {
        return;
    };
    let error = result.unwrap_err().to_string();
    for word in ["scale.cu", "sm_80", "(2)", "\"y\" is undefined"] {
        assert!(error.contains(word), "{word} is not in: {error}");
    }
    for (source, arch, options) in
        [(SOURCE, "sm_1", ""), ("a\0b", "sm_80", ""), (SOURCE, "sm_80", "--no-such-option")]
    {
        let compiler = if options.is_empty() { compiler.clone() } else { compiler.clone().option(options) };
        let error = compile(&compiler, source, arch).unwrap().unwrap_err();
        assert!(matches!(&error, GpuError::Compile { log, .. } if !log.is_empty()), "{error}");
    }
}

#[test]
fn images_are_kept_and_damaged_ones_are_made_again() {
    let folder = tempfile::tempdir().unwrap();
    let compiler = Compiler::new().folder(folder.path().join("new"));
    let start = Instant::now();
    let Some(first) = compile(&compiler, SOURCE, "sm_80") else { return };
    let (first, took) = (first.unwrap(), start.elapsed());
    let kept = files(&folder.path().join("new"));
    assert_eq!(kept.len(), 1);

    // The contents of the file are returned, even if the compiler would produce others now.
    let whole = std::fs::read(&kept[0]).unwrap();
    let start = Instant::now();
    assert_eq!(compile(&compiler, SOURCE, "sm_80").unwrap().unwrap(), first);
    println!("compiled in {took:?}, read in {:?}", start.elapsed());

    for damaged in [&whole[..whole.len() / 2], b"", b"something else"] {
        std::fs::write(&kept[0], damaged).unwrap();
        assert_eq!(compile(&compiler, SOURCE, "sm_80").unwrap().unwrap(), first);
        assert_eq!(std::fs::read(&kept[0]).unwrap(), whole);
    }
    // Another architecture, source or option is another image.
    compile(&compiler, SOURCE, "sm_90").unwrap().unwrap();
    compile(&compiler, &SOURCE.replace("*=", "+="), "sm_80").unwrap().unwrap();
    compile(&compiler.clone().option("--fmad=false"), SOURCE, "sm_80").unwrap().unwrap();
    assert_eq!(files(&folder.path().join("new")).len(), 4);
}

#[test]
fn a_folder_that_cannot_be_is_no_hindrance() {
    let file = tempfile::NamedTempFile::new().unwrap();
    let compiler = Compiler::new().folder(file.path().join("below a file"));
    if let Some(image) = compile(&compiler, SOURCE, "sm_80") {
        image.unwrap();
    }
}

#[test]
fn without_the_library_it_is_missing_and_nothing_panics() {
    match Compiler::new().uncached().compile("empty.cu", "", "sm_80") {
        Ok(image) => assert_eq!(image[..4], *b"\x7fELF"),
        Err(error) => {
            let text = error.to_string();
            assert!(text.contains("NVRTC is not usable") && text.contains("LD_LIBRARY_PATH"), "{text}");
        }
    }
}
