//! `zellige matrix`.

use zellige_solve::files::write_vectors_to;
use zellige_solve::pipeline::results::MatrixResult;
use zellige_solve::report::text;
use zellige_sparse::files::market::{self, Symmetry};
use zellige_sparse::generate::{
    Biot, Elasticity, Elements, Flow, Stokes, Transport, biot, coordinates, elasticity, flow, stokes,
    transport,
};
use zellige_sparse::{Csr, describe, describe_complex, files};

use crate::args::{MatrixConvert, MatrixGenerate, MatrixInfo, MatrixVerb, OutputFile, Problem};
use crate::exit::CommandError;
use crate::out;
use crate::results::{is_stdout, write_json};

/// Runs a verb of `zellige matrix`.
///
/// # Errors
/// A file that is no matrix, invalid sizes, an output that cannot be written.
pub fn run(verb: &MatrixVerb) -> anyhow::Result<()> {
    match verb {
        MatrixVerb::Info(args) => info(args),
        MatrixVerb::Generate(args) => generate(args),
        MatrixVerb::Convert(args) => convert(args),
    }
}

fn info(args: &MatrixInfo) -> anyhow::Result<()> {
    let files::Matrix { csr, complex } = files::read(&args.matrix)?;
    let description = if complex { describe_complex(&csr) } else { describe(&csr) };
    let figures = MatrixResult::from(&description);
    write_json(args.json.as_ref(), &[&figures])?;
    if is_stdout(args.json.as_ref()) {
        return Ok(());
    }
    out::print(&text::of_matrix(&description))
}

fn generate(args: &MatrixGenerate) -> anyhow::Result<()> {
    if args.coordinates.is_some() && args.kind != Problem::Elasticity {
        return Err(CommandError::option("--coordinates", "only elasticity has rigid rotations").into());
    }
    let matrix = make(args)?;
    write(&args.output, &matrix, &comment(args))?;
    if let Some(file) = &args.coordinates {
        let elements = args.size.map_or(Elasticity::default().elements, |size| Elements(size.0));
        let places = coordinates(elements);
        file.write(|to| write_vectors_to(to, file, &places, false).map_err(std::io::Error::other))?;
    }
    let (rows, elements) = (matrix.rows(), matrix.nonzeros());
    out::print(&format!("{}: {rows} x {rows}, {elements} nonzeros\n", args.output.display()))
}

fn make(args: &MatrixGenerate) -> anyhow::Result<Csr> {
    let is_stepped = matches!(args.kind, Problem::Transport | Problem::Biot);
    if args.step.is_some() && !is_stepped {
        return Err(CommandError::option("--step", "only transport and biot have a time step").into());
    }
    let seed = args.seed;
    let elements = |default: Elements| args.size.map_or(default, |size| Elements(size.0));
    let with = |default: Flow| Flow {
        cells: args.size.map_or(default.cells, |size| size.0),
        spread: args.spread.unwrap_or(default.spread),
        seed,
    };
    Ok(match args.kind {
        Problem::Flow => flow(&with(Flow::default()))?,
        Problem::Transport => {
            let default = Transport::default();
            let step = args.step.unwrap_or(default.step);
            transport(&Transport { flow: with(default.flow), step, ..default })?
        }
        Problem::Elasticity => {
            let default = Elasticity::default();
            let spread = args.spread.unwrap_or(default.spread);
            elasticity(&Elasticity { elements: elements(default.elements), spread, seed })?
        }
        Problem::Biot => {
            let default = Biot::default();
            let spread = (default.spread.0, args.spread.unwrap_or(default.spread.1));
            let step = args.step.unwrap_or(default.step);
            biot(&Biot { elements: elements(default.elements), spread, step, seed })?
        }
        Problem::Stokes => {
            let default = Stokes::default();
            let spread = args.spread.unwrap_or(default.spread);
            stokes(&Stokes { elements: elements(default.elements), spread, seed })?
        }
    })
}

/// Returns the command that makes the matrix, as the comment of its file.
fn comment(args: &MatrixGenerate) -> String {
    let mut words = format!("zellige matrix generate {}", format!("{:?}", args.kind).to_lowercase());
    if let Some(crate::args::Size([x, y, z])) = args.size {
        words += &format!(" --size {x}x{y}x{z}");
    }
    let options = [("spread", args.spread), ("step", args.step)];
    for (name, value) in options.into_iter().filter_map(|(name, value)| Some((name, value?))) {
        words += &format!(" --{name} {value}");
    }
    words + format!(" --seed {}", args.seed).as_str()
}

fn convert(args: &MatrixConvert) -> anyhow::Result<()> {
    let matrix = files::read_real(&args.matrix)?.without_zeros();
    write(&args.output, &matrix, "")?;
    let elements = matrix.nonzeros();
    out::print(&format!(
        "{}: {} x {}, {elements} nonzeros\n",
        args.output.display(),
        matrix.rows(),
        matrix.columns()
    ))
}

/// Writes a matrix, or one triangle of it if it is symmetric.
fn write(to: &OutputFile, matrix: &Csr, comment: &str) -> anyhow::Result<()> {
    let symmetry = if matrix.is_symmetric() { Symmetry::Symmetric } else { Symmetry::General };
    to.write(|out| market::write_to(out, to, matrix, symmetry, comment).map_err(std::io::Error::other))
}
