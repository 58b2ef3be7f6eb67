//! The multimap as a whole: existence, lifetime, renaming, memory size.

mod builders;

use bytes::Bytes;
use redgrid_codecs::{Codec, Raw};
use redgrid_core::name::suffixed;
use redgrid_core::object::{CasLoop, Lifetime, ObjectError};
use redgrid_core::{BulkScript, Failure, Name, Request};

pub use self::builders::{Copy, Expire, Rename};

use crate::all_keys::PAGE;
use crate::kind::Kind;
use crate::kind::sealed::{LifetimeMode, Values};
use crate::multimap::Multimap;

macro_rules! whole_script {
    ($name:ident, $script:literal) => {
        static $name: BulkScript = BulkScript::new(
            concat!("multimap/", $script),
            concat!(
                include_str!("../scripts/whole_prelude.lua"),
                include_str!(concat!("../scripts/", $script, ".lua"))
            ),
        );
    };
}

whole_script!(EXPIRE, "expire_whole");
whole_script!(MOVE, "move_whole");
static MEMORY: BulkScript = BulkScript::new("multimap/memory", include_str!("../scripts/memory.lua"));

/// Maximum number of keys of a map for a change of its lifetime or name. The change is one step,
/// which takes some tens of milliseconds.
const MAX_KEYS: u64 = 10_000;

/// A multimap as a whole, by its kind `Y`; created by [`Multimap::object`].
///
/// On the server it consists of one Redis key for each key of the map, and one or two others.
///
/// A change of the whole map is one step. The keys are read, and a script changes them if they are
/// still the same. Otherwise this is repeated, up to the time limit of a call. The number of keys
/// is therefore limited: for a map with more than 10,000 keys the change fails with
/// [`Failure::InvalidArgument`]. Deletion and reads process pages of any number of keys.
#[doc(alias = "RObject")]
#[doc(alias = "RExpirable")]
pub struct MultimapObject<Y> {
    map: Multimap<Bytes, Bytes, Raw, Raw, Y>,
}

impl<K, V, KC: Codec, VC: Codec, Y: Kind> Multimap<K, V, KC, VC, Y> {
    /// Returns the [`MultimapObject`] of this name: existence, lifetime, renaming, memory size.
    ///
    /// It comprises the server's keys of all values.
    pub fn object(&self) -> MultimapObject<Y> {
        MultimapObject { map: self.raw() }
    }
}

impl<Y: Kind> MultimapObject<Y> {
    /// Returns the name; `None` if it is invalid.
    #[doc(alias = "getName")]
    pub fn name(&self) -> Option<&Name> {
        self.map.object_ref.name()
    }

    /// Returns whether the map exists: whether it has keys that have not expired.
    ///
    /// # Errors
    ///
    /// [`ObjectError`] states what failed and whether anything may have changed.
    ///
    /// # Cancel safety
    ///
    /// Dropping the future changes no live key.
    #[doc(alias = "isExists")]
    pub async fn exists(&self) -> Result<bool, ObjectError> {
        Ok(!self.map.is_empty().await?)
    }

    /// Deletes the map with the values of all keys, in pages of 100 keys, as [`Multimap::clear`].
    /// Returns whether there were any keys.
    ///
    /// The server frees the memory in the background.
    ///
    /// # Errors
    ///
    /// [`ObjectError`] states what failed and whether anything may have changed. Some of the keys
    /// may be gone.
    ///
    /// # Cancel safety
    ///
    /// A request that was already sent is executed even if the future is dropped; the other keys
    /// remain.
    #[doc(alias = "unlink")]
    pub async fn delete(&self) -> Result<bool, ObjectError> {
        Ok(self.map.clear().await? > 0)
    }

    /// Marks the map as just used on the server, with the values of all keys, in pages of 100.
    /// Returns whether the map exists.
    ///
    /// # Errors
    ///
    /// [`ObjectError`] states what failed and whether anything may have changed.
    ///
    /// # Cancel safety
    ///
    /// A request that was already sent is executed even if the future is dropped.
    pub async fn touch(&self) -> Result<bool, ObjectError> {
        self.purge_expired().await?;
        let (map, expiry_key) = self.object_keys()?;
        let touched: u64 = self.map.object_ref.read_primary(Request::command("TOUCH").keys([map, expiry_key])).await?;
        let mut scan = self.map.scan_all()?;
        loop {
            let page = Multimap::<Bytes, Bytes, Raw, Raw, Y>::next_page(&mut scan, PAGE as usize).await?;
            if page.is_empty() {
                return Ok(touched > 0);
            }
            let request = Request::command("TOUCH").keys(page.into_iter().map(|key| key.values_key));
            let _: u64 = self.map.object_ref.read_primary(request).await?;
        }
    }

    /// Returns the memory of the map on the server in bytes, with the values of all keys, by the
    /// server's estimate. `None` if the map does not exist.
    ///
    /// The keys are read in pages of 100. Changes made meanwhile may be counted or not.
    ///
    /// # Errors
    ///
    /// [`ObjectError`] states what failed and whether anything may have changed.
    ///
    /// # Cancel safety
    ///
    /// Dropping the future changes no live key.
    #[doc(alias = "sizeInMemory")]
    pub async fn memory(&self) -> Result<Option<u64>, ObjectError> {
        self.purge_expired().await?;
        let (map, expiry_key) = self.object_keys()?;
        let mut sum: u64 = self.map.object_ref.read_primary(MEMORY.with([map, expiry_key])).await?;
        let mut scan = self.map.scan_all()?;
        loop {
            let page = Multimap::<Bytes, Bytes, Raw, Raw, Y>::next_page(&mut scan, PAGE as usize).await?;
            if page.is_empty() {
                return Ok((sum > 0).then_some(sum));
            }
            sum += self
                .map
                .object_ref
                .read_primary::<u64>(MEMORY.with(page.into_iter().map(|key| key.values_key)))
                .await?;
        }
    }

    /// Returns the remaining lifetime of the whole map. Its keys may expire earlier.
    ///
    /// # Errors
    ///
    /// [`ObjectError`] states what failed and whether anything may have changed.
    ///
    /// # Cancel safety
    ///
    /// Dropping the future changes no live key.
    #[doc(alias = "remainTimeToLive")]
    #[doc(alias = "getExpireTime")]
    pub async fn lifetime(&self) -> Result<Lifetime, ObjectError> {
        self.purge_expired().await?;
        Ok(Lifetime::of(self.map.object_ref.read_primary(self.map.object_ref.command("PTTL")?).await?))
    }

    /// Removes the lifetime of the map. Returns whether it had one. Lifetimes of single keys are
    /// unchanged.
    ///
    /// # Errors
    ///
    /// [`ObjectError`] states what failed and whether anything may have changed.
    ///
    /// # Cancel safety
    ///
    /// A request that was already sent is executed even if the future is dropped.
    #[doc(alias = "clearExpire")]
    pub async fn persist(&self) -> Result<bool, ObjectError> {
        self.set_expiry("PERSIST", Bytes::new(), "").await
    }

    /// Removes expired keys: a map that has no other keys does not exist.
    async fn purge_expired(&self) -> Result<(), ObjectError> {
        match Y::LIFETIME_MODE {
            LifetimeMode::SortedSet => self.map.key_len().await.map(drop),
            _ => Ok(()),
        }
    }

    /// Returns the keys of the map and of its sorted set of expiries.
    fn object_keys(&self) -> Result<(Bytes, Bytes), ObjectError> {
        let (_, map) = self.map.object_ref.name_and_key()?;
        Ok((map.clone(), expiry_key_of::<Y>(map)))
    }

    /// Returns the stored hashes of all keys of a map.
    async fn hashes(&self, cas_loop: &CasLoop, map: &Bytes) -> Result<Vec<Bytes>, ObjectError> {
        let len: u64 = cas_loop.read(Request::command("HLEN").key(map.clone())).await?;
        if len > MAX_KEYS {
            let expected = format_args!("up to {MAX_KEYS}, as all of them change in one step");
            return Err(self.map.object_ref.invalid("number of keys", expected, len));
        }
        cas_loop.read(Request::command("HVALS").key(map.clone())).await
    }

    async fn set_expiry(
        &self,
        command: &'static str,
        millis: Bytes,
        condition: &'static str,
    ) -> Result<bool, ObjectError> {
        let (name, map) = self.map.object_ref.name_and_key()?;
        self.purge_expired().await?;
        let mut cas_loop = CasLoop::new(self.map.object_ref.client(), name);
        loop {
            let prefix = suffixed(map, "");
            let values_keys = self.hashes(&cas_loop, map).await?.into_iter().map(|hash| values_key_of(&prefix, &hash));
            let request = EXPIRE.with([map.clone(), expiry_key_of::<Y>(map)].into_iter().chain(values_keys));
            let request = request.arg(Y::LIFETIME_MODE.name()).arg(prefix.clone()).arg(command).arg(millis.clone());
            match cas_loop.change::<i64>(request.arg(condition)).await? {
                -2 => cas_loop.lost().await?,
                status => return Ok(status == 1),
            };
        }
    }

    async fn move_to(&self, command: &'static str, to: &str, replaces: bool) -> Result<bool, ObjectError> {
        let object_ref = &self.map.object_ref;
        let (name, map) = object_ref.name_and_key()?;
        let other = object_ref.same_slot_key("name", to)?;
        let (prefix, other_prefix) = (suffixed(map, ""), suffixed(&other, ""));
        if other != map && prefix == other_prefix {
            return Err(object_ref.invalid("name", "a name that shares no keys with this object", to));
        }
        self.purge_expired().await?;
        match (MultimapObject::<Y> { map: Multimap::new(object_ref.client(), to) }).purge_expired().await {
            // The other name belongs to an object of another type.
            Ok(()) | Err(ObjectError::Failed(Failure::Refused { .. })) => {}
            Err(error) => return Err(error),
        }
        let mut cas_loop = CasLoop::new(object_ref.client(), name);
        loop {
            let hashes = self.hashes(&cas_loop, map).await?;
            let replaced_hashes =
                if replaces && other != map { self.hashes(&cas_loop, &other).await? } else { Vec::new() };
            let keys = [map.clone(), expiry_key_of::<Y>(map), other.clone(), expiry_key_of::<Y>(&other)].into_iter();
            let keys = keys.chain(hashes.iter().map(|hash| values_key_of(&prefix, hash)));
            let keys = keys.chain(hashes.iter().map(|hash| values_key_of(&other_prefix, hash)));
            let keys = keys.chain(replaced_hashes.iter().map(|hash| values_key_of(&other_prefix, hash)));
            let count = i64::try_from(hashes.len()).unwrap_or(i64::MAX);
            let request = MOVE.with(keys).arg(prefix.clone()).arg(other_prefix.clone());
            let request = request.arg(command).int(replaces.into());
            match cas_loop.change::<i64>(request.int(count)).await? {
                -2 => cas_loop.lost().await?,
                -1 => return Err(ObjectError::Absent { name: name.clone() }),
                status => return Ok(status == 1),
            };
        }
    }
}

fn expiry_key_of<Y: Kind>(map: &Bytes) -> Bytes {
    suffixed(map, <Y::Values as Values>::EXPIRY_SUFFIX)
}

fn values_key_of(prefix: &Bytes, hash: &Bytes) -> Bytes {
    [&prefix[..], &hash[..]].concat().into()
}

impl<Y> Clone for MultimapObject<Y> {
    fn clone(&self) -> Self {
        MultimapObject { map: self.map.clone() }
    }
}

redgrid_core::debug_fields!([Y: Kind] MultimapObject<Y>, |it| name: it.name());
