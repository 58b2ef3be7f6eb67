//! The keys that belong to an object, including keys that may belong to another user.

use std::collections::BTreeSet;

use bytes::Bytes;
use redgrid_core::author::ClientExt;
use redgrid_core::object::key_ownership::{self, Evidence, FILTER_CONFIG, MaybeOwned, OnDelete};
use redgrid_core::{BulkScript, Client, Code, Request, ServerError};

use crate::key::Role;
use crate::multimap;

static COMPANIONS: BulkScript = BulkScript::new(
    "keys/companions",
    concat!(include_str!("scripts/ownership.lua"), include_str!("scripts/companions.lua")),
);

/// Returns the key of an object, its possible companions, and the keys that belong to it by their
/// prefix.
///
/// This is the row of keys that ownership.lua expects.
pub(crate) fn key_row(object: &[u8]) -> Vec<Bytes> {
    let mut all = key_ownership::owned_keys(object);
    all.splice(1..1, key_ownership::suffixed_companions(object));
    all
}

/// Returns the keys that are renamed and copied with an object, but are not deleted with it.
pub(crate) fn token_keys(key: &[u8]) -> Vec<Bytes> {
    [redgrid_core::object::fence(key), redgrid_core::object::layouts::fenced_lock_token(key)].concat()
}

/// Returns the keys that count.lua and lifetimes.lua check: the object exists if one of them
/// exists.
pub(crate) fn existence_row(object: &[u8]) -> Vec<Bytes> {
    let mut all = key_ownership::primary_keys(object);
    all.insert(1, key_ownership::suffixed_companions(object)[FILTER_CONFIG].clone());
    all
}

/// Returns the object to which a key belongs, and its role there; `None` if the bytes of the key
/// alone determine them.
///
/// `multimaps` contains the objects that are known to be multimaps. It is `None` if the candidates
/// were not checked in advance.
pub(crate) async fn find_owner(
    client: &Client,
    wire: &Bytes,
    multimaps: Option<&BTreeSet<Bytes>>,
) -> Result<Option<(Bytes, Role)>, ServerError> {
    if let Some((object, OnDelete::PrimaryIfAlone)) = key_ownership::owner_of(wire) {
        return owner_or_itself(client, object).await.map(Some);
    }
    let Some(candidate) = key_ownership::possible_owner(wire) else { return Ok(None) };
    let belongs = match (&candidate.evidence, multimaps) {
        (Evidence::Multimap, Some(multimaps)) => multimaps.contains(&candidate.object),
        _ => is_companion(client, wire, &candidate).await?,
    };
    match (belongs, &candidate.evidence) {
        (false, _) => Ok(None),
        (true, Evidence::Types(FILTER_CONFIG)) => owner_or_itself(client, candidate.object).await.map(Some),
        (true, _) => Ok(Some((candidate.object, Role::Companion))),
    }
}

/// Returns the role of a key which is the object itself if the key with the plain name does not
/// exist.
///
/// If the user has no permission to check this, the key counts as the object.
async fn owner_or_itself(client: &Client, object: Bytes) -> Result<(Bytes, Role), ServerError> {
    let exists = client.run::<bool>(Request::command("EXISTS").key(object.clone()).idempotent()).await;
    match exists {
        Ok(true) => Ok((object, Role::Companion)),
        Ok(false) => Ok((object, Role::Object)),
        Err(error) if error.code() == Some(Code::NoPermission) => Ok((object, Role::Object)),
        Err(error) => Err(error),
    }
}

/// Returns whether an object is a multimap; false if the user has no permission to check this.
pub(crate) async fn is_multimap(client: &Client, object: &Bytes) -> Result<bool, ServerError> {
    match multimap::detect(client, object).await {
        Ok(found) => Ok(found.is_some()),
        Err(error) if error.code() == Some(Code::NoPermission) => Ok(false),
        Err(error) => Err(error),
    }
}

/// Returns the companions that belong to an object.
pub(crate) async fn companions(client: &Client, object: &Bytes) -> Result<Vec<Bytes>, ServerError> {
    owned_of(client, object, &key_ownership::suffixed_companions(object)).await
}

/// Returns whether a key is a companion of the candidate object.
///
/// If the user has no permission to check this, the key counts as another object.
async fn is_companion(client: &Client, key: &Bytes, candidate: &MaybeOwned) -> Result<bool, ServerError> {
    let belongs = match &candidate.evidence {
        Evidence::Types(index) => {
            // A key of a single client is checked in place of the key that all clients share at
            // this index.
            let mut candidates = key_ownership::suffixed_companions(&candidate.object);
            candidates[*index] = key.clone();
            owned_of(client, &candidate.object, &candidates).await.map(|owned| owned.contains(key))
        }
        Evidence::Multimap => return is_multimap(client, &candidate.object).await,
        Evidence::Exists(required) => client.run(Request::command("EXISTS").key(required.clone()).idempotent()).await,
    };
    match belongs {
        Err(error) if error.code() == Some(Code::NoPermission) => Ok(false),
        result => result,
    }
}

/// Returns the candidates that are companions of an object.
async fn owned_of(client: &Client, object: &Bytes, candidates: &[Bytes; 5]) -> Result<Vec<Bytes>, ServerError> {
    let keys = [object.clone()].into_iter().chain(candidates.clone());
    match client.run_same_slot(COMPANIONS.with(keys).idempotent()).await {
        Err(error) if error.code() == Some(Code::TryAgain) => owned_of_key_by_key(client, object, candidates).await,
        result => result,
    }
}

/// Applies the rule of ownership.lua key by key, while the keys are on both nodes of a migration.
async fn owned_of_key_by_key(
    client: &Client,
    object: &Bytes,
    candidates: &[Bytes; 5],
) -> Result<Vec<Bytes>, ServerError> {
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
    let [timeout, value, permits, allocation, config] = candidates;
    let mut owned = Vec::new();
    let object_kind = kind(object).await?;
    match &*object_kind {
        b"string" => {
            if kind(timeout).await? == "zset" && is_number(object).await? {
                owned.push(timeout.clone());
            }
            if kind(allocation).await? == "string" && is_number(object).await? && is_number(allocation).await? {
                owned.push(allocation.clone());
            }
        }
        b"stream" if kind(timeout).await? == "zset" => owned.push(timeout.clone()),
        b"hash" if has(object, "rate").await? && has(object, "interval").await? => {
            if kind(value).await? == "string" {
                owned.push(value.clone());
            }
            if kind(permits).await? == "zset" {
                owned.push(permits.clone());
            }
        }
        _ => {}
    }
    if matches!(&*object_kind, b"string" | b"none")
        && kind(config).await? == "hash"
        && has(config, "size").await?
        && has(config, "hashIterations").await?
    {
        owned.push(config.clone());
    }
    Ok(owned)
}

#[cfg(test)]
mod tests {
    use super::*;
    use redgrid_core::object::layouts::ALL;

    #[test]
    fn a_key_row_has_every_key_of_the_layouts() {
        let all = key_row(b"a");
        assert_eq!(all[..6], ["a", "{a}:timeout", "{a}:value", "{a}:permits", "{a}:allocation", "{a}:config"]);
        for key in ALL.iter().flat_map(|kind| (kind.keys)(b"a")) {
            assert!(all.contains(&key), "{key:?}");
        }
    }
}
