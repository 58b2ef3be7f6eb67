//! Holders and waiters of a lock, as their fields on the server name them.

use std::time::Duration;

use uuid::Uuid;

/// The longest field of a holder: a UUID, a number and two suffixes.
const MAX_FIELD_LEN: usize = 80;

/// The length of the id of a client: a UUID with hyphens.
pub(crate) const ID_LEN: usize = 36;

/// How a holder holds a lock.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum Mode {
    /// Alone, in a lock that is not a read-write lock.
    Exclusive,
    /// As one of the readers of a read-write lock.
    Read,
    /// As the writer of a read-write lock.
    Write,
}

impl Mode {
    /// Returns the mode in one word, for output.
    pub fn as_str(self) -> &'static str {
        match self {
            Mode::Exclusive => "exclusive",
            Mode::Read => "read",
            Mode::Write => "write",
        }
    }
}

/// Whether the client of a holder is alive.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum HolderState {
    /// The client is connected.
    Alive,
    /// The client is connected, and did not answer a question in time, nor a second one. Its
    /// process may be stopped or overloaded. Or it does not report: its setting `introspection` is
    /// `off`, its user may not publish the answer, or its version is older than questions.
    Silent,
    /// A redgrid client without a channel on the servers: it has ended, or its subscription
    /// reconnects at this moment, or its user may not subscribe to it (`&redgrid_client:*`). The
    /// lock is free when its lease ends, if it has one and is not renewed.
    ///
    /// [`Inspector::lock_twice`](crate::Inspector::lock_twice) looks again, which excludes a client
    /// that reconnects. A client that may not subscribe is excluded only if it renews its lease
    /// between the two checks. A lease is renewed after each third of it, by default each 10 s.
    Gone,
    /// Not a redgrid client: Redisson's, or one of an older version that is not connected.
    NotRedgrid,
    /// Not known: the user may not list channels, not every server answered, or two checks
    /// contradict each other.
    Unknown,
}

impl HolderState {
    /// Returns the state in one or two words, for output.
    pub fn as_str(self) -> &'static str {
        match self {
            HolderState::Alive => "alive",
            HolderState::Silent => "silent",
            HolderState::Gone => "not connected",
            HolderState::NotRedgrid => "not redgrid",
            HolderState::Unknown => "unknown",
        }
    }

    /// Returns the state of a client that has no channel.
    ///
    /// The ids of redgrid's clients are UUIDs of version 8. The ids of Redisson have version 4.
    pub(crate) fn of_absent(client: &str) -> Self {
        match Uuid::try_parse(client).map(|id| id.get_version_num()) {
            Ok(8) => HolderState::Gone,
            _ => HolderState::NotRedgrid,
        }
    }
}

/// A holder of a lock.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub struct HolderView {
    /// The id of the client, a UUID.
    pub client: String,
    /// The number after the id: that of the grant for redgrid, that of the thread for Redisson.
    pub number: Option<u64>,
    /// How often the holder has entered, as known to the server: always 1 for redgrid.
    pub entries: u64,
    /// How it holds the lock.
    pub mode: Mode,
    /// Whether its client is alive.
    pub state: HolderState,
    /// The remaining lease of a reader, which is shorter than that of the lock if others read, too.
    ///
    /// Zero if the lease is over and the reader was not removed yet. It is `None` for holders that
    /// are not readers, and where it could not be read: for readers after the first hundred,
    /// without the permission, and while the slot moves.
    pub reader_lease_left: Option<Duration>,
    /// Whether the holder has released the lock, which stays taken until its lease ends
    /// (`hold_at_least`).
    pub is_retained: bool,
    /// The id with which [`Inspector::ask`](crate::Inspector::ask) asks this client; `None` unless
    /// it is connected.
    pub ask_id: Option<String>,
}

impl HolderView {
    /// Returns the field of the holder on the server, which names exactly this hold.
    pub fn field(&self) -> String {
        let number = self.number.map(|number| format!(":{number}")).unwrap_or_default();
        let write = if self.mode == Mode::Write { ":write" } else { "" };
        let kept = if self.is_retained { ":kept" } else { "" };
        format!("{}{number}{write}{kept}", self.client)
    }
}

/// A waiter in the queue of a fair lock.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub struct WaiterView {
    /// The id of the client, a UUID.
    pub client: String,
    /// The number in its future holder field.
    pub number: Option<u64>,
    /// Whether it is a position of redgrid. Others are Redisson's.
    pub is_redgrid: bool,
    /// Whether its client is alive.
    pub state: HolderState,
}

/// A holder field on the server: `<uuid>:<number>`, followed by `:write` for a writer, and by
/// `:kept` if the lock stays taken after the release.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct HolderField {
    pub(crate) client: String,
    pub(crate) number: u64,
    pub(crate) is_write: bool,
    pub(crate) is_retained: bool,
}

impl HolderField {
    /// Parses a field; `None` if it is not a holder's.
    pub(crate) fn parse(field: &[u8]) -> Option<Self> {
        let field = std::str::from_utf8(field).ok().filter(|field| field.len() <= MAX_FIELD_LEN)?;
        let (field, is_retained) = strip(field, ":kept");
        let (field, is_write) = strip(field, ":write");
        let (client, number) = field.split_once(':')?;
        let is_number = !number.is_empty() && number.bytes().all(|byte| byte.is_ascii_digit());
        let number = number.parse().ok().filter(|_| is_number)?;
        let client = client.to_owned();
        is_id(&client).then_some(HolderField { client, number, is_write, is_retained })
    }
}

/// Returns whether this is the id of a client: a UUID with hyphens.
pub(crate) fn is_id(text: &str) -> bool {
    text.len() == ID_LEN && Uuid::try_parse(text).is_ok()
}

fn strip<'a>(field: &'a str, suffix: &str) -> (&'a str, bool) {
    field.strip_suffix(suffix).map_or((field, false), |field| (field, true))
}

#[cfg(test)]
mod tests {
    use super::*;

    const ID: &str = "0f8fad5b-d9cb-469f-a165-70867728950e";

    #[test]
    fn a_holder_is_a_uuid_and_a_number() {
        let parse = |field: &str| HolderField::parse(field.as_bytes());
        let holder = |is_write, is_retained| Some(HolderField { client: ID.into(), number: 17, is_write, is_retained });
        assert_eq!(parse(&format!("{ID}:17")), holder(false, false));
        assert_eq!(parse(&format!("{ID}:17:write")), holder(true, false));
        assert_eq!(parse(&format!("{ID}:17:kept")), holder(false, true));
        assert_eq!(parse(&format!("{ID}:17:write:kept")), holder(true, true));
        let long = format!("{ID}:{}", "1".repeat(60));
        let other = [ID, "name:17", "0f8fad5bd9cb469fa16570867728950e:17", &long, "mode", ""].map(str::to_owned);
        let suffixes = ["x", "", "-1", "+1", "17:kept:write", "99999999999999999999", "17\0"];
        for field in other.into_iter().chain(suffixes.map(|number| format!("{ID}:{number}"))) {
            assert_eq!(parse(&field), None, "{field:?}");
        }
        assert_eq!(HolderField::parse(b"\xff\xfe"), None);
    }

    #[test]
    fn an_absent_client_is_redgrids_by_the_version_of_its_id() {
        assert_eq!(HolderState::of_absent(ID), HolderState::NotRedgrid);
        assert_eq!(HolderState::of_absent("0f8fad5b-d9cb-869f-a165-70867728950e"), HolderState::Gone);
        assert_eq!(HolderState::of_absent("not an id"), HolderState::NotRedgrid);
    }
}
