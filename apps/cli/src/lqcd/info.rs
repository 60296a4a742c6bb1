//! `zellige lqcd info`.

use zellige_lqcd::files;
use zellige_lqcd::pipeline::results::InfoResult;

use crate::args::LqcdInfo;
use crate::out;
use crate::results::{is_stdout, write_json};

/// Reads a gauge field and prints its observables.
///
/// # Errors
/// A file that cannot be read or holds no gauge field, an output that cannot be written.
pub fn run(args: &LqcdInfo) -> anyhow::Result<()> {
    let result = [InfoResult::of(&files::read(&args.lattice)?)];
    write_json(args.json.as_ref(), &result)?;
    if is_stdout(args.json.as_ref()) {
        return Ok(());
    }
    let [result] = result;
    let [x, y, z, t] = result.field.lattice;
    let checksum = result.checksum.map_or("no checksum".to_owned(), |sum| format!("checksum {sum}, correct"));
    let mut text = format!(
        "{} file, {} endian, float{}, {checksum}\nlattice {x} x {y} x {z} x {t}\n",
        result.format, result.byte_order, result.precision
    );
    text += &format!(
        "plaquette {:.9} in space, {:.9} in time\nlink trace {:.9}\nPolyakov loop {:.6} {:+.6} i\n",
        result.field.plaquette.ss,
        result.field.plaquette.st,
        result.field.link_trace,
        result.field.polyakov_loop[0],
        result.field.polyakov_loop[1]
    );
    if !result.description.is_empty() {
        text += &format!("comment of the file: {}\n", result.description);
    }
    out::print(&text)
}
