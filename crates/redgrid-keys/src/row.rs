//! The keys that go with an object, in a row, and which of those that may be somebody's own do.

use std::collections::BTreeSet;

use bytes::Bytes;
use redgrid_core::object::belongings::{self, FILTER_CONFIG, Fate, Perhaps, Proof};
use redgrid_core::{BulkScript, Client, Code, Request, ServerError};

use crate::key::Role;
use crate::multimap;

static BELONGS: BulkScript =
    BulkScript::new("keys/belongs", concat!(include_str!("scripts/rule.lua"), include_str!("scripts/belongs.lua")));

/// The key of an object, what may be beside it, and what is its by the prefix: as rule.lua has them.
pub(crate) fn row(object: &[u8]) -> Vec<Bytes> {
    let mut all = belongings::belongings(object);
    all.splice(1..1, belongings::beside(object));
    all
}

/// The keys by which an object exists, as count.lua and lifetimes.lua have them.
pub(crate) fn faces(object: &[u8]) -> Vec<Bytes> {
    let mut all = belongings::faces(object);
    all.insert(1, belongings::beside(object)[FILTER_CONFIG].clone());
    all
}

/// The object to which a key belongs and what it is to that, where the shape of the key does not tell; else `None`.
/// `multimaps` are those objects that are known to be some, where all were looked at before.
pub(crate) async fn looked(
    client: &Client,
    wire: &Bytes,
    multimaps: Option<&BTreeSet<Bytes>>,
) -> Result<Option<(Bytes, Role)>, ServerError> {
    if let Some((object, Fate::IsAlone)) = belongings::belongs_to(wire) {
        return alone(client, object).await.map(Some);
    }
    let Some(perhaps) = belongings::may_be_beside(wire) else { return Ok(None) };
    let belongs = match (&perhaps.proof, multimaps) {
        (Proof::Multimap, Some(multimaps)) => multimaps.contains(&perhaps.object),
        _ => is_beside(client, wire, &perhaps).await?,
    };
    match (belongs, &perhaps.proof) {
        (false, _) => Ok(None),
        (true, Proof::Kinds(FILTER_CONFIG)) => alone(client, perhaps.object).await.map(Some),
        (true, _) => Ok(Some((perhaps.object, Role::Goes))),
    }
}

/// A key by which an object exists where nothing is under the plain name. A user who may not look has it for the object.
async fn alone(client: &Client, object: Bytes) -> Result<(Bytes, Role), ServerError> {
    let there = client.run::<bool>(Request::command("EXISTS").key(object.clone()).idempotent()).await;
    match there {
        Ok(true) => Ok((object, Role::Goes)),
        Ok(false) => Ok((object, Role::Own)),
        Err(error) if error.code() == Some(Code::NoPermission) => Ok((object, Role::Own)),
        Err(error) => Err(error),
    }
}

/// Whether an object is a multimap. A user who may not look has it for none.
pub(crate) async fn is_multimap(client: &Client, object: &Bytes) -> Result<bool, ServerError> {
    match multimap::look(client, object).await {
        Ok(found) => Ok(found.is_some()),
        Err(error) if error.code() == Some(Code::NoPermission) => Ok(false),
        Err(error) => Err(error),
    }
}

/// Those keys beside an object that belong to it.
pub(crate) async fn beside(client: &Client, object: &Bytes) -> Result<Vec<Bytes>, ServerError> {
    of_these(client, object, &belongings::beside(object)).await
}

/// Whether a key belongs to the object beside which it may be. A user who may not look at the object has it for another object.
async fn is_beside(client: &Client, key: &Bytes, perhaps: &Perhaps) -> Result<bool, ServerError> {
    let told = match &perhaps.proof {
        Proof::Kinds(at) => {
            // Of one client, it is what all clients have at this place.
            let mut beside = belongings::beside(&perhaps.object);
            beside[*at] = key.clone();
            of_these(client, &perhaps.object, &beside).await.map(|own| own.contains(key))
        }
        Proof::Multimap => return is_multimap(client, &perhaps.object).await,
        Proof::There(round) => client.run(Request::command("EXISTS").key(round.clone()).idempotent()).await,
    };
    match told {
        Err(error) if error.code() == Some(Code::NoPermission) => Ok(false),
        told => told,
    }
}

async fn of_these(client: &Client, object: &Bytes, beside: &[Bytes; 5]) -> Result<Vec<Bytes>, ServerError> {
    let keys = [object.clone()].into_iter().chain(beside.clone());
    match client.run_undivided(BELONGS.with(keys).idempotent()).await {
        Err(error) if error.code() == Some(Code::TryAgain) => looked_at(client, object, beside).await,
        answer => answer,
    }
}

/// The same rule, key by key, while they are on both sides of a migration.
async fn looked_at(client: &Client, object: &Bytes, beside: &[Bytes; 5]) -> Result<Vec<Bytes>, ServerError> {
    let kind = async |key: &Bytes| client.run::<Bytes>(Request::command("TYPE").key(key.clone()).idempotent()).await;
    let has = async |key: &Bytes, field: &'static str| {
        client.run::<bool>(Request::command("HEXISTS").key(key.clone()).arg(field).idempotent()).await
    };
    let is_number = async |key: &Bytes| {
        if client.run::<u64>(Request::command("STRLEN").key(key.clone()).idempotent()).await? > 20 {
            return Ok(false);
        }
        let text: Option<Bytes> = client.run(Request::command("GET").key(key.clone()).idempotent()).await?;
        let digits = text.as_deref().map(|text| text.strip_prefix(b"-").unwrap_or(text));
        Ok::<_, ServerError>(digits.is_some_and(|text| !text.is_empty() && text.iter().all(u8::is_ascii_digit)))
    };
    let [timeout, value, permits, allocation, config] = beside;
    let mut own = Vec::new();
    let of = kind(object).await?;
    match &*of {
        b"string" => {
            if kind(timeout).await? == "zset" && is_number(object).await? {
                own.push(timeout.clone());
            }
            if kind(allocation).await? == "string" && is_number(object).await? && is_number(allocation).await? {
                own.push(allocation.clone());
            }
        }
        b"stream" if kind(timeout).await? == "zset" => own.push(timeout.clone()),
        b"hash" if has(object, "rate").await? && has(object, "interval").await? => {
            if kind(value).await? == "string" {
                own.push(value.clone());
            }
            if kind(permits).await? == "zset" {
                own.push(permits.clone());
            }
        }
        _ => {}
    }
    if matches!(&*of, b"string" | b"none")
        && kind(config).await? == "hash"
        && has(config, "size").await?
        && has(config, "hashIterations").await?
    {
        own.push(config.clone());
    }
    Ok(own)
}

#[cfg(test)]
mod tests {
    use super::*;
    use redgrid_core::object::layouts::ALL;

    #[test]
    fn the_rule_has_every_key_that_layouts_have_behind_a_name() {
        let all = row(b"a");
        assert_eq!(all[..6], ["a", "{a}:timeout", "{a}:value", "{a}:permits", "{a}:allocation", "{a}:config"]);
        for key in ALL.iter().flat_map(|kind| (kind.keys)(b"a")) {
            assert!(all.contains(&key), "{key:?}");
        }
    }
}
