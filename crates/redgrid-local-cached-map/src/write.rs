//! Changes, each told to all who keep the map in the step in which it is made.

use std::borrow::Borrow;

use bytes::Bytes;
use redgrid_codecs::{Arithmetic, Codec, Decode, Encode, Numeric};
use redgrid_core::object::{ObjectError, parts};
use redgrid_core::{FromReply, Request, Script};

use crate::listen::topic;
use crate::map::LocalCachedMap;
use crate::message;
use crate::near::{Change, Clearing, hash};

static CHANGE: Script<1> = Script::new("local_cached_map/change", include_str!("scripts/change.lua"));
static CARRY_OUT: Script<1> = Script::new("local_cached_map/carry_out", include_str!("scripts/carry_out.lua"));

/// When a key is changed.
pub(crate) enum When {
    Always,
    Absent,
    Present,
    Equal(Bytes),
}

impl<K, V, KC: Codec, VC: Encode<V> + Decode<V>> LocalCachedMap<K, V, KC, VC> {
    /// Gives the key a value; tells what it had.
    ///
    /// # Errors
    ///
    /// As [`LocalCachedMap::set`]; the value is given also where what it had can not be decoded.
    ///
    /// # Cancel safety
    ///
    /// As [`LocalCachedMap::set`].
    #[doc(alias = "put")]
    pub async fn insert<Q: ?Sized>(&self, key: &Q, value: &V) -> Result<Option<V>, ObjectError>
    where
        K: Borrow<Q>,
        KC: Encode<Q>,
    {
        self.set_and_tell(key, value, When::Always).await
    }

    /// Gives the key a value if it is not in the map; else tells what it has.
    ///
    /// # Errors
    ///
    /// As [`LocalCachedMap::set`].
    ///
    /// # Cancel safety
    ///
    /// As [`LocalCachedMap::set`].
    #[doc(alias = "putIfAbsent")]
    pub async fn insert_if_absent<Q: ?Sized>(&self, key: &Q, value: &V) -> Result<Option<V>, ObjectError>
    where
        K: Borrow<Q>,
        KC: Encode<Q>,
    {
        self.set_and_tell(key, value, When::Absent).await
    }

    /// Gives the key a value if it is in the map; tells what it had.
    ///
    /// # Errors
    ///
    /// As [`LocalCachedMap::set`].
    ///
    /// # Cancel safety
    ///
    /// As [`LocalCachedMap::set`].
    #[doc(alias = "putIfExists")]
    pub async fn replace<Q: ?Sized>(&self, key: &Q, value: &V) -> Result<Option<V>, ObjectError>
    where
        K: Borrow<Q>,
        KC: Encode<Q>,
    {
        self.set_and_tell(key, value, When::Present).await
    }

    async fn set_and_tell<Q: ?Sized>(&self, key: &Q, value: &V, when: When) -> Result<Option<V>, ObjectError>
    where
        KC: Encode<Q>,
    {
        let (field, value) = self.both(key, value)?;
        let (_, had) = self.change(&field, Some(value), when, true).await?;
        self.value(&field, had.as_ref())
    }
}

impl<K, V, KC: Codec, VC: Encode<V>> LocalCachedMap<K, V, KC, VC> {
    /// Gives the key a value; tells whether it is new in the map. Cheaper than [`LocalCachedMap::insert`], which tells what it had.
    ///
    /// # Errors
    ///
    /// [`ObjectError`] says what is true then.
    ///
    /// # Cancel safety
    ///
    /// What has left is carried out although nobody waits for it, and told to all who keep the map.
    #[doc(alias = "fastPut")]
    pub async fn set<Q: ?Sized>(&self, key: &Q, value: &V) -> Result<bool, ObjectError>
    where
        K: Borrow<Q>,
        KC: Encode<Q>,
    {
        let (field, value) = self.both(key, value)?;
        self.carry_out::<bool>("HSET", &[&field], vec![field.clone(), value]).await
    }

    /// Gives the key a value if it is not in the map; tells whether it did.
    ///
    /// # Errors
    ///
    /// As [`LocalCachedMap::set`].
    ///
    /// # Cancel safety
    ///
    /// As [`LocalCachedMap::set`].
    #[doc(alias = "fastPutIfAbsent")]
    pub async fn set_if_absent<Q: ?Sized>(&self, key: &Q, value: &V) -> Result<bool, ObjectError>
    where
        K: Borrow<Q>,
        KC: Encode<Q>,
    {
        let (field, value) = self.both(key, value)?;
        Ok(self.change(&field, Some(value), When::Absent, false).await?.0)
    }

    /// Gives the key a value if it is in the map; tells whether it did.
    ///
    /// # Errors
    ///
    /// As [`LocalCachedMap::set`].
    ///
    /// # Cancel safety
    ///
    /// As [`LocalCachedMap::set`].
    #[doc(alias = "fastReplace")]
    #[doc(alias = "fastPutIfExists")]
    pub async fn set_if_exists<Q: ?Sized>(&self, key: &Q, value: &V) -> Result<bool, ObjectError>
    where
        K: Borrow<Q>,
        KC: Encode<Q>,
    {
        let (field, value) = self.both(key, value)?;
        Ok(self.change(&field, Some(value), When::Present, false).await?.0)
    }

    /// Gives many keys values, 500 of them or about 4 MiB at a time: after an error some may have theirs.
    ///
    /// # Errors
    ///
    /// As [`LocalCachedMap::set`].
    ///
    /// # Cancel safety
    ///
    /// As [`LocalCachedMap::set`].
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
            let fields: Vec<&Bytes> = part.iter().map(|(field, _)| field).collect();
            let args = part.iter().flat_map(|(field, value)| [field.clone(), value.clone()]).collect();
            self.carry_out::<i64>("HSET", &fields, args).await?;
        }
        Ok(())
    }

    /// Gives the key a value if it has the expected one, as the codec writes it; tells whether it did.
    ///
    /// # Errors
    ///
    /// As [`LocalCachedMap::set`].
    ///
    /// # Cancel safety
    ///
    /// As [`LocalCachedMap::set`].
    #[doc(alias = "replace")]
    pub async fn compare_and_set<Q: ?Sized>(&self, key: &Q, expected: &V, new: &V) -> Result<bool, ObjectError>
    where
        K: Borrow<Q>,
        KC: Encode<Q>,
    {
        let (field, expected) = self.both(key, expected)?;
        let new = self.place.encoded(&self.values, new)?;
        Ok(self.change(&field, Some(new), When::Equal(expected), false).await?.0)
    }

    /// Removes the key if it has the expected value, as the codec writes it; tells whether it did.
    ///
    /// # Errors
    ///
    /// As [`LocalCachedMap::set`].
    ///
    /// # Cancel safety
    ///
    /// As [`LocalCachedMap::set`].
    #[doc(alias = "remove")]
    pub async fn compare_and_remove<Q: ?Sized>(&self, key: &Q, expected: &V) -> Result<bool, ObjectError>
    where
        K: Borrow<Q>,
        KC: Encode<Q>,
    {
        let (field, expected) = self.both(key, expected)?;
        Ok(self.change(&field, None, When::Equal(expected), false).await?.0)
    }

    fn both<Q: ?Sized>(&self, key: &Q, value: &V) -> Result<(Bytes, Bytes), ObjectError>
    where
        KC: Encode<Q>,
    {
        Ok((self.place.encoded(&self.keys, key)?, self.place.encoded(&self.values, value)?))
    }
}

impl<K, V, KC: Codec, VC: Decode<V>> LocalCachedMap<K, V, KC, VC> {
    /// Removes the key; tells what it had.
    ///
    /// # Errors
    ///
    /// As [`LocalCachedMap::set`]; one whose value can not be decoded is removed all the same.
    ///
    /// # Cancel safety
    ///
    /// As [`LocalCachedMap::set`].
    pub async fn remove<Q: ?Sized>(&self, key: &Q) -> Result<Option<V>, ObjectError>
    where
        K: Borrow<Q>,
        KC: Encode<Q>,
    {
        let field = self.place.encoded(&self.keys, key)?;
        let (_, had) = self.change(&field, None, When::Always, true).await?;
        self.value(&field, had.as_ref())
    }
}

impl<K, V, KC: Codec, VC: Codec> LocalCachedMap<K, V, KC, VC> {
    /// Removes keys, 500 or about 4 MiB at a time; tells how many were in the map. Cheaper than [`LocalCachedMap::remove`], which tells what one had.
    ///
    /// # Errors
    ///
    /// As [`LocalCachedMap::set`]; of many some may be removed.
    ///
    /// # Cancel safety
    ///
    /// As [`LocalCachedMap::set`].
    #[doc(alias = "fastRemove")]
    pub async fn remove_many<'a, Q: ?Sized + 'a>(
        &self,
        keys: impl IntoIterator<Item = &'a Q>,
    ) -> Result<u64, ObjectError>
    where
        K: Borrow<Q>,
        KC: Encode<Q>,
    {
        let fields = self.place.encoded_all(&self.keys, keys)?;
        let mut removed = 0;
        for part in parts(&fields, Bytes::len) {
            let fields: Vec<&Bytes> = part.iter().collect();
            removed += self.carry_out::<u64>("HDEL", &fields, part.to_vec()).await?;
        }
        Ok(removed)
    }

    /// Adds to the key's number, which is 0 where it is not in the map; tells the sum.
    ///
    /// # Errors
    ///
    /// As [`LocalCachedMap::set`]; the server refuses what is no number, and sums beyond its numbers.
    ///
    /// # Cancel safety
    ///
    /// As [`LocalCachedMap::set`].
    #[doc(alias = "addAndGet")]
    pub async fn add<Q: ?Sized>(&self, key: &Q, by: &V) -> Result<V, ObjectError>
    where
        K: Borrow<Q>,
        KC: Encode<Q>,
        VC: Numeric<V>,
    {
        let field = self.place.encoded(&self.keys, key)?;
        let args = vec![field.clone(), self.place.encoded(&self.values, by)?];
        let sum: Bytes = match VC::ARITHMETIC {
            Arithmetic::Integer => self.carry_out::<i64>("HINCRBY", &[&field], args).await?.to_string().into(),
            Arithmetic::Float => self.carry_out("HINCRBYFLOAT", &[&field], args).await?,
        };
        self.place.decoded(&self.values, &sum, || crate::read::shown(&field))
    }

    /// Removes all entries, and with them the map, in one step, and has all who keep them forget them; tells whether there were any.
    ///
    /// # Errors
    ///
    /// As [`LocalCachedMap::set`].
    ///
    /// # Cancel safety
    ///
    /// As [`LocalCachedMap::set`].
    #[doc(alias = "delete")]
    #[doc(alias = "unlink")]
    pub async fn clear(&self) -> Result<bool, ObjectError> {
        let _cleared = Clearing(self.near()?);
        let request = self.told(&CARRY_OUT, message::clear())?.arg("DEL");
        self.place.change(request).await
    }

    /// Has all processes that keep the map forget what they keep, this one too, and those of Redisson. It is told, and not waited for.
    ///
    /// # Errors
    ///
    /// As [`LocalCachedMap::set`].
    ///
    /// # Cancel safety
    ///
    /// As [`LocalCachedMap::set`].
    #[doc(alias = "clearLocalCache")]
    pub async fn clear_all_local(&self) -> Result<(), ObjectError> {
        let _cleared = Clearing(self.near()?);
        let request = self.told(&CARRY_OUT, message::clear())?.arg("HLEN");
        self.place.change::<u64>(request.idempotent()).await.map(drop)
    }

    /// A command on these keys, with the message that they are changed.
    async fn carry_out<T: FromReply>(
        &self,
        command: &'static str,
        fields: &[&Bytes],
        args: Vec<Bytes>,
    ) -> Result<T, ObjectError> {
        let change = self.changing(fields)?;
        let request = self.told(&CARRY_OUT, message::invalidate(&change.hashes))?.arg(command);
        self.place.change(args.into_iter().fold(request, Request::arg)).await
    }

    /// Changes a key if it is as said; tells whether it did, and, where that is asked, what the key had.
    async fn change(
        &self,
        field: &Bytes,
        value: Option<Bytes>,
        when: When,
        tell: bool,
    ) -> Result<(bool, Option<Bytes>), ObjectError> {
        let change = self.changing(&[field])?;
        let request = self.changed(&change, field, value, when, tell)?;
        self.place.change(request).await
    }

    /// What is asked for that.
    pub(crate) fn changed(
        &self,
        change: &Change<'_>,
        field: &Bytes,
        value: Option<Bytes>,
        when: When,
        tell: bool,
    ) -> Result<Request, ObjectError> {
        let (when, expected) = match when {
            When::Always => ("always", None),
            When::Absent => ("absent", None),
            When::Present => ("present", None),
            When::Equal(expected) => ("equal", Some(expected)),
        };
        let request = self.told(&CHANGE, message::invalidate(&change.hashes))?.arg(when).int(tell.into());
        let request = request.arg(field.clone()).int(value.is_some().into()).arg(value.unwrap_or_default());
        Ok(request.arg(expected.unwrap_or_default()))
    }

    /// From when it ends, nothing is given out that was read of these keys before.
    pub(crate) fn changing(&self, fields: &[&Bytes]) -> Result<Change<'_>, ObjectError> {
        let hashes = fields.iter().map(|field| hash(field)).collect();
        Ok(Change { near: self.near()?, hashes })
    }

    fn told(&self, script: &'static Script<1>, message: Bytes) -> Result<Request, ObjectError> {
        let (_, key) = self.place.named()?;
        Ok(script.with([key.clone()]).publish_here().arg(topic(key)).arg(message))
    }
}
