//! The errors of calls.

use std::borrow::Cow;
use std::error::Error;
use std::sync::Arc;

use redgrid_core::name::InvalidName;
use redgrid_core::{CommitError, Name, ServerError};

/// The error of a call of a script, a function or a command, or of a batch.
#[derive(Debug, Clone, thiserror::Error)]
#[non_exhaustive]
pub enum CallError {
    /// No server could be reached in time. Nothing has changed.
    #[error("could not ask for `{what}`")]
    Unavailable {
        /// The script, the function or the command.
        what: String,
        /// The cause.
        #[source]
        source: ServerError,
    },
    /// The server does not accept this client's password, user or certificate, or its own
    /// certificate is refused. Nothing has changed.
    #[error("not authorized to ask for `{what}`")]
    Unauthorized {
        /// The script, the function or the command.
        what: String,
        /// The server's message, or what is wrong with the certificate.
        #[source]
        source: ServerError,
    },
    /// The client is shut down. Nothing has changed.
    #[error("the client is shut down; nothing was asked of `{what}`")]
    ShuttingDown {
        /// The script, the function or the command.
        what: String,
    },
    /// The server refused the call, or a script returned an error.
    ///
    /// A command has changed nothing then. A script or a function may have written something before
    /// its error, which is not undone.
    #[error("`{what}` was refused")]
    Refused {
        /// The script, the function or the command.
        what: String,
        /// The message of the server or of the script.
        #[source]
        source: ServerError,
    },
    /// The call was sent and no reply arrived: it may be executed, now or later.
    #[error("no answer to `{what}`: it may be carried out, or not")]
    OutcomeUnknown {
        /// The script, the function or the command.
        what: String,
        /// The cause.
        #[source]
        source: ServerError,
    },
    /// The call was executed, and the reply is not of the requested type.
    #[error("the answer to `{what}` is not what was expected")]
    Unexpected {
        /// The script, the function or the command.
        what: String,
        /// The expected and the received reply.
        #[source]
        source: ServerError,
    },
    /// A key is not a valid name. Nothing was sent.
    #[error(transparent)]
    InvalidName(#[from] InvalidName),
    /// Two keys of a script, a function or an atomic batch are in different slots of the cluster.
    /// Nothing was sent.
    ///
    /// A hash tag puts keys in the same slot: `{user:7}:name`.
    #[error("`{what}` names `{one}` and `{other}`, which are in different slots")]
    OtherSlot {
        /// The script, the function or the batch.
        what: String,
        /// The first key.
        one: Name,
        /// The first key in another slot.
        other: Name,
    },
    /// An argument or an option is invalid. Nothing was sent.
    #[error("invalid {option} of `{what}`: expected {expected}, got {got}")]
    InvalidArgument {
        /// The script, the function, the command or the batch.
        what: String,
        /// The argument or option.
        option: &'static str,
        /// The allowed values.
        expected: Cow<'static, str>,
        /// The given value.
        got: String,
    },
    /// An argument cannot be encoded. Nothing was sent.
    #[error("argument {nth} of `{what}` can not be encoded by {codec}")]
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
    /// The call was executed, and its reply cannot be decoded by this codec.
    #[error("the answer to `{what}` can not be decoded by {codec}")]
    Decode {
        /// The script, the function or the command.
        what: String,
        /// The codec.
        codec: Cow<'static, str>,
        /// The cause, and which codec the other side probably uses.
        #[source]
        source: Arc<dyn Error + Send + Sync>,
    },
    /// The server does not support the request. Nothing has changed.
    #[error("the server can not do `{what}`: it needs {needs}")]
    Unsupported {
        /// The request.
        what: String,
        /// The servers that support it.
        needs: &'static str,
    },
    /// The call was executed on the primary, and the requested durability was not confirmed.
    #[error("`{what}` is carried out, and not as durable as was asked")]
    NotDurable {
        /// The command.
        what: String,
        /// What is missing for the durability.
        #[source]
        source: CommitError,
    },
}

/// The servers that support functions.
pub(crate) const FUNCTIONS: &str = "Redis 7.0 or newer, or Valkey";

impl CallError {
    /// Converts the error of the request with this name.
    pub(crate) fn of(what: &str, source: ServerError) -> Self {
        let what = what.to_owned();
        match source {
            ServerError::NotSent { .. } => CallError::Unavailable { what, source },
            ServerError::Unauthorized { .. } => CallError::Unauthorized { what, source },
            ServerError::ShuttingDown => CallError::ShuttingDown { what },
            ServerError::Refused { ref message, .. } if is_unknown_function_command(message) => {
                CallError::Unsupported { what, needs: FUNCTIONS }
            }
            ServerError::Unknown { .. } => CallError::OutcomeUnknown { what, source },
            ServerError::Decode { .. } => CallError::Unexpected { what, source },
            source => CallError::Refused { what, source },
        }
    }

    /// Converts the error of a read-only request: without a reply nothing has changed.
    pub(crate) fn of_read(what: &str, source: ServerError) -> Self {
        match source {
            ServerError::Unknown { .. } => CallError::Unavailable { what: what.to_owned(), source },
            source => CallError::of(what, source),
        }
    }
}

/// Returns whether the server's message means that it does not support functions.
fn is_unknown_function_command(message: &str) -> bool {
    let Some(rest) = message.strip_prefix("ERR unknown command ") else { return false };
    let name = rest.trim_start_matches(['\'', '`']).to_ascii_uppercase();
    name.starts_with("FCALL") || name.starts_with("FUNCTION")
}

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
        assert!(matches!(refused("ERR unknown command `GIT`"), CallError::Refused { .. }));
        assert!(matches!(refused("ERR Function not found"), CallError::Refused { .. }));
    }
}
