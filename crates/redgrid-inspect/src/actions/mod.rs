//! Actions of operators: each one is recorded before it is begun, and again with its outcome.

mod locks;
mod objects;
mod operator;
mod outcome;
mod permits;
mod queues;
mod record;

use bytes::Bytes;
use redgrid_core::{Client, ServerError};
use uuid::Uuid;

pub use self::operator::{InvalidReason, Operator, Reason};
pub use self::outcome::{ActionError, ActionOutcome, ActionReport, Refusal};
pub use self::queues::{DeadSelection, MAX_MARKED};
use self::record::Beginning;
pub use self::record::{AUDIT_STREAM, RecordedAction, RecordedOutcome};
use crate::inspector::Inspector;

/// Changes locks, objects, permits and queues for an operator. It is cheap to clone.
///
/// Locks, permits and marked dead letters change only as the operator saw them: the hold of the
/// given holder, the permit or the dead letter with the given id. If another holder has the lock by
/// now, the action is [refused](Refusal), and nothing changes. Deleting an object, its lifetime,
/// and all dead letters of a queue do not depend on what the operator saw; locks are refused there.
///
/// Before an action is begun, an entry in the stream [`redgrid_audit`](AUDIT_STREAM) records the
/// operator, the address or host, the object, its state, and the reason. Without that entry there
/// is no action. A second entry records the outcome. Both are also `tracing` events with the target
/// `redgrid::audit`. [`Inspector::recorded_actions`] reads the record.
///
/// ```no_run
/// # async fn demo(inspector: &redgrid_inspect::Inspector) -> Result<(), Box<dyn std::error::Error>> {
/// use redgrid_inspect::{ActionOutcome, Actions, Operator, Reason};
///
/// let lock = inspector.lock("orders:42").await?;
/// let actions = Actions::new(inspector, Operator::new("ada", "10.0.0.7"));
/// let reason = Reason::new("its process hangs since noon")?;
/// let report = actions.force_release("orders:42", lock.holders[0].field(), &reason).await?;
/// match report.outcome {
///     ActionOutcome::Done { .. } => println!("freed"),
///     ActionOutcome::Refused(refusal) => println!("nothing has changed: {refusal}"),
///     ActionOutcome::Unknown { why } => println!("look at the lock again: {why}"),
///     _ => {}
/// }
/// # Ok(()) }
/// ```
///
/// # Cancel safety
///
/// This applies to all actions. A future that is dropped while it reads the object begins no
/// action. Afterwards a task writes the first entry, does the action and writes its outcome.
#[derive(Clone)]
pub struct Actions {
    inspector: Inspector,
    operator: Operator,
}

redgrid_core::debug_fields!(Actions, |it| operator: it.operator);

/// The object and the part of it that an action changes, for the record.
struct Subject {
    action: &'static str,
    object: Bytes,
    target: String,
    before: String,
}

impl Actions {
    /// Returns the actions of an operator, with the connections of this inspector.
    pub fn new(inspector: &Inspector, operator: Operator) -> Self {
        Actions { inspector: inspector.clone(), operator }
    }

    /// Returns the inspector.
    pub fn inspector(&self) -> &Inspector {
        &self.inspector
    }

    fn client(&self) -> &Client {
        &self.inspector.client
    }

    /// Records the action, does the work, and records its outcome.
    async fn act(
        &self,
        subject: Subject,
        reason: &Reason,
        work: impl Future<Output = ActionOutcome> + Send + 'static,
    ) -> Result<ActionReport, ActionError> {
        let Subject { action, object, target, before } = subject;
        let id = Uuid::new_v4().to_string();
        let (operator, reason) = (self.operator.clone(), reason.clone());
        let beginning = Beginning { id: id.clone(), operator, action, object, target, before, reason };
        let client = self.client().clone();
        // A task, so that each recorded action is done, and its outcome is recorded, even if the
        // caller leaves.
        let task = tokio::spawn(async move {
            beginning.record(&client).await?;
            let outcome = work.await;
            let is_recorded = beginning.record_outcome(&client, &outcome).await.is_ok();
            Ok::<_, ServerError>((outcome, is_recorded))
        });
        let ended = task.await.unwrap_or_else(|ended| {
            Ok((ActionOutcome::unknown(format_args!("the action was interrupted: {ended}")), false))
        });
        let (outcome, is_recorded) =
            ended.map_err(|source: ServerError| ActionError::NotRecorded { stream: AUDIT_STREAM, source })?;
        Ok(ActionReport { id, outcome, is_recorded })
    }
}
