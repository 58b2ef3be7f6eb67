//! Blocks of ids in the order of time: numbers of a day, under a second of the server's.
//!
//! What makes an id unique is its number, as long as the server knows how far it was. Where it may have forgotten some (after a
//! failover, a restart), its second does: after each loss of contact a client's ids are of seconds ahead of the server's clock, above
//! all that others were given by a former server until then.

use std::convert::Infallible;
use std::sync::{Mutex, MutexGuard};
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use bytes::Bytes;
use redgrid_core::clock::Instant;
use redgrid_core::name::InvalidName;
use redgrid_core::{Client, ConnectionId, Name, Script, ServerError};

use crate::block::Block;
use crate::calendar::{Calendar, Day};
use crate::error::IdError;
use crate::size::{self, next_size};
use crate::supply::{Need, Source};

static DAY: Script<1> = Script::new("time_ordered_id/day", include_str!("scripts/day.lua"));

/// How long a block is given from after its answer arrived: 1 s. Its ids are of the second in which the server made it.
const LIFE: Duration = Duration::from_secs(1);

/// How many seconds ahead of the server's clock ids are after a loss of contact, until that clock is there: 2 s. A client that still
/// talks to the former server when another already talks to the next has a whole second to notice. Ids that are ahead already go on by
/// as much, so that those of the second in which they stood are not repeated.
const AHEAD: i64 = 2;

/// How far ahead of the server's clock that may bring them: 20 s, ten losses of contact in a row. A connection that comes and goes all
/// the time would take them along for ever.
const FARTHEST_AHEAD: i64 = 20;

/// How long after its day a counter is kept, so that a server whose clock was set back does not begin anew: two days.
const KEPT: i64 = 2 * 24 * 60 * 60;

/// How often another day is tried in a row: twice is what a midnight between two servers of a cluster takes.
const DAYS: usize = 8;

/// The numbers of the days under a name, and what a client has seen of them.
pub(crate) struct Days {
    pub(crate) name: Name,
    pub(crate) calendar: Calendar,
    seen: Mutex<Seen>,
}

#[derive(Default)]
struct Seen {
    /// The latest second that a server told, and when it did.
    second: Option<(i64, Instant)>,
    /// The last day of which there were numbers.
    day: Option<Numbered>,
    /// How many ids the next block is to have.
    size: Option<u64>,
}

/// A day with numbers.
struct Numbered {
    day: Day,
    /// The highest number of it.
    highest: u32,
    /// The connection over which it came.
    by: Option<ConnectionId>,
}

/// What makes a block good: it came over the connection by which its counter is reached.
#[derive(Debug, Clone)]
pub(crate) struct Came {
    key: Bytes,
    by: Option<ConnectionId>,
}

/// What the script answered.
enum Told {
    Numbers { second: i64, first: u32, count: u32 },
    Elsewhere { second: i64 },
    Exhausted { second: i64 },
    Strange { what: String },
}

impl Days {
    /// The days of a name that was [checked](key_name) with a day behind it.
    pub(crate) fn new(name: Name, calendar: Calendar) -> Self {
        Days { name, calendar, seen: Mutex::default() }
    }

    fn failed(&self, error: ServerError) -> IdError {
        IdError::of_ids(&self.name, error)
    }

    fn seen(&self) -> MutexGuard<'_, Seen> {
        self.seen.lock().unwrap_or_else(|poisoned| poisoned.into_inner())
    }

    /// The day that it seems to be. The server says whether it is: of our own clock we only take a guess.
    fn today(&self, client: &Client) -> Day {
        let guess = match self.seen().second {
            Some((second, at)) => {
                let since = client.clock().now().since(at).as_secs();
                second.saturating_add(i64::try_from(since).unwrap_or(i64::MAX))
            }
            None => second_of(SystemTime::now()),
        };
        let seconds = self.calendar.seconds();
        self.calendar.day(guess.clamp(seconds.start, seconds.end - 1))
    }

    /// Asks for numbers of a day, whose counter is reached `by` that connection.
    async fn ask(
        &self,
        client: &Client,
        day: Day,
        (key, by): (&Bytes, &Option<ConnectionId>),
        wanted: u64,
        until: Instant,
    ) -> Result<Told, IdError> {
        let (of_day, of_ids) = (self.calendar.seconds_of(day), self.calendar.seconds());
        let request = {
            let seen = self.seen();
            let not_before = seen.second.map_or(0, |(second, _)| second);
            // Also where that was another day: what was had over the former connection may be of the day that begins now.
            let is_new = seen.day.as_ref().is_some_and(|known| known.by.is_none() || known.by != *by);
            let known = seen.day.as_ref().filter(|known| known.day == day);
            let request = DAY.with([key.clone()]);
            let request = request.int(of_day.start.max(of_ids.start)).int(of_day.end.min(of_ids.end));
            let request = request.int(not_before).int(if is_new { AHEAD } else { 0 });
            let request = request.int(known.map_or(0, |known| known.highest.into())).arg(wanted.to_string());
            request.int((of_day.end + KEPT).saturating_mul(1000)).int(FARTHEST_AHEAD).idempotent()
        };
        let told = client.run_until::<Vec<String>>(request, until).await.map_err(|error| self.failed(error))?;
        read(&told).ok_or_else(|| {
            let got = format!("{told:?}");
            self.failed(ServerError::Decode { expected: "numbers of a day", got })
        })
    }

    /// Time does not go back, whatever clock told it.
    fn saw_second(&self, client: &Client, second: i64) {
        let mut seen = self.seen();
        if seen.second.is_none_or(|(latest, _)| latest <= second) {
            seen.second = Some((second, client.clock().now()));
        }
    }

    fn saw_number(&self, day: Day, number: u32, by: Option<ConnectionId>) {
        let mut seen = self.seen();
        let before = seen.day.take().filter(|known| known.day == day).map_or(0, |known| known.highest);
        seen.day = Some(Numbered { day, highest: number.max(before), by });
    }
}

/// The name of a day's counter.
pub(crate) fn key_name(name: &Name, day: Day) -> Result<Name, InvalidName> {
    Name::new(format!("icr:{name}:{}", day.in_key()))
}

/// The second of a time, since 1970.
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

/// When a second begins; none where that can not be told.
pub(crate) fn time_of(second: i64) -> Option<SystemTime> {
    let distance = Duration::from_secs(second.unsigned_abs());
    if second < 0 { UNIX_EPOCH.checked_sub(distance) } else { UNIX_EPOCH.checked_add(distance) }
}

fn read(told: &[String]) -> Option<Told> {
    let number = |text: &String| text.parse::<i64>().ok();
    match told {
        [kind, second, first, count] if kind == "numbers" => {
            let (first, count) = (u32::try_from(number(first)?).ok()?, u32::try_from(number(count)?).ok()?);
            // All of them are numbers of 32 bits.
            first.checked_add(count.checked_sub(1)?)?;
            Some(Told::Numbers { second: number(second)?, first, count })
        }
        [kind, second] if kind == "elsewhere" => Some(Told::Elsewhere { second: number(second)? }),
        [kind, second] if kind == "exhausted" => Some(Told::Exhausted { second: number(second)? }),
        [kind, what] if kind == "strange" => Some(Told::Strange { what: what.clone() }),
        _ => None,
    }
}

impl Source for Days {
    type While = Came;
    type Change = Infallible;
    const WORTH_MORE: u64 = 16;

    async fn fetch(&self, client: &Client, need: Need, until: Instant) -> Result<Block<Came>, IdError> {
        let size = {
            let mut seen = self.seen();
            let size = seen.size.map_or(size::FIRST, |size| next_size(size, need.wanted > 0, need.used));
            *seen.size.insert(size)
        };
        let mut days = 0;
        loop {
            let day = self.today(client);
            let key_name = key_name(&self.name, day)?;
            let key = client.key(&key_name);
            let asked = client.epoch_of(&key);
            let reason = match self.ask(client, day, (&key, &asked), size.max(need.wanted), until).await? {
                Told::Numbers { second, first, count } => {
                    let by = client.epoch_of(&key);
                    let came_by_it = by.is_some() && (asked.is_none() || asked == by);
                    self.saw_second(client, second);
                    // One that was replaced meanwhile is the last one known: the next is asked as a new one.
                    self.saw_number(day, first + (count - 1), if came_by_it { by.clone() } else { asked });
                    if came_by_it {
                        let next = self.calendar.id(second, first);
                        let (size, until) = (u64::from(count), client.clock().now() + LIFE);
                        return Ok(Block { next, left: size, size, until, while_: Came { key, by } });
                    }
                    "the connection was replaced each time"
                }
                Told::Elsewhere { second } if !self.calendar.seconds().contains(&second) => {
                    let from = self.calendar.epoch;
                    return Err(IdError::TimeOutOfRange { name: self.name.clone(), seconds: second, from });
                }
                Told::Elsewhere { second } => {
                    self.saw_second(client, second);
                    days += 1;
                    "servers disagree about the day"
                }
                Told::Exhausted { second } => {
                    self.saw_second(client, second);
                    return Err(IdError::DayExhausted { name: self.name.clone(), key: key_name });
                }
                Told::Strange { what } => {
                    return Err(IdError::NotANumber {
                        key: String::from_utf8_lossy(&key).into(),
                        expected: "a whole number from 0 to 2^32 - 1",
                        got: what,
                    });
                }
            };
            if days > DAYS || client.clock().now() >= until {
                return Err(self.failed(ServerError::NotSent { reason: reason.into() }));
            }
        }
    }

    async fn change(&self, _client: &Client, never: Infallible) -> Result<bool, IdError> {
        match never {}
    }

    fn name(&self) -> &Name {
        &self.name
    }

    fn stands(&self, client: &Client, came: &Came) -> bool {
        came.by.is_some() && came.by == client.epoch_of(&came.key)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_a_server_told_is_read_or_refused() {
        let told = |words: &[&str]| read(&words.iter().map(|word| (*word).to_owned()).collect::<Vec<_>>());
        assert!(matches!(
            told(&["numbers", "1795219200", "7", "3"]),
            Some(Told::Numbers { second: 1_795_219_200, first: 7, count: 3 })
        ));
        assert!(told(&["numbers", "1795219200", "4294967295", "1"]).is_some());
        for bad in [
            &["numbers", "1795219200", "4294967295", "2"][..],
            &["numbers", "1795219200", "7", "0"],
            &["numbers", "soon", "7", "3"],
            &["numbers"],
            &["elsewhere"],
            &[],
        ] {
            assert!(told(bad).is_none(), "{bad:?}");
        }
    }

    #[test]
    fn seconds_begin_at_times_and_times_are_in_seconds() {
        for second in [-2_208_988_800, -1, 0, 1_640_995_200] {
            let time = time_of(second).unwrap();
            assert_eq!((second_of(time), second_of(time + Duration::from_millis(999))), (second, second));
        }
    }
}
