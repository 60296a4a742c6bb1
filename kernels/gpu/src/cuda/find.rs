//! Search for CUDA's libraries outside the loader's path: toolkits in `/usr/local`, Python wheels,
//! a folder that the caller names.
//!
//! The bindings open libraries by name. They get one that is already loaded under its soname, so
//! every library that is found elsewhere is first loaded by its absolute path, and stays loaded.

use std::collections::BTreeSet;
use std::ffi::OsStr;
use std::path::{Path, PathBuf};
use std::sync::OnceLock;

use parking_lot::Mutex;

use super::probe;
use crate::info::Library;

/// The newest major version of CUDA whose libraries the bindings know.
const NEWEST: u32 = 13;
/// The oldest whose calls are those that are made here.
const OLDEST: u32 = 11;

/// The folder that the caller has named.
static NAMED: OnceLock<PathBuf> = OnceLock::new();
/// Files that were found and not taken, each with the reason.
static SKIPPED: Mutex<BTreeSet<String>> = Mutex::new(BTreeSet::new());

/// Searches for CUDA's libraries in this folder before all others. This affects only libraries that
/// were not searched for before: call it first.
///
/// # Errors
/// The path is no folder, or another folder was named before.
pub fn look_in(folder: &Path) -> Result<(), String> {
    let absolute = folder.canonicalize().map_err(|error| format!("{}: {error}", folder.display()))?;
    if !absolute.is_dir() {
        return Err(format!("{} is no folder", folder.display()));
    }
    let taken = NAMED.get_or_init(|| absolute.clone());
    if *taken == absolute { Ok(()) } else { Err(format!("{} is looked in already", taken.display())) }
}

/// The folder that [`look_in`] was given.
pub fn folder() -> Option<&'static Path> {
    NAMED.get().map(PathBuf::as_path)
}

/// Files of libraries that were found and not taken, each with the reason.
pub fn skipped() -> Vec<String> {
    SKIPPED.lock().iter().cloned().collect()
}

/// Returns the files from which a library was loaded: none if it was not, several if the process
/// has several versions of it.
pub fn loaded_from(library: Library) -> Vec<PathBuf> {
    let Some(stems) = stems(library) else { return Vec::new() };
    mapped(&std::fs::read_to_string("/proc/self/maps").unwrap_or_default(), stems)
}

/// Why the file that the loader took is of a version that does not work with this driver; `None`:
/// it is not.
pub(super) fn wrong_version(library: Library) -> Option<String> {
    let stem = if is_of_cuda(library) { stems(library)?[0] } else { return None };
    let newest = newest_usable();
    let wrong = |path: &PathBuf| {
        let version = suffix(path.file_name()?.to_str()?, stem)?;
        let major = cuda_major(stem, version.split('.').next()?.parse().ok()?);
        (!(OLDEST..=newest).contains(&major))
            .then(|| format!("{}: {}", path.display(), unsuitable(major, newest)))
    };
    loaded_from(library).iter().find_map(wrong)
}

fn unsuitable(major: u32, newest: u32) -> String {
    format!("of CUDA {major}, and those of CUDA {OLDEST} to {newest} work with this driver")
}

/// Returns true if a library belongs to the CUDA toolkit, and is searched for here. The others
/// belong to the driver or to a profiler.
pub(super) fn is_of_cuda(library: Library) -> bool {
    !matches!(library, Library::Driver | Library::Nvtx | Library::Nvml)
}

/// The parts between `lib` and `.so` of a library's files.
fn stems(library: Library) -> Option<&'static [&'static str]> {
    Some(match library {
        Library::Driver => &["cuda"],
        Library::Cublas => &["cublas"],
        Library::CublasLt => &["cublasLt"],
        Library::Cusolver => &["cusolver"],
        Library::Nvrtc => &["nvrtc"],
        Library::Nvtx => &["nvToolsExt", "nvtx3interop"],
        Library::Nvml => &["nvidia-ml"],
    })
}

/// Returns the files of these stems in the list of a process's mappings.
fn mapped(maps: &str, stems: &[&str]) -> Vec<PathBuf> {
    let path = |line: &str| line.find('/').map(|at| PathBuf::from(&line[at..]));
    let is_one = |path: &PathBuf| {
        let name = path.file_name().and_then(OsStr::to_str).unwrap_or_default();
        stems.iter().any(|stem| suffix(name, stem).is_some())
    };
    let found: BTreeSet<PathBuf> = maps.lines().filter_map(path).filter(is_one).collect();
    found.into_iter().collect()
}

/// Returns the version after `libSTEM.so` in a file's name; empty if there is none.
fn suffix<'n>(name: &'n str, stem: &str) -> Option<&'n str> {
    let rest = name.strip_prefix("lib")?.strip_prefix(stem)?.strip_prefix(".so")?;
    (rest.is_empty() || rest.starts_with('.')).then(|| rest.trim_start_matches('.'))
}

/// Loads the library and its dependencies from the folders in which they are found. If one is not
/// found here, the bindings report it later with their own message.
pub(super) fn preload(library: Library) {
    // The driver's libraries belong to its installation, and ranges to the profiler.
    let needed: &[&str] = match library {
        Library::Driver | Library::Nvtx | Library::Nvml => return,
        Library::Cublas => &["cublasLt", "cublas"],
        Library::CublasLt => &["cublasLt"],
        Library::Cusolver => &["nvJitLink", "cublasLt", "cublas", "cusparse", "cusolver"],
        Library::Nvrtc => &["nvrtc"],
    };
    let newest = newest_usable();
    if let Some(folder) = NAMED.get() {
        let there = folders_of(folder);
        if needed.iter().filter(|stem| load_first(&candidates(&there, stem), newest)).count() == needed.len()
        {
            return;
        }
    }
    if probe::is_present(library) {
        return;
    }
    let (toolkits, wheels) = (toolkits(Path::new("/usr/local")), wheels());
    for stem in needed {
        // A dependency may be where the loader finds it, or was loaded with another one.
        let _ = load_first(&candidates(&toolkits, stem), newest)
            || load_first(&candidates(&wheels, stem), newest);
    }
}

/// The newest major version of CUDA that driver and bindings take.
fn newest_usable() -> u32 {
    let driver = matches!(probe::state(Library::Driver), crate::LibraryState::There(_))
        .then(probe::driver_version)
        .flatten();
    driver.and_then(|version| u32::try_from(version / 1000).ok()).map_or(NEWEST, |major| major.min(NEWEST))
}

/// The major version of CUDA that a library belongs to, by the major version in its soname.
fn cuda_major(stem: &str, soname: u32) -> u32 {
    match stem {
        "cusolver" if soname >= 11 => soname + 1, // 11 came with CUDA 11 and 12, 12 with 13
        _ => soname,
    }
}

/// Files of a library in these folders whose names are a soname, the newest first.
fn candidates(folders: &[PathBuf], stem: &str) -> Vec<(PathBuf, u32)> {
    let mut found = Vec::new();
    for folder in folders {
        for file in std::fs::read_dir(folder).into_iter().flatten().flatten() {
            let name = file.file_name();
            let version = name.to_str().and_then(|name| suffix(name, stem));
            // `.so` alone is for linkers, `.so.13.0.2.14` is the target of the link `.so.13`; NVRTC
            // 11 is `.so.11.2`.
            let parts = version.map_or(0, |version| version.split('.').count());
            if !(parts == 1 || parts == 2 && stem == "nvrtc") {
                continue;
            }
            if let Some(major) = version.and_then(|version| version.split('.').next()?.parse().ok()) {
                found.push((file.path(), cuda_major(stem, major)));
            }
        }
    }
    found.sort_by(|a, b| b.1.cmp(&a.1).then_with(|| a.0.cmp(&b.0)));
    found.dedup();
    found
}

/// Loads the first that loads, of those that are not too new and not too old; the others are noted.
fn load_first(candidates: &[(PathBuf, u32)], newest: u32) -> bool {
    let skip = |path: &Path, why: String| {
        SKIPPED.lock().insert(format!("{}: {why}", path.display()));
    };
    for (path, major) in candidates {
        if !(OLDEST..=newest).contains(major) {
            skip(path, unsuitable(*major, newest));
            continue;
        }
        // SAFETY: NVIDIA's libraries may be loaded at any time; what runs then is their own set-up.
        // It is never unloaded.
        match unsafe { libloading::Library::new(path) } {
            Ok(library) => {
                std::mem::forget(library);
                return true;
            }
            Err(error) => skip(path, error.to_string()),
        }
    }
    false
}

/// Returns the folder itself, its `lib` and `lib64`, and the folders of wheels below it, since the
/// caller may have meant any of them.
fn folders_of(folder: &Path) -> Vec<PathBuf> {
    let mut all = vec![folder.to_path_buf(), folder.join("lib64"), folder.join("lib")];
    all.extend(below(folder, "").into_iter().map(|wheel| wheel.join("lib")));
    all.extend(below(&folder.join("nvidia"), "").into_iter().map(|wheel| wheel.join("lib")));
    all
}

/// Folders whose names begin so, the last of them first: a higher version comes before a lower one.
fn below(folder: &Path, prefix: &str) -> Vec<PathBuf> {
    let all = std::fs::read_dir(folder).into_iter().flatten().flatten();
    let begins = |name: &OsStr| name.to_str().is_some_and(|name| name.starts_with(prefix));
    let mut found: Vec<PathBuf> = all
        .filter(|entry| begins(&entry.file_name()))
        .map(|entry| entry.path())
        .filter(|path| path.is_dir())
        .collect();
    found.sort();
    found.reverse();
    found
}

/// Libraries of the toolkits in `/usr/local`.
fn toolkits(local: &Path) -> Vec<PathBuf> {
    below(local, "cuda").into_iter().map(|toolkit| toolkit.join("lib64")).collect()
}

/// Folders with libraries in the wheels of each `python3` on PATH, which is not run.
fn wheels() -> Vec<PathBuf> {
    let home = std::env::var_os("HOME").map(|home| PathBuf::from(home).join(".local"));
    wheels_on(&std::env::var_os("PATH").unwrap_or_default(), home.as_deref())
}

fn wheels_on(path: &OsStr, home: Option<&Path>) -> Vec<PathBuf> {
    let mut prefixes: Vec<PathBuf> = Vec::new();
    for python in
        std::env::split_paths(path).map(|folder| folder.join("python3")).filter(|file| file.exists())
    {
        // Of a virtual environment: its own packages, then those of the interpreter that it belongs
        // to.
        let real = python.canonicalize().unwrap_or_else(|_| python.clone());
        for file in [python, real] {
            prefixes.extend(file.parent().and_then(Path::parent).map(Path::to_path_buf));
        }
    }
    if !prefixes.is_empty() {
        prefixes.push("/usr/local".into()); // where Debian's interpreter puts what pip installs
        prefixes.extend(home.map(Path::to_path_buf));
    }
    let mut found = Vec::new();
    for prefix in prefixes {
        for python in ["lib", "lib64"].iter().flat_map(|lib| below(&prefix.join(lib), "python3")) {
            for packages in ["site-packages", "dist-packages"] {
                let wheels = below(&python.join(packages).join("nvidia"), "");
                found.extend(
                    wheels.into_iter().map(|wheel| wheel.join("lib")).filter(|folder| folder.is_dir()),
                );
            }
        }
    }
    let mut seen = BTreeSet::new();
    found.retain(|folder| seen.insert(folder.clone()));
    found
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_say_which_library_and_version() {
        assert_eq!(suffix("libcublas.so.13", "cublas"), Some("13"));
        assert_eq!(suffix("libcublas.so", "cublas"), Some(""));
        assert_eq!(suffix("libcublasLt.so.13", "cublas"), None);
        assert_eq!(suffix("libcublas.sore", "cublas"), None);
        assert_eq!(cuda_major("cusolver", 11), 12);
        assert_eq!(cuda_major("cublas", 12), 12);
    }

    #[test]
    fn what_is_mapped_tells_where_a_library_came_from() {
        let maps = "\
7f00-7f01 r-xp 00000000 08:01 12 /opt/nvidia/cu13/lib/libcublas.so.13
7f01-7f02 r--p 00000000 08:01 12 /opt/nvidia/cu13/lib/libcublas.so.13
7f02-7f03 r--p 00000000 08:01 13 /opt/nvidia/cu13/lib/libcublasLt.so.13
7f03-7f04 rw-p 00000000 00:00 0 [heap]
";
        assert_eq!(mapped(maps, &["cublas"]), [PathBuf::from("/opt/nvidia/cu13/lib/libcublas.so.13")]);
        assert_eq!(mapped(maps, &["cusolver"]), [] as [PathBuf; 0]);
    }

    #[test]
    fn wheels_of_every_interpreter_are_found_and_the_newest_come_first() {
        let root = tempfile::tempdir().unwrap();
        let make = |path: &str| {
            let path = root.path().join(path);
            std::fs::create_dir_all(path.parent().unwrap()).unwrap();
            std::fs::write(path, "").unwrap();
        };
        for file in [
            "venv/bin/python3",
            "venv/lib/python3.12/site-packages/nvidia/cu13/lib/libcublas.so.13",
            "venv/lib/python3.12/site-packages/nvidia/cublas/lib/libcublas.so.12",
            "venv/lib/python3.12/site-packages/nvidia/cublas/lib/libcublas.so",
            "venv/lib/python3.12/site-packages/nvidia/cublas/lib/libcublas.so.12.9.1",
            "venv/lib/python3.12/site-packages/nvidia/cuda_nvrtc/lib/libnvrtc.so.11.2",
            "usr/local/cuda-12.4/lib64/libcublas.so.12",
            "usr/local/cuda-13.0/lib64/libcublas.so.13",
        ] {
            make(file);
        }
        let path = root.path().join("venv/bin");
        let folders = wheels_on(path.as_os_str(), None);
        let names = |found: Vec<(PathBuf, u32)>| {
            let name = |(path, major): (PathBuf, u32)| {
                (path.strip_prefix(root.path()).unwrap().to_str().unwrap().to_string(), major)
            };
            found.into_iter().map(name).collect::<Vec<_>>()
        };
        let wheel = |file: &str| format!("venv/lib/python3.12/site-packages/nvidia/{file}");
        assert_eq!(
            names(candidates(&folders, "cublas")),
            [(wheel("cu13/lib/libcublas.so.13"), 13), (wheel("cublas/lib/libcublas.so.12"), 12)]
        );
        assert_eq!(names(candidates(&folders, "nvrtc")), [(wheel("cuda_nvrtc/lib/libnvrtc.so.11.2"), 11)]);
        assert!(wheels_on(root.path().join("nowhere").as_os_str(), None).is_empty());
        let toolkits = toolkits(&root.path().join("usr/local"));
        assert_eq!(toolkits[0], root.path().join("usr/local/cuda-13.0/lib64"));
        // One is too new for the driver, the other is no library: both are reported.
        assert!(!load_first(&candidates(&folders, "cublas"), 12));
        let said = skipped().join("\n");
        assert!(
            said.contains("libcublas.so.13: of CUDA 13, and those of CUDA 11 to 12 work with this driver"),
            "{said}"
        );
        assert!(said.contains("cublas/lib/libcublas.so.12: "), "{said}");
    }

    #[test]
    fn a_folder_that_is_none_is_refused() {
        let error = look_in(Path::new("/nowhere/at/all")).unwrap_err();
        assert!(error.contains("/nowhere/at/all"), "{error}");
    }
}
