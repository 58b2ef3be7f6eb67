//! Streams and reliable topics, with their groups.

use std::time::Duration;

use bytes::Bytes;
use redgrid_core::object::layouts;
use redgrid_keys::Key;

use crate::error::InspectError;
use crate::inspector::Inspector;
use crate::scripts::STREAM;

/// The most groups of a stream that are read: 100.
pub const MAX_GROUPS: u64 = 100;

/// The parts of a reply that describe a group.
const GROUP_PARTS: usize = 5;

/// A stream as the server sees it, or the stream of a reliable topic.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub struct StreamView {
    /// The name, without the namespace. Bytes of a name that is not UTF-8 are escaped.
    pub name: String,
    /// The number of entries. The entries of a topic are messages.
    pub len: u64,
    /// The number of entries that were added so far. `None` before Redis 7.0.
    pub added: Option<u64>,
    /// The id of the first entry. `None` if there is no entry.
    pub first_id: Option<String>,
    /// The id of the entry that was added last: `0-0` if none was.
    pub last_id: String,
    /// The number of groups. A reliable topic has one for each subscriber.
    pub group_count: u64,
    /// The groups. `None` if there are more than [`MAX_GROUPS`].
    pub groups: Option<Vec<GroupView>>,
    /// The subscribers of a reliable topic. `None` for a stream, and for a topic without
    /// subscribers.
    pub subscribers: Option<Subscribers>,
    /// The remaining lifetime. `None` if it has none.
    pub lifetime: Option<Duration>,
}

/// A group of a stream. A subscriber of a reliable topic is one, too.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub struct GroupView {
    /// The name, cut after 1,024 bytes. Bytes that are not UTF-8 are escaped.
    pub name: String,
    /// The number of consumers.
    pub consumers: u64,
    /// The number of entries that were delivered and not acknowledged.
    pub pending: u64,
    /// The id of the last entry that was delivered, or that a subscriber has acknowledged.
    pub delivered_id: String,
    /// The number of entries after that one. `None` if the server does not know it: before Redis
    /// 7.0, and after the group was set to another entry.
    pub lag: Option<u64>,
}

/// The subscribers of a reliable topic.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[non_exhaustive]
pub struct Subscribers {
    /// The number of subscribers that are registered.
    pub registered: u64,
    /// The number of subscribers with an expired lease. The next request of another subscriber
    /// removes them.
    pub expired: u64,
}

impl Inspector {
    /// Reads a stream or a reliable topic; `None` if there is none. Its name consists of any bytes.
    ///
    /// The server reads the first and the last entry, and returns neither.
    ///
    /// # Errors
    ///
    /// [`InspectError::Failed`] if no server answers, or the user may not read the stream.
    ///
    /// # Cancel safety
    ///
    /// Dropping the future changes nothing.
    pub async fn stream(&self, name: impl AsRef<[u8]>) -> Result<Option<StreamView>, InspectError> {
        let key = Key::of_name_bytes(&self.client, name);
        let name = key.to_string();
        let failed = |source| InspectError::of_object("read the stream", &name, source);
        let request = STREAM.with(layouts::reliable_topic(key.wire())).arg(MAX_GROUPS.to_string());
        let reply: Vec<Bytes> = self.client.run(request.idempotent()).await.map_err(failed)?;
        Ok(parse(&name, &reply))
    }
}

fn parse(name: &str, reply: &[Bytes]) -> Option<StreamView> {
    let [left, len, added, last, first, groups, registered, expired, parts @ ..] = reply else { return None };
    let group_count = number(groups)?;
    let subscribers = number(registered).zip(number(expired));
    Some(StreamView {
        name: name.to_owned(),
        len: number(len)?,
        added: number(added),
        first_id: Some(text(first)).filter(|id| !id.is_empty()),
        last_id: text(last),
        group_count,
        groups: (group_count <= MAX_GROUPS).then(|| parts.chunks_exact(GROUP_PARTS).filter_map(group).collect()),
        subscribers: subscribers.map(|(registered, expired)| Subscribers { registered, expired }),
        lifetime: number(left).map(Duration::from_millis),
    })
}

fn group(parts: &[Bytes]) -> Option<GroupView> {
    let [name, consumers, pending, delivered, lag] = parts else { return None };
    Some(GroupView {
        name: text(name),
        consumers: number(consumers)?,
        pending: number(pending)?,
        delivered_id: text(delivered),
        // It is negative if more entries count as delivered than were added.
        lag: number(lag),
    })
}

fn text(bytes: &[u8]) -> String {
    std::str::from_utf8(bytes).map_or_else(|_| bytes.escape_ascii().to_string(), str::to_owned)
}

fn number(text: &[u8]) -> Option<u64> {
    std::str::from_utf8(text).ok()?.parse().ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn view(reply: &[&[u8]]) -> Option<StreamView> {
        parse("log", &reply.iter().map(|part| Bytes::copy_from_slice(part)).collect::<Vec<_>>())
    }

    #[test]
    fn what_the_server_does_not_know_is_none() {
        // Redis 6.2, with an empty stream, and a group that was set to another entry.
        let old = view(&[b"-1", b"0", b"", b"7-0", b"", b"1", b"", b"", b"mail\xff", b"2", b"3", b"7-0", b""]);
        let old = old.expect("a stream");
        assert_eq!((old.len, old.added, old.first_id, old.lifetime), (0, None, None, None));
        let group = &old.groups.expect("one group")[0];
        assert_eq!((group.name.as_str(), group.consumers, group.pending, group.lag), ("mail\\xff", 2, 3, None));
        let topic = view(&[b"5000", b"4", b"9", b"8-1", b"7-0", b"101", b"101", b"2"]).expect("a topic");
        assert_eq!((topic.group_count, topic.groups), (101, None));
        assert_eq!(topic.subscribers, Some(Subscribers { registered: 101, expired: 2 }));
        assert_eq!((topic.first_id.as_deref(), topic.lifetime), (Some("7-0"), Some(Duration::from_secs(5))));
        assert_eq!(view(&[]), None);
    }
}
