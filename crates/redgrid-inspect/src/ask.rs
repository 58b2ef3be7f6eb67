//! Questions to clients: their holds, and their host, process and program.

use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::future::poll_fn;
use std::time::Duration;

use futures_util::StreamExt;
use futures_util::stream::FuturesUnordered;
use redgrid_core::author::ClientExt;
use redgrid_core::clock::Instant;
use redgrid_core::report::{ClientReport, REPLY_CHANNEL_PREFIX, parse_answer, question};
use redgrid_core::{ChannelSelector, Code, PubSubEvent, PubSubStream, Request, ServerError};
use uuid::Uuid;

use crate::error::InspectError;
use crate::holder::{ID_LEN, is_id};
use crate::inspector::Inspector;
use crate::report_limits::limited;

/// How long a client usually has to answer: 2.5 s. A client publishes at most one report a second,
/// so its answer can take a second and a round trip.
pub const ASK_TIMEOUT: Duration = Duration::from_millis(2_500);

/// The second question has this fraction of the time of the first one, as a divisor. With the usual
/// time it is 1.25 s.
const SECOND_TRY: u32 = 2;

/// The most answers that wait to be read. They are read at once, so this is a limit for forged
/// ones. If some are lost by it, their clients are asked again.
const BUFFER: usize = 16;

/// The most questions in flight to the servers.
const MAX_IN_FLIGHT: usize = 8;

/// The answer of a client.
#[derive(Debug, Clone, PartialEq)]
#[non_exhaustive]
pub struct Answer {
    /// The id with which the client was asked.
    pub id: String,
    /// Its report; `None` if it did not answer in time.
    pub report: Option<ClientReport>,
}

/// A result of [`Inspector::ask_each`] about a client.
#[derive(Debug, Clone, PartialEq)]
#[non_exhaustive]
pub enum AskEvent {
    /// The report of a client. Its field `id` is the id of the client, without a namespace.
    Report(Box<ClientReport>),
    /// A client has answered neither of its two questions in time.
    #[non_exhaustive]
    Silent {
        /// The id of the client, without a namespace.
        client: String,
        /// The time since its first question was sent.
        waited: Duration,
    },
}

/// The clients that have not answered, by their UUIDs.
struct Asked {
    missing: BTreeMap<String, Pending>,
    /// The clients that were sent a question, by the end of their time.
    due: BTreeSet<(Instant, String)>,
    /// How long a client has for the first question.
    timeout: Duration,
    was_interrupted: bool,
}

/// The questions to a client that has not answered.
#[derive(Default)]
struct Pending {
    /// The ids for questions.
    ids: Vec<String>,
    /// When the first question was sent.
    asked_at: Option<Instant>,
    /// The entry in [`Asked::due`].
    due: Option<Instant>,
    is_second: bool,
}

/// A client that has not answered in time.
#[derive(Debug, PartialEq)]
enum Late {
    /// It is to be asked a second time, with these ids.
    Again(String, Vec<String>),
    Silent(AskEvent),
}

impl Asked {
    fn new(ids: &[String], timeout: Duration) -> Self {
        let mut missing: BTreeMap<String, Pending> = BTreeMap::new();
        for id in ids {
            let Some(uuid) = uuid_of(id) else { continue };
            let pending = missing.entry(uuid.to_owned()).or_default();
            if !pending.ids.contains(id) {
                pending.ids.push(id.clone());
            }
        }
        Asked { missing, due: BTreeSet::new(), timeout, was_interrupted: false }
    }

    /// Returns all questions: the UUID of each client, and an id.
    fn questions(&self) -> VecDeque<(String, String)> {
        let questions = self.missing.iter().flat_map(|(client, pending)| {
            let ids = pending.ids.iter();
            ids.map(move |id| (client.clone(), id.clone()))
        });
        questions.collect()
    }

    /// Records that a question was sent: the time of its client begins.
    fn sent(&mut self, client: &str, now: Instant) {
        let Some(pending) = self.missing.get_mut(client) else { return };
        pending.asked_at.get_or_insert(now);
        let due = now + if pending.is_second { self.timeout / SECOND_TRY } else { self.timeout };
        if let Some(old) = pending.due.replace(due) {
            self.due.remove(&(old, client.to_owned()));
        }
        self.due.insert((due, client.to_owned()));
    }

    /// Returns the end of the next client's time to answer; `Instant::MAX` if no question is open.
    fn next_due(&self) -> Instant {
        self.due.first().map_or(Instant::MAX, |(due, _)| *due)
    }

    /// Returns the next client that has not answered in time.
    fn late(&mut self, now: Instant) -> Option<Late> {
        if self.next_due() > now {
            return None;
        }
        let (_, client) = self.due.pop_first()?;
        let pending = self.missing.get_mut(&client)?;
        pending.due = None;
        if !std::mem::replace(&mut pending.is_second, true) {
            return Some(Late::Again(client, pending.ids.clone()));
        }
        let waited = pending.asked_at.map(|asked_at| now.since(asked_at)).unwrap_or_default();
        self.missing.remove(&client);
        Some(Late::Silent(AskEvent::Silent { client, waited }))
    }

    /// Gives each client one more question, because answers may be missing. It does so once, so
    /// that the questions end.
    fn interrupted(&mut self) {
        if !std::mem::replace(&mut self.was_interrupted, true) {
            self.missing.values_mut().for_each(|pending| pending.is_second = false);
        }
    }

    /// Takes a message, and returns the report in it. One that is too long, is no report, or is of
    /// a client that was not asked, is ignored. The first report of a client counts.
    fn take(&mut self, payload: &[u8]) -> Option<ClientReport> {
        let report = parse_answer(payload)?;
        let pending = self.missing.remove(&report.id)?;
        if let Some(due) = pending.due {
            self.due.remove(&(due, report.id.clone()));
        }
        Some(limited(report))
    }
}

impl Inspector {
    /// Asks clients for their reports: process, holds, and waiting tasks.
    ///
    /// The ids are those of [`living_clients`](Inspector::living_clients) or
    /// [`LockView::ask_ids`](crate::LockView::ask_ids). The result has an answer for each of them,
    /// in their order. A client that does not answer within `timeout` is asked a second time, and
    /// has no report if it does not answer within half of `timeout` then. The usual `timeout` is
    /// [`ASK_TIMEOUT`]. At most 50 questions are sent a second, by all clones of this inspector
    /// together. So if `m` of `n` clients do not answer, it takes up to (`n` + `m`) / 50 s. If `m`
    /// is not 0, one and a half times `timeout` are added.
    ///
    /// A client without a report need not be stopped: its setting `introspection` may be `off`, its
    /// user may not be permitted to publish (`&redgrid_console:*`), or its version is older than
    /// questions.
    ///
    /// A report is what the client says of itself. Messages that are not reports, are longer than
    /// 64 KiB, or are of clients that were not asked, are ignored. Lists and texts that are longer
    /// than those of a client are cut. The reply channel has a random name, but a process that can
    /// read it may forge the report of another client.
    ///
    /// # Errors
    ///
    /// [`InspectError::Failed`] if no server answers, or the user may not subscribe
    /// (`&redgrid_console:*`) or publish (`&redgrid_client:*`).
    ///
    /// # Cancel safety
    ///
    /// If the future is dropped, clients that were asked publish their reports nevertheless.
    pub async fn ask(&self, ids: &[String], timeout: Duration) -> Result<Vec<Answer>, InspectError> {
        let mut reports = BTreeMap::new();
        let keep = |event| {
            if let AskEvent::Report(report) = event {
                reports.insert(report.id.clone(), *report);
            }
        };
        self.ask_each(ids, timeout, keep).await?;
        let report = |id: &String| uuid_of(id).and_then(|uuid| reports.get(uuid).cloned());
        Ok(ids.iter().map(|id| Answer { id: id.clone(), report: report(id) }).collect())
    }

    /// Asks clients for their reports as [`ask`](Inspector::ask), and passes each result to a
    /// function at once: a report as soon as it arrives, and a silent client as soon as its own
    /// time has ended. Use it to show many clients before the last one has answered.
    ///
    /// The function gets at most one event of each client. If a question was not sent, or perhaps
    /// not, it gets no event of that client: it is not known whether that client answers.
    ///
    /// # Errors
    ///
    /// As for [`ask`](Inspector::ask). If some questions were not sent, the events of the other
    /// clients are passed on before the error is returned.
    ///
    /// # Cancel safety
    ///
    /// If the future is dropped, clients that were asked publish their reports nevertheless.
    pub async fn ask_each(
        &self,
        ids: &[String],
        timeout: Duration,
        on_event: impl FnMut(AskEvent) + Send,
    ) -> Result<(), InspectError> {
        let failed = |source| InspectError::of_read("ask the clients", source);
        let asked = Asked::new(ids, timeout);
        if asked.missing.is_empty() {
            return Ok(());
        }
        // The subscription precedes the questions, so no answer is missed.
        let channel = format!("{REPLY_CHANNEL_PREFIX}{}", Uuid::new_v4());
        let selector = ChannelSelector::Plain(channel.clone().into());
        let replies = self.client.subscribe(selector, BUFFER).await.map_err(failed)?;
        self.collect(&channel, &replies, asked, on_event).await.map_err(failed)
    }

    /// Sends the questions, and takes the replies until each client has answered or is silent.
    async fn collect(
        &self,
        channel: &str,
        replies: &PubSubStream,
        mut asked: Asked,
        mut on_event: impl FnMut(AskEvent) + Send,
    ) -> Result<(), ServerError> {
        let clock = self.client.clock();
        let mut questions = asked.questions();
        let mut sending = FuturesUnordered::new();
        let mut failure = None;
        while !asked.missing.is_empty() {
            while sending.len() < MAX_IN_FLIGHT
                && let Some((client, id)) = questions.pop_front()
            {
                if asked.missing.contains_key(&client) {
                    sending.push(self.clone().send_question(client, id, channel.to_owned()));
                }
            }
            if sending.is_empty() && asked.next_due() == Instant::MAX {
                // The questions to the remaining clients were not sent, or perhaps not.
                break;
            }
            tokio::select! {
                event = poll_fn(|context| replies.poll_next(context)) => match event {
                    Some(PubSubEvent::Message { payload, .. }) => {
                        if let Some(report) = asked.take(&payload) {
                            on_event(AskEvent::Report(Box::new(report)));
                        }
                    }
                    Some(PubSubEvent::Denied(error)) => return Err(error),
                    Some(PubSubEvent::Gap) => asked.interrupted(),
                    // Messages were dropped. Their clients are asked again, as if they were late.
                    Some(_) => {}
                    None => return Err(self.client.ended()),
                },
                Some((client, sent)) = sending.next(), if !sending.is_empty() => match sent {
                    Err(error) if error.code() == Some(Code::NoPermission) => return Err(error),
                    Err(error) => failure = Some(error),
                    Ok(()) => asked.sent(&client, clock.now()),
                },
                () = clock.sleep_until(asked.next_due()) => {
                    while let Some(late) = asked.late(clock.now()) {
                        match late {
                            // Second questions come first, so that a client is not silent late.
                            Late::Again(client, ids) => {
                                ids.into_iter().for_each(|id| questions.push_front((client.clone(), id)));
                            }
                            Late::Silent(event) => on_event(event),
                        }
                    }
                }
            }
        }
        // A question without a confirmation may have been answered.
        failure.filter(|_| !asked.missing.is_empty()).map_or(Ok(()), Err)
    }

    /// Waits for the turn of a question, and sends it. Returns its client with the result.
    async fn send_question(self, client: String, id: String, channel: String) -> (String, Result<(), ServerError>) {
        self.client.clock().sleep_until(self.reserve_question()).await;
        let sent = self.publish_question(&id, &channel).await;
        (client, sent)
    }

    /// Publishes a question at a primary that is connected. In a cluster, a plain PUBLISH at any
    /// node reaches the subscribers of all nodes.
    async fn publish_question(&self, id: &str, channel: &str) -> Result<(), ServerError> {
        let target = format!("{}{id}}}", self.client.notice_prefix());
        let request = Request::command("PUBLISH").arg(target).arg(question(channel));
        let nodes = self.client.primaries().await?;
        match nodes.iter().find(|node| node.epoch().is_some()) {
            Some(node) => self.client.run_on(node, request).await,
            None => self.client.run(request).await,
        }
    }
}

/// Returns the UUID in an id for questions, before which a namespace may stand.
fn uuid_of(id: &str) -> Option<&str> {
    let (namespace, uuid) = id.split_at_checked(id.len().checked_sub(ID_LEN)?)?;
    (is_id(uuid) && (namespace.is_empty() || namespace.ends_with(':'))).then_some(uuid)
}

#[cfg(test)]
mod tests {
    use super::*;

    const ID: &str = "0f8fad5b-d9cb-869f-a165-70867728950e";

    #[test]
    fn only_the_first_report_of_a_client_that_was_asked_counts() {
        let ids = [ID.into(), format!("prod:{ID}"), ID.into(), "not an id".into()];
        let mut asked = Asked::new(&ids, Duration::from_secs(1));
        assert_eq!(asked.missing[ID].ids, [ID.to_owned(), format!("prod:{ID}")]);
        let report = |id: &str, host: &str| format!("{{\"id\":\"{id}\",\"host\":\"{host}\"}}");
        let other = "1f8fad5b-d9cb-869f-a165-70867728950e";
        let oversized = report(ID, &"x".repeat(10 << 20));
        for forged in ["", "null", "{}", "[", &report(other, "a"), &report("", "a"), &oversized] {
            assert_eq!(asked.take(forged.as_bytes()), None);
        }
        assert_eq!(asked.missing.len(), 1);
        let first = asked.take(report(ID, "one").as_bytes());
        assert_eq!(first.map(|report| report.host), Some("one".to_owned()));
        assert_eq!(asked.take(report(ID, "two").as_bytes()), None);
        assert!(asked.missing.is_empty());
    }

    #[test]
    fn each_client_has_a_time_of_its_own_and_a_second_question() {
        let at = |ms| Instant::MIN + Duration::from_millis(ms);
        let other = "1f8fad5b-d9cb-869f-a165-70867728950e";
        let mut asked = Asked::new(&[ID.into(), other.into()], Duration::from_secs(2));
        assert_eq!((asked.questions().len(), asked.next_due()), (2, Instant::MAX));
        asked.sent(ID, at(0));
        asked.sent(other, at(1_500));
        assert_eq!((asked.late(at(1_999)), asked.next_due()), (None, at(2_000)));
        assert_eq!(asked.late(at(2_000)), Some(Late::Again(ID.into(), vec![ID.into()])));
        // It is not silent before its second question was sent.
        assert_eq!((asked.late(at(3_400)), asked.next_due()), (None, at(3_500)));
        asked.sent(ID, at(2_100));
        let waited = Duration::from_millis(3_100);
        assert_eq!(asked.late(at(3_100)), Some(Late::Silent(AskEvent::Silent { client: ID.into(), waited })));
        assert!(asked.take(format!("{{\"id\":\"{other}\"}}").as_bytes()).is_some());
        assert_eq!((asked.next_due(), asked.late(at(9_000))), (Instant::MAX, None));
    }

    #[test]
    fn after_an_interruption_each_client_is_asked_once_more() {
        let at = |ms| Instant::MIN + Duration::from_millis(ms);
        let mut asked = Asked::new(&[ID.into()], Duration::from_secs(2));
        let again = || Some(Late::Again(ID.into(), vec![ID.into()]));
        asked.sent(ID, at(0));
        assert_eq!(asked.late(at(2_000)), again());
        asked.sent(ID, at(2_000));
        asked.interrupted();
        assert_eq!(asked.late(at(3_000)), again());
        asked.interrupted();
        asked.sent(ID, at(3_000));
        assert!(matches!(asked.late(at(4_000)), Some(Late::Silent(_))));
    }
}
