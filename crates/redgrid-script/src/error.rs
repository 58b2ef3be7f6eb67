//! The errors of calls.

use std::borrow::Cow;
use std::error::Error;
use std::sync::Arc;

use redgrid_core::{CommitError, Failure, Name, Operation, ServerError};

/// The error of a call of a script, a function or a command, or of a batch.
#[derive(Debug, Clone, thiserror::Error)]
#[non_exhaustive]
pub enum CallError {
    /// The request failed for a reason that applies to all objects.
    ///
    /// The call changed nothing, with two exceptions. After [`Failure::OutcomeUnknown`] the call
    /// may be executed, now or later. After [`Failure::Refused`] a script or a function may have
    /// written something before its error; such writes are not undone.
    #[error(transparent)]
    Failed(#[from] Failure),
    /// The call was executed, but the reply is not of the requested type.
    #[error("`{what}` was executed: {source}")]
    Unexpected {
        /// The script, the function or the command.
        what: String,
        /// The expected and the received reply.
        #[source]
        source: ServerError,
    },
    /// Two keys of a script, a function or an atomic batch are in different slots of the cluster.
    /// Nothing was sent.
    ///
    /// A hash tag puts keys in the same slot: `{user:7}:name`.
    #[error("cannot run `{what}`: its keys `{one}` and `{other}` are in different slots (give them one hash tag)")]
    OtherSlot {
        /// The script, the function or the batch.
        what: String,
        /// The first key.
        one: Name,
        /// The first key in another slot.
        other: Name,
    },
    /// An argument cannot be encoded. Nothing was sent.
    #[error("cannot encode argument {nth} of `{what}` with {codec}: {source}")]
    Encode {
        /// The script, the function or the command.
        what: String,
        /// The position of the argument, from 1.
        nth: usize,
        /// The codec.
        codec: Cow<'static, str>,
        /// The cause.
        #[source]
        source: Arc<dyn Error + Send + Sync>,
    },
    /// The call was executed, but this codec cannot decode its reply.
    #[error("cannot decode the reply to `{what}` with {codec}: {source}")]
    Decode {
        /// The script, the function or the command.
        what: String,
        /// The codec.
        codec: Cow<'static, str>,
        /// The cause, and the codec that has probably written the bytes.
        #[source]
        source: Arc<dyn Error + Send + Sync>,
    },
    /// The server does not support the request. Nothing has changed.
    #[error("cannot run `{what}`: it needs {needs}")]
    Unsupported {
        /// The request.
        what: String,
        /// The servers that support it.
        needs: &'static str,
    },
    /// The call was executed on the primary, but the requested durability was not confirmed.
    #[error("`{what}` was executed, but its durability was not confirmed: {source}")]
    NotDurable {
        /// The command.
        what: String,
        /// The reason why the durability is not confirmed.
        #[source]
        source: CommitError,
    },
}

/// The servers that support functions.
pub(crate) const FUNCTIONS: &str = "Redis 7.0 or newer, or Valkey";

impl CallError {
    /// Converts the error of the request with this name.
    pub(crate) fn of(what: &str, source: ServerError) -> Self {
        CallError::convert(what, source, Failure::of_change)
    }

    /// Converts the error of a read-only request, which changes nothing even if its reply is lost.
    pub(crate) fn of_read(what: &str, source: ServerError) -> Self {
        CallError::convert(what, source, Failure::of_read)
    }

    fn convert(what: &str, source: ServerError, failure: fn(Operation, ServerError) -> Failure) -> Self {
        match source {
            ServerError::Refused { ref message, .. } if is_unknown_function_command(message) => {
                CallError::Unsupported { what: what.to_owned(), needs: FUNCTIONS }
            }
            ServerError::Decode { .. } => CallError::Unexpected { what: what.to_owned(), source },
            source => failure(Operation::new("run", what), source).into(),
        }
    }
}

/// Returns whether the server's message means that it does not support functions.
fn is_unknown_function_command(message: &str) -> bool {
    let Some(rest) = message.strip_prefix("ERR unknown command ") else { return false };
    let name = rest.trim_start_matches(['\'', '`']).to_ascii_uppercase();
    name.starts_with("FCALL") || name.starts_with("FUNCTION")
}

redgrid_core::from_invalid_name!(CallError);

#[cfg(test)]
mod tests {
    use redgrid_core::Code;

    use super::*;

    #[test]
    fn a_server_without_functions_is_unsupported() {
        let refused = |message: &str| {
            CallError::of("f", ServerError::Refused { code: Code::of(message), message: message.into() })
        };
        for old in [
            "ERR unknown command `FCALL`, with args beginning with: `f`, ",
            "ERR unknown command 'FUNCTION', with args beginning with: 'LOAD' ",
        ] {
            let error = refused(old);
            assert!(matches!(&error, CallError::Unsupported { needs, .. } if needs.contains("7.0")), "{error:?}");
        }
        assert!(matches!(refused("ERR unknown command `GIT`"), CallError::Failed(Failure::Refused { .. })));
        assert!(matches!(refused("ERR Function not found"), CallError::Failed(Failure::Refused { .. })));
    }
}
