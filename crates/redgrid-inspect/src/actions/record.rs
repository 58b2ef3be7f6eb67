//! The record of actions: a stream with an entry before each action, and one with its outcome.

use std::collections::BTreeMap;
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use bytes::Bytes;
use redgrid_core::name::Namespace;
use redgrid_core::{Client, Request, ServerError};

use super::operator::{Operator, Reason};
use super::outcome::ActionOutcome;
use crate::error::InspectError;
use crate::inspector::Inspector;
use crate::scripts::AUDIT;

/// The name of the record, in the namespace of the client.
pub const AUDIT_STREAM: &str = "redgrid_audit";

/// The number of entries that the record keeps, approximately: 10,000. An action has two.
const KEPT: &str = "10000";

/// The most entries that are read.
const MOST_READ: i64 = 100;

/// The longest text of an error in the record, in characters.
const MAX_DETAIL: usize = 500;

/// Returns the key of the record.
pub(crate) fn record_key(namespace: &Namespace) -> Bytes {
    match namespace.as_str() {
        "" => Bytes::from_static(AUDIT_STREAM.as_bytes()),
        namespace => format!("{namespace}:{AUDIT_STREAM}").into(),
    }
}

/// An action, as it is recorded before it is begun.
#[derive(Debug, Clone)]
pub(super) struct Beginning {
    pub(super) id: String,
    pub(super) operator: Operator,
    pub(super) action: &'static str,
    pub(super) object: Bytes,
    /// The part of the object: a holder, a permit, messages.
    pub(super) target: String,
    pub(super) before: String,
    pub(super) reason: Reason,
}

impl Beginning {
    /// Records that the action begins.
    ///
    /// It is sent once: a second transmission would be a second entry.
    pub(super) async fn record(&self, client: &Client) -> Result<(), ServerError> {
        let entry = self.entry(client).arg("target").arg(self.target.clone());
        let entry = entry.arg("before").arg(self.before.clone()).arg("reason").arg(self.reason.as_str().to_owned());
        client.run::<Bytes>(entry).await?;
        tracing::info!(
            target: "redgrid::audit",
            id = self.id,
            who = self.operator.who,
            from = self.operator.from,
            action = self.action,
            object = %String::from_utf8_lossy(&self.object),
            of = self.target,
            before = self.before,
            reason = %self.reason,
            "action begins"
        );
        Ok(())
    }

    /// Records the outcome of the action.
    pub(super) async fn record_outcome(&self, client: &Client, outcome: &ActionOutcome) -> Result<(), ServerError> {
        let detail: String = outcome.to_string().chars().take(MAX_DETAIL).collect();
        tracing::info!(
            target: "redgrid::audit",
            id = self.id,
            who = self.operator.who,
            from = self.operator.from,
            action = self.action,
            object = %String::from_utf8_lossy(&self.object),
            outcome = outcome.as_str(),
            detail,
            "action ended"
        );
        let entry = self.entry(client).arg("outcome").arg(outcome.as_str()).arg("detail").arg(detail);
        let recorded = client.run::<Bytes>(entry).await.map(drop);
        if let Err(error) = &recorded {
            tracing::warn!(target: "redgrid::audit", id = self.id, %error, "the outcome is not in the record");
        }
        recorded
    }

    fn entry(&self, client: &Client) -> Request {
        let entry = Request::command("XADD").key(record_key(client.namespace()));
        let entry = entry.arg("MAXLEN").arg("~").arg(KEPT).arg("*").arg("id").arg(self.id.clone());
        let entry = entry.arg("who").arg(self.operator.who.clone()).arg("from").arg(self.operator.from.clone());
        entry.arg("action").arg(self.action).arg("object").arg(self.object.clone())
    }
}

/// An action in the record. Texts are as they were written: show them escaped.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub struct RecordedAction {
    /// Its id.
    pub id: String,
    /// When it began, by the server's clock.
    pub at: SystemTime,
    /// The name of the operator.
    pub who: String,
    /// The address or host of the operator.
    pub from: String,
    /// The action, such as `force a lock`.
    pub action: String,
    /// The name of the object, in bytes.
    pub object: Bytes,
    /// The part of the object: a holder, a permit, messages. Empty for the whole object.
    pub target: String,
    /// The state before the action.
    pub before: String,
    /// The reason.
    pub reason: String,
    /// The outcome. `None` if none is recorded, or not yet: the action may have been done.
    pub outcome: Option<RecordedOutcome>,
}

/// The outcome of an action in the record.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub struct RecordedOutcome {
    /// When it was recorded, by the server's clock.
    pub at: SystemTime,
    /// `done`, `refused` or `unknown`.
    pub outcome: String,
    /// The change, or the reason why nothing changed.
    pub detail: String,
}

impl Inspector {
    /// Reads the newest actions in the record, the newest first: those of its last 100 entries.
    ///
    /// An action that began before these entries is listed with its outcome only.
    ///
    /// # Errors
    ///
    /// [`InspectError::Failed`] if no server answers, the user may not read the record, or its key
    /// is not a stream.
    ///
    /// # Cancel safety
    ///
    /// Dropping the future changes nothing.
    pub async fn recorded_actions(&self) -> Result<Vec<RecordedAction>, InspectError> {
        let key = record_key(self.client.namespace());
        let entries: Result<Vec<Vec<Bytes>>, ServerError> =
            self.client.run(AUDIT.with([key]).int(MOST_READ).idempotent()).await;
        entries
            .map(|entries| actions_of(&entries))
            .map_err(|source| InspectError::of_object("read the record", AUDIT_STREAM, source))
    }
}

/// Joins the entries of each action.
fn actions_of(entries: &[Vec<Bytes>]) -> Vec<RecordedAction> {
    let mut outcomes: BTreeMap<String, RecordedAction> = BTreeMap::new();
    let mut actions = Vec::new();
    for action in entries.iter().filter_map(|entry| parse(entry)) {
        if action.outcome.is_some() {
            outcomes.insert(action.id.clone(), action);
        } else {
            let outcome = outcomes.remove(&action.id).and_then(|ended| ended.outcome);
            actions.push(RecordedAction { outcome, ..action });
        }
    }
    // Their beginnings are older than all entries.
    let mut rest: Vec<_> = outcomes.into_values().collect();
    rest.sort_by_key(|action| std::cmp::Reverse(action.at));
    actions.extend(rest);
    actions
}

fn parse(entry: &[Bytes]) -> Option<RecordedAction> {
    let (id, pairs) = entry.split_first()?;
    let millis = std::str::from_utf8(id).ok()?.split_once('-')?.0.parse().ok()?;
    let at = UNIX_EPOCH.checked_add(Duration::from_millis(millis))?;
    let pairs = pairs.chunks_exact(2);
    let field = |name: &str| pairs.clone().find(|pair| pair[0] == name.as_bytes()).map(|pair| pair[1].clone());
    let text = |name: &str| field(name).map(|value| String::from_utf8_lossy(&value).into_owned());
    let outcome =
        text("outcome").map(|outcome| RecordedOutcome { at, outcome, detail: text("detail").unwrap_or_default() });
    Some(RecordedAction {
        id: text("id")?,
        at,
        who: text("who").unwrap_or_default(),
        from: text("from").unwrap_or_default(),
        action: text("action").unwrap_or_default(),
        object: field("object").unwrap_or_default(),
        target: text("target").unwrap_or_default(),
        before: text("before").unwrap_or_default(),
        reason: text("reason").unwrap_or_default(),
        outcome,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn entry(at: &str, id: &str, more: &[&str]) -> Vec<Bytes> {
        let fields = [at, "id", id, "who", "ada", "action", "force a lock", "object", "job"];
        fields.iter().chain(more).map(|text| Bytes::copy_from_slice(text.as_bytes())).collect()
    }

    #[test]
    fn an_outcome_is_joined_with_the_beginning_of_its_action() {
        let entries = [
            entry("5000-0", "c", &["reason", "why"]),
            entry("4000-1", "a", &["outcome", "done", "detail", "1 changed"]),
            entry("4000-0", "b", &["outcome", "unknown"]),
            entry("3000-0", "a", &["reason", "stuck", "before", "held"]),
            vec![Bytes::from_static(b"no id")],
            vec![Bytes::from_static(b"1-0"), Bytes::from_static(b"odd")],
        ];
        let actions = actions_of(&entries);
        let shown: Vec<_> = actions
            .iter()
            .map(|one| (one.id.as_str(), one.reason.as_str(), one.outcome.as_ref().map(|ended| ended.outcome.as_str())))
            .collect();
        assert_eq!(shown, [("c", "why", None), ("a", "stuck", Some("done")), ("b", "", Some("unknown"))]);
        assert_eq!(actions[1].at, UNIX_EPOCH + Duration::from_secs(3));
        assert_eq!(actions[1].outcome.as_ref().map(|ended| ended.at), Some(UNIX_EPOCH + Duration::from_secs(4)));
    }
}
