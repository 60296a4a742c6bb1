//! Writing; numbers with as many digits as bring them back.

use std::io::{self, Write};
use std::path::Path;

use flate2::Compression;
use flate2::write::GzEncoder;

use super::Symmetry;
use crate::csr::Csr;
use zellige_krylov::Error;

/// Writes a matrix with a comment of any number of lines, compressed if `name` ends in `.gz`.
/// `name` is also the file's name in errors.
///
/// # Errors
/// [`Error::File`]; [`Error::Shape`] for a matrix that does not have this symmetry.
pub fn write_to(
    to: &mut dyn Write,
    name: &Path,
    matrix: &Csr,
    symmetry: Symmetry,
    comment: &str,
) -> Result<(), Error> {
    if !has(matrix, symmetry) {
        let problem = format!("it is not {}, so both halves have to be written", symmetry.name());
        return Err(Error::shape("matrix", problem));
    }
    let written = if name.extension().is_some_and(|extension| extension == "gz") {
        let mut packed = GzEncoder::new(to, Compression::default());
        text(&mut packed, matrix, symmetry, comment).and_then(|()| packed.finish().map(drop))
    } else {
        text(to, matrix, symmetry, comment)
    };
    written.map_err(|e| Error::file(name, "cannot write the matrix", e))
}

fn has(matrix: &Csr, symmetry: Symmetry) -> bool {
    match symmetry {
        Symmetry::General => true,
        Symmetry::Symmetric | Symmetry::Hermitian => matrix.is_symmetric(),
        Symmetry::Skew => {
            matrix.rows() == matrix.columns()
                && matrix.transposed().map_nonzeros(|_, _, value| Some(-value)) == *matrix
        }
    }
}

fn text(to: &mut dyn Write, matrix: &Csr, symmetry: Symmetry, comment: &str) -> io::Result<()> {
    let is_written = |i: usize, j: u32| symmetry == Symmetry::General || j as usize <= i;
    let nonzeros: usize =
        (0..matrix.rows()).map(|i| matrix.row(i).0.iter().filter(|&&j| is_written(i, j)).count()).sum();
    writeln!(to, "%%MatrixMarket matrix coordinate real {}", symmetry.name())?;
    for line in comment.lines() {
        writeln!(to, "% {line}")?;
    }
    writeln!(to, "{} {} {nonzeros}", matrix.rows(), matrix.columns())?;
    for (i, (column, value)) in matrix.iter().enumerate() {
        for (&j, value) in column.iter().zip(value).filter(|&(&j, _)| is_written(i, j)) {
            writeln!(to, "{} {} {value:e}", i + 1, j + 1)?;
        }
    }
    Ok(())
}
