//! Systems that incomplete factors of the original matrix do not solve: zero diagonals, rows of
//! other units, saddle points, circuits, singular ones.

use zellige_runtime::Runtime;

use crate::csr::Triplet;
use crate::direct;
use crate::generate::{Flow, Transport, flow, transport};
use crate::krylov::History;
use crate::system::{Answer, Options, PreconditionerChoice, ScalingChoice, System, solve};
use crate::{Csr, Error};

/// Random numbers from 0 to `below`, equal on every machine.
struct Random(u64);

impl Random {
    fn next(&mut self, below: u32) -> u32 {
        self.0 = self.0.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        (self.0 >> 33) as u32 % below
    }

    /// Returns a number from -1 to 1.
    fn signed(&mut self) -> f64 {
        f64::from(self.next(2001)) / 1000.0 - 1.0
    }
}

fn matrix(n: u32, triplets: &[Triplet]) -> Csr {
    Csr::from_triplets(n as usize, n as usize, triplets).expect("a matrix")
}

/// Returns a transport problem with its rows in another order: nearly every diagonal entry is a
/// structural zero.
fn shuffled() -> Result<Csr, Error> {
    let a =
        transport(&Transport { flow: Flow { cells: [9, 8, 7], ..Flow::default() }, ..Transport::default() })?;
    let n = a.rows() as u32;
    let mut triplets = Vec::new();
    for (i, (column, value)) in a.iter().enumerate() {
        triplets.extend(column.iter().zip(value).map(|(&j, &value)| ((i as u32 * 101 + 7) % n, j, value)));
    }
    Ok(matrix(n, &triplets))
}

/// Returns a transport matrix in its own order, with rows and columns of units that differ by 20
/// decades.
fn units() -> Result<Csr, Error> {
    let a =
        transport(&Transport { flow: Flow { cells: [9, 8, 7], ..Flow::default() }, ..Transport::default() })?;
    let unit = |i: usize, step: usize| 10f64.powi((i * step % 21) as i32 - 10);
    Ok(a.map_values(|i, j, value| unit(i, 5) * value * unit(j as usize, 8).powf(0.3)))
}

/// Returns `[A, B^T; B, 0]` with the Laplacian of a chain, and constraints on sums of neighbours.
fn saddle_point() -> Csr {
    let (n, m) = (300u32, 100u32);
    let mut triplets: Vec<Triplet> = (0..n).map(|i| (i, i, 2.0 + f64::from(i % 3))).collect();
    triplets.extend((1..n).flat_map(|i| [(i, i - 1, -1.0), (i - 1, i, -1.0)]));
    for k in 0..m {
        for (i, value) in [(3 * k, 1.0), (3 * k + 1, -2.0), ((3 * k + 5) % n, 0.5)] {
            triplets.extend([(n + k, i, value), (i, n + k, value)]);
        }
    }
    matrix(n + m, &triplets)
}

/// Returns a modified nodal analysis: conductances from 1e-12 to 1 between nodes, leaks to ground,
/// voltage sources whose rows have no diagonal, and one node that is connected with many others.
fn circuit() -> Csr {
    let (nodes, sources) = (600u32, 60u32);
    let mut random = Random(5);
    let mut triplets: Vec<Triplet> = (0..nodes).map(|i| (i, i, 1e-12)).collect();
    let mut connect = |i: u32, j: u32, g: f64| {
        triplets.extend([(i, i, g), (j, j, g), (i, j, -g), (j, i, -g)]);
    };
    for i in 1..nodes {
        connect(i, random.next(i), 10f64.powi(-(random.next(13) as i32)));
        if i % 3 == 0 {
            connect(i, 0, 1e-3 * (1.0 + random.signed().abs()));
        }
    }
    for k in 0..sources {
        let (row, plus) = (nodes + k, 10 * k + 3);
        triplets.extend([(row, plus, 1.0), (plus, row, 1.0)]);
        if k % 2 == 0 {
            triplets.extend([(row, plus - 2, -1.0), (plus - 2, row, -1.0)]);
        }
        // A source that another voltage controls.
        triplets.push((row, (plus + 250) % nodes, 0.1 * random.signed()));
    }
    matrix(nodes + sources, &triplets)
}

/// Returns a matrix of scattered nonzeros without structure: incomplete factors are a very poor
/// approximation of it.
fn scattered() -> Csr {
    let n = 400;
    let mut random = Random(3);
    let triplets: Vec<Triplet> = (0..n)
        .flat_map(|i| (0..6).map(move |k| (i, k)))
        .map(|(i, k)| (i, if k == 0 { (i + 17) % n } else { random.next(n) }, random.signed() + 1e-3))
        .collect();
    matrix(n, &triplets)
}

pub(super) fn all() -> Result<Vec<(&'static str, Csr)>, Error> {
    Ok(vec![
        ("shuffled", shuffled()?),
        ("units", units()?),
        ("saddle point", saddle_point()),
        ("circuit", circuit()),
        ("scattered", scattered()),
    ])
}

pub(super) fn rhs(a: &Csr) -> Vec<f64> {
    let x: Vec<f64> = (0..a.rows()).map(|i| ((i * 37 % 101) as f64 - 50.0) / 50.0).collect();
    let mut b = vec![0.0; a.rows()];
    a.multiply(&x, &mut b).expect("a vector that fits");
    b
}

fn norm(v: impl Iterator<Item = f64>) -> f64 {
    v.map(|v| v * v).sum::<f64>().sqrt()
}

/// Compares the answer with that of elimination with complete pivoting, to the accuracy that the
/// condition allows; scaled rows and columns are compared, since the condition bounds only these.
fn agrees(name: &str, a: &Csr, x: &[f64], b: &[f64]) -> Result<(), Error> {
    let matching = crate::matching::Matching::new(a)?;
    let scaled = a.map_values(|i, j, value| matching.rows[i] * value * matching.columns[j as usize]);
    let b: Vec<f64> = b.iter().zip(&matching.rows).map(|(b, scale)| b * scale).collect();
    let expected = direct::solved(&scaled, &b);
    let x: Vec<f64> = x.iter().zip(&matching.columns).map(|(x, scale)| x / scale).collect();
    let error = norm(x.iter().zip(&expected).map(|(x, y)| x - y)) / norm(expected.iter().copied());
    let mut product = vec![0.0; a.rows()];
    scaled.multiply(&x, &mut product)?;
    let residual = norm(product.iter().zip(&b).map(|(p, b)| p - b)) / norm(b.iter().copied());
    let condition = direct::condition(&scaled);
    assert!(
        error <= 10.0 * condition * (residual + 1e-15),
        "{name}: {error:e}, condition {condition:e}, {residual:e}"
    );
    Ok(())
}

fn solved(rt: &Runtime, a: &Csr, options: &Options) -> Result<(Vec<f64>, Answer), Error> {
    let mut x = vec![0.0; a.rows()];
    let answer = solve(rt, a, &rhs(a), &mut x, options, &mut ())?;
    Ok((x, answer))
}

#[test]
fn they_have_answers_by_default_options() -> Result<(), Error> {
    let rt = Runtime::builder().workers(2).build()?;
    for (name, a) in all()? {
        let (x, answer) = solved(&rt, &a, &Options::default())?;
        println!("{name}: {:?}", answer.attempts);
        assert!(answer.solution.reason.is_converged(), "{name}: {:?}", answer.attempts);
        agrees(name, &a, &x, &rhs(&a))?;
    }
    Ok(())
}

/// Solves each system with named options: complete factors always, incomplete ones with matching
/// unless the matrix is as bad as the last two.
#[test]
fn they_have_answers_by_name() -> Result<(), Error> {
    let rt = Runtime::builder().workers(2).build()?;
    for (name, a) in all()? {
        let lu = Options {
            preconditioner: PreconditionerChoice::Lu,
            method: "gmres:10".parse()?,
            ..Options::default()
        };
        let (x, answer) = solved(&rt, &a, &lu)?;
        assert!(answer.solution.reason.is_converged() && answer.solution.steps <= 10, "{name}: {answer:?}");
        assert!(answer.bytes.preconditioner > 0);
        agrees(name, &a, &x, &rhs(&a))?;
        if ["shuffled", "units", "saddle point"].contains(&name) {
            for reorder in [false, true] {
                let scaling = ScalingChoice::Matching;
                let ilu = Options {
                    preconditioner: PreconditionerChoice::Ilu0,
                    scaling,
                    reorder,
                    ..Options::default()
                };
                let (x, answer) = solved(&rt, &a, &ilu)?;
                assert!(answer.solution.reason.is_converged(), "{name}: {answer:?}");
                assert!(answer.bytes.rearranged > a.memory());
                agrees(name, &a, &x, &rhs(&a))?;
            }
        }
    }
    Ok(())
}

/// An incomplete factorisation that fails at the first zero, before: what it says names the way
/// out.
#[test]
fn a_zero_diagonal_without_matching_is_named() -> Result<(), Error> {
    let rt = Runtime::builder().workers(1).build()?;
    let options = Options {
        preconditioner: PreconditionerChoice::Ilu0,
        scaling: ScalingChoice::None,
        method: "gmres:40".parse()?,
        ..Options::default()
    };
    let error = solved(&rt, &shuffled()?, &options).expect_err("no factors").to_string();
    assert!(error.contains("no diagonal entry") && error.contains("--scale matching"), "{error}");
    Ok(())
}

#[test]
fn answers_have_the_same_bits_on_any_number_of_workers() -> Result<(), Error> {
    for (name, a) in all()? {
        let mut bits: Vec<Vec<u64>> = Vec::new();
        for workers in [1, 2, 4] {
            let rt = Runtime::builder().workers(workers).build()?;
            let (x, answer) = solved(&rt, &a, &Options::default())?;
            bits.push(x.iter().map(|x| x.to_bits()).chain([answer.solution.steps as u64]).collect());
        }
        assert!(bits[0] == bits[1] && bits[1] == bits[2], "{name}");
    }
    Ok(())
}

/// Several right-hand sides share one factorisation, and a vector of several parts goes through it
/// whole.
#[test]
fn complete_factors_serve_several_right_hand_sides() -> Result<(), Error> {
    let rt = Runtime::builder().workers(2).build()?;
    let a = flow(&Flow { cells: [24, 20, 18], ..Flow::default() })?;
    let parse = |method: &str| -> Result<Options, Error> {
        Ok(Options {
            preconditioner: PreconditionerChoice::Lu,
            method: method.parse()?,
            ..Options::default()
        })
    };
    let b: Vec<Vec<f64>> =
        (0..3).map(|k| (0..a.rows()).map(|i| ((i * (k + 3)) % 29) as f64 - 14.0).collect()).collect();
    for method in ["cg", "gmres:10"] {
        let system = System::new(&rt, &a, &parse(method)?)?;
        let (mut x, mut logs) = (vec![vec![0.0; a.rows()]; 3], vec![History::default(); 3]);
        let answers = system.solve_each(&b, &mut x, &mut logs)?;
        for (k, answer) in answers.iter().enumerate() {
            assert!(answer.solution.reason.is_converged() && answer.solution.steps <= 4, "{answer:?}");
            let mut alone = vec![0.0; a.rows()];
            system.solve(&b[k], &mut alone, &mut ())?;
            assert!(alone.iter().zip(&x[k]).all(|(x, y)| x.to_bits() == y.to_bits()), "{method} {k}");
        }
    }
    Ok(())
}

/// Returns the Laplacian of a connected graph: singular; a change of one row makes it nonsymmetric.
fn ring(n: u32) -> Csr {
    let beside =
        |i: u32| [(i, i, 3.0), (i, (i + 1) % n, -1.0), (i, (i + n - 1) % n, -1.0), (i, (i + 7) % n, -1.0)];
    matrix(n, &(0..n).flat_map(beside).collect::<Vec<_>>())
}

#[test]
fn singular_systems_are_told_how() -> Result<(), Error> {
    let rt = Runtime::builder().workers(1).build()?;
    let a = ring(120);
    assert!(
        crate::system::has_constant_null_space(&a) && !crate::system::has_constant_null_space(&scattered())
    );
    // Its columns add up to zero, too: there is an answer for what has no mean.
    let lu = Options {
        preconditioner: PreconditionerChoice::Lu,
        method: "gmres:10".parse()?,
        without_constant: true,
        ..Options::default()
    };
    let (x, answer) = solved(&rt, &a, &lu)?;
    assert!(answer.solution.reason.is_converged() && answer.solution.steps <= 4, "{answer:?}");
    assert!(x.iter().sum::<f64>().abs() < 1e-10 * norm(x.iter().copied()));
    // Exactly singular, and inconsistent: no attempt can begin, or none ends well.
    let pair = matrix(2, &[(0, 0, 1.0), (0, 1, -1.0), (1, 0, -2.0), (1, 1, 2.0)]);
    let auto = Options { preconditioner: PreconditionerChoice::Lu, ..Options::default() };
    let error =
        solve(&rt, &pair, &[1.0, 1.0], &mut [0.0; 2], &auto, &mut ()).expect_err("singular").to_string();
    assert!(error.contains("singular") && error.contains("--nullspace constant"), "{error}");
    Ok(())
}

#[test]
fn structurally_singular_systems_are_named() -> Result<(), Error> {
    let rt = Runtime::builder().workers(1).build()?;
    let narrow = matrix(3, &[(0, 0, 1.0), (0, 1, 2.0), (0, 2, 3.0), (1, 0, 1.0), (2, 0, 1.0)]);
    let error = solved(&rt, &narrow, &Options::default()).expect_err("singular").to_string();
    assert!(error.contains("2 rows 2, 3 have nonzeros in 1 column only: 1"), "{error}");
    let empty = matrix(3, &[(0, 0, 1.0), (1, 0, 1.0), (2, 2, 1.0)]);
    let error = solved(&rt, &empty, &Options::default()).expect_err("singular").to_string();
    assert!(error.contains("column 2 is all zeros"), "{error}");
    Ok(())
}
