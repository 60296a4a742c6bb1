//! Matrix Market files: what is read, what is refused and where, and that nothing makes the reader
//! panic.

use std::io::{BufReader, Write};
use std::path::Path;
use std::time::{Duration, Instant};

use flate2::Compression;
use flate2::write::GzEncoder;
use proptest::prelude::*;
use proptest::strategy::ValueTree;
use proptest::test_runner::TestRunner;
use zellige_sparse::files::market::{self, Format, Market, Symmetry};
use zellige_sparse::files::{self, Matrix, Vectors};
use zellige_sparse::{Csr, Error};

fn read(text: &[u8]) -> Result<Market, Error> {
    // Small buffers: lines lie across their ends.
    market::read_from(&mut BufReader::with_capacity(7, text), Path::new("a.mtx"))
}

fn elements(a: &Csr) -> Vec<(usize, usize, f64)> {
    let row = |i: usize| a.row(i).0.iter().zip(a.row(i).1).map(move |(&j, &value)| (i, j as usize, value));
    (0..a.rows()).flat_map(row).collect()
}

#[test]
fn elements_comments_and_blanks() {
    let long = "x".repeat(100_000);
    let text = format!(
        "%%MatrixMarket  MATRIX Coordinate real General\r\n%{long}\n\n  % indented\n 3 4 4 \n1 2 1.5\n\n%c\n3 4 -2e-3\n\
         1\t1 1D+2\n3 4 1e-3"
    );
    let market = read(text.as_bytes()).unwrap();
    assert_eq!((market.format, market.symmetry), (Format::Coordinate, Symmetry::General));
    assert_eq!((market.matrix.rows(), market.matrix.columns()), (3, 4));
    assert_eq!(elements(&market.matrix), [(0, 0, 100.0), (0, 1, 1.5), (2, 3, -2e-3 + 1e-3)]);
}

#[test]
fn halves_are_filled_in() {
    let symmetric =
        read(b"%%MatrixMarket matrix coordinate integer symmetric\n2 2 2\n1 1 5\n2 1 -3\n").unwrap();
    assert_eq!(elements(&symmetric.matrix), [(0, 0, 5.0), (0, 1, -3.0), (1, 0, -3.0)]);
    let skew = read(b"%%MatrixMarket matrix coordinate real skew-symmetric\n2 2 1\n2 1 4\n").unwrap();
    assert_eq!(elements(&skew.matrix), [(0, 1, -4.0), (1, 0, 4.0)]);
    let pattern = read(b"%%MatrixMarket matrix coordinate pattern hermitian\n2 2 1\n2 1\n").unwrap();
    assert_eq!(elements(&pattern.matrix), [(0, 1, 1.0), (1, 0, 1.0)]);
    let array = read(b"%%MatrixMarket matrix array real symmetric\n2 2\n1\n2\n3\n").unwrap();
    assert_eq!(elements(&array.matrix), [(0, 0, 1.0), (0, 1, 2.0), (1, 0, 2.0), (1, 1, 3.0)]);
    let skew = read(b"%%MatrixMarket matrix array real skew-symmetric\n2 2\n7\n").unwrap();
    assert_eq!(elements(&skew.matrix), [(0, 1, -7.0), (1, 0, 7.0)]);
    let columns = read(b"%%MatrixMarket matrix array real general\n2 2\n1\n2\n3\n4\n").unwrap();
    assert_eq!(elements(&columns.matrix), [(0, 0, 1.0), (0, 1, 3.0), (1, 0, 2.0), (1, 1, 4.0)]);
}

#[test]
fn what_is_broken_is_named_with_its_line() {
    let general = "%%MatrixMarket matrix coordinate real general\n";
    let symmetric = "%%MatrixMarket matrix coordinate real symmetric\n";
    let array = "%%MatrixMarket matrix array real general\n";
    let cases = [
        (String::new(), 1, "empty"),
        ("1 2 3\n".into(), 1, "%%MatrixMarket"),
        ("%%MatrixMarket matrix coordinate real lower\n".into(), 1, "symmetric"),
        ("%%MatrixMarket vector coordinate real symmetric\n".into(), 1, "%%MatrixMarket"),
        ("%%MatrixMarket vector array real\n2 3\n1\n2\n".into(), 2, "3 columns"),
        ("\u{1}\u{2}%%\n".into(), 1, "not text"),
        ("%%MatrixMarket matrix array pattern general\n".into(), 1, "pattern"),
        (general.into(), 2, "sizes"),
        (format!("{general}2 2\n"), 2, "rows, columns, nonzeros"),
        (format!("{general}2 2 1 1\n"), 2, "rows, columns, nonzeros"),
        (format!("{general}-2 2 1\n"), 2, "rows, columns, nonzeros"),
        (format!("{symmetric}2 3 1\n1 1 1\n"), 2, "symmetric matrix of 2 x 3"),
        (format!("{general}2 2 2\n% c\n1 1 1\n"), 5, "after 1 of 2"),
        (format!("{general}2 2 1\n1 1 1\n2 2 2\n"), 4, "more nonzeros"),
        (format!("{general}2 2 1\n0 1 1\n"), 3, "from 1"),
        (format!("{general}2 2 1\n1 3 1\n"), 3, "from 1"),
        (format!("{general}2 2 1\n1 1 nan\n"), 3, "finite"),
        (format!("{general}2 2 1\n1 1 1e999\n"), 3, "finite"),
        (format!("{general}2 2 1\n1 1\n"), 3, "finite"),
        (format!("{general}2 2 1\n1 1 1 1\n"), 3, "finite"),
        (format!("{general}2 2 1\n1 1 \u{fc}\n"), 3, "finite"),
        (format!("{general}5000000000 2 1\n1 1 1\n"), 2, "4294967295"),
        (format!("{general}4000000000 2 1\n1 1 1\n"), 2, "nearly all rows"),
        (format!("{general}2 2 1\n{}\n", "1".repeat(10_000)), 3, "not a comment"),
        (format!("{array}2 2\n1\n2\n3\n"), 6, "after 3 of 4"),
        (format!("{array}1 1\n1 2\n"), 3, "finite"),
        (format!("{array}4294967295 4294967295\n"), 2, ""),
        ("%%MatrixMarket matrix coordinate integer general\n1 1 1\n1 1 1.5\n".into(), 3, "whole"),
        (format!("{general}2 2 1\n1 1 x\n"), 3, "\"x\" in column 5"),
        (
            "%%MatrixMarket matrix coordinate integer general\n1 1 1\n1 1 9223372036854775808\n".into(),
            3,
            "outside of the integers -2^63",
        ),
        (
            "%%MatrixMarket matrix array unsigned-integer general\n1 1\n18446744073709551616\n".into(),
            3,
            "outside of the integers 0 to 2^64 - 1",
        ),
        ("%%MatrixMarket matrix coordinate unsigned-integer general\n1 1 1\n1 1 -1\n".into(), 3, "outside"),
        ("%%MatrixMarket matrix coordinate real skew-symmetric\n1 1 1\n1 1 2\n".into(), 3, "diagonal"),
        (format!("{general}1 1 2\n1 1 1e308\n1 1 1e308\n"), 4, "inf"),
    ];
    for (text, line, says) in cases {
        let begin: String = text.chars().take(80).collect();
        match read(text.as_bytes()) {
            Err(error @ Error::Content { line: Some(at), .. }) => {
                assert_eq!(at, line, "{begin:?}: {error}");
                assert!(error.to_string().contains(says), "{begin:?}: {error}");
                assert!(error.to_string().starts_with(&format!("a.mtx:{line}: ")), "{error}");
            }
            other => panic!("{begin:?}: {other:?}"),
        }
    }
}

#[test]
fn sizes_that_the_file_cannot_hold_are_refused_at_once() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("cut.mtx");
    std::fs::write(&path, "%%MatrixMarket matrix coordinate real general\n9 9 999999999\n1 1 1\n").unwrap();
    let error = files::read(&path).unwrap_err().to_string();
    assert!(error.contains("cut.mtx:2:") && error.contains("999999999 nonzeros"), "{error}");
    let missing = files::read(&folder.path().join("none.mtx")).unwrap_err().to_string();
    assert!(missing.contains("none.mtx") && missing.contains("open"), "{missing}");
}

#[test]
fn compressed_files_and_vectors() {
    let folder = tempfile::tempdir().unwrap();
    let a = Csr::from_triplets(2, 2, &[(0, 1, 0.1), (1, 0, 0.1), (1, 1, -1e-300)]).unwrap();
    for name in ["a.mtx", "a.mtx.gz"] {
        let path = folder.path().join(name);
        let mut bytes = Vec::new();
        market::write_to(&mut bytes, &path, &a, Symmetry::Symmetric, "two\nlines").unwrap();
        assert_eq!(bytes.starts_with(b"%%"), name == "a.mtx");
        std::fs::write(&path, &bytes).unwrap();
        assert_eq!(files::read(&path).unwrap(), Matrix { csr: a.clone(), complex: false });
        assert_eq!(read(&bytes).unwrap().symmetry, Symmetry::Symmetric);
    }
    let refused = market::write_to(&mut Vec::new(), Path::new("b.mtx"), &a, Symmetry::Skew, "").unwrap_err();
    assert!(refused.to_string().contains("skew-symmetric"), "{refused}");
    // A disk that is full.
    let full = market::write_to(&mut [0u8; 10].as_mut_slice(), Path::new("b.mtx"), &a, Symmetry::General, "");
    assert!(full.unwrap_err().to_string().contains("b.mtx: cannot write"));

    // Two gzip members one after the other are one file; one that is cut off is an error.
    let mut packed = Vec::new();
    for part in ["%%MatrixMarket matrix coordinate real general\n1 1 ", "1\n1 1 2.5\n"] {
        let mut member = GzEncoder::new(&mut packed, Compression::fast());
        member.write_all(part.as_bytes()).unwrap();
        member.finish().unwrap();
    }
    assert_eq!(elements(&read(&packed).unwrap().matrix), [(0, 0, 2.5)]);
    assert!(read(&packed[..packed.len() - 12]).is_err());

    let path = folder.path().join("v.mtx");
    std::fs::write(&path, "%%MatrixMarket matrix array real general\n3 1\n1\n-1e-1\n0\n").unwrap();
    assert_eq!(files::read_vectors(&path, None).unwrap().columns, [[1.0, -0.1, 0.0]]);
}

/// Strategy for valid files and files with an error at some position.
fn spoilt() -> impl Strategy<Value = Vec<u8>> {
    let word = prop_oneof![
        Just("%%MatrixMarket matrix coordinate real general\n"),
        Just("%%MatrixMarket matrix coordinate pattern symmetric\n"),
        Just("%%MatrixMarket matrix array integer skew-symmetric\n"),
        Just("% comment\n"),
        Just("3 3 4\n"),
        Just("3 3\n"),
        Just("1 1 1.5\n"),
        Just("3 2 -1e-7\n"),
        Just("2 1\n"),
        Just("7\n"),
        Just(" "),
        Just("\n"),
        Just("1e400"),
        Just("99999999999999999999 "),
        Just("4294967296 "),
        Just("\u{0}"),
        Just("\u{1f}\u{8b}"),
    ];
    let text = prop::collection::vec(word, 0..14).prop_map(|words| words.concat().into_bytes());
    (text, prop::collection::vec((any::<prop::sample::Index>(), any::<u8>()), 0..4), any::<bool>()).prop_map(
        |(mut text, flips, packed)| {
            if packed {
                let mut file = GzEncoder::new(Vec::new(), Compression::fast());
                file.write_all(&text).expect("memory takes all");
                text = file.finish().expect("memory takes all");
            }
            for (at, byte) in flips {
                if !text.is_empty() {
                    let at = at.index(text.len());
                    text[at] = byte;
                }
            }
            text
        },
    )
}

/// Checks that the reader returns a result, and that a matrix it accepts is read back from its
/// written form.
fn check(text: &[u8]) {
    if let Ok(market) = read(text) {
        let mut written = Vec::new();
        let name = Path::new("b.mtx");
        market::write_to(&mut written, name, &market.matrix, Symmetry::General, "")
            .expect("memory takes all");
        assert_eq!(read(&written).expect("what was written").matrix, market.matrix);
    }
}

proptest! {
    #[test]
    fn what_is_written_is_read_back(
        triplets in prop::collection::vec((0..5u32, 0..8u32, prop::num::f64::NORMAL | prop::num::f64::SUBNORMAL), 0..30)
    ) {
        // At most one element a place: sums may be infinite.
        let mut triplets = triplets;
        triplets.sort_by_key(|t| (t.0, t.1));
        triplets.dedup_by_key(|t| (t.0, t.1));
        let a = Csr::from_triplets(5, 8, &triplets).unwrap();
        let mut text = Vec::new();
        market::write_to(&mut text, Path::new("a.mtx"), &a, Symmetry::General, "c").unwrap();
        prop_assert_eq!(read(&text).unwrap().matrix, a);
    }

    #[test]
    fn nothing_makes_it_panic(text in spoilt()) {
        check(&text);
    }

    #[test]
    fn bytes_are_no_matrix(text in prop::collection::vec(any::<u8>(), 0..300)) {
        check(&text);
    }
}

/// Runs for `ZELLIGE_FUZZ_SECONDS` (600): `cargo test --release -p zellige-sparse --test it --
/// market:: --ignored`.
#[test]
#[ignore = "takes as long as it is given"]
fn fuzz() {
    let seconds =
        std::env::var("ZELLIGE_FUZZ_SECONDS").map_or(600, |text| text.parse().expect("a number of seconds"));
    let (mut runner, strategy) = (TestRunner::default(), spoilt());
    let (began, mut cases) = (Instant::now(), 0u64);
    while began.elapsed() < Duration::from_secs(seconds) {
        for _ in 0..1000 {
            let text = strategy.new_tree(&mut runner).expect("no filter").current();
            check(&text);
            cases += 1;
        }
    }
    println!("{cases} files in {seconds} s");
    assert!(cases > 0);
}

/// Real and imaginary parts by row and column.
type Dense = Vec<Vec<(f64, f64)>>;

/// Returns a file's complex matrix from its blocks.
fn complex(text: &str) -> Result<(Market, Dense), Error> {
    let market = read(text.as_bytes())?;
    let (rows, columns) = (market.matrix.rows(), market.matrix.columns());
    let mut dense = vec![vec![0.0; columns]; rows];
    elements(&market.matrix).into_iter().for_each(|(i, j, value)| dense[i][j] = value);
    for (i, j) in (0..rows / 2).flat_map(|i| (0..columns / 2).map(move |j| (2 * i, 2 * j))) {
        assert_eq!((dense[i][j], dense[i][j + 1]), (dense[i + 1][j + 1], -dense[i + 1][j]), "a block");
    }
    let number = |i: usize, j: usize| (dense[2 * i][2 * j], dense[2 * i + 1][2 * j]);
    let numbers = (0..rows / 2).map(|i| (0..columns / 2).map(|j| number(i, j)).collect()).collect();
    Ok((market, numbers))
}

#[test]
fn a_complex_matrix_is_a_real_one_of_blocks() {
    let (market, general) =
        complex("%%MatrixMarket matrix coordinate complex general\n2 3 3\n1 1 1 2\n2 3 0 -5\n1 1 1D0 0\n")
            .unwrap();
    assert_eq!((market.matrix.rows(), market.matrix.columns()), (4, 6));
    assert_eq!(general, [[(2.0, 2.0), (0.0, 0.0), (0.0, 0.0)], [(0.0, 0.0), (0.0, 0.0), (0.0, -5.0)]]);
    let (market, hermitian) =
        complex("%%MatrixMarket matrix coordinate complex hermitian\n2 2 2\n1 1 3 0\n2 1 1 4\n").unwrap();
    assert_eq!(hermitian, [[(3.0, 0.0), (1.0, -4.0)], [(1.0, 4.0), (0.0, 0.0)]]);
    assert!(market.matrix.is_symmetric() && market.symmetry == Symmetry::Hermitian);
    let (market, symmetric) =
        complex("%%MatrixMarket matrix array complex symmetric\n2 2\n1 1\n2 3\n0 0\n").unwrap();
    assert_eq!(symmetric, [[(1.0, 1.0), (2.0, 3.0)], [(2.0, 3.0), (0.0, 0.0)]]);
    assert!(!market.matrix.is_symmetric());
    let (_, skew) = complex("%%MatrixMarket matrix array complex skew-symmetric\n2 2\n7 1\n").unwrap();
    assert_eq!(skew, [[(0.0, 0.0), (-7.0, -1.0)], [(7.0, 1.0), (0.0, 0.0)]]);
    for (text, says) in [
        ("%%MatrixMarket matrix coordinate complex hermitian\n2 2 1\n1 1 3 1\n", "diagonal is real"),
        ("%%MatrixMarket matrix coordinate complex skew-symmetric\n2 2 1\n1 1 0 1\n", "diagonal is zero"),
        ("%%MatrixMarket matrix coordinate complex general\n2 2 1\n1 1 3\n", "two finite numbers"),
        ("%%MatrixMarket matrix array complex general\n1 1\n1 nan\n", "two finite numbers"),
        ("%%MatrixMarket matrix coordinate complex general\n3000000000 1 1\n1 1 3 1\n", "4294967295"),
    ] {
        let error = complex(text).unwrap_err().to_string();
        assert!(error.contains(says), "{text}: {error}");
    }
}

#[test]
fn complex_vectors_have_their_parts_in_turn() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("v.mtx");
    std::fs::write(&path, "%%MatrixMarket matrix array complex general\n2 2\n1 2\n3 0\n0 -5\n6 7\n").unwrap();
    let columns = vec![vec![1.0, 2.0, 3.0, 0.0], vec![0.0, -5.0, 6.0, 7.0]];
    assert_eq!(files::read_vectors(&path, Some(2)).unwrap(), Vectors { columns, complex: true });
    assert!(files::read_vectors(&path, Some(3)).unwrap_err().to_string().contains("3"));
    assert!(files::read_real(&path).unwrap_err().to_string().contains("zellige solve"));
    std::fs::write(&path, "%%MatrixMarket matrix array real general\n2 1\n1\n3\n").unwrap();
    let real = files::read_vectors(&path, None).unwrap();
    assert_eq!(real.into_complex(), [[1.0, 0.0, 3.0, 0.0]]);
}

#[test]
fn vectors_and_unsigned_integers_are_read() {
    for text in [
        "%%MatrixMarket vector coordinate real\n3 2\n1 1.5\n3 -2\n",
        "%%MatrixMarket vector coordinate real general\n3 1 2\n1 1 1.5\n3 1 -2\n",
        "%%MatrixMarket vector array real general\n3\n1.5\n0\n-2\n",
        "\u{feff}%%MatrixMarket vector array real\n3 1\n1.5\n0\n-2\n",
    ] {
        let vector = read(text.as_bytes()).unwrap().matrix;
        assert_eq!((vector.rows(), vector.columns()), (3, 1), "{text}");
        assert_eq!(elements(&vector), [(0, 0, 1.5), (2, 0, -2.0)], "{text}");
    }
    let text = "%%MatrixMarket matrix coordinate unsigned-integer general\n1 1 1\n1 1 18446744073709551615\n";
    assert_eq!(elements(&read(text.as_bytes()).unwrap().matrix), [(0, 0, 2f64.powi(64))]);
}

#[test]
fn zeros_of_an_array_are_no_elements() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("a.mtx");
    std::fs::write(&path, "%%MatrixMarket matrix array real general\n2 2\n1\n0\n-0.0\n2\n").unwrap();
    assert_eq!(elements(&files::read_real(&path).unwrap()), [(0, 0, 1.0), (1, 1, 2.0)]);
    std::fs::write(&path, "%%MatrixMarket matrix coordinate real general\n2 2 1\n1 2 0\n").unwrap();
    assert_eq!(elements(&files::read_real(&path).unwrap()), [(0, 1, 0.0)]);
}
