//! Dump and restore: the contents of all keys of an object.

use std::time::Duration;

use bytes::Bytes;
use redgrid_client::{BulkScript, FromReply, Reply, Request, ServerError};

use super::set_ttl::check_lifetime;
use super::{CasLoop, Inner, Object, ObjectError};
use crate::into_future;

static DUMP: BulkScript = BulkScript::new("object/dump", include_str!("scripts/dump.lua"));
static RESTORE: BulkScript = BulkScript::new("object/restore", include_str!("scripts/restore.lua"));

/// The contents of all keys of an object, in the format of the server's command DUMP.
///
/// Only a server of the same version or a newer one can restore the contents.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Dump(Vec<Option<Bytes>>);

impl Dump {
    /// Returns the contents of the object's keys, in the order of its [`Layout`](super::Layout);
    /// `None` for an absent key.
    pub fn parts(&self) -> &[Option<Bytes>] {
        &self.0
    }
}

impl From<Bytes> for Dump {
    /// Creates the dump of an object with one key.
    fn from(part: Bytes) -> Self {
        Dump(vec![Some(part)])
    }
}

impl From<Vec<Option<Bytes>>> for Dump {
    fn from(parts: Vec<Option<Bytes>>) -> Self {
        Dump(parts)
    }
}

/// The contents and the lifetimes of an object's keys at one moment.
pub(super) struct Snapshot {
    pub(super) dump: Dump,
    /// The remaining lifetime of each key in milliseconds; 0 if the key does not expire.
    lifetimes: Vec<i64>,
    /// When each key expires, in milliseconds since 1970 by the server's clock; 0 for never.
    pub(super) ends: Vec<i64>,
}

/// The existing object that a restore may replace.
pub(super) enum Overwrite<'a> {
    /// None. The name must be unused.
    Free,
    Any,
    /// An object whose keys have contents with these SHA-1 hashes.
    Same(&'a [Bytes]),
}

impl Object {
    /// Returns the contents of the object, for [`Object::restore`]; `None` if it is absent.
    ///
    /// # Errors
    ///
    /// [`ObjectError`] if the request fails.
    ///
    /// # Cancel safety
    ///
    /// Dropping the future changes nothing.
    pub async fn dump(&self) -> Result<Option<Dump>, ObjectError> {
        let inner = self.inner()?;
        let parts = inner.read(DUMP.with(inner.keys.iter().cloned()).int(inner.primary_key_count())).await?;
        Ok(inner.decode_snapshot(parts)?.map(|snapshot| snapshot.dump))
    }

    /// Creates the object from a dump when awaited. The result says whether the object was created.
    ///
    /// An existing object is replaced only if [`Restore::replacing`] is set. Otherwise it is not
    /// changed.
    #[doc(alias = "restoreAndReplace")]
    pub fn restore(&self, dump: impl Into<Dump>) -> Restore {
        Restore { object: self.clone(), dump: dump.into(), replaces: false, lifetime: None }
    }
}

impl Inner {
    /// Decodes the reply of the dump script.
    fn decode_snapshot(&self, parts: Vec<Reply>) -> Result<Option<Snapshot>, ObjectError> {
        if parts.is_empty() {
            return Ok(None);
        }
        let invalid = |source: ServerError| ObjectError::of_read(&self.name, source);
        let mut snapshot = Snapshot { dump: Dump(Vec::new()), lifetimes: Vec::new(), ends: Vec::new() };
        let mut parts = parts.into_iter();
        while let (Some(content), Some(lifetime), Some(end)) = (parts.next(), parts.next(), parts.next()) {
            snapshot.dump.0.push(Option::<Bytes>::from_reply(content).map_err(invalid)?);
            snapshot.lifetimes.push(i64::from_reply(lifetime).map_err(invalid)?);
            snapshot.ends.push(i64::from_reply(end).map_err(invalid)?);
        }
        Ok(Some(snapshot))
    }

    /// Reads a snapshot of the object and of the additional keys that are renamed with it.
    pub(super) async fn take_snapshot(&self, cas_loop: &CasLoop) -> Result<Option<Snapshot>, ObjectError> {
        self.decode_snapshot(cas_loop.read(DUMP.with(self.all_keys()).int(self.primary_key_count())).await?)
    }

    /// Returns the request that creates this object from a snapshot of an object of the same type.
    ///
    /// If the snapshot has fewer keys than the object, the last keys of the object are not changed.
    pub(super) fn restore_request(&self, snapshot: &Snapshot, overwrite: &Overwrite<'_>, return_shas: bool) -> Request {
        let keys = self.all_keys().into_iter().take(snapshot.dump.0.len());
        let condition = match overwrite {
            Overwrite::Free => "free",
            Overwrite::Any => "any",
            Overwrite::Same(_) => "same",
        };
        let count = i64::try_from(self.keys.len()).unwrap_or(i64::MAX);
        let mut request =
            RESTORE.with(keys).arg(condition).int(return_shas.into()).int(count).int(self.primary_key_count());
        for (n, (content, lifetime)) in snapshot.dump.0.iter().zip(&snapshot.lifetimes).enumerate() {
            let expected_sha = match overwrite {
                Overwrite::Same(shas) => shas.get(n).cloned().unwrap_or_default(),
                _ => Bytes::new(),
            };
            let content = (content.is_some(), content.clone().unwrap_or_default());
            request = request.int(content.0.into()).arg(content.1).int(*lifetime).arg(expected_sha);
        }
        request
    }
}

/// A request to create an object from a dump, sent when awaited. The result says whether the object
/// was created.
///
/// Created by [`Object::restore`].
#[must_use = "does nothing until awaited"]
#[derive(Clone, Debug)]
pub struct Restore {
    object: Object,
    dump: Dump,
    replaces: bool,
    lifetime: Option<Duration>,
}

impl Restore {
    /// Replaces an existing object.
    pub fn replacing(mut self) -> Self {
        self.replaces = true;
        self
    }

    /// Makes the server delete the object after this time: 1 ms to 3650 days.
    ///
    /// By default, the object never expires.
    pub fn expires_in(mut self, lifetime: Duration) -> Self {
        self.lifetime = Some(lifetime);
        self
    }

    async fn execute(self) -> Result<bool, ObjectError> {
        let inner = self.object.inner()?;
        if let Some(lifetime) = self.lifetime {
            check_lifetime(&inner.name, lifetime)?;
        }
        let lifetime = self.lifetime.map_or(0, |lifetime| i64::try_from(lifetime.as_millis()).unwrap_or(i64::MAX));
        let (parts, keys) = (self.dump.0.len(), inner.keys.len());
        if parts != keys {
            let expected = format!("{keys} parts, one for each key");
            return Err(ObjectError::invalid_argument(&inner.name, "dump", expected, parts));
        }
        let snapshot = Snapshot { dump: self.dump, lifetimes: vec![lifetime; keys], ends: Vec::new() };
        let overwrite = if self.replaces { Overwrite::Any } else { Overwrite::Free };
        let done: Vec<i64> = inner.change(inner.restore_request(&snapshot, &overwrite, false)).await?;
        Ok(done == [1])
    }
}

into_future!(Restore => Result<bool, ObjectError>, |this| this.execute());
