//! Expressions over measures: arithmetic, comparisons and logic.

mod evaluate;
mod parse;

use evaluate::Scene;
pub(crate) use evaluate::Truth;
use parse::{Kind, Node};

use crate::error::Error;
use crate::measures::Measures;

/// An expression over measures whose value is a number, such as `seconds + 1e-9 * bytes`.
///
/// It has numbers, names of measures, `+ - * /`, parentheses, `abs(x)`, `min(x, y)` and
/// `max(x, y)`.
#[derive(Clone, Debug)]
pub struct Expression {
    text: String,
    node: Node,
}

impl Expression {
    /// Parses an expression.
    ///
    /// # Errors
    /// [`Error::Expression`] with the problem and its place.
    pub fn parse(text: &str) -> Result<Self, Error> {
        Expression::of_kind(text, Kind::Number)
    }

    pub(crate) fn condition(text: &str) -> Result<Self, Error> {
        Expression::of_kind(text, Kind::Condition)
    }

    fn of_kind(text: &str, kind: Kind) -> Result<Self, Error> {
        match parse::parse(text, kind) {
            Ok(node) => Ok(Expression { text: text.to_string(), node }),
            Err(problem) => Err(Error::Expression { text: text.to_string(), problem }),
        }
    }

    /// Returns the expression as it was written.
    pub fn text(&self) -> &str {
        &self.text
    }

    /// Checks that all names are among some measures.
    ///
    /// # Errors
    /// [`Error::UnknownMeasure`] with the names that there are.
    pub fn check(&self, measures: &Measures) -> Result<(), Error> {
        let mut unknown = None;
        self.node.visit_names(&mut |name| {
            if measures.get(name).is_none() && unknown.is_none() {
                unknown = Some(name.to_string());
            }
        });
        match unknown {
            Some(missing) => Err(Error::UnknownMeasure { missing, known: measures.names() }),
            None => Ok(()),
        }
    }

    /// Returns whether it has the name of a measure, of the trial or of the reference.
    pub fn has(&self, measure: &str) -> bool {
        let mut has = false;
        self.node.visit_names(&mut |name| has |= name == measure);
        has
    }

    /// Returns the value for some measures; not finite if a name is missing.
    pub fn value(&self, measures: &Measures) -> f64 {
        let scene = Scene { measures, reference: measures };
        scene.number(&self.node).map_or(f64::NAN, |number| number.value)
    }

    pub(crate) fn judge(&self, measures: &Measures, reference: &Measures) -> Result<Truth, String> {
        Scene { measures, reference }.truth(&self.node, false)
    }
}
