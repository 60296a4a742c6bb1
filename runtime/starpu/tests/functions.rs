//! The table of StarPU's public functions (`functions.txt`) against the header and the code.

use std::collections::BTreeSet;
use std::fs;
use std::path::Path;

fn text(path: &str) -> String {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join(path);
    fs::read_to_string(&path).unwrap_or_else(|error| panic!("{}: {error}", path.display()))
}

/// Returns the words of a text that begin with `starpu_` or `_starpu_`.
fn names(text: &str) -> impl Iterator<Item = &str> {
    text.split(|c: char| !c.is_ascii_alphanumeric() && c != '_')
        .filter(|word| word.starts_with("starpu_") || word.starts_with("_starpu_"))
}

fn sources(folder: &Path, found: &mut BTreeSet<String>) {
    for entry in fs::read_dir(folder).expect("the folder of the sources") {
        let path = entry.expect("an entry").path();
        if path.is_dir() {
            sources(&path, found);
        } else if path.extension().is_some_and(|kind| kind == "rs" || kind == "c") {
            let text = fs::read_to_string(&path).expect("a source");
            found.extend(names(&text).map(str::to_owned));
        }
    }
}

#[test]
fn the_table_says_what_is_there() {
    let table = text("functions.txt");
    let headers = ["starpu.h", "starpu_mpi.h", "starpu_mpi_ft.h", "starpu_mpi_lb.h"]
        .map(|name| text(&format!("include/{name}")));
    let header: BTreeSet<&str> = headers.iter().flat_map(|header| names(header)).collect();
    let mut code = BTreeSet::new();
    sources(&Path::new(env!("CARGO_MANIFEST_DIR")).join("src"), &mut code);
    let mut before = "";
    for line in table.lines() {
        let (name, status) = line.split_once(' ').expect("a name and a status");
        assert!(before < name, "{name} is not in order");
        before = name;
        // A macro of the header may declare it, or be it.
        let there = code.contains(name);
        let declared = header.contains(name);
        match status {
            "absent" => assert!(!there, "{name} is there: the table says that it is absent"),
            "same" => assert!(there || declared, "{name} is not there"),
            other => {
                assert!(other.starts_with("differs: ") && (there || declared), "{name}: {other}");
            }
        }
    }
    assert!(table.lines().count() > 1000);
}
