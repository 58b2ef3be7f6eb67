//! Reports that a client makes about itself on request: about its process, its holds and its
//! waiting tasks.
//!
//! Each client subscribes to a channel of its own, [`client_channel`]. Another process publishes a
//! [`question`] on that channel. The question names a reply channel, on which the client then
//! publishes a [`ClientReport`] as JSON. The setting
//! [`introspection`](crate::Config::introspection) limits or disables the reports. A report never
//! contains values of objects.
//!
//! A client makes at most one report a second. The next report answers the questions that have
//! arrived since the last one, up to 16. A report has at most [`MAX_REPORT_BYTES`].

use serde::{Deserialize, Serialize};
use uuid::Uuid;

/// The beginning of the name of each reply channel. A UUID with hyphens follows.
pub const REPLY_CHANNEL_PREFIX: &str = "redgrid_console:";

/// Maximum size of a report in bytes: 64 KiB.
pub const MAX_REPORT_BYTES: usize = 64 << 10;

/// The beginning of a question. The number is the version of the format.
const QUESTION: &str = "?1 ";

/// The length of a UUID with hyphens.
const UUID_LEN: usize = 36;

/// A client's report about itself. All durations are in milliseconds.
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
    /// The id of the process on its machine.
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
    /// The names with the most waiting time, the highest first. The weight of a wait halves every
    /// 10 minutes.
    pub contention: Vec<ContentionReport>,
    /// The latest events, the newest first.
    pub events: Vec<EventReport>,
    /// Whether the client left out entries of a list to limit the report's size.
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
    /// For a permit with a lease, this is the first 8 bytes of its id; for permits without leases,
    /// it is 0.
    pub number: u64,
    /// How long the lock or the permits have been held.
    pub held_for_ms: u64,
    /// The fencing token; `None` for permits and read holds. For a member of a quorum lock, this is
    /// the token of the member's own server.
    pub token: Option<u64>,
    /// How long the hold stays valid if it is not renewed; `None` for permits without leases.
    pub lease_left_ms: Option<u64>,
    /// Whether the lease is renewed.
    pub is_renewed: bool,
    /// The label that the caller has given to the acquire.
    pub label: Option<String>,
    /// The number of guards of the hold: more than 1 if the lock was re-entered. For permits, the
    /// number of permits.
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
    /// The longest time that one of these tasks has waited so far.
    pub longest_ms: u64,
}

/// The recent waits of the client's tasks for one name.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
#[non_exhaustive]
pub struct ContentionReport {
    /// The name of the lock or semaphore, without the namespace.
    pub name: String,
    /// The kind, as in the metrics.
    pub kind: String,
    /// The number of ended waits, weighted by age: the weight of a wait halves every 10 minutes.
    pub waits: u64,
    /// The sum of the lengths of these waits, with the same weights.
    pub total_ms: u64,
    /// The length of the longest wait. Once that wait is 10 minutes old, the next wait replaces it.
    pub longest_ms: u64,
}

/// An event that concerns a hold or a request of the client.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
#[non_exhaustive]
pub struct EventReport {
    /// How long ago the event happened.
    pub age_ms: u64,
    /// `lost`: a hold has ended without a release. `forced`: a hold was taken by force.
    /// `renewal failed`: a renewal was not confirmed. `unknown`: the outcome of a request is
    /// unknown.
    pub what: String,
    /// The name of the lock or semaphore, without the namespace.
    pub name: String,
    /// The reason, as text for people.
    pub detail: String,
}

/// Returns the channel of the client with this id: `redgrid_client:{<id>}`.
///
/// The braces are part of the name. For a client with a namespace, `id` is `<namespace>:<id>`.
pub fn client_channel(id: &str) -> String {
    format!("redgrid_client:{{{id}}}")
}

/// Returns the message that requests a client's report. The client publishes the report on
/// `reply_channel`.
pub fn question(reply_channel: &str) -> String {
    format!("{QUESTION}{reply_channel}")
}

/// Parses the payload of a question, and returns the reply channel.
///
/// The payload must be a question of version 1 with a reply channel of this form:
/// [`REPLY_CHANNEL_PREFIX`], then a UUID with hyphens. Otherwise the result is `None`.
pub fn parse_question(payload: &[u8]) -> Option<&str> {
    // The length is checked first, so a very long payload takes no more time than a short one.
    if payload.len() != QUESTION.len() + REPLY_CHANNEL_PREFIX.len() + UUID_LEN {
        return None;
    }
    let channel = std::str::from_utf8(payload).ok()?.strip_prefix(QUESTION)?;
    let id = channel.strip_prefix(REPLY_CHANNEL_PREFIX)?;
    Uuid::try_parse(id).ok().map(|_| channel)
}

/// Parses the payload of an answer, and returns the report.
///
/// The result is `None` if the answer is longer than [`MAX_REPORT_BYTES`], or is not a report.
pub fn parse_answer(payload: &[u8]) -> Option<ClientReport> {
    // The parser would also accept a list of values as a report.
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
