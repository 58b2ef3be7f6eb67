//! One thing that is done to many objects: by slot, in parts, several at a time; while a slot moves object by object and key by key.

use std::collections::BTreeMap;

use bytes::Bytes;
use futures_util::{StreamExt, stream};
use redgrid_core::object::belongings::{beside, faces};
use redgrid_core::{BulkScript, Client, Code, Request, ServerError};

use crate::row::{self, row};
use crate::{Key, KeysError, NotDone, ToKey};

static REMOVE: BulkScript =
    BulkScript::new("keys/remove", concat!(include_str!("scripts/rule.lua"), include_str!("scripts/remove.lua")));
static LIVE: BulkScript =
    BulkScript::new("keys/live", concat!(include_str!("scripts/rule.lua"), include_str!("scripts/live.lua")));
static COUNT: BulkScript = BulkScript::new("keys/count", include_str!("scripts/count.lua"));
static LIFETIMES: BulkScript = BulkScript::new("keys/lifetimes", include_str!("scripts/lifetimes.lua"));

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

    /// The keys of an object that it is about.
    fn row(&self, object: &[u8]) -> Vec<Bytes> {
        match self {
            Deed::Remove(_) | Deed::Live(..) => row(object),
            Deed::Count(_) | Deed::Lifetimes => faces(object),
        }
    }

    fn request(&self, rows: &[Vec<Bytes>]) -> Request {
        let script = match self {
            Deed::Remove(_) => &REMOVE,
            Deed::Live(..) => &LIVE,
            Deed::Count(_) => &COUNT,
            Deed::Lifetimes => &LIFETIMES,
        };
        let each = rows.first().map_or(0, Vec::len);
        let request = script.with(rows.iter().flatten().cloned()).arg(self.command()).arg(each.to_string());
        match self {
            Deed::Live(_, Some(until)) => request.arg(until.clone()),
            Deed::Live(_, None) | Deed::Remove(_) => request,
            Deed::Count(_) | Deed::Lifetimes => request.idempotent(),
        }
    }

    /// To one object whose keys are on both sides of a migration: one by one.
    async fn alone(&self, client: &Client, object: &Bytes) -> Result<i64, ServerError> {
        let mut keys = self.row(object);
        if matches!(self, Deed::Remove(_) | Deed::Live(..)) {
            // Looked at before its own key goes, by which is told what is its.
            let own = row::beside(client, object).await?;
            let beside = beside(object);
            keys.retain(|key| own.contains(key) || !beside.contains(key));
            keys.rotate_left(1);
        }
        let mut told = if matches!(self, Deed::Lifetimes) { -2 } else { 0 };
        for key in keys {
            let request = Request::command(self.command()).key(key);
            let request = match self {
                Deed::Live(_, Some(until)) => request.arg(until.clone()),
                Deed::Live(_, None) | Deed::Remove(_) => request,
                Deed::Count(_) | Deed::Lifetimes => request.idempotent(),
            };
            let answer: i64 = client.run(request).await?;
            match self {
                Deed::Lifetimes if told == -2 => told = answer,
                Deed::Lifetimes => {}
                _ => told = told.max(answer.min(1)),
            }
        }
        Ok(told)
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
        let outcomes: Outcomes = match client.run_undivided::<Vec<i64>>(deed.request(&rows)).await {
            Ok(told) if told.len() == part.len() => {
                part.into_iter().zip(told).map(|((_, key), told)| (key, Ok(told))).collect()
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
