//! The notice channel of a client: questions are answered, other notices go to the service.
//!
//! A question is a request for a report about the client. The client publishes its answer, a
//! [`ClientReport`], at the reply channel of the question. Notices are read even while an answer is
//! being prepared, because a notice may report that a hold was taken over by force.

use std::sync::{Arc, OnceLock};
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use bytes::Bytes;
use serde::Serialize;

use crate::clock::Instant;
use crate::config::Introspection;
use crate::connection::service::{BackgroundTask, ServiceSlot};
use crate::connection::{Core, Request};
use crate::error::ServerError;
use crate::pubsub::{ChannelEvent, OrderedSubscription};
use crate::report::{ClientReport, MAX_REPORT_BYTES, parse_question};

/// The shortest time between two reports: 1 s.
const INTERVAL: Duration = Duration::from_secs(1);

/// Maximum number of reply channels that get the next report. Further questions are ignored.
const MAX_CHANNELS: usize = 16;

/// The version of the report's format.
const SCHEMA: u32 = 1;

/// Maximum length of the names of the machine, the program and the client, in characters.
const MAX_NAME: usize = 255;

/// Reads the notices of the client. Answers questions, and passes everything else to the service.
///
/// Without a service the client holds nothing. Notices other than questions are then dropped,
/// because they report only what happened to holds.
pub(in crate::connection) async fn listen(
    core: Arc<Core>,
    slot: Arc<ServiceSlot>,
    mut notices: OrderedSubscription,
    began: Instant,
) {
    let mut questions = Questions::default();
    let mut answer: Option<BackgroundTask> = None;
    loop {
        let due = if answer.is_none() { questions.due() } else { Instant::MAX };
        tokio::select! {
            notice = notices.next() => match &notice {
                ChannelEvent::Message { payload, .. } if payload.first() == Some(&b'?') => {
                    if core.settings.introspection != Introspection::Off {
                        questions.add(parse_question(payload));
                    }
                }
                notice => slot.get().into_iter().for_each(|service| service.notice(notice)),
            },
            () = core.clock.sleep_until(due) => {
                let channels = questions.take(core.clock.now());
                let (core, slot) = (Arc::clone(&core), Arc::clone(&slot));
                answer = Some(Box::pin(async move { publish(&core, report(&core, &slot, began).await, channels).await }));
            }
            () = async { if let Some(answer) = &mut answer { answer.await } }, if answer.is_some() => answer = None,
        }
    }
}

/// The questions that were not answered yet.
#[derive(Default)]
struct Questions {
    channels: Vec<String>,
    /// No report is published before this time.
    not_before: Instant,
}

impl Questions {
    /// Adds a question: a request for the report of this client. The report is to be published at
    /// `channel`, which is `None` if the question is invalid.
    fn add(&mut self, channel: Option<&str>) {
        let is_new =
            |channel: &&str| self.channels.len() < MAX_CHANNELS && !self.channels.iter().any(|it| it == channel);
        if let Some(channel) = channel.filter(is_new) {
            self.channels.push(channel.to_owned());
        }
    }

    /// Returns the time of the next report; `Instant::MAX` without a question.
    fn due(&self) -> Instant {
        if self.channels.is_empty() { Instant::MAX } else { self.not_before }
    }

    /// Removes and returns all reply channels. The caller makes one report for them now.
    fn take(&mut self, now: Instant) -> Vec<String> {
        self.not_before = now + INTERVAL;
        std::mem::take(&mut self.channels)
    }
}

/// Makes the report of the client.
async fn report(core: &Core, slot: &ServiceSlot, began: Instant) -> ClientReport {
    let of_service = match slot.get() {
        Some(service) => Arc::clone(service).report().await,
        None => ClientReport::default(),
    };
    let (host, program) = process();
    let started = SystemTime::now().checked_sub(core.clock.now().since(began));
    let started = started.and_then(|started| started.duration_since(UNIX_EPOCH).ok()).unwrap_or_default();
    ClientReport {
        schema: SCHEMA,
        id: core.id.clone(),
        host: host.clone(),
        pid: std::process::id(),
        program: program.clone(),
        client_name: core.settings.client_name.chars().take(MAX_NAME).collect(),
        version: env!("CARGO_PKG_VERSION").into(),
        started_ms: u64::try_from(started.as_millis()).unwrap_or(u64::MAX),
        ..of_service
    }
}

/// Returns the names of the machine and of the program. The first call of this function reads them.
fn process() -> &'static (String, String) {
    static PROCESS: OnceLock<(String, String)> = OnceLock::new();
    PROCESS.get_or_init(|| {
        let short = |text: &std::ffi::OsStr| text.to_string_lossy().chars().take(MAX_NAME).collect::<String>();
        let host = hostname::get().map(|name| short(&name)).unwrap_or_default();
        let program = std::env::current_exe().ok().or_else(|| std::env::args_os().next().map(Into::into));
        (host, program.as_deref().and_then(|path| path.file_name()).map(short).unwrap_or_default())
    })
}

/// Publishes `report` at each of `channels`.
///
/// A failure is only logged. The process that asked sees that no answer arrives.
async fn publish(core: &Core, report: ClientReport, channels: Vec<String>) {
    let json = Bytes::from(encoded(report));
    let limit = core.clock.now() + core.settings.response_timeout;
    for channel in channels {
        let request = Arc::new(Request::command("PUBLISH").arg(channel).arg(json.clone()));
        if let Err(error) = publish_at_any(core, &request, limit).await {
            tracing::debug!(%error, "cannot publish a report about the client");
        }
    }
}

/// Sends a request to the first primary that is connected. Waits for a connection if there is none.
///
/// In a cluster, a plain PUBLISH at any node reaches the subscribers of all nodes.
async fn publish_at_any(core: &Core, request: &Arc<Request>, limit: Instant) -> Result<(), ServerError> {
    loop {
        for server in core.topology.primaries() {
            match server.ask(request, limit).await {
                Err(ServerError::NotSent { .. }) => {}
                answer => return answer.map(drop),
            }
        }
        let again = core.clock.now() + core.settings.retry_delay;
        if again >= limit {
            return Err(ServerError::not_sent("no primary was connected in time"));
        }
        core.clock.sleep_until(again).await;
    }
}

/// Returns the report as JSON of at most [`MAX_REPORT_BYTES`]. Lists that are too long are cut.
fn encoded(mut report: ClientReport) -> Vec<u8> {
    let ClientReport { held, waits, contention, events, .. } = &mut report;
    let lists = (std::mem::take(held), std::mem::take(waits), std::mem::take(contention), std::mem::take(events));
    let (mut held, mut waits, mut contention, mut events) = lists;
    // `left` can be lower than the number of bytes that are really left, but never higher. If
    // `is_truncated` changes from `false` to `true`, the text gets one byte shorter. And each entry
    // is counted with a comma, although the last entry of a list has none.
    let mut left = MAX_REPORT_BYTES.saturating_sub(json_len(&report));
    let quarter = left / 4;
    let mut is_cut = cut(&mut waits, quarter, &mut left);
    is_cut |= cut(&mut contention, quarter, &mut left);
    is_cut |= cut(&mut events, quarter, &mut left);
    let rest = left;
    is_cut |= cut(&mut held, rest, &mut left);
    report.is_truncated |= is_cut;
    serde_json::to_vec(&ClientReport { held, waits, contention, events, ..report }).unwrap_or_default()
}

/// Shortens a list to at most `most` bytes of JSON. Subtracts the bytes of the shortened list from
/// `left`. Returns whether the list was shortened.
fn cut<T: Serialize>(list: &mut Vec<T>, most: usize, left: &mut usize) -> bool {
    let before = list.len();
    let mut used = 0;
    let fitting = list.iter().map_while(|entry| {
        used += json_len(entry) + 1;
        (used <= most).then_some(used)
    });
    let (count, bytes) = fitting.fold((0, 0), |(count, _), used| (count + 1, used));
    list.truncate(count);
    *left -= bytes;
    count < before
}

/// Returns the length of a value as JSON.
fn json_len(value: &impl Serialize) -> usize {
    serde_json::to_vec(value).map_or(0, |json| json.len())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::report::{ContentionReport, EventReport, HeldReport, WaitReport, parse_answer};

    fn at(ms: u64) -> Instant {
        Instant::MIN + Duration::from_millis(ms)
    }

    #[test]
    fn questions_within_a_second_get_the_next_report() {
        let mut questions = Questions::default();
        assert_eq!(questions.due(), Instant::MAX);
        questions.add(None);
        assert_eq!(questions.due(), Instant::MAX, "an invalid question");
        questions.add(Some("a"));
        assert!(questions.due() <= at(5), "the first one is answered at once");
        assert_eq!(questions.take(at(5)), ["a"]);
        assert_eq!(questions.due(), Instant::MAX);
        for channel in ["b", "c", "b"] {
            questions.add(Some(channel));
        }
        assert_eq!(questions.due(), at(1005));
        assert_eq!(questions.take(at(1005)), ["b", "c"]);
    }

    #[test]
    fn only_the_first_reply_channels_are_remembered() {
        let mut questions = Questions::default();
        (0..100).for_each(|n| questions.add(Some(&n.to_string())));
        let first: Vec<String> = (0..MAX_CHANNELS).map(|n| n.to_string()).collect();
        assert_eq!(questions.take(at(0)), first);
    }

    #[test]
    fn a_report_fits_into_its_limit_whatever_it_contains() {
        // Each of these characters takes six bytes as JSON.
        let name = "\u{1}".repeat(512);
        let held = HeldReport { name: name.clone(), ..HeldReport::default() };
        let waits = WaitReport { name: name.clone(), ..WaitReport::default() };
        let contention = ContentionReport { name: name.clone(), ..ContentionReport::default() };
        let events = EventReport { name, ..EventReport::default() };
        for count in [0, 1, 3, 1000] {
            let report = ClientReport {
                held: vec![held.clone(); count],
                waits: vec![waits.clone(); count],
                contention: vec![contention.clone(); count],
                events: vec![events.clone(); count],
                ..ClientReport::default()
            };
            let json = encoded(report.clone());
            assert!(json.len() <= MAX_REPORT_BYTES, "{}", json.len());
            let read = parse_answer(&json).unwrap();
            assert_eq!(read.is_truncated, count == 1000);
            if count < 1000 {
                assert_eq!(read, report);
            } else {
                assert!(json.len() > MAX_REPORT_BYTES / 2, "each list has entries");
                assert!(
                    [read.held.len(), read.waits.len(), read.contention.len(), read.events.len()]
                        .iter()
                        .all(|n| *n > 0)
                );
            }
        }
    }
}
