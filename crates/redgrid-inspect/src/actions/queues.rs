//! Pausing a reliable queue, and redriving and removing its dead letters.

use bytes::Bytes;
use redgrid_reliable_queue::codecs::Raw;
use redgrid_reliable_queue::{DeadLetters, MessageId, QueueError, ReliableQueue};

use super::outcome::{ActionError, ActionOutcome, ActionReport, Failed, Refusal};
use super::{Actions, Reason, Subject};
use crate::Failure;
use crate::error::InspectError;

/// The most dead letters that one action can name: 100, as many as a page lists.
pub const MAX_MARKED: usize = 100;

/// The dead letters that an action changes.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub enum DeadSelection {
    /// The dead letters with these ids: at most [`MAX_MARKED`].
    Marked(Vec<MessageId>),
    /// All dead letters that exist now.
    All,
}

/// A change of dead letters.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Change {
    Redrive,
    Remove,
}

/// The dead letters of a queue. The values are not decoded.
type Dead = DeadLetters<Bytes, Raw>;

impl Actions {
    /// Makes dead letters ready again, with no attempts.
    ///
    /// A message that is not a dead letter any more is left alone.
    ///
    /// # Errors
    ///
    /// [`ActionError`]: the action was not begun. The outcome counts the messages that were moved.
    /// It is [`Refusal::Absent`] if there were none.
    ///
    /// # Cancel safety
    ///
    /// See [`Actions`].
    pub async fn redrive(
        &self,
        queue: impl AsRef<str>,
        selection: DeadSelection,
        reason: &Reason,
    ) -> Result<ActionReport, ActionError> {
        self.change_dead(Change::Redrive, queue.as_ref(), selection, reason).await
    }

    /// Removes dead letters for good.
    ///
    /// A message that is not a dead letter any more is left alone.
    ///
    /// # Errors
    ///
    /// As [`Actions::redrive`].
    ///
    /// # Cancel safety
    ///
    /// See [`Actions`].
    pub async fn remove_dead(
        &self,
        queue: impl AsRef<str>,
        selection: DeadSelection,
        reason: &Reason,
    ) -> Result<ActionReport, ActionError> {
        self.change_dead(Change::Remove, queue.as_ref(), selection, reason).await
    }

    /// Pauses a reliable queue: the server delivers none of its messages until it is resumed.
    ///
    /// # Errors
    ///
    /// [`ActionError`]: the action was not begun. The outcome is [`Refusal::Unchanged`] if the
    /// queue was paused already, and [`Refusal::Absent`] if there is no such queue.
    ///
    /// # Cancel safety
    ///
    /// See [`Actions`].
    pub async fn pause(&self, queue: impl AsRef<str>, reason: &Reason) -> Result<ActionReport, ActionError> {
        self.set_paused(true, queue.as_ref(), reason).await
    }

    /// Resumes a paused reliable queue, and wakes its consumers.
    ///
    /// # Errors
    ///
    /// As [`Actions::pause`]; [`Refusal::Unchanged`] if the queue was not paused.
    ///
    /// # Cancel safety
    ///
    /// See [`Actions`].
    pub async fn resume(&self, queue: impl AsRef<str>, reason: &Reason) -> Result<ActionReport, ActionError> {
        self.set_paused(false, queue.as_ref(), reason).await
    }

    async fn set_paused(&self, is_paused: bool, name: &str, reason: &Reason) -> Result<ActionReport, ActionError> {
        let queue = ReliableQueue::<Bytes, Raw>::new(self.client(), name);
        // A pause would create a queue that does not exist.
        let exists = queue.object().exists().await.map_err(InspectError::from)?;
        let was_paused = queue.is_paused().await.map_err(InspectError::from)?;
        let action = if is_paused { "pause a queue" } else { "resume a queue" };
        let before = match (exists, was_paused) {
            (false, _) => "no queue",
            (true, true) => "paused",
            (true, false) => "running",
        };
        let object = Bytes::copy_from_slice(name.as_bytes());
        let subject = Subject { action, object, target: String::new(), before: before.to_owned() };
        self.act(subject, reason, async move {
            if !exists {
                return ActionOutcome::Refused(Refusal::Absent);
            }
            let changed = if is_paused { queue.pause().await } else { queue.resume().await };
            match changed {
                Ok(true) => ActionOutcome::Done { count: 1 },
                Ok(false) => ActionOutcome::Refused(Refusal::Unchanged),
                Err(error) => error.outcome(),
            }
        })
        .await
    }

    async fn change_dead(
        &self,
        change: Change,
        name: &str,
        selection: DeadSelection,
        reason: &Reason,
    ) -> Result<ActionReport, ActionError> {
        let target = match &selection {
            DeadSelection::All => "all dead letters".to_owned(),
            DeadSelection::Marked(ids) if (1..=MAX_MARKED).contains(&ids.len()) => {
                ids.iter().map(MessageId::to_string).collect::<Vec<_>>().join(" ")
            }
            DeadSelection::Marked(ids) => {
                let failure = Failure::invalid_argument(name, "messages", "1 to 100 ids", ids.len());
                return Err(InspectError::from(failure).into());
            }
        };
        let queue = ReliableQueue::<Bytes, Raw>::new(self.client(), name);
        let dead = queue.dead();
        let count = dead.count().await.map_err(InspectError::from)?;
        let action = match change {
            Change::Redrive => "redrive dead letters",
            Change::Remove => "remove dead letters",
        };
        let object = Bytes::copy_from_slice(name.as_bytes());
        let subject = Subject { action, object, target, before: format!("{count} dead letters") };
        self.act(subject, reason, async move {
            match selection {
                DeadSelection::Marked(ids) => marked(&dead, change, &ids).await,
                DeadSelection::All => all(&dead, change).await,
            }
        })
        .await
    }
}

/// Changes the dead letters with these ids, one by one.
async fn marked(dead: &Dead, change: Change, ids: &[MessageId]) -> ActionOutcome {
    let mut done = 0;
    for id in ids {
        let changed = match change {
            Change::Redrive => dead.redrive_one(*id).await,
            Change::Remove => dead.remove_one(*id).await,
        };
        match changed {
            Ok(is_changed) => done += u64::from(is_changed),
            Err(error) if done == 0 && !error.is_unknown() => return error.outcome(),
            Err(error) => {
                return ActionOutcome::unknown(format_args!("{done} of {} changed, then: {error}", ids.len()));
            }
        }
    }
    ActionOutcome::of_count(done)
}

/// Changes all dead letters. An error after a part of them is unknown: it is
/// [`ObjectError::Partial`](redgrid_core::object::ObjectError::Partial).
async fn all(dead: &Dead, change: Change) -> ActionOutcome {
    let changed: Result<u64, QueueError> = match change {
        Change::Redrive => dead.redrive().await,
        Change::Remove => dead.clear().await,
    };
    match changed {
        Ok(count) => ActionOutcome::of_count(count),
        Err(error) => error.outcome(),
    }
}
