//! The errors of reads.

use redgrid_core::object::ObjectError;
use redgrid_core::{Code, Failure, Operation, ServerError};
use redgrid_keys::KeysError;

/// The error of a read. Nothing has changed on the servers.
#[derive(Debug, Clone, thiserror::Error)]
#[non_exhaustive]
pub enum InspectError {
    /// The request failed: no server answered, the user lacks a permission, or the name is invalid.
    #[error(transparent)]
    Failed(#[from] Failure),
    /// The scan of all keys failed.
    #[error(transparent)]
    Keys(KeysError),
    /// A reply about an object has an unexpected form.
    #[error(transparent)]
    Object(ObjectError),
    /// The servers cannot be checked, because they have no address: only a Unix socket is known.
    #[error("cannot check the servers: expected servers that listen on a port, got a Unix socket")]
    NoAddresses,
}

impl InspectError {
    /// Returns the error of a request that reads one object.
    pub(crate) fn of_object(action: &'static str, name: &str, source: ServerError) -> Self {
        Failure::of_read(Operation::new(action, name), source).into()
    }

    /// Returns the error of a request that is not about a single object.
    pub(crate) fn of_read(action: &'static str, source: ServerError) -> Self {
        Failure::of_read(Operation::without_object(action), source).into()
    }
}

redgrid_core::from_invalid_name!(InspectError);

impl From<KeysError> for InspectError {
    fn from(error: KeysError) -> Self {
        match error {
            KeysError::Failed(failure) => InspectError::Failed(failure),
            other => InspectError::Keys(other),
        }
    }
}

/// Returns the reply; `None` if the user lacks the permission.
pub(crate) fn unless_denied<T>(reply: Result<T, ServerError>) -> Result<Option<T>, ServerError> {
    match reply {
        Err(error) if error.code() == Some(Code::NoPermission) => Ok(None),
        reply => reply.map(Some),
    }
}

/// Returns the reply; `None` if the user lacks the permission, or the key has another type.
pub(crate) fn unless_unreadable<T>(reply: Result<T, ServerError>) -> Result<Option<T>, ServerError> {
    match reply {
        Err(error) if error.code() == Some(Code::WrongType) => Ok(None),
        reply => unless_denied(reply),
    }
}
