//! Compilation of kernels from source at run time, with a cache of the images.

use std::ffi::OsString;
use std::io::Write;
use std::path::{Path, PathBuf};

use crate::cuda::nvrtc;
use crate::error::GpuError;

/// First line of a file in the cache; the layout's number is in it.
const MAGIC: &[u8; 16] = b"zellige kernel 1";
/// Larger files are not read [B].
const LARGEST: u64 = 256 << 20;

/// Compiles CUDA C++ with NVRTC, which needs no GPU, and caches the images in a folder.
///
/// The key of an image consists of its source, its name, the architecture, the options and NVRTC's
/// version, all of which are in its file. A file appears under its name only when it is complete,
/// and a damaged one is compiled again. A folder that cannot be written costs only time. Files that
/// a source includes are not part of the key: when they change, `name` or an option has to change.
/// The system's loader finds NVRTC: name its folder in `LD_LIBRARY_PATH`.
#[derive(Clone, Debug)]
pub struct Compiler {
    /// `None`: nothing is kept.
    folder: Option<PathBuf>,
    options: Vec<String>,
}

impl Default for Compiler {
    fn default() -> Compiler {
        Compiler::new()
    }
}

impl Compiler {
    /// Keeps images in `zellige/kernels` in `$XDG_CACHE_HOME`, or in `~/.cache`; nowhere where
    /// neither variable names an absolute folder.
    pub fn new() -> Compiler {
        let folder = folder_in(std::env::var_os("XDG_CACHE_HOME"), std::env::var_os("HOME"));
        Compiler { folder, options: Vec::new() }
    }

    /// Keeps images in this folder, which is created when it is needed.
    #[must_use]
    pub fn folder(mut self, folder: impl Into<PathBuf>) -> Compiler {
        self.folder = Some(folder.into());
        self
    }

    /// Keeps nothing.
    #[must_use]
    pub fn uncached(mut self) -> Compiler {
        self.folder = None;
        self
    }

    /// Adds an option for NVRTC, e.g. `--fmad=false`. The architecture is an argument of
    /// [`compile`](Compiler::compile).
    #[must_use]
    pub fn option(mut self, option: &str) -> Compiler {
        self.options.push(option.into());
        self
    }

    /// Returns the image of a source, ready for [`Driver::load`](crate::Driver::load): CUBIN for a
    /// real architecture (`sm_90`), PTX for a virtual one (`compute_90`). `name` names the source
    /// in messages.
    ///
    /// # Errors
    /// [`GpuError::Missing`] without NVRTC, even if the image is cached; [`GpuError::Compile`] with
    /// the output of the compiler.
    pub fn compile(&self, name: &str, source: &str, arch: &str) -> Result<Vec<u8>, GpuError> {
        let (major, minor) = nvrtc::version()?;
        let key = key(name, source, arch, &self.options, &format!("{major}.{minor}"));
        let file = self.folder.as_ref().map(|folder| folder.join(file_name(name, arch, &key)));
        if let Some(image) = file.as_deref().and_then(|file| read(file, &key)) {
            return Ok(image);
        }
        let image = nvrtc::compile(name, source, arch, &self.options)?;
        if let Some(file) = &file {
            // The image is there whether it can be kept or not.
            let _ = write(file, &key, &image);
        }
        Ok(image)
    }
}

/// Returns the cache folder by the XDG base directory specification: relative paths are not valid.
fn folder_in(xdg: Option<OsString>, home: Option<OsString>) -> Option<PathBuf> {
    let absolute = |path: OsString| Some(PathBuf::from(path)).filter(|path| path.is_absolute());
    let caches = xdg.and_then(absolute).or_else(|| Some(home.and_then(absolute)?.join(".cache")));
    Some(caches?.join("zellige").join("kernels"))
}

/// Returns the key of an image: everything that it depends on, each part preceded by its length.
fn key(name: &str, source: &str, arch: &str, options: &[String], version: &str) -> Vec<u8> {
    let parts = [name, source, arch, version].into_iter().chain(options.iter().map(String::as_str));
    parts.flat_map(|part| (part.len() as u64).to_le_bytes().into_iter().chain(part.bytes())).collect()
}

/// FNV-1a of 64 bits (Fowler, Noll, Vo). The file has the whole key of its image, so that a
/// collision costs only a compilation.
fn hash(bytes: &[u8]) -> u64 {
    bytes
        .iter()
        .fold(0xcbf2_9ce4_8422_2325, |hash, byte| (hash ^ u64::from(*byte)).wrapping_mul(0x0100_0000_01b3))
}

fn file_name(name: &str, arch: &str, key: &[u8]) -> String {
    let plain = |c: char| if c.is_ascii_alphanumeric() || "-_".contains(c) { c } else { '_' };
    let short = |text: &str| text.chars().take(40).map(plain).collect::<String>();
    format!("{}-{}-{:016x}.image", short(name), short(arch), hash(key))
}

/// Returns the contents of a file: the magic line, the lengths and hash of the rest, the key, the
/// image.
fn packed(key: &[u8], image: &[u8]) -> Vec<u8> {
    let body = [key, image].concat();
    let head = [key.len() as u64, image.len() as u64, hash(&body)].map(u64::to_le_bytes).concat();
    [MAGIC.as_slice(), &head, &body].concat()
}

/// The image in a file's bytes, if they are whole and of this key.
fn unpacked(bytes: &[u8], key: &[u8]) -> Option<Vec<u8>> {
    let rest = bytes.strip_prefix(MAGIC.as_slice())?;
    let (head, body) = rest.split_at_checked(24)?;
    let number = |i: usize| head[8 * i..8 * i + 8].try_into().map(u64::from_le_bytes).ok();
    let lengths = (usize::try_from(number(0)?).ok()?, usize::try_from(number(1)?).ok()?);
    if lengths.0.checked_add(lengths.1)? != body.len() || hash(body) != number(2)? {
        return None;
    }
    Some(body.strip_prefix(key)?.to_vec()).filter(|image| image.len() == lengths.1)
}

fn read(file: &Path, key: &[u8]) -> Option<Vec<u8>> {
    let small = std::fs::metadata(file).is_ok_and(|meta| meta.is_file() && meta.len() <= LARGEST);
    unpacked(&small.then(|| std::fs::read(file).ok()).flatten()?, key)
}

fn write(file: &Path, key: &[u8], image: &[u8]) -> std::io::Result<()> {
    let folder = file.parent().unwrap_or(Path::new("."));
    std::fs::create_dir_all(folder)?;
    let mut whole = tempfile::NamedTempFile::new_in(folder)?;
    whole.write_all(&packed(key, image))?;
    whole.as_file().sync_all()?;
    whole.persist(file).map_err(|e| e.error)?;
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn images_lie_where_the_models_do() {
        let of = |xdg: Option<&str>, home: Option<&str>| folder_in(xdg.map(Into::into), home.map(Into::into));
        assert_eq!(of(Some("/x"), Some("/h")), Some("/x/zellige/kernels".into()));
        assert_eq!(of(Some("x"), Some("/h")), Some("/h/.cache/zellige/kernels".into()));
        assert_eq!(of(None, Some("h")), None);
    }

    #[test]
    fn every_part_of_a_key_counts() {
        let of = |name, source, arch, options: &[&str], version| {
            let options: Vec<String> = options.iter().map(|option| String::from(*option)).collect();
            key(name, source, arch, &options, version)
        };
        let all = [
            of("n", "s", "a", &["o"], "v"),
            of("x", "s", "a", &["o"], "v"),
            of("n", "x", "a", &["o"], "v"),
            of("n", "s", "x", &["o"], "v"),
            of("n", "s", "a", &["x"], "v"),
            of("n", "s", "a", &["o"], "x"),
            of("n", "s", "a", &[], "v"),
            of("ns", "", "a", &["o"], "v"),
        ];
        for (i, one) in all.iter().enumerate() {
            assert!(all[..i].iter().all(|other| other != one));
        }
    }

    proptest! {
        #[test]
        fn a_file_is_whole_or_not_taken(
            key in prop::collection::vec(any::<u8>(), 0..50),
            image in prop::collection::vec(any::<u8>(), 0..100),
            at: prop::sample::Index,
            flip in 1u8..,
        ) {
            let bytes = packed(&key, &image);
            prop_assert_eq!(unpacked(&bytes, &key), Some(image));
            let mut damaged = bytes.clone();
            damaged[at.index(bytes.len())] ^= flip;
            prop_assert_eq!(unpacked(&damaged, &key), None);
            prop_assert_eq!(unpacked(&bytes[..at.index(bytes.len())], &key), None);
            let other: Vec<u8> = key.iter().map(|byte| byte ^ 1).chain([0]).collect();
            prop_assert_eq!(unpacked(&bytes, &other), None);
        }
    }
}
