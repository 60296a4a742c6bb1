//! Table of the use of memory nodes.

use zellige_runtime::NodeUse;

use zellige_app::table::{Side, Table};
use zellige_app::text::bytes;

/// Returns a row for each memory node, and a line for each device that has failed.
pub fn text(nodes: &[NodeUse], colours: bool) -> String {
    let mut text = table(nodes).render(colours);
    for node in nodes {
        if let Some(failure) = &node.failure {
            text += &format!("{} failed: {failure}\n", node.name);
        }
    }
    text
}

/// Returns the table and lines of `text`, or a note on host memory if there are no nodes.
pub fn summary(nodes: &[NodeUse], colours: bool) -> String {
    if nodes.is_empty() {
        return "all data were in host memory, without a limit: no transfers, no evictions\n".into();
    }
    text(nodes, colours)
}

fn table(nodes: &[NodeUse]) -> Table {
    let mut table = Table::new(&[
        ("node", Side::Left),
        ("holds", Side::Right),
        ("peak", Side::Right),
        ("in", Side::Right),
        ("out", Side::Right),
        ("hits", Side::Right),
        ("misses", Side::Right),
        ("prefetched", Side::Right),
        ("unused", Side::Right),
        ("evictions", Side::Right),
        ("written back", Side::Right),
        ("conversions", Side::Right),
    ]);
    for node in nodes {
        table.row([
            node.name.clone(),
            node.capacity.map_or("-".into(), bytes),
            bytes(node.peak),
            bytes(node.bytes_in),
            bytes(node.bytes_out),
            node.hits.to_string(),
            node.misses.to_string(),
            node.prefetch_used.to_string(),
            node.prefetch_unused.to_string(),
            node.evictions.to_string(),
            node.written_back.to_string(),
            node.conversions.to_string(),
        ]);
    }
    table
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_node_has_a_row_and_the_host_no_limit() {
        let device =
            NodeUse { name: "emulated 0".into(), capacity: Some(2048), hits: 17, ..NodeUse::default() };
        let host = NodeUse { name: "host".into(), bytes_out: 1536, ..NodeUse::default() };
        let text = text(&[host, device], false);
        let rows: Vec<Vec<&str>> = text.lines().map(|line| line.split("  ").collect()).collect();
        assert!(rows[1].contains(&"host") && text.contains("1.50 KiB"), "{text}");
        assert!(
            text.lines().nth(2).is_some_and(|row| row.contains("2.00 KiB") && row.contains("17")),
            "{text}"
        );
        assert!(!text.contains("failed"), "{text}");
    }

    #[test]
    fn a_failed_device_says_so() {
        let failure = Some("a requested failure".into());
        let text = text(&[NodeUse { name: "emulated 0".into(), failure, ..NodeUse::default() }], false);
        assert_eq!(text.lines().last(), Some("emulated 0 failed: a requested failure"));
    }
}
