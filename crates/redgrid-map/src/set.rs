//! Values for keys, without what they had.

use std::borrow::Borrow;

use bytes::Bytes;
use redgrid_codecs::{Codec, Encode};
use redgrid_core::fence::Write;
use redgrid_core::object::{ObjectError, parts};
use redgrid_core::{FromReply, Request, Script, Token};

use crate::map::Map;

static SET_IF_EXISTS: Script<1> = Script::new("map/set_if_exists", include_str!("scripts/set_if_exists.lua"));

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

    pub(crate) fn both<Q: ?Sized>(&self, key: &Q, value: &V) -> Result<(Bytes, Bytes), ObjectError>
    where
        KC: Encode<Q>,
    {
        Ok((self.place.encoded(&self.keys, key)?, self.place.encoded(&self.values, value)?))
    }
}

impl<K, V, KC: Codec, VC: Codec> Map<K, V, KC, VC> {
    pub(crate) async fn scripted<T: FromReply, const N: usize>(
        &self,
        script: &'static Script<1>,
        args: [Bytes; N],
    ) -> Result<T, ObjectError> {
        let (_, key) = self.place.named()?;
        self.place.change(args.into_iter().fold(script.with([key.clone()]), Request::arg)).await
    }
}
