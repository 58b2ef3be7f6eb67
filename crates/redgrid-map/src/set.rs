//! Writes that do not return the previous value.

use bytes::Bytes;
use redgrid_codecs::{Codec, Encode, EncodesFor};
use redgrid_core::fence::Write;
use redgrid_core::object::{ObjectError, chunks};
use redgrid_core::{FromReply, Request, Script, Token};

use crate::map::Map;

static SET_IF_EXISTS: Script<1> = Script::new("map/set_if_exists", include_str!("scripts/set_if_exists.lua"));

impl<K, V, KC: Codec, VC: Encode<V>> Map<K, V, KC, VC> {
    /// Sets the value of a key. Returns whether the key is new in the map.
    ///
    /// This is cheaper than [`Map::insert`], which returns the previous value.
    ///
    /// # Errors
    ///
    /// [`ObjectError`] states what failed and whether anything may have changed.
    ///
    /// # Cancel safety
    ///
    /// A request that was already sent is executed even if the future is dropped.
    #[doc(alias = "fastPut")]
    pub async fn set<Q: ?Sized>(&self, key: &Q, value: &V) -> Result<bool, ObjectError>
    where
        KC: EncodesFor<K, Q>,
    {
        let (field, value) = self.encode_entry(key, value)?;
        self.object_ref.change(self.object_ref.command("HSET")?.arg(field).arg(value)).await
    }

    /// Sets the value of a key if `token` is not stale. Returns whether the key is new in the map.
    ///
    /// The server compares the token with the highest one that has written this map. All writers
    /// must pass their tokens, and the tokens must come from one lock. The tokens must be times, as
    /// most tokens are. For counted tokens use [`Fence::write`](redgrid_core::fence::Fence::write)
    /// of a fence without a lifetime.
    ///
    /// While the slot is being moved to another node, the call waits until map and fence are on the
    /// same node.
    ///
    /// # Errors
    ///
    /// [`ObjectError::Fenced`] if a newer holder has written. Otherwise as for [`Map::set`].
    ///
    /// # Cancel safety
    ///
    /// A request that was already sent is executed even if the future is dropped.
    pub async fn set_fenced<Q: ?Sized>(&self, key: &Q, value: &V, token: Token) -> Result<bool, ObjectError>
    where
        KC: EncodesFor<K, Q>,
    {
        let fields = vec![self.encode_entry(key, value)?];
        Ok(self.object_ref.fenced(Write::HashSet { fields }, token).await? > 0)
    }

    /// Sets the value of a key that is not in the map. Returns whether it was set.
    ///
    /// # Errors and cancel safety
    ///
    /// As for [`Map::set`].
    #[doc(alias = "fastPutIfAbsent")]
    pub async fn set_if_absent<Q: ?Sized>(&self, key: &Q, value: &V) -> Result<bool, ObjectError>
    where
        KC: EncodesFor<K, Q>,
    {
        let (field, value) = self.encode_entry(key, value)?;
        self.object_ref.change(self.object_ref.command("HSETNX")?.arg(field).arg(value)).await
    }

    /// Sets the value of a key that is in the map. Returns whether it was set.
    ///
    /// # Errors and cancel safety
    ///
    /// As for [`Map::set`].
    #[doc(alias = "fastReplace")]
    #[doc(alias = "fastPutIfExists")]
    pub async fn set_if_exists<Q: ?Sized>(&self, key: &Q, value: &V) -> Result<bool, ObjectError>
    where
        KC: EncodesFor<K, Q>,
    {
        let (field, value) = self.encode_entry(key, value)?;
        self.run_script(&SET_IF_EXISTS, [field, value]).await
    }

    /// Sets the values of keys, up to 500 or about 4 MiB a request. After an error some keys may be
    /// set.
    ///
    /// # Errors and cancel safety
    ///
    /// As for [`Map::set`].
    #[doc(alias = "putAll")]
    pub async fn set_many<'a, Q: ?Sized + 'a>(
        &self,
        entries: impl IntoIterator<Item = (&'a Q, &'a V)>,
    ) -> Result<(), ObjectError>
    where
        V: 'a,
        KC: EncodesFor<K, Q>,
    {
        let entries: Result<Vec<_>, _> =
            entries.into_iter().map(|(key, value)| self.encode_entry(key, value)).collect();
        let entries = entries?;
        for part in chunks(&entries, |(field, value)| field.len() + value.len()) {
            let request = self.object_ref.command("HSET")?;
            let pairs =
                part.iter().fold(request, |request, (field, value)| request.arg(field.clone()).arg(value.clone()));
            self.object_ref.change::<i64>(pairs).await?;
        }
        Ok(())
    }

    pub(crate) fn encode_entry<Q: ?Sized>(&self, key: &Q, value: &V) -> Result<(Bytes, Bytes), ObjectError>
    where
        KC: Encode<Q>,
    {
        Ok((self.object_ref.encoded(&self.keys, key)?, self.object_ref.encoded(&self.values, value)?))
    }
}

impl<K, V, KC: Codec, VC: Codec> Map<K, V, KC, VC> {
    pub(crate) async fn run_script<T: FromReply, const N: usize>(
        &self,
        script: &'static Script<1>,
        args: [Bytes; N],
    ) -> Result<T, ObjectError> {
        let (_, key) = self.object_ref.name_and_key()?;
        self.object_ref.change(args.into_iter().fold(script.with([key.clone()]), Request::arg)).await
    }
}
