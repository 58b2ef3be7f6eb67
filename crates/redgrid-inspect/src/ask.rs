//! Questions to clients: what they hold, and who they are.

use std::collections::{BTreeMap, BTreeSet};
use std::future::poll_fn;
use std::pin::pin;
use std::time::Duration;

use futures_util::{StreamExt, stream};
use redgrid_core::author::ClientExt;
use redgrid_core::clock::Instant;
use redgrid_core::report::{ClientReport, REPLY_CHANNEL_PREFIX, parse_answer, question};
use redgrid_core::{ChannelSelector, PubSubEvent, PubSubStream, Request, ServerError};
use uuid::Uuid;

use crate::error::InspectError;
use crate::holder::{ID_LEN, is_id};
use crate::inspector::Inspector;

/// How long a client usually has to answer: 1 s. A client publishes at most one report a second.
pub const ASK_TIMEOUT: Duration = Duration::from_secs(1);

/// The most answers that wait to be read. They are read at once, so this is a limit for forged
/// ones.
const BUFFER: usize = 64;

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

/// The clients that are asked, by their UUIDs.
struct Asked {
    /// The reports so far.
    reports: BTreeMap<String, Option<ClientReport>>,
    missing: usize,
}

impl Asked {
    fn new(ids: &[String]) -> Self {
        let reports: BTreeMap<_, _> = ids.iter().filter_map(|id| Some((uuid_of(id)?.to_owned(), None))).collect();
        Asked { missing: reports.len(), reports }
    }

    /// Takes a message. One that is too long, is no report, or is of a client that was not asked,
    /// is ignored. The first report of a client counts.
    fn take(&mut self, payload: &[u8]) {
        let Some(report) = parse_answer(payload) else { return };
        if let Some(known @ None) = self.reports.get_mut(&report.id) {
            *known = Some(report);
            self.missing -= 1;
        }
    }
}

impl Inspector {
    /// Asks clients for their reports: process, holds, and waiting tasks.
    ///
    /// The ids are those of [`living_clients`](Inspector::living_clients) or
    /// [`LockView::ask_ids`](crate::LockView::ask_ids). The result has an answer for each of them,
    /// in their order. A client that does not answer within `timeout` of its question has no
    /// report; usual is [`ASK_TIMEOUT`]. At most 50 questions are sent a second, by all clones
    /// of this inspector together. So asking `n` clients takes up to `n` / 50 s, and `timeout`.
    ///
    /// A report is what the client says of itself. Messages that are not reports, are longer than
    /// 64 KiB, or are of clients that were not asked, are ignored. The reply channel has a random
    /// name, but a process that can read it may forge the report of another client.
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
        let failed = |source| InspectError::of_read("ask the clients", source);
        let mut asked = Asked::new(ids);
        if asked.missing > 0 {
            // The subscription precedes the questions, so no answer is missed.
            let channel = format!("{REPLY_CHANNEL_PREFIX}{}", Uuid::new_v4());
            let selector = ChannelSelector::Plain(channel.clone().into());
            let replies = self.client.subscribe(selector, BUFFER).await.map_err(failed)?;
            self.collect(ids, &channel, &replies, &mut asked, timeout).await.map_err(failed)?;
        }
        let report = |id: &String| uuid_of(id).and_then(|uuid| asked.reports.get(uuid).cloned().flatten());
        Ok(ids.iter().map(|id| Answer { id: id.clone(), report: report(id) }).collect())
    }

    /// Sends the questions, and takes the replies until all are there or the time is over.
    async fn collect(
        &self,
        ids: &[String],
        channel: &str,
        replies: &PubSubStream,
        asked: &mut Asked,
        timeout: Duration,
    ) -> Result<(), ServerError> {
        let clock = self.client.clock();
        let distinct: BTreeSet<String> = ids.iter().filter(|id| uuid_of(id).is_some()).cloned().collect();
        let questions = stream::iter(distinct).map(|id| {
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
        while asked.missing > 0 {
            tokio::select! {
                event = poll_fn(|context| replies.poll_next(context)) => match event {
                    Some(PubSubEvent::Message { payload, .. }) => asked.take(&payload),
                    Some(PubSubEvent::Denied(error)) => return Err(error),
                    // Answers may be missing. Their clients have no report, as if they were late.
                    Some(_) => {}
                    None => return Err(self.client.ended()),
                },
                sent = questions.next(), if ends == Instant::MAX => match sent {
                    Some(sent) => sent?,
                    None => ends = clock.now() + timeout,
                },
                () = clock.sleep_until(ends) => return Ok(()),
            }
        }
        Ok(())
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
        let mut asked = Asked::new(&[ID.into(), format!("prod:{ID}"), "not an id".into()]);
        assert_eq!(asked.missing, 1);
        let report = |id: &str, host: &str| format!("{{\"id\":\"{id}\",\"host\":\"{host}\"}}");
        let other = "1f8fad5b-d9cb-869f-a165-70867728950e";
        let oversized = report(ID, &"x".repeat(10 << 20));
        for forged in ["", "null", "{}", "[", &report(other, "a"), &report("", "a"), &oversized] {
            asked.take(forged.as_bytes());
        }
        assert_eq!((asked.missing, asked.reports.len()), (1, 1));
        asked.take(report(ID, "one").as_bytes());
        asked.take(report(ID, "two").as_bytes());
        assert_eq!(asked.missing, 0);
        assert_eq!(asked.reports[ID].as_ref().map(|report| report.host.as_str()), Some("one"));
    }
}
