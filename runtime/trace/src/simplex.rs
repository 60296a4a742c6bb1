//! A dense simplex in two phases, for the small linear programs of [`bounds`](super::bounds).
//!
//! It follows Dantzig, Linear Programming and Extensions (1963). The pivots follow Bland's rule
//! (Math. Oper. Res. 2, 1977): the first improving column enters, and of tied rows the one with the
//! first column leaves. So it terminates on degenerate programs such as ours: every bottleneck that
//! two kinds of workers share is a tie.

/// Costs and coefficients below this are rounding errors. The programs are scaled so that
/// significant values are near 1.
const EPS: f64 = 1e-11;

/// Maximum number of steps, more than any program of ours takes: a guard against rounding errors
/// that defeat Bland's rule.
const STEPS: usize = 100_000;

/// Minimises `cost . x` over `x >= 0` that satisfies every row.
pub(super) struct Program {
    cost: Vec<f64>,
    rows: Vec<Constraint>,
}

/// `factors . x = limit` if `equal`, else `factors . x <= limit`.
struct Constraint {
    factors: Vec<f64>,
    limit: f64,
    equal: bool,
}

impl Program {
    /// No rows yet; one cost per variable.
    pub fn new(cost: Vec<f64>) -> Program {
        Program { cost, rows: vec![] }
    }

    /// Demands `factors . x = limit`; factors that are not named are 0.
    pub fn equal(&mut self, factors: &[(usize, f64)], limit: f64) {
        self.row(factors, limit, true);
    }

    /// Demands `factors . x <= limit`; factors that are not named are 0.
    pub fn at_most(&mut self, factors: &[(usize, f64)], limit: f64) {
        self.row(factors, limit, false);
    }

    fn row(&mut self, factors: &[(usize, f64)], limit: f64, equal: bool) {
        let mut dense = vec![0.0; self.cost.len()];
        factors.iter().for_each(|&(at, factor)| dense[at] += factor);
        self.rows.push(Constraint { factors: dense, limit, equal });
    }

    /// Returns the least cost; `None` if no `x` satisfies the rows, if the cost is unbounded, or if
    /// rounding errors prevent a result.
    pub fn least(&self) -> Option<f64> {
        let mut tableau = Tableau::new(self);
        let artificial = tableau.real..tableau.columns;
        let shortfall = tableau.minimise(|column| if artificial.contains(&column) { 1.0 } else { 0.0 })?;
        if shortfall > 1e-9 {
            return None;
        }
        tableau.drop_artificial();
        tableau.minimise(|column| self.cost.get(column).copied().unwrap_or(0.0))
    }
}

/// The rows, solved for the basis.
struct Tableau {
    /// Per row its factors and, last, its value.
    rows: Vec<Vec<f64>>,
    /// The column that each row is solved for.
    basis: Vec<usize>,
    /// Columns that may be in a solution: variables, then slacks.
    real: usize,
    /// The number of columns including the artificial ones, which only phase one may use.
    columns: usize,
}

impl Tableau {
    fn new(program: &Program) -> Tableau {
        let variables = program.cost.len();
        let real = variables + program.rows.iter().filter(|row| !row.equal).count();
        let needs_artificial = |row: &&Constraint| row.equal || row.limit < 0.0;
        let columns = real + program.rows.iter().filter(needs_artificial).count();
        let (mut slack, mut artificial) = (variables, real);
        let mut tableau = Tableau { rows: vec![], basis: vec![], real, columns };
        for row in &program.rows {
            let sign = if row.limit < 0.0 { -1.0 } else { 1.0 };
            let mut dense = vec![0.0; columns + 1];
            row.factors.iter().enumerate().for_each(|(at, factor)| dense[at] = sign * factor);
            dense[columns] = sign * row.limit;
            let mut basic = slack;
            if !row.equal {
                dense[slack] = sign;
                slack += 1;
            }
            if needs_artificial(&row) {
                dense[artificial] = 1.0;
                basic = artificial;
                artificial += 1;
            }
            tableau.rows.push(dense);
            tableau.basis.push(basic);
        }
        tableau
    }

    /// Pivots to the least cost over the allowed columns and returns it.
    fn minimise(&mut self, cost: impl Fn(usize) -> f64) -> Option<f64> {
        // The reduced costs of the columns; the last entry is minus the cost of the basis.
        let mut reduced: Vec<f64> = (0..self.columns).map(&cost).collect();
        reduced.push(0.0);
        for (row, &basic) in self.rows.iter().zip(&self.basis) {
            subtract(&mut reduced, row, cost(basic));
        }
        for _ in 0..STEPS {
            let Some(enters) = (0..self.columns).find(|&column| reduced[column] < -EPS) else {
                return Some(-reduced[self.columns]);
            };
            let leaves = self.leaves(enters)?;
            self.pivot(leaves, enters);
            let factor = reduced[enters];
            subtract(&mut reduced, &self.rows[leaves], factor);
            reduced[enters] = 0.0;
        }
        None
    }

    /// Returns the row that limits `column` most, the one of the first basic column for a tie;
    /// `None` if none does.
    fn leaves(&self, column: usize) -> Option<usize> {
        let limited = self.rows.iter().enumerate().filter(|(_, row)| row[column] > EPS);
        let limits =
            limited.map(|(place, row)| (row[self.columns].max(0.0) / row[column], self.basis[place], place));
        limits.min_by(|a, b| a.0.total_cmp(&b.0).then(a.1.cmp(&b.1))).map(|limit| limit.2)
    }

    /// Solves row `row` for `column`.
    fn pivot(&mut self, row: usize, column: usize) {
        let factor = self.rows[row][column];
        self.rows[row].iter_mut().for_each(|value| *value /= factor);
        let solved = std::mem::take(&mut self.rows[row]);
        for other in self.rows.iter_mut().filter(|other| !other.is_empty()) {
            let factor = other[column];
            subtract(other, &solved, factor);
            other[column] = 0.0;
        }
        self.rows[row] = solved;
        self.basis[row] = column;
    }

    /// Removes artificial columns from the basis after phase one: their values are 0. The row is
    /// solved for another column, or is redundant.
    fn drop_artificial(&mut self) {
        for row in (0..self.rows.len()).rev() {
            if self.basis[row] < self.real {
                continue;
            }
            let largest = (0..self.real)
                .max_by(|&a, &b| self.rows[row][a].abs().total_cmp(&self.rows[row][b].abs()).then(b.cmp(&a)));
            match largest.filter(|&column| self.rows[row][column].abs() > EPS) {
                Some(column) => self.pivot(row, column),
                None => {
                    self.rows.remove(row);
                    self.basis.remove(row);
                }
            }
        }
        for row in &mut self.rows {
            row.drain(self.real..self.columns);
        }
        self.columns = self.real;
    }
}

fn subtract(from: &mut [f64], row: &[f64], factor: f64) {
    if factor != 0.0 {
        from.iter_mut().zip(row).for_each(|(value, part)| *value -= factor * part);
    }
}

#[cfg(test)]
pub(super) mod tests {
    use proptest::collection::vec;
    use proptest::prelude::*;

    use super::*;

    /// The least cost over every basis, each solved by elimination.
    pub fn by_every_basis(program: &Program) -> Option<f64> {
        let (rows, variables) = (program.rows.len(), program.cost.len());
        let slacks: Vec<usize> = (0..rows).filter(|&row| !program.rows[row].equal).collect();
        let column = |row: usize, column: usize| match column.checked_sub(variables) {
            None => program.rows[row].factors[column],
            Some(slack) => f64::from(u8::from(slacks[slack] == row)),
        };
        let columns = variables + slacks.len();
        let mut best: Option<f64> = None;
        for chosen in 0u32..1 << columns {
            if chosen.count_ones() as usize > rows {
                continue;
            }
            let chosen: Vec<usize> = (0..columns).filter(|&column| chosen & 1 << column != 0).collect();
            let mut matrix: Vec<Vec<f64>> = (0..rows)
                .map(|row| {
                    let factors = chosen.iter().map(|&at| column(row, at));
                    factors.chain([program.rows[row].limit]).collect()
                })
                .collect();
            let Some(values) = eliminated(&mut matrix, chosen.len()) else { continue };
            if values.iter().any(|&value| value < -1e-9) {
                continue;
            }
            let cost = chosen.iter().zip(&values).filter(|pair| *pair.0 < variables);
            let cost: f64 = cost.map(|(&at, value)| program.cost[at] * value).sum();
            best = Some(best.map_or(cost, |least| least.min(cost)));
        }
        best
    }

    /// Returns the unique solution of `matrix`, whose last column is the right-hand side; `None` if
    /// there is none, or more than one.
    fn eliminated(matrix: &mut [Vec<f64>], unknowns: usize) -> Option<Vec<f64>> {
        for at in 0..unknowns {
            let pivot =
                (at..matrix.len()).max_by(|&a, &b| matrix[a][at].abs().total_cmp(&matrix[b][at].abs()))?;
            if matrix[pivot][at].abs() < 1e-9 {
                return None;
            }
            matrix.swap(at, pivot);
            let solved: Vec<f64> = matrix[at].iter().map(|value| value / matrix[at][at]).collect();
            for (row, other) in matrix.iter_mut().enumerate() {
                if row == at {
                    other.clone_from(&solved);
                } else {
                    let factor = other[at];
                    subtract(other, &solved, factor);
                }
            }
        }
        let rest = &matrix[unknowns..];
        rest.iter()
            .all(|row| row[unknowns].abs() < 1e-7)
            .then(|| matrix[..unknowns].iter().map(|row| row[unknowns]).collect())
    }

    fn close(found: Option<f64>, expected: Option<f64>) -> bool {
        match (found, expected) {
            (Some(a), Some(b)) => (a - b).abs() <= 1e-6 * (1.0 + b.abs()),
            (a, b) => a.is_none() && b.is_none(),
        }
    }

    #[test]
    fn programs_solved_by_hand() {
        // A diet: at least 4 of x + y, at least 6 of x + 3 y; x costs 2, y costs 3: (3, 1) costs 9.
        let mut diet = Program::new(vec![2.0, 3.0]);
        diet.at_most(&[(0, -1.0), (1, -1.0)], -4.0);
        diet.at_most(&[(0, -1.0), (1, -3.0)], -6.0);
        assert!(close(diet.least(), Some(9.0)));
        // The same row twice leaves an artificial column that is redundant.
        let mut twice = Program::new(vec![1.0, 2.0]);
        twice.equal(&[(0, 1.0), (1, 1.0)], 3.0);
        twice.equal(&[(0, 2.0), (1, 2.0)], 6.0);
        twice.at_most(&[(0, 1.0)], 1.0);
        assert!(close(twice.least(), Some(5.0)));
        let mut impossible = Program::new(vec![1.0]);
        impossible.equal(&[(0, 1.0)], 2.0);
        impossible.at_most(&[(0, 1.0)], 1.0);
        assert_eq!(impossible.least(), None);
        let mut endless = Program::new(vec![-1.0]);
        endless.at_most(&[(0, -1.0)], 0.0);
        assert_eq!(endless.least(), None);
    }

    #[test]
    fn beales_program_does_not_cycle() {
        // Beale (Naval Res. Logist. Quart. 2, 1955): cycles under the rule of the largest cost.
        let mut program = Program::new(vec![-0.75, 150.0, -0.02, 6.0]);
        program.at_most(&[(0, 0.25), (1, -60.0), (2, -0.04), (3, 9.0)], 0.0);
        program.at_most(&[(0, 0.5), (1, -90.0), (2, -0.02), (3, 3.0)], 0.0);
        program.at_most(&[(2, 1.0)], 1.0);
        assert!(close(program.least(), Some(-0.05)));
    }

    proptest! {
        #[test]
        fn the_least_cost_is_that_of_the_best_basis(
            cost in vec(0u8..5, 1..5),
            rows in vec((vec(-3i8..4, 4), -6i8..7, any::<bool>()), 1..5),
        ) {
            // Costs are not negative, so that there is a least one; small whole numbers make ties
            // and redundant rows.
            let mut program = Program::new(cost.iter().map(|&c| f64::from(c)).collect());
            for (factors, limit, equal) in rows {
                let factors: Vec<(usize, f64)> =
                    factors.iter().take(cost.len()).map(|&f| f64::from(f)).enumerate().collect();
                program.row(&factors, f64::from(limit), equal);
            }
            let (found, expected) = (program.least(), by_every_basis(&program));
            prop_assert!(close(found, expected), "{found:?} {expected:?}");
        }
    }
}
