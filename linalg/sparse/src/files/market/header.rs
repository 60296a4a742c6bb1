//! The first line of a file.

/// Storage format of a file: the entries that it lists.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Format {
    /// Lists the nonzeros, each with its position.
    Coordinate,
    /// Lists all entries in column-major order.
    Array,
}

/// Type of the values.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Field {
    /// Real numbers.
    Real,
    /// Whole numbers.
    Integer,
    /// Whole numbers that are not negative.
    Unsigned,
    /// No values: each entry is 1.
    Pattern,
    /// Real and imaginary parts.
    Complex,
}

/// Symmetry that defines the half of the matrix that a file leaves out.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Symmetry {
    /// No entry is omitted.
    General,
    /// `a_ij = a_ji`; also for real files that are declared hermitian.
    Symmetric,
    /// `a_ij` is the complex conjugate of `a_ji`.
    Hermitian,
    /// `a_ij = -a_ji`.
    Skew,
}

impl Symmetry {
    /// Returns the real and imaginary part of `a_ji`, given those of `a_ij`; `None` if files omit
    /// nothing.
    pub(crate) fn mirrored(self, re: f64, im: f64) -> Option<(f64, f64)> {
        match self {
            Symmetry::General => None,
            Symmetry::Symmetric => Some((re, im)),
            Symmetry::Hermitian => Some((re, -im)),
            Symmetry::Skew => Some((-re, -im)),
        }
    }

    /// Returns the reason why an entry cannot be on the diagonal.
    pub(crate) fn off_diagonal(self, re: f64, im: f64) -> Option<&'static str> {
        match self {
            Symmetry::Skew if re != 0.0 || im != 0.0 => {
                Some("an entry of a skew-symmetric matrix, whose diagonal is zero")
            }
            Symmetry::Hermitian if im != 0.0 => {
                Some("an entry of a hermitian matrix, whose diagonal is real")
            }
            _ => None,
        }
    }

    /// Returns the keyword in files.
    pub const fn name(self) -> &'static str {
        match self {
            Symmetry::General => "general",
            Symmetry::Symmetric => "symmetric",
            Symmetry::Hermitian => "hermitian",
            Symmetry::Skew => "skew-symmetric",
        }
    }
}

/// A first line.
#[derive(Debug, Clone, Copy)]
pub(super) struct Header {
    /// True for a single column, without column numbers.
    pub(super) is_vector: bool,
    pub(super) format: Format,
    pub(super) field: Field,
    pub(super) symmetry: Symmetry,
}

/// Parses a first line; the error says why it is invalid.
pub(super) fn parse(line: &[u8]) -> Result<Header, String> {
    let line = line.strip_prefix(b"\xef\xbb\xbf").unwrap_or(line);
    let text = String::from_utf8_lossy(line).to_ascii_lowercase();
    let words: Vec<&str> = text.split_ascii_whitespace().collect();
    let (object, format, field, symmetry) = match words[..] {
        ["%%matrixmarket", "matrix", format, field, symmetry] => ("matrix", format, field, symmetry),
        // Writers of vectors omit the symmetry, or write `general`.
        ["%%matrixmarket", "vector", format, field] => ("vector", format, field, "general"),
        ["%%matrixmarket", "vector", format, field, "general"] => ("vector", format, field, "general"),
        _ => return Err(beginning(line)),
    };
    let format = match format {
        "coordinate" => Format::Coordinate,
        "array" => Format::Array,
        other => return Err(format!("format {other:?}: coordinate and array are supported")),
    };
    let field = match field {
        "real" | "double" => Field::Real,
        "integer" => Field::Integer,
        "unsigned-integer" => Field::Unsigned,
        "pattern" if format == Format::Coordinate => Field::Pattern,
        "pattern" => return Err("an array of a pattern has no values".into()),
        "complex" => Field::Complex,
        other => {
            return Err(format!(
                "field {other:?}: real, integer, unsigned-integer, pattern and complex are supported"
            ));
        }
    };
    let symmetry = match symmetry {
        "general" => Symmetry::General,
        "hermitian" if field == Field::Complex => Symmetry::Hermitian,
        "symmetric" | "hermitian" => Symmetry::Symmetric,
        "skew-symmetric" if field != Field::Pattern => Symmetry::Skew,
        "skew-symmetric" => return Err("a pattern cannot be skew-symmetric".into()),
        other => {
            return Err(format!(
                "symmetry {other:?}: general, symmetric, hermitian and skew-symmetric are supported"
            ));
        }
    };
    Ok(Header { is_vector: object == "vector", format, field, symmetry })
}

fn beginning(line: &[u8]) -> String {
    const WANTED: &str =
        "\"%%MatrixMarket matrix coordinate real general\" or the like, and is in no other supported format";
    let is_text = std::str::from_utf8(line)
        .is_ok_and(|text| !text.chars().any(|letter| letter.is_control() && !letter.is_whitespace()));
    if !is_text {
        return format!("not text: the file does not begin with {WANTED}");
    }
    let text = String::from_utf8_lossy(line);
    let seen: String = text.split_whitespace().collect::<Vec<_>>().join(" ").chars().take(60).collect();
    format!("the file begins with {seen:?} instead of {WANTED}")
}
