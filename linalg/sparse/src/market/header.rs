//! The first line of a file.

/// Which elements a file names.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Format {
    /// Those that are not zero, each with its place.
    Coordinate,
    /// All, column by column.
    Array,
}

/// What elements are.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Field {
    /// Numbers.
    Real,
    /// Whole numbers.
    Integer,
    /// Nothing is said: each is 1.
    Pattern,
    /// Real and imaginary parts.
    Complex,
}

/// What is known of the half of the matrix that a file leaves out.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Symmetry {
    /// Nothing is left out.
    General,
    /// `a_ij = a_ji`; also what real files call hermitian.
    Symmetric,
    /// `a_ij` is the complex conjugate of `a_ji`.
    Hermitian,
    /// `a_ij = -a_ji`.
    Skew,
}

impl Symmetry {
    /// Real and imaginary part of `a_ji`, given those of `a_ij`; nothing where files leave out nothing.
    pub(super) fn mirrored(self, re: f64, im: f64) -> Option<(f64, f64)> {
        match self {
            Symmetry::General => None,
            Symmetry::Symmetric => Some((re, im)),
            Symmetry::Hermitian => Some((re, -im)),
            Symmetry::Skew => Some((-re, -im)),
        }
    }

    /// Why an element cannot be on the diagonal.
    pub(super) fn off_diagonal(self, re: f64, im: f64) -> Option<&'static str> {
        match self {
            Symmetry::Skew if re != 0.0 || im != 0.0 => {
                Some("an element of a skew-symmetric matrix, whose diagonal is zero")
            }
            Symmetry::Hermitian if im != 0.0 => {
                Some("an element of a hermitian matrix, whose diagonal is real")
            }
            _ => None,
        }
    }

    /// As files write it.
    pub const fn name(self) -> &'static str {
        match self {
            Symmetry::General => "general",
            Symmetry::Symmetric => "symmetric",
            Symmetry::Hermitian => "hermitian",
            Symmetry::Skew => "skew-symmetric",
        }
    }
}

/// What a first line says, or what is wrong with it.
pub(super) fn parse(line: &[u8]) -> Result<(Format, Field, Symmetry), String> {
    let line = String::from_utf8_lossy(line).to_ascii_lowercase();
    let words: Vec<&str> = line.split_ascii_whitespace().collect();
    let [banner, object, format, field, symmetry] = words[..] else {
        return Err(beginning(&words));
    };
    if banner != "%%matrixmarket" || object != "matrix" {
        return Err(beginning(&words));
    }
    let format = match format {
        "coordinate" => Format::Coordinate,
        "array" => Format::Array,
        other => return Err(format!("format {other:?}: coordinate and array can be read")),
    };
    let field = match field {
        "real" | "double" => Field::Real,
        "integer" => Field::Integer,
        "pattern" if format == Format::Coordinate => Field::Pattern,
        "pattern" => return Err("an array of a pattern has no elements".into()),
        "complex" => Field::Complex,
        other => return Err(format!("field {other:?}: real, integer, pattern and complex can be read")),
    };
    let symmetry = match symmetry {
        "general" => Symmetry::General,
        "hermitian" if field == Field::Complex => Symmetry::Hermitian,
        "symmetric" | "hermitian" => Symmetry::Symmetric,
        "skew-symmetric" if field != Field::Pattern => Symmetry::Skew,
        "skew-symmetric" => return Err("a pattern cannot be skew-symmetric".into()),
        other => {
            return Err(format!(
                "symmetry {other:?}: general, symmetric, hermitian and skew-symmetric can be read"
            ));
        }
    };
    Ok((format, field, symmetry))
}

fn beginning(words: &[&str]) -> String {
    if words.first().is_some_and(|word| word.to_uppercase().starts_with("PK\u{3}\u{4}")) {
        return "an archive, as scipy.sparse.save_npz writes, where a Matrix Market file is needed: scipy.io.mmwrite writes those".into();
    }
    let seen: String = words.join(" ").chars().take(60).collect();
    format!(
        "the file begins with {seen:?} instead of \"%%MatrixMarket matrix coordinate real general\" or the like"
    )
}
