//! What a multimap has as a whole: whether it is there, its lifetime, other names, its size in memory.

mod said;

use std::fmt;

use bytes::Bytes;
use redgrid_codecs::{Codec, Raw};
use redgrid_core::name::suffixed;
use redgrid_core::object::{Lifetime, ObjectError, Rounds};
use redgrid_core::{BulkScript, Name, Request};

pub use self::said::{Copy, Expire, Rename};

use crate::all::PAGE;
use crate::kind::Kind;
use crate::kind::sealed::{Values, Way};
use crate::multimap::Multimap;

macro_rules! whole {
    ($name:ident, $script:literal) => {
        static $name: BulkScript = BulkScript::new(
            concat!("multimap/", $script),
            concat!(include_str!("../scripts/same.lua"), include_str!(concat!("../scripts/", $script, ".lua"))),
        );
    };
}

whole!(LIVE, "live_whole");
whole!(MOVE, "move_whole");
static MEMORY: BulkScript = BulkScript::new("multimap/memory", include_str!("../scripts/memory.lua"));

/// How many keys a map has at most that gets another end or another name, which is one step: some tens of milliseconds.
const MOST: u64 = 10_000;

/// A multimap as a whole, by its kind `Y`; made by [`Multimap::object`]. It is as many keys of the server as it has keys, and one or two.
///
/// What changes all of them is one step: they are read, and a script changes them if they still are what was read, else that begins anew, for as long
/// as a call may take. So it is bounded: [`ObjectError::InvalidArgument`] of a map with more than 10,000 keys. What deletes it or looks at it goes by pages
/// of any number.
#[doc(alias = "RObject")]
#[doc(alias = "RExpirable")]
pub struct MultimapObject<Y> {
    map: Multimap<Bytes, Bytes, Raw, Raw, Y>,
}

impl<K, V, KC: Codec, VC: Codec, Y: Kind> Multimap<K, V, KC, VC, Y> {
    /// What every object has: whether it is there, its lifetime, other names, its size in memory. All of its keys go together.
    pub fn object(&self) -> MultimapObject<Y> {
        MultimapObject { map: self.of_bytes() }
    }
}

impl<Y: Kind> MultimapObject<Y> {
    /// The name, where it can be one.
    #[doc(alias = "getName")]
    pub fn name(&self) -> Option<&Name> {
        self.map.place.name()
    }

    /// Whether it is there: whether it has keys that are not over.
    ///
    /// # Errors
    ///
    /// [`ObjectError`] says what is true then.
    ///
    /// # Cancel safety
    ///
    /// Dropping it changes nothing that is there.
    #[doc(alias = "isExists")]
    pub async fn exists(&self) -> Result<bool, ObjectError> {
        Ok(!self.map.is_empty().await?)
    }

    /// Deletes it with the values of all keys, by pages of 100 keys, as [`Multimap::clear`]; tells whether there were any. The memory is freed in the
    /// background.
    ///
    /// # Errors
    ///
    /// [`ObjectError`] says what is true then; some keys may be gone.
    ///
    /// # Cancel safety
    ///
    /// What has left is carried out although nobody waits for it; the rest stays.
    #[doc(alias = "unlink")]
    pub async fn delete(&self) -> Result<bool, ObjectError> {
        Ok(self.map.clear().await? > 0)
    }

    /// Has the server take it for just used, with the values of all keys, by pages of 100; tells whether it is there.
    ///
    /// # Errors
    ///
    /// [`ObjectError`] says what is true then.
    ///
    /// # Cancel safety
    ///
    /// What has left is carried out although nobody waits for it.
    pub async fn touch(&self) -> Result<bool, ObjectError> {
        self.without_what_is_over().await?;
        let (map, ends) = self.keys()?;
        let touched: u64 = self.map.place.ask(Request::command("TOUCH").keys([map, ends])).await?;
        let mut scan = self.map.scan_all()?;
        loop {
            let page = Multimap::<Bytes, Bytes, Raw, Raw, Y>::page(&mut scan, PAGE as usize).await?;
            if page.is_empty() {
                return Ok(touched > 0);
            }
            let request = Request::command("TOUCH").keys(page.into_iter().map(|found| found.values));
            let _: u64 = self.map.place.ask(request).await?;
        }
    }

    /// How many bytes of the server's memory it takes with the values of all keys, by the server's estimate, by pages of 100; `None` where it is not there.
    /// What changes meanwhile is counted or not.
    ///
    /// # Errors
    ///
    /// [`ObjectError`] says what is true then.
    ///
    /// # Cancel safety
    ///
    /// Dropping it changes nothing that is there.
    #[doc(alias = "sizeInMemory")]
    pub async fn memory(&self) -> Result<Option<u64>, ObjectError> {
        self.without_what_is_over().await?;
        let (map, ends) = self.keys()?;
        let mut sum: u64 = self.map.place.ask(MEMORY.with([map, ends])).await?;
        let mut scan = self.map.scan_all()?;
        loop {
            let page = Multimap::<Bytes, Bytes, Raw, Raw, Y>::page(&mut scan, PAGE as usize).await?;
            if page.is_empty() {
                return Ok((sum > 0).then_some(sum));
            }
            sum += self.map.place.ask::<u64>(MEMORY.with(page.into_iter().map(|found| found.values))).await?;
        }
    }

    /// How long it lives as a whole. Its keys may end sooner.
    ///
    /// # Errors
    ///
    /// [`ObjectError`] says what is true then.
    ///
    /// # Cancel safety
    ///
    /// Dropping it changes nothing that is there.
    #[doc(alias = "remainTimeToLive")]
    #[doc(alias = "getExpireTime")]
    pub async fn lifetime(&self) -> Result<Lifetime, ObjectError> {
        self.without_what_is_over().await?;
        Ok(Lifetime::of(self.map.place.ask(self.map.place.command("PTTL")?).await?))
    }

    /// Has it live on without an end; tells whether it had one. Lifetimes of single keys stay.
    ///
    /// # Errors
    ///
    /// [`ObjectError`] says what is true then.
    ///
    /// # Cancel safety
    ///
    /// What has left is carried out although nobody waits for it.
    #[doc(alias = "clearExpire")]
    pub async fn persist(&self) -> Result<bool, ObjectError> {
        self.live("PERSIST", Bytes::new(), "").await
    }

    /// Has the keys taken out that are over: a map that has no others is not there.
    async fn without_what_is_over(&self) -> Result<(), ObjectError> {
        match Y::WAY {
            Way::Ends => self.map.key_len().await.map(drop),
            _ => Ok(()),
        }
    }

    /// The map, and what may be beside it.
    fn keys(&self) -> Result<(Bytes, Bytes), ObjectError> {
        let (_, map) = self.map.place.named()?;
        Ok((map.clone(), ends_of::<Y>(map)))
    }

    /// The hashes of all keys of a map, with what is in front of each in the name of values.
    async fn hashes(&self, rounds: &Rounds, map: &Bytes) -> Result<Vec<Bytes>, ObjectError> {
        let len: u64 = rounds.read(Request::command("HLEN").key(map.clone())).await?;
        if len > MOST {
            let expected = format_args!("up to {MOST}, as all of them change in one step");
            return Err(self.map.place.invalid("number of keys", expected, len));
        }
        rounds.read(Request::command("HVALS").key(map.clone())).await
    }

    async fn live(&self, command: &'static str, millis: Bytes, condition: &'static str) -> Result<bool, ObjectError> {
        let (name, map) = self.map.place.named()?;
        self.without_what_is_over().await?;
        let mut rounds = Rounds::of(self.map.place.client(), name);
        loop {
            let before = suffixed(map, "");
            let values = self.hashes(&rounds, map).await?.into_iter().map(|hash| joined(&before, &hash));
            let request = LIVE.with([map.clone(), ends_of::<Y>(map)].into_iter().chain(values));
            let request = request.arg(Y::WAY.word()).arg(before.clone()).arg(command).arg(millis.clone());
            match rounds.change::<i64>(request.arg(condition)).await? {
                -2 => rounds.lost().await?,
                done => return Ok(done == 1),
            };
        }
    }

    async fn moved(&self, how: &'static str, to: &str, replaces: bool) -> Result<bool, ObjectError> {
        let place = &self.map.place;
        let (name, map) = place.named()?;
        let other = place.beside("name", to)?;
        let (before, behind) = (suffixed(map, ""), suffixed(&other, ""));
        if other != map && before == behind {
            return Err(place.invalid("name", "one whose keys are not those of the object itself", to));
        }
        self.without_what_is_over().await?;
        match (MultimapObject::<Y> { map: Multimap::new(place.client(), to) }).without_what_is_over().await {
            // Something else has that name.
            Ok(()) | Err(ObjectError::Refused { .. }) => {}
            Err(error) => return Err(error),
        }
        let mut rounds = Rounds::of(place.client(), name);
        loop {
            let hashes = self.hashes(&rounds, map).await?;
            let there = match replaces && other != map {
                true => self.hashes(&rounds, &other).await?,
                false => Vec::new(),
            };
            let keys = [map.clone(), ends_of::<Y>(map), other.clone(), ends_of::<Y>(&other)].into_iter();
            let keys = keys.chain(hashes.iter().map(|hash| joined(&before, hash)));
            let keys = keys.chain(hashes.iter().map(|hash| joined(&behind, hash)));
            let keys = keys.chain(there.iter().map(|hash| joined(&behind, hash)));
            let count = i64::try_from(hashes.len()).unwrap_or(i64::MAX);
            let request = MOVE.with(keys).arg(before.clone()).arg(behind.clone()).arg(how).int(replaces.into());
            match rounds.change::<i64>(request.int(count)).await? {
                -2 => rounds.lost().await?,
                -1 => return Err(ObjectError::Absent { name: name.clone() }),
                done => return Ok(done == 1),
            };
        }
    }
}

fn ends_of<Y: Kind>(map: &Bytes) -> Bytes {
    suffixed(map, <Y::Values as Values>::ENDS)
}

fn joined(before: &Bytes, hash: &Bytes) -> Bytes {
    [&before[..], &hash[..]].concat().into()
}

impl<Y> Clone for MultimapObject<Y> {
    fn clone(&self) -> Self {
        MultimapObject { map: self.map.clone() }
    }
}

impl<Y: Kind> fmt::Debug for MultimapObject<Y> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("MultimapObject").field("name", &self.name()).finish_non_exhaustive()
    }
}
