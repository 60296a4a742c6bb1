//! The `zellige` command.
fn main() {}
