//! Calls about all keys, which process pages of keys.

use std::collections::VecDeque;

use bytes::Bytes;
use futures_util::stream::{self, BoxStream, StreamExt};
use redgrid_codecs::{Codec, Decode, Encode};
use redgrid_core::object::{ObjectError, Scan};
use redgrid_core::{BulkScript, FromReply, Request};

use crate::kind::Kind;
use crate::kind::sealed::{LifetimeMode, Values};
use crate::multimap::{KeyRef, Multimap};

static EACH: BulkScript = BulkScript::new("multimap/each", include_str!("scripts/each.lua"));

/// Number of keys in a request.
pub(crate) const PAGE: u32 = 100;

/// Number of keys whose values a stream reads in a request.
const VALUES_PAGE: usize = 20;

/// A stream over a multimap; created by [`Multimap::entries`] and [`Multimap::values`]. It iterates
/// over the keys like a [`Scan`], and reads the values of 20 keys at a time.
pub type Stream<T> = BoxStream<'static, Result<T, ObjectError>>;

impl<K, V, KC: Codec, VC: Codec, Y: Kind> Multimap<K, V, KC, VC, Y> {
    /// Returns a scan of the keys that have not expired.
    pub(crate) fn scan(&self) -> Result<Scan<KeyRef>, ObjectError> {
        let map = self.object_ref.name_and_key()?.1.clone();
        Ok(self.scan_by(move |entry| Ok(KeyRef::from_scan(&map, entry))).page(PAGE))
    }

    /// Returns a scan of all keys, including expired ones.
    pub(crate) fn scan_all(&self) -> Result<Scan<KeyRef>, ObjectError> {
        let map = self.object_ref.name_and_key()?.1.clone();
        Ok(Scan::by("HSCAN", 2, self.object_ref.clone(), move |entry| Ok(KeyRef::from_scan(&map, entry))).page(PAGE))
    }

    /// Returns the next `limit` keys; an empty page at the end.
    pub(crate) async fn next_page(scan: &mut Scan<KeyRef>, limit: usize) -> Result<Vec<KeyRef>, ObjectError> {
        let mut page = Vec::new();
        while page.len() < limit {
            let Some(key) = scan.try_next().await? else { break };
            page.push(key);
        }
        Ok(page)
    }

    /// Runs the same command on the values of each key. The reply is `None` for an expired key.
    pub(crate) async fn run_each<R: FromReply>(
        &self,
        page: &[KeyRef],
        command: &[&'static str],
        arg: Option<&Bytes>,
    ) -> Result<Vec<Option<R>>, ObjectError> {
        let command_len = i64::try_from(command.len() + usize::from(arg.is_some())).unwrap_or(i64::MAX);
        let expiry_key = self.expiry_key()?;
        let request = EACH.with(page.iter().map(|key| key.values_key.clone()).chain(expiry_key.clone()));
        let request = request.arg(Y::LIFETIME_MODE.name()).int(command_len);
        let request = command.iter().fold(request, |request, part| request.arg(*part));
        let request = arg.into_iter().cloned().fold(request, Request::arg);
        let fields = page.iter().filter(|_| expiry_key.is_some()).map(|key| key.field.clone());
        // Runs on the primary, as every script does.
        self.object_ref.read_primary(fields.fold(request, Request::arg)).await
    }

    /// Returns the total number of values of all keys, in pages of 100 keys. Values that are added
    /// or removed meanwhile may be counted or not.
    ///
    /// To count no key twice, the call stores each key's hash in about 100 bytes: 1 GB for
    /// 10,000,000 keys.
    ///
    /// # Errors
    ///
    /// [`ObjectError`] states what failed and whether anything may have changed.
    ///
    /// # Cancel safety
    ///
    /// Dropping the future changes nothing.
    #[doc(alias = "size")]
    pub async fn len(&self) -> Result<u64, ObjectError> {
        // A scan may return a key twice.
        let (mut scan, mut counts) = (self.scan()?, std::collections::HashMap::new());
        loop {
            let page = Self::next_page(&mut scan, PAGE as usize).await?;
            if page.is_empty() {
                return Ok(counts.into_values().sum());
            }
            let lens: Vec<Option<u64>> = self.run_each(&page, &[Y::Values::LEN], None).await?;
            counts.extend(page.into_iter().map(|key| key.hash).zip(lens.into_iter().map(Option::unwrap_or_default)));
        }
    }

    /// Removes all keys with their values, in pages of 100 keys. Returns the number of removed
    /// keys.
    ///
    /// Keys that are added meanwhile may remain, and after an error some keys may remain.
    ///
    /// # Errors
    ///
    /// [`ObjectError`] states what failed and whether anything may have changed.
    ///
    /// # Cancel safety
    ///
    /// A request that was already sent is executed even if the future is dropped; the other keys
    /// remain.
    #[doc(alias = "delete")]
    pub async fn clear(&self) -> Result<u64, ObjectError> {
        let (mut scan, mut removed) = (self.scan_all()?, 0);
        loop {
            let page = Self::next_page(&mut scan, PAGE as usize).await?;
            if page.is_empty() {
                if Y::LIFETIME_MODE == LifetimeMode::SortedSet {
                    // Removes the expiries of removed keys that other clients may have left behind.
                    let _: u64 = self.change_and_purge(self.remove_request("any", &[])?).await?;
                }
                return Ok(removed);
            }
            removed += self.remove_key_refs(&page).await?;
        }
    }
}

impl<K, V, KC: Codec, VC: Encode<V>, Y: Kind> Multimap<K, V, KC, VC, Y> {
    /// Returns whether any key has this value, in pages of 100 keys. Changes made meanwhile may be
    /// missed.
    ///
    /// # Errors
    ///
    /// [`ObjectError`] states what failed and whether anything may have changed.
    ///
    /// # Cancel safety
    ///
    /// Dropping the future changes nothing.
    #[doc(alias = "containsValue")]
    pub async fn contains_value(&self, value: &V) -> Result<bool, ObjectError> {
        let (mut scan, value) = (self.scan()?, self.object_ref.encoded(&self.values, value)?);
        loop {
            let page = Self::next_page(&mut scan, PAGE as usize).await?;
            if page.is_empty() {
                return Ok(false);
            }
            let found: Vec<Option<i64>> = self.run_each(&page, &[Y::Values::CONTAINS], Some(&value)).await?;
            if found.into_iter().any(Y::Values::is_found) {
                return Ok(true);
            }
        }
    }
}

impl<K: 'static, V: 'static, KC: Codec, VC: Codec, Y: Kind> Multimap<K, V, KC, VC, Y> {
    /// Returns a stream of encoded keys, each with its encoded values.
    fn values_by_key(&self) -> Stream<(Bytes, Vec<Bytes>)> {
        let start = (self.clone(), None::<Scan<KeyRef>>, VecDeque::new(), false);
        let all = stream::unfold(start, |(map, mut scan, mut buffer, mut ended)| async move {
            loop {
                if let Some(item) = buffer.pop_front() {
                    return Some((Ok(item), (map, scan, buffer, ended)));
                }
                if ended {
                    return None;
                }
                let next = async {
                    let scan = match &mut scan {
                        Some(scan) => scan,
                        none => none.insert(map.scan()?),
                    };
                    let page = Self::next_page(scan, VALUES_PAGE).await?;
                    if page.is_empty() {
                        return Ok(None);
                    }
                    let values: Vec<Option<Vec<Bytes>>> = map.run_each(&page, Y::Values::ALL, None).await?;
                    let values = values.into_iter().map(Option::unwrap_or_default);
                    Ok(Some(page.into_iter().map(|key| key.field).zip(values).collect::<VecDeque<_>>()))
                };
                match next.await {
                    Ok(Some(page)) => buffer = page,
                    Ok(None) => return None,
                    Err(error) => {
                        ended = true;
                        return Some((Err(error), (map, scan, buffer, ended)));
                    }
                }
            }
        });
        all.boxed()
    }
}

impl<K: Clone + Send + 'static, V: Send + 'static, KC: Decode<K>, VC: Decode<V>, Y: Kind> Multimap<K, V, KC, VC, Y> {
    /// Returns a stream of all keys with each of their values. The values of a key are adjacent.
    ///
    /// A key or value that cannot be decoded is an error for this item, and the stream continues
    /// after it. Any other error ends the stream.
    pub fn entries(&self) -> Stream<(K, V)> {
        let map = self.clone();
        let entries = self.values_by_key().map(move |page| {
            match page.and_then(|(field, values)| Ok((map.decode_key(&field)?, values))) {
                Ok((key, values)) => {
                    values.iter().map(|bytes| Ok((key.clone(), map.decode_value(bytes)?))).collect::<Vec<_>>()
                }
                Err(error) => vec![Err(error)],
            }
        });
        entries.flat_map(stream::iter).boxed()
    }
}

impl<K: 'static, V: Send + 'static, KC: Codec, VC: Decode<V>, Y: Kind> Multimap<K, V, KC, VC, Y> {
    /// Returns a stream of the values of all keys. See [`Multimap::entries`].
    pub fn values(&self) -> Stream<V> {
        let map = self.clone();
        let values = self.values_by_key().map(move |page| match page {
            Ok((_, values)) => values.iter().map(|bytes| map.decode_value(bytes)).collect::<Vec<_>>(),
            Err(error) => vec![Err(error)],
        });
        values.flat_map(stream::iter).boxed()
    }
}
