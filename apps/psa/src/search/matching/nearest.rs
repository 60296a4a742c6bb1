//! Selection of points in a screen by matrix products. Points that the products cannot distinguish
//! are compared by direct sums.

use zellige_kernels::distance::{Margin, Shape, longest};

use crate::search::segment::Best;

/// Selection of the smallest squared distances from sums of
/// [`zellige_kernels::distance::products`].
#[derive(Debug)]
pub(super) struct Nearest {
    best: Best,
    /// Largest length of a point.
    longest: f64,
    margin: Margin,
}

/// Candidates of the selection for one event.
#[derive(Debug, PartialEq)]
pub(super) struct Nearby {
    /// Points that are kept for certain.
    pub sure: Vec<usize>,
    /// Points of which only some are kept, chosen by direct sums unless all are kept.
    pub doubtful: Vec<usize>,
    /// Number of the doubtful points that are kept.
    pub wanted: usize,
}

impl Nearest {
    /// Creates the selection for points with these squared lengths.
    pub fn new(squares: &[f32], shape: Shape) -> Self {
        Nearest { best: Best::default(), longest: longest(squares), margin: Margin::of_chains(shape) }
    }

    /// Returns the points that can be among the `keep` with the smallest direct sums, for an event
    /// with these samples.
    pub fn find(&mut self, event: &[f32], sums: &[f32], keep: usize) -> Nearby {
        let keep = keep.min(sums.len());
        let square: f64 = event.iter().map(|&v| f64::from(v) * f64::from(v)).sum();
        let Some(error) = self.margin.error_of(square, self.longest) else {
            return Nearby { sure: Vec::new(), doubtful: (0..sums.len()).collect(), wanted: keep };
        };
        let last = self.best.last_of(keep, sums);
        let margin = self.margin.around(last, square, error);
        let (mut sure, mut doubtful) = (Vec::with_capacity(keep), Vec::new());
        for (sum, point) in self.best.up_to(sums, last + margin) {
            if sum < last - margin { sure.push(point) } else { doubtful.push(point) }
        }
        let wanted = keep - sure.len();
        Nearby { sure, doubtful, wanted }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use rand::{RngExt, SeedableRng};
    use rand_chacha::ChaCha8Rng;
    use zellige_kernels::distance::{LANES, Metric, Values, place, products, squares, sums};

    /// Points along a line that are close to each other and far from zero: products cannot
    /// distinguish them, and must report them as doubtful.
    #[test]
    fn who_is_kept_for_certain_is_kept() {
        let shape = Shape { channels: 2, samples: 20 };
        let mut random = ChaCha8Rng::seed_from_u64(3);
        let (mut sure, mut doubtful) = (0, 0);
        for round in 0..60i32 {
            let apart = 10f32.powi(-(round % 6));
            let stride = 4 * LANES;
            let mut values = vec![0.0; stride * shape.terms()];
            for point in 0..stride {
                for term in 0..shape.terms() {
                    values[place(point, term, shape)] = 1.0 + apart * random.random_range(0.0..1.0f32);
                }
            }
            let event: Vec<f32> =
                (0..shape.terms()).map(|_| 1.0 + apart * random.random_range(0.0..1.0f32)).collect();
            let values = Values::F32(&values);
            let lengths = squares(values, shape).expect("whole blocks");
            let (mut products_of, mut direct) = (vec![0.0; stride], vec![0.0; stride]);
            products(values, &lengths, shape, &event, &mut [], &mut products_of).expect("sizes that fit");
            sums(&Metric::power(2.0), values, shape, &event, &[], &mut [], &mut direct)
                .expect("sizes that fit");
            let keep = 1 + round as usize % 20;
            let nearby = Nearest::new(&lengths, shape).find(&event, &products_of, keep);
            let mut order: Vec<usize> = (0..stride).collect();
            order.sort_by(|&a, &b| direct[a].total_cmp(&direct[b]).then(a.cmp(&b)));
            let kept = &order[..keep];
            assert!(nearby.sure.iter().all(|point| kept.contains(point)), "{nearby:?}");
            assert!(
                kept.iter().all(|point| nearby.sure.contains(point) || nearby.doubtful.contains(point)),
                "{nearby:?}"
            );
            assert!(nearby.sure.len() + nearby.wanted == keep && nearby.doubtful.len() >= nearby.wanted);
            sure += nearby.sure.len();
            doubtful += nearby.doubtful.len() - nearby.wanted;
        }
        assert!(sure > 100 && doubtful > 100, "both happen: {sure} {doubtful}");
    }

    #[test]
    fn nothing_is_certain_of_what_is_too_large() {
        let shape = Shape { channels: 1, samples: 1 };
        let nearby = Nearest::new(&[1.0, f32::INFINITY], shape).find(&[1.0], &[f32::NAN, 1.0], 1);
        assert_eq!(nearby, Nearby { sure: vec![], doubtful: vec![0, 1], wanted: 1 });
    }
}
