//! Tests of the operators of Wilson quarks.

use rand::{RngExt, SeedableRng};
use rand_chacha::ChaCha8Rng;
use zellige_krylov::method::NumbersHandle;
use zellige_krylov::{Adjoint, multiply};
use zellige_runtime::{Bindings, Runtime};

use super::*;
use crate::dslash::{GAMMA, dslash_now};
use crate::error::Error;
use crate::geometry::{COLOURS, DIRECTIONS, Geometry, SPINS};
use crate::su3::{Matrix, adjoint, apply as times};
use crate::testing::{random_gauge, random_matrices};

/// A matrix of spins.
type Spins = [[C64; SPINS]; SPINS];

const I: C64 = C64::new(0.0, 1.0);

/// Returns `gamma_x, gamma_y, gamma_z, gamma_t` as blocks of Pauli matrices: `[0, b; b^H, 0]` with
/// `b = i sigma_1, -i sigma_2, i sigma_3, 1`.
fn gammas() -> [Spins; DIRECTIONS] {
    let (zero, one) = (C64::default(), C64::new(1.0, 0.0));
    let sigma = [[[zero, one], [one, zero]], [[zero, -I], [I, zero]], [[one, zero], [zero, -one]]];
    let block = |mu: usize, row: usize, column: usize| match mu {
        3 => C64::from(if row == column { 1.0 } else { 0.0 }),
        _ => I * sigma[mu][row][column] * if mu == 1 { -1.0 } else { 1.0 },
    };
    std::array::from_fn(|mu| {
        std::array::from_fn(|i| {
            std::array::from_fn(|j| match (i < 2, j < 2) {
                (true, false) => block(mu, i, j - 2),
                (false, true) => block(mu, j, i - 2).conj(),
                _ => zero,
            })
        })
    })
}

fn product(a: &Spins, b: &Spins) -> Spins {
    std::array::from_fn(|i| std::array::from_fn(|j| (0..SPINS).map(|k| a[i][k] * b[k][j]).sum()))
}

fn unit(factor: f64) -> Spins {
    std::array::from_fn(|i| std::array::from_fn(|j| C64::from(if i == j { factor } else { 0.0 })))
}

/// Returns a lattice of several slabs, with a shorter last one.
fn lattice() -> Geometry {
    Geometry::new([4, 6, 8, 14]).expect("a lattice")
}

fn field(geometry: Geometry, seed: u64) -> Vec<C64> {
    let mut random = ChaCha8Rng::seed_from_u64(seed);
    let mut next = || random.random_range(-1.0..1.0);
    (0..geometry.half() * SPINS * COLOURS).map(|_| C64::new(next(), next())).collect()
}

fn dot(x: &[C64], y: &[C64]) -> C64 {
    x.iter().zip(y).map(|(x, y)| x.conj() * y).sum()
}

fn hop(rt: &Runtime, d: &Dslash, x: &[C64]) -> Result<Vec<C64>, Error> {
    let (x, y) = (MultiVector::from_column(rt, d.space(), x), MultiVector::zeros(rt, d.space(), 1));
    dslash_now(rt, d, &x, &y, 1.0)?;
    Ok(y.column(rt, 0)?)
}

/// Returns the colour vector of a site of a parity and a spin.
fn vector(x: &[C64], geometry: Geometry, site: u32, spin: usize) -> [C64; COLOURS] {
    let at = (site as usize % geometry.half() * SPINS + spin) * COLOURS;
    [x[at], x[at + 1], x[at + 2]]
}

#[test]
fn gamma_matrices_anticommute_and_their_product_is_diagonal() {
    let dense = gammas();
    for mu in 0..DIRECTIONS {
        for (s, (partner, power)) in GAMMA[mu].into_iter().enumerate() {
            let row: [C64; SPINS] =
                std::array::from_fn(|p| if p == partner { I.powu(power.into()) } else { C64::default() });
            assert_eq!(row, dense[mu][s], "direction {mu}, spin {s}");
        }
        for nu in 0..DIRECTIONS {
            let (a, b) = (product(&dense[mu], &dense[nu]), product(&dense[nu], &dense[mu]));
            let sum: Spins = std::array::from_fn(|i| std::array::from_fn(|j| a[i][j] + b[i][j]));
            assert_eq!(sum, unit(if mu == nu { 2.0 } else { 0.0 }), "directions {mu} and {nu}");
        }
    }
    let five = product(&product(&dense[0], &dense[1]), &product(&dense[2], &dense[3]));
    let mut expected = unit(1.0);
    (expected[2][2], expected[3][3]) = (C64::from(-1.0), C64::from(-1.0));
    assert_eq!(five, expected);
}

/// The reference is the formula evaluated site by site with dense matrices.
#[test]
fn hops_are_those_of_the_formula() -> Result<(), Error> {
    let rt = Runtime::builder().workers(2).build()?;
    let dense = gammas();
    for geometry in [lattice(), Geometry::new([20, 4, 4, 4])?] {
        let (u, x) = (random_gauge(geometry, 1), field(geometry, 2));
        for (to, boundary) in [
            (Parity::Even, Boundary::Antiperiodic),
            (Parity::Odd, Boundary::Antiperiodic),
            (Parity::Odd, Boundary::Periodic),
        ] {
            let found = hop(&rt, &Dslash::wilson(&rt, &u, to, boundary, Precision::DOUBLE), &x)?;
            for site in geometry.sites_of(to) {
                let at = geometry.coordinates(site);
                let mut sum = [[C64::default(); COLOURS]; SPINS];
                for mu in 0..DIRECTIONS {
                    for towards in [1isize, -1] {
                        let next = geometry.neighbour(site, mu, towards);
                        let link = match towards {
                            1 => *u.link(site, mu),
                            _ => adjoint(u.link(next, mu)),
                        };
                        let end = at[mu] as isize + towards;
                        let wraps = mu == 3 && !(0..geometry.extents()[3] as isize).contains(&end);
                        let sign = if wraps && boundary == Boundary::Antiperiodic { -1.0 } else { 1.0 };
                        for (s, t) in (0..SPINS).flat_map(|s| (0..SPINS).map(move |t| (s, t))) {
                            let factor = unit(sign)[s][t] - dense[mu][s][t] * sign * towards as f64;
                            let part = times(&link, &vector(&x, geometry, next, t));
                            sum[s].iter_mut().zip(part).for_each(|(sum, part)| *sum += factor * part);
                        }
                    }
                }
                for (s, sum) in sum.iter().enumerate() {
                    let found = vector(&found, geometry, site, s);
                    assert!((0..3).all(|c| (sum[c] - found[c]).norm() < 1e-12), "{at:?}, spin {s}");
                }
            }
        }
    }
    Ok(())
}

/// `gamma_5 W gamma_5` is the adjoint of `W`, and `W^H W` is hermitian and positive.
#[test]
fn adjoints_follow_from_gamma_5() -> Result<(), Error> {
    let (rt, geometry) = (Runtime::builder().workers(2).build()?, lattice());
    let u = random_gauge(geometry, 1);
    let (x, y) = (field(geometry, 2), field(geometry, 3));
    let five = |x: &[C64]| -> Vec<C64> {
        let sign = |i: usize| if i / COLOURS % SPINS < 2 { 1.0 } else { -1.0 };
        x.iter().enumerate().map(|(i, x)| x * sign(i)).collect()
    };
    let of = |parity| Wilson::new(&rt, &u, -0.7, parity, Boundary::Antiperiodic, Precision::DOUBLE);
    for parity in Parity::BOTH {
        let normal = WilsonNormal::new(of(parity));
        let w = &normal.of;
        let adjoint = multiply(&rt, &Adjoint(w), &y)?;
        let apart = dot(&y, &multiply(&rt, w, &x)?) - dot(&adjoint, &x);
        assert!(apart.norm() < 1e-11 * dot(&x, &x).norm(), "{apart}");
        assert!(
            five(&multiply(&rt, w, &five(&y))?).iter().zip(&adjoint).all(|(a, b)| (a - b).norm() < 1e-12)
        );
        let (once, twice) = (multiply(&rt, w, &x)?, multiply(&rt, &normal, &x)?);
        assert!((dot(&x, &twice) - dot(&once, &once)).norm() < 1e-11 * dot(&once, &once).norm());
        assert!(multiply(&rt, &Adjoint(w), &once)?.iter().zip(&twice).all(|(a, b)| (a - b).norm() < 1e-11));
    }
    Ok(())
}

#[test]
fn a_change_of_gauge_turns_products() -> Result<(), Error> {
    let (rt, geometry) = (Runtime::builder().workers(2).build()?, lattice());
    let (u, g) = (random_gauge(geometry, 1), random_matrices(geometry.sites(), 4));
    let turned = |x: &[C64], g: &[Matrix]| -> Vec<C64> {
        let vectors = x.as_chunks::<COLOURS>().0;
        vectors.iter().enumerate().flat_map(|(i, x)| times(&g[i / SPINS], x)).collect()
    };
    let x = field(geometry, 2);
    let sites = geometry.sites_of(Parity::Odd);
    let g_here = &g[sites.start as usize..sites.end as usize];
    let of = |u| Wilson::new(&rt, u, 0.1, Parity::Odd, Boundary::Antiperiodic, Precision::DOUBLE);
    let first = turned(&multiply(&rt, &of(&u), &x)?, g_here);
    let second = multiply(&rt, &of(&u.transformed(&g)), &turned(&x, g_here))?;
    assert!(first.iter().zip(&second).all(|(a, b)| (a - b).norm() < 1e-11));
    Ok(())
}

/// Every column has the bits that it has alone, in every format, on any number of workers.
#[test]
fn bits_do_not_depend_on_columns_or_workers() -> Result<(), Error> {
    let geometry = lattice();
    let columns: Vec<Vec<C64>> = (0..9).map(|seed| field(geometry, seed)).collect();
    for precision in
        ["double", "single", "half", "int20", "int30", "fixed16-13/half/fp32", "fixed16-9/int20/fp64"]
    {
        let precision: Precision = precision.parse().expect("formats");
        let mut results = Vec::new();
        for (workers, count) in [(1, 1), (2, 1), (2, 9)] {
            let rt = Runtime::builder().workers(workers).build()?;
            let u = random_gauge(geometry, 1);
            let w = Wilson::new(&rt, &u, 0.1, Parity::Even, Boundary::Antiperiodic, precision);
            let stored = || {
                let storage = std::sync::Arc::new(Sites::new(precision.fermion, count));
                MultiVector::stored(&rt, w.domain(), count, storage)
            };
            let (x, y) = (stored(), stored());
            for (at, column) in columns.iter().take(count).enumerate() {
                x.set_column(&rt, at, column)?;
            }
            let numbers = NumbersHandle::new(&rt, count, 0);
            let graph = rt.record(|graph| w.apply(&Steps::new(&rt, graph, w.domain(), &numbers), &x, &y))?;
            rt.replay(&Bindings::recorded(&graph))?;
            results.push((y.column(&rt, 0)?, y.column(&rt, count - 1)?));
            if count > 1 {
                let rt = Runtime::builder().workers(1).build()?;
                let w = Wilson::new(&rt, &u, 0.1, Parity::Even, Boundary::Antiperiodic, Precision::DOUBLE);
                let exact = multiply(&rt, &w, &columns[count - 1])?;
                let apart = results[2].1.iter().zip(&exact).map(|(a, b)| (a - b).norm()).fold(0.0, f64::max);
                let least = if precision == Precision::DOUBLE { 0.0 } else { 1e-12 };
                assert!(apart <= 5e-3 && apart >= least, "{precision}: {apart:e}");
            }
        }
        assert!(results.windows(2).all(|two| two[0].0 == two[1].0), "{precision}");
    }
    Ok(())
}
