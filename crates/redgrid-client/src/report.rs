//! What a client reports of itself when it is asked: its process, its holds, its waiting tasks.
//!
//! Each client listens at a channel of its own, [`client_channel`]. Another process asks by
//! publishing a [`question`] there, which names a reply channel. The client publishes a
//! [`ClientReport`] as JSON at the reply channel. The setting
//! [`introspection`](crate::Config::introspection) limits or ends this. A report never contains
//! values of objects.
//!
//! A client publishes at most one report a second. Questions that arrive within that second get the
//! next report. A report has at most [`MAX_REPORT_BYTES`].

use serde::{Deserialize, Serialize};
use uuid::Uuid;

/// What the name of each reply channel begins with. A UUID follows, with hyphens.
pub const REPLY_CHANNEL_PREFIX: &str = "redgrid_console:";

/// The most bytes of a report: 64 KiB.
pub const MAX_REPORT_BYTES: usize = 64 << 10;

/// The beginning of a question. The number is the version of the format.
const QUESTION: &str = "?1 ";

/// The length of a UUID with hyphens.
const UUID_LEN: usize = 36;

/// What a process reports of one client. All durations are in milliseconds.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
#[non_exhaustive]
pub struct ClientReport {
    /// The version of the report's format: 1.
    pub schema: u32,
    /// The id of the client.
    pub id: String,
    /// The name of the machine; empty if it is unknown.
    pub host: String,
    /// The number of the process on its machine.
    pub pid: u32,
    /// The file name of the program; empty if it is unknown.
    pub program: String,
    /// The name of the connections, from the setting `client_name`.
    pub client_name: String,
    /// The version of redgrid.
    pub version: String,
    /// When the client was started, in milliseconds since 1970.
    pub started_ms: u64,
    /// The number of held locks and permits.
    pub holds: u64,
    /// The number of tasks that wait for a lock or a permit.
    pub waiting: u64,
    /// The held locks and permits, the oldest first.
    pub held: Vec<HeldReport>,
    /// The names that tasks wait for, the longest wait first.
    pub waits: Vec<WaitReport>,
    /// The names with the most waiting time lately, the highest first. Old waits count less and
    /// less.
    pub contention: Vec<ContentionReport>,
    /// The last events, the newest first.
    pub events: Vec<EventReport>,
    /// Whether one of the lists has fewer entries than the client knows.
    pub is_truncated: bool,
}

/// A held lock, or held permits.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
#[non_exhaustive]
pub struct HeldReport {
    /// The name of the lock or semaphore, without the namespace.
    pub name: String,
    /// The kind, as in the metrics: `lock`, `fair`, `leased_semaphore` and so on.
    pub kind: String,
    /// The number in the holder field on the server. Tasks that share a grant have the same number.
    /// For a permit with a lease, the first 8 bytes of its id. For permits without leases, 0.
    pub number: u64,
    /// How long the task has held it.
    pub held_for_ms: u64,
    /// The fencing token; `None` for permits and read holds. A member of a quorum lock has the token
    /// of its own server.
    pub token: Option<u64>,
    /// For how long it stays valid without another renewal; `None` for permits without leases.
    pub lease_left_ms: Option<u64>,
    /// Whether the lease is renewed.
    pub is_renewed: bool,
    /// The label that the caller has given to the acquire.
    pub label: Option<String>,
    /// How many guards the hold has, because it was re-entered; for permits, their number.
    pub entries: u64,
}

/// A name that tasks of the client wait for.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
#[non_exhaustive]
pub struct WaitReport {
    /// The name of the lock or semaphore, without the namespace.
    pub name: String,
    /// The kind, as in the metrics.
    pub kind: String,
    /// The number of waiting tasks.
    pub tasks: u64,
    /// How long the first of them has waited.
    pub longest_ms: u64,
}

/// How much tasks of the client have waited for one name.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
#[non_exhaustive]
pub struct ContentionReport {
    /// The name of the lock or semaphore, without the namespace.
    pub name: String,
    /// The kind, as in the metrics.
    pub kind: String,
    /// The number of waits that have ended.
    pub waits: u64,
    /// The sum of their lengths.
    pub total_ms: u64,
    /// The length of the longest one.
    pub longest_ms: u64,
}

/// Something that happened to a hold or a request of the client.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
#[non_exhaustive]
pub struct EventReport {
    /// How long ago it happened.
    pub age_ms: u64,
    /// `lost`: a hold has ended without a release. `forced`: it was taken by force. `renewal
    /// failed`: a renewal was not confirmed. `unknown`: the outcome of a request is unknown.
    pub what: String,
    /// The name of the lock or semaphore, without the namespace.
    pub name: String,
    /// The reason, for people.
    pub detail: String,
}

/// Returns the channel at which the client with this id listens: `redgrid_client:{<id>}`.
///
/// The braces are part of the name. For a client with a namespace, `id` is `<namespace>:<id>`.
pub fn client_channel(id: &str) -> String {
    format!("redgrid_client:{{{id}}}")
}

/// Returns the question that asks a client to publish its report at `reply_channel`.
pub fn question(reply_channel: &str) -> String {
    format!("{QUESTION}{reply_channel}")
}

/// Returns the reply channel of a question.
///
/// The result is `None` unless the payload is a question of version 1, whose channel is
/// [`REPLY_CHANNEL_PREFIX`] followed by a UUID with hyphens.
pub fn parse_question(payload: &[u8]) -> Option<&str> {
    // The length decides first: a payload of any size costs nothing.
    if payload.len() != QUESTION.len() + REPLY_CHANNEL_PREFIX.len() + UUID_LEN {
        return None;
    }
    let channel = std::str::from_utf8(payload).ok()?.strip_prefix(QUESTION)?;
    let id = channel.strip_prefix(REPLY_CHANNEL_PREFIX)?;
    Uuid::try_parse(id).ok().map(|_| channel)
}

/// Returns the report in an answer.
///
/// The result is `None` for an answer of more than [`MAX_REPORT_BYTES`], and for one that is no
/// report.
pub fn parse_answer(payload: &[u8]) -> Option<ClientReport> {
    // A list of values would also be read as a report.
    let is_object = payload.first() == Some(&b'{') && payload.len() <= MAX_REPORT_BYTES;
    if is_object { serde_json::from_slice(payload).ok() } else { None }
}

#[cfg(test)]
mod tests {
    use super::*;

    const CHANNEL: &str = "redgrid_console:123e4567-e89b-82d3-a456-426614174000";

    #[test]
    fn a_question_names_its_reply_channel() {
        assert_eq!(parse_question(question(CHANNEL).as_bytes()), Some(CHANNEL));
        assert_eq!(client_channel("prod:7"), "redgrid_client:{prod:7}");
    }

    #[test]
    fn other_payloads_are_no_questions() {
        let id = "123e4567-e89b-82d3-a456-426614174000";
        let forged = [
            String::new(),
            "?".into(),
            "?1 ".into(),
            CHANNEL.into(),
            question(REPLY_CHANNEL_PREFIX),
            question(&format!("{CHANNEL} ")),
            question(&format!("redgrid_other__:{id}")),
            question(&format!("orders:{id}")),
            question("redgrid_console:123e4567e89b82d3a456426614174000"),
            question("redgrid_console:123e4567-e89b-82d3-a456-42661417400g"),
            format!("?2 {CHANNEL}"),
            format!("{id}:7"),
            question(&"x".repeat(10 << 20)),
        ];
        for payload in forged {
            assert_eq!(parse_question(payload.as_bytes()), None, "{}", payload.get(..80).unwrap_or(&payload));
        }
        let mut payload = question(CHANNEL).into_bytes();
        payload[20] = 0xff;
        assert_eq!(parse_question(&payload), None, "not UTF-8");
    }

    #[test]
    fn an_answer_may_lack_fields_and_have_further_ones() {
        let report = parse_answer(br#"{"schema":2,"id":"a","held":[{"name":"x","new":1}],"more":[]}"#).unwrap();
        assert_eq!((report.schema, &*report.id, &*report.held[0].name), (2, "a", "x"));
        assert_eq!(parse_answer(serde_json::to_vec(&report).unwrap().as_slice()), Some(report));
    }

    #[test]
    fn other_payloads_are_no_answers() {
        let long = [b"{\"id\":\"", "x".repeat(MAX_REPORT_BYTES).as_bytes(), b"\"}"].concat();
        for payload in [&b""[..], b"null", b"[7]", b"{\"id\":7}", b"{\"id\":\"a\"", b"\xff\xfe", &long] {
            assert_eq!(parse_answer(payload), None, "{:?}", payload.get(..20).unwrap_or(payload));
        }
    }
}
