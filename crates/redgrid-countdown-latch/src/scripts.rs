//! The scripts of a latch, and their replies.

use std::time::Duration;

use bytes::Bytes;
use redgrid_core::author::ClientExt;
use redgrid_core::clock::Instant;
use redgrid_core::{Client, Code, IdempotentRequest, IdempotentScript, Reply, Request, Script, ServerError};

use crate::keys::Keys;

static SET: IdempotentScript<2> = IdempotentScript::new("latch/set", include_str!("scripts/set.lua"));
static COUNT_DOWN: IdempotentScript<2> =
    IdempotentScript::new("latch/count_down", include_str!("scripts/count_down.lua"));
static DELETE: IdempotentScript<2> = IdempotentScript::new("latch/delete", include_str!("scripts/delete.lua"));
static STATE: Script<2> = Script::new("latch/state", include_str!("scripts/state.lua"));

/// Lifetime of a round's number: a day. Polls of waiters renew it when less than half is left;
/// without waiters it is not needed.
const KEPT: Duration = Duration::from_secs(24 * 60 * 60);

/// Lifetime of the number after the round's end: a minute. By this number, waiters that missed the
/// end recognize that a round of Redisson's is another one, although such a round has no number.
/// The next number is higher, even if the server's clock was set back.
const KEPT_OVER: Duration = Duration::from_secs(60);

impl Keys {
    /// Begins a round, unless there is one. Returns whether it has begun.
    pub(crate) async fn set(&self, client: &Client, n: i64, lifetime: Option<Duration>) -> Result<bool, ServerError> {
        let kept = lifetime.map_or(KEPT, |lifetime| lifetime.min(KEPT));
        let request = SET.with(self.both()).int(n).int(lifetime.map_or(0, millis)).int(millis(kept)).publish_arg();
        Ok(number_of(client.run_exactly_once(self.with_channel(request)).await?)? == 1)
    }

    /// Decrements the count. Returns the previous count. If the round has ended, also returns its
    /// number; 0 if it has none. The reply is awaited until `until`.
    pub(crate) async fn count_down(
        &self,
        client: &Client,
        by: i64,
        until: Instant,
    ) -> Result<(i64, Option<u64>), ServerError> {
        let request = COUNT_DOWN.with(self.both()).int(by).int(millis(KEPT_OVER)).publish_arg().arg(self.over.clone());
        let mut answer =
            client.run_exactly_once_until::<Vec<Reply>>(self.with_channel(request), until).await?.into_iter();
        let before = answer.next().unwrap_or(Reply::Nil).into_typed()?;
        // An administrator may have written something else than a number.
        let ended = answer.next().map(|round| round.into_typed().unwrap_or(0));
        Ok((before, ended))
    }

    /// Ends the round. Returns whether there was one.
    pub(crate) async fn delete(&self, client: &Client) -> Result<bool, ServerError> {
        let request = DELETE.with(self.both()).int(millis(KEPT_OVER)).publish_arg().arg(self.over.clone());
        Ok(number_of(client.run_exactly_once(self.with_channel(request)).await?)? == 1)
    }

    /// Returns the count.
    pub(crate) async fn count(&self, client: &Client) -> Result<u64, ServerError> {
        let request = Request::command("GET").key(self.count.clone()).idempotent();
        let left = client.run::<Option<i64>>(request).await?;
        Ok(left.and_then(|left| u64::try_from(left).ok()).unwrap_or(0))
    }

    /// Returns the state of the latch.
    ///
    /// While the slot migrates, only the count is read: the two keys may be on different nodes.
    pub(crate) async fn state(&self, client: &Client) -> Result<LatchState, ServerError> {
        let request = STATE.with(self.both()).int(millis(KEPT)).int(millis(KEPT_OVER)).idempotent();
        let parts: Vec<String> = match client.run_same_slot(request).await {
            Err(error) if error.code() == Some(Code::TryAgain) => {
                return Ok(LatchState::of_count(self.count(client).await?));
            }
            parts => parts?,
        };
        LatchState::read(&parts)
            .ok_or_else(|| ServerError::Decode { expected: "the state of a latch", got: format!("{parts:?}") })
    }

    fn both(&self) -> [Bytes; 2] {
        [self.count.clone(), self.round.clone()]
    }

    /// Adds Redisson's channel, if there is one.
    fn with_channel(&self, request: IdempotentRequest) -> IdempotentRequest {
        self.channel.iter().cloned().fold(request, IdempotentRequest::arg)
    }
}

/// The state of a latch at one moment.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct LatchState {
    pub(crate) is_open: bool,
    /// The number of the round; 0 if Redisson has begun it, `None` if it could not be read.
    pub(crate) round: Option<u64>,
    /// The number of the last redgrid round that is known to be over; 0 if there is none.
    pub(crate) over: u64,
    /// When the round ends by its lifetime.
    pub(crate) ends_in: Option<Duration>,
}

impl LatchState {
    fn read(parts: &[String]) -> Option<LatchState> {
        let [count, round, left] = parts else { return None };
        // Redisson and this crate write whole numbers; below 1 the latch is open.
        let is_open = count.parse::<f64>().ok()? < 1.0;
        let ends_in = left.parse::<i64>().ok()?.try_into().ok().map(Duration::from_millis);
        let round: i64 = round.parse().ok()?;
        let (round, over) = if round < 0 { (0, round.unsigned_abs()) } else { (round.unsigned_abs(), 0) };
        Some(LatchState { is_open, round: Some(round), over, ends_in })
    }

    /// Returns the state as far as the count alone shows it.
    fn of_count(left: u64) -> LatchState {
        LatchState { is_open: left == 0, round: None, over: 0, ends_in: None }
    }
}

/// Returns the number with which a script replies.
fn number_of(answer: Vec<i64>) -> Result<i64, ServerError> {
    let unexpected = || ServerError::Decode { expected: "one whole number", got: format!("{answer:?}") };
    answer.first().copied().ok_or_else(unexpected)
}

fn millis(duration: Duration) -> i64 {
    i64::try_from(duration.as_millis()).unwrap_or(i64::MAX)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_script_documents_its_contract() {
        for (name, text) in [
            ("set", include_str!("scripts/set.lua")),
            ("count_down", include_str!("scripts/count_down.lua")),
            ("delete", include_str!("scripts/delete.lua")),
            ("state", include_str!("scripts/state.lua")),
        ] {
            for part in ["-- KEYS", "-- ARGV", "-- Returns", "-- Work:", "ent twice"] {
                assert!(text.contains(part), "{name}: {part}");
            }
        }
    }

    #[test]
    fn a_state_is_read() {
        let state = |parts: [&str; 3]| LatchState::read(&parts.map(str::to_owned));
        let lasting = state(["3", "17", "250"]).unwrap();
        let expected =
            LatchState { is_open: false, round: Some(17), over: 0, ends_in: Some(Duration::from_millis(250)) };
        assert_eq!(lasting, expected);
        let after_ours = state(["3", "-17", "-1"]).unwrap();
        assert_eq!((after_ours.round, after_ours.over), (Some(0), 17));
        for (count, is_open) in [("0", true), ("-1", true), ("1", false), ("9223372036854775807", false)] {
            let state = state([count, "0", "-1"]).unwrap();
            assert_eq!((state.is_open, state.ends_in), (is_open, None), "{count}");
        }
        assert_eq!(state(["x", "0", "-1"]), None);
    }
}
