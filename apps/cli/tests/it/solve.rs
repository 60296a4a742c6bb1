//! `zellige solve`.

use std::path::Path;

use crate::common::{ok, results, run};
use serde_json::Value;

/// Returns the result, or the results of several right-hand sides.
fn json(here: &Path, args: &[&str]) -> Value {
    match results(&ok(here, &[args, &["--json", "-"]].concat())) {
        Value::Array(mut all) if all.len() == 1 => all.remove(0),
        all => all,
    }
}

#[test]
fn systems_are_solved_and_told_of() {
    let folder = tempfile::tempdir().unwrap();
    let here = folder.path();
    ok(here, &["matrix", "generate", "elasticity", "--size", "7x6x5", "-o", "a.mtx.gz"]);
    let words = ["solve", "a.mtx.gz", "-b", "random:3", "--tol", "1e-11"];
    let exact = json(here, &[&words[..], &["-o", "x.npy", "--report", "x.html", "--csv", "x.csv"]].concat());
    assert_eq!((&exact["converged"], &exact["reason"]), (&Value::Bool(true), &Value::from("converged")));
    let ratio = exact["true_residual"].as_f64().unwrap() / exact["rhs"].as_f64().unwrap();
    assert!(ratio <= 1e-11, "{exact}");
    let steps = exact["iterations"].as_u64().unwrap() as usize;
    assert_eq!(exact["history"]["iterated"].as_array().unwrap().len(), steps);
    // The file has the residual of the method, and the recomputed one before the first and after
    // the last step.
    let csv = std::fs::read_to_string(here.join("x.csv")).unwrap();
    let lines: Vec<Vec<&str>> = csv.lines().map(|line| line.split(',').collect()).collect();
    assert_eq!((lines.len(), &*lines[0]), (steps + 2, &["step", "residual", "true_residual"][..]));
    let last: f64 = lines[steps + 1][2].parse().unwrap();
    assert!((last / exact["true_residual"].as_f64().unwrap() - 1.0).abs() < 1e-9, "{csv}");
    assert!(lines[1][1].is_empty() && lines[1][2].parse::<f64>().unwrap() > last, "{csv}");
    let page = std::fs::read_to_string(here.join("x.html")).unwrap();
    assert!(page.contains("<svg") && page.contains("converged"));

    let parts = exact["bytes"].as_object().unwrap();
    let sum: u64 =
        parts.iter().filter(|(name, _)| *name != "total").map(|(_, bytes)| bytes.as_u64().unwrap()).sum();
    assert!(
        parts["total"] == sum && parts["given"].as_u64() > Some(0) && parts["vectors"].as_u64() > Some(0)
    );

    // A second run starts at the answer and needs no iteration.
    let again = json(here, &[&words[..], &["--x0", "x.npy"]].concat());
    assert_eq!(again["iterations"], 0);

    let narrow = json(
        here,
        &[&words[..], &["--operator", "ap7:cw:2^-24", "--method", "gmres:60", "--precond", "ilu0"]].concat(),
    );
    assert_eq!((&narrow["converged"], &narrow["method"]), (&Value::Bool(true), &Value::from("gmres(60)")));
    assert!(
        narrow["bytes"]["operator"].as_u64().unwrap() * 4 < narrow["bytes"]["matrix"].as_u64().unwrap() * 3
    );
    assert!(
        ok(here, &["solve", "a.mtx.gz", "--reorder", "--precond", "amg", "--workers", "2"])
            .contains("converged")
    );
}

#[test]
fn each_column_of_a_file_is_solved_for() {
    let folder = tempfile::tempdir().unwrap();
    let here = folder.path();
    ok(here, &["matrix", "generate", "flow", "--size", "9x8x7", "-o", "a.mtx"]);
    let n = 9 * 8 * 7;
    let mut columns = format!("%%MatrixMarket matrix array real general\n{n} 3\n");
    (0..3 * n).for_each(|i| columns += &format!("{}\n", i % 11));
    std::fs::write(here.join("b.mtx"), columns).unwrap();
    let words = ["solve", "a.mtx", "-b", "b.mtx", "--method", "gmres:50", "--basis-format", "block16"];
    let all = json(here, &[&words[..], &["-o", "x.mtx", "--csv", "x.csv", "--report", "x.html"]].concat());
    let all = all.as_array().unwrap();
    assert_eq!(all.len(), 3);
    assert!(all.iter().all(|answer| answer["converged"] == true));
    let steps: u64 = all.iter().map(|answer| answer["iterations"].as_u64().unwrap()).sum();
    assert_eq!(std::fs::read_to_string(here.join("x.csv")).unwrap().lines().count() as u64, steps + 3 + 1);
    assert!(std::fs::read_to_string(here.join("x.mtx")).unwrap().contains(&format!("{n} 3")));
    // The answers are correct, since a run that starts at them needs no iteration.
    let again = json(here, &["solve", "a.mtx", "-b", "b.mtx", "--x0", "x.mtx"]);
    assert!(again.as_array().unwrap().iter().all(|answer| answer["iterations"] == 0));
    let wrong = run(here, &["solve", "a.mtx", "-b", "b.mtx", "--basis-format", "rpre16"]);
    assert_eq!(wrong.code, Some(2));
    assert!(wrong.stderr.contains("scale"), "{}", wrong.stderr);
}

#[test]
fn set_ups_of_amg_are_files() {
    let folder = tempfile::tempdir().unwrap();
    let here = folder.path();
    ok(here, &["matrix", "generate", "elasticity", "--size", "8x8x7", "-o", "a.mtx"]);
    ok(here, &["matrix", "generate", "flow", "--size", "12x12x10", "-o", "b.mtx"]);
    let first = json(here, &["solve", "a.mtx", "--save-setup", "a.npz", "-o", "x.npy"]);
    let again = json(here, &["solve", "a.mtx", "--setup", "a.npz", "-o", "y.npy"]);
    assert_eq!((&first["preconditioner"], &again["preconditioner"]), (&"amg".into(), &"amg".into()));
    assert_eq!(first["iterations"], again["iterations"]);
    let file = |name: &str| std::fs::read(here.join(name)).unwrap();
    assert!(file("x.npy") == file("y.npy"), "other bits with a set-up from a file");
    let several = ["--method", "block-cg", "--setup", "a.npz"];
    let several = json(here, &[&["solve", "a.mtx", "-b", "random:1"], &several[..]].concat());
    assert_eq!((&several["method"], &several["converged"]), (&"block-cg".into(), &true.into()));
    for (words, expected) in [
        (&["solve", "b.mtx", "--setup", "a.npz"][..], "amg's set-up: it is of a matrix with"),
        (&["solve", "a.mtx", "--setup", "a.npz", "--precond", "ic0"], "name --precond amg"),
        (&["solve", "a.mtx", "--setup", "x.npy"], "x.npy"),
        (&["solve", "a.mtx", "--setup", "none.npz"], "none.npz cannot be read"),
        (&["solve", "a.mtx", "--save-setup", "a.txt"], "npz"),
        (&["solve", "a.mtx", "--setup", "a.npz", "--save-setup", "c.npz"], "cannot be used with"),
        (&["solve", "a.mtx", "--setup", "a.npz", "--damping", "1"], "--setup"),
        (&["trust", "solve", "a.mtx", "--setup", "a.npz"], "setup"),
    ] {
        let refused = run(here, words);
        assert_eq!(refused.code, Some(2), "{words:?}: {}", refused.stderr);
        assert!(refused.stderr.contains(expected), "{words:?}: {}", refused.stderr);
    }
}

#[test]
fn narrow_products_on_the_way_and_shifts_have_options() {
    let folder = tempfile::tempdir().unwrap();
    let here = folder.path();
    ok(here, &["matrix", "generate", "flow", "--size", "9x8x7", "--spread", "0.5", "-o", "a.mtx"]);
    let solve = |words: &str| {
        let words: Vec<&str> = words.split_whitespace().collect();
        json(here, &[&["solve", "a.mtx"], &words[..]].concat())
    };
    for (words, method) in [
        ("--method cg --precond jacobi --operator ap7:cw:2^-20 --reliable", "reliable cg"),
        ("--method fcg --precond jacobi --operator fp32 --reliable=0.01", "reliable fcg"),
        ("--method gmres:60 --precond ilu0 --relax ap7:cw:2^-37,fp32,ap7:cw:2^-16", "relaxed gmres(60)"),
        ("--method gmres:60 --precond ilu0 --operator ap7:cw-exact:2^-30 --x-for ones", "gmres(60)"),
        ("--method fgmres:60 --precond ilu0 --basis-format fp32", "fgmres(60,fp32)"),
    ] {
        let answer = solve(words);
        assert_eq!((&answer["converged"], &answer["method"]), (&Value::Bool(true), &Value::from(method)));
    }
    let chosen = solve("--method gmres:60 --precond ilu0 --operator auto:cw:2^-24");
    let chosen = chosen["operator"].as_str().unwrap();
    let again = solve(&format!("--method gmres:60 --precond ilu0 --operator {chosen}"));
    assert_eq!((&again["operator"], &again["converged"]), (&Value::from(chosen), &Value::Bool(true)));
    let shifted = solve("--shifts 0,2.5,-1e-12 -o x.mtx --csv x.csv --report x.html");
    let shifts: Vec<_> =
        shifted.as_array().unwrap().iter().map(|one| one["shift"].as_f64().unwrap()).collect();
    assert_eq!(shifts, [0.0, 2.5, -1e-12]);
    assert!(
        shifted
            .as_array()
            .unwrap()
            .iter()
            .all(|one| one["converged"] == true && one["method"] == "shifted cg")
    );
    assert!(std::fs::read_to_string(here.join("x.mtx")).unwrap().contains("504 3"));
    assert!(std::fs::read_to_string(here.join("x.csv")).unwrap().contains("\n1,2.5,0,"));
    assert!(std::fs::read_to_string(here.join("x.html")).unwrap().contains("right-hand side 1, shift 2.5"));
    // A zero shift gives the solution of the unshifted system, since a run from there needs no
    // iteration.
    let one = solve("--shifts 0 -o y.mtx");
    assert_eq!(one["shift"], 0.0);
    assert_eq!(solve("--x0 y.mtx")["iterations"], 0);
}

#[test]
fn what_is_wrong_has_a_code_and_a_name() {
    let folder = tempfile::tempdir().unwrap();
    let here = folder.path();
    std::fs::write(here.join("z.mtx"), "%%MatrixMarket matrix coordinate real general\n2 2 1\n1 1 1\n")
        .unwrap();
    std::fs::write(here.join("b.mtx"), "%%MatrixMarket matrix array real general\n3 1\n1\n1\n1\n").unwrap();
    let turn = "%%MatrixMarket matrix array real general\n2 2\n1\n-2\n2\n1\n";
    std::fs::write(here.join("turn.mtx"), turn).unwrap();
    // A ring: every row adds up to zero, and the vector of ones is not in the range of the matrix.
    let of_row = |i: usize| [(i, i, 2), (i, i % 9 + 1, -1), (i % 9 + 1, i, -1)];
    let ring: String = (1..=9).flat_map(of_row).map(|(i, j, a)| format!("{i} {j} {a}\n")).collect();
    let ring = format!("%%MatrixMarket matrix coordinate real general\n9 9 27\n{ring}");
    std::fs::write(here.join("ring.mtx"), ring).unwrap();
    ok(here, &["matrix", "generate", "flow", "--size", "8x8x8", "-o", "a.mtx"]);
    let indefinite = "%%MatrixMarket matrix array real symmetric\n2 2\n1\n2\n1\n";
    std::fs::write(here.join("indefinite.mtx"), indefinite).unwrap();
    std::fs::write(here.join("b.txt"), "1.0\n2.0\n").unwrap();
    std::fs::write(here.join("a.npz"), b"PK\x03\x04\x14\0\0\0").unwrap();
    zellige_files::array::write(&here.join("short.npy"), &[3], [1.0, 2.0, 3.0]).unwrap();
    let cases: [(&[&str], i32, &str); 29] = [
        (&["solve", "none.mtx"], 2, "error: none.mtx cannot be read: "),
        (&["matrix", "convert", "none.mtx", "c.mtx"], 2, "error: none.mtx cannot be read: "),
        (&["solve", "a.mtx", "-b", "none.npy"], 2, "error: --rhs: none.npy cannot be read: "),
        (
            &["solve", "a.mtx", "-b", "short.npy"],
            2,
            "short.npy: columns of 3 numbers where the matrix needs 512",
        ),
        (&["solve", "a.mtx", "-b", "b.txt"], 2, "b.txt: columns of 2 numbers where the matrix needs 512"),
        (&["solve", "a.npz"], 2, "no npz file"),
        (&["solve", "a.mtx", "--method", "lu"], 2, "a preconditioner (--precond)"),
        (
            &["solve", "indefinite.mtx", "-b", "random:2", "--method", "cg", "--precond", "none"],
            5,
            "not positive definite",
        ),
        (&["solve", "ring.mtx", "-b", "ones", "--method", "minres", "--precond", "none"], 5, "--nullspace"),
        (
            &["solve", "turn.mtx", "--method", "cg", "--precond", "none", "--max-steps", "3"],
            5,
            "not symmetric",
        ),
        (&["solve", "z.mtx"], 2, "row 2 is all zeros"),
        (&["solve", "a.mtx", "-b", "b.mtx"], 2, "3"),
        (&["solve", "a.mtx", "--method", "gmers"], 2, "gmres:40"),
        (&["solve", "a.mtx", "--operator", "ap7:2^-24"], 2, "ap7:cw:2^-24"),
        (&["solve", "a.mtx", "-b", "random:x"], 2, "seed"),
        (&["solve", "a.mtx", "--nullspace", "constant"], 2, "not in the null space"),
        (&["solve", "a.mtx", "--method", "cg", "--basis-format", "fp32"], 2, "only gmres"),
        (&["solve", "a.mtx", "--relax", "fp32"], 2, "--method gmres:M"),
        (&["solve", "a.mtx", "--method", "gmres", "--relax", "fp32,ap7:cw:2^-30"], 2, "most accurate"),
        (&["solve", "a.mtx", "--method", "cg", "--reliable"], 2, "low-precision --operator"),
        (&["solve", "a.mtx", "--operator", "fp32", "--reliable"], 2, "--method cg"),
        (&["solve", "a.mtx", "--operator", "ap7:cw-exact:2^-24"], 2, "x-for"),
        (&["solve", "a.mtx", "--device-memory", "1GB"], 2, "--device cuda"),
        (&["solve", "a.mtx", "--device", "cuda:99"], 4, "zellige machine show"),
        (&["solve", "a.mtx", "--x-for", "ones"], 2, "only cw-exact"),
        (&["solve", "a.mtx", "--shifts", "1,nan"], 2, "--shifts: NaN is not finite"),
        (&["solve", "a.mtx", "--shifts", "1", "--precond", "ilu0"], 2, "--precond none"),
        (&["solve", "a.mtx", "--shifts", "1", "--x0", "b.mtx"], 2, "--x0"),
        (&["solve", "a.mtx", "--method", "cg", "--precond", "jacobi", "--max-steps", "3"], 5, "--max-steps"),
    ];
    for (args, code, word) in cases {
        let ran = run(here, args);
        assert_eq!(ran.code, Some(code), "{args:?}: {}", ran.stderr);
        assert!(ran.stderr.contains(word), "{args:?}: {}", ran.stderr);
    }
}

/// A line through four points has the textbook answer, for any number of concurrent right-hand
/// sides.
#[test]
fn matrices_that_are_not_square_are_least_squares() {
    let folder = tempfile::tempdir().unwrap();
    let here = folder.path();
    let head = "%%MatrixMarket matrix";
    std::fs::write(here.join("a.mtx"), format!("{head} array real general\n4 2\n1\n1\n1\n1\n1\n2\n3\n4\n"))
        .unwrap();
    std::fs::write(
        here.join("b.mtx"),
        format!("{head} array real general\n4 2\n6\n5\n7\n10\n12\n10\n14\n20\n"),
    )
    .unwrap();
    let words = [
        "solve", "a.mtx", "-b", "b.mtx", "--tol", "1e-13", "--json", "-", "-o", "x.mtx", "--report", "x.html",
    ];
    let found = crate::common::results(&ok(here, &words));
    assert_eq!(
        (found[0]["method"].as_str(), found[0]["rows"].as_u64(), found[0]["columns"].as_u64()),
        (Some("lsmr"), Some(4), Some(2))
    );
    assert!((found[0]["residual"].as_f64().unwrap() - 4.2f64.sqrt()).abs() < 1e-12, "{found}");
    let text = std::fs::read_to_string(here.join("x.mtx")).unwrap();
    let x: Vec<f64> = text
        .lines()
        .filter(|line| !line.starts_with('%'))
        .skip(1)
        .map(|line| line.parse().unwrap())
        .collect();
    for (x, wanted) in x.iter().zip([3.5, 1.4, 7.0, 2.8]) {
        assert!((x - wanted).abs() < 1e-11, "{x} {wanted}");
    }
    assert!(std::fs::read_to_string(here.join("x.html")).unwrap().contains("<svg"));
    // Damping also applies to a square matrix, and shortens the answer.
    std::fs::write(here.join("i.mtx"), format!("{head} coordinate real general\n2 2 2\n1 1 1\n2 2 1\n"))
        .unwrap();
    let found = crate::common::results(&ok(here, &["solve", "i.mtx", "--damping", "1", "--json", "-"]));
    assert!((found[0]["answer"].as_f64().unwrap() - 0.5f64.sqrt()).abs() < 1e-12, "{found}");
    let refused = |words: &[&str], code: i32, part: &str| {
        let ran = run(here, words);
        assert_eq!(ran.code, Some(code), "{words:?}: {}", ran.stderr);
        assert!(ran.stderr.contains(part), "{words:?}: {}", ran.stderr);
    };
    refused(&["solve", "a.mtx", "--method", "cg"], 2, "least squares");
    refused(&["solve", "i.mtx", "--damping", "1", "--precond", "jacobi"], 2, "least squares");
    refused(&["solve", "i.mtx", "--damping=-1"], 2, "0 or more");
    refused(
        &["solve", "a.mtx", "-b", "random:1", "--max-steps", "1", "--tol", "1e-15"],
        5,
        "neither measure",
    );
}

/// Returns the pairs of numbers of a Matrix Market array.
fn pairs(path: &std::path::Path) -> Vec<[f64; 2]> {
    let text = std::fs::read_to_string(path).unwrap();
    assert!(text.starts_with("%%MatrixMarket matrix array complex general\n"), "{text}");
    let pair = |line: &str| {
        let mut parts = line.split(' ').map(|part| part.parse().unwrap());
        [parts.next().unwrap(), parts.next().unwrap()]
    };
    text.lines().skip(2).map(pair).collect()
}

/// The answers are those of Gaussian elimination in rational numbers (Python's `fractions`).
#[test]
fn complex_systems_have_complex_answers() {
    let folder = tempfile::tempdir().unwrap();
    let here = folder.path();
    let head = "%%MatrixMarket matrix";
    let mut general = format!("{head} coordinate complex general\n5 5 13\n");
    let mut hermitian = format!("{head} coordinate complex hermitian\n5 5 9\n");
    for i in 1..=5 {
        general += &format!("{i} {i} 4 {}\n", i - 1);
        hermitian += &format!("{i} {i} 5 0\n");
        if i > 1 {
            general += &format!("{i} {} -1 2\n{} {i} 0.5 -1\n", i - 1, i - 1);
            hermitian += &format!("{i} {} 1 1.5\n", i - 1);
        }
    }
    std::fs::write(here.join("a.mtx"), general).unwrap();
    std::fs::write(here.join("h.mtx"), hermitian).unwrap();
    std::fs::write(
        here.join("b.mtx"),
        format!("{head} array complex general\n5 1\n1 0\n2 -1\n0 0\n0 -3\n1 1\n"),
    )
    .unwrap();
    let close = |wanted: [[f64; 2]; 5]| {
        for (x, wanted) in pairs(&here.join("x.mtx")).iter().zip(wanted) {
            assert!((x[0] - wanted[0]).hypot(x[1] - wanted[1]) < 1e-11, "{x:?} {wanted:?}");
        }
    };
    let general = [
        [0.28213962404709275, 0.24065353270158493],
        [0.7186679061697234, -0.4878924492732326],
        [-0.1670678942252307, -0.5155834373892483],
        [-0.6249979372175462, -0.30751332164554246],
        [0.21280724653511485, 0.2728133916622726],
    ];
    let hermitian = [
        [0.17693612210288298, 0.052232899943470884],
        [0.15602035048049745, -0.027133973996608253],
        [0.12131147540983607, 0.0],
        [0.15602035048049745, 0.027133973996608253],
        [0.17693612210288298, -0.052232899943470884],
    ];
    for more in
        [&["--method", "gmres:10", "--precond", "none"][..], &["--precond", "ilu0"], &["--damping", "0"]]
    {
        let words =
            [&["solve", "a.mtx", "-b", "b.mtx", "-o", "x.mtx", "--tol", "1e-13", "--json", "-"], more]
                .concat();
        let found = crate::common::results(&ok(here, &words));
        assert_eq!((found[0]["complex"].as_bool(), found[0]["rows"].as_u64()), (Some(true), Some(10)));
        close(general);
    }
    // A Hermitian positive definite matrix: conjugate gradients on request and by default.
    for more in [&["--method", "cg"][..], &[]] {
        ok(here, &[&["solve", "h.mtx", "-o", "x.mtx", "--tol", "1e-13"], more].concat());
        close(hermitian);
    }
    // The solution in NumPy's format, and a run that starts at it.
    ok(here, &["solve", "h.mtx", "-b", "b.mtx", "-o", "x.npy", "--tol", "1e-12"]);
    assert!(std::fs::read(here.join("x.npy")).unwrap().windows(3).any(|part| part == b"c16"));
    let again = ["solve", "h.mtx", "-b", "b.mtx", "--x0", "x.npy", "--tol", "1e-11", "--json", "-"];
    assert_eq!(crate::common::results(&ok(here, &again))[0]["iterations"], 0);
    for option in [&["--nullspace", "constant"], &["--x-for", "ones"]] {
        let ran = run(here, &[&["solve", "a.mtx"], &option[..]].concat());
        assert_eq!(ran.code, Some(2), "{}", ran.stderr);
        assert!(ran.stderr.contains("real systems only"), "{}", ran.stderr);
    }
    let described = crate::common::result(&ok(here, &["matrix", "info", "h.mtx", "--json", "-"]));
    assert_eq!((&described["complex"], &described["hermitian"]), (&true.into(), &true.into()));
    assert_eq!((&described["rows"], &described["symmetric"]), (&5.into(), &false.into()));
    assert!(ok(here, &["matrix", "info", "h.mtx"]).contains("5 x 5, complex, Hermitian"));
    for words in [&["matrix", "convert", "a.mtx", "c.mtx"][..], &["spmv", "a.mtx"]] {
        let ran = run(here, words);
        assert_eq!(ran.code, Some(2), "{}", ran.stderr);
        assert!(ran.stderr.contains("complex matrix"), "{}", ran.stderr);
    }
}

/// A complex right-hand side or initial guess with a real matrix; the reference is NumPy's.
#[test]
fn a_complex_right_hand_side_of_a_real_matrix_has_a_complex_answer() {
    let folder = tempfile::tempdir().unwrap();
    let here = folder.path();
    let head = "%%MatrixMarket matrix";
    std::fs::write(
        here.join("a.mtx"),
        format!("{head} coordinate real general\n2 2 3\n1 1 2\n1 2 1\n2 2 4\n"),
    )
    .unwrap();
    // The right-hand side b = (1 + 2i, -4i) has the solution x = ((1 + 3i) / 2, -i).
    std::fs::write(here.join("b.txt"), "(1+2j)\n-4j\n").unwrap();
    let words = ["solve", "a.mtx", "-b", "b.txt", "-o", "x.mtx", "--tol", "1e-14", "--json", "-"];
    let found = crate::common::result(&ok(here, &words));
    assert_eq!((&found["complex"], &found["rows"]), (&true.into(), &4.into()));
    let x = pairs(&here.join("x.mtx"));
    for (x, wanted) in x.iter().zip([(0.5, 1.5), (0.0, -1.0)]) {
        assert!((x[0] - wanted.0).hypot(x[1] - wanted.1) < 1e-13, "{x:?} {wanted:?}");
    }
    let again = ["solve", "a.mtx", "-b", "b.txt", "--x0", "x.mtx", "--tol", "1e-13", "--json", "-"];
    assert_eq!(crate::common::result(&ok(here, &again))["iterations"], 0);
    // A real right-hand side with a complex guess.
    std::fs::write(here.join("c.csv"), "b\n1\n2\n").unwrap();
    ok(here, &["solve", "a.mtx", "-b", "c.csv", "--x0", "x.mtx", "-o", "y.npy"]);
    assert!(std::fs::read(here.join("y.npy")).unwrap().windows(3).any(|part| part == b"c16"));
    let ran = run(here, &["spmv", "a.mtx", "--x-for", "b.txt"]);
    assert!(ran.code == Some(2) && ran.stderr.contains("real numbers are needed"), "{ran:#?}");
    // The same matrix as a dense array: its zero is not stored as a nonzero.
    zellige_files::array::write(&here.join("a.bin"), &[2, 2], [2.0f32, 1.0, 0.0, 4.0]).unwrap();
    let described = crate::common::result(&ok(here, &["matrix", "info", "a.bin", "--json", "-"]));
    assert_eq!((&described["nonzeros"], &described["zeros"]), (&3.into(), &0.into()));
    ok(here, &["matrix", "convert", "a.bin", "c.mtx"]);
    assert_eq!(
        std::fs::read_to_string(here.join("c.mtx")).unwrap(),
        format!("{head} coordinate real general\n2 2 3\n1 1 2e0\n1 2 1e0\n2 2 4e0\n")
    );
}
