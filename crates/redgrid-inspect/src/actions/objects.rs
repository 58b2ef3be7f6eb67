//! Deleting an object, and setting its lifetime.

use std::time::Duration;

use bytes::Bytes;
use redgrid_core::{LIFETIMES, LIFETIMES_EXPECTED};
use redgrid_keys::{Key, Keys, KeysError, UnlessLock};

use super::outcome::{ActionError, ActionOutcome, ActionReport, Failed, Refusal};
use super::record::AUDIT_STREAM;
use super::{Actions, Reason, Subject};
use crate::Failure;
use crate::error::InspectError;
use crate::objects::ObjectView;

impl Actions {
    /// Deletes an object with all keys that belong to it. Fences and token counters stay, because
    /// they protect against late requests.
    ///
    /// The name consists of any bytes, as that of an [`ObjectView`]. The servers free the memory in
    /// the background. Locks are refused: see [`Actions::force_release`].
    ///
    /// # Errors
    ///
    /// [`ActionError`]: the action was not begun. The outcome is [`Refusal::Absent`] if there was
    /// no such object, and [`Refusal::IsLock`] if it has become a lock meanwhile.
    ///
    /// # Cancel safety
    ///
    /// See [`Actions`].
    pub async fn delete(&self, object: impl AsRef<[u8]>, reason: &Reason) -> Result<ActionReport, ActionError> {
        let subject = self.subject("delete an object", object.as_ref(), String::new()).await?;
        let (keys, key) = self.keys_and_key(&subject.object);
        self.act(subject, reason, async move { outcome(keys.unlink_unless_lock(key).await) }).await
    }

    /// Sets when an object expires, with all keys that belong to it: 1 ms to 3650 days from now.
    /// `None` removes its lifetime.
    ///
    /// Locks are refused, also those without a lifetime: see [`Actions::force_release`].
    ///
    /// # Errors
    ///
    /// [`ActionError`]: the action was not begun. The outcome is [`Refusal::Absent`] if there was
    /// no such object, or it had no lifetime to remove, and [`Refusal::IsLock`] if it has become a
    /// lock meanwhile.
    ///
    /// # Cancel safety
    ///
    /// See [`Actions`].
    pub async fn set_lifetime(
        &self,
        object: impl AsRef<[u8]>,
        lifetime: Option<Duration>,
        reason: &Reason,
    ) -> Result<ActionReport, ActionError> {
        if let Some(invalid) = lifetime.filter(|lifetime| !LIFETIMES.contains(lifetime)) {
            let name = String::from_utf8_lossy(object.as_ref());
            let failure = Failure::invalid_argument(name, "lifetime", LIFETIMES_EXPECTED, format!("{invalid:?}"));
            return Err(InspectError::from(failure).into());
        }
        let target = lifetime.map_or_else(|| "none".to_owned(), |lifetime| format!("{} ms", lifetime.as_millis()));
        let subject = self.subject("set a lifetime", object.as_ref(), target).await?;
        let (keys, key) = self.keys_and_key(&subject.object);
        self.act(subject, reason, async move { outcome(keys.set_lifetime_unless_lock(key, lifetime).await) }).await
    }

    async fn subject(&self, action: &'static str, object: &[u8], target: String) -> Result<Subject, ActionError> {
        if is_record(object) {
            return Err(ActionError::IsRecord { name: String::from_utf8_lossy(object).into_owned() });
        }
        let view = self.inspector.object(object).await?;
        if view.as_ref().is_some_and(|view| view.kind.is_lock()) {
            return Err(ActionError::IsLock { name: String::from_utf8_lossy(object).into_owned() });
        }
        let before = view.as_ref().map_or_else(|| "nothing".to_owned(), describe);
        Ok(Subject { action, object: Bytes::copy_from_slice(object), target, before })
    }

    fn keys_and_key(&self, object: &Bytes) -> (Keys, Key) {
        (Keys::new(self.client()), Key::of_name_bytes(self.client(), object))
    }
}

/// Returns whether the object is the record of actions, of this namespace or of another one.
/// Without a namespace, the name of another one's record begins with that namespace.
fn is_record(object: &[u8]) -> bool {
    object.strip_suffix(AUDIT_STREAM.as_bytes()).is_some_and(|before| before.is_empty() || before.ends_with(b":"))
}

fn outcome(done: Result<UnlessLock, KeysError>) -> ActionOutcome {
    match done {
        Ok(UnlessLock::Done) => ActionOutcome::Done { count: 1 },
        Ok(UnlessLock::IsLock) => ActionOutcome::Refused(Refusal::IsLock),
        Ok(_) => ActionOutcome::Refused(Refusal::Absent),
        Err(error) => error.outcome(),
    }
}

/// Describes the object before the action, for the record.
fn describe(view: &ObjectView) -> String {
    let mut text = view.kind.as_str().to_owned();
    if let Some(size) = view.size {
        text.push_str(&format!(", size {size}"));
    }
    match view.lifetime {
        Some(left) => text.push_str(&format!(", {} ms left", left.as_millis())),
        None => text.push_str(", no lifetime"),
    }
    if let Some((client, number)) = &view.holder {
        text.push_str(&format!(", held by {client}:{number}"));
    }
    text
}
