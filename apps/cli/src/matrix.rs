//! `zellige matrix`.

use zellige_app::text::bytes;
use zellige_solve::pipeline::results::MatrixResult;
use zellige_sparse::generate::{
    Biot, Elasticity, Elements, Flow, Stokes, Transport, biot, elasticity, flow, stokes, transport,
};
use zellige_sparse::market::{self, Symmetry};
use zellige_sparse::{Csr, Description, describe, describe_complex, files};

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
    out::print(&text(&description))
}

fn text(d: &Description) -> String {
    let mean = d.nonzeros.0 as f64 / d.shape.0.max(1) as f64;
    let kind = if d.complex { "complex, " } else { "" };
    let symmetry = match d.symmetric {
        _ if d.complex && d.hermitian => "Hermitian",
        (_, true) => "symmetric",
        (true, false) => "not symmetric, with a symmetric pattern",
        (false, false) => "not symmetric",
    };
    let doubled = if d.complex { ", as the real matrix of twice the size" } else { "" };
    let text = format!(
        "size          {} x {}, {kind}{symmetry}\n\
         nonzeros      {}, {} of them zero; {} to {} per row, {mean:.1} on average\n\
         bandwidth     {}; {} zeros on the diagonal\n\
         magnitudes    {:.3e} to {:.3e}\n\
         row sums      {:.3e} to {:.3e} of magnitudes\n\
         CSR           {} in fp64{doubled}\n",
        d.shape.0,
        d.shape.1,
        d.nonzeros.0,
        d.nonzeros.1,
        d.row_nonzeros.0,
        d.row_nonzeros.1,
        d.bandwidth,
        d.zero_diagonals,
        d.magnitudes.0,
        d.magnitudes.1,
        d.norm_inf.1,
        d.norm_inf.0,
        bytes(d.bytes),
    );
    text + histogram(&d.decades).as_str()
}

/// Maximum number of lines of the histogram, to fit a screen.
const MOST_LINES: usize = 20;

/// Formats the numbers of nonzeros by magnitude, the largest first. Each line is one decade, or
/// several.
fn histogram(decades: &[(i32, u64)]) -> String {
    let step = decades.len().div_ceil(MOST_LINES).max(1);
    let bins: Vec<(i32, u64)> =
        decades.chunks(step).map(|bin| (bin[0].0, bin.iter().map(|decade| decade.1).sum())).collect();
    let most = bins.iter().map(|bin| bin.1).max().unwrap_or(0);
    let mut text = String::new();
    for &(decade, count) in bins.iter().rev() {
        let bar = "#".repeat((count * 50).div_ceil(most.max(1)) as usize);
        text.push_str(format!("1e{decade:<5} {count:>12}  {bar}").trim_end());
        text.push('\n');
    }
    text
}

fn generate(args: &MatrixGenerate) -> anyhow::Result<()> {
    let matrix = make(args)?;
    write(&args.output, &matrix, &comment(args))?;
    let (rows, elements) = (matrix.rows(), matrix.elements());
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
    let elements = matrix.elements();
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn histograms_fit_a_screen() {
        let decades: Vec<(i32, u64)> = (-300..300).map(|decade| (decade, 1)).collect();
        let text = histogram(&decades);
        assert_eq!(text.lines().count(), 20);
        assert!(text.starts_with("1e270") && text.lines().all(|line| line.contains(" 30 ")), "{text}");
        assert_eq!(histogram(&decades[..2]).lines().count(), 2);
        assert_eq!(histogram(&[]), "");
    }
}
