//! The user's criterion for a trial.

use std::fmt;
use std::sync::Arc;

use crate::error::Error;
use crate::expression::Expression;
use crate::measures::Measures;

type Closure = dyn Fn(&Measures, &Measures) -> bool + Send + Sync;

/// Criterion that decides whether a trial is accepted.
///
/// ```
/// use zellige_tune::Acceptance;
///
/// Acceptance::parse("same >= 0.999 && within_5mm_by_energy >= 0.99")?;
/// Acceptance::parse("strehl >= REF.strehl - 1e-4")?;
/// Acceptance::new("few steps", |trial, reference| match (trial.get("steps"), reference.get("steps")) {
///     (Some(trial), Some(reference)) => trial.value <= 1.1 * reference.value,
///     _ => false,
/// });
/// # Ok::<(), zellige_tune::Error>(())
/// ```
#[derive(Clone)]
pub struct Acceptance {
    text: String,
    criterion: Criterion,
}

#[derive(Clone)]
enum Criterion {
    Expression(Expression),
    Closure(Arc<Closure>),
}

/// Decision on one trial.
pub(crate) struct Decision {
    pub accepted: bool,
    /// Distance from the limit, as a fraction of the reference's: for expressions only.
    pub margin: Option<f64>,
    /// Description of what decided.
    pub reason: String,
}

impl Acceptance {
    /// Parses a condition over measures.
    ///
    /// It has numbers, names of measures, `REF.name` for measures of the reference, `+ - * /`,
    /// `abs(x)`, `min(x, y)`, `max(x, y)`, the comparisons `< <= > >= == !=`, `&& || !` and
    /// parentheses. A name alone holds unless it is 0.
    ///
    /// A comparison of samples holds only if it holds by 1.645 standard errors: with a probability
    /// of 95 % for one comparison. Errors of different measures count as independent. Measures of
    /// the reference are limits without an error.
    ///
    /// # Errors
    /// [`Error::Expression`] with the problem and its place.
    pub fn parse(text: &str) -> Result<Self, Error> {
        let expression = Expression::condition(text)?;
        Ok(Acceptance { text: text.to_string(), criterion: Criterion::Expression(expression) })
    }

    /// Creates a criterion from a function of the measures of a trial and of the reference. `text`
    /// describes it. A closure gives no distance from the limit, so that the front has accepted
    /// trials only.
    pub fn new(
        text: impl Into<String>,
        accepts: impl Fn(&Measures, &Measures) -> bool + Send + Sync + 'static,
    ) -> Self {
        Acceptance { text: text.into(), criterion: Criterion::Closure(Arc::new(accepts)) }
    }

    /// Returns the expression, or the description of the closure.
    pub fn text(&self) -> &str {
        &self.text
    }

    /// Returns whether an expression has the name of a measure; true for a closure, which may read
    /// any. Measures that take long need not be computed otherwise.
    pub fn has(&self, measure: &str) -> bool {
        match &self.criterion {
            Criterion::Expression(expression) => expression.has(measure),
            Criterion::Closure(_) => true,
        }
    }

    /// Checks that the measures of the reference have all names of an expression.
    ///
    /// # Errors
    /// [`Error::UnknownMeasure`] with the names that there are.
    pub fn check(&self, reference: &Measures) -> Result<(), Error> {
        match &self.criterion {
            Criterion::Expression(expression) => expression.check(reference),
            Criterion::Closure(_) => Ok(()),
        }
    }

    /// Returns whether a trial with these measures is accepted.
    pub fn holds(&self, measures: &Measures, reference: &Measures) -> bool {
        self.decide(measures, reference).accepted
    }

    pub(crate) fn decide(&self, measures: &Measures, reference: &Measures) -> Decision {
        match &self.criterion {
            Criterion::Expression(expression) => match expression.judge(measures, reference) {
                Ok(truth) => {
                    let margin = Some(truth.margin).filter(|margin| margin.is_finite());
                    Decision { accepted: truth.holds, margin, reason: truth.reason }
                }
                Err(reason) => Decision { accepted: false, margin: None, reason },
            },
            Criterion::Closure(accepts) => {
                let accepted = accepts(measures, reference);
                Decision { accepted, margin: None, reason: format!("not {}", self.text) }
            }
        }
    }
}

impl fmt::Debug for Acceptance {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("Acceptance").field(&self.text).finish()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn expressions_know_their_names() {
        let acceptance = Acceptance::parse("a >= 1 && abs(REF.b - 2) < max(c.d, 3)").expect("a condition");
        let names = ["a", "b", "c.d", "c", "abs"].map(|name| acceptance.has(name));
        assert_eq!(names, [true, true, true, false, false]);
        assert!(Acceptance::new("any", |_, _| true).has("a"));
    }

    fn accepts(text: &str) -> bool {
        let mut measures = Measures::from([("a", 2.0), ("b.c", -3.0), ("zero", 0.0), ("one", 1.0)]);
        measures.insert("sample", 0.995, 0.001);
        let reference =
            Measures::from([("a", 1.0), ("b.c", -3.0), ("zero", 0.0), ("one", 1.0), ("sample", 1.0)]);
        let acceptance = Acceptance::parse(text).expect(text);
        acceptance.check(&reference).expect(text);
        acceptance.decide(&measures, &reference).accepted
    }

    #[test]
    fn conditions_have_their_usual_meaning() {
        for (text, expected) in [
            ("a >= 2 && b.c < -2.5", true),
            ("a > 2 || !(b.c == -3)", false),
            ("a == 2 && !(b.c > 0)", true),
            ("a >= REF.a + 1", true),
            ("a > REF.a + 1", false),
            ("-a * 3 / 2 - 1 + 2 * (1 + 1) == 0", true),
            ("2 - 1 - 1 == 0 && 8 / 4 / 2 == 1", true),
            ("abs(b.c) == 3 && min(a, 1) == 1 && max(a, b.c) == 2", true),
            ("one", true),
            ("zero", false),
            ("!zero && REF.one", true),
            ("(a + 1) * 2 == 6", true),
            ("(a > 1 || zero) && (one)", true),
            ("zero && one || one", true),
            ("1e3 == 1000 && .5 == 5.0e-1", true),
            ("a / zero > 1e300", true),
            ("zero / zero == 0", false),
            ("zero / zero != 0", false),
            ("!(zero / zero < 1)", false),
        ] {
            assert_eq!(accepts(text), expected, "{text}");
        }
    }

    /// A comparison holds by 1.645 standard errors, and so does its negation.
    #[test]
    fn samples_hold_beyond_their_error() {
        for (text, expected) in [
            ("sample >= 0.9933", true),
            ("sample >= 0.9934", false),
            ("!(sample >= 0.9934)", false),
            ("!(sample >= 0.9967)", true),
            ("sample <= 0.9966", false),
            ("sample != 0.995", false),
            ("sample == 0.995", false),
            ("2 * sample >= 1.9867", true),
            ("2 * sample >= 1.9868", false),
            ("sample / 2 >= 0.49667", true),
            ("sample / 2 >= 0.4967", false),
            ("sample >= REF.sample - 0.0067", true),
            ("sample >= REF.sample - 0.0066", false),
        ] {
            assert_eq!(accepts(text), expected, "{text}");
        }
    }

    #[test]
    fn mistakes_are_named_with_their_place() {
        for (text, problem) in [
            ("", "at the end: expected a number"),
            ("a >=", "at the end: expected a number"),
            ("a = 1", "use == to compare"),
            ("a + 1", "a comparison is needed"),
            ("1 < a < 3", "join two comparisons with &&"),
            ("(a > 1) + 1 > 0", "at 1: a number is needed"),
            ("a > 1 && 2", "at 10: a comparison is needed"),
            ("a > 1 & b", "unexpected `&`"),
            ("(a > 1", "expected `)`"),
            ("sqrt(a) > 1", "the functions are abs"),
            ("a > 1 b", "at 7: expected an operator"),
            ("a > .", "not a number"),
            ("a > \u{b1}1", "unexpected"),
        ] {
            let error = Acceptance::parse(text).expect_err(text).to_string();
            assert!(error.contains(problem), "{text}: {error}");
        }
        let unknown = Acceptance::parse("strehl > 1").expect("a condition");
        let error =
            unknown.check(&Measures::from([("a", 1.0), ("b", 2.0)])).expect_err("unknown").to_string();
        assert_eq!(error, "no measure `strehl`; there are: a, b");
    }

    #[test]
    fn margins_are_fractions_of_the_reference() {
        let reference = Measures::from([("strehl", 0.5), ("steps", 10.0)]);
        let margin = |strehl: f64, steps: f64, text: &str| {
            let acceptance = Acceptance::parse(text).expect(text);
            let trial = Measures::from([("strehl", strehl), ("steps", steps)]);
            acceptance.decide(&trial, &reference).margin.expect("a margin")
        };
        let strehl = "strehl >= REF.strehl - 0.1";
        assert!((margin(0.5, 1.0, strehl) - 1.0).abs() < 1e-12);
        assert!((margin(0.45, 1.0, strehl) - 0.5).abs() < 1e-12);
        assert!(margin(0.3, 1.0, strehl) < 0.0);
        let both = "strehl >= REF.strehl - 0.1 && steps <= 20";
        assert!((margin(0.48, 15.0, both) - 0.5).abs() < 1e-12);
    }
}
