//! The errors of streams and groups.

use redgrid_core::object::{ObjectError, ObjectRef};
use redgrid_core::{Failure, Name, ServerError};

use crate::id::EntryId;

/// The error of a request for a stream or a group.
#[derive(Debug, Clone, thiserror::Error)]
#[non_exhaustive]
pub enum StreamError {
    /// The group or its stream does not exist: it was not created, was removed, or was lost in a
    /// failover. Nothing has changed.
    #[error("`{name}` has no group `{group}`")]
    NoGroup {
        /// The stream.
        name: Name,
        /// The group.
        group: String,
    },
    /// A group of this name exists. It was not changed.
    #[error("`{name}` already has a group `{group}`")]
    GroupExists {
        /// The stream.
        name: Name,
        /// The group.
        group: String,
    },
    /// The id of a new entry is not larger than the id of the entry that was added last. Nothing
    /// has changed.
    #[error("cannot add entry {id} to `{name}`: its id is not larger than that of the last entry")]
    IdTooSmall {
        /// The stream.
        name: Name,
        /// The given id.
        id: EntryId,
    },
    /// An entry cannot be decoded as the requested types.
    ///
    /// The error concerns only this entry. An entry that a group has delivered stays pending,
    /// unless it counts as acknowledged on delivery.
    #[error("cannot read entry {id}: {source}")]
    Undecodable {
        /// The entry.
        id: EntryId,
        /// The cause: [`ObjectError::Decode`].
        #[source]
        source: Box<ObjectError>,
    },
    /// The server does not support a command. Nothing has changed.
    #[error("the server of `{name}` does not support {command}: it needs {needs}")]
    Unsupported {
        /// The stream.
        name: Name,
        /// The command.
        command: &'static str,
        /// The servers that support it.
        needs: &'static str,
    },
    /// An error that any object can have.
    #[error(transparent)]
    Object(#[from] ObjectError),
}

impl StreamError {
    /// Returns the server's message if it refused the request.
    pub(crate) fn server_message(error: &ObjectError) -> Option<&str> {
        match error {
            ObjectError::Failed(Failure::Refused { source: ServerError::Refused { message, .. }, .. }) => Some(message),
            _ => None,
        }
    }

    /// Converts the error of a request for a group.
    pub(crate) fn from_group_request(object_ref: &ObjectRef, group: &str, error: ObjectError) -> StreamError {
        let message = StreamError::server_message(&error).unwrap_or_default();
        let Some(name) = object_ref.name().cloned() else { return error.into() };
        let group = group.to_owned();
        if message.contains("NOGROUP") || message.contains(NO_STREAM) || message.contains(NO_KEY) {
            StreamError::NoGroup { name, group }
        } else if message.contains("BUSYGROUP") {
            StreamError::GroupExists { name, group }
        } else {
            error.into()
        }
    }

    /// Converts the error of a command that only newer servers support.
    pub(crate) fn from_new_command(
        object_ref: &ObjectRef,
        command: &'static str,
        needs: &'static str,
        error: ObjectError,
    ) -> StreamError {
        let message = StreamError::server_message(&error);
        let unknown = message.is_some_and(|message| message.contains("unknown command"));
        match object_ref.name() {
            Some(name) if unknown => StreamError::Unsupported { name: name.clone(), command, needs },
            _ => error.into(),
        }
    }

    /// Returns whether the group or its stream does not exist.
    pub fn is_no_group(&self) -> bool {
        matches!(self, StreamError::NoGroup { .. })
    }
}

/// Part of the server's error for XGROUP if the stream does not exist.
pub(crate) const NO_STREAM: &str = "requires the key to exist";

/// Part of the server's error for XINFO if the stream does not exist.
pub(crate) const NO_KEY: &str = "no such key";

/// Part of the server's error for an id that is not larger than the last one.
pub(crate) const ID_TOO_SMALL: &str = "equal or smaller than the target stream top item";
