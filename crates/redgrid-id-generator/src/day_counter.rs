//! Blocks of time-ordered ids: numbers of a day, combined with a second of the server's clock.
//!
//! The number makes an id unique, as long as the server knows the last number. If the server may
//! have lost numbers (after a failover or a restart), the second makes the id unique: after each
//! loss of contact, a client uses seconds ahead of the server's clock. So its ids are larger than
//! all ids that the previous server has issued to other clients until then.

use std::convert::Infallible;
use std::sync::{Mutex, MutexGuard};
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use bytes::Bytes;
use redgrid_core::author::ClientExt;
use redgrid_core::clock::Instant;
use redgrid_core::name::InvalidName;
use redgrid_core::{Client, ConnectionId, Name, Script, ServerError};

use crate::block::Block;
use crate::calendar::{Calendar, Day};
use crate::error::IdError;
use crate::prefetch::{BlockSource, Demand};
use crate::size::{self, next_size};

static DAY: Script<1> = Script::new("time_ordered_id/day", include_str!("scripts/day.lua"));

/// How long a block is valid after its reply has arrived: 1 s. Its ids contain the second in which
/// the server issued it.
const BLOCK_LIFETIME: Duration = Duration::from_secs(1);

/// How many seconds ids are ahead of the server's clock after a loss of contact, until that clock
/// has caught up: 2 s.
///
/// If one client still uses the previous server while another already uses the new one, the first
/// has a whole second to notice the change. Ids that are already ahead advance by the same amount,
/// so that ids of their second are not repeated.
const AHEAD: i64 = 2;

/// The maximum number of seconds ahead of the server's clock: 20 s, which is ten losses of contact
/// in a row.
///
/// Without this limit, an unstable connection would advance the ids without end.
const MAX_AHEAD: i64 = 20;

/// How long a counter is kept after its day, in seconds: two days. So a server whose clock was set
/// back does not restart the counter.
const COUNTER_RETENTION: i64 = 2 * 24 * 60 * 60;

/// The maximum number of consecutive attempts with another day. If two servers of a cluster reach
/// midnight at different times, two attempts are needed.
const MAX_DAY_CHANGES: usize = 8;

/// The day counters of a name, and the last values that a client has seen.
pub(crate) struct DayCounters {
    pub(crate) name: Name,
    pub(crate) calendar: Calendar,
    last_seen: Mutex<LastSeen>,
}

#[derive(Default)]
struct LastSeen {
    /// The latest second that a server has reported, and when it was reported.
    second: Option<(i64, Instant)>,
    /// The last day from which numbers were fetched.
    day: Option<LastDay>,
    /// The size of the next block.
    size: Option<u64>,
}

/// The last day from which numbers were fetched.
struct LastDay {
    day: Day,
    /// The highest fetched number.
    highest: u32,
    /// The connection over which this number arrived.
    connection: Option<ConnectionId>,
}

/// The condition for a block to be valid: the connection to its counter is the same as when the
/// block arrived.
#[derive(Debug, Clone)]
pub(crate) struct SameConnection {
    key: Bytes,
    connection: Option<ConnectionId>,
}

/// The reply of the script.
enum DayReply {
    Numbers { second: i64, first: u32, count: u32 },
    OtherDay { second: i64 },
    Exhausted { second: i64 },
    Invalid { value: String },
}

impl DayCounters {
    /// Creates the counters of a name. The name must be [valid](counter_name) with a day appended.
    pub(crate) fn new(name: Name, calendar: Calendar) -> Self {
        DayCounters { name, calendar, last_seen: Mutex::default() }
    }

    fn error(&self, error: ServerError) -> IdError {
        IdError::of_ids(&self.name, error)
    }

    fn last_seen(&self) -> MutexGuard<'_, LastSeen> {
        self.last_seen.lock().unwrap_or_else(|poisoned| poisoned.into_inner())
    }

    /// Returns an estimate of the current day. It is only a guess from the local clock; the server
    /// decides which day it is.
    fn today(&self, client: &Client) -> Day {
        let guess = match self.last_seen().second {
            Some((second, at)) => {
                let elapsed = client.clock().now().since(at).as_secs();
                second.saturating_add(i64::try_from(elapsed).unwrap_or(i64::MAX))
            }
            None => second_of(SystemTime::now()),
        };
        let seconds = self.calendar.seconds();
        self.calendar.day(guess.clamp(seconds.start, seconds.end - 1))
    }

    /// Fetches numbers of a day over the current `connection` to its counter.
    async fn fetch_numbers(
        &self,
        client: &Client,
        day: Day,
        (key, connection): (&Bytes, &Option<ConnectionId>),
        wanted: u64,
        until: Instant,
    ) -> Result<DayReply, IdError> {
        let (day_seconds, id_seconds) = (self.calendar.seconds_of(day), self.calendar.seconds());
        let request = {
            let last_seen = self.last_seen();
            let not_before = last_seen.second.map_or(0, |(second, _)| second);
            // This also applies after a change of the day, because ids of the previous connection
            // may be in the day that begins now.
            let is_new_connection =
                last_seen.day.as_ref().is_some_and(|last| last.connection.is_none() || last.connection != *connection);
            let same_day = last_seen.day.as_ref().filter(|last| last.day == day);
            let request = DAY.with([key.clone()]);
            let request = request.int(day_seconds.start.max(id_seconds.start)).int(day_seconds.end.min(id_seconds.end));
            let request = request.int(not_before).int(if is_new_connection { AHEAD } else { 0 });
            let request = request.int(same_day.map_or(0, |last| last.highest.into())).arg(wanted.to_string());
            request.int((day_seconds.end + COUNTER_RETENTION).saturating_mul(1000)).int(MAX_AHEAD).idempotent()
        };
        let reply = client.run_until::<Vec<String>>(request, until).await.map_err(|error| self.error(error))?;
        parse(&reply).ok_or_else(|| {
            let got = format!("{reply:?}");
            self.error(ServerError::Decode { expected: "numbers of a day", got })
        })
    }

    /// Records a second that a server has reported. An earlier second is ignored, whichever server
    /// reported it.
    fn record_second(&self, client: &Client, second: i64) {
        let mut last_seen = self.last_seen();
        if last_seen.second.is_none_or(|(latest, _)| latest <= second) {
            last_seen.second = Some((second, client.clock().now()));
        }
    }

    fn record_number(&self, day: Day, number: u32, connection: Option<ConnectionId>) {
        let mut last_seen = self.last_seen();
        let before = last_seen.day.take().filter(|last| last.day == day).map_or(0, |last| last.highest);
        last_seen.day = Some(LastDay { day, highest: number.max(before), connection });
    }
}

/// Returns the name of a day's counter.
pub(crate) fn counter_name(name: &Name, day: Day) -> Result<Name, InvalidName> {
    Name::new(format!("icr:{name}:{}", day.key_part()))
}

/// Returns the second of a time, since 1970.
pub(crate) fn second_of(time: SystemTime) -> i64 {
    match time.duration_since(UNIX_EPOCH) {
        Ok(since) => i64::try_from(since.as_secs()).unwrap_or(i64::MAX),
        Err(before) => {
            let before = before.duration();
            let whole = before.as_secs() + u64::from(before.subsec_nanos() > 0);
            i64::try_from(whole).map_or(i64::MIN, |whole| -whole)
        }
    }
}

/// Returns the time at which a second begins; `None` if `SystemTime` cannot represent it.
pub(crate) fn time_of(second: i64) -> Option<SystemTime> {
    let distance = Duration::from_secs(second.unsigned_abs());
    if second < 0 { UNIX_EPOCH.checked_sub(distance) } else { UNIX_EPOCH.checked_add(distance) }
}

fn parse(reply: &[String]) -> Option<DayReply> {
    let number = |text: &String| text.parse::<i64>().ok();
    match reply {
        [status, second, first, count] if status == "numbers" => {
            let (first, count) = (u32::try_from(number(first)?).ok()?, u32::try_from(number(count)?).ok()?);
            // All numbers must fit into 32 bits.
            first.checked_add(count.checked_sub(1)?)?;
            Some(DayReply::Numbers { second: number(second)?, first, count })
        }
        [status, second] if status == "elsewhere" => Some(DayReply::OtherDay { second: number(second)? }),
        [status, second] if status == "exhausted" => Some(DayReply::Exhausted { second: number(second)? }),
        [status, value] if status == "strange" => Some(DayReply::Invalid { value: value.clone() }),
        _ => None,
    }
}

impl BlockSource for DayCounters {
    type Condition = SameConnection;
    type Change = Infallible;
    const MIN_PREFETCH_SIZE: u64 = 16;

    async fn fetch(&self, client: &Client, demand: Demand, until: Instant) -> Result<Block<SameConnection>, IdError> {
        let size = {
            let mut last_seen = self.last_seen();
            let size = last_seen.size.map_or(size::FIRST_SIZE, |size| next_size(size, demand.wanted > 0, demand.usage));
            *last_seen.size.insert(size)
        };
        let mut day_changes = 0;
        loop {
            let day = self.today(client);
            let counter_name = counter_name(&self.name, day)?;
            let key = client.key(&counter_name);
            let connection_before = client.epoch_of(&key);
            let wanted = size.max(demand.wanted);
            let reason = match self.fetch_numbers(client, day, (&key, &connection_before), wanted, until).await? {
                DayReply::Numbers { second, first, count } => {
                    let connection = client.epoch_of(&key);
                    let is_unchanged =
                        connection.is_some() && (connection_before.is_none() || connection_before == connection);
                    self.record_second(client, second);
                    // If the connection was replaced meanwhile, record the previous one, so that
                    // the next request treats the current connection as new.
                    let arrived_over = if is_unchanged { connection.clone() } else { connection_before };
                    self.record_number(day, first + (count - 1), arrived_over);
                    if is_unchanged {
                        let next = self.calendar.id(second, first);
                        let (size, valid_until) = (u64::from(count), client.clock().now() + BLOCK_LIFETIME);
                        let condition = SameConnection { key, connection };
                        return Ok(Block { next, remaining: size, size, valid_until, condition });
                    }
                    "the connection was replaced each time"
                }
                DayReply::OtherDay { second } if !self.calendar.seconds().contains(&second) => {
                    let from = self.calendar.epoch;
                    return Err(IdError::TimeOutOfRange { name: self.name.clone(), seconds: second, from });
                }
                DayReply::OtherDay { second } => {
                    self.record_second(client, second);
                    day_changes += 1;
                    "servers disagree about the day"
                }
                DayReply::Exhausted { second } => {
                    self.record_second(client, second);
                    return Err(IdError::DayExhausted { name: self.name.clone(), key: counter_name });
                }
                DayReply::Invalid { value } => {
                    return Err(IdError::NotANumber {
                        key: String::from_utf8_lossy(&key).into(),
                        expected: "a whole number from 0 to 2^32 - 1",
                        got: value,
                    });
                }
            };
            if day_changes > MAX_DAY_CHANGES || client.clock().now() >= until {
                return Err(self.error(ServerError::NotSent { reason: reason.into() }));
            }
        }
    }

    async fn change(&self, _client: &Client, never: Infallible) -> Result<bool, IdError> {
        match never {}
    }

    fn name(&self) -> &Name {
        &self.name
    }

    fn is_valid(&self, client: &Client, condition: &SameConnection) -> bool {
        condition.connection.is_some() && condition.connection == client.epoch_of(&condition.key)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn valid_replies_are_parsed_and_others_rejected() {
        let parsed = |parts: &[&str]| parse(&parts.iter().map(|part| (*part).to_owned()).collect::<Vec<_>>());
        assert!(matches!(
            parsed(&["numbers", "1795219200", "7", "3"]),
            Some(DayReply::Numbers { second: 1_795_219_200, first: 7, count: 3 })
        ));
        assert!(parsed(&["numbers", "1795219200", "4294967295", "1"]).is_some());
        for bad in [
            &["numbers", "1795219200", "4294967295", "2"][..],
            &["numbers", "1795219200", "7", "0"],
            &["numbers", "soon", "7", "3"],
            &["numbers"],
            &["elsewhere"],
            &[],
        ] {
            assert!(parsed(bad).is_none(), "{bad:?}");
        }
    }

    #[test]
    fn seconds_and_times_are_converted_in_both_directions() {
        for second in [-2_208_988_800, -1, 0, 1_640_995_200] {
            let time = time_of(second).unwrap();
            assert_eq!((second_of(time), second_of(time + Duration::from_millis(999))), (second, second));
        }
    }
}
