//! Ids in the order of time.

use std::fmt;
use std::ops::RangeInclusive;
use std::sync::Arc;
use std::time::SystemTime;

use redgrid_core::{Client, Name};

use crate::calendar::Calendar;
use crate::days::{Days, second_of, time_of};
use crate::error::IdError;
use crate::supply::Supply;

/// From when on seconds count where nothing else is said: 2022-01-01T00:00:00Z.
const EPOCH: i64 = 1_640_995_200;

/// The seconds that ids may count from: those of the years 1900 to 9999.
const EPOCHS: RangeInclusive<i64> = -2_208_988_800..=253_402_300_799;

/// The most seconds by which a day may begin earlier or later than in UTC: a day.
const FARTHEST: i64 = 24 * 60 * 60;

/// Unique ids that rise with time, for all processes that reach the same server: the seconds since an epoch above a number of the
/// day. They are positive, have 63 bits, and take no table of who may give which.
///
/// Cheap to clone; clones, and all of a client with one name and the same settings, give from the same block. Making one asks nobody:
/// what is invalid is told by the first call.
///
/// Second and number are the server's. The number is a counter under `icr:<name>:<year>:<month>:<day>`, which programs with a plain
/// `INCR` of their own may share. A client takes numbers in blocks, as many as it needs, and gives them for a second at most; what is
/// not given by then is left out.
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
    supply: Result<Arc<Supply<Days>>, IdError>,
}

/// What an id is made of.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[non_exhaustive]
pub struct DecodedId {
    /// The second of the server's clock in which it was made, or one that the client had seen before.
    pub time: SystemTime,
    /// The number of the day.
    pub sequence: u32,
}

impl TimeOrderedId {
    /// The ids with this name. Their epoch is 2022-01-01T00:00:00Z, and their days are those of UTC.
    pub fn new(client: &Client, name: impl AsRef<str>) -> Self {
        let calendar = Calendar { epoch: EPOCH, day_offset: 0 };
        let supply = Name::new(name).map_err(IdError::from).and_then(|name| supply(client, name, calendar));
        TimeOrderedId { client: client.clone(), supply }
    }

    /// The same from another time on: a whole second of the years 1900 to 9999. Ids last for 2^31 seconds, some 68 years, from there.
    /// All who share a name are to have the same epoch; ids of another one are not comparable to those.
    #[must_use]
    pub fn epoch(self, epoch: SystemTime) -> Self {
        self.with(|name, calendar| {
            let second = second_of(epoch);
            match time_of(second) == Some(epoch) && EPOCHS.contains(&second) {
                true => Ok(Calendar { epoch: second, ..calendar }),
                false => Err(IdError::invalid_time(name, epoch)),
            }
        })
    }

    /// The same with days that begin so many seconds earlier than in UTC, -86,400 to 86,400; 28,800 is the day of UTC+8. For those who
    /// share counters with programs that have local days in their keys. All who share a name are to have the same offset.
    #[must_use]
    pub fn day_offset(self, seconds: i64) -> Self {
        self.with(|name, calendar| match (-FARTHEST..=FARTHEST).contains(&seconds) {
            true => Ok(Calendar { day_offset: seconds, ..calendar }),
            false => Err(IdError::InvalidArgument {
                name: name.clone(),
                option: "day_offset",
                expected: "-86400 to 86400 seconds",
                got: seconds.to_string(),
            }),
        })
    }

    fn with(self, change: impl FnOnce(&Name, Calendar) -> Result<Calendar, IdError>) -> Self {
        let changed = self.supply.and_then(|former| {
            let days = former.source();
            supply(&self.client, days.name.clone(), change(&days.name, days.calendar)?)
        });
        TimeOrderedId { client: self.client, supply: changed }
    }

    fn supply(&self) -> Result<&Arc<Supply<Days>>, IdError> {
        self.supply.as_ref().map_err(Clone::clone)
    }

    /// An id that nobody else is given, larger than those that this client was given before.
    ///
    /// # Errors
    ///
    /// [`IdError`] says why there is none.
    ///
    /// # Cancel safety
    ///
    /// Dropping it may leave a number out, and never gives one twice.
    #[doc(alias = "nextId")]
    pub async fn next(&self) -> Result<i64, IdError> {
        self.supply()?.next().await
    }

    /// The name of the counter of a time's day, in the client's namespace: for who looks at it, or deletes it once no id of the day is
    /// to be had any more. Asks nobody.
    ///
    /// # Errors
    ///
    /// [`IdError`] where the settings can not be, or the time is none of those that ids have.
    pub fn counter_of(&self, time: SystemTime) -> Result<Name, IdError> {
        let days = self.supply()?.source();
        let (second, seconds) = (second_of(time), days.calendar.seconds());
        match seconds.contains(&second) {
            true => days.key_name(days.calendar.day(second)),
            false => Err(IdError::TimeOutOfRange { name: days.name.clone(), seconds: second, from: seconds.start }),
        }
    }

    /// What an id was made of. Asks nobody.
    ///
    /// # Errors
    ///
    /// [`IdError::InvalidArgument`] for what is below 0 and so no id.
    pub fn decode(&self, id: i64) -> Result<DecodedId, IdError> {
        let days = self.supply()?.source();
        let (second, sequence) = days.calendar.parts(id);
        match time_of(second) {
            Some(time) if id >= 0 => Ok(DecodedId { time, sequence }),
            _ => Err(IdError::InvalidArgument {
                name: days.name.clone(),
                option: "id",
                expected: "0 to 2^63 - 1",
                got: id.to_string(),
            }),
        }
    }
}

/// What all have in common that give ids of a name by the same calendar.
fn supply(client: &Client, name: Name, calendar: Calendar) -> Result<Arc<Supply<Days>>, IdError> {
    let Calendar { epoch, day_offset } = calendar;
    let shared_as = format!("{name}\0{epoch}\0{day_offset}").into();
    let days = Days::new(client, name, calendar)?;
    Ok(client.shared(&shared_as, || Supply::new(client, days)))
}

impl fmt::Debug for TimeOrderedId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let days = self.supply.as_ref().map(|supply| supply.source());
        let mut shown = f.debug_struct("TimeOrderedId");
        shown.field("name", &days.map(|days| &days.name));
        shown.field("calendar", &days.map(|days| days.calendar).ok()).finish_non_exhaustive()
    }
}
