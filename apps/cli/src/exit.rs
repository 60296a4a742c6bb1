//! Exit codes of the command, one for each kind of failure.

use zellige_dense as dense;
use zellige_files::FileError;
use zellige_lqcd as lqcd;
use zellige_psa as psa;
use zellige_sparse as sparse;
use zellige_tor as tor;
use zellige_tune as tune;

/// Any failure without an exit code of its own.
pub const FAILURE: u8 = 1;
/// A parameter, a rule or an option is wrong.
pub const BAD_PARAMETER: u8 = 2;
/// No precision rule gave a positive definite factorisation.
pub const NO_RULE_SURVIVED: u8 = 3;
/// A requested device is missing, or a library that it needs.
pub const NO_DEVICE: u8 = 4;
/// A system was not solved to the requested tolerance.
pub const NOT_CONVERGED: u8 = 5;
/// Ctrl-C, or a signal that requests termination.
pub const INTERRUPTED: u8 = 130;

/// Failures of the command itself.
#[derive(Debug, thiserror::Error)]
pub enum CommandError {
    /// An option's value is wrong.
    #[error("{option}: {problem}")]
    Option {
        /// The option as it is written.
        option: String,
        /// The problem with the value, and the accepted values.
        problem: String,
    },
    /// An argument without an option is wrong; the message names its value.
    #[error("{0}")]
    Argument(String),
    /// Every rule lost positive definiteness.
    #[error("{0}")]
    NoRuleSurvived(String),
    /// No such device.
    #[error(
        "--device {device} is not available:\n  {problem}\n`zellige machine show` lists the devices; --device cpu needs no GPU"
    )]
    NoDevice {
        /// The device as it was requested.
        device: String,
        /// The missing parts and remedies, one line for each.
        problem: String,
    },
    /// A system was not solved to its tolerance.
    #[error("{0}")]
    NotConverged(String),
    /// Several processes were started together but cannot work together.
    #[error("{0}")]
    Processes(String),
    /// The user pressed Ctrl-C.
    #[error("interrupted: tasks cancelled, incomplete files removed")]
    Interrupted,
    /// The user pressed Ctrl-C in work that keeps what it has done.
    #[error("interrupted: {0}")]
    Kept(String),
}

impl CommandError {
    /// Returns an error for a wrong value of an option.
    pub fn option(option: impl std::fmt::Display, problem: impl std::fmt::Display) -> Self {
        CommandError::Option { option: option.to_string(), problem: problem.to_string() }
    }
}

/// Returns the exit code of a failure: that of the first cause in its chain that has one.
pub fn code(error: &anyhow::Error) -> u8 {
    error.chain().find_map(code_of).unwrap_or(FAILURE)
}

fn code_of(cause: &(dyn std::error::Error + 'static)) -> Option<u8> {
    if let Some(own) = cause.downcast_ref::<CommandError>() {
        return Some(match own {
            CommandError::Option { .. } | CommandError::Argument(_) => BAD_PARAMETER,
            CommandError::NoRuleSurvived(_) => NO_RULE_SURVIVED,
            CommandError::NoDevice { .. } => NO_DEVICE,
            CommandError::NotConverged(_) => NOT_CONVERGED,
            CommandError::Processes(_) => FAILURE,
            CommandError::Interrupted | CommandError::Kept(_) => INTERRUPTED,
        });
    }
    if let Some(pipeline) = cause.downcast_ref::<tor::pipeline::PipelineError>() {
        return Some(pipeline.exit_code());
    }
    // The system could read the file, but its content is not what was expected.
    if let Some(tor::Error::Parameter { .. } | tor::Error::File(FileError::Content { .. })) =
        cause.downcast_ref()
    {
        return Some(BAD_PARAMETER);
    }
    if let Some(
        sparse::Error::Parameter { .. }
        | sparse::Error::Shape { .. }
        | sparse::Error::Unsolvable { .. }
        | sparse::Error::Content { .. },
    ) = cause.downcast_ref()
    {
        return Some(BAD_PARAMETER);
    }
    if let Some(
        psa::Error::Parameter { .. }
        | psa::Error::Shape { .. }
        | psa::Error::Text { .. }
        | psa::Error::File(FileError::Content { .. }),
    ) = cause.downcast_ref()
    {
        return Some(BAD_PARAMETER);
    }
    if let Some(lqcd::Error::Parameter { .. } | lqcd::Error::File(FileError::Content { .. })) =
        cause.downcast_ref()
    {
        return Some(BAD_PARAMETER);
    }
    if cause.downcast_ref::<dense::RuleError>().is_some() {
        return Some(BAD_PARAMETER);
    }
    if let Some(tune::Error::Items(_) | tune::Error::Expression { .. } | tune::Error::UnknownMeasure { .. }) =
        cause.downcast_ref()
    {
        return Some(BAD_PARAMETER);
    }
    match cause.downcast_ref() {
        Some(dense::Error::Rule(_) | dense::Error::Grid(_)) => Some(BAD_PARAMETER),
        Some(dense::Error::NotPositiveDefinite(_)) => Some(NO_RULE_SURVIVED),
        _ => None,
    }
}

/// Returns the message of an error: its chain, without causes that the text before them already
/// contains. If a library names a parameter that is an option of the verb, the option's name
/// replaces it.
pub fn message(error: &anyhow::Error, is_option: impl Fn(&str) -> bool) -> String {
    let mut text = String::new();
    for cause in error.chain() {
        let mut part = cause.to_string();
        if let Some(name) = parameter(cause) {
            let option = name.replace([' ', '_'], "-");
            if let Some(problem) = part.strip_prefix(name).filter(|_| is_option(&option)) {
                part = format!("--{option}{problem}");
            }
        }
        if text.is_empty() {
            text = part;
        } else if !text.contains(&part) {
            text = format!("{text}: {part}");
        }
    }
    text
}

/// Returns the message of a library's error without the name of the parameter, for a message that
/// names the option already.
pub fn problem(error: &(dyn std::error::Error + 'static)) -> String {
    let text = error.to_string();
    let problem = parameter(error).and_then(|name| text.strip_prefix(name)?.strip_prefix(": "));
    problem.unwrap_or(&text).to_owned()
}

/// Returns the name of the parameter that a library rejects.
fn parameter<'e>(cause: &'e (dyn std::error::Error + 'static)) -> Option<&'e str> {
    match (cause.downcast_ref(), cause.downcast_ref(), cause.downcast_ref()) {
        (Some(psa::Error::Parameter { name, .. }), _, _)
        | (_, Some(sparse::Error::Parameter { name, .. }), _)
        | (_, _, Some(lqcd::Error::Parameter { name, .. })) => Some(name),
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use anyhow::Context;

    #[test]
    fn codes_are_found_below_contexts() {
        let rule = || "hp4".parse::<dense::Rule>().map(drop);
        assert_eq!(code(&rule().context("--precision").unwrap_err()), BAD_PARAMETER);
        let no_device = CommandError::NoDevice { device: "cuda".into(), problem: "no driver".into() };
        assert_eq!(code(&no_device.into()), NO_DEVICE);
        assert_eq!(code(&anyhow::anyhow!("something else")), FAILURE);
    }

    #[test]
    fn a_cause_is_not_said_twice() {
        let inner = std::io::Error::other("disk on fire");
        let error = anyhow::Error::new(tor::Error::system(std::path::Path::new("x"), "cannot write", inner));
        assert_eq!(message(&error, |_| true), "x: cannot write: disk on fire");
        assert_eq!(message(&anyhow::anyhow!("deep").context("shallow"), |_| true), "shallow: deep");
        let step =
            anyhow::Error::new(psa::Error::Parameter { name: "adc_step", problem: "too small".into() });
        let said = |is_option: bool| message(&step, |_| is_option);
        assert_eq!((&*said(true), &*said(false)), ("--adc-step: too small", "adc_step: too small"));
    }
}
