//! Temporary.
mod bits;
mod bloom;
mod geo;
