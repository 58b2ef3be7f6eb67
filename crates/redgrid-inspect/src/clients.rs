//! Which clients are connected, by the channels at which they listen.

use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use bytes::Bytes;
use futures_util::future::join_all;
use redgrid_core::author::ClientExt;
use redgrid_core::report::client_channel;
use redgrid_core::{Code, Pairs, Primary, Request, ServerError};

use crate::error::InspectError;
use crate::holder::{HolderState, ID_LEN, is_id};
use crate::inspector::Inspector;

/// The most clients that are returned.
const MAX_CLIENTS: usize = 10_000;

/// A node with more channels than this is left out: its reply would have some 5 MB.
const MAX_CHANNELS: u64 = 50_000;

/// How long one node may take to answer: 2 s. The others have answered by then.
const NODE_TIMEOUT: Duration = Duration::from_secs(2);

/// A node that was started less than 10 s ago may lack clients that have not reconnected yet.
const SETTLED: Duration = Duration::from_secs(10);

/// The most clients of a lock's holders, and the most of its waiters, that are looked for.
const MAX_OF_LOCK: usize = 100;

/// The most namespaces that are tried for a key: a key `a:b:c` can be of the namespaces `a` and
/// `a:b`.
const MAX_NAMESPACES: usize = 8;

/// The clients that are connected.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct LivingClients {
    /// The ids of the clients, sorted.
    ///
    /// For a client of another namespace, below that of the inspector, its namespace and a colon
    /// precede its id.
    pub ids: Vec<String>,
    /// Whether these are all of them. Otherwise a node did not answer, has more than 50,000
    /// channels, or does not report their number, or there are more than 10,000 clients.
    pub is_complete: bool,
    /// The number of channels of the node that has the most. Listing takes a node some 100 µs for
    /// each 1,000 of its channels.
    pub most_channels: u64,
}

impl LivingClients {
    /// Returns the entry of [`ids`](LivingClients::ids) with this client.
    pub fn find(&self, client: &str) -> Option<&str> {
        let is_it = |id: &&String| id.strip_suffix(client).is_some_and(|rest| rest.is_empty() || rest.ends_with(':'));
        match self.ids.binary_search_by(|id| id.as_str().cmp(client)) {
            Ok(at) => Some(&self.ids[at]),
            Err(_) => self.ids.iter().find(is_it).map(String::as_str),
        }
    }

    /// Returns whether the client of a holder is alive, as far as this list shows.
    ///
    /// A client is absent for a moment while its subscription reconnects. So look again before you
    /// rely on [`HolderState::Gone`], as [`Inspector::lock_twice`] does.
    pub fn state_of(&self, client: &str) -> HolderState {
        match self.find(client) {
            Some(_) => HolderState::Alive,
            None if self.is_complete => HolderState::of_absent(client),
            None => HolderState::Unknown,
        }
    }
}

/// Which of some clients are connected.
pub(crate) struct Presence {
    /// The ids of the connected clients, each with the id for questions, if it can be asked.
    living: BTreeMap<String, Option<String>>,
    /// The clients that were looked for.
    wanted: BTreeSet<String>,
    is_complete: bool,
}

impl Presence {
    /// Returns the state of a client, and the id with which it can be asked.
    pub(crate) fn of(&self, client: &str) -> (HolderState, Option<String>) {
        match self.living.get(client) {
            Some(ask_id) => (HolderState::Alive, ask_id.clone()),
            None if self.is_complete && self.wanted.contains(client) => (HolderState::of_absent(client), None),
            None => (HolderState::Unknown, None),
        }
    }
}

impl Inspector {
    /// Returns the clients of the namespace that are connected to any node, including this one.
    ///
    /// A client has a channel as long as its process lives, so this costs the clients nothing. A
    /// process that ends is absent at once. A client on a machine that is cut off is absent when
    /// the server closes its connection. A client without the permission to subscribe to its
    /// channel (`&redgrid_client:*`) is never present. There are at most 10,000.
    ///
    /// # Errors
    ///
    /// [`InspectError::Failed`] if no node answers, or the user may not list channels
    /// (`+pubsub|channels`), or may not read their number (`+info`): a list of unknown length is
    /// not read.
    ///
    /// # Cancel safety
    ///
    /// Dropping the future changes nothing.
    pub async fn living_clients(&self) -> Result<LivingClients, InspectError> {
        let failed = |source| InspectError::of_read("list the clients", source);
        let prefix = self.client.notice_prefix();
        let pattern = [&escape(&prefix)[..], "*}"].concat();
        let nodes = self.client.primaries().await.map_err(failed)?;
        let replies = join_all(nodes.iter().map(|node| within(self.channels_at(node, &pattern)))).await;
        let mut ids = BTreeSet::new();
        let (mut is_complete, mut has_answer) = (true, false);
        let mut most_channels = 0;
        let mut failure = None;
        for reply in replies {
            match reply {
                Ok((count, channels)) => {
                    has_answer = true;
                    most_channels = most_channels.max(count);
                    is_complete &= channels.is_some();
                    ids.extend(channels.iter().flatten().filter_map(|channel| id_of(channel, &prefix)));
                }
                Err(error) if error.code() == Some(Code::NoPermission) => return Err(failed(error)),
                Err(error) => {
                    is_complete = false;
                    failure = Some(error);
                }
            }
        }
        match failure {
            Some(error) if !has_answer => Err(failed(error)),
            _ => {
                is_complete &= ids.len() <= MAX_CLIENTS;
                Ok(LivingClients { ids: ids.into_iter().take(MAX_CLIENTS).collect(), is_complete, most_channels })
            }
        }
    }

    /// Returns the number of all channels of a node, and those that match; `None` if it has too
    /// many, or their number is not known.
    async fn channels_at(&self, node: &Primary, pattern: &str) -> Result<(u64, Option<Vec<Bytes>>), ServerError> {
        let info: String = self.client.run_on(node, Request::command("INFO").arg("stats").idempotent()).await?;
        let Some(count) = channel_count(&info) else { return Ok((0, None)) };
        if count > MAX_CHANNELS {
            return Ok((count, None));
        }
        let list = Request::command("PUBSUB").arg("CHANNELS").arg(pattern.to_owned()).idempotent();
        Ok((count, Some(self.client.run_on(node, list).await?)))
    }

    /// Returns whether each primary has run for at least 10 s. Clients may not have connected to a
    /// node that was started a moment ago. Without the permission for INFO it is assumed.
    pub(crate) async fn is_settled(&self) -> Result<bool, ServerError> {
        let info = Request::command("INFO").arg("server").idempotent();
        let nodes = self.client.primaries().await?;
        let replies = nodes.iter().map(|node| within(self.client.run_on::<String>(node, info.clone())));
        let is_settled = |reply: Result<String, ServerError>| match reply {
            Err(error) => error.code() == Some(Code::NoPermission),
            Ok(info) => {
                let uptime = info.lines().find_map(|line| line.strip_prefix("uptime_in_seconds:")?.trim().parse().ok());
                uptime.is_none_or(|uptime: u64| Duration::from_secs(uptime) >= SETTLED)
            }
        };
        Ok(join_all(replies).await.into_iter().all(is_settled))
    }

    /// Finds out which of these clients are connected. They are clients of a lock with this key, so
    /// their namespace is a part of the key.
    ///
    /// It counts the subscribers of their channels, so its cost does not depend on the number of
    /// other channels.
    pub(crate) async fn presence(&self, key: &[u8], wanted: BTreeSet<String>) -> Result<Presence, ServerError> {
        let mut presence = Presence { living: BTreeMap::new(), wanted, is_complete: true };
        let namespaces = namespaces_of(key);
        let channels: Vec<(String, String)> = presence
            .wanted
            .iter()
            .flat_map(|client| namespaces.iter().map(move |namespace| (channel_of(namespace, client), client.clone())))
            .collect();
        if channels.is_empty() {
            return Ok(presence);
        }
        let count = Request::command("PUBSUB").arg("NUMSUB");
        let count = channels.iter().fold(count, |count, (channel, _)| count.arg(channel.clone())).idempotent();
        let nodes = self.client.primaries().await?;
        let counts = nodes.iter().map(|node| within(self.client.run_on::<Pairs<Bytes, u64>>(node, count.clone())));
        let mut subscribed = BTreeSet::new();
        for reply in join_all(counts).await {
            match reply {
                Ok(Pairs(counts)) => {
                    subscribed.extend(counts.into_iter().filter(|(_, count)| *count > 0).map(|(channel, _)| channel));
                }
                Err(ServerError::ShuttingDown) => return Err(ServerError::ShuttingDown),
                // Without the permission, or without an answer, absent clients are unknown.
                Err(_) => presence.is_complete = false,
            }
        }
        let prefix = self.client.notice_prefix();
        for (channel, client) in channels.into_iter().filter(|(channel, _)| subscribed.contains(channel.as_bytes())) {
            let ask_id = channel.strip_prefix(&prefix).and_then(|rest| rest.strip_suffix('}')).map(str::to_owned);
            let known = presence.living.entry(client).or_default();
            *known = known.take().or(ask_id);
        }
        Ok(presence)
    }
}

/// Returns the first of these clients, each once.
pub(crate) fn first_clients<'a>(clients: impl Iterator<Item = &'a String>) -> BTreeSet<String> {
    let mut first = BTreeSet::new();
    for client in clients {
        if first.len() >= MAX_OF_LOCK {
            break;
        }
        if !first.contains(client) {
            first.insert(client.clone());
        }
    }
    first
}

/// Waits for a node, at most [`NODE_TIMEOUT`].
async fn within<T>(reply: impl Future<Output = Result<T, ServerError>>) -> Result<T, ServerError> {
    let late = || ServerError::Unknown { reason: "the node did not answer in time".into() };
    tokio::time::timeout(NODE_TIMEOUT, reply).await.unwrap_or_else(|_| Err(late()))
}

/// Returns the number of channels in a reply to `INFO`.
fn channel_count(info: &str) -> Option<u64> {
    info.lines().find_map(|line| line.strip_prefix("pubsub_channels:")?.trim().parse().ok())
}

/// Escapes the special characters of patterns.
fn escape(text: &str) -> String {
    let mut escaped = String::with_capacity(text.len());
    for character in text.chars() {
        if matches!(character, '*' | '?' | '[' | ']' | '\\' | '^') {
            escaped.push('\\');
        }
        escaped.push(character);
    }
    escaped
}

/// Returns the id in the name of a client's channel.
fn id_of(channel: &[u8], prefix: &str) -> Option<String> {
    let id = std::str::from_utf8(channel).ok()?.strip_prefix(prefix)?.strip_suffix('}')?;
    let (namespace, uuid) = id.split_at_checked(id.len().checked_sub(ID_LEN)?)?;
    (is_id(uuid) && (namespace.is_empty() || namespace.ends_with(':'))).then(|| id.to_owned())
}

/// Returns the namespaces that a key can be of: none, and each part before a colon.
fn namespaces_of(key: &[u8]) -> Vec<String> {
    let key = String::from_utf8_lossy(key);
    let ends = key.match_indices(':').map(|(at, _)| at).filter(|at| *at > 0).take(MAX_NAMESPACES);
    std::iter::once(String::new()).chain(ends.map(|end| key[..end].to_owned())).collect()
}

fn channel_of(namespace: &str, client: &str) -> String {
    if namespace.is_empty() { client_channel(client) } else { client_channel(&format!("{namespace}:{client}")) }
}

#[cfg(test)]
mod tests {
    use super::*;

    const ID: &str = "0f8fad5b-d9cb-469f-a165-70867728950e";

    #[test]
    fn only_channels_of_clients_have_an_id() {
        let of = |channel: &str, prefix| id_of(channel.as_bytes(), prefix);
        assert_eq!(of(&format!("redgrid_client:{{{ID}}}"), "redgrid_client:{"), Some(ID.into()));
        assert_eq!(of(&format!("redgrid_client:{{prod:{ID}}}"), "redgrid_client:{prod:"), Some(ID.into()));
        assert_eq!(of(&format!("redgrid_client:{{prod:{ID}}}"), "redgrid_client:{"), Some(format!("prod:{ID}")));
        let others = [format!("{{x{ID}}}"), format!("{{{ID}"), "{}".into(), "{<img onerror>}".into(), "{ü}".into()];
        for other in others {
            assert_eq!(of(&format!("redgrid_client:{other}"), "redgrid_client:{"), None, "{other}");
        }
        assert_eq!(id_of(b"redgrid_client:{\xff}", "redgrid_client:{"), None);
    }

    #[test]
    fn the_number_of_channels_is_not_guessed() {
        assert_eq!(channel_count("# Stats\r\npubsub_channels:7\r\npubsub_patterns:1\r\n"), Some(7));
        assert_eq!((channel_count("pubsub_channels:many\r\n"), channel_count("")), (None, None));
    }

    #[test]
    fn a_namespace_is_no_pattern() {
        assert_eq!(escape("redgrid_client:{p*d[1]?^\\:"), "redgrid_client:{p\\*d\\[1\\]\\?\\^\\\\:");
    }

    #[test]
    fn a_key_can_be_of_each_namespace_before_a_colon() {
        assert_eq!(namespaces_of(b"a:b:c"), ["", "a", "a:b"]);
        assert_eq!((namespaces_of(b"job"), namespaces_of(b":job")), (vec![String::new()], vec![String::new()]));
        assert_eq!(namespaces_of(":x".repeat(100).as_bytes()).len(), 9);
    }

    #[test]
    fn an_absent_client_is_gone_only_if_all_are_known() {
        let gone = "0f8fad5b-d9cb-869f-a165-70867728950e";
        let mut living =
            LivingClients { ids: vec![ID.into(), format!("prod:{gone}")], is_complete: true, most_channels: 2 };
        assert_eq!((living.state_of(ID), living.find(gone)), (HolderState::Alive, Some(&*format!("prod:{gone}"))));
        living.ids.pop();
        assert_eq!(living.state_of(gone), HolderState::Gone);
        living.is_complete = false;
        assert_eq!((living.state_of(ID), living.state_of(gone)), (HolderState::Alive, HolderState::Unknown));
    }

    #[test]
    fn of_many_clients_the_first_are_looked_for() {
        let clients: Vec<String> = (0..300).map(|nth| format!("{:03}", nth / 2)).collect();
        let first = first_clients(clients.iter());
        assert_eq!((first.len(), first.last().map(String::as_str)), (MAX_OF_LOCK, Some("099")));
    }

    #[test]
    fn a_client_that_was_not_looked_for_is_unknown() {
        let wanted = BTreeSet::from([ID.to_owned()]);
        let presence = Presence { living: BTreeMap::new(), wanted, is_complete: true };
        let other = "0f8fad5b-d9cb-869f-a165-70867728950e";
        assert_eq!((presence.of(ID).0, presence.of(other).0), (HolderState::NotRedgrid, HolderState::Unknown));
    }
}
