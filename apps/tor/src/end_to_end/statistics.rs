//! Statistics of an exposure.

/// Parts of an exposure whose means give its standard error.
const PARTS: usize = 10;

/// Returns the standard error of the mean of correlated values, from the means of ten parts; `None`
/// for fewer than ten values.
pub(super) fn of_parts<T: Copy + Into<f64>>(history: &[T]) -> Option<f64> {
    let length = history.len() / PARTS;
    if length == 0 {
        return None;
    }
    let mean = |part: &[T]| part.iter().map(|v| (*v).into()).sum::<f64>() / part.len() as f64;
    let means: Vec<f64> = history.chunks_exact(length).take(PARTS).map(mean).collect();
    of_mean(&means)
}

/// Returns the standard error of the mean of independent values; `None` for fewer than two.
pub(super) fn of_mean(values: &[f64]) -> Option<f64> {
    let count = values.len() as f64;
    if values.len() < 2 {
        return None;
    }
    let middle = values.iter().sum::<f64>() / count;
    let variance = values.iter().map(|v| (v - middle).powi(2)).sum::<f64>() / (count - 1.0);
    Some((variance / count).sqrt())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn errors_of_known_values() {
        // Values 1 and 3 have the variance 2.
        assert_eq!(of_mean(&[1.0, 3.0]), Some(1.0));
        assert_eq!((of_mean(&[1.0]), of_parts(&[1.0f32; 9])), (None, None));
        let steps: Vec<f64> = (0..20).map(|k| f64::from(k / 2)).collect();
        // The variance of 0 to 9 is 55 / 6.
        assert!((of_parts(&steps).unwrap() - (5.5f64 / 6.0).sqrt()).abs() < 1e-12);
    }
}
