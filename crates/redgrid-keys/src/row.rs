//! The keys that go with an object, in a row, and which of those that may be somebody's own do.

use bytes::Bytes;
use redgrid_core::object::belongings::{self, Perhaps, Proof};

use redgrid_core::{BulkScript, Client, Code, Request, ServerError};

static BELONGS: BulkScript =
    BulkScript::new("keys/belongs", concat!(include_str!("scripts/rule.lua"), include_str!("scripts/belongs.lua")));

/// The key of an object, what may be beside it, and what is its by the prefix: as rule.lua has them.
pub(crate) fn row(object: &[u8]) -> Vec<Bytes> {
    let mut all = belongings::belongings(object);
    all.splice(1..1, belongings::beside(object));
    all
}

/// Those keys beside an object that belong to it.
pub(crate) async fn beside(client: &Client, object: &Bytes) -> Result<Vec<Bytes>, ServerError> {
    of_these(client, object, &belongings::beside(object)).await
}

/// Whether a key belongs to the object beside which it may be. Who may not look at the object has it for somebody's own.
pub(crate) async fn is_beside(client: &Client, key: &Bytes, perhaps: &Perhaps) -> Result<bool, ServerError> {
    let told = match &perhaps.proof {
        Proof::Kinds(at) => {
            // Of one client, it is what all clients have at this place.
            let mut beside = belongings::beside(&perhaps.object);
            beside[*at] = key.clone();
            of_these(client, &perhaps.object, &beside).await.map(|own| own.contains(key))
        }
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
    match &*kind(object).await? {
        b"string" => {
            if kind(timeout).await? == "zset" && is_number(object).await? {
                own.push(timeout.clone());
            }
            if kind(allocation).await? == "string" && is_number(object).await? && is_number(allocation).await? {
                own.push(allocation.clone());
            }
            if kind(config).await? == "hash" && has(config, "size").await? && has(config, "hashIterations").await? {
                own.push(config.clone());
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
