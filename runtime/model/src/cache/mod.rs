//! The models of one machine in a file.
//!
//! A file names the devices and the build of the kernels of its measurements. A file that was
//! measured for others is not trusted; one that cannot be parsed is an error with its path. No file
//! is ever half-written: it appears under its name when it is complete.

use std::collections::BTreeMap;
use std::ffi::OsString;
use std::fs::File;
use std::io::{self, Read, Write};
use std::path::{Path, PathBuf};

use serde::{Deserialize, Serialize};

use super::history::RING;
use super::table::Footprint;
use super::{Identity, LinkModel, Models};

/// Version of the file format; files of other versions are stale.
const FORMAT: u32 = 2;
/// Maximum size of a file that is read (bytes).
const LARGEST: u64 = 64 << 20;
/// Number of stored samples of a footprint: they give as good an estimate as all of them, and new
/// ones soon outvote them.
const STORED: usize = 15;

/// Contents of a file of models.
#[derive(Debug)]
pub enum Loaded {
    /// Models of these devices and this build.
    Fresh(Models),
    /// The file was measured for others: calibrate again.
    Stale {
        /// Description of the difference.
        why: String,
    },
    /// There is no file.
    Absent,
}

/// Error for a file of models that cannot be read, parsed or written.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum CacheError {
    /// Neither variable names a folder.
    #[error("there is no folder for caches: set XDG_CACHE_HOME or HOME to an absolute path")]
    NoFolder,
    /// A system call failed.
    #[error("{}: cannot {what} the performance models: {cause}", path.display())]
    Io {
        /// The file.
        path: PathBuf,
        /// The attempted operation.
        what: &'static str,
        /// Error of the system.
        cause: io::Error,
    },
    /// The file is no file of models.
    #[error("{}: this is no file of performance models ({why}): remove it and calibrate again", path.display())]
    Corrupt {
        /// The file.
        path: PathBuf,
        /// The first error in its contents.
        why: String,
    },
}

/// Returns the path of the models of this host: `zellige/models-<host>.json` in `$XDG_CACHE_HOME`,
/// or in `~/.cache`.
///
/// # Errors
/// [`CacheError::NoFolder`].
pub fn default_path() -> Result<PathBuf, CacheError> {
    let host = rustix::system::uname().nodename().to_string_lossy().into_owned();
    path_in(std::env::var_os("XDG_CACHE_HOME"), std::env::var_os("HOME"), &host)
}

/// Applies the XDG base directory specification: relative paths are not valid.
fn path_in(xdg: Option<OsString>, home: Option<OsString>, host: &str) -> Result<PathBuf, CacheError> {
    let absolute = |path: OsString| Some(PathBuf::from(path)).filter(|path| path.is_absolute());
    let caches = xdg.and_then(absolute).or_else(|| Some(home.and_then(absolute)?.join(".cache")));
    let plain = |c: char| if c.is_ascii_alphanumeric() || "-_.".contains(c) { c } else { '_' };
    let host: String = host.chars().map(plain).collect();
    Ok(caches.ok_or(CacheError::NoFolder)?.join("zellige").join(format!("models-{host}.json")))
}

/// The part of a file that determines whether the rest can be parsed.
#[derive(Deserialize)]
struct Head {
    format: u32,
}

#[derive(Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
struct Content {
    format: u32,
    build: String,
    devices: BTreeMap<String, String>,
    models: Vec<SavedModel>,
    links: Vec<SavedLink>,
}

#[derive(Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
struct SavedModel {
    codelet: String,
    implementation: String,
    kind: String,
    label: String,
    shape: [u32; 3],
    flops: f64,
    bytes: u64,
    samples: u64,
    times_ns: Vec<u64>,
}

#[derive(Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
struct SavedLink {
    from: String,
    to: String,
    bytes_per_second: f64,
    latency_seconds: f64,
}

impl Models {
    /// Reads the models saved in `path`, if they are those of `identity`. Devices that only one of
    /// the two has do not matter: an absent GPU keeps its models.
    ///
    /// # Errors
    /// [`CacheError::Io`], [`CacheError::Corrupt`].
    pub fn load(path: &Path, identity: &Identity) -> Result<Loaded, CacheError> {
        let failed = |cause| CacheError::Io { path: path.into(), what: "read", cause };
        let file = match File::open(path) {
            Ok(file) => file,
            Err(e) if e.kind() == io::ErrorKind::NotFound => return Ok(Loaded::Absent),
            Err(e) => return Err(failed(e)),
        };
        let mut bytes = Vec::new();
        file.take(LARGEST + 1).read_to_end(&mut bytes).map_err(failed)?;
        parse(&bytes, identity).map_err(|why| CacheError::Corrupt { path: path.into(), why })
    }

    /// Writes the models to `path`, and creates its folder. The file is complete or absent.
    ///
    /// # Errors
    /// [`CacheError::Io`].
    pub fn save(&self, path: &Path, identity: &Identity) -> Result<(), CacheError> {
        let failed = |cause| CacheError::Io { path: path.into(), what: "save", cause };
        let folder = path.parent().filter(|folder| !folder.as_os_str().is_empty()).unwrap_or(Path::new("."));
        std::fs::create_dir_all(folder).map_err(failed)?;
        let mut file = tempfile::NamedTempFile::new_in(folder).map_err(failed)?;
        let text = serde_json::to_vec(&self.content(identity)).map_err(|e| failed(e.into()))?;
        file.write_all(&text).and_then(|()| file.as_file().sync_all()).map_err(failed)?;
        file.persist(path).map_err(|e| failed(e.error))?;
        Ok(())
    }

    /// Returns the models of the selected kinds of devices, and of links with a selected end.
    pub fn only(&self, keep: impl Fn(&str) -> bool) -> Models {
        let (mut models, mut links) = self.saved();
        models.retain(|model| keep(&model.kind));
        links.retain(|link| keep(&link.from) || keep(&link.to));
        Models::restore(&models, &links).expect("what models hold can be restored")
    }

    fn content(&self, identity: &Identity) -> Content {
        let (models, links) = self.saved();
        let (build, devices) = (identity.build.clone(), identity.devices.clone());
        Content { format: FORMAT, build, devices, models, links }
    }

    fn saved(&self) -> (Vec<SavedModel>, Vec<SavedLink>) {
        let kinds = self.kinds.read().clone();
        let mut models = Vec::new();
        for entry in self.table.entries() {
            let footprint = entry.footprint();
            for (kind, cell) in entry.cells.iter() {
                let known = cell.summary();
                let Some(kind) = kinds.get(kind.0 as usize).filter(|_| known.count > 0) else {
                    continue;
                };
                models.push(SavedModel {
                    codelet: footprint.codelet.into(),
                    implementation: footprint.implementation.into(),
                    kind: kind.clone(),
                    label: footprint.label.into(),
                    shape: footprint.shape,
                    flops: known.flops,
                    bytes: known.bytes,
                    samples: known.count,
                    times_ns: thinned(&known.sorted),
                });
            }
        }
        let link = |(from, to, link): (String, String, LinkModel)| SavedLink {
            from,
            to,
            bytes_per_second: link.bandwidth(),
            latency_seconds: link.latency(),
        };
        (models, self.links().into_iter().map(link).collect())
    }

    fn restore(of: &[SavedModel], links: &[SavedLink]) -> Result<Models, String> {
        let models = Models::new();
        for (at, saved) in of.iter().enumerate() {
            let times = saved.times_ns.len();
            let sound = (1..=RING).contains(&times) && saved.samples >= times as u64 && saved.flops >= 0.0;
            if !sound {
                return Err(format!(
                    "model {at} ({} {}): 1 to {RING} times, no fewer samples, and flops from 0 on are needed",
                    saved.codelet, saved.label
                ));
            }
            let SavedModel { codelet, implementation, label, .. } = saved;
            let footprint = Footprint::of(codelet, implementation, label, saved.shape, saved.flops);
            let number = models.table.number(footprint).ok_or("there are more models than can be kept")?;
            let entry = models.table.get(number).ok_or("a footprint with a number is there")?;
            let kind = models.kind(&saved.kind);
            entry.cells.get_or_insert(kind).restore(saved.flops, saved.bytes, saved.samples, &saved.times_ns);
            entry.family.count(kind, times);
        }
        for saved in links {
            let link = LinkModel::new(saved.bytes_per_second, saved.latency_seconds)
                .map_err(|e| format!("link from {} to {}: {e}", saved.from, saved.to))?;
            models.set_link(&saved.from, &saved.to, link);
        }
        Ok(models)
    }
}

/// Selects the middle of each fifteenth of the sorted times: the median is among them, and their
/// mean is that of all.
fn thinned(sorted: &[u64]) -> Vec<u64> {
    if sorted.len() <= STORED {
        return sorted.to_vec();
    }
    (0..STORED).map(|i| sorted[(2 * i + 1) * sorted.len() / (2 * STORED)]).collect()
}

/// Parses the models in a file's bytes, or returns the error.
fn parse(bytes: &[u8], identity: &Identity) -> Result<Loaded, String> {
    if bytes.len() as u64 > LARGEST {
        return Err(format!("it is larger than {LARGEST} bytes"));
    }
    let head: Head = serde_json::from_slice(bytes).map_err(|e| e.to_string())?;
    if head.format != FORMAT {
        return Ok(Loaded::Stale {
            why: format!("it has format {}, this version writes {FORMAT}", head.format),
        });
    }
    let content: Content = serde_json::from_slice(bytes).map_err(|e| e.to_string())?;
    if let Some(why) = difference(&content, identity) {
        return Ok(Loaded::Stale { why });
    }
    Models::restore(&content.models, &content.links).map(Loaded::Fresh)
}

fn difference(content: &Content, identity: &Identity) -> Option<String> {
    if content.build != identity.build {
        return Some(format!("measured with build {:?}, this is {:?}", content.build, identity.build));
    }
    content.devices.iter().find_map(|(kind, then)| {
        let now = identity.devices.get(kind).filter(|now| *now != then)?;
        Some(format!("measured on {kind} {then:?}, this is {now:?}"))
    })
}

#[cfg(test)]
mod tests;
