//! Methods on complex systems and on functions, against elimination in a dense library.

mod block;
mod complex;
mod composed;
mod eigen;
mod lsmr;
mod narrow;
