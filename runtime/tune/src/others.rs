//! Trials outside of a space, in the log of its search.

use std::collections::HashMap;
use std::time::Instant;

use crate::error::Error;
use crate::log::{Log, Subject};
use crate::measures::Measures;
use crate::search::Options;
use crate::space::Space;
use crate::trials::{Data, Run};

/// Trials of a computation that are no assignments of its space, such as rules that a result is
/// compared with. Each has a name and runs once; they are kept in the log of the search.
///
/// ```
/// use zellige_tune::{Data, Error, Item, Measures, Options, OtherTrials, Space};
///
/// let space = Space::new(vec![Item::new("matrix", "", [("fp32", 4.0), ("fp64", 8.0)])])?;
/// let mut others = OtherTrials::open(&space, &Options::default())?;
/// let trial = || Ok::<_, Error>(Ok(Measures::from([("error", 1e-3)])));
/// let measures = others.run(Data::Search, "a band", trial)?.expect("no failure");
/// assert_eq!(measures.names(), ["error"]);
/// # Ok::<(), Error>(())
/// ```
#[derive(Debug)]
pub struct OtherTrials {
    log: Option<Log>,
    runs: HashMap<(Data, String), Run>,
}

impl OtherTrials {
    /// Opens the log of a search that has ended, if its options name one.
    ///
    /// # Errors
    /// [`Error::Log`].
    pub fn open(space: &Space, options: &Options) -> Result<Self, Error> {
        let Some(path) = &options.log else {
            return Ok(OtherTrials { log: None, runs: HashMap::new() });
        };
        let (log, logged) = Log::open(path, &options.subject, space)?;
        let known = |(data, subject, run)| match subject {
            Subject::Other(name) => Some(((data, name), run)),
            Subject::Formats(_) => None,
        };
        Ok(OtherTrials { log: Some(log), runs: logged.into_iter().filter_map(known).collect() })
    }

    /// Returns the measures of a trial, or the reason of its failure. It runs if the log has no
    /// trial of this name; one that ends with an error is not kept.
    ///
    /// # Errors
    /// Those of the trial, and [`Error::Log`].
    pub fn run<E: From<Error>>(
        &mut self,
        data: Data,
        name: &str,
        trial: impl FnOnce() -> Result<Result<Measures, String>, E>,
    ) -> Result<Result<Measures, String>, E> {
        let key = (data, name.to_owned());
        if let Some(run) = self.runs.get(&key) {
            return Ok(run.result.clone());
        }
        let begin = Instant::now();
        let result = trial()?;
        let run = Run { result: result.clone(), seconds: begin.elapsed().as_secs_f64() };
        if let Some(log) = &mut self.log {
            log.write(data, &Subject::Other(key.1.clone()), &run)?;
        }
        self.runs.insert(key, run);
        Ok(result)
    }
}
