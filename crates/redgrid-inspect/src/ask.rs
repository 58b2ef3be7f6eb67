//! Questions to clients: what they hold, and who they are.

use std::collections::BTreeMap;
use std::future::poll_fn;
use std::pin::pin;
use std::time::Duration;

use futures_util::{StreamExt, stream};
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
/// so its answer can take a second and the way.
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

/// The clients that have not answered: their UUIDs, and the ids for questions.
struct Asked {
    missing: BTreeMap<String, Vec<String>>,
}

impl Asked {
    fn new(ids: &[String]) -> Self {
        let mut missing: BTreeMap<String, Vec<String>> = BTreeMap::new();
        for id in ids {
            let Some(uuid) = uuid_of(id) else { continue };
            let ids = missing.entry(uuid.to_owned()).or_default();
            if !ids.contains(id) {
                ids.push(id.clone());
            }
        }
        Asked { missing }
    }

    /// Takes a message, and returns the report in it. One that is too long, is no report, or is of
    /// a client that was not asked, is ignored. The first report of a client counts.
    fn take(&mut self, payload: &[u8]) -> Option<ClientReport> {
        let report = parse_answer(payload)?;
        self.missing.remove(&report.id)?;
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
    /// together. So asking `n` clients takes up to `n` / 50 s and `timeout`; if `m` of them do not
    /// answer, up to `m` / 50 s and half of `timeout` in addition.
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
        let keep = |report: ClientReport| {
            reports.insert(report.id.clone(), report);
        };
        self.ask_each(ids, timeout, keep).await?;
        let report = |id: &String| uuid_of(id).and_then(|uuid| reports.get(uuid).cloned());
        Ok(ids.iter().map(|id| Answer { id: id.clone(), report: report(id) }).collect())
    }

    /// Asks clients for their reports as [`ask`](Inspector::ask), and passes each report to a
    /// function as soon as it arrives. Use it to show many clients before the last one has
    /// answered.
    ///
    /// The function gets one report of each client that answers. Its field `id` is the id of the
    /// client, without a namespace.
    ///
    /// # Errors
    ///
    /// As for [`ask`](Inspector::ask). Reports that arrived before the error were passed. If some
    /// questions could not be sent, the other clients are asked first.
    ///
    /// # Cancel safety
    ///
    /// If the future is dropped, clients that were asked publish their reports nevertheless.
    pub async fn ask_each(
        &self,
        ids: &[String],
        timeout: Duration,
        mut on_report: impl FnMut(ClientReport) + Send,
    ) -> Result<(), InspectError> {
        let failed = |source| InspectError::of_read("ask the clients", source);
        let mut asked = Asked::new(ids);
        if asked.missing.is_empty() {
            return Ok(());
        }
        // The subscription precedes the questions, so no answer is missed.
        let channel = format!("{REPLY_CHANNEL_PREFIX}{}", Uuid::new_v4());
        let selector = ChannelSelector::Plain(channel.clone().into());
        let replies = self.client.subscribe(selector, BUFFER).await.map_err(failed)?;
        for timeout in [timeout, timeout / SECOND_TRY] {
            self.collect(&channel, &replies, &mut asked, timeout, &mut on_report).await.map_err(failed)?;
        }
        Ok(())
    }

    /// Asks the clients that have not answered, and takes the replies until all are there or the
    /// time is over.
    async fn collect(
        &self,
        channel: &str,
        replies: &PubSubStream,
        asked: &mut Asked,
        timeout: Duration,
        on_report: &mut (impl FnMut(ClientReport) + Send),
    ) -> Result<(), ServerError> {
        let clock = self.client.clock();
        let ids: Vec<String> = asked.missing.values().flatten().cloned().collect();
        let questions = stream::iter(ids).map(|id| {
            // Owned values: with references, the compiler cannot prove that the future is `Send`.
            let inspector = self.clone();
            let channel = channel.to_owned();
            async move {
                inspector.client.clock().sleep_until(inspector.reserve_question()).await;
                inspector.publish_question(&id, &channel).await
            }
        });
        let mut questions = pin!(questions.buffer_unordered(MAX_IN_FLIGHT));
        let mut ends = Instant::MAX;
        let mut failure = None;
        while !asked.missing.is_empty() {
            tokio::select! {
                event = poll_fn(|context| replies.poll_next(context)) => match event {
                    Some(PubSubEvent::Message { payload, .. }) => {
                        if let Some(report) = asked.take(&payload) {
                            on_report(report);
                        }
                    }
                    Some(PubSubEvent::Denied(error)) => return Err(error),
                    // Answers may be missing. Their clients are asked again, as if they were late.
                    Some(_) => {}
                    None => return Err(self.client.ended()),
                },
                sent = questions.next(), if ends == Instant::MAX => match sent {
                    Some(Err(error)) if error.code() == Some(Code::NoPermission) => return Err(error),
                    Some(Err(error)) => failure = Some(error),
                    Some(Ok(())) => {}
                    None => ends = clock.now() + timeout,
                },
                () = clock.sleep_until(ends) => break,
            }
        }
        failure.map_or(Ok(()), Err)
    }

    async fn publish_question(&self, id: &str, channel: &str) -> Result<(), ServerError> {
        let target = format!("{}{id}}}", self.client.notice_prefix());
        let request = Request::command("PUBLISH").arg(target).arg(question(channel));
        match self.client.run::<()>(request).await {
            // The question may have been published.
            Err(ServerError::Unknown { .. }) => Ok(()),
            published => published,
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
        let mut asked = Asked::new(&[ID.into(), format!("prod:{ID}"), ID.into(), "not an id".into()]);
        assert_eq!(asked.missing[ID], [ID.to_owned(), format!("prod:{ID}")]);
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
}
