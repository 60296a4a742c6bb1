//! An item with its published and its computed numbers.

use schemars::JsonSchema;
use serde::Serialize;

use super::found::{Found, Series, Statement, Verdict};
use super::items::Item;
use super::published::Published;

/// A figure or table of a paper, computed anew.
#[derive(Clone, Debug, PartialEq, Serialize, JsonSchema)]
pub struct ItemResult {
    /// Paper: `thesis`, `lattice` or `tomography`.
    pub paper: String,
    /// Figure, table or section.
    pub item: String,
    /// Contents.
    pub title: String,
    /// Machine, data and sizes of the published numbers.
    pub setting: String,
    /// True if the sizes are those of the paper.
    pub full: bool,
    /// Titles of the axes.
    pub axes: [String; 2],
    /// Numbers of the paper and ours.
    pub values: Vec<Value>,
    /// Computed curves.
    pub series: Vec<Series>,
    /// Statements of the paper that the numbers are for.
    pub statements: Vec<Statement>,
    /// Commands that compute the same numbers one by one.
    pub commands: Vec<String>,
}

/// A published number, a computed one, or both.
#[derive(Clone, Debug, PartialEq, Serialize, JsonSchema)]
pub struct Value {
    /// Row.
    pub row: String,
    /// Column.
    pub column: String,
    /// Published number; null if the paper has none.
    pub published: Option<f64>,
    /// Computed number; null if it was not computed.
    pub found: Option<f64>,
    /// Remark on the published number; often empty.
    pub note: String,
}

impl ItemResult {
    /// Puts the computed numbers beside the published ones.
    pub fn new(item: &Item, full: bool, published: &[Published], found: Found) -> ItemResult {
        let own = published.iter().filter(|one| one.paper == item.paper.name() && one.item == item.name);
        let mut values: Vec<Value> = own
            .map(|one| Value {
                row: one.row.to_owned(),
                column: one.column.to_owned(),
                published: Some(one.value),
                found: None,
                note: one.note.to_owned(),
            })
            .collect();
        for (row, column, number) in found.values {
            match values.iter_mut().find(|value| value.row == row && value.column == column) {
                Some(value) => value.found = Some(number),
                None => values.push(Value {
                    row,
                    column,
                    published: None,
                    found: Some(number),
                    note: String::new(),
                }),
            }
        }
        ItemResult {
            paper: item.paper.name().to_owned(),
            item: item.name.to_owned(),
            title: item.title.to_owned(),
            setting: item.setting.to_owned(),
            full,
            axes: item.axes.map(str::to_owned),
            values,
            series: found.series,
            statements: found.statements,
            commands: found.commands,
        }
    }

    /// Counts the statements with a verdict.
    pub fn count(&self, verdict: Verdict) -> usize {
        self.statements.iter().filter(|statement| statement.verdict == verdict).count()
    }
}
