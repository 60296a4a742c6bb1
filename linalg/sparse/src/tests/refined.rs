//! Refinement with factors of low precision.

use super::*;
use crate::system::{Options, ScalingChoice};

/// GMRES with factors in `f32` (GMRES-IR) of a matrix that is nearly singular in `f32` gives
/// answers as good as those with factors in `f64`.
#[test]
fn factors_in_single_precision_are_refined_by_gmres() -> Result<(), Error> {
    // The square of a chain of springs, 16 (n / pi)^4 between its eigenvalues, and something that
    // is not symmetric.
    let n = 400u32;
    let element = |i: u32, j: u32| (i, j, [6.0, -4.0, 1.0][i.abs_diff(j) as usize]);
    let row = |i: u32| (i.saturating_sub(2)..n.min(i + 3)).map(move |j| element(i, j));
    let symmetric: Vec<_> = (0..n).flat_map(row).collect();
    let skewed = symmetric.iter().map(|&(i, j, a)| (i, j, if j == i + 1 { a * (1.0 + 1e-7) } else { a }));
    let skewed: Vec<_> = skewed.collect();
    let rt = Runtime::builder().workers(2).build()?;
    for triplets in [symmetric, skewed] {
        let a = Csr::from_triplets(n as usize, n as usize, &triplets)?;
        assert!(crate::direct::condition(&a) > 1e8);
        let expected = rhs(n as usize);
        let mut b = vec![0.0; n as usize];
        a.multiply(&expected, &mut b)?;
        let steps = |precond: &str| -> Result<usize, Error> {
            let options = Options {
                method: "gmres:40".parse()?,
                preconditioner: precond.parse()?,
                scaling: ScalingChoice::None,
                stop: vec![Stop::RelativeToRhs(1e-13), Stop::Steps(200)],
                ..Options::default()
            };
            let mut x = vec![0.0; n as usize];
            let answer = crate::system::solve(&rt, &a, &b, &mut x, &options, &mut ())?;
            assert!(answer.solution.reason.is_converged(), "{precond}: {:?}", answer.attempts);
            let errors = crate::exact::ExactProduct::of(&a, &x)?.errors(&b)?;
            let size = |v: &[f64]| zellige_krylov::method::norm(v);
            assert!(size(&errors) <= 1.01e-13 * size(&b), "{precond}: {:e}", size(&errors));
            Ok(answer.solution.steps)
        };
        let (wide, narrow) = (steps("lu")?, steps("lu:fp32")?);
        println!("{wide} {narrow}");
        assert!(wide <= 4 && narrow > wide && narrow <= 60, "{wide} {narrow}");
    }
    Ok(())
}
