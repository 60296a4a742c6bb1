//! PTX of all sources in one compressed file, for machines without NVRTC.
//!
//! The file is the PTX of each source after a line that names the source and its hash, as gzip.
//! `scripts/ptx` makes it.

use std::fs::File;
use std::io::Read;
use std::path::{Path, PathBuf};

use flate2::read::GzDecoder;

use super::Source;

/// File name of the archive.
pub const ARCHIVE: &str = "zellige-kernels.ptx.gz";

/// Beginning of every line that names a source.
const MARK: &str = "// zellige kernels of ";
/// An archive that is larger than this is not read to its end (bytes, not compressed).
const LARGEST: u64 = 256 << 20;

impl Source {
    /// The line before this source's PTX in an archive.
    pub fn ptx_header(&self) -> String {
        format!("{MARK}{} {:016x}\n", self.name, self.hash())
    }
}

/// PTX of a source from the first of these folders that has an archive.
///
/// # Errors
/// No folder has one, it cannot be read, or it was made of other sources; in words, with a remedy.
pub(super) fn ptx(source: &Source, folders: &[PathBuf]) -> Result<Vec<u8>, String> {
    let Some(file) = folders.iter().map(|folder| folder.join(ARCHIVE)).find(|file| file.is_file()) else {
        let folders: Vec<String> = folders.iter().map(|folder| folder.display().to_string()).collect();
        return Err(format!("there is no {ARCHIVE} in {} (scripts/ptx makes one)", folders.join(" or ")));
    };
    let text = text(&file).map_err(|error| format!("{}: {error}", file.display()))?;
    let header = source.ptx_header();
    let Some((_, rest)) = text.split_once(&header) else {
        let name = source.name;
        return Err(format!(
            "{} has not these kernels of {name}: make it anew with scripts/ptx",
            file.display()
        ));
    };
    let ptx = rest.split_once(MARK).map_or(rest, |(ptx, _)| ptx);
    Ok(ptx.as_bytes().to_vec())
}

fn text(file: &Path) -> std::io::Result<String> {
    let mut text = String::new();
    GzDecoder::new(File::open(file)?).take(LARGEST).read_to_string(&mut text)?;
    Ok(text)
}

/// Returns true if there is an archive, so that kernels can be loaded without NVRTC.
pub fn is_archived() -> bool {
    folders().iter().any(|folder| folder.join(ARCHIVE).is_file())
}

/// The folders where an archive is looked for: the one that the caller has named, and that of the
/// program.
pub(super) fn folders() -> Vec<PathBuf> {
    let program = std::env::current_exe().ok().and_then(|file| file.parent().map(Path::to_path_buf));
    crate::cuda::folder().map(Path::to_path_buf).into_iter().chain(program).collect()
}

#[cfg(test)]
mod tests {
    use std::io::Write;

    use flate2::Compression;
    use flate2::write::GzEncoder;

    use super::*;

    const ONE: Source = Source { name: "one", text: "the first", kernels: &[] };
    const TWO: Source = Source { name: "two", text: "the second", kernels: &[] };

    #[test]
    fn each_source_has_its_own_ptx() {
        let folder = tempfile::tempdir().unwrap();
        let folders = [folder.path().join("none"), folder.path().to_path_buf()];
        let missing = ptx(&ONE, &folders).unwrap_err();
        assert!(missing.contains(ARCHIVE) && missing.contains("scripts/ptx"), "{missing}");

        let content = format!("{}.version 1\n{}.version 2\n", ONE.ptx_header(), TWO.ptx_header());
        let mut file = GzEncoder::new(Vec::new(), Compression::default());
        file.write_all(content.as_bytes()).unwrap();
        let bytes = file.finish().unwrap();
        let path = folder.path().join(ARCHIVE);
        std::fs::write(&path, &bytes).unwrap();
        assert_eq!(ptx(&ONE, &folders).unwrap(), b".version 1\n");
        assert_eq!(ptx(&TWO, &folders).unwrap(), b".version 2\n");
        let other = ptx(&Source { text: "changed", ..ONE }, &folders).unwrap_err();
        assert!(other.contains("has not these kernels of one"), "{other}");

        std::fs::write(&path, &bytes[..bytes.len() / 2]).unwrap();
        let broken = ptx(&TWO, &folders).unwrap_err();
        assert!(broken.contains(&path.display().to_string()), "{broken}");
    }
}
