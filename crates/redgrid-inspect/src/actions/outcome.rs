//! The outcome of an action.

use std::fmt;

use redgrid_core::object::ObjectError;
use redgrid_core::{Failure, ServerError};
use redgrid_keys::KeysError;
use redgrid_locks::AcquireError;
use redgrid_reliable_queue::QueueError;

use crate::error::InspectError;

/// The result of an action that was begun.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub struct ActionReport {
    /// The id of the action in the record.
    pub id: String,
    /// The outcome.
    pub outcome: ActionOutcome,
    /// Whether the outcome is recorded. Otherwise the record has only the beginning of the action.
    pub is_recorded: bool,
}

/// The outcome of an action.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub enum ActionOutcome {
    /// It was done.
    Done {
        /// The number of objects, permits or messages that changed.
        count: u64,
    },
    /// Nothing has changed.
    Refused(Refusal),
    /// A reply was lost, so it may have been done, or may be done within a moment. Or only a part
    /// of it was done.
    Unknown {
        /// The reason why the outcome is unknown.
        why: String,
    },
}

/// Why an action changed nothing.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub enum Refusal {
    /// The lock was free.
    Free,
    /// Other holders than the given one have the lock.
    HeldByAnother {
        /// The first of their fields on the server, as they were read after the action. Empty if
        /// they could not be read, or the lock was released meanwhile.
        holders: Vec<String>,
    },
    /// There is no such object, permit or dead letter any more.
    Absent,
    /// The object has become a lock, which is only taken away from its holder.
    IsLock,
    /// The object was in the wanted state already.
    Unchanged,
    /// The server refused the request, or was not reached.
    Failed {
        /// The reason.
        why: String,
    },
}

impl ActionOutcome {
    /// Returns the outcome in one word, as in the record: `done`, `refused` or `unknown`.
    pub fn as_str(&self) -> &'static str {
        match self {
            ActionOutcome::Done { .. } => "done",
            ActionOutcome::Refused(_) => "refused",
            ActionOutcome::Unknown { .. } => "unknown",
        }
    }

    /// Returns whether the action was done.
    pub fn is_done(&self) -> bool {
        matches!(self, ActionOutcome::Done { .. })
    }

    pub(crate) fn unknown(why: impl fmt::Display) -> Self {
        ActionOutcome::Unknown { why: why.to_string() }
    }

    pub(crate) fn failed(why: impl fmt::Display) -> Self {
        ActionOutcome::Refused(Refusal::Failed { why: why.to_string() })
    }

    /// Returns the outcome of an action on several items; none of them means that there are none.
    pub(crate) fn of_count(count: u64) -> Self {
        if count == 0 { ActionOutcome::Refused(Refusal::Absent) } else { ActionOutcome::Done { count } }
    }
}

/// Writes the outcome as a clause.
impl fmt::Display for ActionOutcome {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            ActionOutcome::Done { count } => write!(f, "{count} changed"),
            ActionOutcome::Refused(refusal) => refusal.fmt(f),
            ActionOutcome::Unknown { why } => f.write_str(why),
        }
    }
}

impl fmt::Display for Refusal {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Refusal::Free => f.write_str("the lock was free"),
            Refusal::HeldByAnother { holders } if holders.is_empty() => f.write_str("another holder has the lock"),
            Refusal::HeldByAnother { holders } => write!(f, "it has passed to {}", holders.join(", ")),
            Refusal::Absent => f.write_str("it does not exist any more"),
            Refusal::IsLock => f.write_str("it is a lock by now, which is only taken away from its holder"),
            Refusal::Unchanged => f.write_str("it was in this state already"),
            Refusal::Failed { why } => f.write_str(why),
        }
    }
}

/// Why an action was not begun. Nothing has changed.
#[derive(Debug, Clone, thiserror::Error)]
#[non_exhaustive]
pub enum ActionError {
    /// The object could not be read, or an argument is invalid. Nothing is recorded.
    #[error(transparent)]
    Inspect(#[from] InspectError),
    /// The key is not a lock. Nothing is recorded.
    #[error("`{name}` is not a lock: it is a {type_name}")]
    NotALock {
        /// The name.
        name: String,
        /// The server's name of the type, such as `hash`; a hash has other fields than holders.
        type_name: String,
    },
    /// The object is a lock, which is neither deleted nor given a lifetime: its holder would not
    /// notice that. Nothing is recorded.
    #[error("`{name}` is a lock, which is only taken away from its holder, so that the holder is notified")]
    IsLock {
        /// The name.
        name: String,
    },
    /// The object is the record of actions, of this or another namespace, which no action changes.
    #[error("cannot change `{name}` by an action: it is the record of actions")]
    IsRecord {
        /// The name of the record.
        name: String,
    },
    /// The record could not be written, so the action was refused.
    ///
    /// After [`ServerError::Unknown`], the record may contain the beginning of the action.
    #[error("refused, because the action cannot be recorded in `{stream}`: {source}")]
    NotRecorded {
        /// The name of the record.
        stream: &'static str,
        /// The reason.
        #[source]
        source: ServerError,
    },
}

/// A failed change: whether it may have been executed.
pub(crate) trait Failed: fmt::Display {
    /// Returns whether the change may have been executed.
    fn is_unknown(&self) -> bool;

    /// Returns the outcome of the action.
    fn outcome(&self) -> ActionOutcome {
        if self.is_unknown() { ActionOutcome::unknown(self) } else { ActionOutcome::failed(self) }
    }
}

impl Failed for Failure {
    fn is_unknown(&self) -> bool {
        matches!(self, Failure::OutcomeUnknown { .. })
    }
}

impl Failed for AcquireError {
    fn is_unknown(&self) -> bool {
        match self {
            // The client may have shut down after the takeover.
            AcquireError::Failed(Failure::ShuttingDown { .. }) => true,
            AcquireError::Failed(failure) => failure.is_unknown(),
            // The takeover was granted.
            AcquireError::NotDurable { .. } => true,
            _ => false,
        }
    }
}

impl Failed for ObjectError {
    fn is_unknown(&self) -> bool {
        match self {
            ObjectError::Failed(failure) => failure.is_unknown(),
            // A part was executed.
            ObjectError::Unexpected { .. } | ObjectError::Partial { .. } | ObjectError::Shards { .. } => true,
            _ => false,
        }
    }
}

impl Failed for QueueError {
    fn is_unknown(&self) -> bool {
        match self {
            QueueError::Object(error) => error.is_unknown(),
            // Earlier batches of the action may have been executed.
            QueueError::ShuttingDown { .. } => true,
            _ => false,
        }
    }
}

impl Failed for KeysError {
    fn is_unknown(&self) -> bool {
        match self {
            KeysError::Failed(failure) => failure.is_unknown(),
            KeysError::Object(error) => error.is_unknown(),
            KeysError::Partial { failed, .. } => {
                failed.iter().any(|one| matches!(one.source, ServerError::Unknown { .. } | ServerError::Decode { .. }))
            }
            _ => true,
        }
    }
}

#[cfg(test)]
mod tests {
    use redgrid_core::Operation;

    use super::*;

    #[test]
    fn only_a_lost_reply_is_unknown() {
        let operation = || Operation::new("free", "a");
        let lost = Failure::of_change(operation(), ServerError::unknown("cut"));
        let away = Failure::of_change(operation(), ServerError::not_sent("no connection"));
        for (failure, word) in [(lost, "unknown"), (away, "refused")] {
            assert_eq!(failure.outcome().as_str(), word, "{failure}");
            assert_eq!(AcquireError::from(failure.clone()).outcome().as_str(), word, "{failure}");
            let object = ObjectError::from(failure.clone());
            assert_eq!((object.outcome().as_str(), QueueError::from(object).outcome().as_str()), (word, word));
            assert_eq!(KeysError::from(failure.clone()).outcome().as_str(), word, "{failure}");
        }
        let ended = AcquireError::from(Failure::ShuttingDown { operation: operation() });
        assert_eq!(ended.outcome().as_str(), "unknown", "the lock may be taken away");
        assert_eq!(ActionOutcome::of_count(0), ActionOutcome::Refused(Refusal::Absent));
        assert_eq!(ActionOutcome::of_count(2).to_string(), "2 changed");
    }
}
