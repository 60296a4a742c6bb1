//! CADNA.
