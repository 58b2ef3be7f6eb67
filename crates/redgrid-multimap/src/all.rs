//! What concerns all keys: by pages of them.

use std::collections::VecDeque;

use bytes::Bytes;
use futures_util::stream::{self, BoxStream, StreamExt};
use redgrid_codecs::{Codec, Decode, Encode};
use redgrid_core::object::{ObjectError, Scan};
use redgrid_core::{BulkScript, FromReply, Request};

use crate::kind::Kind;
use crate::kind::sealed::{Values, Way};
use crate::multimap::{Found, Multimap};

static EACH: BulkScript = BulkScript::new("multimap/each", include_str!("scripts/each.lua"));

/// How many keys are asked about at once.
pub(crate) const PAGE: u32 = 100;

/// Of how many keys the values are read at once.
const READ: usize = 20;

/// A stream over a multimap; made by [`Multimap::entries`] and [`Multimap::values`]. It goes by the keys as a [`Scan`] does, and reads the values
/// of 20 of them at a time.
pub type Stream<T> = BoxStream<'static, Result<T, ObjectError>>;

impl<K, V, KC: Codec, VC: Codec, Y: Kind> Multimap<K, V, KC, VC, Y> {
    /// The keys that are not over as they are written, with where their values are.
    pub(crate) fn scan(&self) -> Result<Scan<Found>, ObjectError> {
        let map = self.place.named()?.1.clone();
        Ok(self.scan_by(move |found| Ok(Found::new(&map, found))).page(PAGE))
    }

    /// The same with those that are over.
    pub(crate) fn scan_all(&self) -> Result<Scan<Found>, ObjectError> {
        let map = self.place.named()?.1.clone();
        Ok(Scan::by("HSCAN", 2, self.place.clone(), move |found| Ok(Found::new(&map, found))).page(PAGE))
    }

    /// A page of them; none at the end.
    pub(crate) async fn page(scan: &mut Scan<Found>, most: usize) -> Result<Vec<Found>, ObjectError> {
        let mut page = Vec::new();
        while page.len() < most {
            let Some(found) = scan.try_next().await? else { break };
            page.push(found);
        }
        Ok(page)
    }

    /// Asks the same about the values of each; nothing of those that are over.
    pub(crate) async fn each<R: FromReply>(
        &self,
        page: &[Found],
        command: &[&'static str],
        arg: Option<&Bytes>,
    ) -> Result<Vec<Option<R>>, ObjectError> {
        let words = i64::try_from(command.len() + usize::from(arg.is_some())).unwrap_or(i64::MAX);
        let ends = self.ends()?;
        let request = EACH.with(page.iter().map(|found| found.values.clone()).chain(ends.clone()));
        let request = request.arg(Y::WAY.word()).int(words);
        let request = command.iter().fold(request, |request, word| request.arg(*word));
        let request = arg.into_iter().cloned().fold(request, Request::arg);
        let fields = page.iter().filter(|_| ends.is_some()).map(|found| found.field.clone());
        // From the primary: a script.
        self.place.ask(fields.fold(request, Request::arg)).await
    }

    /// How many values all keys have together: by pages of 100 keys. What is added or removed meanwhile may be counted or not. So that none is
    /// counted twice it remembers each key, in about 100 bytes: of 10,000,000 keys 1 GB.
    ///
    /// # Errors
    ///
    /// [`ObjectError`] says what is true then.
    ///
    /// # Cancel safety
    ///
    /// Dropping it changes nothing.
    #[doc(alias = "size")]
    pub async fn len(&self) -> Result<u64, ObjectError> {
        // A key may come twice.
        let (mut scan, mut counts) = (self.scan()?, std::collections::HashMap::new());
        loop {
            let page = Self::page(&mut scan, PAGE as usize).await?;
            if page.is_empty() {
                return Ok(counts.into_values().sum());
            }
            let lens: Vec<Option<u64>> = self.each(&page, &[Y::Values::LEN], None).await?;
            counts
                .extend(page.into_iter().map(|found| found.hash).zip(lens.into_iter().map(Option::unwrap_or_default)));
        }
    }

    /// Removes all keys with all their values, by pages of 100 keys: what is added meanwhile may stay, and after an error some may be left. Tells
    /// how many keys it removed.
    ///
    /// # Errors
    ///
    /// [`ObjectError`] says what is true then.
    ///
    /// # Cancel safety
    ///
    /// What has left is carried out although nobody waits for it; the rest stays.
    #[doc(alias = "delete")]
    pub async fn clear(&self) -> Result<u64, ObjectError> {
        let (mut scan, mut removed) = (self.scan_all()?, 0);
        loop {
            let page = Self::page(&mut scan, PAGE as usize).await?;
            if page.is_empty() {
                if Y::WAY == Way::Ends {
                    // What others may have left of keys that they removed.
                    let _: u64 = self.changed(self.removing("any", &[])?).await?;
                }
                return Ok(removed);
            }
            removed += self.remove_found(&page).await?;
        }
    }
}

impl<K, V, KC: Codec, VC: Encode<V>, Y: Kind> Multimap<K, V, KC, VC, Y> {
    /// Whether a key has this value: by pages of 100 keys. What changes meanwhile may be missed.
    ///
    /// # Errors
    ///
    /// [`ObjectError`] says what is true then.
    ///
    /// # Cancel safety
    ///
    /// Dropping it changes nothing.
    #[doc(alias = "containsValue")]
    pub async fn contains_value(&self, value: &V) -> Result<bool, ObjectError> {
        let (mut scan, value) = (self.scan()?, self.place.encoded(&self.values, value)?);
        loop {
            let page = Self::page(&mut scan, PAGE as usize).await?;
            if page.is_empty() {
                return Ok(false);
            }
            let found: Vec<Option<i64>> = self.each(&page, &[Y::Values::CONTAINS], Some(&value)).await?;
            if found.into_iter().any(Y::Values::is_in) {
                return Ok(true);
            }
        }
    }
}

impl<K: 'static, V: 'static, KC: Codec, VC: Codec, Y: Kind> Multimap<K, V, KC, VC, Y> {
    /// Each key with its values, as they are written.
    fn pages(&self) -> Stream<(Bytes, Vec<Bytes>)> {
        let begin = (self.clone(), None::<Scan<Found>>, VecDeque::new(), false);
        let all = stream::unfold(begin, |(map, mut scan, mut read, mut over)| async move {
            loop {
                if let Some(one) = read.pop_front() {
                    return Some((Ok(one), (map, scan, read, over)));
                }
                if over {
                    return None;
                }
                let next = async {
                    let scan = match &mut scan {
                        Some(scan) => scan,
                        none => none.insert(map.scan()?),
                    };
                    let page = Self::page(scan, READ).await?;
                    if page.is_empty() {
                        return Ok(None);
                    }
                    let values: Vec<Option<Vec<Bytes>>> = map.each(&page, Y::Values::ALL, None).await?;
                    let values = values.into_iter().map(Option::unwrap_or_default);
                    Ok(Some(page.into_iter().map(|found| found.field).zip(values).collect::<VecDeque<_>>()))
                };
                match next.await {
                    Ok(Some(page)) => read = page,
                    Ok(None) => return None,
                    Err(error) => {
                        over = true;
                        return Some((Err(error), (map, scan, read, over)));
                    }
                }
            }
        });
        all.boxed()
    }
}

impl<K: Clone + Send + 'static, V: Send + 'static, KC: Decode<K>, VC: Decode<V>, Y: Kind> Multimap<K, V, KC, VC, Y> {
    /// All keys with each of their values, as a stream: the values of a key come one behind the other. A key or a value that can not be decoded is
    /// an error, and the stream goes on behind it; behind any other error it is over.
    pub fn entries(&self) -> Stream<(K, V)> {
        let map = self.clone();
        let entries =
            self.pages().map(move |page| match page.and_then(|(field, values)| Ok((map.key(&field)?, values))) {
                Ok((key, values)) => {
                    values.iter().map(|bytes| Ok((key.clone(), map.value(bytes)?))).collect::<Vec<_>>()
                }
                Err(error) => vec![Err(error)],
            });
        entries.flat_map(stream::iter).boxed()
    }
}

impl<K: 'static, V: Send + 'static, KC: Codec, VC: Decode<V>, Y: Kind> Multimap<K, V, KC, VC, Y> {
    /// The values of all keys, as a stream. See [`Multimap::entries`].
    pub fn values(&self) -> Stream<V> {
        let map = self.clone();
        let values = self.pages().map(move |page| match page {
            Ok((_, values)) => values.iter().map(|bytes| map.value(bytes)).collect::<Vec<_>>(),
            Err(error) => vec![Err(error)],
        });
        values.flat_map(stream::iter).boxed()
    }
}
