//! The model `time = base + per_flop flops + per_byte bytes`, with coefficients that are never
//! negative.
//!
//! It minimises the squares of the *relative* errors: times span five orders of magnitude from a
//! tile of 32 to one of 2048, and a scheduling policy compares ratios. With three unknowns the
//! non-negative minimum is found by trying every set of zero coefficients (Lawson & Hanson, Solving
//! Least Squares Problems, ch. 23: the minimum solves the normal equations of its support).

/// A measured size.
#[derive(Clone, Copy, Debug)]
pub(super) struct Point {
    pub(super) flops: f64,
    pub(super) bytes: f64,
    /// Time (ns).
    pub(super) time: f64,
    pub(super) weight: f64,
}

/// The coefficients in ns.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) struct Fit {
    base: f64,
    per_flop: f64,
    per_byte: f64,
}

/// Unknowns that the data determine.
#[derive(Clone, Copy)]
struct Columns {
    flops: bool,
    bytes: bool,
}

/// Pivots below this share of the largest are zero: the columns are linearly dependent.
const SINGULAR: f64 = 1e-9;

impl Fit {
    /// Returns the best fit; `None` unless there are two sizes. Flops and bytes together need
    /// three.
    pub(super) fn of(points: &[Point]) -> Option<Fit> {
        let columns = columns(points)?;
        let largest = |of: fn(&Point) -> f64| points.iter().map(of).fold(0.0, f64::max);
        let scale = [1.0, largest(|p| p.flops), largest(|p| p.bytes)];
        let normal = Normal::new(points, scale);
        let mut best: Option<(f64, [f64; 3])> = None;
        for support in 1u8..8 {
            let wanted = [support & 1 != 0, support & 2 != 0, support & 4 != 0];
            if wanted[1] && !columns.flops || wanted[2] && !columns.bytes {
                continue;
            }
            let Some(x) = normal.solve(wanted).filter(|x| x.iter().all(|&x| x >= 0.0)) else {
                continue;
            };
            let error = normal.error(x);
            if best.is_none_or(|(least, _)| error < least) {
                best = Some((error, x));
            }
        }
        let (_, x) = best?;
        let unscaled = |i: usize| if scale[i] > 0.0 { x[i] / scale[i] } else { 0.0 };
        Some(Fit { base: x[0], per_flop: unscaled(1), per_byte: unscaled(2) })
    }

    /// Returns the time (ns), never negative.
    pub(super) fn time(&self, flops: f64, bytes: f64) -> f64 {
        self.base + self.per_flop * flops + self.per_byte * bytes
    }
}

fn columns(points: &[Point]) -> Option<Columns> {
    let distinct = |of: &dyn Fn(&Point) -> (u64, u64)| {
        let mut keys: Vec<(u64, u64)> = points.iter().map(of).collect();
        keys.sort_unstable();
        keys.dedup();
        keys.len()
    };
    let sizes = distinct(&|p| (p.flops.to_bits(), p.bytes.to_bits()));
    let flops = distinct(&|p| (p.flops.to_bits(), 0)) >= 2;
    let bytes = distinct(&|p| (p.bytes.to_bits(), 0)) >= 2;
    let enough = if flops { sizes >= 3 } else { true };
    (sizes >= 2).then_some(Columns { flops, bytes: bytes && enough })
}

/// Normal equations of the weighted relative errors, columns scaled to 1: `gram x = right`,
/// `square` the sum of squares of the right-hand sides.
struct Normal {
    gram: [[f64; 3]; 3],
    right: [f64; 3],
    square: f64,
}

impl Normal {
    fn new(points: &[Point], scale: [f64; 3]) -> Self {
        let mut normal = Normal { gram: [[0.0; 3]; 3], right: [0.0; 3], square: 0.0 };
        for p in points {
            let time = p.time.max(1.0);
            let raw = [1.0, p.flops, p.bytes];
            let row: [f64; 3] =
                std::array::from_fn(|i| if scale[i] > 0.0 { raw[i] / scale[i] / time } else { 0.0 });
            for i in 0..3 {
                for j in 0..3 {
                    normal.gram[i][j] += p.weight * row[i] * row[j];
                }
                normal.right[i] += p.weight * row[i];
            }
            normal.square += p.weight;
        }
        normal
    }

    /// Returns the solution with the wanted unknowns, the others 0; `None` if these are linearly
    /// dependent.
    fn solve(&self, wanted: [bool; 3]) -> Option<[f64; 3]> {
        let at: Vec<usize> = (0..3).filter(|&i| wanted[i]).collect();
        let n = at.len();
        let scale: Vec<f64> = at.iter().map(|&i| self.gram[i][i].sqrt()).collect();
        if scale.iter().any(|&s| !(s > 0.0 && s.is_finite())) {
            return None;
        }
        // Cholesky of the correlation matrix.
        let mut l = [[0.0; 3]; 3];
        for j in 0..n {
            for i in j..n {
                let gram = self.gram[at[i]][at[j]] / (scale[i] * scale[j]);
                let rest = gram - (0..j).map(|k| l[i][k] * l[j][k]).sum::<f64>();
                if i > j {
                    l[i][j] = rest / l[j][j];
                } else if rest > SINGULAR {
                    l[j][j] = rest.sqrt();
                } else {
                    return None;
                }
            }
        }
        let mut y = [0.0; 3];
        for i in 0..n {
            let known: f64 = (0..i).map(|k| l[i][k] * y[k]).sum();
            y[i] = (self.right[at[i]] / scale[i] - known) / l[i][i];
        }
        let mut x = [0.0; 3];
        for i in (0..n).rev() {
            let known: f64 = (i + 1..n).map(|k| l[k][i] * y[k]).sum();
            y[i] = (y[i] - known) / l[i][i];
            x[at[i]] = y[i] / scale[i];
        }
        x.iter().all(|x| x.is_finite()).then_some(x)
    }

    /// Returns the weighted sum of the squared relative errors.
    fn error(&self, x: [f64; 3]) -> f64 {
        let quadratic: f64 = (0..3).map(|i| x[i] * (0..3).map(|j| self.gram[i][j] * x[j]).sum::<f64>()).sum();
        let linear: f64 = (0..3).map(|i| x[i] * self.right[i]).sum();
        quadratic - 2.0 * linear + self.square
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn point(flops: f64, bytes: f64, time: f64) -> Point {
        Point { flops, bytes, time, weight: 1.0 }
    }

    fn close(got: f64, want: f64) -> bool {
        (got / want - 1.0).abs() < 1e-6
    }

    #[test]
    fn a_law_is_found_again() {
        let law = |flops: f64, bytes: f64| 300.0 + 0.02 * flops + 0.1 * bytes;
        let points: Vec<_> =
            [(1e3, 5e2), (1e4, 9e2), (1e5, 4e3), (1e6, 5e3)].map(|(f, b)| point(f, b, law(f, b))).to_vec();
        let fit = Fit::of(&points).unwrap();
        assert!(close(fit.time(3e7, 1e5), law(3e7, 1e5)), "{fit:?}");
        assert!(close(fit.time(10.0, 10.0), law(10.0, 10.0)), "{fit:?}");
    }

    #[test]
    fn one_size_says_nothing_of_others() {
        assert_eq!(Fit::of(&[]), None);
        assert_eq!(Fit::of(&[point(100.0, 8.0, 50.0), point(100.0, 8.0, 60.0)]), None);
    }

    #[test]
    fn two_sizes_give_a_line_in_flops() {
        let fit = Fit::of(&[point(100.0, 80.0, 50.0), point(200.0, 90.0, 60.0)]).unwrap();
        assert!(close(fit.time(300.0, 1e9), 70.0), "bytes need a third size: {fit:?}");
    }

    #[test]
    fn copies_have_bytes_only() {
        let fit = Fit::of(&[point(0.0, 1000.0, 150.0), point(0.0, 2000.0, 250.0)]).unwrap();
        assert!(close(fit.time(0.0, 4000.0), 450.0), "{fit:?}");
    }

    #[test]
    fn bytes_in_step_with_flops_are_not_told_apart() {
        let points: Vec<_> = [1.0, 2.0, 4.0].map(|x| point(x * 1e6, x * 1e3, x * 500.0 + 10.0)).to_vec();
        let fit = Fit::of(&points).unwrap();
        assert!(close(fit.time(8e6, 8e3), 4010.0), "{fit:?}");
    }

    /// Larger tiles that run faster than the line through the others would make the base negative.
    #[test]
    fn the_smallest_time_is_not_negative() {
        let points = [point(1e3, 0.0, 10.0), point(2e3, 0.0, 30.0), point(4e3, 0.0, 90.0)];
        let fit = Fit::of(&points).unwrap();
        assert!(fit.time(1.0, 0.0) >= 0.0 && fit.time(0.0, 0.0) >= 0.0, "{fit:?}");
    }

    proptest! {
        #[test]
        fn nothing_is_negative_and_no_neighbour_is_better(
            points in prop::collection::vec((0.0..1e12f64, 0.0..1e9f64, 0.0..1e9f64, 0.1..64.0f64), 0..12),
            ask in (0.0..1e15f64, 0.0..1e12f64),
            nudge in (0usize..3, prop_oneof![Just(0.99), Just(1.01)]),
        ) {
            let points: Vec<Point> = points.into_iter()
                .map(|(flops, bytes, time, weight)| Point { flops, bytes, time, weight }).collect();
            let Some(fit) = Fit::of(&points) else {
                prop_assert!(points.len() < 2);
                return Ok(());
            };
            let asked = fit.time(ask.0, ask.1);
            prop_assert!(asked.is_finite() && asked >= 0.0);
            let error = |fit: &Fit| -> f64 {
                points.iter()
                    .map(|p| p.weight * (1.0 - fit.time(p.flops, p.bytes) / p.time.max(1.0)).powi(2)).sum()
            };
            let mut other = fit;
            match nudge.0 {
                0 => other.base *= nudge.1,
                1 => other.per_flop *= nudge.1,
                _ => other.per_byte *= nudge.1,
            }
            prop_assert!(error(&fit) <= error(&other) * (1.0 + 1e-6) + 1e-9, "{:?}", fit);
        }
    }
}
