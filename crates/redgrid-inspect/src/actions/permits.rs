//! Giving back a permit of a semaphore.

use bytes::Bytes;
use redgrid_core::object::Lifetime;
use redgrid_core::permits::{PermitId, Returned};
use redgrid_permit_expirable_semaphore::PermitExpirableSemaphore;

use super::outcome::{ActionError, ActionOutcome, ActionReport, Failed, Refusal};
use super::{Actions, Reason, Subject};
use crate::error::InspectError;

impl Actions {
    /// Gives a permit of a permit-expirable semaphore back by its id, for any holder.
    ///
    /// An id names one grant. A holder that acquired another permit meanwhile keeps it. A redgrid
    /// holder of this permit notices the loss at its next renewal.
    ///
    /// # Errors
    ///
    /// [`ActionError`]: the action was not begun. The outcome is [`Refusal::Absent`] if the permit
    /// was given back before.
    ///
    /// # Cancel safety
    ///
    /// See [`Actions`].
    pub async fn return_permit(
        &self,
        semaphore: impl AsRef<str>,
        id: PermitId,
        reason: &Reason,
    ) -> Result<ActionReport, ActionError> {
        let name = semaphore.as_ref();
        let semaphore = PermitExpirableSemaphore::new(self.client(), name);
        let lease = semaphore.remaining_lease(id).await.map_err(InspectError::from)?;
        let before = match lease {
            Lifetime::Ends(left) => format!("held, {} ms left", left.as_millis()),
            Lifetime::Endless => "held, without a lease".to_owned(),
            Lifetime::Absent => "not held".to_owned(),
        };
        let object = Bytes::copy_from_slice(name.as_bytes());
        let subject = Subject { action: "give a permit back", object, target: id.to_string(), before };
        self.act(subject, reason, async move {
            match semaphore.try_release(id).await {
                Ok(Returned::Released | Returned::Expired) => ActionOutcome::Done { count: 1 },
                Ok(_) => ActionOutcome::Refused(Refusal::Absent),
                Err(failure) => failure.outcome(),
            }
        })
        .await
    }
}
