//! What can become of a call that is not answered as was hoped, and what is true then.

use std::borrow::Cow;
use std::error::Error;
use std::sync::Arc;

use redgrid_core::name::InvalidName;
use redgrid_core::{CommitError, Name, ServerError};

/// Why there is no result of a call, a script or a command of a batch.
#[derive(Debug, Clone, thiserror::Error)]
#[non_exhaustive]
pub enum CallError {
    /// No server could be asked in time. Nothing is changed.
    #[error("could not ask for `{what}`")]
    Unavailable {
        /// The script, the function or the command.
        what: String,
        /// What stands in the way.
        #[source]
        source: ServerError,
    },
    /// The server does not accept this client's password, user or certificate, or its own
    /// certificate is refused. Nothing is changed.
    #[error("not authorized to ask for `{what}`")]
    Unauthorized {
        /// The script, the function or the command.
        what: String,
        /// The words of the server, or what is wrong with the certificate.
        #[source]
        source: ServerError,
    },
    /// The client is shut down. Nothing is changed.
    #[error("the client is shut down; nothing was asked of `{what}`")]
    ShuttingDown {
        /// The script, the function or the command.
        what: String,
    },
    /// The server refused, or a script answered with an error. A command has changed nothing then. A script or a function may have written
    /// something before its error, and that stays.
    #[error("`{what}` was refused")]
    Refused {
        /// The script, the function or the command.
        what: String,
        /// The server's words, or those of the script.
        #[source]
        source: ServerError,
    },
    /// It was asked, and no answer came: it may be carried out, now or later.
    #[error("no answer to `{what}`: it may be carried out, or not")]
    OutcomeUnknown {
        /// The script, the function or the command.
        what: String,
        /// What stands in the way.
        #[source]
        source: ServerError,
    },
    /// It was carried out, and the answer is not of the type that was asked for.
    #[error("the answer to `{what}` is not what was expected")]
    Unexpected {
        /// The script, the function or the command.
        what: String,
        /// What was expected, and what came.
        #[source]
        source: ServerError,
    },
    /// A key can not be one. Nothing was asked.
    #[error(transparent)]
    InvalidName(#[from] InvalidName),
    /// Two keys of one step are in different slots of the cluster. Nothing was asked. A hash tag brings them together: `{user:7}:name`.
    #[error("`{what}` names `{one}` and `{other}`, which are in different slots")]
    OtherSlot {
        /// The script, the function or the batch.
        what: String,
        /// The first key.
        one: Name,
        /// The first of those in another slot.
        other: Name,
    },
    /// An argument or an option can not be. Nothing was asked.
    #[error("invalid {option} of `{what}`: expected {expected}, got {got}")]
    InvalidArgument {
        /// The script, the function, the command or the batch.
        what: String,
        /// What was given.
        option: &'static str,
        /// What is allowed.
        expected: Cow<'static, str>,
        /// What it was.
        got: String,
    },
    /// An argument can not be written as bytes. Nothing was asked.
    #[error("argument {nth} of `{what}` can not be encoded by {codec}")]
    Encode {
        /// The script, the function or the command.
        what: String,
        /// Which one, from 1.
        nth: usize,
        /// The codec.
        codec: Cow<'static, str>,
        /// Why.
        #[source]
        source: Arc<dyn Error + Send + Sync>,
    },
    /// It was carried out, and what it answered can not be read by this codec.
    #[error("the answer to `{what}` can not be decoded by {codec}")]
    Decode {
        /// The script, the function or the command.
        what: String,
        /// The codec.
        codec: Cow<'static, str>,
        /// Why, and which codec the other side likely has.
        #[source]
        source: Arc<dyn Error + Send + Sync>,
    },
    /// This server has no such thing. Nothing is changed.
    #[error("the server can not do `{what}`: it needs {needs}")]
    Unsupported {
        /// What was asked for.
        what: String,
        /// Which servers can.
        needs: &'static str,
    },
    /// It was carried out on the primary, and is not proven to be as durable as was asked.
    #[error("`{what}` is carried out, and not as durable as was asked")]
    NotDurable {
        /// The command.
        what: String,
        /// What is missing.
        #[source]
        source: CommitError,
    },
}

/// Who has functions.
pub(crate) const FUNCTIONS: &str = "Redis 7.0 or newer, or Valkey";

impl CallError {
    /// What became of what is called `what`.
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

    /// The same of what only reads: without an answer nothing is changed.
    pub(crate) fn of_read(what: &str, source: ServerError) -> Self {
        match source {
            ServerError::Unknown { .. } => CallError::Unavailable { what: what.to_owned(), source },
            source => CallError::of(what, source),
        }
    }
}

/// Whether a server says that it has no functions.
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
    fn a_server_without_functions_is_told_from_one_that_refuses() {
        let refused = |message: &str| {
            CallError::of("f", ServerError::Refused { code: Code::of(message), message: message.into() })
        };
        for old in [
            "ERR unknown command `FCALL`, with args beginning with: `f`, ",
            "ERR unknown command 'FUNCTION', with args beginning with: 'LOAD' ",
        ] {
            let told = refused(old);
            assert!(matches!(&told, CallError::Unsupported { needs, .. } if needs.contains("7.0")), "{told:?}");
        }
        assert!(matches!(refused("ERR unknown command `GIT`"), CallError::Refused { .. }));
        assert!(matches!(refused("ERR Function not found"), CallError::Refused { .. }));
    }
}
