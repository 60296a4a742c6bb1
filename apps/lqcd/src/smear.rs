//! Smeared links of improved staggered actions.
//!
//! A smeared link is a sum of paths between two neighbouring sites. `S_nu(Y)` is the sum of the two
//! staples around `Y` in direction `nu`. Paths of three, five and seven links are `S_nu(U)`,
//! `S_nu(S_rho(U))` and `S_nu(S_rho(S_sigma(U)))` over different directions. The Lepage path goes
//! two steps aside. These links contain neither phases nor boundary conditions.

use std::fmt;
use std::str::FromStr;
use std::sync::Arc;

use zellige_runtime::{Runtime, Slot, Submit, write};

use crate::error::Error;
use crate::gauge::Gauge;
use crate::geometry::{DIRECTIONS, Neighbours};
use crate::su3::{Matrix, add, adjoint_mul, mul, mul_adjoint, scale};
use crate::unitarise::unitarise;

/// An action of quarks: the links in their hopping terms.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Action {
    /// The unsmeared link.
    Naive,
    /// Asqtad, with the tadpole factor `u0`.
    Asqtad {
        /// Mean link.
        u0: f64,
    },
    /// Highly improved: smeared, projected to U(3), smeared again.
    Hisq {
        /// Correction of the three-link term for heavy quarks.
        epsilon: f64,
    },
    /// Wilson quarks, which have four spins; unsmeared links.
    Wilson,
}

impl Action {
    /// HISQ for light quarks.
    pub const HISQ: Action = Action::Hisq { epsilon: 0.0 };

    /// Refuses Wilson quarks.
    pub(crate) fn check_staggered(self) -> Result<(), Error> {
        if self != Action::Wilson {
            return Ok(());
        }
        let problem = "wilson: this is for staggered quarks: use naive, asqtad:U0 or hisq. Propagators \
                       of Wilson quarks are computed by lqcd invert, without eigenvectors";
        Err(Error::parameter("action", problem))
    }
}

impl fmt::Display for Action {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Action::Naive => f.write_str("naive"),
            Action::Asqtad { u0 } => write!(f, "asqtad:{u0}"),
            Action::Hisq { epsilon: 0.0 } => f.write_str("hisq"),
            Action::Hisq { epsilon } => write!(f, "hisq:{epsilon}"),
            Action::Wilson => f.write_str("wilson"),
        }
    }
}

impl FromStr for Action {
    type Err = String;

    fn from_str(text: &str) -> Result<Action, String> {
        let (name, number) = match text.split_once(':') {
            Some((name, number)) => {
                let number = number.parse().ok().filter(|number: &f64| number.is_finite());
                (name, Some(number.ok_or_else(|| format!("{text}: a number is needed after the colon"))?))
            }
            None => (text, None),
        };
        match (name, number) {
            ("naive", None) => Ok(Action::Naive),
            ("wilson", None) => Ok(Action::Wilson),
            ("asqtad", Some(u0)) if u0 > 0.0 => Ok(Action::Asqtad { u0 }),
            ("hisq", epsilon) => Ok(Action::Hisq { epsilon: epsilon.unwrap_or(0.0) }),
            _ => Err("not one of naive, asqtad:U0 (the tadpole factor, above 0), hisq, hisq:EPSILON, wilson"
                .into()),
        }
    }
}

/// Coefficients of paths of each kind.
#[derive(Clone, Copy, Debug, PartialEq)]
struct Paths {
    one: f64,
    three: f64,
    five: f64,
    seven: f64,
    lepage: f64,
}

const FAT7: Paths =
    Paths { one: 1.0 / 8.0, three: 1.0 / 16.0, five: 1.0 / 64.0, seven: 1.0 / 384.0, lepage: 0.0 };

/// Links of an action.
#[derive(Clone, Debug)]
pub struct Smeared {
    /// One-hop links.
    pub fat: Gauge,
    /// Three-hop links in one direction; `None` in the naive action.
    pub long: Option<Gauge>,
    /// Field between the two levels of HISQ.
    pub unitarised: Option<Gauge>,
    /// Number of links that were projected to U(3) by singular values.
    pub by_svd: usize,
}

/// Computes the links of a staggered action.
///
/// # Errors
/// [`Error::Parameter`] for Wilson quarks, whose links are not smeared, and for a link without a
/// nearest unitary matrix; the errors of tasks.
pub fn smear(rt: &Runtime, u: &Gauge, action: Action) -> Result<Smeared, Error> {
    action.check_staggered()?;
    match action {
        // Links of Wilson quarks were refused.
        Action::Naive | Action::Wilson => {
            Ok(Smeared { fat: u.clone(), long: None, unitarised: None, by_svd: 0 })
        }
        Action::Asqtad { u0 } => {
            let (u2, u4) = (u0.powi(-2), u0.powi(-4));
            let paths = Paths {
                one: 5.0 / 8.0,
                three: u2 / 16.0,
                five: u4 / 64.0,
                seven: u4 * u2 / 384.0,
                lepage: -u4 / 16.0,
            };
            let u = Arc::new(u.clone());
            let (fat, long) = (fat_links(rt, &u, paths)?, long_links(&u, -u2 / 24.0));
            Ok(Smeared { fat, long: Some(long), unitarised: None, by_svd: 0 })
        }
        Action::Hisq { epsilon } => {
            let v = fat_links(rt, &Arc::new(u.clone()), FAT7)?;
            let (w, by_svd) = projected(&v)?;
            let second = Paths { one: 1.0 + epsilon / 8.0, lepage: -1.0 / 8.0, ..FAT7 };
            let w = Arc::new(w);
            let (fat, long) = (fat_links(rt, &w, second)?, long_links(&w, -(1.0 + epsilon) / 24.0));
            Ok(Smeared { fat, long: Some(long), unitarised: Some(Arc::unwrap_or_clone(w)), by_svd })
        }
    }
}

/// Returns each link's nearest unitary matrix, and the number of those from singular values.
fn projected(v: &Gauge) -> Result<(Gauge, usize), Error> {
    let (mut by_svd, mut failed) = (0, None);
    let w = Gauge::from_fn(v.geometry(), |site, mu| match unitarise(v.link(site, mu)) {
        Some(unitary) => {
            by_svd += usize::from(unitary.by_svd);
            unitary.matrix
        }
        None => {
            failed = Some((site, mu));
            *v.link(site, mu)
        }
    });
    match failed {
        None => Ok((w, by_svd)),
        Some((site, mu)) => {
            let at = v.geometry().coordinates(site);
            let problem =
                format!("the smeared link of site {at:?} in direction {mu} has no nearest unitary matrix");
            Err(Error::parameter("gauge field", problem))
        }
    }
}

/// Returns products of three consecutive links, times a factor.
fn long_links(u: &Gauge, factor: f64) -> Gauge {
    let next = Neighbours::new(u.geometry());
    Gauge::from_fn(u.geometry(), |site, mu| {
        let second = next.forward(site, mu);
        let third = next.forward(second, mu);
        scale(factor, &mul(&mul(u.link(site, mu), u.link(second, mu)), u.link(third, mu)))
    })
}

/// Computes the sums of paths, with a task for each direction.
fn fat_links(rt: &Runtime, u: &Arc<Gauge>, paths: Paths) -> Result<Gauge, Error> {
    let next = Arc::new(Neighbours::new(u.geometry()));
    let mut made = Vec::new();
    for mu in 0..DIRECTIONS {
        let links = rt.register(Vec::<Matrix>::new());
        let (u, next) = (Arc::clone(u), Arc::clone(&next));
        let body = move |(mut links,): (Slot<'_, Vec<Matrix>>,)| {
            links.put(Staples { u: &u, next: &next, mu }.fat(paths));
        };
        rt.task("smear").operands((write(&links),)).cpu(body).submit()?;
        made.push(links);
    }
    let made = made.into_iter().map(|links| rt.take(links)).collect::<Result<Vec<Vec<Matrix>>, _>>()?;
    Ok(Gauge::from_fn(u.geometry(), |site, mu| made[mu][site as usize]))
}

/// Staples around fields of links in direction `mu`.
struct Staples<'u> {
    u: &'u Gauge,
    next: &'u Neighbours,
    mu: usize,
}

impl Staples<'_> {
    fn sites(&self) -> std::ops::Range<u32> {
        0..self.u.geometry().sites() as u32
    }

    /// Returns `U_nu(x) Y(x + nu) U_nu(x + mu)^H`.
    fn up(&self, nu: usize, y: &[Matrix], x: u32) -> Matrix {
        let (above, beside) = (self.next.forward(x, nu), self.next.forward(x, self.mu));
        mul_adjoint(&mul(self.u.link(x, nu), &y[above as usize]), self.u.link(beside, nu))
    }

    /// Returns `U_nu(x - nu)^H Y(x - nu) U_nu(x - nu + mu)`.
    fn down(&self, nu: usize, y: &[Matrix], x: u32) -> Matrix {
        let below = self.next.backward(x, nu);
        let beside = self.next.forward(below, self.mu);
        mul(&adjoint_mul(self.u.link(below, nu), &y[below as usize]), self.u.link(beside, nu))
    }

    /// Returns `S_nu(Y)`.
    fn both(&self, nu: usize, y: &[Matrix]) -> Vec<Matrix> {
        self.sites().map(|x| add(&self.up(nu, y, x), &self.down(nu, y, x))).collect()
    }

    fn fat(&self, paths: Paths) -> Vec<Matrix> {
        let u = self.u.of_direction(self.mu);
        let aside: Vec<usize> = (0..DIRECTIONS).filter(|&nu| nu != self.mu).collect();
        let once: Vec<Vec<Matrix>> = aside.iter().map(|&sigma| self.both(sigma, u)).collect();
        // Staples are linear, so those of longer paths are computed around the sum of the inner
        // ones.
        let sum = |a: f64, x: &[Matrix], b: f64, y: &[Matrix]| -> Vec<Matrix> {
            x.iter().zip(y).map(|(x, y)| add(&scale(a, x), &scale(b, y))).collect()
        };
        let mut fat: Vec<Matrix> = u.iter().map(|link| scale(paths.one, link)).collect();
        let add_to = |fat: &mut Vec<Matrix>, more: &[Matrix], factor: f64| {
            fat.iter_mut().zip(more).for_each(|(fat, more)| *fat = add(fat, &scale(factor, more)));
        };
        for i in 0..3 {
            let (j, k) = ((i + 1) % 3, (i + 2) % 3);
            let mut inner: Vec<Matrix> = u.iter().map(|link| scale(paths.three, link)).collect();
            for (rho, sigma) in [(j, k), (k, j)] {
                let innermost = sum(paths.five, u, paths.seven, &once[sigma]);
                add_to(&mut inner, &self.both(aside[rho], &innermost), 1.0);
            }
            add_to(&mut fat, &self.both(aside[i], &inner), 1.0);
            if paths.lepage != 0.0 {
                let of = |side: &dyn Fn(&[Matrix], u32) -> Matrix| {
                    let near: Vec<Matrix> = self.sites().map(|x| side(u, x)).collect();
                    self.sites().map(|x| side(&near, x)).collect::<Vec<Matrix>>()
                };
                add_to(&mut fat, &of(&|y, x| self.up(aside[i], y, x)), paths.lepage);
                add_to(&mut fat, &of(&|y, x| self.down(aside[i], y, x)), paths.lepage);
            }
        }
        fat
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::geometry::Geometry;
    use crate::su3::ONE;
    use crate::su3::tests::distance;
    use crate::testing::{random_gauge, random_matrices};

    /// The coefficients of all paths add up to 1 at the first level of HISQ, and to 9/8 with a long
    /// link of -1/24.
    #[test]
    fn without_a_force_links_are_sums_of_coefficients() -> Result<(), Error> {
        let (rt, cold) = (Runtime::builder().workers(1).build()?, Gauge::cold(Geometry::new([4, 4, 4, 4])?));
        for (action, one, three) in [
            (Action::HISQ, 9.0 / 8.0, -1.0 / 24.0),
            (Action::Hisq { epsilon: -0.5 }, 9.0 / 8.0 - 0.0625, -0.5 / 24.0),
            (Action::Asqtad { u0: 1.0 }, 9.0 / 8.0, -1.0 / 24.0),
        ] {
            let smeared = smear(&rt, &cold, action)?;
            let long = smeared.long.expect("improved");
            assert!(smeared.fat.links().iter().all(|x| distance(x, &scale(one, &ONE)) < 1e-14));
            assert!(long.links().iter().all(|x| distance(x, &scale(three, &ONE)) < 1e-15));
        }
        Ok(())
    }

    #[test]
    fn smearing_and_a_change_of_gauge_commute() -> Result<(), Error> {
        let (rt, geometry) = (Runtime::builder().workers(2).build()?, Geometry::new([4, 4, 4, 6])?);
        let (u, g) = (random_gauge(geometry, 4), random_matrices(geometry.sites(), 5));
        for action in [Action::HISQ, Action::Asqtad { u0: 0.9 }] {
            let first = smear(&rt, &u, action)?.fat.transformed(&g);
            let second = smear(&rt, &u.transformed(&g), action)?.fat;
            let apart = first.links().iter().zip(second.links()).map(|(a, b)| distance(a, b));
            assert!(apart.fold(0.0, f64::max) < 1e-10, "{action}");
        }
        Ok(())
    }

    #[test]
    fn actions_are_written_as_they_are_read() {
        for text in ["naive", "asqtad:0.8776", "hisq", "hisq:-0.5", "wilson"] {
            assert_eq!(text.parse::<Action>().map(|action| action.to_string()), Ok(text.to_owned()));
        }
        for text in ["wilson:1", "asqtad", "asqtad:0", "hisq:x", "naive:1"] {
            assert!(text.parse::<Action>().is_err(), "{text}");
        }
    }
}
