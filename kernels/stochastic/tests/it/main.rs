//! Stochastic arithmetic against arithmetic without rounding, and against CADNA's answers.

mod cadna;
mod keys;
mod programs;
mod rounding;
mod scopes;
mod truth;
