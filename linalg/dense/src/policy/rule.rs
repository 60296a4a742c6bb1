//! Rules as text: `hp1`, `hp1:band=2`, `hp1:tile=1e-2`, `hp1:operand=1e-2,else=x3`,
//! `hp1:band=2,panel=x3`, `map:FILE`, `script:FILE`.

use std::fmt;
use std::str::FromStr;
use std::sync::Arc;

use zellige_kernels::precision::PanelPrecision;
use zellige_kernels::{GemmPrecision, StorageFormat};

use super::{GemmQuery, LoadError, PolicyError, PrecisionPolicy, SharedPolicy, TileMap, When};

/// Condition for the low precision of a [`Rule`].
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Test {
    /// Always.
    Always,
    /// True at a distance of at least this many tiles from the diagonal: products on tiles with
    /// `i - j < b` take the other precision (the distance rule of Doucet et al.). Updated tiles
    /// have `i - j >= 1`, so that 0 and 1 mean always.
    Band(usize),
    /// `||A_ij|| <= tau ||A||`, norms before the factorisation (Higham and Mary; PaRSEC).
    Tile(f64),
    /// `||L_ik|| ||L_jk|| <= tau ||A||`, norms of the two operands of the very product.
    Operand(f64),
}

/// A precision policy that can be written down.
///
/// ```
/// use zellige_dense::Rule;
///
/// let rule: Rule = "hp1:operand=1e-2,else=x3".parse()?;
/// assert_eq!(rule.to_string(), "hp1:operand=1e-2,else=x3");
/// assert!("hp1:bend=2".parse::<Rule>().unwrap_err().to_string().contains("position 4"));
/// # Ok::<(), zellige_dense::RuleError>(())
/// ```
#[derive(Clone)]
pub struct Rule(Kind);

#[derive(Clone)]
enum Kind {
    Test {
        low: GemmPrecision,
        test: Test,
        otherwise: GemmPrecision,
        panel: PanelPrecision,
    },
    /// A map or a script.
    Loaded(SharedPolicy),
}

/// A rule's text is wrong.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("precision rule {text:?}, position {position}: {found}; allowed here: {allowed}")]
pub struct RuleError {
    /// The whole text.
    pub text: String,
    /// Position of the error, in characters from 0.
    pub position: usize,
    /// Text that was found there.
    pub found: String,
    /// Text that is allowed there.
    pub allowed: &'static str,
}

const PRECISIONS: &str =
    "fp64, fp32, hp1, hp2, hp3 (of float16), bf1 (of bfloat16), x3, tf32, fp8, map:FILE, script:FILE";
const LOW: &str = "hp1, hp2, hp3, bf1, x3, tf32, fp8 before a condition";
const CONDITIONS: &str = "band=TILES, tile=TAU, operand=TAU";
const OTHERS: &str = "fp32, hp1, hp2, hp3, bf1, x3, tf32, fp8";
const PANEL: &str = "fp32, x3, tf32";

/// Syntax error: position, text found there, text allowed there.
type Fault = (usize, String, &'static str);

impl Rule {
    /// Returns a rule with one precision for every product. `fp64` is for `f64` tiles and the
    /// others for `f32` tiles.
    pub fn uniform(precision: GemmPrecision) -> Rule {
        Rule::when(precision, Test::Always, GemmPrecision::Sp)
    }

    /// Returns a rule with `low` if `test` holds, and `otherwise` if not.
    pub fn when(low: GemmPrecision, test: Test, otherwise: GemmPrecision) -> Rule {
        Rule(Kind::Test { low, test, otherwise, panel: PanelPrecision::Native })
    }

    /// Sets the precision of the products inside diagonal updates and triangular solves. Maps,
    /// scripts and `fp64` stay as they are.
    #[must_use]
    pub fn with_panel(mut self, precision: PanelPrecision) -> Rule {
        if let Kind::Test { low, panel, .. } = &mut self.0
            && *low != GemmPrecision::Dp
        {
            *panel = precision;
        }
        self
    }

    /// Returns the required storage format of the tiles: [`F64`](StorageFormat::F64) for `fp64`,
    /// [`F32`](StorageFormat::F32) for all other rules.
    pub fn element(&self) -> StorageFormat {
        match self.0 {
            Kind::Test { low: GemmPrecision::Dp, .. } => StorageFormat::F64,
            _ => StorageFormat::F32,
        }
    }

    /// Returns the precision if the rule's condition holds, the condition, and the precision
    /// otherwise; `None` for a map or a script.
    pub fn parts(&self) -> Option<(GemmPrecision, Test, GemmPrecision)> {
        match self.0 {
            Kind::Test { low, test, otherwise, .. } => Some((low, test, otherwise)),
            Kind::Loaded(_) => None,
        }
    }

    /// Returns the rule to try next when this one lost positive definiteness: always with more
    /// precision, and `None` after `fp64`.
    ///
    /// The order follows measurements on tomographic covariances. A few products of two large
    /// operands cause the failure of a factorisation, so a condition on operand norms repairs most
    /// rules. If the rule has that condition already, it is tightened, and in the end every product
    /// is split in three. Diagonal updates and solves in TF32 are replaced before all that: every
    /// pivot depends on them.
    #[must_use]
    pub fn suggest_next(&self) -> Option<Rule> {
        use GemmPrecision::{Bf1, Dp, Fp8, Hp1, Hp2, Hp3, Sp, Tf32, X3};
        let operand = |low, tau| Rule::when(low, Test::Operand(tau), Sp);
        let Kind::Test { low, test, panel, .. } = &self.0 else {
            return Some(operand(Hp1, 1e-2));
        };
        let next = match (*low, *test) {
            (Dp, _) => return None,
            _ if *panel == PanelPrecision::Tf32 => return Some(self.clone().with_panel(PanelPrecision::X3)),
            (Sp, _) if *panel == PanelPrecision::Native => Rule::uniform(Dp),
            (Sp | X3, _) => return Some(Rule::uniform(Sp)),
            (Hp1 | Tf32, Test::Operand(tau)) if tau > 1e-3 => operand(*low, (tau / 10.0).min(1e-2)),
            (Hp1 | Tf32, Test::Operand(_)) => Rule::uniform(X3),
            (Tf32, _) => operand(Tf32, 1e-2),
            (Hp1 | Hp2 | Hp3 | Bf1 | Fp8, _) => operand(Hp1, 1e-2),
        };
        Some(next.with_panel(*panel))
    }

    fn parse(text: &str) -> Result<Rule, Fault> {
        if let Some(file) = text.strip_prefix("map:") {
            return TileMap::load(file)
                .map(Rule::from)
                .map_err(|error| (4, error.to_string(), "the name of a precision map that can be read"));
        }
        if let Some(file) = text.strip_prefix("script:") {
            return script(file)
                .map(|policy| Rule(Kind::Loaded(policy)))
                .map_err(|error| (7, error.message, "the name of a script file that can be read"));
        }
        let (first, mut rest) = match text.split_once(',') {
            Some((first, rest)) => (first, Some(rest)),
            None => (text, None),
        };
        let (head, condition) = match first.split_once(':') {
            Some((head, condition)) => (head, Some(condition)),
            None => (first, None),
        };
        let low: GemmPrecision = head.parse().map_err(|_| (0, quoted(head), PRECISIONS))?;
        if condition.is_some() && matches!(low, GemmPrecision::Dp | GemmPrecision::Sp) {
            return Err((0, quoted(head), LOW));
        }
        let test = match condition {
            Some(condition) => parse_condition(condition, head.len() + 1)?,
            None => Test::Always,
        };
        let (mut otherwise, mut panel) = (None, None);
        while let Some(options) = rest {
            let at = text.len() - options.len();
            let option;
            (option, rest) = match options.split_once(',') {
                Some((option, rest)) => (option, Some(rest)),
                None => (options, None),
            };
            match option.split_once('=') {
                Some(("else", other)) if otherwise.is_none() && test != Test::Always => {
                    let known = other.parse().ok().filter(|&other| other != GemmPrecision::Dp);
                    otherwise = Some(known.ok_or((at + 5, quoted(other), OTHERS))?);
                }
                Some(("panel", other)) if panel.is_none() && low != GemmPrecision::Dp => {
                    panel = Some(other.parse().map_err(|_| (at + 6, quoted(other), PANEL))?);
                }
                _ => return Err((at, quoted(option), options_left(low, test, otherwise, panel))),
            }
        }
        let rule = Rule::when(low, test, otherwise.unwrap_or(GemmPrecision::Sp));
        Ok(rule.with_panel(panel.unwrap_or_default()))
    }
}

/// Parses conditions like `band=2`, `at` characters into the text.
fn parse_condition(condition: &str, at: usize) -> Result<Test, Fault> {
    let Some((key, value)) = condition.split_once('=') else {
        return Err((at, quoted(condition), CONDITIONS));
    };
    let value_at = at + key.len() + 1;
    let tau = || match value.parse::<f64>() {
        Ok(tau) if tau.is_finite() && tau >= 0.0 && !tau.is_sign_negative() => Ok(tau),
        _ => Err((value_at, quoted(value), "a number of 0 or more, e.g. 1e-2")),
    };
    match key {
        "band" => {
            let width = value.parse();
            Ok(Test::Band(width.map_err(|_| (value_at, quoted(value), "a number of tiles, e.g. 2"))?))
        }
        "tile" => Ok(Test::Tile(tau()?)),
        "operand" => Ok(Test::Operand(tau()?)),
        _ => Err((at, quoted(key), CONDITIONS)),
    }
}

/// Returns the options that may still follow.
fn options_left(
    low: GemmPrecision,
    test: Test,
    otherwise: Option<GemmPrecision>,
    panel: Option<PanelPrecision>,
) -> &'static str {
    let other = otherwise.is_none() && test != Test::Always;
    match (other, panel.is_none() && low != GemmPrecision::Dp) {
        (true, true) => "else=PRECISION, panel=PRECISION",
        (true, false) => "else=PRECISION",
        (false, true) => "panel=PRECISION",
        (false, false) => "nothing more",
    }
}

fn quoted(text: &str) -> String {
    if text.is_empty() { "nothing".into() } else { format!("{text:?}") }
}

#[cfg(feature = "script")]
fn script(file: &str) -> Result<SharedPolicy, LoadError> {
    let with_file = |error: LoadError| LoadError { message: error.to_string(), ..error };
    Ok(Arc::new(super::Script::load(file).map_err(with_file)?))
}

#[cfg(not(feature = "script"))]
fn script(file: &str) -> Result<SharedPolicy, LoadError> {
    let message = format!("{file:?} cannot be run: this build has no scripts; build with --features script");
    Err(LoadError { file: file.into(), message })
}

impl From<TileMap> for Rule {
    fn from(map: TileMap) -> Rule {
        Rule(Kind::Loaded(Arc::new(map)))
    }
}

impl FromStr for Rule {
    type Err = RuleError;

    fn from_str(text: &str) -> Result<Self, RuleError> {
        Rule::parse(text).map_err(|(at, found, allowed)| RuleError {
            text: text.into(),
            position: text[..at].chars().count(),
            found,
            allowed,
        })
    }
}

impl fmt::Display for Rule {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match &self.0 {
            Kind::Loaded(policy) => f.write_str(&policy.describe()),
            Kind::Test { low, test, otherwise, panel } => {
                match test {
                    Test::Always => write!(f, "{low}")?,
                    Test::Band(width) => write!(f, "{low}:band={width}")?,
                    Test::Tile(tau) => write!(f, "{low}:tile={tau:e}")?,
                    Test::Operand(tau) => write!(f, "{low}:operand={tau:e}")?,
                }
                if *otherwise != GemmPrecision::Sp && *test != Test::Always {
                    write!(f, ",else={otherwise}")?;
                }
                if *panel != PanelPrecision::Native {
                    write!(f, ",panel={panel}")?;
                }
                Ok(())
            }
        }
    }
}

impl fmt::Debug for Rule {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Rule({self})")
    }
}

impl PartialEq for Rule {
    fn eq(&self, other: &Rule) -> bool {
        match (&self.0, &other.0) {
            (Kind::Loaded(a), Kind::Loaded(b)) => a.describe() == b.describe(),
            _ => self.parts().is_some() && self.parts() == other.parts() && self.panel() == other.panel(),
        }
    }
}

impl PrecisionPolicy for Rule {
    fn choose(&self, query: &GemmQuery) -> Result<GemmPrecision, PolicyError> {
        let (low, test, otherwise) = match &self.0 {
            Kind::Loaded(policy) => return policy.choose(query),
            Kind::Test { low, test, otherwise, .. } => (*low, *test, *otherwise),
        };
        let holds = match test {
            Test::Always => true,
            Test::Band(width) => query.distance() >= width,
            Test::Tile(tau) => query.norm_a_ij <= tau * query.norm_a,
            Test::Operand(tau) => query.norm_l_ik * query.norm_l_jk <= tau * query.norm_a,
        };
        Ok(if holds { low } else { otherwise })
    }

    fn when(&self) -> When {
        match &self.0 {
            Kind::Loaded(policy) => policy.when(),
            Kind::Test { test, .. } => match test {
                Test::Always | Test::Band(_) => When::AtSubmission,
                Test::Tile(_) | Test::Operand(_) => When::OperandsReady,
            },
        }
    }

    fn check(&self, tiles: usize) -> Result<(), RuleError> {
        match &self.0 {
            Kind::Loaded(policy) => policy.check(tiles),
            Kind::Test { .. } => Ok(()),
        }
    }

    fn may_select(&self, precision: GemmPrecision) -> bool {
        match &self.0 {
            Kind::Loaded(policy) => policy.may_select(precision),
            Kind::Test { low, test: Test::Always, .. } => precision == *low,
            Kind::Test { low, otherwise, .. } => [*low, *otherwise].contains(&precision),
        }
    }

    fn panel(&self) -> PanelPrecision {
        match &self.0 {
            Kind::Loaded(policy) => policy.panel(),
            Kind::Test { panel, .. } => *panel,
        }
    }

    fn precisions(&self) -> Option<Vec<GemmPrecision>> {
        match &self.0 {
            Kind::Loaded(policy) => policy.precisions(),
            Kind::Test { low, test: Test::Always, .. } => Some(vec![*low]),
            Kind::Test { low, otherwise, .. } => Some(vec![*low, *otherwise]),
        }
    }

    fn describe(&self) -> String {
        self.to_string()
    }
}

/// The rules to try, one after the other, until a factorisation survives.
///
/// ```
/// use zellige_dense::{RetryLadder, Rule};
///
/// let rules: Vec<String> = RetryLadder::new("bf1".parse()?).map(|r| r.to_string()).collect();
/// assert_eq!(rules, ["bf1", "hp1:operand=1e-2", "hp1:operand=1e-3", "x3", "fp32", "fp64"]);
/// # Ok::<(), zellige_dense::RuleError>(())
/// ```
#[derive(Clone, Debug)]
pub struct RetryLadder(Option<Rule>);

impl RetryLadder {
    /// Begins with `first`; each further rule has more precision.
    pub fn new(first: Rule) -> Self {
        RetryLadder(Some(first))
    }
}

impl Iterator for RetryLadder {
    type Item = Rule;

    fn next(&mut self) -> Option<Rule> {
        let now = self.0.take()?;
        self.0 = now.suggest_next();
        Some(now)
    }
}

#[cfg(test)]
mod tests {
    use super::super::Phase;
    use super::*;
    use proptest::prelude::*;

    fn query(i: usize, j: usize) -> GemmQuery {
        GemmQuery {
            phase: Phase::Factor,
            i,
            j,
            k: 0,
            nt: 10,
            norm_a_ij: 1.0,
            norm_l_ik: 2.0,
            norm_l_jk: 3.0,
            norm_a: 100.0,
        }
    }

    fn chosen(rule: &str, query: &GemmQuery) -> GemmPrecision {
        rule.parse::<Rule>().unwrap().choose(query).unwrap()
    }

    #[test]
    fn conditions_mean_what_they_say() {
        use GemmPrecision::{Bf1, Dp, Fp8, Hp1, Sp, Tf32, X3};
        assert_eq!(chosen("tf32,panel=tf32", &query(2, 1)), Tf32);
        assert_eq!(chosen("fp8:band=3,else=hp1", &query(2, 1)), Hp1);
        assert_eq!(chosen("fp8:band=1,panel=x3,else=hp1", &query(2, 1)), Fp8);
        assert_eq!(chosen("fp64", &query(2, 1)), Dp);
        assert_eq!(chosen("bf1", &query(2, 1)), Bf1);
        assert_eq!(chosen("hp1:band=2", &query(2, 1)), Sp);
        assert_eq!(chosen("hp1:band=2", &query(3, 1)), Hp1);
        assert_eq!(chosen("hp1:band=1", &query(2, 1)), Hp1);
        assert_eq!(chosen("hp1:tile=1e-2", &query(2, 1)), Hp1);
        assert_eq!(chosen("hp1:tile=9e-3", &query(2, 1)), Sp);
        assert_eq!(chosen("hp1:operand=6e-2", &query(2, 1)), Hp1);
        assert_eq!(chosen("hp1:operand=5e-2,else=x3", &query(2, 1)), X3);
        let mut unknown = query(2, 1);
        unknown.norm_a = f64::NAN;
        assert_eq!(chosen("hp1:operand=1", &unknown), Sp);
        let solve = GemmQuery { phase: Phase::Solve, i: 0, j: 5, k: 4, ..query(0, 5) };
        assert_eq!(chosen("hp1:band=2", &solve), Sp);
    }

    #[test]
    fn only_rules_on_norms_are_late() {
        for (text, when) in [
            ("hp2", When::AtSubmission),
            ("hp2:band=3", When::AtSubmission),
            ("hp1:tile=1e-1", When::OperandsReady),
            ("hp1:operand=1e-1", When::OperandsReady),
        ] {
            assert_eq!(text.parse::<Rule>().unwrap().when(), when);
        }
    }

    #[test]
    fn errors_name_place_and_remedy() {
        for (text, position, part) in [
            ("", 0, "nothing"),
            ("hp4", 0, "hp1, hp2"),
            ("hp1:", 4, "band=TILES"),
            ("hp1:band", 4, "band=TILES"),
            ("hp1:bend=2", 4, "\"bend\""),
            ("hp1:band=-1", 9, "number of tiles"),
            ("hp1:band=2.5", 9, "number of tiles"),
            ("hp1:tile=nan", 9, "0 or more"),
            ("hp1:tile=-1", 9, "0 or more"),
            ("hp1:operand=inf", 12, "0 or more"),
            ("hp1:operand=1e-2,els=x3", 17, "else=PRECISION"),
            ("hp1:operand=1e-2,else=fp64", 22, "fp32, hp1"),
            ("hp1:operand=1e-2,else=x3,else=x3", 25, "panel=PRECISION"),
            ("hp1:operand=1e-2,else=x3,panel=x3,panel=x3", 34, "nothing more"),
            ("hp1:operand=1e-2,panel=hp1", 23, "fp32, x3, tf32"),
            ("hp1:operand=1e-2,", 17, "nothing; allowed here: else=PRECISION, panel=PRECISION"),
            ("hp1,else=x3", 4, "panel=PRECISION"),
            ("x3,panel=", 9, "nothing"),
            ("fp64,panel=x3", 5, "nothing more"),
            ("fp32:band=2", 0, "before a condition"),
            ("fp64:tile=1", 0, "before a condition"),
            ("µ:band=2", 0, "map:FILE, script:FILE"),
            ("map:/nonexistent/m.json", 4, "/nonexistent/m.json"),
        ] {
            let error = text.parse::<Rule>().unwrap_err();
            assert_eq!(error.position, position, "{error}");
            assert!(error.to_string().contains(part), "{error}");
        }
    }

    #[test]
    fn ladders_end_with_fp64() {
        for first in ["hp3:band=2", "hp1:operand=1", "hp1:operand=1e-9,else=x3", "x3", "fp32", "fp64"] {
            for panel in PanelPrecision::ALL {
                let first: Rule = first.parse().unwrap();
                let rules: Vec<Rule> = RetryLadder::new(first.with_panel(panel)).collect();
                assert!(rules.len() <= 8, "{rules:?}");
                assert_eq!(rules.last().unwrap().to_string(), "fp64");
            }
        }
        let rules = RetryLadder::new("tf32,panel=tf32".parse().unwrap());
        let rules: Vec<String> = rules.map(|rule| rule.to_string()).collect();
        let middle = ["tf32:operand=1e-2,panel=x3", "tf32:operand=1e-3,panel=x3", "x3,panel=x3"];
        assert_eq!(rules[2..5], middle);
        assert_eq!([&rules[..2], &rules[5..]].concat(), ["tf32,panel=tf32", "tf32,panel=x3", "fp32", "fp64"]);
    }

    fn any_rule() -> impl Strategy<Value = Rule> {
        use GemmPrecision::{Bf1, Fp8, Hp1, Hp2, Hp3, Sp, Tf32, X3};
        let low = prop::sample::select(vec![Hp1, Hp2, Hp3, Bf1, X3, Tf32, Fp8]);
        let other = prop::sample::select(vec![Sp, Hp1, Hp2, Hp3, Bf1, X3, Tf32, Fp8]);
        let panel = prop::sample::select(PanelPrecision::ALL.to_vec());
        let test = prop_oneof![
            any::<usize>().prop_map(Test::Band),
            (0.0..1e300f64).prop_map(Test::Tile),
            (0.0..1.0f64).prop_map(Test::Operand),
        ];
        let rule = prop_oneof![
            prop::sample::select(GemmPrecision::ALL.to_vec()).prop_map(Rule::uniform),
            (low, test, other).prop_map(|(low, test, other)| Rule::when(low, test, other)),
        ];
        (rule, panel).prop_map(|(rule, panel)| rule.with_panel(panel))
    }

    proptest! {
        #[test]
        fn text_round_trips(rule in any_rule()) {
            prop_assert_eq!(rule.to_string().parse::<Rule>().unwrap(), rule);
        }

        #[test]
        fn no_text_panics(text in "\\PC*") {
            // A script is a file: reading a random name finds none.
            let _ = text.parse::<Rule>();
        }

        #[test]
        fn near_misses_are_placed_inside_the_text(rule in any_rule(), cut in 0usize..40, insert in "\\PC") {
            let text = rule.to_string();
            let at = cut.min(text.len());
            let broken = format!("{}{insert}{}", &text[..at], &text[at..]);
            if let Err(error) = broken.parse::<Rule>() {
                prop_assert!(error.position <= broken.chars().count());
            }
        }
    }
}
