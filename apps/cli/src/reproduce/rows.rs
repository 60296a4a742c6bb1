//! Page docs/results/papers.md: each part of the papers with its command, checked against the verbs
//! and items that there are.

use std::fmt::Write;

use clap::CommandFactory;

use super::items;
use crate::args::Cli;

/// Lines of number, paper, place, contents, state, command and remark.
const FILE: &str = include_str!("rows.txt");
const STATES: [&str; 3] = ["works", "contradicts", "open"];

/// Commands that make the files of the rows' commands, in a folder with copies of the systems.
const FILES: &str = r#"cp apps/tor/systems/*.toml FOLDER && cd FOLDER
zellige matrix generate elasticity --size 6 -o a.mtx
zellige lqcd generate --size 4 --beta 5.7 --trajectories 2 -o a.lat
zellige psa simulate --grid 4 --step 8 -o basis
zellige psa events --basis basis -n 50 -o ev
echo '3 4 -0.0015' > xt.cal
zellige tor loop learn.toml --sensor edges --mode open --frames 1300 --telemetry slopes.fits
zellige tune tor check.toml --max-trials 5 -o map.json
cat > items.json <<'END'
{"items": [
  {"name": "sum", "formats": [{"name": "float", "cost": 4}, {"name": "double", "cost": 8}]},
  {"name": "terms", "formats": [{"name": "float", "cost": 4}, {"name": "double", "cost": 8}]}
]}
END
cat > trial <<'END'
awk -v wide="$(grep -c '"sum":"double"' "$1")" \
    'BEGIN { for (k = 1; k <= 1000; k++) { s += 1 / k; if (!wide) s = sprintf("%.7g", s) } printf "{\"s\": %.17g}\n", s }'
END
"#;

/// A part of a paper.
struct Row {
    number: usize,
    paper: &'static str,
    place: &'static str,
    contents: &'static str,
    state: &'static str,
    command: &'static str,
    remark: &'static str,
}

fn rows() -> Vec<Row> {
    let row = |line: &'static str| {
        let cells: Vec<&str> = line.split('|').collect();
        let [number, paper, place, contents, state, command, remark] = cells[..] else {
            panic!("a row has seven cells: {line}")
        };
        Row { number: number.parse().expect(line), paper, place, contents, state, command, remark }
    };
    FILE.lines().map(row).collect()
}

fn page(rows: &[Row]) -> String {
    let mut page = String::from(
        "# Three papers, row by row\n\nEverything that the three papers behind the applications compute or claim, with the command that repeats it. \
         `zellige reproduce PAPER ITEM` computes an item anew, beside the published numbers, and judges the statements that the numbers are for; \
         `make seeds` does it for all and writes pages, `make seeds FULL=1` at the sizes of the papers. *contradicts*: the command shows something else \
         than the paper, and says so. *open*: not there, with the reason. The papers: thesis (R. Molina, 2024), lattice (M. A. Clark et al., 2022), \
         tomography (N. Doucet et al., 2019). The page is generated (`ZELLIGE_WRITE_DOCS=1 cargo test -p zellige-cli rows`), and the test checks \
         that every verb, option and item exists. `make test-long` runs every command that needs no GPU.\n\nCommands in the table without `reproduce` read \
         small files, made by:\n\n```sh\n",
    );
    page += FILES;
    page += "```\n\n| paper | rows | works | contradicts | open |\n| --- | --- | --- | --- | --- |\n";
    for paper in ["thesis", "lattice", "tomography", "all"] {
        let own: Vec<&Row> = rows.iter().filter(|row| paper == "all" || row.paper == paper).collect();
        let count = |state| own.iter().filter(|row| row.state == state).count();
        let [works, contradicts, open] = STATES.map(count);
        let _ = writeln!(page, "| {paper} | {} | {works} | {contradicts} | {open} |", own.len());
    }
    page += "\n| row | paper, place | what | state | command | |\n| --- | --- | --- | --- | --- | --- |\n";
    for Row { number, paper, place, contents, state, command, remark } in rows {
        let command = if command.is_empty() { String::new() } else { format!("`{command}`") };
        let _ =
            writeln!(page, "| {number} | {paper} {place} | {contents} | {state} | {command} | {remark} |");
    }
    page
}

#[test]
fn every_row_names_verbs_and_items_that_exist() {
    for (at, row) in rows().iter().enumerate() {
        assert_eq!(row.number, at + 1);
        assert!(STATES.contains(&row.state), "{}", row.number);
        let is_explained = row.state == "works" || !row.remark.is_empty();
        assert!(is_explained && (!row.command.is_empty() || !row.remark.is_empty()), "{}", row.number);
        if row.state == "contradicts" {
            assert!(!row.command.is_empty(), "{}", row.number);
        }
        let words: Vec<&str> = row.command.split_whitespace().skip(1).collect();
        if let ["reproduce", paper, named @ ..] = &words[..] {
            let is_known =
                |name: &&str| items::ALL.iter().any(|item| item.paper.name() == *paper && item.name == *name);
            assert!(paper == &row.paper && !named.is_empty() && named.iter().all(is_known), "{}", row.number);
        }
        if !words.is_empty() {
            // Maps are read when options are parsed.
            let command = row.command.replace("map:map.json", "hp1");
            let parsed = Cli::command().try_get_matches_from(unquoted(&command));
            assert!(parsed.is_ok(), "{}: {:?}", row.number, parsed.err());
        }
    }
}

/// Returns the words of a command, of which some are quoted.
fn unquoted(command: &str) -> Vec<String> {
    let mut arguments = Vec::new();
    for (at, piece) in command.split('\'').enumerate() {
        match at % 2 {
            0 => arguments.extend(piece.split_whitespace().map(str::to_owned)),
            _ => arguments.push(piece.to_owned()),
        }
    }
    arguments
}

#[test]
fn every_item_has_a_row() {
    let rows = rows();
    for item in items::ALL {
        let has = |row: &Row| {
            row.paper == item.paper.name() && row.command.split(' ').any(|word| word == item.name)
        };
        assert!(rows.iter().any(has) || item.name == "table1", "{}", item.name);
    }
}

#[test]
fn the_page_is_what_the_rows_say() {
    let file = concat!(env!("CARGO_MANIFEST_DIR"), "/../../docs/results/papers.md");
    let page = page(&rows());
    if std::env::var_os("ZELLIGE_WRITE_DOCS").is_some() {
        std::fs::write(file, &page).expect("the page can be written");
    }
    let written = std::fs::read_to_string(file).unwrap_or_default();
    assert!(written == page, "{file}: ZELLIGE_WRITE_DOCS=1 cargo test -p zellige-cli rows");
}
