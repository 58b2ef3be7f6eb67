//! All objects with their types, as a stream.

use std::collections::HashSet;
use std::hash::{BuildHasher, RandomState};
use std::time::Duration;

use bytes::Bytes;
use futures_util::future::{ready, try_join_all};
use futures_util::{Stream, StreamExt, TryStreamExt};
use redgrid_core::author::ClientExt;
use redgrid_core::name::{companion, suffixed};
use redgrid_core::object::key_ownership::primary_keys;
use redgrid_core::{Client, Code, Request, ServerError};
use redgrid_keys::{Key, Keys, Kind};

use crate::error::InspectError;
use crate::holder::HolderField;
use crate::inspector::Inspector;
use crate::object_kind::ObjectKind;
use crate::scripts::CLASSIFY;

/// The number of keys that a server examines for one page of SCAN. Measured: 0.4 ms of its time,
/// and about 10 ms on slow managed servers.
const PAGE: u32 = 500;

/// The most objects that are classified at the same time.
const MAX_IN_FLIGHT: usize = 64;

/// Which objects are listed. The default is all of them.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct ObjectFilter {
    /// Only names that match this glob pattern of Redis, such as `orders:*`. Empty for all names.
    pub pattern: String,
    /// Only objects of these kinds. Empty for all kinds.
    pub kinds: Vec<ObjectKind>,
    /// How many times its duration to rest after a page of 500 keys: with 49, the stream takes at
    /// most 2 % of a node's time. 0 for no rest.
    pub rest: u32,
}

impl ObjectFilter {
    /// Returns the filter for all objects.
    pub fn new() -> Self {
        ObjectFilter::default()
    }

    /// Sets the pattern of the names.
    pub fn matching(mut self, pattern: impl Into<String>) -> Self {
        self.pattern = pattern.into();
        self
    }

    /// Adds kinds.
    pub fn of_kinds(mut self, kinds: impl IntoIterator<Item = ObjectKind>) -> Self {
        self.kinds.extend(kinds);
        self
    }

    /// Sets how many times its duration to rest after a page.
    pub fn rest(mut self, factor: u32) -> Self {
        self.rest = factor;
        self
    }

    /// Returns the type of all keys that a scan has to return; `None` if they have several.
    fn key_type(&self) -> Option<Kind> {
        let first = self.kinds.first()?.key_type()?;
        self.kinds.iter().all(|kind| kind.key_type() == Some(first)).then_some(first)
    }
}

/// An object on the servers.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub struct ObjectView {
    /// The name, without the namespace. Bytes of a name that is not UTF-8 are escaped.
    pub name: String,
    /// The name in bytes, for [`Inspector::lock_of_bytes`] and [`Actions`](crate::Actions).
    pub name_bytes: Bytes,
    /// The type.
    pub kind: ObjectKind,
    /// The number of elements, or of bytes of a string. `None` if it is not known.
    pub size: Option<u64>,
    /// The remaining lifetime. `None` if the object has none, or if the user may not read it.
    pub lifetime: Option<Duration>,
    /// The holder of a lock: its client and its number. `None` for other objects, and for several
    /// readers.
    pub holder: Option<(String, u64)>,
}

impl Inspector {
    /// Returns a stream of all objects of every primary, without their companion keys.
    ///
    /// It scans 500 keys at a time, and describes each object by one short script. The next page is
    /// requested when the objects of the last one have been consumed. An object is returned once,
    /// even if slots move; for this, the stream remembers 16 bytes of each object that it returned.
    ///
    /// Without a filter by kind, an object that the user may not read is
    /// [`ObjectKind::Unknown`]. With such a filter, it is an error, because it may be of these
    /// kinds.
    ///
    /// # Errors
    ///
    /// The stream ends after an error: no server answers, the user may not list the keys, the
    /// pattern is invalid, or slots move all the time.
    pub fn objects(
        &self,
        filter: &ObjectFilter,
    ) -> impl Stream<Item = Result<ObjectView, InspectError>> + Send + use<> {
        self.objects_timed(filter, |_| {})
    }

    /// Returns the same stream as [`objects`](Inspector::objects), and calls a function with the
    /// duration of each page: the time from its request to that of the next page, without the rest.
    ///
    /// # Errors
    ///
    /// As for [`objects`](Inspector::objects).
    pub fn objects_timed<F: FnMut(Duration) + Send + 'static>(
        &self,
        filter: &ObjectFilter,
        on_page: F,
    ) -> impl Stream<Item = Result<ObjectView, InspectError>> + Send + use<F> {
        let mut keys = Keys::new(&self.client).objects().page(PAGE).rest(filter.rest).on_page(on_page);
        // The pattern `*` is omitted, so that the server compares nothing.
        if !filter.pattern.is_empty() && filter.pattern != "*" {
            keys = keys.matching(filter.pattern.clone());
        }
        if let Some(kind) = filter.key_type() {
            keys = keys.of_kind(kind);
        }
        let (client, wanted) = (self.client.clone(), filter.kinds.clone());
        let keys = keys.map_err(InspectError::from).try_filter(move |key| ready(may_be(&client, key, &wanted)));
        let client = self.client.clone();
        let kinds = filter.kinds.clone();
        let is_filtered = !kinds.is_empty();
        let described = keys.map_ok(move |key| {
            let client = client.clone();
            async move {
                let view = describe(&client, &key, key.wire(), is_filtered).await?;
                Ok(view.map(|view| (key.wire().clone(), view)))
            }
        });
        let mut seen = Seen::default();
        let found = described.try_buffer_unordered(MAX_IN_FLIGHT).try_filter_map(move |described| {
            let is_new = |(key, view): &(Bytes, ObjectView)| {
                (kinds.is_empty() || kinds.contains(&view.kind)) && seen.insert(key)
            };
            ready(Ok(described.filter(is_new).map(|(_, view)| view)))
        });
        until_error(found)
    }
}

impl Inspector {
    /// Reads one object; `None` if there is none. Its name consists of any bytes.
    ///
    /// An object that the user may not read is [`ObjectKind::Unknown`].
    ///
    /// # Errors
    ///
    /// [`InspectError::Failed`] if no server answers.
    ///
    /// # Cancel safety
    ///
    /// Dropping the future changes nothing.
    pub async fn object(&self, name: impl AsRef<[u8]>) -> Result<Option<ObjectView>, InspectError> {
        let key = Key::of_name_bytes(&self.client, name);
        let object = key.wire().clone();
        for primary in primary_keys(&object) {
            if let Some(view) = describe(&self.client, &key, &primary, false).await? {
                return Ok(Some(view));
            }
        }
        Ok(None)
    }
}

/// Ends a stream after its first error.
pub(crate) fn until_error<T, S>(items: S) -> impl Stream<Item = Result<T, InspectError>> + Send + use<T, S>
where
    T: Send + 'static,
    S: Stream<Item = Result<T, InspectError>> + Send + 'static,
{
    items.boxed().scan(false, |has_failed, item| {
        let next = (!*has_failed).then_some(item);
        *has_failed |= next.as_ref().is_some_and(Result::is_err);
        ready(next)
    })
}

/// The keys that were returned, as fingerprints of 128 bits: two different keys practically never
/// have the same.
#[derive(Default)]
struct Seen {
    fingerprints: HashSet<u128>,
    hashers: [RandomState; 2],
}

impl Seen {
    fn insert(&mut self, key: &[u8]) -> bool {
        let [high, low] = self.hashers.each_ref().map(|hasher| u128::from(hasher.hash_one(key)));
        self.fingerprints.insert(high << 64 | low)
    }
}

/// Returns whether the object with this key may be of one of these kinds, without a request.
fn may_be(client: &Client, key: &Key, kinds: &[ObjectKind]) -> bool {
    if kinds.is_empty() {
        return true;
    }
    let object = object_key(client, key);
    if key.wire()[..] == object[..] {
        return kinds.iter().any(|kind| kind.has_plain_key());
    }
    kinds.contains(&ObjectKind::of_primary_key(key.wire(), &object).unwrap_or(ObjectKind::Other))
}

/// Describes the object with this name and the key `stored_at`; `None` if it has ended meanwhile.
async fn describe(
    client: &Client,
    key: &Key,
    stored_at: &Bytes,
    is_filtered: bool,
) -> Result<Option<ObjectView>, InspectError> {
    let (name, name_bytes) = (key.to_string(), Bytes::copy_from_slice(key.as_bytes()));
    let failed = |source| InspectError::of_object("read the object", &name, source);
    let object = object_key(client, key);
    let is_plain = stored_at[..] == object[..];
    let reply = if is_plain { classify(client, &object).await } else { classify_alone(client, stored_at).await };
    let reply = match reply {
        Err(error) if error.code() == Some(Code::NoPermission) && !is_filtered => {
            let kind = ObjectKind::Unknown;
            return Ok(Some(ObjectView { name, name_bytes, kind, size: None, lifetime: None, holder: None }));
        }
        reply => reply.map_err(failed)?,
    };
    let text = |at: usize| reply.get(at).map(|part| String::from_utf8_lossy(part)).unwrap_or_default();
    let type_name = text(0);
    if matches!(&*type_name, "none" | "") {
        return Ok(None);
    }
    let kind = match is_plain {
        true => ObjectKind::of_stored(&type_name, &text(3)),
        false => ObjectKind::of_primary_key(stored_at, &object).unwrap_or(ObjectKind::Other),
    };
    let holder = reply.get(4).filter(|_| is_plain).and_then(|field| HolderField::parse(field));
    Ok(Some(ObjectView {
        kind,
        size: text(2).parse().ok(),
        lifetime: text(1).parse().ok().map(Duration::from_millis),
        holder: holder.map(|holder| (holder.client, holder.number)),
        name,
        name_bytes,
    }))
}

/// Returns the key that the object has under its plain name.
fn object_key(client: &Client, key: &Key) -> Bytes {
    match client.namespace().as_str() {
        "" => Bytes::copy_from_slice(key.as_bytes()),
        namespace => [namespace.as_bytes(), b":", key.as_bytes()].concat().into(),
    }
}

/// Describes what is stored under a plain name, with the companions of the object.
///
/// While a slot moves, the keys may be on two nodes. Then the types of the companions are read one
/// by one. If the user may not read the companions, it is described without them.
async fn classify(client: &Client, object: &Bytes) -> Result<Vec<Bytes>, ServerError> {
    let companions = [
        companion("redisson_lock_queue", object),
        companion("redgrid_leader", object),
        suffixed(object, "timeout"),
        companion("redgrid_semaphore_line", object),
        companion("redgrid_latch", object),
        suffixed(object, "allocation"),
        suffixed(object, "config"),
        companion("redisson__timeout__set", object),
    ];
    let keys = std::iter::once(object.clone()).chain(companions.clone());
    match client.run_same_slot(CLASSIFY.with(keys).idempotent()).await {
        Err(error) if error.code() == Some(Code::TryAgain) => {
            let type_of =
                async |key: &Bytes| client.run::<Bytes>(Request::command("TYPE").key(key.clone()).idempotent()).await;
            let types = try_join_all(companions.iter().map(type_of)).await?;
            let request = types.into_iter().fold(CLASSIFY.with([object.clone()]), Request::arg);
            client.run(request.idempotent()).await
        }
        Err(error) if matches!(error.code(), Some(Code::NoPermission | Code::CrossSlot)) => {
            classify_alone(client, object).await
        }
        reply => reply,
    }
}

async fn classify_alone(client: &Client, key: &Bytes) -> Result<Vec<Bytes>, ServerError> {
    client.run(CLASSIFY.with([key.clone()]).idempotent()).await
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_filter_for_one_type_of_keys_spares_the_others() {
        let type_of = |kinds: &[ObjectKind]| ObjectFilter::new().of_kinds(kinds.iter().copied()).key_type();
        assert_eq!(type_of(&[ObjectKind::Lock, ObjectKind::ReadWriteLock, ObjectKind::Map]), Some(Kind::Hash));
        assert_eq!(type_of(&[ObjectKind::Lock, ObjectKind::Set]), None);
        assert_eq!((type_of(&[]), type_of(&[ObjectKind::BloomFilter])), (None, None));
    }

    #[test]
    fn a_key_is_new_once() {
        let mut seen = Seen::default();
        assert_eq!([seen.insert(b"a"), seen.insert(b"b"), seen.insert(b"a")], [true, true, false]);
    }
}
