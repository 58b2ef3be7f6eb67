//! Rename and copy.

use bytes::Bytes;
use redgrid_client::{BulkScript, Request};

use super::dump::{Overwrite, Snapshot};
use super::{CasLoop, Inner, Object, ObjectError};
use crate::author::ClientExt;
use crate::into_future;
use crate::name::{Name, companion, same_slot};

static MOVE: BulkScript = BulkScript::new("object/move", include_str!("scripts/move.lua"));
static DELETE_IF_SAME: BulkScript =
    BulkScript::new("object/delete_if_same", include_str!("scripts/delete_if_same.lua"));

/// Prefix of the key of a rename's receipt. For a while after a rename, the receipt says where the
/// object was moved to.
const RECEIPT_PREFIX: &str = "redgrid_renamed";

impl Object {
    /// Renames the object with all its keys when awaited.
    ///
    /// The lifetime stays the same. An existing object with the new name is replaced, unless
    /// [`Rename::unless_taken`] is set.
    ///
    /// Within a slot, the rename is atomic. If the new name is in another slot of a cluster, the
    /// object is copied first. If the contents and the lifetime of the original are then still the
    /// same, the original is deleted. Otherwise the object is copied again, until the call times
    /// out.
    ///
    /// If the original expires, or if another call deletes it first, the copy is deleted and this
    /// call returns [`ObjectError::Absent`]. After any other error both objects may exist. If two
    /// objects are renamed to the same name at the same time, the object that is copied last
    /// remains. The original is deleted as soon as the primary has acknowledged the copy, even if
    /// the replicas do not have the copy yet. So a failover at that moment may lose the object.
    #[doc(alias = "renamenx")]
    pub fn rename(&self, to: impl AsRef<str>) -> Rename {
        Rename { object: self.clone(), to: to.as_ref().to_owned(), replaces: true }
    }

    /// Copies the object with all its keys to another name when awaited.
    ///
    /// The copy has the same lifetime. An existing object with that name is replaced only if
    /// [`Copy::replacing`] is set. Otherwise the call changes nothing and returns false. Even if
    /// the copy is in another slot, it is consistent: it has the contents of all keys at one
    /// moment.
    #[doc(alias = "copyAndReplace")]
    #[doc(alias = "copy")]
    pub fn copy_to(&self, to: impl AsRef<str>) -> Copy {
        Copy { object: self.clone(), to: to.as_ref().to_owned(), replaces: false }
    }
}

impl Inner {
    /// Returns the object of the same type that has the name `to`.
    fn renamed_to(&self, to: &str) -> Result<Inner, ObjectError> {
        let other = Inner::of(&self.client, Name::new(to)?, self.layout, self.renamed_with);
        let other = Inner { primary_keys: self.primary_keys, ..other };
        let (own_keys, other_keys) = (self.all_keys(), other.all_keys());
        if own_keys[0] != other_keys[0] && own_keys.iter().any(|key| other_keys.contains(key)) {
            let expected = "a name that shares no keys with this object";
            return Err(ObjectError::invalid_argument(&self.name, "name", expected, to));
        }
        Ok(other)
    }

    /// Returns whether one script can access the keys of both objects.
    ///
    /// Outside a cluster, a script can access all keys. Keys with the same hash tag share a slot in
    /// every cluster.
    fn is_same_slot(&self, other: &Inner) -> bool {
        let (own, other) = (&self.keys[0], &other.keys[0]);
        same_slot(own, other) || self.client.slot(own) == self.client.slot(other)
    }

    /// Renames or copies the object within a slot, in one step.
    async fn move_in_slot(&self, command: &'static str, to: &Inner, replaces: bool) -> Result<bool, ObjectError> {
        let keys = self.all_keys().into_iter().chain(to.all_keys());
        let own_count = i64::try_from(self.keys.len()).unwrap_or(i64::MAX);
        let request = MOVE.with(keys).arg(command).int(replaces.into()).int(own_count).int(self.primary_key_count());
        match self.change::<i64>(request).await? {
            -1 => Err(self.absent()),
            done => Ok(done == 1),
        }
    }

    /// Returns the request that deletes this object if it is unchanged.
    ///
    /// A rename to another slot deletes the original in this way, or the copy if the rename fails.
    ///
    /// The object counts as unchanged if its contents have the SHA-1s `shas`. If `ends` are given,
    /// the lifetimes of its keys must also end at these times. If a `receipt` is given, it is
    /// stored in the same step.
    fn delete_request(
        &self,
        snapshot: &Snapshot,
        shas: &[Bytes],
        ends: Option<&[i64]>,
        receipt: Option<&Bytes>,
    ) -> Request {
        let own_count = self.keys.len();
        let all_keys = self.all_keys();
        let parts: Vec<usize> =
            (0..all_keys.len()).filter(|n| *n < own_count || snapshot.dump.parts()[*n].is_some()).collect();
        let keys = parts.iter().map(|n| all_keys[*n].clone()).chain(receipt.map(|_| self.receipt_key()));
        // The receipt is stored for longer than a concurrent rename of the same object can take.
        let receipt_ttl = (2 * self.client.patience()).as_millis().saturating_add(1_000);
        let request = DELETE_IF_SAME.with(keys).int(i64::try_from(parts.len()).unwrap_or(i64::MAX));
        let request = request.arg(receipt.cloned().unwrap_or_default()).arg(receipt_ttl.to_string());
        parts.into_iter().fold(request, |request, n| request.arg(shas[n].clone()).int(ends.map_or(-1, |ends| ends[n])))
    }

    fn absent(&self) -> ObjectError {
        ObjectError::Absent { name: self.name.clone() }
    }

    fn receipt_key(&self) -> Bytes {
        companion(RECEIPT_PREFIX, &self.keys[0])
    }

    /// Renames the object to a name in another slot: copies it, then deletes the original.
    async fn move_to_other_slot(&self, to: &Inner, replaces: bool) -> Result<bool, ObjectError> {
        let mut cas_loop = CasLoop::new(&self.client, &self.name);
        let mut written: Option<(Snapshot, Vec<Bytes>)> = None;
        let former: Option<Bytes> = cas_loop.read(Request::command("GET").key(self.receipt_key())).await?;
        // The receipt says to which key this rename moved the object. The receipt is stored when
        // the original is deleted. The receipt of an earlier rename from the same old name may
        // still be stored (`former`). Each receipt is unique, so the two differ.
        let receipt: Bytes = [&to.keys[0][..], format!("\0{:016x}", fastrand::u64(..)).as_bytes()].concat().into();
        loop {
            let Some(snapshot) = self.take_snapshot(&cas_loop).await? else {
                if let Some((snapshot, shas)) = written {
                    let current: Option<Bytes> = cas_loop.read(Request::command("GET").key(self.receipt_key())).await?;
                    // Another call may have moved the object to the same new name. In that case the
                    // object now exists only under the new name, and must not be deleted there.
                    // Otherwise the copy that this call has written is deleted.
                    let is_there =
                        current != former && current.is_some_and(|current| names_target(&current, &to.keys[0]));
                    if !is_there {
                        let _: bool = cas_loop.change(to.delete_request(&snapshot, &shas, None, None)).await?;
                    }
                }
                return Err(self.absent());
            };
            let overwrite = match &written {
                Some((_, shas)) => Overwrite::Same(shas),
                None if replaces => Overwrite::Any,
                None => Overwrite::Free,
            };
            let reply: Vec<Bytes> = cas_loop.change(to.restore_request(&snapshot, &overwrite, true)).await?;
            if reply.len() <= 1 {
                // Nothing was written: the new name is taken, or another client has since
                // overwritten the copy.
                return if replaces { Err(cas_loop.contended()) } else { Ok(false) };
            }
            let shas = reply[1..].to_vec();
            let (own_shas, ends) = (local_shas(&snapshot), Some(&snapshot.ends[..]));
            if cas_loop.change(self.delete_request(&snapshot, &own_shas, ends, Some(&receipt))).await? {
                return Ok(true);
            }
            written = Some((snapshot, shas));
            cas_loop.lost().await?;
        }
    }
}

/// Returns whether a receipt says that the object was moved to the key `to`.
fn names_target(receipt: &[u8], to: &[u8]) -> bool {
    receipt.strip_prefix(to).is_some_and(|rest| rest.first() == Some(&0))
}

/// Computes the SHA-1s of the contents, as the server does; empty for an absent key.
fn local_shas(snapshot: &Snapshot) -> Vec<Bytes> {
    let sha = |content: &Bytes| sha1_smol::Sha1::from(content).digest().to_string().into();
    snapshot.dump.parts().iter().map(|content| content.as_ref().map(sha).unwrap_or_default()).collect()
}

/// A request to rename an object, sent when awaited. The result says whether it was renamed.
///
/// Created by [`Object::rename`].
#[must_use = "does nothing until awaited"]
#[derive(Clone, Debug)]
pub struct Rename {
    object: Object,
    to: String,
    replaces: bool,
}

impl Rename {
    /// Executes the rename only if no object has the new name.
    pub fn unless_taken(mut self) -> Self {
        self.replaces = false;
        self
    }

    async fn execute(self) -> Result<bool, ObjectError> {
        let from = self.object.inner()?;
        let to = from.renamed_to(&self.to)?;
        if from.is_same_slot(&to) {
            return from.move_in_slot("RENAME", &to, self.replaces).await;
        }
        from.move_to_other_slot(&to, self.replaces).await
    }
}

/// A request to copy an object, sent when awaited. The result says whether it was copied.
///
/// Created by [`Object::copy_to`].
#[must_use = "does nothing until awaited"]
#[derive(Clone, Debug)]
pub struct Copy {
    object: Object,
    to: String,
    replaces: bool,
}

impl Copy {
    /// Replaces an existing object with the new name.
    pub fn replacing(mut self) -> Self {
        self.replaces = true;
        self
    }

    async fn execute(self) -> Result<bool, ObjectError> {
        let from = self.object.inner()?;
        let to = from.renamed_to(&self.to)?;
        if from.is_same_slot(&to) {
            return from.move_in_slot("COPY", &to, self.replaces).await;
        }
        let cas_loop = CasLoop::new(&from.client, &from.name);
        let snapshot = from.take_snapshot(&cas_loop).await?.ok_or_else(|| from.absent())?;
        let overwrite = if self.replaces { Overwrite::Any } else { Overwrite::Free };
        let done: Vec<i64> = cas_loop.change(to.restore_request(&snapshot, &overwrite, false)).await?;
        Ok(done == [1])
    }
}

into_future!(Rename => Result<bool, ObjectError>, |this| this.execute());
into_future!(Copy => Result<bool, ObjectError>, |this| this.execute());
