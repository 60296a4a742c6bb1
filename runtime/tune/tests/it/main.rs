//! Tests of searches.

mod landscapes;
mod log;
mod quality;
mod searches;
