//! Criterion benches that cross crates (`benches/`) and programs that measure packaged peers (`peers/`); this library is empty.
