//! The platforms shipped with the library.

/// Name and text of each.
pub(super) const ALL: [(&str, &str); 6] = [
    ("p100x4", include_str!("p100x4.toml")),
    ("v100x4", include_str!("v100x4.toml")),
    ("h100x1", include_str!("h100x1.toml")),
    ("h200x1", include_str!("h200x1.toml")),
    ("h200x8", include_str!("h200x8.toml")),
    ("gh200x4", include_str!("gh200x4.toml")),
];
