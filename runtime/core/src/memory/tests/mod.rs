//! The state machine under random tasks, against a driver that moves real values.

mod driver;
mod random;
mod rules;
mod run;
mod stream_order;

use super::*;

const WIDE: Format = Format(2);
const NARROW: Format = Format(3);

fn bytes_as(size: u64, format: Format) -> u64 {
    if format == WIDE { size } else { size / 2 }
}
