//! Precision maps: the precision of the products on each tile, in a file.

use std::collections::BTreeMap;
use std::fmt::{self, Write};
use std::path::Path;

use serde::Deserialize;
use zellige_kernels::GemmPrecision;
use zellige_kernels::precision::PanelPrecision;

use super::{GemmQuery, LoadError, Phase, PolicyError, PrecisionPolicy, RuleError, When};

/// Format of a file.
const FORMAT: &str = "zellige precision map";
/// Version of the format.
const SCHEMA: u32 = 1;
/// Maximum length of a file.
const MOST_BYTES: u64 = 1 << 26;
/// Mark of a diagonal tile, which has no products but those of `panel`.
const DIAGONAL: char = '.';
/// Letters of precisions in files that are written; a file that is read has its own legend.
const LETTERS: [(char, GemmPrecision); 8] = [
    ('s', GemmPrecision::Sp),
    ('1', GemmPrecision::Hp1),
    ('2', GemmPrecision::Hp2),
    ('3', GemmPrecision::Hp3),
    ('b', GemmPrecision::Bf1),
    ('x', GemmPrecision::X3),
    ('t', GemmPrecision::Tf32),
    ('8', GemmPrecision::Fp8),
];

/// A precision policy that lists the precision of the products on each tile.
///
/// A factorisation looks up the updated tile `(i, j)`. A solve looks up the tile of `L` that its
/// product reads. Tiles are those of the strict lower triangle.
///
/// ```
/// use zellige_dense::{GemmPrecision, Phase, TileMap};
///
/// let far = |i: usize, j: usize| if i - j >= 2 { GemmPrecision::Hp1 } else { GemmPrecision::Sp };
/// let map = TileMap::new("example", &[0, 64, 128, 150], |_, i, j| far(i, j))?;
/// assert_eq!(map.at(Phase::Factor, 2, 0), GemmPrecision::Hp1);
/// let text = map.to_string();
/// assert!(text.contains("\"1s.\""), "{text}");
/// assert_eq!(TileMap::parse("example", &text)?, map);
/// # Ok::<(), zellige_dense::LoadError>(())
/// ```
#[derive(Clone, Debug, PartialEq)]
pub struct TileMap {
    name: String,
    edges: Vec<usize>,
    panel: PanelPrecision,
    /// Tile `(i, j)`, `i > j`, is at `i (i - 1) / 2 + j`.
    factor: Vec<GemmPrecision>,
    /// As `factor`.
    solve: Vec<GemmPrecision>,
}

/// Content of a file.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Content {
    format: String,
    schema: u32,
    edges: Vec<usize>,
    #[serde(default)]
    panel: Option<String>,
    legend: BTreeMap<char, String>,
    factor: Vec<String>,
    #[serde(default)]
    solve: Option<Vec<String>>,
}

impl TileMap {
    /// Creates a map for tiles with these boundaries, from 0 to n, out of the precision of each
    /// tile `(i, j)`, `i > j`. `name` stands for it in reports.
    ///
    /// # Errors
    /// Boundaries that do not rise from 0, and `fp64`, which is not for float32 tiles.
    pub fn new(
        name: impl Into<String>,
        edges: &[usize],
        precision: impl Fn(Phase, usize, usize) -> GemmPrecision,
    ) -> Result<TileMap, LoadError> {
        let name = name.into();
        let refuse = |message: &str| LoadError { file: name.clone(), message: message.into() };
        if edges.first() != Some(&0) || edges.len() < 2 || edges.windows(2).any(|pair| pair[0] >= pair[1]) {
            return Err(refuse("edges must rise from 0 and make at least one tile"));
        }
        let tiles = edges.len() - 1;
        let all = |phase| -> Vec<GemmPrecision> {
            (0..tiles)
                .flat_map(|i| (0..i).map(move |j| (i, j)))
                .map(|(i, j)| precision(phase, i, j))
                .collect()
        };
        let [factor, solve] = [Phase::Factor, Phase::Solve].map(all);
        if factor.iter().chain(&solve).any(|&precision| precision == GemmPrecision::Dp) {
            return Err(refuse("fp64 is not for a map: its tiles are float32"));
        }
        Ok(TileMap { edges: edges.to_vec(), panel: PanelPrecision::Native, factor, solve, name })
    }

    /// Sets the precision of the products inside diagonal updates and triangular solves.
    #[must_use]
    pub fn with_panel(mut self, precision: PanelPrecision) -> TileMap {
        self.panel = precision;
        self
    }

    /// Reads a file.
    ///
    /// # Errors
    /// The file cannot be read, or is no map; the message names the key.
    pub fn load(file: impl AsRef<Path>) -> Result<TileMap, LoadError> {
        let name = file.as_ref().display().to_string();
        let text = zellige_files::read_text(file.as_ref(), MOST_BYTES)
            .map_err(|error| LoadError { file: name.clone(), message: error.to_string() })?;
        TileMap::parse(name, &text)
    }

    /// Parses the text that [`Display`](fmt::Display) writes; `name` stands for it in reports and
    /// errors.
    ///
    /// # Errors
    /// The text is no map; the message names the key.
    pub fn parse(name: impl Into<String>, text: &str) -> Result<TileMap, LoadError> {
        let name = name.into();
        let refuse = |message: String| LoadError { file: name.clone(), message };
        let content: Content = serde_json::from_str(text).map_err(|error| refuse(error.to_string()))?;
        if content.format != FORMAT || content.schema != SCHEMA {
            return Err(refuse(format!(
                "format {:?}, schema {}: use a file of format {FORMAT:?}, schema {SCHEMA}",
                content.format, content.schema
            )));
        }
        let mut legend = BTreeMap::new();
        for (&letter, precision) in &content.legend {
            let known = precision.parse().ok().filter(|&known| known != GemmPrecision::Dp);
            let unknown = || {
                refuse(format!(
                    "legend {letter:?}: unknown precision {precision:?}; use fp32, hp1, hp2, hp3, bf1, x3, tf32 or fp8"
                ))
            };
            legend.insert(letter, known.ok_or_else(unknown)?);
        }
        let tiles = content.edges.len().saturating_sub(1);
        let factor = triangle("factor", &content.factor, tiles, &legend).map_err(refuse)?;
        let solve = match &content.solve {
            Some(rows) => triangle("solve", rows, tiles, &legend).map_err(refuse)?,
            None => factor.clone(),
        };
        let panel = match &content.panel {
            Some(panel) => {
                panel.parse().map_err(|_| refuse(format!("panel {panel:?}: use fp32, x3 or tf32")))?
            }
            None => PanelPrecision::Native,
        };
        let at = |phase, i, j| if phase == Phase::Factor { factor[place(i, j)] } else { solve[place(i, j)] };
        TileMap::new(name.clone(), &content.edges, at).map(|map| map.with_panel(panel))
    }

    /// Returns the number of tiles along a side.
    pub fn tiles(&self) -> usize {
        self.edges.len() - 1
    }

    /// Returns the precision of the products on tile `(i, j)`, or of those that read it in a solve.
    ///
    /// # Panics
    /// The tile is not in the strict lower triangle.
    pub fn at(&self, phase: Phase, i: usize, j: usize) -> GemmPrecision {
        assert!(j < i && i < self.tiles(), "tile ({i}, {j}) of {} tiles", self.tiles());
        self.of(phase)[place(i, j)]
    }

    fn of(&self, phase: Phase) -> &[GemmPrecision] {
        match phase {
            Phase::Factor => &self.factor,
            Phase::Solve => &self.solve,
        }
    }

    /// Describes the matrix that the map is for, with the option of its tiles.
    fn describe_tiles(&self) -> String {
        let (tiles, n, first) = (self.tiles(), self.edges[self.tiles()], self.edges[1]);
        let is_uniform = self.edges.iter().enumerate().all(|(i, &edge)| edge == n.min(i * first));
        let size = if is_uniform { first.to_string() } else { "auto".into() };
        format!("a map for {tiles} tiles along a side (n = {n}, --tile {size})")
    }

    fn misfit(&self, tiles: usize) -> Option<String> {
        (tiles != self.tiles()).then(|| format!("{}, and the matrix has {tiles}", self.describe_tiles()))
    }
}

/// Returns the index of tile `(i, j)` in a list of the strict lower triangle.
fn place(i: usize, j: usize) -> usize {
    i * (i - 1) / 2 + j
}

/// Parses the rows of a triangle.
fn triangle(
    key: &str,
    rows: &[String],
    tiles: usize,
    legend: &BTreeMap<char, GemmPrecision>,
) -> Result<Vec<GemmPrecision>, String> {
    if rows.len() != tiles {
        return Err(format!("{key} has {} rows, but the edges make {tiles} tiles along a side", rows.len()));
    }
    let mut all = Vec::with_capacity(tiles * tiles.saturating_sub(1) / 2);
    for (i, row) in rows.iter().enumerate() {
        let letters = row.strip_suffix(DIAGONAL).filter(|letters| letters.chars().count() == i);
        let shape =
            || format!("{key}[{i}] is {row:?}: use {i} letters of the legend and a dot for the diagonal");
        for letter in letters.ok_or_else(shape)?.chars() {
            let known = legend.get(&letter).copied();
            all.push(known.ok_or_else(|| format!("{key}[{i}] has {letter:?}, which the legend lacks"))?);
        }
    }
    Ok(all)
}

impl fmt::Display for TileMap {
    /// Writes the JSON of a file, with a line for each row of tiles.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let letter = |wanted: GemmPrecision| {
            LETTERS.iter().find(|(_, precision)| *precision == wanted).map_or('?', |(letter, _)| *letter)
        };
        let used: Vec<String> = LETTERS
            .iter()
            .filter(|(_, precision)| self.factor.contains(precision) || self.solve.contains(precision))
            .map(|(letter, precision)| format!("\"{letter}\": \"{precision}\""))
            .collect();
        let rows = |phase| {
            let mut text = String::new();
            for i in 0..self.tiles() {
                let row: String = (0..i).map(|j| letter(self.at(phase, i, j))).collect();
                let comma = if i + 1 < self.tiles() { "," } else { "" };
                let _ = write!(text, "\n    \"{row}{DIAGONAL}\"{comma}");
            }
            text
        };
        writeln!(f, "{{\n  \"format\": \"{FORMAT}\",\n  \"schema\": {SCHEMA},")?;
        writeln!(f, "  \"edges\": {:?},\n  \"panel\": \"{}\",", self.edges, self.panel)?;
        writeln!(f, "  \"legend\": {{{}}},", used.join(", "))?;
        write!(f, "  \"factor\": [{}\n  ]", rows(Phase::Factor))?;
        if self.solve != self.factor {
            write!(f, ",\n  \"solve\": [{}\n  ]", rows(Phase::Solve))?;
        }
        writeln!(f, "\n}}")
    }
}

impl PrecisionPolicy for TileMap {
    fn choose(&self, query: &GemmQuery) -> Result<GemmPrecision, PolicyError> {
        if let Some(misfit) = self.misfit(query.nt) {
            return Err(PolicyError::new(self.describe(), query, misfit));
        }
        let (a, b) = match query.phase {
            Phase::Factor => (query.i, query.j),
            Phase::Solve => (query.j, query.k),
        };
        Ok(self.at(query.phase, a.max(b), a.min(b)))
    }

    fn when(&self) -> When {
        When::AtSubmission
    }

    fn check(&self, tiles: usize) -> Result<(), RuleError> {
        let error = |found| RuleError {
            text: self.describe(),
            position: "map:".len(),
            found,
            allowed: "a map for the tiles of the matrix: change --tile, or tune a map for it",
        };
        self.misfit(tiles).map(error).map_or(Ok(()), Err)
    }

    fn may_select(&self, precision: GemmPrecision) -> bool {
        self.factor.contains(&precision) || self.solve.contains(&precision)
    }

    fn panel(&self) -> PanelPrecision {
        self.panel
    }

    fn precisions(&self) -> Option<Vec<GemmPrecision>> {
        Some(GemmPrecision::ALL.into_iter().filter(|&precision| self.may_select(precision)).collect())
    }

    fn describe(&self) -> String {
        format!("map:{}", self.name)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn sample(tiles: usize, seed: usize) -> TileMap {
        let edges: Vec<usize> = (0..=tiles).map(|i| i * 16).collect();
        let pick = |phase, i: usize, j: usize| {
            let shift = usize::from(phase == Phase::Solve && seed % 2 == 1);
            LETTERS[(seed + shift + 3 * i + 5 * j) % LETTERS.len()].1
        };
        TileMap::new("m", &edges, pick).unwrap().with_panel(PanelPrecision::ALL[seed % 3])
    }

    #[test]
    fn a_map_answers_by_tiles() {
        let map = sample(5, 1);
        for (i, j, k) in [(4, 1, 0), (3, 2, 1)] {
            let factor = GemmQuery::unmeasured(Phase::Factor, [i, j, k], 5);
            assert_eq!(map.choose(&factor).unwrap(), map.at(Phase::Factor, i, j));
            // Both solves read the tile (j, k) of L, one of them transposed.
            for (j, k) in [(j, k), (k, j)] {
                let solve = GemmQuery::unmeasured(Phase::Solve, [7, j, k], 5);
                assert_eq!(map.choose(&solve).unwrap(), map.at(Phase::Solve, j.max(k), j.min(k)));
            }
        }
    }

    #[test]
    fn another_number_of_tiles_names_both_and_the_remedy() {
        let map = sample(5, 0);
        assert_eq!(map.check(5), Ok(()));
        let error = map.check(6).unwrap_err().to_string();
        for part in ["map:m", "5 tiles", "n = 80", "--tile 16", "has 6", "change --tile"] {
            assert!(error.contains(part), "{error}");
        }
        let query = GemmQuery::unmeasured(Phase::Factor, [9, 8, 0], 10);
        assert!(map.choose(&query).unwrap_err().to_string().contains("has 10"));
        let auto = TileMap::new("m", &[0, 7, 30], |_, _, _| GemmPrecision::Sp).unwrap();
        assert!(auto.check(3).unwrap_err().to_string().contains("--tile auto"));
    }

    #[test]
    fn bad_files_name_the_key() {
        let good = sample(3, 1).to_string();
        assert!(TileMap::parse("m", &good).is_ok());
        for (from, to, named) in [
            ("zellige precision map", "zellige map", "format"),
            ("\"schema\": 1", "\"schema\": 2", "schema 2"),
            ("[0, 16,", "[0, 16, 16,", "rows"),
            ("[0, 16, 32", "[0, 32, 16", "edges must rise"),
            ("[0, 16, 32, 48]", "[]", "rows"),
            ("\"panel\": \"tf32\"", "\"panel\": \"hp1\"", "panel"),
            ("\"bf1\"", "\"hp7\"", "hp7"),
            ("\"bf1\"", "\"fp64\"", "fp64"),
            ("\"b\":", "\"q\":", "legend lacks"),
            (".\",\n", "..\",\n", "factor[0]"),
            ("\"factor\"", "\"facto\"", "facto"),
            ("]\n}", "", "line"),
        ] {
            let bad = good.replacen(from, to, 1);
            assert_ne!(bad, good, "{from}");
            let error = TileMap::parse("m.json", &bad).unwrap_err().to_string();
            assert!(error.contains("m.json") && error.contains(named), "{from}: {error}");
        }
        assert!(TileMap::new("m", &[0, 1, 2], |_, _, _| GemmPrecision::Dp).is_err());
    }

    proptest! {
        #[test]
        fn files_round_trip(tiles in 1usize..12, seed in 0usize..50) {
            let map = sample(tiles, seed);
            prop_assert_eq!(TileMap::parse("m", &map.to_string()).unwrap(), map);
        }

        /// A file with one changed byte, or a truncated file, is refused or can be asked.
        #[test]
        fn near_misses_are_refused_or_usable(at in 0usize..400, byte in 32u8..127, cut: bool) {
            let mut text = sample(4, 1).to_string().into_bytes();
            let at = at % text.len();
            if cut { text.truncate(at) } else { text[at] = byte }
            if let Ok(map) = TileMap::parse("m", std::str::from_utf8(&text).unwrap()) {
                prop_assert!(map.precisions().is_some_and(|all| map.tiles() == 1 || !all.is_empty()));
            }
        }
    }
}
