//! Methods on complex systems and on functions, against elimination in a dense library.

mod complex;
mod composed;
mod lsmr;
mod narrow;
