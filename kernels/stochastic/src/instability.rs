//! Operations whose result cannot be trusted, counted by category and by their place in the source.

use core::fmt;
use core::panic::Location;

use serde::{Deserialize, Serialize};

/// Kind of an instability. The first seven are CADNA's.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[cfg_attr(feature = "schemars", derive(schemars::JsonSchema))]
#[serde(rename_all = "snake_case")]
#[non_exhaustive]
pub enum Category {
    /// Division by a number without an exact digit, or by zero.
    Division,
    /// Power whose base or exponent has no exact digit.
    Power,
    /// Product of two numbers without an exact digit.
    Multiplication,
    /// `< <= > >=`, `max` or `min` of two numbers whose difference has no exact digit and is not an
    /// exact zero.
    Branching,
    /// Elementary function of a number without an exact digit.
    Function,
    /// `floor` or a conversion to an integer of a number without an exact digit, or `abs` of one
    /// whose samples have different signs.
    Intrinsic,
    /// Sum or difference that has at least four digits fewer than both operands.
    Cancellation,
    /// Operation that leaves fewer than half of the type's digits, of operands that have more,
    /// without a cancellation: digits that many operations have lost.
    GradualLoss,
    /// Result that is infinite in some sample, of finite operands.
    Infinity,
    /// Result that is no number in some sample, of operands that are numbers.
    NotANumber,
}

impl Category {
    /// Number of categories.
    pub(crate) const COUNT: usize = 10;

    /// All categories, in the order of reports.
    pub const ALL: [Category; Category::COUNT] = [
        Category::Division,
        Category::Power,
        Category::Multiplication,
        Category::Branching,
        Category::Function,
        Category::Intrinsic,
        Category::Cancellation,
        Category::GradualLoss,
        Category::Infinity,
        Category::NotANumber,
    ];

    /// Words of a report, in the plural.
    pub fn name(self) -> &'static str {
        match self {
            Category::Division => "unstable divisions",
            Category::Power => "unstable powers",
            Category::Multiplication => "unstable multiplications",
            Category::Branching => "unstable branchings",
            Category::Function => "unstable elementary functions",
            Category::Intrinsic => "unstable intrinsic functions",
            Category::Cancellation => "losses of accuracy by cancellation",
            Category::GradualLoss => "gradual losses of accuracy",
            Category::Infinity => "results that are infinite",
            Category::NotANumber => "results that are not a number",
        }
    }

    /// The estimate of digits holds to first order only; after such an operation it may be wrong.
    pub fn invalidates(self) -> bool {
        matches!(self, Category::Division | Category::Power | Category::Multiplication)
    }
}

/// Set of categories.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Categories(u16);

impl Categories {
    /// Every category: the default.
    pub const ALL: Categories = Categories((1 << Category::COUNT) - 1);
    /// No category: samples are perturbed, nothing is reported.
    pub const NONE: Categories = Categories(0);
    /// The seven categories of CADNA, for comparisons with it.
    pub const CADNA: Categories = Categories((1 << Category::GradualLoss as u16) - 1);

    /// This set with `category`.
    #[must_use]
    pub const fn with(self, category: Category) -> Categories {
        Categories(self.0 | 1 << category as u16)
    }
    /// This set without `category`.
    #[must_use]
    pub const fn without(self, category: Category) -> Categories {
        Categories(self.0 & !(1 << category as u16))
    }
    /// Whether `category` is in the set.
    #[inline(always)]
    pub const fn has(self, category: Category) -> bool {
        self.0 & 1 << category as u16 != 0
    }
}

/// Place in a source file.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[cfg_attr(feature = "schemars", derive(schemars::JsonSchema))]
pub struct Place {
    /// File, as the compiler names it.
    pub file: String,
    /// Line, from 1.
    pub line: u32,
    /// Column, from 1.
    pub column: u32,
}

impl fmt::Display for Place {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}:{}:{}", self.file, self.line, self.column)
    }
}

impl From<&Location<'_>> for Place {
    fn from(place: &Location<'_>) -> Place {
        Place { file: place.file().to_owned(), line: place.line(), column: place.column() }
    }
}

/// Position of an operation in a run: the same on any number of workers.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[cfg_attr(feature = "schemars", derive(schemars::JsonSchema))]
pub struct Occurrence {
    /// Replay of the graph, 0 for a graph that is not replayed.
    pub replay: u64,
    /// Task in submission order.
    pub task: u64,
    /// Element within the task, as the kernel numbers them.
    pub element: u64,
}

/// Count of the instabilities of one category at one place.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schemars", derive(schemars::JsonSchema))]
pub struct Site {
    /// Kind of the instability.
    pub category: Category,
    /// Operation in the source.
    pub place: Place,
    /// Operations counted.
    pub count: u64,
    /// First of them.
    pub first: Occurrence,
}

impl Site {
    /// Adds the count of the same category and place elsewhere.
    pub(crate) fn add(&mut self, count: u64, first: Occurrence) {
        self.count += count;
        self.first = self.first.min(first);
    }
}
