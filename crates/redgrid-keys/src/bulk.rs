//! One operation on many objects.
//!
//! The objects are grouped by slot and split into chunks, several of which are in flight. While a
//! slot moves, its objects are handled one by one, key by key.

use std::collections::BTreeMap;

use bytes::Bytes;
use futures_util::{StreamExt, stream};
use redgrid_core::author::ClientExt;
use redgrid_core::object::key_ownership::suffixed_companions;
use redgrid_core::{BulkScript, Client, Code, Name, Request, ServerError};

use crate::key_ownership::{self, existence_row, key_row};
use crate::multimap;
use crate::{Key, KeysError, NotDone, ToKey};

/// A script that starts with these preludes.
macro_rules! script {
    ($name:literal: $($prelude:literal)*) => {
        BulkScript::new(
            concat!("keys/", $name),
            concat!(
                $(include_str!(concat!("scripts/", $prelude, ".lua")),)*
                include_str!(concat!("scripts/", $name, ".lua")),
            ),
        )
    };
}

static REMOVE: BulkScript = script!("remove": "holders" "ownership" "exclusion");
static EXPIRE: BulkScript = script!("expire": "holders" "ownership" "exclusion");
static COUNT: BulkScript = script!("count": "ownership");
static LIFETIMES: BulkScript = script!("lifetimes": "ownership");
static OWN_KEY: BulkScript = script!("own_key": "holders");

/// The status of an object that may be a multimap. The script has not changed it: the client
/// handles it.
const MAY_BE_MULTIMAP: i64 = -3;

/// The status of a held lock, which was not changed.
pub(crate) const IS_LOCK: i64 = -4;

/// The maximum number of keys of a script. It is limited because the script blocks the server.
const MAX_KEYS: usize = 1_000;

/// The maximum number of requests in flight.
pub(crate) const MAX_IN_FLIGHT: usize = 16;

/// An operation on objects.
#[derive(Clone, Debug)]
pub(crate) enum Operation {
    /// Deletes them with DEL or UNLINK.
    Remove(&'static str, Locks),
    /// Changes their TTLs with PEXPIRE, PEXPIREAT or PERSIST, and the time.
    Expire(&'static str, Option<Bytes>, Locks),
    /// Counts the existing ones with EXISTS or TOUCH.
    Count(&'static str),
    Lifetimes,
}

/// Whether a change applies to held locks.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Locks {
    /// It applies to them as to other objects.
    Included,
    /// They stay as they are, with the status [`IS_LOCK`].
    Excluded,
}

impl Operation {
    fn command(&self) -> &'static str {
        match self {
            Operation::Remove(command, _) | Operation::Expire(command, ..) | Operation::Count(command) => command,
            Operation::Lifetimes => "PTTL",
        }
    }

    fn is_change(&self) -> bool {
        matches!(self, Operation::Remove(..) | Operation::Expire(..))
    }

    fn excludes_locks(&self) -> bool {
        matches!(self, Operation::Remove(_, Locks::Excluded) | Operation::Expire(.., Locks::Excluded))
    }

    /// Returns the keys of an object that the operation needs.
    fn key_row(&self, object: &[u8]) -> Vec<Bytes> {
        match self {
            Operation::Remove(..) | Operation::Expire(..) => key_row(object),
            Operation::Count(_) | Operation::Lifetimes => existence_row(object),
        }
    }

    /// Returns the request for these rows of keys. With `leaves_multimaps` the script does not
    /// change objects that may be multimaps.
    fn request(&self, rows: &[Vec<Bytes>], leaves_multimaps: bool) -> Request {
        let script = match self {
            Operation::Remove(..) => &REMOVE,
            Operation::Expire(..) => &EXPIRE,
            Operation::Count(_) => &COUNT,
            Operation::Lifetimes => &LIFETIMES,
        };
        let width = rows.first().map_or(0, Vec::len);
        let request = script.with(rows.iter().flatten().cloned()).arg(self.command()).arg(width.to_string());
        let excluded = match (leaves_multimaps, self.excludes_locks()) {
            (true, true) => "multimaps locks",
            (true, false) => "multimaps",
            (false, true) => "locks",
            (false, false) => "",
        };
        match self {
            Operation::Expire(_, Some(time), _) => request.arg(excluded).arg(time.clone()),
            Operation::Expire(_, None, _) | Operation::Remove(..) => request.arg(excluded),
            Operation::Count(_) | Operation::Lifetimes => request.idempotent(),
        }
    }

    /// Applies the operation to an object that may be a multimap.
    async fn apply_to_multimap(&self, client: &Client, key: &Key, object: &Bytes) -> Result<i64, ServerError> {
        let found = multimap::detect(client, object).await?;
        match (self, found) {
            (Operation::Expire(command, millis, _), Some(found)) => {
                let not_sent =
                    |invalid: redgrid_core::InvalidName| ServerError::NotSent { reason: invalid.to_string().into() };
                let name: Name = key.name().map_err(not_sent)?;
                let done = found.expire(client, &name, command, millis.as_ref()).await;
                return done.map(i64::from).map_err(multimap::server_error);
            }
            (_, Some(_)) => multimap::remove(client, object).await?,
            (_, None) => {}
        }
        // Keys that were inserted meanwhile form a new multimap with this name. It is not deleted.
        let removed = client.run_same_slot::<Vec<i64>>(self.request(&[self.key_row(object)], false)).await;
        let statuses = removed.map_err(|error| if found.is_some() { partially_done(error) } else { error })?;
        let status = statuses.first().copied().unwrap_or(0);
        Ok(if found.is_some() { status.max(1) } else { status })
    }

    /// Applies the operation to an object that has keys on both nodes of a migration.
    ///
    /// The keys are handled one by one. The object's own key is first, because other clients find
    /// the object by this key.
    async fn apply_key_by_key(&self, client: &Client, object: &Bytes) -> Result<i64, ServerError> {
        let mut keys = self.key_row(object);
        // The companions are determined first, because this requires the object's own key, which is
        // deleted first.
        let companions = key_ownership::companions(client, object).await?;
        let candidates = suffixed_companions(object);
        keys.retain(|key| companions.contains(key) || !candidates.contains(key));
        let mut status = if matches!(self, Operation::Lifetimes) { -2 } else { 0 };
        if let (Operation::Remove(..), Some(_)) = (self, multimap::detect(client, object).await?) {
            multimap::remove(client, object).await?;
            status = 1;
        }
        for key in keys {
            let request = match self.excludes_locks() && key == *object {
                true => OWN_KEY.with([key]).arg(self.command()),
                false => Request::command(self.command()).key(key),
            };
            let request = match self {
                Operation::Expire(_, Some(time), _) => request.arg(time.clone()),
                Operation::Expire(_, None, _) | Operation::Remove(..) => request,
                Operation::Count(_) | Operation::Lifetimes => request.idempotent(),
            };
            let reply: i64 = match client.run(request).await {
                Ok(reply) => reply,
                Err(error) => return Err(if self.is_change() && status > 0 { partially_done(error) } else { error }),
            };
            match self {
                // The companions are those of the lock. If a multimap was deleted before, the lock
                // was acquired since.
                _ if reply == IS_LOCK && self.excludes_locks() => return Ok(if status > 0 { status } else { reply }),
                Operation::Lifetimes if status == -2 => status = reply,
                Operation::Lifetimes => {}
                _ => status = status.max(reply.min(1)),
            }
        }
        Ok(status)
    }
}

/// Returns whether the object with this key exists.
pub(crate) async fn object_exists(client: &Client, object: &Bytes) -> Result<bool, ServerError> {
    let request = Operation::Count("EXISTS").request(&[existence_row(object)], false);
    Ok(client.run_same_slot::<Vec<i64>>(request).await?.first() == Some(&1))
}

/// Converts the error of one key of an object if another of its keys was already changed.
///
/// An error that states that nothing was changed becomes an unknown outcome.
pub(crate) fn partially_done(error: ServerError) -> ServerError {
    match error {
        error if error.is_not_done() => {
            ServerError::Unknown { reason: format!("some of its keys were processed; then {error}").into() }
        }
        other => other,
    }
}

/// The outcome for each object.
pub(crate) type Outcomes = Vec<(Key, Result<i64, ServerError>)>;

/// Converts names to keys.
pub(crate) fn to_keys<K: ToKey>(client: &Client, names: impl IntoIterator<Item = K>) -> Result<Vec<Key>, KeysError> {
    Ok(names.into_iter().map(|name| name.to_key(client)).collect::<Result<Vec<_>, _>>()?)
}

/// Applies the operation once to each object, even if it fails for other objects.
pub(crate) async fn apply_to_each(client: &Client, keys: Vec<Key>, operation: &Operation) -> Outcomes {
    let namespace = client.namespace().as_str();
    let mut slots: BTreeMap<u16, BTreeMap<Bytes, Key>> = BTreeMap::new();
    for key in keys {
        let object = key.object_key(namespace);
        slots.entry(client.slot(&object)).or_default().insert(object, key);
    }
    let width = operation.key_row(b"a").len();
    let mut parts: Vec<Vec<(Bytes, Key)>> = Vec::new();
    for slot in slots.into_values() {
        let mut slot = slot.into_iter().peekable();
        while slot.peek().is_some() {
            parts.push(slot.by_ref().take((MAX_KEYS / width).max(1)).collect());
        }
    }
    let outcomes = stream::iter(parts).map(async |part| {
        let rows: Vec<_> = part.iter().map(|(object, _)| operation.key_row(object)).collect();
        let outcomes: Outcomes = match client.run_same_slot::<Vec<i64>>(operation.request(&rows, true)).await {
            Ok(statuses) if statuses.len() == part.len() => {
                let mut outcomes = Vec::with_capacity(part.len());
                for ((object, key), status) in part.into_iter().zip(statuses) {
                    let outcome = match status {
                        MAY_BE_MULTIMAP => operation.apply_to_multimap(client, &key, &object).await,
                        status => Ok(status),
                    };
                    outcomes.push((key, outcome));
                }
                outcomes
            }
            Ok(statuses) => {
                let error =
                    || ServerError::Decode { expected: "an answer for each object", got: format!("{statuses:?}") };
                part.into_iter().map(|(_, key)| (key, Err(error()))).collect()
            }
            Err(error) if error.code() == Some(Code::TryAgain) => {
                let mut outcomes = Vec::with_capacity(part.len());
                for (object, key) in part {
                    let outcome = operation.apply_key_by_key(client, &object).await;
                    outcomes.push((key, outcome));
                }
                outcomes
            }
            Err(error) => part.into_iter().map(|(_, key)| (key, Err(error.clone()))).collect(),
        };
        outcomes
    });
    outcomes.buffer_unordered(MAX_IN_FLIGHT).concat().await
}

/// Returns the number of objects to which the operation was applied, or the failures.
pub(crate) fn count_done(outcomes: Outcomes) -> Result<u64, KeysError> {
    let (done, failed) = tally(outcomes);
    if failed.is_empty() { Ok(done) } else { Err(KeysError::Partial { done, failed }) }
}

/// Counts the objects with a positive status, and collects the failures.
pub(crate) fn tally(outcomes: Outcomes) -> (u64, Vec<NotDone>) {
    let (mut done, mut failed) = (0, Vec::new());
    for (key, outcome) in outcomes {
        match outcome {
            Ok(status) => done += u64::from(status > 0),
            Err(source) => failed.push(NotDone { key, source }),
        }
    }
    (done, failed)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_partially_done_operation_has_an_unknown_outcome() {
        let error = partially_done(ServerError::NotSent { reason: "the node is gone".into() });
        assert!(matches!(&error, ServerError::Unknown { .. }), "{error:?}");
        assert!(
            error.to_string().contains("some of its keys were processed")
                && error.to_string().contains("the node is gone")
        );
        let unknown = ServerError::Unknown { reason: "it is late".into() };
        assert_eq!(partially_done(unknown.clone()).to_string(), unknown.to_string());
    }
}
