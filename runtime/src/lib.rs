//! (face of the crate: written with its first module)
