//! Files of alternating comment and value lines, cut into entries.
//!
//! The format is defined by the order; the comments are free text. They are still useful: a comment
//! that names another entry than the expected one indicates a shifted or mixed-up file.

use super::check::Place;
use super::{Mode, Warning};
use crate::Error;
use crate::system::MAX_STARS;
use std::path::Path;

/// One entry of a layout: its name in messages, the parameter of this crate, and words, one of
/// which begins its usual comment.
pub(super) type Entry = (&'static str, &'static str, &'static [&'static str]);

/// A file cut into entries, which are read in order.
pub(super) struct Cursor<'t> {
    pub(super) place: Place,
    entries: Vec<(usize, &'t str)>,
    pub(super) layout: &'static [Entry],
    next: usize,
}

impl<'t> Cursor<'t> {
    pub(super) fn new(
        file: &Path,
        text: &'t str,
        layouts: &[(&str, &'static [Entry])],
    ) -> Result<Self, Error> {
        let mut place = Place::new(file, "");
        let text = text.strip_prefix('\u{feff}').unwrap_or(text);
        let mut lines: Vec<&str> = text.lines().collect();
        while lines.last().is_some_and(|l| l.trim().is_empty()) {
            lines.pop();
        }
        let pairs: Vec<(&str, &str)> = lines.chunks(2).map(|c| (c[0], *c.get(1).unwrap_or(&""))).collect();
        let kinds: Vec<String> = layouts.iter().map(|(n, l)| format!("{} for {n}", l.len())).collect();
        let layout = layouts.iter().map(|(_, l)| *l).find(|l| l.len() == pairs.len()).ok_or_else(|| {
            let hint = match layouts.iter().find(|(_, l)| pairs.len() < l.len() && follows(&pairs, l)) {
                Some((name, l)) => format!(
                    "it follows {name} up to entry {}, but the entries from '{}' on are missing: the file is truncated",
                    pairs.len(),
                    l[pairs.len()].0
                ),
                None => "check that one comment line precedes every value line".into(),
            };
            place.error("entries", format!("{} entries found, expected {}", pairs.len(), kinds.join(" or ")), hint)
        })?;
        for (i, ((comment, _), entry)) in pairs.iter().zip(layout).enumerate() {
            let line = 2 * i + 1;
            if !names(comment, entry)
                && let Some(other) = layout.iter().find(|e| names(comment, e))
            {
                place.set(entry.1, entry.0, line);
                return Err(place.error(
                    entry.1,
                    format!("expected here, but the comment '{}' announces {}", clip(comment), other.0),
                    "put the entries in the documented order",
                ));
            }
            place.set(entry.1, entry.0, line + 1);
        }
        let entries = pairs.iter().enumerate().map(|(i, (_, v))| (2 * i + 2, *v)).collect();
        Ok(Cursor { place, entries, layout, next: 0 })
    }

    /// Returns the values of the next entry, which must be `entry`. They must be finite, and `most`
    /// at most.
    pub(super) fn vector(&mut self, entry: Entry, most: usize) -> Result<Vec<f64>, Error> {
        debug_assert_eq!(self.layout[self.next], entry);
        let (line, text) = self.entries[self.next];
        self.next += 1;
        self.place.set(entry.1, entry.0, line);
        let mut values = Vec::new();
        for token in text.split_whitespace() {
            let value: f64 = token.parse().map_err(|_| {
                self.place.error(
                    entry.1,
                    format!("'{}' is not a number", clip(token)),
                    "write a decimal number",
                )
            })?;
            if !value.is_finite() {
                return Err(self.place.error(
                    entry.1,
                    format!("'{}' is not finite", clip(token)),
                    "write a finite number",
                ));
            }
            if values.len() == most {
                return Err(self.place.error(
                    entry.1,
                    format!("more than {most} values"),
                    "remove the surplus",
                ));
            }
            values.push(value);
        }
        if values.is_empty() {
            return Err(self.place.error(
                entry.1,
                "no value",
                "write the value on the line after its comment",
            ));
        }
        Ok(values)
    }

    pub(super) fn scalar(&mut self, entry: Entry) -> Result<f64, Error> {
        Ok(self.vector(entry, 1)?[0])
    }

    pub(super) fn count(&mut self, entry: Entry, most: usize) -> Result<usize, Error> {
        let value = self.scalar(entry)?;
        if value.fract() != 0.0 || value < 0.0 || value > most as f64 {
            return Err(self.place.error(
                entry.1,
                format!("{value} is not a valid count"),
                format!("give a whole number up to {most}"),
            ));
        }
        Ok(value as usize)
    }

    pub(super) fn ignore(&mut self, entry: Entry) -> Result<(), Error> {
        self.vector(entry, 4096).map(|_| ())
    }

    /// Returns a vector with one value per sensor, truth sensor last. The truth sensor's own value
    /// is never used (it is a natural star on the target). A vector that lacks only that one is
    /// completed with `fill`.
    pub(super) fn per_sensor(
        &mut self,
        entry: Entry,
        sensors: usize,
        fill: f64,
        mode: Mode,
        warnings: &mut Vec<Warning>,
    ) -> Result<Vec<f64>, Error> {
        let mut values = self.vector(entry, MAX_STARS + 1)?;
        if values.len() + 1 == sensors && mode == Mode::Lenient {
            values.push(fill);
            warnings.push(self.place.warning(
                entry.1,
                format!("{} values for {sensors} sensors: the truth sensor's is missing and was taken as a natural star's", sensors - 1),
            ));
        }
        self.exactly(entry, &values, sensors, "N WFS (truth sensor included)")?;
        Ok(values)
    }

    pub(super) fn exactly(
        &self,
        entry: Entry,
        values: &[f64],
        wanted: usize,
        from: &str,
    ) -> Result<(), Error> {
        if values.len() == wanted {
            return Ok(());
        }
        Err(self.place.error(
            entry.1,
            format!("{} values, but {from} requires {wanted}", values.len()),
            format!("give {wanted} values or correct {from}"),
        ))
    }
}

fn names(comment: &str, entry: &Entry) -> bool {
    let lower = comment.trim().to_lowercase();
    entry.2.iter().any(|k| lower.starts_with(k))
}

fn follows(pairs: &[(&str, &str)], layout: &[Entry]) -> bool {
    !pairs.is_empty() && pairs.iter().zip(layout).all(|((c, _), e)| names(c, e))
}

fn clip(text: &str) -> String {
    text.trim().chars().take(40).collect()
}
