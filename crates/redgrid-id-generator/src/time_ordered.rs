//! Ids in the order of time.

use std::fmt;
use std::ops::RangeInclusive;
use std::sync::{Arc, OnceLock};
use std::time::SystemTime;

use redgrid_core::{Client, Name};

use crate::calendar::Calendar;
use crate::days::{Days, key_name, second_of, time_of};
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
/// what is invalid is told by the first call. It may be made for each id: the client remembers for as long as it lives how far the ids
/// of a name were, some hundred bytes each.
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
    of: Result<(Name, Calendar), IdError>,
    /// Of the client, from the first call on.
    supply: OnceLock<Arc<Supply<Days>>>,
}

/// What an id is made of.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[non_exhaustive]
pub struct DecodedId {
    /// The second of the server's clock in which its block was made. Up to 20 s later after losses of contact, and one that the client
    /// had seen before where that clock was set back.
    pub time: SystemTime,
    /// The number of the day.
    pub sequence: u32,
}

impl TimeOrderedId {
    /// The ids with this name. Their epoch is 2022-01-01T00:00:00Z, and their days are those of UTC.
    pub fn new(client: &Client, name: impl AsRef<str>) -> Self {
        let calendar = Calendar { epoch: EPOCH, day_offset: 0 };
        let of = Name::new(name).map_err(IdError::from).and_then(|name| checked(name, calendar));
        TimeOrderedId { client: client.clone(), of, supply: OnceLock::new() }
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
        let of = self.of.and_then(|(name, calendar)| {
            let calendar = change(&name, calendar)?;
            checked(name, calendar)
        });
        TimeOrderedId { client: self.client, of, supply: OnceLock::new() }
    }

    fn of(&self) -> Result<&(Name, Calendar), IdError> {
        self.of.as_ref().map_err(Clone::clone)
    }

    /// What all of the client have in common that give ids of the name by the same calendar.
    fn supply(&self) -> Result<&Arc<Supply<Days>>, IdError> {
        let (name, calendar) = self.of()?;
        Ok(self.supply.get_or_init(|| {
            let Calendar { epoch, day_offset } = calendar;
            let kept_as = format!("{name}\0{epoch}\0{day_offset}").into();
            self.client.kept(&kept_as, || Supply::new(&self.client, Days::new(name.clone(), *calendar)))
        }))
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
        self.supply()?.next(&self.client).await
    }

    /// The name of the counter of a time's day, in the client's namespace: for who looks at it, or deletes it once no id of the day is
    /// to be had any more. Asks nobody.
    ///
    /// # Errors
    ///
    /// [`IdError`] where the settings can not be, or the time is none of those that ids have.
    pub fn counter_of(&self, time: SystemTime) -> Result<Name, IdError> {
        let (name, calendar) = self.of()?;
        let (second, seconds) = (second_of(time), calendar.seconds());
        match seconds.contains(&second) {
            true => Ok(key_name(name, calendar.day(second))?),
            false => Err(IdError::TimeOutOfRange { name: name.clone(), seconds: second, from: seconds.start }),
        }
    }

    /// What an id was made of. Asks nobody.
    ///
    /// # Errors
    ///
    /// [`IdError::InvalidArgument`] for what is below 0 and so no id.
    pub fn decode(&self, id: i64) -> Result<DecodedId, IdError> {
        let (name, calendar) = self.of()?;
        let (second, sequence) = calendar.parts(id);
        match time_of(second) {
            Some(time) if id >= 0 => Ok(DecodedId { time, sequence }),
            _ => Err(IdError::InvalidArgument {
                name: name.clone(),
                option: "id",
                expected: "0 to 2^63 - 1",
                got: id.to_string(),
            }),
        }
    }
}

/// A name with a day behind it is a name, too.
fn checked(name: Name, calendar: Calendar) -> Result<(Name, Calendar), IdError> {
    key_name(&name, calendar.day(calendar.epoch))?;
    Ok((name, calendar))
}

impl fmt::Debug for TimeOrderedId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let of = self.of.as_ref();
        let mut shown = f.debug_struct("TimeOrderedId");
        shown.field("name", &of.map(|(name, _)| name));
        shown.field("calendar", &of.map(|(_, calendar)| calendar).ok()).finish_non_exhaustive()
    }
}
