//! Items, their candidate formats, and assignments of formats to items.

use std::collections::{BTreeMap, HashSet};
use std::fmt;
use std::hash::{Hash, Hasher};
use std::sync::Arc;

use serde::{Deserialize, Serialize, Serializer};

use crate::error::Error;

/// Candidate format of an item.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schemars", derive(schemars::JsonSchema))]
#[serde(deny_unknown_fields)]
pub struct Candidate {
    /// Name of the format.
    pub name: String,
    /// Predicted cost of the item in this format, in the same unit for all items.
    pub cost: f64,
}

/// Part of a computation whose format can be chosen.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schemars", derive(schemars::JsonSchema))]
#[serde(deny_unknown_fields)]
pub struct Item {
    /// Name, unique in its space.
    pub name: String,
    /// Path in the tree of groups, e.g. `lgs/3`; empty for the root. The search lowers whole groups
    /// first.
    #[serde(default)]
    pub group: String,
    /// Candidates from cheap to dear; the last is the reference.
    pub formats: Vec<Candidate>,
}

impl Item {
    /// Creates an item from the names and predicted costs of its formats, from cheap to dear.
    pub fn new<N: Into<String>>(
        name: impl Into<String>,
        group: impl Into<String>,
        formats: impl IntoIterator<Item = (N, f64)>,
    ) -> Self {
        let formats = formats.into_iter().map(|(name, cost)| Candidate { name: name.into(), cost });
        Item { name: name.into(), group: group.into(), formats: formats.collect() }
    }
}

/// Items of a search.
#[derive(Clone, Debug, PartialEq)]
pub struct Space {
    items: Arc<[Item]>,
}

impl Space {
    /// Creates a space.
    ///
    /// # Errors
    /// [`Error::Items`] for a name that occurs twice, an item without formats, or costs that are
    /// not finite or fall from one format to the next.
    pub fn new(items: Vec<Item>) -> Result<Self, Error> {
        if items.is_empty() {
            return Err(Error::Items("there are none".into()));
        }
        let mut names = HashSet::new();
        for item in &items {
            let fail = |problem: &str| Err(Error::Items(format!("`{}` {problem}", item.name)));
            let formats = &item.formats;
            if !names.insert(&item.name) {
                return fail("occurs twice");
            }
            if formats.is_empty() || formats.len() > usize::from(u8::MAX) {
                return fail("needs 1 to 255 formats");
            }
            if formats.iter().map(|format| &format.name).collect::<HashSet<_>>().len() < formats.len() {
                return fail("has a format twice");
            }
            if !formats.iter().all(|format| format.cost.is_finite()) {
                return fail("has a cost that is not finite");
            }
            if !formats.is_sorted_by(|a, b| a.cost <= b.cost) {
                return fail("has formats that are not in the order of their costs, the cheapest first");
            }
        }
        Ok(Space { items: items.into() })
    }

    /// Returns the items.
    pub fn items(&self) -> &[Item] {
        &self.items
    }

    /// Returns the assignment with the last format of every item.
    pub fn reference(&self) -> Assignment {
        self.at(|item| item.formats.len() - 1)
    }

    /// Returns the assignment with the first format of every item.
    pub fn cheapest(&self) -> Assignment {
        self.at(|_| 0)
    }

    /// Returns the assignment of formats by name, with the last format for items without a name.
    ///
    /// # Errors
    /// [`Error::Items`] for a name that the space does not have.
    pub fn assignment<'n>(
        &self,
        names: impl IntoIterator<Item = (&'n str, &'n str)>,
    ) -> Result<Assignment, Error> {
        let mut assignment = self.reference();
        for (name, format) in names {
            let unknown = || Error::Items(format!("there is no `{name}` with the format `{format}`"));
            let at = self.items.iter().position(|item| item.name == name).ok_or_else(unknown)?;
            let formats = &self.items[at].formats;
            let level = formats.iter().position(|candidate| candidate.name == format);
            assignment.levels[at] = level.ok_or_else(unknown)? as u8;
        }
        Ok(assignment)
    }

    pub(crate) fn at(&self, level: impl Fn(&Item) -> usize) -> Assignment {
        let levels = self.items.iter().map(|item| level(item) as u8).collect();
        Assignment { items: Arc::clone(&self.items), levels }
    }

    /// Largest number of formats of an item, less one.
    pub(crate) fn depth(&self) -> usize {
        self.items.iter().map(|item| item.formats.len() - 1).max().unwrap_or(0)
    }
}

/// Format of each item of a space. Cheap to clone; two of one space are equal if all formats are.
#[derive(Clone)]
pub struct Assignment {
    items: Arc<[Item]>,
    levels: Box<[u8]>,
}

impl Assignment {
    /// Returns the format of an item.
    ///
    /// # Panics
    /// If the space has no such item.
    pub fn format(&self, item: &str) -> &str {
        let found = self.iter().find(|(other, _)| other.name == item);
        &found.unwrap_or_else(|| panic!("no item `{item}`")).1.name
    }

    /// Returns the items with their formats, in the order of the space.
    pub fn iter(&self) -> impl ExactSizeIterator<Item = (&Item, &Candidate)> {
        self.items.iter().zip(&self.levels).map(|(item, &level)| (item, &item.formats[usize::from(level)]))
    }

    /// Returns the names of the formats by the names of their items.
    pub fn names(&self) -> BTreeMap<&str, &str> {
        self.iter().map(|(item, format)| (&*item.name, &*format.name)).collect()
    }

    /// Returns the sum of the predicted costs.
    pub fn cost(&self) -> f64 {
        self.iter().map(|(_, format)| format.cost).sum()
    }

    /// Index of an item's format.
    pub(crate) fn level(&self, item: usize) -> usize {
        usize::from(self.levels[item])
    }

    /// Copy with another format of one item.
    pub(crate) fn with(&self, item: usize, level: usize) -> Assignment {
        let mut copy = self.clone();
        copy.levels[item] = level as u8;
        copy
    }

    /// Copy in which each of some items has its next cheaper format.
    pub(crate) fn lowered(&self, items: &[usize]) -> Assignment {
        let mut copy = self.clone();
        items.iter().for_each(|&item| copy.levels[item] -= 1);
        copy
    }

    /// Predicted cost saved if an item goes from its format to another one.
    pub(crate) fn gain(&self, item: usize, level: usize) -> f64 {
        let formats = &self.items[item].formats;
        formats[self.level(item)].cost - formats[level].cost
    }

    /// Whether no item has a dearer format than in another assignment.
    pub(crate) fn is_below(&self, other: &Assignment) -> bool {
        self.levels.iter().zip(&other.levels).all(|(own, other)| own <= other)
    }
}

impl PartialEq for Assignment {
    fn eq(&self, other: &Self) -> bool {
        self.levels == other.levels
    }
}

impl Eq for Assignment {}

impl Hash for Assignment {
    fn hash<H: Hasher>(&self, state: &mut H) {
        self.levels.hash(state);
    }
}

impl fmt::Debug for Assignment {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_map().entries(self.names()).finish()
    }
}

/// A map from the names of items to the names of their formats.
impl Serialize for Assignment {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_map(self.iter().map(|(item, format)| (&item.name, &format.name)))
    }
}

#[cfg(feature = "schemars")]
impl schemars::JsonSchema for Assignment {
    fn schema_name() -> std::borrow::Cow<'static, str> {
        "Assignment".into()
    }

    fn json_schema(generator: &mut schemars::SchemaGenerator) -> schemars::Schema {
        BTreeMap::<String, String>::json_schema(generator)
    }
}
