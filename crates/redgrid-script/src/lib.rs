//! Lua scripts of your own, functions that servers keep, and batches of commands, in the wire format of Redisson's RScript, RFunction
//! and RBatch.
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
//! Those that a call names, behind the client's namespace, and no others. All keys of a script, of a function and of an atomic
//! batch share a slot in a cluster; that is looked at before anything is sent.
//!
//! # Promises
//!
//! - A call is sent once. Where its answer is lost it ends [`CallError::OutcomeUnknown`] and is not sent again, unless it says of itself
//!   that it may be: [`Call::idempotent`], [`Call::reads`].
//! - What a script answers is its own: an error with the word `BUSY` or `MOVED` in front does not have it run again.
//! - A server that does not know a script, or a function whose [`Library`] is given, is told it, by the same call.
//! - An atomic batch is carried out whole or not at all. A command that fails when it is carried out fails alone, as Redis takes nothing back.

mod batch;
mod call;
mod error;
mod everywhere;
mod function;
mod functions;
mod query;
mod script;
mod scripts;

pub use batch::{Batch, Handle, Results};
pub use call::Call;
pub use error::CallError;
pub use everywhere::Everywhere;
pub use function::{Function, Library};
pub use functions::{FunctionInfo, FunctionStats, Functions, LibraryInfo, Restoring, Running};
pub use redgrid_codecs as codecs;
pub use redgrid_codecs::{Codec, Decode, Encode};
pub use redgrid_core::config::Durability;
pub use redgrid_core::{Client, CommitError, Config, FromReply, Name, NodeId, Reply, ServerError};
pub use script::Script;
pub use scripts::{ForgetAll, Scripts};
