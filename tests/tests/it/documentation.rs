//! Links of the documentation lead somewhere.

use std::collections::HashSet;
use std::path::{Component, Path, PathBuf};

/// The Markdown files below `folder`, without what is built.
fn pages(folder: &Path, found: &mut Vec<PathBuf>) {
    let Ok(entries) = std::fs::read_dir(folder) else { return };
    for entry in entries.flatten() {
        let (path, name) = (entry.path(), entry.file_name());
        let name = name.to_string_lossy();
        match entry.file_type() {
            Ok(kind) if kind.is_dir() && !name.starts_with('.') && !name.starts_with("target") => {
                pages(&path, found);
            }
            Ok(_) if name.ends_with(".md") => found.push(path),
            _ => {}
        }
    }
}

/// The lines of a page outside of code blocks.
fn prose(text: &str) -> impl Iterator<Item = &str> {
    let mut inside = false;
    text.lines().filter(move |line| {
        let fence = line.trim_start().starts_with("```");
        inside ^= fence;
        !inside && !fence
    })
}

/// Returns the anchors of a page's headings, as forges generate them.
fn anchors(text: &str) -> HashSet<String> {
    let headings = prose(text).filter(|line| line.starts_with('#'));
    let anchor = |line: &str| {
        let words = line.trim_start_matches('#').trim().to_lowercase();
        let kept = words.chars().filter(|c| c.is_alphanumeric() || matches!(c, ' ' | '-' | '_'));
        kept.map(|c| if c == ' ' { '-' } else { c }).collect()
    };
    headings.map(anchor).collect()
}

/// The targets of the links of a page that are not addresses.
fn links(text: &str) -> Vec<&str> {
    let targets = prose(text).flat_map(|line| line.split("](").skip(1));
    let targets = targets.filter_map(|rest| rest.split(')').next());
    targets.filter(|target| !target.contains(':') && !target.contains(' ') && !target.is_empty()).collect()
}

/// `..` taken out of a path, as far as that is possible.
fn normal(path: &Path) -> PathBuf {
    path.components().fold(PathBuf::new(), |mut normal, part| {
        match part {
            Component::ParentDir => drop(normal.pop()),
            part => normal.push(part),
        }
        normal
    })
}

#[test]
fn links_lead_somewhere() {
    let root = normal(&Path::new(env!("CARGO_MANIFEST_DIR")).join(".."));
    let mut found = Vec::new();
    pages(&root, &mut found);
    assert!(found.len() > 20, "{found:?}");
    let mut dead = Vec::new();
    let mut count = 0;
    for page in &found {
        let text = std::fs::read_to_string(page).expect("a page");
        for link in links(&text) {
            count += 1;
            let (file, heading) = link.split_once('#').unwrap_or((link, ""));
            let target = match file {
                "" => page.clone(),
                file => normal(&page.parent().expect("a folder").join(file)),
            };
            let leads = match heading {
                "" => target.exists(),
                heading => {
                    std::fs::read_to_string(&target).is_ok_and(|text| anchors(&text).contains(heading))
                }
            };
            if !leads {
                dead.push(format!("{}: {link}", page.display()));
            }
        }
    }
    assert!(count > 50, "{count} links");
    assert!(dead.is_empty(), "links that lead nowhere: {dead:#?}");
}
