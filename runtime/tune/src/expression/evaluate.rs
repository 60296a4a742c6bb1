//! Values of expressions, with their standard errors.

use super::parse::{Arithmetic, Comparison, Node};
use crate::measures::Measures;

/// Standard errors by which a comparison must hold: 95 % of a normal distribution lie above.
const SIGMAS: f64 = 1.645;

/// A number with the variance of its error.
#[derive(Clone, Copy)]
pub(crate) struct Number {
    pub value: f64,
    variance: f64,
}

/// Whether a condition holds.
#[derive(Clone, Debug)]
pub(crate) struct Truth {
    /// Whether it holds by more than its error.
    pub holds: bool,
    /// Distance from the limit as a fraction of the reference's distance: 1 for the reference, 0 at
    /// the limit, negative beyond.
    pub margin: f64,
    /// Description of the comparison that decides.
    pub reason: String,
}

/// Measures that names stand for.
#[derive(Clone, Copy)]
pub(super) struct Scene<'m> {
    pub measures: &'m Measures,
    pub reference: &'m Measures,
}

impl<'m> Scene<'m> {
    /// Evaluates a number; errors are of first order and independent.
    pub fn number(self, node: &Node) -> Result<Number, String> {
        let exact = |value| Number { value, variance: 0.0 };
        let find = |measures: &Measures, name: &str| {
            measures.get(name).ok_or_else(|| format!("there is no finite `{name}`"))
        };
        Ok(match node {
            Node::Number(value) => exact(*value),
            Node::Measure(name) => {
                let measure = find(self.measures, name)?;
                Number { value: measure.value, variance: measure.error * measure.error }
            }
            // The limit of this search, not a sample of its own.
            Node::Reference(name) => exact(find(self.reference, name)?.value),
            Node::Negative(inner) => {
                let inner = self.number(inner)?;
                Number { value: -inner.value, ..inner }
            }
            Node::Absolute(inner) => {
                let inner = self.number(inner)?;
                Number { value: inner.value.abs(), ..inner }
            }
            Node::Arithmetic(operator, a, b) => combine(*operator, self.number(a)?, self.number(b)?),
            _ => return Err("a comparison is not a number".into()),
        })
    }

    /// Evaluates a condition or its negation.
    pub fn truth(self, node: &Node, negated: bool) -> Result<Truth, String> {
        match node {
            Node::Not(inner) => self.truth(inner, !negated),
            Node::And(a, b) | Node::Or(a, b) => {
                let (a, b) = (self.truth(a, negated)?, self.truth(b, negated)?);
                let both = matches!(node, Node::And(..)) != negated;
                // The smaller margin decides `and`, the larger one decides `or`.
                let first = if a.holds == b.holds { (a.margin <= b.margin) == both } else { a.holds != both };
                Ok(if first { a } else { b })
            }
            Node::Compare(comparison, a, b, text) => self.compare(*comparison, a, b, text, negated),
            _ => Err("a number is not a comparison".into()),
        }
    }

    fn compare(
        self,
        comparison: Comparison,
        a: &Node,
        b: &Node,
        text: &str,
        negated: bool,
    ) -> Result<Truth, String> {
        let (left, right) = (self.number(a)?, self.number(b)?);
        let of_reference = Scene { measures: self.reference, reference: self.reference };
        let room = of_reference.number(a)?.value - of_reference.number(b)?.value;
        let scale =
            [room.abs(), right.value.abs(), 1.0].into_iter().find(|&scale| scale > 0.0).unwrap_or(1.0);
        let comparison = if negated { opposite(comparison) } else { comparison };
        let error = (left.variance + right.variance).sqrt();
        let distance = left.value - right.value;
        let (above, below) = (distance - SIGMAS * error, -distance - SIGMAS * error);
        let (holds, margin) = match comparison {
            Comparison::Greater => (above > 0.0, above / scale),
            Comparison::GreaterEqual => (above >= 0.0, above / scale),
            Comparison::Less => (below > 0.0, below / scale),
            Comparison::LessEqual => (below >= 0.0, below / scale),
            Comparison::Equal => {
                let holds = distance == 0.0 && error == 0.0;
                (holds, if holds { 1.0 } else { -(distance.abs() + SIGMAS * error) })
            }
            Comparison::NotEqual => {
                let away = above.max(below);
                (away > 0.0, if away > 0.0 { 1.0 } else { -1.0 })
            }
        };
        let word = match (negated, holds) {
            (true, _) => "negated: ",
            (false, true) => "",
            (false, false) => "not ",
        };
        let reason = format!("{word}{text}: {} beside {}", figure(left), figure(right));
        Ok(Truth { holds, margin, reason })
    }
}

/// All digits of a number, with its standard error.
fn figure(number: Number) -> String {
    let value = match number.value.abs() {
        size if size > 0.0 && size < 1e-4 => format!("{:e}", number.value),
        _ => number.value.to_string(),
    };
    match number.variance {
        0.0 => value,
        variance => format!("{value} +- {:.2e}", variance.sqrt()),
    }
}

/// The comparison that holds where another one does not.
fn opposite(comparison: Comparison) -> Comparison {
    match comparison {
        Comparison::Less => Comparison::GreaterEqual,
        Comparison::LessEqual => Comparison::Greater,
        Comparison::Greater => Comparison::LessEqual,
        Comparison::GreaterEqual => Comparison::Less,
        Comparison::Equal => Comparison::NotEqual,
        Comparison::NotEqual => Comparison::Equal,
    }
}

fn combine(operator: Arithmetic, a: Number, b: Number) -> Number {
    let square = |x: f64| x * x;
    match operator {
        Arithmetic::Add => Number { value: a.value + b.value, variance: a.variance + b.variance },
        Arithmetic::Subtract => Number { value: a.value - b.value, variance: a.variance + b.variance },
        Arithmetic::Multiply => Number {
            value: a.value * b.value,
            variance: square(a.value) * b.variance + square(b.value) * a.variance,
        },
        // Exact numbers stay exact, also divided by 0.
        Arithmetic::Divide if a.variance + b.variance == 0.0 => {
            Number { value: a.value / b.value, variance: 0.0 }
        }
        Arithmetic::Divide => Number {
            value: a.value / b.value,
            variance: (a.variance + square(a.value / b.value) * b.variance) / square(b.value),
        },
        Arithmetic::Least => {
            if b.value < a.value {
                b
            } else {
                a
            }
        }
        Arithmetic::Greatest => {
            if b.value > a.value {
                b
            } else {
                a
            }
        }
    }
}
