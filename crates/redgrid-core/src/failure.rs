//! The ways in which an operation on any object can fail.

use std::borrow::Cow;
use std::fmt;
use std::sync::Arc;

use redgrid_client::ServerError;

use crate::name::InvalidName;

/// The causes of failure that are common to all objects.
///
/// Each object has an error type of its own, with a `Failure` in the variant `Failed`. The docs of
/// that variant describe the state of the object after the failure. The message of a failure
/// contains the message of its [source](std::error::Error::source).
#[derive(Debug, Clone, thiserror::Error)]
#[non_exhaustive]
pub enum Failure {
    /// No server was reached in time. The request changed nothing.
    ///
    /// If the request only reads, the source may be [`ServerError::Unknown`]: a read changes
    /// nothing, whether or not it is executed.
    #[error("cannot {operation}: {source}")]
    Unavailable {
        /// The operation.
        operation: Operation,
        /// The reason why the last attempt failed.
        source: ServerError,
    },
    /// The server rejects this client's password, user or certificate, or the client rejects the
    /// server's certificate. Nothing is changed.
    #[error("cannot {operation}: {source}")]
    Unauthorized {
        /// The operation.
        operation: Operation,
        /// The server's message, or the problem with the certificate.
        source: ServerError,
    },
    /// The client is shut down. Nothing is changed.
    #[error("cannot {operation}: the client is shut down")]
    ShuttingDown {
        /// The operation.
        operation: Operation,
    },
    /// The server refused the request, so nothing is changed. Possible causes are a key of another
    /// type, a missing permission, and a lack of memory.
    #[error("cannot {operation}: {source}")]
    Refused {
        /// The operation.
        operation: Operation,
        /// The server's message.
        source: ServerError,
    },
    /// The request was sent, but no usable reply arrived. The request may have been executed, or
    /// may be executed later.
    #[error("tried to {operation}, the outcome is unknown: {source}")]
    OutcomeUnknown {
        /// The operation.
        operation: Operation,
        /// The reason why the outcome is unknown.
        source: ServerError,
    },
    /// The name is invalid. No request was sent.
    #[error(transparent)]
    InvalidName(#[from] InvalidName),
    /// An argument is invalid. No request was sent.
    #[error("invalid {option}{}: expected {expected}, got {got}", .operation.for_object())]
    InvalidArgument {
        /// The operation.
        operation: Operation,
        /// The argument.
        option: &'static str,
        /// The allowed values.
        expected: Cow<'static, str>,
        /// The given value.
        got: String,
    },
}

impl Failure {
    /// Returns the failure of a request that changes something.
    ///
    /// After an unexpected reply, or without a reply, the outcome is unknown.
    pub fn of_change(operation: Operation, source: ServerError) -> Self {
        match source {
            ServerError::NotSent { .. } => Failure::Unavailable { operation, source },
            ServerError::Unauthorized { .. } => Failure::Unauthorized { operation, source },
            ServerError::ShuttingDown => Failure::ShuttingDown { operation },
            ServerError::Refused { .. } => Failure::Refused { operation, source },
            // `Unknown` or `Decode`.
            _ => Failure::OutcomeUnknown { operation, source },
        }
    }

    /// Returns the failure of a request that only reads.
    ///
    /// A read without a reply has changed nothing, so it is reported as [`Failure::Unavailable`].
    /// An unexpected reply is reported as [`Failure::Refused`], because another attempt would get
    /// the same reply.
    pub fn of_read(operation: Operation, source: ServerError) -> Self {
        match source {
            ServerError::Unknown { .. } => Failure::Unavailable { operation, source },
            ServerError::Decode { .. } => Failure::Refused { operation, source },
            source => Failure::of_change(operation, source),
        }
    }

    /// Returns the failure of a call to `object` with an invalid argument.
    pub fn invalid_argument(
        object: impl AsRef<str>,
        option: &'static str,
        expected: impl Into<Cow<'static, str>>,
        got: impl fmt::Display,
    ) -> Self {
        let (expected, got) = (expected.into(), got.to_string());
        Failure::InvalidArgument { operation: Operation::new("use", object), option, expected, got }
    }

    /// Returns the name of the object, if the operation has one.
    pub fn object(&self) -> Option<&str> {
        match self {
            Failure::Unavailable { operation, .. }
            | Failure::Unauthorized { operation, .. }
            | Failure::ShuttingDown { operation }
            | Failure::Refused { operation, .. }
            | Failure::OutcomeUnknown { operation, .. }
            | Failure::InvalidArgument { operation, .. } => operation.object(),
            Failure::InvalidName(_) => None,
        }
    }
}

/// An action and its object, for messages: ``count down the latch `x` ``.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Operation {
    action: &'static str,
    object: Option<Arc<str>>,
}

impl Operation {
    /// Creates the operation `action` of an object. The action begins with a verb, such as `change`
    /// or `read the latch`.
    pub fn new(action: &'static str, object: impl AsRef<str>) -> Self {
        Operation { action, object: Some(object.as_ref().into()) }
    }

    /// Creates an operation that is not about a single object.
    pub fn without_object(action: &'static str) -> Self {
        Operation { action, object: None }
    }

    /// Returns the action.
    pub fn action(&self) -> &'static str {
        self.action
    }

    /// Returns the name of the object.
    pub fn object(&self) -> Option<&str> {
        self.object.as_deref()
    }

    /// Returns the part of a message that names the object, or an empty text.
    fn for_object(&self) -> String {
        self.object.as_ref().map(|object| format!(" for `{object}`")).unwrap_or_default()
    }
}

impl fmt::Display for Operation {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match &self.object {
            Some(object) => write!(f, "{} `{object}`", self.action),
            None => f.write_str(self.action),
        }
    }
}

/// Implements `From<InvalidName>` for error types with a variant `Failed`.
#[doc(hidden)]
#[macro_export]
macro_rules! from_invalid_name {
    ($($error:ident),*) => {$(
        impl From<$crate::name::InvalidName> for $error {
            fn from(invalid: $crate::name::InvalidName) -> Self {
                $error::Failed(invalid.into())
            }
        }
    )*};
}

#[cfg(test)]
mod tests {
    use super::*;
    use redgrid_client::Code;

    /// Returns the name of the variant, for the table of a test.
    fn variant(failure: &Failure) -> &'static str {
        match failure {
            Failure::Unavailable { .. } => "unavailable",
            Failure::Unauthorized { .. } => "unauthorized",
            Failure::ShuttingDown { .. } => "shutting down",
            Failure::Refused { .. } => "refused",
            Failure::OutcomeUnknown { .. } => "unknown",
            Failure::InvalidName(_) => "name",
            Failure::InvalidArgument { .. } => "argument",
        }
    }

    #[test]
    fn a_failure_says_what_is_true_on_the_server() {
        let refused = ServerError::Refused { code: Code::WrongType, message: "WRONGTYPE".into() };
        let unauthorized = ServerError::Unauthorized { message: "WRONGPASS".into() };
        let unexpected = ServerError::Decode { expected: "a number", got: "a text".into() };
        let cases = [
            (ServerError::not_sent("no connection"), "unavailable", "unavailable"),
            (unauthorized, "unauthorized", "unauthorized"),
            (ServerError::ShuttingDown, "shutting down", "shutting down"),
            (refused, "refused", "refused"),
            (ServerError::unknown("time is over"), "unknown", "unavailable"),
            (unexpected, "unknown", "refused"),
        ];
        for (source, change, read) in cases {
            assert_eq!(variant(&Failure::of_change(Operation::new("change", "x"), source.clone())), change);
            assert_eq!(variant(&Failure::of_read(Operation::new("read", "x"), source)), read);
        }
    }

    #[test]
    fn a_message_has_the_operation_and_the_cause() {
        let source = || ServerError::Unauthorized { message: "WRONGPASS no".into() };
        let failure = Failure::of_change(Operation::new("count down the latch", "x"), source());
        assert_eq!(failure.to_string(), "cannot count down the latch `x`: not authorized: WRONGPASS no");
        let failure = Failure::of_read(Operation::without_object("list keys"), source());
        assert_eq!(failure.to_string(), "cannot list keys: not authorized: WRONGPASS no");
        let failure = Failure::invalid_argument("x", "count", "at least 1", 0);
        assert_eq!(failure.to_string(), "invalid count for `x`: expected at least 1, got 0");
    }
}
