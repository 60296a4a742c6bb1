//! Vectors in few bits.
