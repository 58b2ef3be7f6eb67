//! What a key has, and which keys there are.

use std::borrow::Borrow;

use bytes::Bytes;
use redgrid_codecs::{Codec, Decode, Encode};
use redgrid_core::object::{ObjectError, Place, Scan};
use redgrid_core::{FromReply, Request};

use crate::kind::Kind;
use crate::kind::sealed::{Values, Way};
use crate::multimap::{Found, Multimap, script};

script!(COUNT, "count");
script!(KEYS, "keys");
script!(SCAN, "scan");

/// How many keys that are over a count takes out at a time.
const COUNTED: i64 = 100;

impl<K, V, KC: Codec, VC: Codec, Y: Kind> Multimap<K, V, KC, VC, Y> {
    /// Asks about a key; nothing where its lifetime is over.
    async fn about<R: FromReply>(
        &self,
        found: Found,
        command: &[&'static str],
        arg: Option<Bytes>,
    ) -> Result<Option<R>, ObjectError> {
        if Y::WAY == Way::Ends {
            return Ok(self.each(&[found], command, arg.as_ref()).await?.pop().flatten());
        }
        let request = Request::command(command[0]).key(found.values);
        let request = command[1..].iter().fold(request, |request, arg| request.arg(*arg));
        self.place.read(arg.into_iter().fold(request, Request::arg)).await
    }

    /// How many keys it has. Of one whose keys have lifetimes, those that are over are taken out for that, 100 at a time; a native one tells at once, and
    /// may count what has ended within the last moments and the server has not taken out yet.
    ///
    /// # Errors
    ///
    /// [`ObjectError`] says what is true then; [`ObjectError::Contended`] where more is over than can be taken out in the time that a call may take,
    /// [`Client::patience`](redgrid_core::Client::patience): the next call goes on with the rest.
    ///
    /// # Cancel safety
    ///
    /// Dropping it changes nothing that is there.
    #[doc(alias = "keySize")]
    pub async fn key_len(&self) -> Result<u64, ObjectError> {
        if Y::WAY != Way::Ends {
            return self.place.read(self.place.command("HLEN")?).await;
        }
        let client = self.place.client();
        let until = client.clock().now() + client.patience();
        loop {
            let (len, over): (u64, Vec<Bytes>) = self.place.ask(self.script(&COUNT, [])?.int(COUNTED)).await?;
            if over.is_empty() {
                return Ok(len);
            }
            let _: (u64, Vec<Bytes>) = self.place.ask(self.purging(over)?).await?;
            if client.clock().now() >= until {
                return Err(ObjectError::Contended { name: self.place.named()?.0.clone(), times: 1 });
            }
        }
    }

    /// Whether it has none.
    ///
    /// # Errors
    ///
    /// As [`Multimap::key_len`].
    ///
    /// # Cancel safety
    ///
    /// As [`Multimap::key_len`].
    #[doc(alias = "isEmpty")]
    pub async fn is_empty(&self) -> Result<bool, ObjectError> {
        Ok(self.key_len().await? == 0)
    }

    /// Whether a key has values.
    ///
    /// # Errors
    ///
    /// As [`Multimap::key_len`].
    ///
    /// # Cancel safety
    ///
    /// As [`Multimap::key_len`].
    #[doc(alias = "containsKey")]
    pub async fn contains_key<Q: ?Sized>(&self, key: &Q) -> Result<bool, ObjectError>
    where
        K: Borrow<Q>,
        KC: Encode<Q>,
    {
        Ok(self.about::<bool>(self.found(key)?, &["EXISTS"], None).await?.unwrap_or(false))
    }

    /// How many values a key has.
    ///
    /// # Errors
    ///
    /// As [`Multimap::key_len`].
    ///
    /// # Cancel safety
    ///
    /// As [`Multimap::key_len`].
    pub async fn values_len<Q: ?Sized>(&self, key: &Q) -> Result<u64, ObjectError>
    where
        K: Borrow<Q>,
        KC: Encode<Q>,
    {
        Ok(self.about(self.found(key)?, &[Y::Values::LEN], None).await?.unwrap_or(0))
    }
}

impl<K, V, KC: Codec, VC: Encode<V>, Y: Kind> Multimap<K, V, KC, VC, Y> {
    /// Whether a key has a value. Of a list the server looks through it.
    ///
    /// # Errors
    ///
    /// As [`Multimap::key_len`].
    ///
    /// # Cancel safety
    ///
    /// As [`Multimap::key_len`].
    #[doc(alias = "containsEntry")]
    pub async fn contains_entry<Q: ?Sized>(&self, key: &Q, value: &V) -> Result<bool, ObjectError>
    where
        K: Borrow<Q>,
        KC: Encode<Q>,
    {
        let value = self.place.encoded(&self.values, value)?;
        Ok(Y::Values::is_in(self.about(self.found(key)?, &[Y::Values::CONTAINS], Some(value)).await?))
    }
}

impl<K, V, KC: Codec, VC: Decode<V>, Y: Kind> Multimap<K, V, KC, VC, Y> {
    /// All values of a key in one answer: as large as all of them; of a list in their order. None where the key is not in the map.
    ///
    /// # Errors
    ///
    /// As [`Multimap::key_len`].
    ///
    /// # Cancel safety
    ///
    /// As [`Multimap::key_len`].
    #[doc(alias = "getAll")]
    #[doc(alias = "get")]
    pub async fn get_all<Q: ?Sized>(&self, key: &Q) -> Result<Vec<V>, ObjectError>
    where
        K: Borrow<Q>,
        KC: Encode<Q>,
    {
        let all: Option<Vec<Bytes>> = self.about(self.found(key)?, Y::Values::ALL, None).await?;
        all.unwrap_or_default().iter().map(|bytes| self.value(bytes)).collect()
    }
}

impl<K, V, KC: Decode<K>, VC: Codec, Y: Kind> Multimap<K, V, KC, VC, Y> {
    /// All keys in one answer: as large as all of them. For large maps there is [`Multimap::keys`].
    ///
    /// # Errors
    ///
    /// As [`Multimap::key_len`].
    ///
    /// # Cancel safety
    ///
    /// As [`Multimap::key_len`].
    #[doc(alias = "readAllKeySet")]
    pub async fn read_all_keys(&self) -> Result<Vec<K>, ObjectError> {
        let all: Vec<Bytes> = match Y::WAY {
            Way::Ends => self.place.ask(self.script(&KEYS, [])?).await?,
            _ => self.place.read(self.place.command("HKEYS")?).await?,
        };
        all.iter().map(|bytes| self.key(bytes)).collect()
    }
}

impl<K: 'static, V: 'static, KC: Decode<K>, VC: Codec, Y: Kind> Multimap<K, V, KC, VC, Y> {
    /// All keys, as a stream, in no order.
    #[doc(alias = "keySet")]
    pub fn keys(&self) -> Scan<K> {
        let map = self.clone();
        self.scan_by(move |found| map.key(&found[0]))
    }
}

impl<K, V, KC: Codec, VC: Codec, Y: Kind> Multimap<K, V, KC, VC, Y> {
    /// The keys that are not over, each with its hash.
    pub(crate) fn scan_by<T>(
        &self,
        read: impl Fn(&[Bytes]) -> Result<T, ObjectError> + Send + Sync + 'static,
    ) -> Scan<T> {
        if Y::WAY != Way::Ends {
            return Scan::by("HSCAN", 2, self.place.clone(), read);
        }
        let ends = self.ends();
        let request = move |place: &Place, at: Bytes, page: u32, pattern: Option<Bytes>| {
            let keys = [place.named()?.1.clone()].into_iter().chain(ends.clone()?);
            let request = SCAN.with(keys).arg(Y::WAY.word()).arg(at).int(page.into());
            Ok(request.arg(pattern.unwrap_or_default()))
        };
        Scan::asking(2, self.place.clone(), request, read)
    }
}
