//! The scripts of a latch, and what their answers say.

use std::time::Duration;

use bytes::Bytes;
use redgrid_core::clock::Instant;
use redgrid_core::{Client, Code, IdempotentRequest, IdempotentScript, Reply, Request, Script, ServerError};

use crate::keys::Keys;

static SET: IdempotentScript<2> = IdempotentScript::new("latch/set", include_str!("scripts/set.lua"));
static COUNT_DOWN: IdempotentScript<2> =
    IdempotentScript::new("latch/count_down", include_str!("scripts/count_down.lua"));
static DELETE: IdempotentScript<2> = IdempotentScript::new("latch/delete", include_str!("scripts/delete.lua"));
static LOOK: Script<2> = Script::new("latch/look", include_str!("scripts/look.lua"));

/// How long the number of a round is kept: a day, renewed at its half by those who wait. With nobody waiting, nobody needs it.
const KEPT: Duration = Duration::from_secs(24 * 60 * 60);

/// How long it is kept when the round is over: a minute. It tells those who missed the end that a round of Redisson's, which has no
/// number, is another one, and has the next number be above it although the server's clock was set back.
const KEPT_OVER: Duration = Duration::from_secs(60);

impl Keys {
    /// Whether a round was begun.
    pub(crate) async fn set(&self, client: &Client, n: i64, lifetime: Option<Duration>) -> Result<bool, ServerError> {
        let kept = lifetime.map_or(KEPT, |lifetime| lifetime.min(KEPT));
        let request = SET.with(self.both()).int(n).int(lifetime.map_or(0, millis)).int(millis(kept)).publish_here();
        Ok(one(client.run_exactly_once(self.told(request)).await?)? == 1)
    }

    /// What was there before, waited for until `until`; and the number of the round that it has ended, 0 where that has none.
    pub(crate) async fn count_down(
        &self,
        client: &Client,
        by: i64,
        until: Instant,
    ) -> Result<(i64, Option<u64>), ServerError> {
        let request = COUNT_DOWN.with(self.both()).int(by).int(millis(KEPT_OVER)).publish_here().arg(self.over.clone());
        let mut answer = client.run_exactly_once_until::<Vec<Reply>>(self.told(request), until).await?.into_iter();
        let before = answer.next().unwrap_or(Reply::Nil).into_typed()?;
        // By somebody's hand it may be no number.
        let ended = answer.next().map(|round| round.into_typed().unwrap_or(0));
        Ok((before, ended))
    }

    /// Whether there was one.
    pub(crate) async fn delete(&self, client: &Client) -> Result<bool, ServerError> {
        let request = DELETE.with(self.both()).int(millis(KEPT_OVER)).publish_here().arg(self.over.clone());
        Ok(one(client.run_exactly_once(self.told(request)).await?)? == 1)
    }

    /// What is left, asked once.
    pub(crate) async fn count(&self, client: &Client) -> Result<u64, ServerError> {
        let request = Request::command("GET").key(self.count.clone()).idempotent();
        let left = client.run::<Option<i64>>(request).await?;
        Ok(left.and_then(|left| u64::try_from(left).ok()).unwrap_or(0))
    }

    /// How it is. While its slot moves, the count alone is asked for: that is on one side or the other.
    pub(crate) async fn look(&self, client: &Client) -> Result<Look, ServerError> {
        let request = LOOK.with(self.both()).int(millis(KEPT)).int(millis(KEPT_OVER)).idempotent();
        let parts: Vec<String> = match client.run_undivided(request).await {
            Err(error) if error.code() == Some(Code::TryAgain) => {
                return Ok(Look::of_count(self.count(client).await?));
            }
            parts => parts?,
        };
        Look::read(&parts)
            .ok_or_else(|| ServerError::Decode { expected: "a look at a latch", got: format!("{parts:?}") })
    }

    fn both(&self) -> [Bytes; 2] {
        [self.count.clone(), self.round.clone()]
    }

    /// With Redisson's channel, where there is one.
    fn told(&self, request: IdempotentRequest) -> IdempotentRequest {
        self.channel.iter().cloned().fold(request, IdempotentRequest::arg)
    }
}

/// A latch at one moment.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Look {
    pub(crate) is_open: bool,
    /// The number of the round; 0 where Redisson has begun it, `None` where it could not be asked for.
    pub(crate) round: Option<u64>,
    /// That of the last one of ours of which it is known that it is over; 0 where none is.
    pub(crate) over: u64,
    /// When it ends by itself.
    pub(crate) ends_in: Option<Duration>,
}

impl Look {
    fn read(parts: &[String]) -> Option<Look> {
        let [count, round, left] = parts else { return None };
        // Redisson and ours write whole numbers; what is below 1 is open.
        let is_open = count.parse::<f64>().ok()? < 1.0;
        let ends_in = left.parse::<i64>().ok()?.try_into().ok().map(Duration::from_millis);
        let round: i64 = round.parse().ok()?;
        let (round, over) = if round < 0 { (0, round.unsigned_abs()) } else { (round.unsigned_abs(), 0) };
        Some(Look { is_open, round: Some(round), over, ends_in })
    }

    /// What the count alone tells.
    fn of_count(left: u64) -> Look {
        Look { is_open: left == 0, round: None, over: 0, ends_in: None }
    }
}

/// The number that a script answers with.
fn one(answer: Vec<i64>) -> Result<i64, ServerError> {
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
    fn every_script_tells_its_contract() {
        for (name, text) in [
            ("set", include_str!("scripts/set.lua")),
            ("count_down", include_str!("scripts/count_down.lua")),
            ("delete", include_str!("scripts/delete.lua")),
            ("look", include_str!("scripts/look.lua")),
        ] {
            for part in ["-- KEYS", "-- ARGV", "-- Returns", "-- Work:", "ent twice"] {
                assert!(text.contains(part), "{name}: {part}");
            }
        }
    }

    #[test]
    fn a_look_is_read() {
        let look = |parts: [&str; 3]| Look::read(&parts.map(str::to_owned));
        let lasting = look(["3", "17", "250"]).unwrap();
        let expected = Look { is_open: false, round: Some(17), over: 0, ends_in: Some(Duration::from_millis(250)) };
        assert_eq!(lasting, expected);
        let after_ours = look(["3", "-17", "-1"]).unwrap();
        assert_eq!((after_ours.round, after_ours.over), (Some(0), 17));
        for (count, is_open) in [("0", true), ("-1", true), ("1", false), ("9223372036854775807", false)] {
            let look = look([count, "0", "-1"]).unwrap();
            assert_eq!((look.is_open, look.ends_in), (is_open, None), "{count}");
        }
        assert_eq!(look(["x", "0", "-1"]), None);
    }
}
