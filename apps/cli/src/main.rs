//! The command `zellige`. It parses arguments, calls one function of a library, and prints the
//! result.
#![forbid(unsafe_code)]

#[cfg(all(target_os = "linux", target_env = "gnu"))]
mod arenas;
mod args;
mod bar;
mod bench;
mod devices;
mod exit;
mod formats;
mod interrupt;
mod logs;
mod lqcd;
mod machine;
mod manual;
mod matrix;
mod models;
mod nodes;
mod out;
mod processes;
mod progress;
mod provenance;
mod psa;
mod reproduce;
mod results;
mod run;
#[cfg(test)]
mod schemas;
mod selftest;
mod simulate;
mod solve;
mod spmv;
mod tor;
mod trace;
mod trust;
mod tune;
mod vectors;

use std::process::ExitCode;

use clap::{ArgMatches, Command, CommandFactory, FromArgMatches};

use args::{Cli, Verb};

fn main() -> ExitCode {
    #[cfg(all(target_os = "linux", target_env = "gnu"))]
    arenas::limit();
    interrupt::block_file_size_signal();
    let mut command = Cli::command();
    let words = match args::expand(&command, args::join_negative_numbers(std::env::args_os().collect())) {
        Ok(words) => words,
        Err(error) => {
            out::error(&error.to_string());
            return exit::BAD_PARAMETER.into();
        }
    };
    provenance::begin(words.iter().skip(1).map(|word| word.to_string_lossy().into_owned()).collect());
    let parsed = command.try_get_matches_from_mut(words);
    let parsed = parsed.and_then(|matches| Ok((Cli::from_arg_matches(&matches)?, matches)));
    let (cli, matches) = match parsed {
        Ok(parsed) => parsed,
        Err(e) => {
            // It is no failure if the reader of the help has gone.
            let _ = e.print();
            return if e.use_stderr() { exit::BAD_PARAMETER.into() } else { ExitCode::SUCCESS };
        }
    };
    match dispatch(&cli, &command, &matches).and_then(|()| Ok(interrupt::check()?)) {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            zellige_files::abandon();
            let code = if interrupt::seen() { exit::INTERRUPTED } else { exit::code(&error) };
            let kept = matches!(error.downcast_ref(), Some(exit::CommandError::Kept(_)));
            let text = match interrupt::seen() && !kept {
                // Errors of the cancelled tasks are a consequence of the interrupt.
                true => exit::CommandError::Interrupted.to_string(),
                false => exit::message(&error, |name| args::has_option(&command, &matches, name)),
            };
            out::error(&text);
            code.into()
        }
    }
}

fn dispatch(cli: &Cli, command: &Command, matches: &ArgMatches) -> anyhow::Result<()> {
    logs::start(cli.log.as_deref())?;
    interrupt::install()?;
    args::check(command, matches)?;
    if let Some(folder) = &cli.cuda_libs {
        let wrong = |problem| exit::CommandError::option("--cuda-libs", problem);
        zellige_gpu::cuda::look_in(folder).map_err(wrong)?;
    }
    match &cli.verb {
        Verb::Bench(verb) => bench::run(verb),
        Verb::Formats(args) => formats::run(args),
        Verb::Lqcd(verb) => lqcd::run(verb),
        Verb::Machine(verb) => machine::run(verb),
        Verb::Matrix(verb) => matrix::run(verb),
        Verb::Psa(verb) => psa::run(verb),
        Verb::Reproduce(verb) => reproduce::run(verb),
        Verb::Simulate(verb) => simulate::run(verb),
        Verb::Selftest(args) => selftest::run(args),
        Verb::Solve(args) => solve::run(args),
        Verb::Spmv(args) => spmv::run(args),
        Verb::Tor(verb) => tor::run(verb),
        Verb::Trace(args) => trace::run(args),
        Verb::Trust(verb) => trust::run(verb),
        Verb::Tune(verb) => tune::run(verb),
        Verb::Completions(args) => manual::completions(args),
        Verb::Man(args) => manual::man(args),
    }
}
