//! User-defined Lua scripts, server-side functions and batches of commands: Redisson's RScript,
//! RFunction and RBatch.
//!
//! ```no_run
//! # async fn demo() -> Result<(), Box<dyn std::error::Error>> {
//! use redgrid_script::{Batch, Call, Client, Script};
//!
//! let client = Client::connect("redis://127.0.0.1:6379").await?;
//!
//! let take = Script::new("local n = tonumber(redis.call('GET', KEYS[1]) or 0)
//!     if n < tonumber(ARGV[1]) then return -1 end
//!     return redis.call('DECRBY', KEYS[1], ARGV[1])");
//! let left: i64 = take.call().key("stock:7").int(2).query(&client).await?;
//!
//! let mut batch = Batch::new(&client).atomic();
//! let sold = batch.push::<i64>(Call::command("INCRBY").key("{stock:7}:sold").int(2));
//! let seen = batch.push::<Option<String>>(Call::command("GET").key("{stock:7}:name"));
//! let results = batch.send().await?;
//! println!("{left} left, {} sold of {:?}", results.get(&sold)?, results.get(&seen)?);
//! # Ok(()) }
//! ```
//!
//! # Keys
//!
//! There are no keys except those of a call, prefixed with the client's namespace. In a cluster,
//! all keys of a script, of a function and of an atomic batch must share a slot; this is checked
//! before anything is sent.
//!
//! # Guarantees
//!
//! - A call is sent once. If its reply is lost, it returns [`Failure::OutcomeUnknown`] and is not
//!   sent again, unless it is marked with [`Call::idempotent`] or [`Call::reads`].
//! - An error that a script returns is not interpreted: even if it begins with `BUSY` or `MOVED`,
//!   the script is not run again.
//! - If a server does not have a script, or a function of a given [`Library`], the call loads it.
//! - An atomic batch is executed as a whole or not at all. A command that fails during execution
//!   does not affect the others, because Redis has no rollback.

#![cfg_attr(docsrs, feature(doc_cfg))]

mod all_nodes;
mod batch;
mod call;
mod error;
mod function;
mod functions;
mod query;
mod script;
mod scripts;

pub use all_nodes::AllNodes;
pub use batch::{Batch, BatchIndex, Results};
pub use call::Call;
pub use error::CallError;
pub use function::{Function, Library};
pub use functions::{FunctionInfo, FunctionStats, Functions, LibraryInfo, Restoring, Running};
pub use redgrid_codecs as codecs;
pub use redgrid_codecs::{Codec, Decode, Encode};
pub use redgrid_core::config::Durability;
pub use redgrid_core::{Client, CommitError, Config, Failure, FromReply, IntoArg, Name, NodeId, Reply, ServerError};
pub use script::Script;
pub use scripts::{ForgetAll, Scripts};
