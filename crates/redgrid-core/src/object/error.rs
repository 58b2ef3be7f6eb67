//! The errors of objects. Each error describes the state on the server after the failure.

use std::borrow::Cow;
use std::error::Error;
use std::fmt;
use std::sync::Arc;

use redgrid_client::ServerError;

use crate::failure::{Failure, Operation};
use crate::fence::FenceError;
use crate::name::Name;

/// Reason why an object was not read or changed.
#[derive(Debug, Clone, thiserror::Error)]
#[non_exhaustive]
pub enum ObjectError {
    /// The request failed for a reason that all objects share.
    ///
    /// After [`Failure::OutcomeUnknown`], the request may have changed the object, or may change it
    /// later. After any other failure, the request has changed nothing. If a call sends several
    /// requests, earlier requests may have been executed; the documentation of the call says so.
    #[error(transparent)]
    Failed(#[from] Failure),
    /// The server does not support the request, but a newer version does. Nothing was changed.
    #[error("cannot {operation}: {needed} ({source})")]
    Unsupported {
        /// The operation.
        operation: Operation,
        /// A sentence that says which servers support the request.
        needed: &'static str,
        /// The server's message.
        #[source]
        source: ServerError,
    },
    /// The request was executed, but its reply has an unexpected form.
    #[error("the request about `{name}` was executed: {source}")]
    Unexpected {
        /// Name of the object.
        name: Name,
        /// The expected and the received reply.
        #[source]
        source: ServerError,
    },
    /// The object has no element at this index. The request changed nothing.
    #[error("`{name}` has {len} elements, and none at index {index}")]
    OutOfBounds {
        /// Name of the object.
        name: Name,
        /// The given index, counted from 0. If a call sends several requests, this is the index in
        /// the failed request.
        index: u64,
        /// The number of elements.
        len: u64,
    },
    /// A call sent several requests. Some of them were executed, and then one failed.
    ///
    /// The documentation of the call says in which order the elements are sent.
    #[error("`{name}`: failed after {done} elements, the rest was not applied: {source}")]
    Partial {
        /// Name of the object.
        name: Name,
        /// The number of elements that were certainly added or removed.
        done: u64,
        /// The error of the failed request.
        #[source]
        source: Box<ObjectError>,
    },
    /// The call failed at some shards of a sharded object, and succeeded at all others.
    #[error("`{name}`: shard {} failed ({} failed in all): {source}", first(failed), failed.len())]
    Shards {
        /// Name of the sharded object.
        name: Name,
        /// The numbers of the failed shards with their errors, in ascending order. The first shard
        /// has number 0.
        failed: Vec<(u32, ObjectError)>,
        /// The error of the first failed shard.
        #[source]
        source: Box<ObjectError>,
    },
    /// The object does not exist.
    #[error("`{name}` does not exist")]
    Absent {
        /// Name of the object.
        name: Name,
    },
    /// The call timed out because in each of its attempts, another client changed the object first.
    ///
    /// This call has not changed the object.
    #[error("cannot change `{name}`: other clients changed it before each of {times} attempts")]
    Contended {
        /// Name of the object.
        name: Name,
        /// The number of attempts.
        times: u32,
    },
    /// A fence rejected the write: a newer holder has written, or the token is too old.
    ///
    /// Nothing was changed.
    #[error("cannot write `{name}`: {source}")]
    Fenced {
        /// Name of the object.
        name: Name,
        /// The reason.
        #[source]
        source: FenceError,
    },
    /// A value cannot be encoded. No request was sent.
    #[error("cannot encode a value for `{name}` with {codec}: {source}")]
    Encode {
        /// Name of the object.
        name: Name,
        /// The codec.
        codec: Cow<'static, str>,
        /// The reason.
        #[source]
        source: Arc<dyn Error + Send + Sync>,
    },
    /// A stored value cannot be decoded as the requested type. Other values are not affected.
    #[error("cannot decode the value in `{name}`{} with {codec}: {source}", at(.field))]
    Decode {
        /// Name of the object.
        name: Name,
        /// The position in the object: a field or an index.
        field: Option<String>,
        /// The codec.
        codec: Cow<'static, str>,
        /// The reason, and the codec that the writer has probably used.
        #[source]
        source: Arc<dyn Error + Send + Sync>,
    },
}

/// Returns the position in an object, for an error message.
fn at(field: &Option<String>) -> String {
    field.as_ref().map(|field| format!(" at {field}")).unwrap_or_default()
}

/// Returns the number of the first failed shard, for an error message.
fn first(failed: &[(u32, ObjectError)]) -> u32 {
    failed.first().map_or(0, |(shard, _)| *shard)
}

impl ObjectError {
    /// Creates the error of a call to several shards, some of which failed. Returns `None` if none
    /// failed.
    pub fn of_shards(name: &Name, mut failed: Vec<(u32, ObjectError)>) -> Option<Self> {
        failed.sort_by_key(|(shard, _)| *shard);
        let source = Box::new(failed.first()?.1.clone());
        Some(ObjectError::Shards { name: name.clone(), failed, source })
    }

    /// Creates the error of a request that changes the object `name`.
    pub fn of(name: &Name, source: ServerError) -> Self {
        ObjectError::unless_unexpected(name, source, |source| {
            Failure::of_change(Operation::new("change", name), source)
        })
    }

    /// Creates the error of a request that only reads. If the reply was lost, the error is
    /// `Unavailable` and not `OutcomeUnknown`, because the request changes nothing.
    pub fn of_read(name: &Name, source: ServerError) -> Self {
        ObjectError::unless_unexpected(name, source, |source| Failure::of_read(Operation::new("read", name), source))
    }

    /// Creates the error for an invalid argument in a call about the object `name`. No request was
    /// sent.
    pub fn invalid_argument(
        name: impl AsRef<str>,
        option: &'static str,
        expected: impl Into<Cow<'static, str>>,
        got: impl fmt::Display,
    ) -> Self {
        Failure::invalid_argument(name, option, expected, got).into()
    }

    fn unless_unexpected(name: &Name, source: ServerError, failure: impl FnOnce(ServerError) -> Failure) -> Self {
        match source {
            ServerError::Decode { .. } => ObjectError::Unexpected { name: name.clone(), source },
            source => failure(source).into(),
        }
    }

    /// If this error says that the server does not know a command, converts the error into
    /// [`ObjectError::Unsupported`]. Returns any other error unchanged.
    ///
    /// `needed` says which servers know the command.
    pub fn or_unsupported(self, needed: &'static str) -> Self {
        match self {
            ObjectError::Failed(Failure::Refused { operation, source }) if source.is_unknown_command() => {
                ObjectError::Unsupported { operation, needed, source }
            }
            other => other,
        }
    }

    /// Creates the error of a fenced write of `name`.
    pub fn of_fence(name: &Name, source: FenceError) -> Self {
        match source {
            FenceError::Failed(Failure::OutcomeUnknown { source: source @ ServerError::Decode { .. }, .. }) => {
                ObjectError::Unexpected { name: name.clone(), source }
            }
            FenceError::Failed(failure) => failure.into(),
            FenceError::Stale { .. } | FenceError::Expired { .. } | FenceError::OtherSlot { .. } => {
                ObjectError::Fenced { name: name.clone(), source }
            }
        }
    }

    /// Creates the error of a value that `codec` cannot encode.
    pub fn encode(name: &Name, codec: Cow<'static, str>, source: impl Error + Send + Sync + 'static) -> Self {
        ObjectError::Encode { name: name.clone(), codec, source: Arc::new(source) }
    }

    /// Creates the error of a stored value that `codec` cannot decode. `field` gives the position
    /// of the value for the message: a field or an index, or `None` if the object has a single
    /// value.
    pub fn decode(
        name: &Name,
        field: Option<String>,
        codec: Cow<'static, str>,
        source: impl Error + Send + Sync + 'static,
    ) -> Self {
        ObjectError::Decode { name: name.clone(), field, codec, source: Arc::new(source) }
    }

    /// Converts the error of a request into [`ObjectError::Partial`], because earlier requests of
    /// the call have added or removed `done` elements. If `done` is 0, returns the error unchanged.
    pub fn after(self, name: &Name, done: u64) -> Self {
        match done {
            0 => self,
            done => ObjectError::Partial { name: name.clone(), done, source: Box::new(self) },
        }
    }
}

crate::from_invalid_name!(ObjectError);
