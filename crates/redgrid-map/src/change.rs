//! Changes of entries.

use std::borrow::Borrow;

use bytes::Bytes;
use redgrid_codecs::{Arithmetic, Codec, Decode, Encode, Numeric};
use redgrid_core::fence::Write;
use redgrid_core::object::{ObjectError, parts};
use redgrid_core::{Request, Script, Token};

use crate::map::Map;

static INSERT: Script<1> = Script::new("map/insert", include_str!("scripts/insert.lua"));
static INSERT_IF_ABSENT: Script<1> = Script::new("map/insert_if_absent", include_str!("scripts/insert_if_absent.lua"));
static REPLACE: Script<1> = Script::new("map/replace", include_str!("scripts/replace.lua"));
static SET_IF_EXISTS: Script<1> = Script::new("map/set_if_exists", include_str!("scripts/set_if_exists.lua"));
static COMPARE_AND_SET: Script<1> = Script::new("map/compare_and_set", include_str!("scripts/compare_and_set.lua"));
static REMOVE: Script<1> = Script::new("map/remove", include_str!("scripts/remove.lua"));
static COMPARE_AND_REMOVE: Script<1> =
    Script::new("map/compare_and_remove", include_str!("scripts/compare_and_remove.lua"));

/// Asks to give a key (first) another value (last) for the one that is expected; and, where that is to be told, for what it has instead.
pub(crate) fn compare_and_set(map: &Bytes, told: bool, args: [Bytes; 3]) -> Request {
    args.into_iter().fold(COMPARE_AND_SET.with([map.clone()]).int(told.into()), Request::arg)
}

/// The same of removing it.
pub(crate) fn compare_and_remove(map: &Bytes, told: bool, args: [Bytes; 2]) -> Request {
    args.into_iter().fold(COMPARE_AND_REMOVE.with([map.clone()]).int(told.into()), Request::arg)
}

impl<K, V, KC: Codec, VC: Encode<V>> Map<K, V, KC, VC> {
    /// Gives the key a value; tells whether it is new in the map. Cheaper than [`Map::insert`], which tells what it had.
    ///
    /// # Errors
    ///
    /// [`ObjectError`] says what is true then.
    ///
    /// # Cancel safety
    ///
    /// What has left is carried out although nobody waits for it.
    #[doc(alias = "fastPut")]
    pub async fn set<Q: ?Sized>(&self, key: &Q, value: &V) -> Result<bool, ObjectError>
    where
        K: Borrow<Q>,
        KC: Encode<Q>,
    {
        let (field, value) = self.both(key, value)?;
        self.place.change(self.place.command("HSET")?.arg(field).arg(value)).await
    }

    /// Gives the key a value if `token` is not stale: the server compares it with the highest that has written this map. Tells whether
    /// the key is new. All who write must say their token, and tokens are to be of one lock, and times, as most are: counted ones go through
    /// [`Fence::write`](redgrid_core::fence::Fence::write) of a fence without a lifetime. Where a slot moves it waits until map and fence are on one side.
    ///
    /// # Errors
    ///
    /// [`ObjectError::Fenced`] when a newer holder has written; else as [`Map::set`].
    ///
    /// # Cancel safety
    ///
    /// What has left is carried out although nobody waits for it.
    pub async fn set_fenced<Q: ?Sized>(&self, key: &Q, value: &V, token: Token) -> Result<bool, ObjectError>
    where
        K: Borrow<Q>,
        KC: Encode<Q>,
    {
        let fields = vec![self.both(key, value)?];
        Ok(self.place.fenced(Write::HashSet { fields }, token).await? > 0)
    }

    /// Gives the key a value if it is not in the map; tells whether it did.
    ///
    /// # Errors
    ///
    /// As [`Map::set`].
    ///
    /// # Cancel safety
    ///
    /// As [`Map::set`].
    #[doc(alias = "fastPutIfAbsent")]
    pub async fn set_if_absent<Q: ?Sized>(&self, key: &Q, value: &V) -> Result<bool, ObjectError>
    where
        K: Borrow<Q>,
        KC: Encode<Q>,
    {
        let (field, value) = self.both(key, value)?;
        self.place.change(self.place.command("HSETNX")?.arg(field).arg(value)).await
    }

    /// Gives the key a value if it is in the map; tells whether it did.
    ///
    /// # Errors
    ///
    /// As [`Map::set`].
    ///
    /// # Cancel safety
    ///
    /// As [`Map::set`].
    #[doc(alias = "fastReplace")]
    #[doc(alias = "fastPutIfExists")]
    pub async fn set_if_exists<Q: ?Sized>(&self, key: &Q, value: &V) -> Result<bool, ObjectError>
    where
        K: Borrow<Q>,
        KC: Encode<Q>,
    {
        let (field, value) = self.both(key, value)?;
        self.scripted(&SET_IF_EXISTS, [field, value]).await
    }

    /// Gives the key a value if it has `expected`; tells whether it did. Values are equal whose bytes are.
    ///
    /// # Errors
    ///
    /// As [`Map::set`].
    ///
    /// # Cancel safety
    ///
    /// As [`Map::set`].
    #[doc(alias = "replace")]
    pub async fn compare_and_set<Q: ?Sized>(&self, key: &Q, expected: &V, new: &V) -> Result<bool, ObjectError>
    where
        K: Borrow<Q>,
        KC: Encode<Q>,
    {
        let (field, expected) = self.both(key, expected)?;
        let new = self.place.encoded(&self.values, new)?;
        let (_, map) = self.place.named()?;
        self.place.change(compare_and_set(map, false, [field, expected, new])).await
    }

    /// Removes the key if it has `expected`; tells whether it did. Values are equal whose bytes are.
    ///
    /// # Errors
    ///
    /// As [`Map::set`].
    ///
    /// # Cancel safety
    ///
    /// As [`Map::set`].
    #[doc(alias = "remove")]
    pub async fn compare_and_remove<Q: ?Sized>(&self, key: &Q, expected: &V) -> Result<bool, ObjectError>
    where
        K: Borrow<Q>,
        KC: Encode<Q>,
    {
        let (field, expected) = self.both(key, expected)?;
        let (_, map) = self.place.named()?;
        self.place.change(compare_and_remove(map, false, [field, expected])).await
    }

    /// Gives many keys values, 500 of them or about 4 MiB at a time: after an error some may have theirs.
    ///
    /// # Errors
    ///
    /// As [`Map::set`].
    ///
    /// # Cancel safety
    ///
    /// As [`Map::set`].
    #[doc(alias = "putAll")]
    pub async fn set_many<'a, Q: ?Sized + 'a>(
        &self,
        entries: impl IntoIterator<Item = (&'a Q, &'a V)>,
    ) -> Result<(), ObjectError>
    where
        K: Borrow<Q>,
        KC: Encode<Q>,
        V: 'a,
    {
        let entries: Result<Vec<_>, _> = entries.into_iter().map(|(key, value)| self.both(key, value)).collect();
        let entries = entries?;
        for part in parts(&entries, |(field, value)| field.len() + value.len()) {
            let request = self.place.command("HSET")?;
            let pairs =
                part.iter().fold(request, |request, (field, value)| request.arg(field.clone()).arg(value.clone()));
            self.place.change::<i64>(pairs).await?;
        }
        Ok(())
    }

    fn both<Q: ?Sized>(&self, key: &Q, value: &V) -> Result<(Bytes, Bytes), ObjectError>
    where
        KC: Encode<Q>,
    {
        Ok((self.place.encoded(&self.keys, key)?, self.place.encoded(&self.values, value)?))
    }
}

impl<K, V, KC: Codec, VC: Codec> Map<K, V, KC, VC> {
    async fn scripted<T: redgrid_core::FromReply, const N: usize>(
        &self,
        script: &'static Script<1>,
        args: [Bytes; N],
    ) -> Result<T, ObjectError> {
        let (_, key) = self.place.named()?;
        self.place.change(args.into_iter().fold(script.with([key.clone()]), Request::arg)).await
    }

    /// Removes keys, 500 or about 4 MiB at a time; tells how many were in the map. Cheaper than [`Map::remove`], which tells what one had.
    ///
    /// # Errors
    ///
    /// [`ObjectError`] says what is true then; of many some may be removed.
    ///
    /// # Cancel safety
    ///
    /// What has left is carried out although nobody waits for it.
    #[doc(alias = "fastRemove")]
    pub async fn remove_many<'a, Q: ?Sized + 'a>(
        &self,
        keys: impl IntoIterator<Item = &'a Q>,
    ) -> Result<u64, ObjectError>
    where
        K: Borrow<Q>,
        KC: Encode<Q>,
    {
        let fields: Result<Vec<Bytes>, _> = keys.into_iter().map(|key| self.place.encoded(&self.keys, key)).collect();
        let mut removed = 0;
        let fields = fields?;
        for part in parts(&fields, Bytes::len) {
            let request = self.place.command("HDEL")?;
            let request = part.iter().fold(request, |request, field| request.arg(field.clone()));
            removed += self.place.change::<u64>(request).await?;
        }
        Ok(removed)
    }

    /// Removes the key if `token` is not stale; tells whether it was in the map. See [`Map::set_fenced`].
    ///
    /// # Errors
    ///
    /// [`ObjectError::Fenced`] when a newer holder has written; else as [`Map::remove_many`].
    ///
    /// # Cancel safety
    ///
    /// What has left is carried out although nobody waits for it.
    pub async fn remove_fenced<Q: ?Sized>(&self, key: &Q, token: Token) -> Result<bool, ObjectError>
    where
        K: Borrow<Q>,
        KC: Encode<Q>,
    {
        let fields = vec![self.place.encoded(&self.keys, key)?];
        Ok(self.place.fenced(Write::HashDelete { fields }, token).await? > 0)
    }

    /// Adds to the key's number on the server, 0 where it is not in the map; tells what it is then.
    ///
    /// # Errors
    ///
    /// [`ObjectError`] says what is true then; a sum beyond the server's numbers is refused.
    ///
    /// # Cancel safety
    ///
    /// What has left is carried out although nobody waits for it.
    #[doc(alias = "addAndGet")]
    pub async fn add<Q: ?Sized>(&self, key: &Q, by: &V) -> Result<V, ObjectError>
    where
        K: Borrow<Q>,
        KC: Encode<Q>,
        VC: Numeric<V>,
    {
        let field = self.place.encoded(&self.keys, key)?;
        let by = self.place.encoded(&self.values, by)?;
        let sum: Bytes = match VC::ARITHMETIC {
            Arithmetic::Integer => {
                let request = self.place.command("HINCRBY")?.arg(field.clone()).arg(by);
                self.place.change::<i64>(request).await?.to_string().into()
            }
            Arithmetic::Float => {
                self.place.change(self.place.command("HINCRBYFLOAT")?.arg(field.clone()).arg(by)).await?
            }
        };
        self.place.decoded(&self.values, &sum, || crate::read::shown(&field))
    }
}

impl<K, V, KC: Codec, VC: Encode<V> + Decode<V>> Map<K, V, KC, VC> {
    /// Gives the key a value; tells what it had.
    ///
    /// # Errors
    ///
    /// As [`Map::set`]; the value is given also where what it had can not be decoded.
    ///
    /// # Cancel safety
    ///
    /// As [`Map::set`].
    #[doc(alias = "put")]
    pub async fn insert<Q: ?Sized>(&self, key: &Q, value: &V) -> Result<Option<V>, ObjectError>
    where
        K: Borrow<Q>,
        KC: Encode<Q>,
    {
        let (field, value) = self.both(key, value)?;
        let was = self.scripted(&INSERT, [field.clone(), value]).await?;
        self.value(&field, was)
    }

    /// Gives the key a value if it is not in the map; else tells what it has.
    ///
    /// # Errors
    ///
    /// As [`Map::set`].
    ///
    /// # Cancel safety
    ///
    /// As [`Map::set`].
    #[doc(alias = "putIfAbsent")]
    pub async fn insert_if_absent<Q: ?Sized>(&self, key: &Q, value: &V) -> Result<Option<V>, ObjectError>
    where
        K: Borrow<Q>,
        KC: Encode<Q>,
    {
        let (field, value) = self.both(key, value)?;
        let has = self.scripted(&INSERT_IF_ABSENT, [field.clone(), value]).await?;
        self.value(&field, has)
    }

    /// Gives the key a value if it is in the map; tells what it had.
    ///
    /// # Errors
    ///
    /// As [`Map::set`].
    ///
    /// # Cancel safety
    ///
    /// As [`Map::set`].
    #[doc(alias = "putIfExists")]
    pub async fn replace<Q: ?Sized>(&self, key: &Q, value: &V) -> Result<Option<V>, ObjectError>
    where
        K: Borrow<Q>,
        KC: Encode<Q>,
    {
        let (field, value) = self.both(key, value)?;
        let was = self.scripted(&REPLACE, [field.clone(), value]).await?;
        self.value(&field, was)
    }
}

impl<K, V, KC: Codec, VC: Decode<V>> Map<K, V, KC, VC> {
    /// Removes the key; tells what it had.
    ///
    /// # Errors
    ///
    /// [`ObjectError`] says what is true then; one whose value can not be decoded is removed all the same.
    ///
    /// # Cancel safety
    ///
    /// What has left is carried out although nobody waits for it.
    pub async fn remove<Q: ?Sized>(&self, key: &Q) -> Result<Option<V>, ObjectError>
    where
        K: Borrow<Q>,
        KC: Encode<Q>,
    {
        let field = self.place.encoded(&self.keys, key)?;
        let was = self.scripted(&REMOVE, [field.clone()]).await?;
        self.value(&field, was)
    }
}
