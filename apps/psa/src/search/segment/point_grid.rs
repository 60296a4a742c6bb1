//! Positions of a segment's points, and its coarse points with the fine ones around each.

/// Step of the coarse lattice (mm).
const EDGE: f64 = 6.0;
/// Reach of the fine points around a coarse one along each axis (mm).
const REACH: f64 = 6.1;

/// Positions of the points of a segment, and the lattice of coarse points.
#[derive(Clone, Debug, PartialEq)]
pub struct PointGrid {
    /// Positions of the points (mm).
    pub positions: Vec<[f32; 3]>,
    /// Coarse points, with the fine points around each.
    pub lattice: Lattice,
}

impl PointGrid {
    /// Creates the grid of points at `positions` (mm).
    pub fn new(positions: &[[f32; 3]]) -> PointGrid {
        PointGrid { positions: positions.to_vec(), lattice: Lattice::new(positions) }
    }
}

/// Points of the coarse and of the fine stage of a search.
#[derive(Clone, Debug, PartialEq)]
pub struct Lattice {
    /// Points of the coarse lattice, by their indices in the segment, in ascending order.
    pub coarse: Vec<usize>,
    /// Fine points in the cube around each coarse point, in ascending order.
    pub fine: Vec<Vec<usize>>,
}

impl Lattice {
    /// Creates the lattice of points at `positions` (mm), by the algorithm of AGATA's production
    /// codes. The lattice has a step of 6 mm and contains the point that is nearest to the centre
    /// of gravity. Then points that lie in no coarse point's cube of +-6.1 mm become coarse ones,
    /// in order, until there is none. Cubes overlap.
    pub fn new(positions: &[[f32; 3]]) -> Lattice {
        let Some(centre) = nearest_to_centroid(positions) else {
            return Lattice { coarse: Vec::new(), fine: Vec::new() };
        };
        let origin = positions[centre];
        let on_lattice = |position: &[f32; 3]| {
            position.iter().zip(&origin).all(|(&x, &x0)| {
                let steps = f64::from(x - x0) / EDGE;
                (steps - steps.round()).abs() * EDGE < 0.05
            })
        };
        let mut is_coarse: Vec<bool> = positions.iter().map(on_lattice).collect();
        let mut covered = vec![false; positions.len()];
        let cover = |coarse: usize, covered: &mut [bool]| {
            covered.iter_mut().zip(positions).for_each(|(c, at)| *c |= is_near(at, &positions[coarse]));
        };
        (0..positions.len()).filter(|&i| is_coarse[i]).for_each(|i| cover(i, &mut covered));
        for i in 0..positions.len() {
            if !covered[i] {
                is_coarse[i] = true;
                cover(i, &mut covered);
            }
        }
        let places = |keep: &dyn Fn(usize) -> bool| (0..positions.len()).filter(|&i| keep(i)).collect();
        let coarse: Vec<usize> = places(&|i| is_coarse[i]);
        let around = |&c: &usize| places(&|i| !is_coarse[i] && is_near(&positions[i], &positions[c]));
        let fine = coarse.iter().map(around).collect();
        Lattice { coarse, fine }
    }
}

fn is_near(a: &[f32; 3], b: &[f32; 3]) -> bool {
    a.iter().zip(b).all(|(x, y)| f64::from(x - y).abs() <= REACH)
}

fn nearest_to_centroid(positions: &[[f32; 3]]) -> Option<usize> {
    let mean =
        |axis: usize| positions.iter().map(|at| f64::from(at[axis])).sum::<f64>() / positions.len() as f64;
    let centre = [mean(0), mean(1), mean(2)];
    let distance =
        |at: &[f32; 3]| at.iter().zip(centre).map(|(&x, c)| (f64::from(x) - c).powi(2)).sum::<f64>();
    (0..positions.len()).min_by(|&i, &j| distance(&positions[i]).total_cmp(&distance(&positions[j])))
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A cube of 2 mm steps, `edge` points each way, and one point far away.
    fn cube(edge: usize) -> Vec<[f32; 3]> {
        let step = |i: usize| i as f32 * 2.0;
        let all = 0..edge * edge * edge;
        let inside = all.map(|i| [step(i % edge), step(i / edge % edge), step(i / edge / edge)]);
        inside.chain([[1000.0, 3.0, 5.0]]).collect()
    }

    #[test]
    fn every_point_is_coarse_or_near_a_coarse_one() {
        let positions = cube(10);
        let lattice = Lattice::new(&positions);
        let mut seen = vec![false; positions.len()];
        lattice.coarse.iter().chain(lattice.fine.iter().flatten()).for_each(|&i| seen[i] = true);
        assert!(seen.iter().all(|&seen| seen));
        assert!(lattice.coarse.contains(&1000), "a point alone is a coarse one");
        assert!(lattice.fine.iter().flatten().all(|i| !lattice.coarse.contains(i)));
        // Inside, the cube of a coarse point has 7^3 points of 2 mm steps, 27 of which are coarse.
        assert_eq!(lattice.fine.iter().map(Vec::len).max(), Some(343 - 27));
    }

    #[test]
    fn nothing_has_no_lattice() {
        assert!(Lattice::new(&[]).coarse.is_empty());
    }
}
