//! What Redisson's default codec writes for simple values.

pub(crate) mod read;
#[cfg(feature = "kryo")]
mod simple;
#[cfg(feature = "kryo")]
mod write;

#[cfg(feature = "kryo")]
pub use simple::{Kryo, KryoValue};
