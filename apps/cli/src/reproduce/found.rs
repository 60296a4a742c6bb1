//! Numbers that an item computes, and its verdicts on statements of the paper.

use schemars::JsonSchema;
use serde::Serialize;

/// Verdict on a statement.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
pub enum Verdict {
    /// The numbers show what the paper says.
    Agrees,
    /// The numbers show something else.
    Contradicts,
    /// The numbers cannot decide.
    Open,
}

impl Verdict {
    /// Returns the word in texts.
    pub fn name(self) -> &'static str {
        match self {
            Verdict::Agrees => "agrees",
            Verdict::Contradicts => "contradicts",
            Verdict::Open => "open",
        }
    }
}

/// A statement of the paper, judged.
#[derive(Clone, Debug, PartialEq, Serialize, JsonSchema)]
pub struct Statement {
    /// Claim of the paper, in our words.
    pub text: String,
    /// Verdict of the computed numbers.
    pub verdict: Verdict,
    /// Numbers behind the verdict, or why there is none.
    pub reason: String,
}

/// A computed curve of a figure.
#[derive(Clone, Debug, PartialEq, Serialize, JsonSchema)]
pub struct Series {
    /// Name in the legend.
    pub name: String,
    /// Abscissas.
    pub x: Vec<f64>,
    /// Ordinates.
    pub y: Vec<f64>,
}

/// Results of the computation of an item.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Found {
    /// Row, column and number.
    pub values: Vec<(String, String, f64)>,
    /// Curves.
    pub series: Vec<Series>,
    /// Judged statements.
    pub statements: Vec<Statement>,
    /// Commands that compute the same numbers one by one.
    pub commands: Vec<String>,
}

impl Found {
    /// Adds a number.
    pub fn value(&mut self, row: impl Into<String>, column: impl Into<String>, value: f64) {
        self.values.push((row.into(), column.into(), value));
    }

    /// Adds a curve.
    pub fn curve(&mut self, name: impl Into<String>, points: impl IntoIterator<Item = (f64, f64)>) {
        let (x, y) = points.into_iter().unzip();
        self.series.push(Series { name: name.into(), x, y });
    }

    /// Adds a statement that the numbers decide.
    pub fn judge(&mut self, text: impl Into<String>, agrees: bool, reason: impl Into<String>) {
        let verdict = if agrees { Verdict::Agrees } else { Verdict::Contradicts };
        self.statements.push(Statement { text: text.into(), verdict, reason: reason.into() });
    }

    /// Adds a statement that only the sizes of the paper decide. Without `is_full` it stays open,
    /// with what is `missing`.
    pub fn judge_full(
        &mut self,
        is_full: bool,
        text: impl Into<String>,
        agrees: bool,
        reason: String,
        missing: &str,
    ) {
        match is_full {
            true => self.judge(text, agrees, reason),
            false => self.leave(text, format!("{reason}; {missing}: --full")),
        }
    }

    /// Adds a statement that the numbers cannot decide.
    pub fn leave(&mut self, text: impl Into<String>, reason: impl Into<String>) {
        let (text, reason) = (text.into(), reason.into());
        self.statements.push(Statement { text, verdict: Verdict::Open, reason });
    }

    /// Adds a command.
    pub fn command(&mut self, line: impl Into<String>) {
        self.commands.push(line.into());
    }
}
