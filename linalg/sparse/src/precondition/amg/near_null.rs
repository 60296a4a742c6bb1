//! Near null spaces: vectors that a matrix maps to nearly zero, and that coarser levels represent.

use zellige_krylov::Error;

use super::aggregate::Aggregates;
use super::blocks::Blocks;

/// Near null space of a matrix whose rows come in blocks, beyond the vectors that are constant in
/// one component.
#[derive(Clone, Debug, Default, PartialEq)]
pub enum NearNull {
    /// Nothing beyond the constants.
    Constants,
    /// Found from the matrix: on each aggregate as many directions as a rigid body has rotations.
    /// For blocks of one or two unknowns these are one, for three three, for four six.
    #[default]
    Search,
    /// Rigid rotations about these coordinates of the nodes: two or three arrays with a number for
    /// each block of rows.
    Coordinates(Vec<Vec<f64>>),
    /// These vectors.
    Vectors(Vec<Vec<f64>>),
}

/// Maximum number of given vectors: each is an unknown of every node of the coarser levels.
const MOST_VECTORS: usize = 24;

impl NearNull {
    /// Returns the given vectors, for a matrix of `rows` rows in blocks of `block`.
    ///
    /// # Errors
    /// [`Error::Shape`] for arrays of other lengths, [`Error::Parameter`] for too many vectors,
    /// non-finite numbers, and coordinates of blocks that have another number of unknowns.
    pub fn vectors(&self, rows: usize, block: usize) -> Result<Vec<Vec<f64>>, Error> {
        let (arrays, length, name) = match self {
            NearNull::Constants | NearNull::Search => return Ok(Vec::new()),
            NearNull::Coordinates(arrays) => (arrays, rows / block.max(1), "coordinates"),
            NearNull::Vectors(arrays) => (arrays, rows, "near null space"),
        };
        if let Some(array) = arrays.iter().find(|array| array.len() != length) {
            let problem = format!(
                "{} numbers in a column where the matrix has {length} {}",
                array.len(),
                if *name == *"coordinates" { "blocks of rows" } else { "rows" }
            );
            return Err(Error::shape(name, problem));
        }
        if arrays.len() > MOST_VECTORS {
            let problem = format!("{} columns: at most {MOST_VECTORS} are possible", arrays.len());
            return Err(Error::parameter(name, problem));
        }
        if arrays.iter().flatten().any(|value| !value.is_finite()) {
            return Err(Error::parameter(name, "it has numbers that are not finite"));
        }
        match self {
            NearNull::Coordinates(axes) => rotations(axes, block),
            _ => Ok(arrays.clone()),
        }
    }
}

/// Returns the rotations of a body whose nodes have these coordinates: one in the plane, three in
/// space.
fn rotations(axes: &[Vec<f64>], block: usize) -> Result<Vec<Vec<f64>>, Error> {
    if axes.len() != block || !(2..=3).contains(&block) {
        let problem = format!(
            "{} coordinates for {block} unknowns of each node: 2 or 3, and as many unknowns, are possible",
            axes.len()
        );
        return Err(Error::parameter("coordinates", problem));
    }
    // About the middle, so that rotations hardly contain translations.
    let about_middle = |axis: &Vec<f64>| {
        let middle = axis.iter().sum::<f64>() / axis.len().max(1) as f64;
        axis.iter().map(|x| x - middle).collect()
    };
    let axes: Vec<Vec<f64>> = axes.iter().map(about_middle).collect();
    let planes: &[_] = if block == 2 { &[(0, 1)] } else { &[(0, 1), (1, 2), (2, 0)] };
    Ok(planes
        .iter()
        .map(|&(one, other)| {
            let mut rotation = vec![0.0; axes[0].len() * block];
            for (node, displacement) in rotation.chunks_exact_mut(block).enumerate() {
                (displacement[one], displacement[other]) = (-axes[other][node], axes[one][node]);
            }
            rotation
        })
        .collect())
}

/// Vectors of a level that the next one represents.
#[derive(Clone, Debug)]
pub struct Smooth {
    /// Number of components whose constants are represented exactly: the first unknowns of each
    /// node.
    pub components: usize,
    /// The constant vectors of all components in one. For other unknowns, it has the size that
    /// their numbers have in smooth vectors.
    pub constants: Vec<f64>,
    /// Further vectors, row by row.
    further: Vec<f64>,
    count: usize,
    /// Number of directions on each aggregate that represent the further ones.
    kept: usize,
}

/// A direction on an aggregate whose part of the further vectors is smaller than this part of the
/// largest one is rounding.
const RANK: f64 = 1e-5;

impl Smooth {
    /// Creates the constants of each component, with their number in each row, and further
    /// vectors, of which `kept` directions are kept on each aggregate.
    pub fn new(components: usize, constants: &[f64], further: &[Vec<f64>], kept: usize) -> Smooth {
        let rows = 0..constants.len();
        let further_by_row = rows.flat_map(|i| further.iter().map(move |vector| vector[i])).collect();
        Smooth {
            components,
            constants: constants.to_vec(),
            further: further_by_row,
            count: further.len(),
            kept: kept.min(further.len()),
        }
    }

    /// Returns the number of unknowns of each node of the next level.
    pub fn unknowns(&self) -> usize {
        self.components + self.kept
    }

    /// Returns the prolongation whose columns are orthonormal: on each aggregate the constants of
    /// each component, and the directions that hold most of what is left of the further vectors
    /// (the left singular vectors of the largest singular values). A direction that is missing is
    /// a column of zeros. Also returns the vectors of the next level that it maps to these.
    pub fn tentative(&self, block: usize, aggregates: &Aggregates) -> Result<(Blocks, Smooth), Error> {
        let (unknowns, rows) = (self.unknowns(), self.constants.len());
        let (members, starts) = aggregates.members();
        let mut values = vec![0.0; rows * unknowns];
        let mut next = Smooth {
            constants: vec![0.0; aggregates.count() * unknowns],
            further: vec![0.0; aggregates.count() * unknowns * self.count],
            components: self.components,
            count: self.count,
            kept: self.kept,
        };
        let mut local = Local::default();
        for (aggregate, ends) in starts.windows(2).enumerate() {
            let of_aggregate = aggregate * unknowns..(aggregate + 1) * unknowns;
            local.gather(self, block, &members[ends[0]..ends[1]]);
            local.constants(self, &mut next.constants[of_aggregate.clone()]);
            let further = &mut next.further[of_aggregate.start * self.count..of_aggregate.end * self.count];
            local.further(self, further);
            for (&row, columns) in local.rows.iter().zip(local.columns.chunks_exact(unknowns)) {
                values[row * unknowns..(row + 1) * unknowns].copy_from_slice(columns);
            }
        }
        let tentative =
            Blocks::by_rows(1, [rows / block, aggregates.count()], [block, unknowns], |range, made| {
                for node in range {
                    let area = block * unknowns;
                    made.push(aggregates.of(node), &values[node * area..(node + 1) * area]);
                    made.end_row();
                }
            })?;
        Ok((tentative, next))
    }
}

/// Numbers of one aggregate.
#[derive(Default)]
struct Local {
    rows: Vec<usize>,
    /// The component of each row, and its number in the constants.
    component: Vec<usize>,
    constant: Vec<f64>,
    /// Further vectors, row by row.
    further: Vec<f64>,
    /// Columns of the prolongation, row by row.
    columns: Vec<f64>,
}

impl Local {
    fn gather(&mut self, smooth: &Smooth, block: usize, nodes: &[u32]) {
        self.rows.clear();
        self.rows.extend(nodes.iter().flat_map(|&node| node as usize * block..(node as usize + 1) * block));
        self.component.clear();
        self.component.extend(self.rows.iter().map(|row| row % block));
        self.constant.clear();
        self.constant.extend(self.rows.iter().map(|&row| smooth.constants[row]));
        self.further.clear();
        let count = smooth.count;
        for &row in &self.rows {
            self.further.extend_from_slice(&smooth.further[row * count..(row + 1) * count]);
        }
        self.columns.clear();
        self.columns.resize(self.rows.len() * smooth.unknowns(), 0.0);
    }

    /// Makes the columns of the constants and their norms. Other unknowns get the mean of these.
    fn constants(&mut self, smooth: &Smooth, norms: &mut [f64]) {
        let unknowns = smooth.unknowns();
        let own = |component: usize| component < smooth.components;
        for (&component, value) in self.component.iter().zip(&self.constant).filter(|(c, _)| own(**c)) {
            norms[component] += value * value;
        }
        norms.iter_mut().for_each(|norm| *norm = norm.sqrt());
        let rows = self.component.iter().zip(&self.constant).zip(self.columns.chunks_exact_mut(unknowns));
        for ((&component, value), columns) in rows.filter(|((c, _), _)| own(**c)) {
            columns[component] = value / norms[component];
        }
        let (constants, others) = norms.split_at_mut(smooth.components);
        others.fill(constants.iter().sum::<f64>() / smooth.components as f64);
    }

    /// Makes the columns of the further vectors, and the numbers by which all columns represent
    /// them, a row for each column.
    fn further(&mut self, smooth: &Smooth, represented: &mut [f64]) {
        let (count, unknowns, constants) = (smooth.count, smooth.unknowns(), smooth.components);
        let whole: f64 = self.further.iter().map(|value| value * value).sum();
        // Twice, since the first leaves rounding of the size of what it takes away.
        for _ in 0..2 {
            let mut part = vec![0.0; constants * count];
            let rows = || self.component.iter().zip(self.columns.chunks_exact(unknowns));
            for ((&c, columns), further) in
                rows().zip(self.further.chunks_exact(count.max(1))).filter(|((c, _), _)| **c < constants)
            {
                let part = &mut part[c * count..(c + 1) * count];
                part.iter_mut().zip(further).for_each(|(part, value)| *part += columns[c] * value);
            }
            let rows = self.component.iter().zip(self.columns.chunks_exact(unknowns));
            for ((&c, columns), further) in
                rows.zip(self.further.chunks_exact_mut(count.max(1))).filter(|((c, _), _)| **c < constants)
            {
                let part = &part[c * count..(c + 1) * count];
                further.iter_mut().zip(part).for_each(|(value, part)| *value -= columns[c] * part);
            }
            represented.iter_mut().zip(&part).for_each(|(sum, part)| *sum += part);
        }
        if smooth.kept == 0 {
            return;
        }
        let mut gram = vec![0.0; count * count];
        for further in self.further.chunks_exact(count) {
            for (gram, one) in gram.chunks_exact_mut(count).zip(further) {
                gram.iter_mut().zip(further).for_each(|(gram, other)| *gram += one * other);
            }
        }
        let (squares, vectors) = eigenvectors(gram, count);
        let least = (RANK * RANK * squares[0]).max(1e-20 * whole);
        for (q, square) in squares.iter().take(smooth.kept).enumerate().filter(|(_, s)| **s > least) {
            let (vector, size) = (&vectors[q * count..(q + 1) * count], square.sqrt());
            let column = constants + q;
            for (columns, further) in
                self.columns.chunks_exact_mut(unknowns).zip(self.further.chunks_exact(count))
            {
                columns[column] = further.iter().zip(vector).map(|(f, v)| f * v).sum::<f64>() / size;
            }
            let to = &mut represented[column * count..(column + 1) * count];
            to.iter_mut().zip(vector).for_each(|(to, v)| *to = size * v);
        }
    }
}

/// Sweeps of Jacobi's method; each squares what is left off the diagonal.
const SWEEPS: usize = 12;

/// Returns the eigenvalues of a small symmetric matrix, the largest first, and the eigenvectors one
/// after the other, by Jacobi's method.
fn eigenvectors(mut a: Vec<f64>, n: usize) -> (Vec<f64>, Vec<f64>) {
    let mut v: Vec<f64> = (0..n * n).map(|k| if k / n == k % n { 1.0 } else { 0.0 }).collect();
    for _ in 0..SWEEPS {
        for p in 0..n {
            for q in p + 1..n {
                let (app, aqq, apq) = (a[p * n + p], a[q * n + q], a[p * n + q]);
                if apq.abs() <= f64::EPSILON * 1e-3 * (app.abs() * aqq.abs()).sqrt() {
                    continue;
                }
                let theta = (aqq - app) / (2.0 * apq);
                let t = theta.signum() / (theta.abs() + theta.hypot(1.0));
                let c = 1.0 / t.hypot(1.0);
                let s = t * c;
                for k in 0..n {
                    let (one, other) = (a[k * n + p], a[k * n + q]);
                    (a[k * n + p], a[k * n + q]) = (c * one - s * other, s * one + c * other);
                }
                for k in 0..n {
                    let (one, other) = (a[p * n + k], a[q * n + k]);
                    (a[p * n + k], a[q * n + k]) = (c * one - s * other, s * one + c * other);
                    let (one, other) = (v[p * n + k], v[q * n + k]);
                    (v[p * n + k], v[q * n + k]) = (c * one - s * other, s * one + c * other);
                }
            }
        }
    }
    let mut order: Vec<usize> = (0..n).collect();
    order.sort_by(|&p, &q| a[q * n + q].total_cmp(&a[p * n + p]));
    let values = order.iter().map(|&p| a[p * n + p]).collect();
    (values, order.iter().flat_map(|&p| v[p * n..(p + 1) * n].to_vec()).collect())
}

#[cfg(test)]
mod tests {
    use super::super::aggregate::{aggregate, strong};
    use super::*;
    use crate::generate::{Elasticity, Elements, elasticity};

    #[test]
    fn eigenvectors_of_a_known_matrix() {
        // -1 2 -1 of size 4: 2 - 2 cos(k pi / 5).
        let n = 4;
        let entry = |k: usize| match (k / n).abs_diff(k % n) {
            0 => 2.0,
            1 => -1.0,
            _ => 0.0,
        };
        let a: Vec<f64> = (0..n * n).map(entry).collect();
        let (values, vectors) = eigenvectors(a.clone(), n);
        for (k, value) in values.iter().enumerate() {
            let known = 2.0 + 2.0 * ((k + 1) as f64 * std::f64::consts::PI / 5.0).cos();
            assert!((value - known).abs() < 1e-14, "{value} {known}");
            let vector = &vectors[k * n..(k + 1) * n];
            for i in 0..n {
                let product: f64 = (0..n).map(|j| a[i * n + j] * vector[j]).sum();
                assert!((product - known * vector[i]).abs() < 1e-14);
            }
        }
    }

    /// Columns are orthonormal, and what the next level represents is what was given.
    #[test]
    fn rotations_are_represented() -> Result<(), Error> {
        let solid = elasticity(&Elasticity { elements: Elements([5, 5, 4]), ..Elasticity::default() })?;
        let axes = (0..3).map(|axis: u32| {
            let place = |node: u32| f64::from([node / 24, node / 4 % 6, node % 4][axis as usize]);
            (0..144).map(place).collect()
        });
        let near = NearNull::Coordinates(axes.collect()).vectors(solid.rows(), 3)?;
        let aggregates = aggregate(&strong(&Blocks::of(1, &solid, 3)?, 0.02));
        let smooth = Smooth::new(3, &vec![1.0; solid.rows()], &near, 3);
        let (tentative, next) = smooth.tentative(3, &aggregates)?;
        let tentative = tentative.csr()?;
        let columns = tentative.transposed();
        for i in 0..columns.rows() {
            for j in 0..columns.rows() {
                let dot: f64 = columns
                    .row(i)
                    .0
                    .iter()
                    .zip(columns.row(i).1)
                    .map(|(&k, v)| v * columns.get(j, k as usize))
                    .sum();
                let expected = if i == j { 1.0 } else { 0.0 };
                assert!((dot - expected).abs() < 1e-12, "{i} {j}: {dot}");
            }
        }
        for (k, rotation) in near.iter().enumerate() {
            let coarse: Vec<f64> = next.further.iter().skip(k).step_by(3).copied().collect();
            let mut fine = vec![0.0; solid.rows()];
            tentative.multiply(&coarse, &mut fine)?;
            assert!(fine.iter().zip(rotation).all(|(fine, given)| (fine - given).abs() < 1e-12), "{k}");
        }
        Ok(())
    }

    #[test]
    fn wrong_arrays_are_refused() {
        let of = |near: &NearNull| near.vectors(12, 3).map_err(|error| error.to_string());
        assert!(of(&NearNull::Vectors(vec![vec![1.0; 11]])).unwrap_err().contains("12 rows"));
        assert!(of(&NearNull::Coordinates(vec![vec![1.0; 12]; 3])).unwrap_err().contains("4 blocks of rows"));
        assert!(of(&NearNull::Coordinates(vec![vec![1.0; 4]; 2])).unwrap_err().contains("3 unknowns"));
        assert!(of(&NearNull::Vectors(vec![vec![f64::NAN; 12]])).unwrap_err().contains("not finite"));
        assert!(of(&NearNull::Vectors(vec![vec![1.0; 12]; 25])).unwrap_err().contains("at most 24"));
    }
}
