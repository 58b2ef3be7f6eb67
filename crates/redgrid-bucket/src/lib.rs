//! Values under a name that all processes share, in the wire format of Redisson's RBucket and
//! RBuckets.
//!
//! Use a [`Bucket`] for a session, a setting or a cached result, and [`Buckets`] for many at once.
//!
//! ```no_run
//! # #[cfg(feature = "json")]
//! # async fn demo() -> Result<(), Box<dyn std::error::Error>> {
//! use std::time::Duration;
//! use redgrid_bucket::{Bucket, Client};
//!
//! let client = Client::connect("redis://127.0.0.1:6379").await?;
//! let greeting: Bucket<String> = Bucket::new(&client, "greeting");
//! greeting.set(&"hello".into()).expires_in(Duration::from_secs(60)).await?;
//! assert_eq!(greeting.get().await?.as_deref(), Some("hello"));
//! # Ok(()) }
//! ```
//!
//! # Keys
//!
//! | key | type | lifetime |
//! |---|---|---|
//! | `name` | string: the value as its codec writes it; Redisson's | none, unless set |
//! | `redgrid_fence:{name}`, `redgrid_fence:{name}:<client id>:<number>` | strings: the state of [`Set::fenced`] | those of a [`Fence`] |
//!
//! # Guarantees
//!
//! - A change is sent once. If its reply is lost, the call returns [`Failure::OutcomeUnknown`]
//!   and is not repeated.
//! - Reads go to the primary, unless [`Config::read_mode`] says otherwise.
//! - A value that cannot be decoded causes an error that names the object, the codec, and the
//!   format that the bytes resemble. The value stays unchanged.

#![cfg_attr(docsrs, feature(doc_cfg))]

mod bucket;
mod buckets;
mod compare;
mod set;
mod update;

pub use bucket::Bucket;
pub use buckets::Buckets;
pub use compare::CompareAndSet;
pub use redgrid_codecs as codecs;
pub use redgrid_codecs::{Codec, Decode, Encode};
pub use redgrid_core::fence::{Fence, FenceError};
pub use redgrid_core::object::{ExpireCondition, Lifetime, Object, ObjectError};
pub use redgrid_core::{Client, Config, Failure, Name, ServerError, Token};
pub use set::{GetAndSet, Set, SetIf};
