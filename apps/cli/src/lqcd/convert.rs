//! `zellige lqcd convert`.

use zellige_lqcd::files;

use crate::args::LqcdConvert;

/// Reads a gauge field and writes it in another format.
///
/// # Errors
/// A file that cannot be read or holds no gauge field, a format that the output does not have, an
/// output that cannot be written.
pub fn run(args: &LqcdConvert) -> anyhow::Result<()> {
    let lattice = files::read(&args.lattice)?;
    Ok(files::write(&args.output, &lattice.gauge, &lattice.description, args.links)?)
}
