//! One thing that is done to many objects: by slot, in parts, several at a time; while a slot moves object by object and key by key.

use std::collections::BTreeMap;

use bytes::Bytes;
use futures_util::{StreamExt, stream};
use redgrid_core::object::belongings::beside;
use redgrid_core::{BulkScript, Client, Code, Name, Request, ServerError};

use crate::multimap;
use crate::row::{self, faces, row};
use crate::{Key, KeysError, NotDone, ToKey};

static REMOVE: BulkScript =
    BulkScript::new("keys/remove", concat!(include_str!("scripts/rule.lua"), include_str!("scripts/remove.lua")));
static LIVE: BulkScript =
    BulkScript::new("keys/live", concat!(include_str!("scripts/rule.lua"), include_str!("scripts/live.lua")));
static COUNT: BulkScript =
    BulkScript::new("keys/count", concat!(include_str!("scripts/rule.lua"), include_str!("scripts/count.lua")));
static LIFETIMES: BulkScript =
    BulkScript::new("keys/lifetimes", concat!(include_str!("scripts/rule.lua"), include_str!("scripts/lifetimes.lua")));

/// What a script answers of an object that may be a multimap: it is left to the client.
const MAY_BE_MULTIMAP: i64 = -3;

/// How many keys one script has at most: a server does nothing else meanwhile.
const AT_ONCE: usize = 1_000;

/// How many requests are under way at a time.
pub(crate) const UNDER_WAY: usize = 16;

/// What is done.
#[derive(Clone, Debug)]
pub(crate) enum Deed {
    /// By DEL or UNLINK.
    Remove(&'static str),
    /// By PEXPIRE, PEXPIREAT or PERSIST, and until when.
    Live(&'static str, Option<Bytes>),
    /// By EXISTS or TOUCH.
    Count(&'static str),
    Lifetimes,
}

impl Deed {
    fn command(&self) -> &'static str {
        match self {
            Deed::Remove(command) | Deed::Live(command, _) | Deed::Count(command) => command,
            Deed::Lifetimes => "PTTL",
        }
    }

    fn is_change(&self) -> bool {
        matches!(self, Deed::Remove(_) | Deed::Live(..))
    }

    /// The keys of an object that it is about.
    fn row(&self, object: &[u8]) -> Vec<Bytes> {
        match self {
            Deed::Remove(_) | Deed::Live(..) => row(object),
            Deed::Count(_) | Deed::Lifetimes => faces(object),
        }
    }

    /// `looks` has the script leave those that may be multimaps.
    fn request(&self, rows: &[Vec<Bytes>], looks: bool) -> Request {
        let script = match self {
            Deed::Remove(_) => &REMOVE,
            Deed::Live(..) => &LIVE,
            Deed::Count(_) => &COUNT,
            Deed::Lifetimes => &LIFETIMES,
        };
        let each = rows.first().map_or(0, Vec::len);
        let request = script.with(rows.iter().flatten().cloned()).arg(self.command()).arg(each.to_string());
        let look = if looks { "look" } else { "" };
        match self {
            Deed::Live(_, Some(until)) => request.arg(look).arg(until.clone()),
            Deed::Live(_, None) | Deed::Remove(_) => request.arg(look),
            Deed::Count(_) | Deed::Lifetimes => request.idempotent(),
        }
    }

    /// To an object that may be a multimap.
    async fn to_multimap(&self, client: &Client, key: &Key, object: &Bytes) -> Result<i64, ServerError> {
        let found = multimap::look(client, object).await?;
        match (self, found) {
            (Deed::Live(command, millis), Some(found)) => {
                let unnamed =
                    |invalid: redgrid_core::InvalidName| ServerError::NotSent { reason: invalid.to_string().into() };
                let name: Name = key.name().map_err(unnamed)?;
                let done = found.live(client, &name, command, millis.as_ref()).await;
                return done.map(i64::from).map_err(multimap::server_error);
            }
            (_, Some(_)) => multimap::remove(client, object).await?,
            (_, None) => {}
        }
        // What is inserted meanwhile is a new multimap of this name, and stays.
        let told: Vec<i64> = client.run_undivided(self.request(&[self.row(object)], false)).await?;
        Ok(told.first().copied().unwrap_or(0).max(i64::from(found.is_some())))
    }

    /// To one object whose keys are on both sides of a migration: one by one, its own first, as by that one others find it.
    async fn alone(&self, client: &Client, object: &Bytes) -> Result<i64, ServerError> {
        let mut keys = self.row(object);
        // Looked at before its own key goes, by which is told what is its.
        let own = row::beside(client, object).await?;
        let beside = beside(object);
        keys.retain(|key| own.contains(key) || !beside.contains(key));
        if let (Deed::Remove(_), Some(_)) = (self, multimap::look(client, object).await?) {
            multimap::remove(client, object).await?;
        }
        let mut told = if matches!(self, Deed::Lifetimes) { -2 } else { 0 };
        for key in keys {
            let request = Request::command(self.command()).key(key);
            let request = match self {
                Deed::Live(_, Some(until)) => request.arg(until.clone()),
                Deed::Live(_, None) | Deed::Remove(_) => request,
                Deed::Count(_) | Deed::Lifetimes => request.idempotent(),
            };
            let answer: i64 = match client.run(request).await {
                Ok(answer) => answer,
                Err(error) => return Err(if self.is_change() && told > 0 { half_done(error) } else { error }),
            };
            match self {
                Deed::Lifetimes if told == -2 => told = answer,
                Deed::Lifetimes => {}
                _ => told = told.max(answer.min(1)),
            }
        }
        Ok(told)
    }
}

/// Whether there is an object of this key.
pub(crate) async fn is_there(client: &Client, object: &Bytes) -> Result<bool, ServerError> {
    let request = Deed::Count("EXISTS").request(&[faces(object)], false);
    Ok(client.run_undivided::<Vec<i64>>(request).await?.first() == Some(&1))
}

/// What is true of an object of which a key was changed before this: not that nothing is.
fn half_done(then: ServerError) -> ServerError {
    match then {
        then if then.is_not_done() => {
            ServerError::Unknown { reason: format!("some of its keys are done; then {then}").into() }
        }
        other => other,
    }
}

/// What became of each object.
pub(crate) type Outcomes = Vec<(Key, Result<i64, ServerError>)>;

/// The keys of names, each once.
pub(crate) fn keys_of<K: ToKey>(client: &Client, names: impl IntoIterator<Item = K>) -> Result<Vec<Key>, KeysError> {
    Ok(names.into_iter().map(|name| name.to_key(client)).collect::<Result<Vec<_>, _>>()?)
}

/// Does it to all of them, whatever becomes of others.
pub(crate) async fn each(client: &Client, keys: Vec<Key>, deed: &Deed) -> Outcomes {
    let namespace = client.namespace().as_str();
    let mut slots: BTreeMap<u16, BTreeMap<Bytes, Key>> = BTreeMap::new();
    for key in keys {
        let object = key.object(namespace);
        slots.entry(client.slot(&object)).or_default().insert(object, key);
    }
    let width = deed.row(b"a").len();
    let mut parts: Vec<Vec<(Bytes, Key)>> = Vec::new();
    for slot in slots.into_values() {
        let mut slot = slot.into_iter().peekable();
        while slot.peek().is_some() {
            parts.push(slot.by_ref().take((AT_ONCE / width).max(1)).collect());
        }
    }
    let outcomes = stream::iter(parts).map(async |part| {
        let rows: Vec<_> = part.iter().map(|(object, _)| deed.row(object)).collect();
        let outcomes: Outcomes = match client.run_undivided::<Vec<i64>>(deed.request(&rows, true)).await {
            Ok(told) if told.len() == part.len() => {
                let mut outcomes = Vec::with_capacity(part.len());
                for ((object, key), told) in part.into_iter().zip(told) {
                    let told = match told {
                        MAY_BE_MULTIMAP => deed.to_multimap(client, &key, &object).await,
                        told => Ok(told),
                    };
                    outcomes.push((key, told));
                }
                outcomes
            }
            Ok(told) => {
                let error = || ServerError::Decode { expected: "an answer for each object", got: format!("{told:?}") };
                part.into_iter().map(|(_, key)| (key, Err(error()))).collect()
            }
            Err(error) if error.code() == Some(Code::TryAgain) => {
                let mut outcomes = Vec::with_capacity(part.len());
                for (object, key) in part {
                    let told = deed.alone(client, &object).await;
                    outcomes.push((key, told));
                }
                outcomes
            }
            Err(error) => part.into_iter().map(|(_, key)| (key, Err(error.clone()))).collect(),
        };
        outcomes
    });
    outcomes.buffer_unordered(UNDER_WAY).concat().await
}

/// How many it was done to.
pub(crate) fn counted(outcomes: Outcomes) -> Result<u64, KeysError> {
    let (mut done, mut failed) = (0, Vec::new());
    for (key, told) in outcomes {
        match told {
            Ok(told) => done += u64::from(told > 0),
            Err(source) => failed.push(NotDone { key, source }),
        }
    }
    match failed.is_empty() {
        true => Ok(done),
        false => Err(KeysError::Partial { done, failed }),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_done_in_part_is_not_told_as_not_done() {
        let told = half_done(ServerError::NotSent { reason: "the node is gone".into() });
        assert!(matches!(&told, ServerError::Unknown { .. }), "{told:?}");
        assert!(
            told.to_string().contains("some of its keys are done") && told.to_string().contains("the node is gone")
        );
        let unknown = ServerError::Unknown { reason: "it is late".into() };
        assert_eq!(half_done(unknown.clone()).to_string(), unknown.to_string());
    }
}
