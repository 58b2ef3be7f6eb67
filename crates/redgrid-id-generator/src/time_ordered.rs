//! Ids that increase with time.

use std::fmt;
use std::ops::RangeInclusive;
use std::sync::{Arc, OnceLock};
use std::time::SystemTime;

use redgrid_core::author::ClientExt;
use redgrid_core::{Client, Failure, Name};

use crate::calendar::Calendar;
use crate::day_counter::{DayCounters, counter_name, second_of, time_of};
use crate::error::IdError;
use crate::prefetch::Prefetcher;

/// The default epoch: 2022-01-01T00:00:00Z.
const DEFAULT_EPOCH: i64 = 1_640_995_200;

/// The allowed epochs: the years 1900 to 9999.
const EPOCHS: RangeInclusive<i64> = -2_208_988_800..=253_402_300_799;

/// The maximum offset of a day from UTC in seconds: one day.
const MAX_DAY_OFFSET: i64 = 24 * 60 * 60;

/// Unique ids that increase with time, for all processes that use the same server.
///
/// An id has the seconds since an epoch in its high bits, and a number within the day in its low
/// bits. Ids are positive and have 63 bits. Processes need no ranges of their own.
///
/// It is cheap to clone. Clones, and all generators of a client with the same name and settings,
/// issue ids of the same block. Creating a generator sends no request: invalid settings are
/// reported by the first call. A generator may be created for each id: the client keeps the
/// position of each name, some hundred bytes, for as long as it lives.
///
/// The second and the number are from the server. The number is a counter under
/// `icr:<name>:<year>:<month>:<day>`, which other programs may increment with a plain `INCR`. A
/// client fetches as many numbers as it needs, in blocks, and issues them for at most a second; the
/// rest is skipped.
///
/// ```no_run
/// # async fn demo(client: &redgrid_id_generator::Client) -> Result<(), Box<dyn std::error::Error>> {
/// use redgrid_id_generator::TimeOrderedId;
///
/// let orders = TimeOrderedId::new(client, "order");
/// let id = orders.next().await?;
/// println!("number {} of {:?}", orders.decode(id)?.sequence, orders.decode(id)?.time);
/// # Ok(()) }
/// ```
#[derive(Clone)]
pub struct TimeOrderedId {
    client: Client,
    settings: Result<(Name, Calendar), IdError>,
    /// The prefetcher that the generators of the client share. It is set by the first call.
    prefetcher: OnceLock<Arc<Prefetcher<DayCounters>>>,
}

/// The parts of an id.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[non_exhaustive]
pub struct DecodedId {
    /// The second of the server's clock in which the block of the id was fetched. After losses of
    /// contact, it is up to 20 s later. If the server's clock was set back, it is a second that the
    /// client had already seen.
    pub time: SystemTime,
    /// The number within the day.
    pub sequence: u32,
}

impl TimeOrderedId {
    /// Returns the generator with this name. Its epoch is 2022-01-01T00:00:00Z, and its days are
    /// those of UTC.
    pub fn new(client: &Client, name: impl AsRef<str>) -> Self {
        let calendar = Calendar { epoch: DEFAULT_EPOCH, day_offset: 0 };
        let settings = Name::new(name).map_err(IdError::from).and_then(|name| checked(name, calendar));
        TimeOrderedId { client: client.clone(), settings, prefetcher: OnceLock::new() }
    }

    /// Sets the epoch: a whole second of the years 1900 to 9999.
    ///
    /// Ids can represent 2^31 seconds from the epoch, some 68 years. All users of a name must use
    /// the same epoch; ids of different epochs are not comparable.
    #[must_use]
    pub fn epoch(self, epoch: SystemTime) -> Self {
        self.with(|name, calendar| {
            let second = second_of(epoch);
            if time_of(second) == Some(epoch) && EPOCHS.contains(&second) {
                Ok(Calendar { epoch: second, ..calendar })
            } else {
                Err(IdError::invalid_time(name, epoch))
            }
        })
    }

    /// Sets the number of seconds by which a day begins earlier than in UTC, -86,400 to 86,400. For
    /// the days of UTC+8, it is 28,800.
    ///
    /// Use it to share counters with programs whose keys contain local days. All users of a name
    /// must use the same offset.
    #[must_use]
    pub fn day_offset(self, seconds: i64) -> Self {
        self.with(|name, calendar| {
            if (-MAX_DAY_OFFSET..=MAX_DAY_OFFSET).contains(&seconds) {
                Ok(Calendar { day_offset: seconds, ..calendar })
            } else {
                Err(Failure::invalid_argument(name, "day_offset", "-86400 to 86400 seconds", seconds).into())
            }
        })
    }

    fn with(self, change: impl FnOnce(&Name, Calendar) -> Result<Calendar, IdError>) -> Self {
        let settings = self.settings.and_then(|(name, calendar)| {
            let calendar = change(&name, calendar)?;
            checked(name, calendar)
        });
        TimeOrderedId { client: self.client, settings, prefetcher: OnceLock::new() }
    }

    fn settings(&self) -> Result<&(Name, Calendar), IdError> {
        self.settings.as_ref().map_err(Clone::clone)
    }

    /// Returns the prefetcher that all generators of the client with the same name and calendar
    /// share.
    fn prefetcher(&self) -> Result<&Arc<Prefetcher<DayCounters>>, IdError> {
        let (name, calendar) = self.settings()?;
        Ok(self.prefetcher.get_or_init(|| {
            let Calendar { epoch, day_offset } = calendar;
            let registry_key = format!("{name}\0{epoch}\0{day_offset}").into();
            self.client.kept(&registry_key, || Prefetcher::new(&self.client, DayCounters::new(name.clone(), *calendar)))
        }))
    }

    /// Returns a unique id. It is larger than all ids that this client has already issued.
    ///
    /// # Errors
    ///
    /// [`IdError`] states why no id was issued.
    ///
    /// # Cancel safety
    ///
    /// Dropping the future may skip a number. No number is issued twice.
    #[doc(alias = "nextId")]
    pub async fn next(&self) -> Result<i64, IdError> {
        self.prefetcher()?.next(&self.client).await
    }

    /// Returns the name of the counter for the day of a time, in the client's namespace.
    ///
    /// Use it to read the counter, or to delete it when no more ids of the day are needed. No
    /// request is sent.
    ///
    /// # Errors
    ///
    /// [`IdError`] if the settings are invalid, or ids cannot represent the time.
    pub fn counter_of(&self, time: SystemTime) -> Result<Name, IdError> {
        let (name, calendar) = self.settings()?;
        let (second, seconds) = (second_of(time), calendar.seconds());
        if seconds.contains(&second) {
            Ok(counter_name(name, calendar.day(second))?)
        } else {
            Err(IdError::TimeOutOfRange { name: name.clone(), seconds: second, from: seconds.start })
        }
    }

    /// Returns the parts of an id. No request is sent.
    ///
    /// # Errors
    ///
    /// [`Failure::InvalidArgument`] for a negative number, which is not an id.
    pub fn decode(&self, id: i64) -> Result<DecodedId, IdError> {
        let (name, calendar) = self.settings()?;
        let (second, sequence) = calendar.parts(id);
        match time_of(second) {
            Some(time) if id >= 0 => Ok(DecodedId { time, sequence }),
            _ => Err(Failure::invalid_argument(name, "id", "0 to 2^63 - 1", id).into()),
        }
    }
}

/// Checks that the name is also valid with a day appended.
fn checked(name: Name, calendar: Calendar) -> Result<(Name, Calendar), IdError> {
    counter_name(&name, calendar.day(calendar.epoch))?;
    Ok((name, calendar))
}

impl fmt::Debug for TimeOrderedId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let settings = self.settings.as_ref();
        let mut debug = f.debug_struct("TimeOrderedId");
        debug.field("name", &settings.map(|(name, _)| name));
        debug.field("calendar", &settings.map(|(_, calendar)| calendar).ok()).finish_non_exhaustive()
    }
}
