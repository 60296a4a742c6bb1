//! Conclusions from a solution in stochastic arithmetic.

use std::collections::BTreeMap;

use zellige_stochastic::DigitMap;

use crate::solve::Solution;

/// Digits of float64.
const ALL: u8 = 15;

/// Returns the digits of a method's coefficients by step, from those that were
/// [followed](zellige_stochastic::follow), and the consequences of those that lose their last digit
/// and do not recover.
///
/// ```
/// use std::collections::BTreeMap;
/// use zellige_krylov::coefficients;
///
/// let (maps, said) = coefficients(&BTreeMap::from([("alpha", vec![3, 0, 2, 0, 0])]), "cg");
/// assert_eq!(maps[0].shape, [5, 1]);
/// assert_eq!(said, ["alpha of CG has no exact digit from step 3 on: replace the residual there"]);
/// ```
pub fn coefficients(
    followed: &BTreeMap<&'static str, Vec<u8>>,
    method: &str,
) -> (Vec<DigitMap>, Vec<String>) {
    let method = method.to_uppercase();
    let remedy = if method.contains("GMRES") { "restart" } else { "replace the residual" };
    let named = |(name, digits): (&&str, &Vec<u8>)| {
        DigitMap::new(&format!("{name} of {method}"), "step", [digits.len(), 1], digits.clone(), ALL)
    };
    let maps: Vec<DigitMap> = followed.iter().map(named).collect();
    let lost = |map: &DigitMap| {
        let step = map.digits.iter().rposition(|&digits| digits > 0).map_or(0, |last| last + 1);
        let name = &map.name;
        let is_lost = step < map.digits.len();
        is_lost.then(|| format!("{name} has no exact digit from step {step} on: {remedy} there"))
    };
    let conclusions = maps.iter().filter_map(lost).collect();
    (maps, conclusions)
}

impl Solution {
    /// Returns the residual beside the digits of the answer, in one sentence.
    ///
    /// ```
    /// # use zellige_krylov::{Cg, Solve, Space, Stop, from_fn, solve};
    /// # let (rt, space) = (zellige_runtime::Runtime::new()?, Space::new(2, 0));
    /// # let a = from_fn(&space, |x: &[f64], y: &mut [f64]| y.copy_from_slice(x));
    /// let mut x = [0.0; 2];
    /// let found = solve(&Solve::new(&rt, &a), &Cg::default(), &[1.0; 2], &mut x, &Stop::Steps(5), &mut ())?;
    /// assert_eq!(found.beside_digits(), "the relative residual after 1 steps is 0.0e0 (converged): digits of x do not count what this residual leaves");
    /// # Ok::<(), zellige_krylov::Error>(())
    /// ```
    pub fn beside_digits(&self) -> String {
        let Solution { steps, true_residual, rhs, reason, .. } = self;
        let relative = true_residual / rhs;
        let verdict = match reason.is_converged() {
            true => "digits of x do not count what this residual leaves",
            false => "the tolerance was not reached",
        };
        format!("the relative residual after {steps} steps is {relative:.1e} ({}): {verdict}", reason.name())
    }
}
