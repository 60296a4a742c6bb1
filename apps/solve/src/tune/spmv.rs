//! Accuracies of row blocks of a product as items of `zellige tune spmv`, and trials with them.
//! Formats are named as copies of a whole matrix are, such as `ap7:cw:2^-24`.

use std::ops::Range;
use std::time::Instant;

use zellige_sparse::adaptive::{Accuracy, Adaptation, Criterion, FormatSet, TiledMatrix};
use zellige_sparse::exact::ExactProduct;
use zellige_sparse::system::{CriterionChoice, Inner};
use zellige_sparse::{Csr, Error};
use zellige_tune::{Assignment, Candidate, Data, Item, Measures, Space};

/// Measure that is the cost if no other is given.
pub const COST: &str = "bytes";
/// Names of all measures.
pub const MEASURES: [&str; 4] = ["normwise", "componentwise", "bytes", "seconds"];

/// Accuracies that are tried; the last is that of float64.
const ACCURACIES: [&str; 6] = ["2^-8", "2^-11", "2^-16", "2^-24", "2^-37", "2^-53"];

/// Trials of a product `A x` whose row blocks are stored in different accuracies.
#[derive(Debug)]
pub struct ProductTuning {
    space: Space,
    rows: Vec<Range<usize>>,
    /// Exact products with the vectors of the search and of the verification.
    exact: [ExactProduct; 2],
    /// Results of each row block in each of its formats, by the item and the name of the format.
    blocks: Vec<Vec<(String, BlockProduct)>>,
}

/// Product of one row block in one format.
#[derive(Debug)]
struct BlockProduct {
    bytes: u64,
    seconds: f64,
    /// Results with both vectors.
    y: [Vec<f64>; 2],
}

impl ProductTuning {
    /// Stores up to `blocks` row blocks with about as many nonzeros in all formats, and multiplies
    /// each with both vectors. Times are medians of `repeats` products on the calling thread.
    ///
    /// # Errors
    /// [`Error::Shape`] for vectors of another length; those of storing the matrix.
    pub fn new(
        a: &Csr,
        set: FormatSet,
        x: [&[f64]; 2],
        blocks: usize,
        repeats: usize,
    ) -> Result<ProductTuning, Error> {
        let [first, second] = x.map(|x| ExactProduct::of(a, x));
        let exact = [first?, second?];
        let rows: Vec<Range<usize>> =
            a.even_rows(blocks.max(1)).into_iter().filter(|rows| !rows.is_empty()).collect();
        let mut items = Vec::with_capacity(rows.len());
        let mut products = Vec::with_capacity(rows.len());
        for rows in &rows {
            let part = part(a, rows.clone())?;
            let mut of_block = Vec::new();
            for name in ACCURACIES {
                let accuracy: Accuracy = name.parse()?;
                let adaptation = Adaptation::new(set, Criterion::Componentwise, accuracy);
                let criterion = CriterionChoice::Componentwise;
                let name = Inner::Adaptive { set, criterion, accuracy, block_size: None }.to_string();
                of_block.push((name, BlockProduct::new(&part, &adaptation, x, repeats)?));
            }
            items.push(item(rows, &of_block));
            products.push(of_block);
        }
        let space = Space::new(items)
            .map_err(|error| Error::Parameter { name: "items", problem: error.to_string() })?;
        Ok(ProductTuning { space, rows, exact, blocks: products })
    }

    /// Returns the items: one for each row block.
    pub fn space(&self) -> &Space {
        &self.space
    }

    /// Combines the products of row blocks. The measures are the backward errors of the product
    /// (`normwise`, `componentwise`), and sums of `bytes` and `seconds`.
    ///
    /// # Errors
    /// None that can occur: every format was multiplied with already.
    pub fn trial(&self, formats: &Assignment, data: Data) -> Result<Measures, String> {
        let mut y = Vec::with_capacity(self.rows.last().map_or(0, |rows| rows.end));
        let (mut bytes, mut seconds) = (0, 0.0);
        for ((_, format), of_block) in formats.iter().zip(&self.blocks) {
            let found = of_block.iter().find(|(name, _)| *name == format.name);
            let (_, product) = found.ok_or_else(|| format!("no product in {}", format.name))?;
            y.extend_from_slice(&product.y[data as usize]);
            bytes += product.bytes;
            seconds += product.seconds;
        }
        let error = self.exact[data as usize].backward_error(&y).map_err(|error| error.to_string())?;
        Ok(Measures::from([
            ("normwise", error.normwise),
            ("componentwise", error.componentwise),
            ("bytes", bytes as f64),
            ("seconds", seconds),
        ]))
    }
}

/// Returns the condition for which no other is given.
pub fn accept(accuracy: Accuracy) -> String {
    format!("componentwise <= {:e}", accuracy.get())
}

impl BlockProduct {
    fn new(part: &Csr, adaptation: &Adaptation<'_>, x: [&[f64]; 2], repeats: usize) -> Result<Self, Error> {
        let matrix = TiledMatrix::new(part, 1, adaptation)?;
        let mut y = [vec![0.0; part.rows()], vec![0.0; part.rows()]];
        let mut times = Vec::with_capacity(repeats.max(1));
        matrix.multiply(x[1], &mut y[1])?;
        for _ in 0..repeats.max(1) {
            let begin = Instant::now();
            matrix.multiply(x[0], &mut y[0])?;
            times.push(begin.elapsed().as_secs_f64());
        }
        times.sort_by(f64::total_cmp);
        Ok(BlockProduct { bytes: matrix.bytes(), seconds: times[times.len() / 2], y })
    }
}

/// Copies some rows.
fn part(a: &Csr, rows: Range<usize>) -> Result<Csr, Error> {
    let (mut starts, mut column, mut value) = (vec![0], Vec::new(), Vec::new());
    for i in rows {
        let (columns, values) = a.row(i);
        column.extend_from_slice(columns);
        value.extend_from_slice(values);
        starts.push(column.len());
    }
    Csr::new(a.columns(), starts, column, value)
}

/// Item of a row block: its formats by their bytes, and the most accurate one last.
fn item(rows: &Range<usize>, of_block: &[(String, BlockProduct)]) -> Item {
    let bytes = |product: &BlockProduct| product.bytes as f64;
    let most = of_block.last().map_or(0.0, |(_, double)| bytes(double));
    let candidate = |(name, product): &(String, BlockProduct)| {
        let cost = bytes(product).min(most);
        Candidate { name: name.clone(), cost }
    };
    let mut formats: Vec<Candidate> = of_block.iter().map(candidate).collect();
    formats.sort_by(|a, b| a.cost.total_cmp(&b.cost));
    Item { name: format!("rows {}..{}", rows.start, rows.end), group: String::new(), formats }
}

#[cfg(test)]
mod tests {
    use super::super::RowAccuracies;
    use super::*;
    use zellige_sparse::generate::{Flow, flow};
    use zellige_tune::{Acceptance, Ended, Options, Search, Trials};

    #[test]
    fn row_blocks_have_formats_of_their_own() {
        let a = flow(&Flow { cells: [8, 7, 6], ..Flow::default() }).expect("a matrix");
        let ones = vec![1.0; a.columns()];
        let other: Vec<f64> = (0..a.columns()).map(|j| 1.0 + (j % 5) as f64).collect();
        let tuning = ProductTuning::new(&a, FormatSet::Ap7, [&ones, &other], 6, 1).expect("products");
        assert_eq!(tuning.space().items().len(), 6);
        let accept = Acceptance::parse("normwise <= 1e-6").expect("a condition");
        let trials = Trials::in_turn(|formats, data| tuning.trial(formats, data));
        let search = Search::new(tuning.space(), trials, &accept);
        let outcome = search.run(&Options { verify: true, ..Options::default() }).expect("an outcome");
        assert_eq!(outcome.ended, Ended::Minimal);
        assert!(outcome.best().cost < outcome.reference().cost.map(|cost| 0.9 * cost), "{outcome:?}");
        assert!(outcome.verified.is_some());
        let reference = &outcome.reference().measures;
        assert!(reference.get("componentwise").expect("an error").value < 1e-14);
        let problem = Acceptance::parse("steps < 3").expect("a condition").check(reference);
        let problem = problem.expect_err("no such figure").to_string();
        assert!(problem.contains("bytes, componentwise, normwise, seconds"), "{problem}");
        // The file of the result gives the same product.
        let file = serde_json::to_string(&outcome.best().formats).expect("JSON");
        let folder = tempfile::tempdir().expect("a folder");
        let path = folder.path().join("rows.json");
        std::fs::write(&path, file).expect("a file");
        let rows = RowAccuracies::read(&path, a.rows()).expect("accuracies");
        let mut y = vec![0.0; a.rows()];
        let matrix = TiledMatrix::new(&a, 1, &rows.adaptation()).expect("a copy");
        matrix.multiply(&ones, &mut y).expect("a product");
        let error = tuning.exact[0].backward_error(&y).expect("an error");
        let tuned = outcome.best().measures.get("componentwise").expect("an error").value;
        assert!((error.componentwise / tuned - 1.0).abs() < 1e-9, "{error:?} {tuned}");
        let accuracy = "2^-24".parse().expect("an accuracy");
        assert!(super::accept(accuracy).starts_with("componentwise <= 5.96"));
    }
}
