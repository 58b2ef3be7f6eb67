//! `redgrid ls`: lists the held locks of a server.

use std::collections::HashSet;
use std::pin::pin;
use std::process::ExitCode;

use clap::Args;
use futures_util::TryStreamExt;
use redgrid::ServerError;
use redgrid::client::Request;
use redgrid::keys::KeysError;
use redgrid::keys::{Key, Kind};
use serde::Serialize;
use uuid::Uuid;

use crate::cli::Global;
use crate::failure::{Failure, one_line};
use crate::inspect::{holder_text, lease_text};
use crate::server::{Reach, Server, print_line};

/// Number of keys that a server checks for one page of SCAN. One page was measured to take 0.4 ms
/// of the server's time, and about 10 ms on slow managed servers.
const KEYS_PER_PAGE: u32 = 500;

/// Number of hashes read concurrently.
const MAX_CONCURRENT: usize = 64;

/// Number of fields read of one hash. A lock has one field; larger hashes are not read further.
const FIELDS: &str = "8";

/// Options of `redgrid ls`.
#[derive(Debug, Args)]
pub(crate) struct LsOptions {
    /// Only names that match this glob pattern of Redis: orders:*
    #[arg(default_value = "*")]
    pattern: String,
    #[command(flatten)]
    reach: Reach,
}

/// A held lock. The fields are those of its JSON line, in its order.
#[derive(Debug, Serialize)]
struct Listed {
    name: String,
    client: String,
    number: u64,
    lease_left_ms: Option<u64>,
}

/// Runs `redgrid ls`: prints a line for each lock of every primary, as soon as it is found.
pub(crate) async fn run(global: &Global, options: &LsOptions) -> Result<ExitCode, Failure> {
    let server = Server::reach(global, &options.reach).await?;
    let listed = list(&server, options, global.json).await;
    server.leave().await;
    listed.map(|()| ExitCode::SUCCESS)
}

async fn list(server: &Server, options: &LsOptions, json: bool) -> Result<(), Failure> {
    let mut keys = server.grid.keys().objects().of_kind(Kind::Hash).page(KEYS_PER_PAGE);
    // The pattern `*` is omitted, so that the server does not compare names.
    if options.pattern != "*" {
        keys = keys.matching(options.pattern.clone());
    }
    let found = keys.map_err(|error| failed(server, &error)).map_ok(|key| lock_at(server, key));
    let mut found = pin!(found.try_buffer_unordered(MAX_CONCURRENT));
    // SCAN may return a key twice.
    let mut printed = HashSet::new();
    while let Some(lock) = found.try_next().await? {
        let Some(lock) = lock.filter(|lock| printed.insert(lock.name.clone())) else { continue };
        print_line(&if json {
            serde_json::to_string(&lock).map_err(|error| Failure::broken(error.to_string()))?
        } else {
            format!(
                "{}  {}, {}",
                lock.name,
                holder_text(&lock.client, Some(lock.number)),
                lease_text(lock.lease_left_ms)
            )
        })?;
    }
    Ok(())
}

fn failed(server: &Server, error: &KeysError) -> Failure {
    match error {
        KeysError::Failed(redgrid::Failure::InvalidArgument { .. }) => Failure::usage(one_line(error)),
        error => server.failed(error),
    }
}

/// Returns the lock at a key; `None` if the key does not exist or is not a lock.
async fn lock_at(server: &Server, key: Key) -> Result<Option<Listed>, Failure> {
    // The key is used unchanged: names chosen by other clients may violate the rules of this
    // library.
    let request = |name: &'static str| Request::command(name).key(key.wire().clone()).idempotent();
    let client = server.grid.client();
    let (fields, lease) = tokio::join!(
        client.run::<(String, Vec<String>)>(request("HSCAN").arg("0").arg("COUNT").arg(FIELDS)),
        client.run::<i64>(request("PTTL")),
    );
    let (more, fields) = match fields {
        // By now the key has another type, or its value is not text: it is not a lock.
        Err(ServerError::Refused { ref message, .. }) if message.starts_with("WRONGTYPE") => return Ok(None),
        Err(ServerError::Decode { .. }) => return Ok(None),
        fields => fields.map_err(|error| server.failed(&error))?,
    };
    let (holder, lease) =
        (fields.first().and_then(|field| holder(field)), lease.map_err(|error| server.failed(&error))?);
    Ok(match holder {
        // A lock has one field, the holder; its value is how often the holder has acquired the
        // lock.
        Some((client, number)) if fields.len() == 2 && more == "0" && lease != -2 => {
            Some(Listed { name: key.to_string(), client, number, lease_left_ms: u64::try_from(lease).ok() })
        }
        _ => None,
    })
}

/// Parses a holder field: `<uuid>:<number>`. It ends with `:kept` if the lock was released, but its
/// name stays reserved for a minimum time.
fn holder(field: &str) -> Option<(String, u64)> {
    let (client, number) = field.strip_suffix(":kept").unwrap_or(field).split_once(':')?;
    Uuid::try_parse(client).ok().filter(|_| client.len() == 36)?;
    Some((client.to_owned(), number.parse().ok()?))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_holder_is_a_uuid_and_a_number() {
        let id = "0f8fad5b-d9cb-469f-a165-70867728950e";
        assert_eq!(holder(&format!("{id}:17")), Some((id.into(), 17)));
        assert_eq!(holder(&format!("{id}:17:kept")), Some((id.into(), 17)));
        for other in
            [id, "name:17", "0f8fad5bd9cb469fa16570867728950e:17", &format!("{id}:17:write"), &format!("{id}:x")]
        {
            assert_eq!(holder(other), None, "{other}");
        }
    }
}
