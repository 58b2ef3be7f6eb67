//! `redgrid ls`: the locks that are held on a server.

use std::collections::HashSet;
use std::process::ExitCode;

use clap::Args;
use futures_util::future::try_join_all;
use redgrid::{Request, ServerError};
use serde::Serialize;
use uuid::Uuid;

use crate::cli::Global;
use crate::failure::Failure;
use crate::look::{left, who};
use crate::server::{Reach, Server, say};

/// Keys looked at in one command: some 100 µs of the server's time, so that nobody else waits for long.
const KEYS_A_LOOK: &str = "500";

/// Fields read of one hash. A lock has one; what has more is read no further.
const FIELDS: &str = "8";

/// Options of `redgrid ls`.
#[derive(Debug, Args)]
pub(crate) struct LsOptions {
    /// Only names like this, in the patterns of Redis: orders:*
    #[arg(default_value = "*")]
    pattern: String,
    #[command(flatten)]
    reach: Reach,
}

/// A lock. The fields are those of its JSON line, in its order.
#[derive(Debug, Serialize)]
struct Listed {
    name: String,
    client: String,
    number: u64,
    lease_left_ms: Option<u64>,
}

/// Runs `redgrid ls`: a line for each lock, told as soon as it is found.
pub(crate) async fn run(global: &Global, options: &LsOptions) -> Result<ExitCode, Failure> {
    let server = Server::reach(global, &options.reach).await?;
    let prefix = match server.namespace.as_str() {
        "" => String::new(),
        namespace => format!("{namespace}:"),
    };
    let pattern = format!("{}{}", literally(&prefix), options.pattern);
    // SCAN may show a key twice.
    let mut told = HashSet::new();
    let mut cursor = "0".to_owned();
    loop {
        let page = page(&server, &cursor, &pattern).await.map_err(|error| server.failed(&error))?;
        cursor = page.0;
        let found = try_join_all(page.1.into_iter().filter(|key| !told.contains(key)).map(|key| look(&server, key)));
        for (key, mut lock) in found.await.map_err(|error| server.failed(&error))?.into_iter().flatten() {
            lock.name.drain(..prefix.len());
            say(&if global.json {
                serde_json::to_string(&lock).map_err(|error| Failure::broken(error.to_string()))?
            } else {
                format!("{}  {}, {}", lock.name, who(&lock.client, Some(lock.number)), left(lock.lease_left_ms))
            })?;
            told.insert(key);
        }
        if cursor == "0" {
            break;
        }
    }
    server.leave().await;
    Ok(ExitCode::SUCCESS)
}

/// The next few hashes whose names are like the pattern, and where to go on.
async fn page(server: &Server, cursor: &str, pattern: &str) -> Result<(String, Vec<String>), ServerError> {
    let scan = server.grid.command("SCAN").arg(cursor.to_owned()).arg("MATCH").arg(pattern.to_owned());
    let scan = scan.arg("COUNT").arg(KEYS_A_LOOK).arg("TYPE").arg("hash").idempotent();
    // A key that is no text is no lock of ours or of Redisson's.
    let (cursor, keys): (String, Vec<bytes::Bytes>) = scan.query().await?;
    Ok((cursor, keys.into_iter().filter_map(|key| String::from_utf8(key.to_vec()).ok()).collect()))
}

/// The lock under a key, if it is one and still there.
async fn look(server: &Server, key: String) -> Result<Option<(String, Listed)>, ServerError> {
    // The name may break our rules, as those of other clients do: the key is taken as it is.
    let request = |name: &'static str| Request::command(name).key(key.clone()).idempotent();
    let client = server.grid.client();
    let (fields, lease) = tokio::join!(
        client.run::<(String, Vec<String>)>(request("HSCAN").arg("0").arg("COUNT").arg(FIELDS)),
        client.run::<i64>(request("PTTL")),
    );
    let (more, fields) = match fields {
        // It has become something else, or holds what is no text: no lock.
        Err(ServerError::Refused { .. } | ServerError::Decode { .. }) => return Ok(None),
        fields => fields?,
    };
    let (holder, lease) = (fields.first().and_then(|field| holder(field)), lease?);
    Ok(match holder {
        // One field and its value: a holder and how often it has entered.
        Some((client, number)) if fields.len() == 2 && more == "0" && lease != -2 => {
            let listed = Listed { name: key.clone(), client, number, lease_left_ms: u64::try_from(lease).ok() };
            Some((key, listed))
        }
        _ => None,
    })
}

/// A holder field: `<uuid>:<number>`.
fn holder(field: &str) -> Option<(String, u64)> {
    let (client, number) = field.split_once(':')?;
    Uuid::try_parse(client).ok().filter(|_| client.len() == 36)?;
    Some((client.to_owned(), number.parse().ok()?))
}

/// Text that a pattern of Redis takes as it is.
fn literally(text: &str) -> String {
    let mut out = String::with_capacity(text.len());
    for sign in text.chars() {
        if matches!(sign, '*' | '?' | '[' | ']' | '\\' | '^' | '-') {
            out.push('\\');
        }
        out.push(sign);
    }
    out
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_holder_is_a_uuid_and_a_number() {
        let id = "0f8fad5b-d9cb-469f-a165-70867728950e";
        assert_eq!(holder(&format!("{id}:17")), Some((id.into(), 17)));
        for other in
            [id, "name:17", "0f8fad5bd9cb469fa16570867728950e:17", &format!("{id}:17:write"), &format!("{id}:x")]
        {
            assert_eq!(holder(other), None, "{other}");
        }
    }

    #[test]
    fn a_namespace_is_no_pattern() {
        assert_eq!(literally("a*b[1]?\\"), "a\\*b\\[1\\]\\?\\\\");
    }
}
