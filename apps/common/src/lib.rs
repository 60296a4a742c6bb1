//! Components that applications share: the JSON of results ([`json`]), HTML reports ([`page`],
//! [`svg`], [`residuals`]), exact digits of results ([`trust`]),
//! results of searches for formats ([`tune`]), text tables ([`table`]), and
//! formatting of numbers ([`text`]).
//!
//! ```
//! use zellige_app::page::{Page, figure};
//! use zellige_app::svg::{Chart, Scale};
//!
//! let mut chart = Chart::new(520.0, 300.0, [24.0, 14.0, 42.0, 56.0], "a falling line");
//! let (x, y) = (Scale::linear(0.0, 2.0, chart.left, chart.right), Scale::log(0.1, 10.0, chart.bottom, chart.top));
//! chart.x_axis(&x, "step", false);
//! chart.y_axis(&y, "residual");
//! chart.line(&[(x.at(0.0), y.at(10.0)), (x.at(2.0), y.at(0.1))], "c0");
//! let mut page = Page::new("A run");
//! page.section("Residuals", "They fall.", &figure(&chart.finish(), "step by step"));
//! assert!(page.finish().contains("<svg"));
//! ```
#![forbid(unsafe_code)]
#![deny(missing_docs)]

pub mod json;
pub mod page;
pub mod residuals;
pub mod svg;
pub mod table;
mod tables;
pub mod text;
pub mod trust;
pub mod tune;
