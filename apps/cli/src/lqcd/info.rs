//! `zellige lqcd info`.

use zellige_lqcd::files;
use zellige_lqcd::pipeline::results::InfoResult;
use zellige_lqcd::report::text;

use crate::args::LqcdInfo;
use crate::out;
use crate::results::{is_stdout, write_json};

/// Reads a gauge field and prints its observables.
///
/// # Errors
/// A file that cannot be read or holds no gauge field, an output that cannot be written.
pub fn run(args: &LqcdInfo) -> anyhow::Result<()> {
    let result = InfoResult::of(&files::read(&args.lattice)?);
    write_json(args.json.as_ref(), &[&result])?;
    match is_stdout(args.json.as_ref()) {
        true => Ok(()),
        false => out::print(&text::of_field(&result)),
    }
}
