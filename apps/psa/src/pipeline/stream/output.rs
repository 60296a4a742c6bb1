//! Output of hits: frames of [`mode2`].

use std::fs::{File, OpenOptions};
use std::io::{self, BufWriter, Seek, SeekFrom, Write};
use std::path::{Path, PathBuf};

use zellige_files::Destination;

use super::journal::Journal;
use super::source::Mark;
use crate::Error;
use crate::files::geb::{HEADER, mode2, write_frame};
use crate::files::{not_written, unseal};
use crate::search::{Answer, LocatedHit};

/// Output of frames with the hits of events. A file has its name when it is complete; until then it
/// is `NAME.part`, with a [`Journal`] next to it.
pub struct Output<'a> {
    to: BufWriter<Box<dyn Write + 'a>>,
    file: Option<Kept>,
    payload: Vec<u8>,
    /// Time between samples (ns).
    step: f64,
}

/// State of an output file.
struct Kept {
    path: PathBuf,
    part: PathBuf,
    file: File,
    journal: Journal,
}

impl std::fmt::Debug for Output<'_> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "Output({:?})", self.file.as_ref().map(|kept| &kept.path))
    }
}

impl<'a> Output<'a> {
    /// Creates an output to a stream; samples are `step` apart (ns).
    pub fn stream(to: impl Write + 'a, step: f64) -> Output<'a> {
        Output { to: BufWriter::new(Box::new(to)), file: None, payload: Vec::new(), step }
    }

    /// Creates an output to a file, for an input of this name that cannot be resumed. The output of
    /// an earlier run is discarded.
    ///
    /// # Errors
    /// [`Error::File`] if the file cannot be written.
    pub fn anew(path: &Path, input: &str, step: f64) -> Result<Output<'a>, Error> {
        let to = Destination::new(path).map_err(|error| not_written(path, error))?;
        unseal(&Journal::path(to.path()))?;
        Ok(Output::file(path, input, step)?.0)
    }

    /// Creates an output to a file, for an input of this name, and returns the input position of an
    /// earlier run, whose output is kept. Links are followed; a device or a pipe receives the hits
    /// immediately.
    ///
    /// # Errors
    /// [`Error::File`] if the file cannot be written; [`Error::Text`] if the earlier run read
    /// another input, or its output is missing.
    pub fn file(path: &Path, input: &str, step: f64) -> Result<(Output<'a>, Mark), Error> {
        let to = Destination::new(path).map_err(|error| not_written(path, error))?;
        let path = to.path();
        if !to.is_regular() {
            let cannot = |source| Error::system(path, "cannot write", source);
            let to = OpenOptions::new().write(true).open(path).map_err(cannot)?;
            return Ok((Output::stream(to, step), Mark::default()));
        }
        let part = part_of(path);
        let cannot = |source| Error::system(&part, "cannot write", source);
        let earlier = Journal::read(path)?;
        if let Some(earlier) = &earlier {
            check(path, &part, earlier, input)?;
        }
        // Without a commit the partial file is of no use to a later run.
        if earlier.is_none() {
            zellige_files::remove_if_abandoned(&part).map_err(cannot)?;
        }
        let journal = earlier.unwrap_or_else(|| Journal::new(input));
        let mut file =
            OpenOptions::new().create(true).truncate(false).write(true).open(&part).map_err(cannot)?;
        file.set_len(journal.written).map_err(cannot)?;
        file.seek(SeekFrom::Start(journal.written)).map_err(cannot)?;
        let to = Box::new(file.try_clone().map_err(cannot)?);
        let mark = Mark { offset: journal.offset, frames: journal.frames };
        let kept = Kept { path: path.to_owned(), part, file, journal };
        Ok((
            Output { to: BufWriter::with_capacity(1 << 18, to), file: Some(kept), payload: Vec::new(), step },
            mark,
        ))
    }

    /// Writes the hits of an event.
    ///
    /// # Errors
    /// [`Error::File`] or [`Error::Stream`] if the output fails.
    pub fn answer(&mut self, answer: &Answer, crystal: i32, is_broken: bool) -> Result<(), Error> {
        decomposed(answer, crystal, is_broken, self.step).put(&mut self.payload)?;
        let written = write_frame(&mut self.to, mode2::KIND, answer.timestamp / 10, &self.payload);
        written.map_err(|e| self.cannot(e))?;
        if let Some(kept) = &mut self.file {
            kept.journal.written += (HEADER + self.payload.len()) as u64;
        }
        Ok(())
    }

    /// Synchronises the output to disk, and records the input position in the journal.
    ///
    /// # Errors
    /// [`Error::File`] or [`Error::Stream`] if the output fails.
    pub fn commit(&mut self, mark: Mark) -> Result<(), Error> {
        self.to.flush().map_err(|e| self.cannot(e))?;
        let Some(kept) = &mut self.file else { return Ok(()) };
        let cannot = |source| Error::system(&kept.part, "cannot write", source);
        kept.file.sync_data().map_err(cannot)?;
        (kept.journal.offset, kept.journal.frames) = (mark.offset, mark.frames);
        kept.journal.write(&kept.path)?;
        zellige_files::keep(&kept.part);
        Ok(())
    }

    /// Flushes the output and gives a file its final name.
    ///
    /// # Errors
    /// [`Error::File`] or [`Error::Stream`] if the output fails.
    pub fn finish(mut self) -> Result<(), Error> {
        self.to.flush().map_err(|e| self.cannot(e))?;
        let Some(kept) = self.file else { return Ok(()) };
        let cannot = |source| Error::system(&kept.path, "cannot finish", source);
        if let Ok(found) = kept.path.metadata() {
            kept.file.set_permissions(found.permissions()).map_err(cannot)?;
        }
        kept.file.sync_all().map_err(cannot)?;
        std::fs::rename(&kept.part, &kept.path).map_err(cannot)?;
        zellige_files::keep(&kept.part);
        unseal(&Journal::path(&kept.path))
    }

    fn cannot(&self, source: io::Error) -> Error {
        match &self.file {
            Some(kept) => Error::system(&kept.part, "cannot write", source),
            None => Error::Stream { offset: 0, problem: format!("the hits cannot be written: {source}") },
        }
    }
}

fn part_of(path: &Path) -> PathBuf {
    let mut name = path.as_os_str().to_owned();
    name.push(".part");
    name.into()
}

/// Checks that an earlier run can be resumed.
fn check(path: &Path, part: &Path, earlier: &Journal, input: &str) -> Result<(), Error> {
    let journal = Journal::path(path);
    let wrong = |problem| Err(Error::Text { path: journal.clone(), line: None, problem });
    if earlier.input != input {
        return wrong(format!("an earlier run read {:?}: remove this file to start again", earlier.input));
    }
    let written = part.metadata().map_or(0, |data| data.len());
    if written < earlier.written {
        let problem = format!(
            "{} has {written} bytes of {}: remove this file to start again",
            part.display(),
            earlier.written
        );
        return wrong(problem);
    }
    Ok(())
}

/// Bit of a record's error word for clipped samples.
const SATURATED: i32 = 2;

/// Converts an answer to a record; of more hits than it has space for, those with most energy.
fn decomposed(answer: &Answer, crystal: i32, is_broken: bool, step: f64) -> mode2::Decomposed {
    let point = |hit: &LocatedHit| mode2::InteractionPoint {
        position: hit.position,
        energy: hit.energy as f32,
        segment: hit.segment,
        segment_energy: hit.energy as f32,
    };
    mode2::Decomposed {
        crystal,
        total_energy: answer.hits.iter().map(|hit| hit.energy).sum::<f64>() as f32,
        timestamp: answer.timestamp / 10,
        t0: (answer.shift * step) as f32,
        chi2: answer.hits.iter().map(|hit| hit.best.fom).sum::<f64>() as f32,
        error: i32::from(is_broken) | if answer.saturated > 0 { SATURATED } else { 0 },
        points: answer.hits.iter().take(mode2::MOST_POINTS).map(point).collect(),
        ..Default::default()
    }
}
