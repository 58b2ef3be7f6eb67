//! The encoding of Redisson's default codec for simple values.

pub(crate) mod read;
#[cfg(feature = "kryo")]
mod simple;
#[cfg(feature = "kryo")]
mod write;

#[cfg(feature = "kryo")]
pub use simple::{Kryo, KryoValue};
