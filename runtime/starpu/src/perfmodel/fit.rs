//! Regressions: times as a power of a size, with and without a constant, and as a sum of products
//! of parameters.

/// Sums for `ln y = ln alpha + beta ln x` by least squares.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Sums {
    pub count: u32,
    pub x: f64,
    pub xx: f64,
    pub y: f64,
    pub xy: f64,
    /// The smallest and the largest size; 0 and 0 without a sample.
    pub least: u64,
    pub most: u64,
}

impl Sums {
    /// Adds `count` measurements of the time `y` at the size `x`.
    pub fn add(&mut self, x: usize, y: f64, count: u32) {
        if x == 0 || y <= 0.0 || y.is_nan() {
            return;
        }
        let (size, n) = (x as u64, f64::from(count));
        let (lx, ly) = ((x as f64).ln(), y.ln());
        self.x += n * lx;
        self.xx += n * lx * lx;
        self.y += n * ly;
        self.xy += n * lx * ly;
        self.least = if self.count == 0 { size } else { self.least.min(size) };
        self.most = self.most.max(size);
        self.count += count;
    }

    /// Whether the sizes differ enough for a regression.
    pub fn spread(&self) -> bool {
        (self.least as f64) < 0.9 * self.most as f64
    }

    /// Returns alpha and beta of `y = alpha x^beta`, unless all sizes are the same.
    pub fn power(&self) -> Option<(f64, f64)> {
        let n = f64::from(self.count);
        let below = n * self.xx - self.x * self.x;
        (self.count > 1 && below > 0.0).then(|| {
            let beta = (n * self.xy - self.x * self.y) / below;
            (((self.y - beta * self.x) / n).exp(), beta)
        })
    }
}

/// Returns a, b and c of `y = a x^b + c`, for times `y` at sizes `x` (at least three sizes).
///
/// For each c, a and b follow from the logarithms by least squares; c is the one below the smallest
/// time with the smallest squared error of the logarithms of `y`, found by thirds.
pub fn power_and_constant(points: &[(f64, f64)]) -> Option<(f64, f64, f64)> {
    let least = points.iter().map(|point| point.1).fold(f64::INFINITY, f64::min);
    if points.len() < 3 || least <= 0.0 || least.is_nan() {
        return None;
    }
    let fit = |c: f64| -> Option<(f64, f64)> {
        let n = points.len() as f64;
        let (mut x, mut xx, mut y, mut xy) = (0.0, 0.0, 0.0, 0.0);
        for point in points {
            let (lx, ly) = (point.0.ln(), (point.1 - c).ln());
            x += lx;
            xx += lx * lx;
            y += ly;
            xy += lx * ly;
        }
        let below = n * xx - x * x;
        (below > 0.0).then(|| {
            let b = (n * xy - x * y) / below;
            (((y - b * x) / n).exp(), b)
        })
    };
    let error = |c: f64| {
        fit(c).map_or(f64::INFINITY, |(a, b)| {
            points.iter().map(|point| ((a * point.0.powf(b) + c) / point.1).ln().powi(2)).sum::<f64>()
        })
    };
    let (mut low, mut high) = (0.0, least * (1.0 - 1e-9));
    for _ in 0..100 {
        let third = (high - low) / 3.0;
        if error(low + third) <= error(high - third) {
            high -= third;
        } else {
            low += third;
        }
    }
    let c = 0.5 * (low + high);
    let c = if error(0.0) <= error(c) { 0.0 } else { c };
    fit(c).map(|(a, b)| (a, b, c))
}

/// Returns the coefficients of the columns of `rows` that give `times` by least squares; `None`
/// where they are not determined. The last entry of each row is its time.
pub fn linear(rows: &[Vec<f64>]) -> Option<Vec<f64>> {
    let unknowns = rows.first()?.len() - 1;
    if rows.len() < unknowns {
        return None;
    }
    // Each column is divided by its largest entry: products of parameters differ by many powers of
    // ten, and the normal equations square that.
    let scale: Vec<f64> = (0..unknowns)
        .map(|at| rows.iter().map(|row| row[at].abs()).fold(0.0, f64::max))
        .map(|most| if most > 0.0 { most } else { 1.0 })
        .collect();
    let mut system = vec![vec![0.0; unknowns + 1]; unknowns];
    for row in rows {
        for i in 0..unknowns {
            for j in 0..unknowns {
                system[i][j] += row[i] / scale[i] * (row[j] / scale[j]);
            }
            system[i][unknowns] += row[i] / scale[i] * row[unknowns];
        }
    }
    for at in 0..unknowns {
        let pivot = (at..unknowns).max_by(|&a, &b| system[a][at].abs().total_cmp(&system[b][at].abs()))?;
        if system[pivot][at].abs() <= 1e-12 || system[pivot][at].is_nan() {
            return None;
        }
        system.swap(at, pivot);
        let row = system[at].clone();
        for (below, other) in system.iter_mut().enumerate() {
            if below != at {
                let factor = other[at] / row[at];
                other.iter_mut().zip(&row).for_each(|(value, top)| *value -= factor * top);
            }
        }
    }
    Some((0..unknowns).map(|at| system[at][unknowns] / system[at][at] / scale[at]).collect())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn close(a: f64, b: f64) -> bool {
        (a - b).abs() <= 1e-3 * b.abs().max(1e-3)
    }

    #[test]
    fn a_power_is_found() {
        let mut sums = Sums::default();
        for size in [100, 1000, 10_000, 20_000] {
            sums.add(size, 0.5 * (size as f64).powf(1.5), 3);
        }
        let (alpha, beta) = sums.power().unwrap();
        assert!(close(alpha, 0.5) && close(beta, 1.5), "{alpha} {beta}");
        assert!(sums.spread() && sums.count == 12);
        assert_eq!(Sums::default().power(), None);
    }

    #[test]
    fn a_power_with_a_constant_is_found() {
        let points: Vec<(f64, f64)> =
            (1..20).map(|i| f64::from(i * i * 100)).map(|x| (x, 2e-3 * x.powf(1.2) + 7.0)).collect();
        let (a, b, c) = power_and_constant(&points).unwrap();
        assert!(close(a, 2e-3) && close(b, 1.2) && close(c, 7.0), "{a} {b} {c}");
        assert_eq!(power_and_constant(&points[..2]), None);
    }

    #[test]
    fn coefficients_of_several_parameters_are_found() {
        let row = |m: f64, n: f64| vec![1.0, m * m * n, m * n, 3.0 + 2e-6 * m * m * n + 0.25 * m * n];
        let rows: Vec<Vec<f64>> =
            (1..8).map(|i| row(f64::from(i * 100), f64::from((i * i) % 7 + 1))).collect();
        let found = linear(&rows).unwrap();
        assert!(close(found[0], 3.0) && close(found[1], 2e-6) && close(found[2], 0.25), "{found:?}");
        assert_eq!(linear(&rows[..2]), None);
        assert_eq!(linear(&vec![rows[0].clone(); 5]), None);
    }
}
