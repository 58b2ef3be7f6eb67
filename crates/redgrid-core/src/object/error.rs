//! What can be wrong with an object that holds values, and what is true then.

use std::borrow::Cow;
use std::error::Error;
use std::sync::Arc;

use crate::error::ServerError;
use crate::fence::FenceError;
use crate::name::{InvalidName, Name};

/// Why an object was not read or changed.
#[derive(Debug, Clone, thiserror::Error)]
#[non_exhaustive]
pub enum ObjectError {
    /// No server could be asked in time. Nothing is changed by this request; of a call in parts, earlier ones may be done, as the call says.
    #[error("could not ask for `{name}`")]
    Unavailable {
        /// The object.
        name: Name,
        /// What stands in the way.
        #[source]
        source: ServerError,
    },
    /// The server does not accept this client's password, user or certificate, or its own
    /// certificate is refused. Nothing is changed.
    #[error("not authorized to ask for `{name}`")]
    Unauthorized {
        /// The object.
        name: Name,
        /// The words of the server, or what is wrong with the certificate.
        #[source]
        source: ServerError,
    },
    /// The client is shut down. Nothing is changed.
    #[error("the client is shut down; nothing was asked of `{name}`")]
    ShuttingDown {
        /// The object.
        name: Name,
    },
    /// The server refused. Nothing is changed by this request; of a call in parts, earlier ones may be done, as the call says.
    #[error("the server refused a request about `{name}`")]
    Refused {
        /// The object.
        name: Name,
        /// The server's words.
        #[source]
        source: ServerError,
    },
    /// The server can not do this, and something newer can. Nothing is changed.
    #[error("the server can not do what is asked of `{name}`: {needed}")]
    Unsupported {
        /// The object.
        name: Name,
        /// What can.
        needed: &'static str,
        /// The server's words.
        #[source]
        source: ServerError,
    },
    /// It was asked, and no answer came: it may be changed, now or later.
    #[error("no answer about `{name}`: it may be changed, or not")]
    OutcomeUnknown {
        /// The object.
        name: Name,
        /// What stands in the way.
        #[source]
        source: ServerError,
    },
    /// It was asked, and the answer is not what was expected: what was asked is done.
    #[error("an answer about `{name}` is not what was expected")]
    Unexpected {
        /// The object.
        name: Name,
        /// What was expected, and what came.
        #[source]
        source: ServerError,
    },
    /// The name can not be used. Nothing was asked.
    #[error(transparent)]
    InvalidName(#[from] InvalidName),
    /// An argument can not be. Nothing was asked.
    #[error("invalid {option} for `{name}`: expected {expected}, got {got}")]
    InvalidArgument {
        /// The object.
        name: Name,
        /// What was given.
        option: &'static str,
        /// What is allowed.
        expected: String,
        /// What it was.
        got: String,
    },
    /// It has fewer elements. Nothing is changed by this request.
    #[error("`{name}` has {len} elements, and none at index {index}")]
    OutOfBounds {
        /// The object.
        name: Name,
        /// What was given, from 0; of a later part of a call, where that was to be.
        index: u64,
        /// How many elements it has.
        len: u64,
    },
    /// Of a call in parts some are carried out, and then one was not: the call says which are first.
    #[error("{done} elements of `{name}` are done with, and the next part is not")]
    Partial {
        /// The object.
        name: Name,
        /// How many elements are added or removed for sure.
        done: u64,
        /// What became of the next part.
        #[source]
        source: Box<ObjectError>,
    },
    /// Of the parts of a sharded object these did not do what was asked; the others did.
    #[error("{} of the shards of `{name}` that were asked failed, first shard {}", failed.len(), first(failed))]
    Shards {
        /// The sharded object.
        name: Name,
        /// The numbers of the parts that failed, from 0 and in their order, and what became of each.
        failed: Vec<(u32, ObjectError)>,
        /// What became of the first of them.
        #[source]
        source: Box<ObjectError>,
    },
    /// What is asked about is not there.
    #[error("there is no `{name}`")]
    Absent {
        /// The object.
        name: Name,
    },
    /// Others changed it each time it was to be changed, as long as the call may take. It is as they left it.
    #[error("`{name}` was changed by others each time it was to be changed, {times} times")]
    Contended {
        /// The object.
        name: Name,
        /// How often it was tried.
        times: u32,
    },
    /// A fence let it not be written: a newer holder has written, or the token is too old to know. Nothing is changed.
    #[error("the fence of `{name}` let nothing pass")]
    Fenced {
        /// The object.
        name: Name,
        /// Why.
        #[source]
        source: FenceError,
    },
    /// A value can not be written as bytes. Nothing was asked.
    #[error("a value for `{name}` can not be encoded by {codec}")]
    Encode {
        /// The object.
        name: Name,
        /// The codec.
        codec: Cow<'static, str>,
        /// Why.
        #[source]
        source: Arc<dyn Error + Send + Sync>,
    },
    /// What is stored can not be read as the type that was asked for. It concerns this value alone.
    #[error("what is stored in `{name}`{} can not be decoded by {codec}", at(.field))]
    Decode {
        /// The object.
        name: Name,
        /// Where in the object: a field or an index.
        field: Option<String>,
        /// The codec.
        codec: Cow<'static, str>,
        /// Why, and which codec the other side likely has.
        #[source]
        source: Arc<dyn Error + Send + Sync>,
    },
}

/// Where in an object, for its error's words.
fn at(field: &Option<String>) -> String {
    field.as_ref().map(|field| format!(" at {field}")).unwrap_or_default()
}

/// The first of the parts that failed, for their error's words.
fn first(failed: &[(u32, ObjectError)]) -> u32 {
    failed.first().map_or(0, |(shard, _)| *shard)
}

impl ObjectError {
    /// What became of a call to several parts of a sharded object of which at least one failed.
    pub fn of_shards(name: &Name, mut failed: Vec<(u32, ObjectError)>) -> Option<Self> {
        failed.sort_by_key(|(shard, _)| *shard);
        let source = Box::new(failed.first()?.1.clone());
        Some(ObjectError::Shards { name: name.clone(), failed, source })
    }

    /// What became of a request about `name`.
    pub fn of(name: &Name, source: ServerError) -> Self {
        let name = name.clone();
        match source {
            ServerError::NotSent { .. } => ObjectError::Unavailable { name, source },
            ServerError::Unauthorized { .. } => ObjectError::Unauthorized { name, source },
            ServerError::ShuttingDown => ObjectError::ShuttingDown { name },
            ServerError::Refused { .. } => ObjectError::Refused { name, source },
            ServerError::Unknown { .. } => ObjectError::OutcomeUnknown { name, source },
            ServerError::Decode { .. } => ObjectError::Unexpected { name, source },
        }
    }

    /// The same of a request with commands that not every server knows: `needed` tells which do.
    pub fn or_unsupported(self, needed: &'static str) -> Self {
        match self {
            ObjectError::Refused { name, source } if source.is_unknown_command() => {
                ObjectError::Unsupported { name, needed, source }
            }
            other => other,
        }
    }

    /// What became of a fenced write of `name`.
    pub fn of_fence(name: &Name, source: FenceError) -> Self {
        match source {
            FenceError::NotWritten { source, .. } | FenceError::OutcomeUnknown { source, .. } => {
                ObjectError::of(name, source)
            }
            FenceError::InvalidName(invalid) => invalid.into(),
            FenceError::InvalidArgument { name, option, expected, got } => {
                ObjectError::InvalidArgument { name, option, expected, got }
            }
            FenceError::Stale { .. } | FenceError::Aged { .. } | FenceError::OtherSlot { .. } => {
                ObjectError::Fenced { name: name.clone(), source }
            }
        }
    }

    /// A value that `codec` can not write.
    pub fn encode(name: &Name, codec: Cow<'static, str>, source: impl Error + Send + Sync + 'static) -> Self {
        ObjectError::Encode { name: name.clone(), codec, source: Arc::new(source) }
    }

    /// What is stored, in a place of the object if it has several, and `codec` can not read.
    pub fn decode(
        name: &Name,
        field: Option<String>,
        codec: Cow<'static, str>,
        source: impl Error + Send + Sync + 'static,
    ) -> Self {
        ObjectError::Decode { name: name.clone(), field, codec, source: Arc::new(source) }
    }

    /// The same of a part of a call, behind others that added or removed so many elements.
    pub fn after(self, name: &Name, done: u64) -> Self {
        match done {
            0 => self,
            done => ObjectError::Partial { name: name.clone(), done, source: Box::new(self) },
        }
    }

    /// The same of a request that only reads: without an answer nothing is changed.
    pub fn of_read(name: &Name, source: ServerError) -> Self {
        match source {
            ServerError::Unknown { .. } => ObjectError::Unavailable { name: name.clone(), source },
            source => ObjectError::of(name, source),
        }
    }
}
