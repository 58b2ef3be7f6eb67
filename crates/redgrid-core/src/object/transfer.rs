//! Another name for an object, a second one like it, and what it is as bytes.

use std::future::IntoFuture;
use std::pin::Pin;
use std::time::Duration;

use bytes::Bytes;

use super::{Inner, Object, ObjectError, Rounds};
use crate::connection::{FromReply, Reply, Request};
use crate::error::ServerError;
use crate::lifetime::{LIFETIMES, LIFETIMES_EXPECTED};
use crate::name::{Name, companion, same_slot};
use crate::script::BulkScript;

static MOVE: BulkScript = BulkScript::new("object/move", include_str!("scripts/move.lua"));
static DUMP: BulkScript = BulkScript::new("object/dump", include_str!("scripts/dump.lua"));
static RESTORE: BulkScript = BulkScript::new("object/restore", include_str!("scripts/restore.lua"));
static DELETE_IF_SAME: BulkScript =
    BulkScript::new("object/delete_if_same", include_str!("scripts/delete_if_same.lua"));

/// What a receipt says of a rename: where the object has gone.
const RECEIPT: &str = "redgrid_renamed";

/// What an object is as bytes, of each of its keys: what the server's DUMP tells. Only servers of the same or a newer version restore it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Dump(Vec<Option<Bytes>>);

impl Dump {
    /// Of each of the object's keys what it is, if it is there; the object's own comes first.
    pub fn parts(&self) -> &[Option<Bytes>] {
        &self.0
    }
}

impl From<Bytes> for Dump {
    /// That of an object of one key.
    fn from(part: Bytes) -> Self {
        Dump(vec![Some(part)])
    }
}

impl From<Vec<Option<Bytes>>> for Dump {
    fn from(parts: Vec<Option<Bytes>>) -> Self {
        Dump(parts)
    }
}

/// An object as it is at one moment.
struct Snapshot {
    dump: Dump,
    /// In milliseconds; 0 is none.
    lifetimes: Vec<i64>,
    /// The same in milliseconds since 1970 by the server's clock.
    ends: Vec<i64>,
}

/// What may be under a name that an object is to get.
enum Over<'a> {
    /// Nothing.
    Free,
    Any,
    /// What this is, by its SHA-1s.
    Same(&'a [Bytes]),
}

impl Object {
    /// Gives it another name, with all that belongs to it, when awaited. Its lifetime stays. What had that name is replaced, unless
    /// [`Rename::unless_taken`].
    ///
    /// Within a slot that is one step. In a cluster the other name may be in another: there it is copied first and deleted here only
    /// if nobody has changed it meanwhile, nor its lifetime; else that begins anew, for as long as a call may take. Who finds it gone
    /// then takes the copy back and is told [`ObjectError::Absent`]. After any other error both may be there. Of two renames to one
    /// name the later copy counts. The copy is acknowledged by a primary whose replicas may not have it yet when the original is
    /// deleted: a failover within that time may lose it.
    #[doc(alias = "renamenx")]
    pub fn rename(&self, to: impl AsRef<str>) -> Rename {
        Rename { object: self.clone(), to: to.as_ref().to_owned(), replaces: true }
    }

    /// Makes a second one with another name, with all that belongs to it, when awaited. It has the same lifetime. What has that name
    /// stays, and it is told, unless [`Copy::replacing`]. In another slot it is what it was at one moment.
    #[doc(alias = "copyAndReplace")]
    #[doc(alias = "copy")]
    pub fn copy_to(&self, to: impl AsRef<str>) -> Copy {
        Copy { object: self.clone(), to: to.as_ref().to_owned(), replaces: false }
    }

    /// What it is, as bytes for [`Object::restore`]; `None` where it is not there.
    ///
    /// # Errors
    ///
    /// [`ObjectError`] says what is true then.
    ///
    /// # Cancel safety
    ///
    /// Dropping it changes nothing.
    pub async fn dump(&self) -> Result<Option<Dump>, ObjectError> {
        let inner = self.inner()?;
        let parts = inner.read(DUMP.with(inner.keys.iter().cloned()).int(inner.count_of_faces())).await?;
        Ok(inner.snapshot(parts)?.map(|snapshot| snapshot.dump))
    }

    /// Makes it what was dumped, when awaited; tells whether it did. What is there stays, unless [`Restore::replacing`].
    #[doc(alias = "restoreAndReplace")]
    pub fn restore(&self, dump: impl Into<Dump>) -> Restore {
        Restore { object: self.clone(), dump: dump.into(), replaces: false, lifetime: None }
    }
}

impl Inner {
    /// What DUMP tells.
    fn snapshot(&self, parts: Vec<Reply>) -> Result<Option<Snapshot>, ObjectError> {
        if parts.is_empty() {
            return Ok(None);
        }
        let unfit = |source: ServerError| ObjectError::of_read(&self.name, source);
        let mut of = Snapshot { dump: Dump(Vec::new()), lifetimes: Vec::new(), ends: Vec::new() };
        let mut parts = parts.into_iter();
        while let (Some(content), Some(lifetime), Some(end)) = (parts.next(), parts.next(), parts.next()) {
            of.dump.0.push(Option::<Bytes>::from_reply(content).map_err(unfit)?);
            of.lifetimes.push(i64::from_reply(lifetime).map_err(unfit)?);
            of.ends.push(i64::from_reply(end).map_err(unfit)?);
        }
        Ok(Some(of))
    }

    /// It as it is, with what goes along.
    async fn now(&self, rounds: &Rounds) -> Result<Option<Snapshot>, ObjectError> {
        self.snapshot(rounds.read(DUMP.with(self.all_keys()).int(self.count_of_faces())).await?)
    }

    /// Asks to make the object, or so much of it as the snapshot has, from one of the same kind.
    fn restoring(&self, of: &Snapshot, over: &Over<'_>, told: bool) -> Request {
        let keys = self.all_keys().into_iter().take(of.dump.0.len());
        let over_what = match over {
            Over::Free => "free",
            Over::Any => "any",
            Over::Same(_) => "same",
        };
        let count = i64::try_from(self.keys.len()).unwrap_or(i64::MAX);
        let mut request = RESTORE.with(keys).arg(over_what).int(told.into()).int(count).int(self.count_of_faces());
        for (n, (content, lifetime)) in of.dump.0.iter().zip(&of.lifetimes).enumerate() {
            let there = match over {
                Over::Same(there) => there.get(n).cloned().unwrap_or_default(),
                _ => Bytes::new(),
            };
            let content = (content.is_some(), content.clone().unwrap_or_default());
            request = request.int(content.0.into()).arg(content.1).int(*lifetime).arg(there);
        }
        request
    }

    /// The object of the same kind with another name.
    fn named(&self, to: &str) -> Result<Inner, ObjectError> {
        let other = Inner::of(&self.client, Name::new(to)?, self.layout, self.along);
        let other = Inner { faces: self.faces, ..other };
        let (ours, theirs) = (self.all_keys(), other.all_keys());
        if ours[0] != theirs[0] && ours.iter().any(|key| theirs.contains(key)) {
            return Err(ObjectError::InvalidArgument {
                name: self.name.clone(),
                option: "name",
                expected: "one whose keys are not those of the object itself".into(),
                got: to.into(),
            });
        }
        Ok(other)
    }

    /// Whether both are at one place, where a script has their keys together. What is not in a cluster may be split up later, so
    /// names decide, too, where slots do not.
    fn is_beside(&self, other: &Inner) -> bool {
        let (one, other) = (&self.keys[0], &other.keys[0]);
        same_slot(one, other) || self.client.slot(one) == self.client.slot(other)
    }

    /// In one step.
    async fn moved(&self, how: &'static str, to: &Inner, replaces: bool) -> Result<bool, ObjectError> {
        let keys = self.all_keys().into_iter().chain(to.all_keys());
        let own = i64::try_from(self.keys.len()).unwrap_or(i64::MAX);
        match self
            .change::<i64>(MOVE.with(keys).arg(how).int(replaces.into()).int(own).int(self.count_of_faces()))
            .await?
        {
            -1 => Err(self.absent()),
            done => Ok(done == 1),
        }
    }

    /// Asks to delete what was carried away, or taken there: where it is as it was by its SHA-1s and, where they are known, its ends.
    fn deleting(&self, of: &Snapshot, shas: &[Bytes], ends: Option<&[i64]>, gone_to: Option<&Bytes>) -> Request {
        let own = self.keys.len();
        let all = self.all_keys();
        let parts: Vec<usize> = (0..all.len()).filter(|n| *n < own || of.dump.0[*n].is_some()).collect();
        let keys = parts.iter().map(|n| all[*n].clone()).chain(gone_to.map(|_| self.receipt()));
        // Longer than anybody who has seen it may be about to carry it away.
        let kept = (2 * self.client.patience()).as_millis().saturating_add(1_000);
        let request = DELETE_IF_SAME.with(keys).int(i64::try_from(parts.len()).unwrap_or(i64::MAX));
        let request = request.arg(gone_to.cloned().unwrap_or_default()).arg(kept.to_string());
        parts.into_iter().fold(request, |request, n| request.arg(shas[n].clone()).int(ends.map_or(-1, |ends| ends[n])))
    }

    fn absent(&self) -> ObjectError {
        ObjectError::Absent { name: self.name.clone() }
    }

    /// Where it says for a while what has become of it.
    fn receipt(&self) -> Bytes {
        companion(RECEIPT, &self.keys[0])
    }

    /// To another slot.
    async fn carried(&self, to: &Inner, replaces: bool) -> Result<bool, ObjectError> {
        let mut rounds = Rounds::of(&self.client, &self.name);
        let mut written: Option<(Snapshot, Vec<Bytes>)> = None;
        let former: Option<Bytes> = rounds.read(Request::command("GET").key(self.receipt())).await?;
        // New for each call, so that one says nothing of another object that had the name before.
        let receipt: Bytes = [&to.keys[0][..], format!("\0{:016x}", fastrand::u64(..)).as_bytes()].concat().into();
        loop {
            let Some(snapshot) = self.now(&rounds).await? else {
                if let Some((snapshot, shas)) = written {
                    let now: Option<Bytes> = rounds.read(Request::command("GET").key(self.receipt())).await?;
                    // Another call may have carried it to the same name: then the copy there is all there is of it.
                    let is_there = now != former && now.is_some_and(|now| is_about(&now, &to.keys[0]));
                    if !is_there {
                        let _: bool = rounds.change(to.deleting(&snapshot, &shas, None, None)).await?;
                    }
                }
                return Err(self.absent());
            };
            let over = match &written {
                Some((_, shas)) => Over::Same(shas),
                None if replaces => Over::Any,
                None => Over::Free,
            };
            let answer: Vec<Bytes> = rounds.change(to.restoring(&snapshot, &over, true)).await?;
            if answer.len() <= 1 {
                // Somebody has it, or has put something else there since.
                return if replaces { Err(rounds.contended()) } else { Ok(false) };
            }
            let shas = answer[1..].to_vec();
            if rounds
                .change(self.deleting(&snapshot, &local_shas(&snapshot), Some(&snapshot.ends), Some(&receipt)))
                .await?
            {
                return Ok(true);
            }
            written = Some((snapshot, shas));
            rounds.lost().await?;
        }
    }
}

/// Whether a receipt says that it has gone to this key.
fn is_about(receipt: &[u8], to: &[u8]) -> bool {
    receipt.strip_prefix(to).is_some_and(|rest| rest.first() == Some(&0))
}

/// What the server tells of contents.
fn local_shas(of: &Snapshot) -> Vec<Bytes> {
    let sha = |content: &Bytes| sha1_smol::Sha1::from(content).digest().to_string().into();
    of.dump.0.iter().map(|content| content.as_ref().map(sha).unwrap_or_default()).collect()
}

/// Gives an object another name when awaited; made by [`Object::rename`]. Tells whether it did.
#[must_use = "nothing is asked of the server until this is awaited"]
#[derive(Clone, Debug)]
pub struct Rename {
    object: Object,
    to: String,
    replaces: bool,
}

impl Rename {
    /// What has that name already stays; then nothing is done.
    pub fn unless_taken(mut self) -> Self {
        self.replaces = false;
        self
    }

    async fn carry_out(self) -> Result<bool, ObjectError> {
        let from = self.object.inner()?;
        let to = from.named(&self.to)?;
        if from.is_beside(&to) {
            return from.moved("RENAME", &to, self.replaces).await;
        }
        from.carried(&to, self.replaces).await
    }
}

/// Makes a second object like one when awaited; made by [`Object::copy_to`]. Tells whether it did.
#[must_use = "nothing is asked of the server until this is awaited"]
#[derive(Clone, Debug)]
pub struct Copy {
    object: Object,
    to: String,
    replaces: bool,
}

impl Copy {
    /// What has that name is replaced.
    pub fn replacing(mut self) -> Self {
        self.replaces = true;
        self
    }

    async fn carry_out(self) -> Result<bool, ObjectError> {
        let from = self.object.inner()?;
        let to = from.named(&self.to)?;
        if from.is_beside(&to) {
            return from.moved("COPY", &to, self.replaces).await;
        }
        let rounds = Rounds::of(&from.client, &from.name);
        let snapshot = from.now(&rounds).await?.ok_or_else(|| from.absent())?;
        let over = if self.replaces { Over::Any } else { Over::Free };
        let done: Vec<i64> = rounds.change(to.restoring(&snapshot, &over, false)).await?;
        Ok(done == [1])
    }
}

/// Makes an object what was dumped when awaited; made by [`Object::restore`]. Tells whether it did.
#[must_use = "nothing is asked of the server until this is awaited"]
#[derive(Clone, Debug)]
pub struct Restore {
    object: Object,
    dump: Dump,
    replaces: bool,
    lifetime: Option<Duration>,
}

impl Restore {
    /// What is there is replaced.
    pub fn replacing(mut self) -> Self {
        self.replaces = true;
        self
    }

    /// Has it deleted after this time, 1 ms to 3650 days; without it, it lives on without an end.
    pub fn expires_in(mut self, lifetime: Duration) -> Self {
        self.lifetime = Some(lifetime);
        self
    }

    async fn carry_out(self) -> Result<bool, ObjectError> {
        let inner = self.object.inner()?;
        let invalid = |option, expected: String, got| ObjectError::InvalidArgument {
            name: inner.name.clone(),
            option,
            expected,
            got,
        };
        let lifetime = match self.lifetime {
            Some(lifetime) if !LIFETIMES.contains(&lifetime) => {
                return Err(invalid("lifetime", LIFETIMES_EXPECTED.into(), format!("{lifetime:?}")));
            }
            lifetime => lifetime.map_or(0, |lifetime| i64::try_from(lifetime.as_millis()).unwrap_or(i64::MAX)),
        };
        let (parts, keys) = (self.dump.0.len(), inner.keys.len());
        if parts != keys {
            return Err(invalid("dump", format!("{keys} parts, one for each key"), parts.to_string()));
        }
        let of = Snapshot { dump: self.dump, lifetimes: vec![lifetime; keys], ends: Vec::new() };
        let over = if self.replaces { Over::Any } else { Over::Free };
        let done: Vec<i64> = inner.change(inner.restoring(&of, &over, false)).await?;
        Ok(done == [1])
    }
}

macro_rules! awaited {
    ($($builder:ty),*) => {$(
        impl IntoFuture for $builder {
            type Output = Result<bool, ObjectError>;
            type IntoFuture = Pin<Box<dyn Future<Output = Self::Output> + Send>>;

            fn into_future(self) -> Self::IntoFuture {
                Box::pin(self.carry_out())
            }
        }
    )*};
}

awaited!(Rename, Copy, Restore);
