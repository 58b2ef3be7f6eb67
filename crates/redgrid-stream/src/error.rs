//! What can be wrong with a stream and its groups, and what is true then.

use redgrid_core::object::{ObjectError, Place};
use redgrid_core::{Name, ServerError};

use crate::id::EntryId;

/// Why a stream was not read or changed.
#[derive(Debug, Clone, thiserror::Error)]
#[non_exhaustive]
pub enum StreamError {
    /// The stream has no such group, or there is no such stream: it was not created, was removed, or a failover lost it. Nothing is changed.
    #[error("`{name}` has no group `{group}`")]
    NoGroup {
        /// The stream.
        name: Name,
        /// The group.
        group: String,
    },
    /// There is a group of this name. It stays as it is.
    #[error("`{name}` has a group `{group}` already")]
    GroupExists {
        /// The stream.
        name: Name,
        /// The group.
        group: String,
    },
    /// The id of a new entry is not behind that of the last one that was added. Nothing is changed.
    #[error("entry {id} is not behind the last entry of `{name}`")]
    NotBehind {
        /// The stream.
        name: Name,
        /// What was given.
        id: EntryId,
    },
    /// An entry can not be read as the types that were asked for. It concerns this entry alone: of a group, it stays pending (but
    /// what counts as acknowledged when it is given).
    #[error("entry {id} can not be read")]
    Undecodable {
        /// The entry.
        id: EntryId,
        /// Why: [`ObjectError::Decode`].
        #[source]
        source: ObjectError,
    },
    /// The server does not know a command. Nothing is changed.
    #[error("the server of `{name}` does not know {command}: {needs} does")]
    Unsupported {
        /// The stream.
        name: Name,
        /// The command.
        command: &'static str,
        /// Which servers do.
        needs: &'static str,
    },
    /// What can be wrong with every object.
    #[error(transparent)]
    Object(#[from] ObjectError),
}

impl StreamError {
    /// The server's words, where it refused.
    pub(crate) fn words(error: &ObjectError) -> Option<&str> {
        match error {
            ObjectError::Refused { source: ServerError::Refused { message, .. }, .. } => Some(message),
            _ => None,
        }
    }

    /// What became of a request about a group.
    pub(crate) fn of_group(place: &Place, group: &str, error: ObjectError) -> StreamError {
        let words = StreamError::words(&error).unwrap_or_default();
        let Some(name) = place.name().cloned() else { return error.into() };
        let group = group.to_owned();
        if words.contains("NOGROUP") || words.contains(NO_STREAM) || words.contains(NO_KEY) {
            StreamError::NoGroup { name, group }
        } else if words.contains("BUSYGROUP") {
            StreamError::GroupExists { name, group }
        } else {
            error.into()
        }
    }

    /// What became of a command that only newer servers know.
    pub(crate) fn of_new(place: &Place, command: &'static str, needs: &'static str, error: ObjectError) -> StreamError {
        let unknown = StreamError::words(&error).is_some_and(|words| words.contains("unknown command"));
        match place.name() {
            Some(name) if unknown => StreamError::Unsupported { name: name.clone(), command, needs },
            _ => error.into(),
        }
    }

    /// Whether a group is missing.
    pub fn is_no_group(&self) -> bool {
        matches!(self, StreamError::NoGroup { .. })
    }
}

/// How a server refuses XGROUP where there is no stream.
pub(crate) const NO_STREAM: &str = "requires the key to exist";

/// How it refuses XINFO there.
pub(crate) const NO_KEY: &str = "no such key";

/// How it refuses an id that is not behind the last.
pub(crate) const NOT_BEHIND: &str = "equal or smaller than the target stream top item";
