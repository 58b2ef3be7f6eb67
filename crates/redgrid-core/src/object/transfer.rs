//! Another name for an object, a second one like it, and what it is as bytes.

use std::future::IntoFuture;
use std::pin::Pin;
use std::time::Duration;

use bytes::Bytes;

use super::{Inner, Object, ObjectError};
use crate::connection::{FromReply, Reply};
use crate::error::ServerError;
use crate::lifetime::{LIFETIMES, LIFETIMES_EXPECTED};
use crate::name::{Name, share_a_slot};
use crate::script::BulkScript;

static MOVE: BulkScript = BulkScript::new("object/move", include_str!("scripts/move.lua"));
static DUMP: BulkScript = BulkScript::new("object/dump", include_str!("scripts/dump.lua"));
static RESTORE: BulkScript = BulkScript::new("object/restore", include_str!("scripts/restore.lua"));
static DELETE_IF_SAME: BulkScript =
    BulkScript::new("object/delete_if_same", include_str!("scripts/delete_if_same.lua"));

/// How often an object that others change meanwhile is carried over to another slot.
const ROUNDS: u32 = 100;

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
}

impl Object {
    /// Gives it another name, with all that belongs to it, when awaited. Its lifetime stays. What had that name is replaced, unless
    /// [`Rename::unless_taken`].
    ///
    /// Within a slot that is one step. In a cluster the other name may be in another: there it is copied first and deleted here only
    /// if nobody has changed it meanwhile; else that begins anew, up to 100 times.
    #[doc(alias = "renamenx")]
    pub fn rename(&self, to: impl AsRef<str>) -> Rename {
        Rename { object: self.clone(), to: to.as_ref().to_owned(), replaces: true }
    }

    /// Makes a second one with another name, with all that belongs to it, when awaited. It has the same lifetime. What has that name
    /// stays, and it is told, unless [`Copy::replacing`]. In another slot it is what it was at one moment.
    #[doc(alias = "copyAndReplace")]
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
        Ok(self.inner()?.snapshot().await?.map(|snapshot| snapshot.dump))
    }

    /// Makes it what was dumped, when awaited; tells whether it did. What is there stays, unless [`Restore::replacing`].
    #[doc(alias = "restoreAndReplace")]
    pub fn restore(&self, dump: impl Into<Dump>) -> Restore {
        Restore { object: self.clone(), dump: dump.into(), replaces: false, lifetime: None }
    }
}

impl Inner {
    async fn snapshot(&self) -> Result<Option<Snapshot>, ObjectError> {
        let parts: Vec<Reply> = self.read(DUMP.with(self.keys.iter().cloned())).await?;
        if parts.is_empty() {
            return Ok(None);
        }
        let unfit = |source: ServerError| ObjectError::of_read(&self.name, source);
        let (mut contents, mut lifetimes) = (Vec::new(), Vec::new());
        let mut parts = parts.into_iter();
        while let (Some(content), Some(lifetime)) = (parts.next(), parts.next()) {
            contents.push(Option::<Bytes>::from_reply(content).map_err(unfit)?);
            lifetimes.push(i64::from_reply(lifetime).map_err(unfit)?.max(0));
        }
        Ok(Some(Snapshot { dump: Dump(contents), lifetimes }))
    }

    /// Makes the object from a snapshot of one of the same kind; false where one is there that is not to be replaced.
    async fn restored(&self, of: &Snapshot, replaces: bool) -> Result<bool, ObjectError> {
        let mut request = RESTORE.with(self.keys.iter().cloned()).int(replaces.into());
        for (content, lifetime) in of.dump.0.iter().zip(&of.lifetimes) {
            request = request.int(content.is_some().into()).arg(content.clone().unwrap_or_default()).int(*lifetime);
        }
        self.change(request).await
    }

    /// The object of the same kind with another name.
    fn named(&self, to: &str) -> Result<Inner, ObjectError> {
        Ok(Inner::of(&self.client, Name::new(to)?, self.layout))
    }

    /// Whether both are at one place, where a script has their keys together. What is not in a cluster may be split up later, so
    /// names decide, too, where slots do not.
    fn is_beside(&self, other: &Inner) -> bool {
        let (one, other) = (&self.keys[0], &other.keys[0]);
        share_a_slot(one, other) || self.client.slot(one) == self.client.slot(other)
    }

    /// In one step.
    async fn moved(&self, how: &'static str, to: &Inner, replaces: bool) -> Result<bool, ObjectError> {
        let keys = self.keys.iter().chain(&to.keys).cloned();
        match self.change::<i64>(MOVE.with(keys).arg(how).int(replaces.into())).await? {
            -1 => Err(ObjectError::Absent { name: self.name.clone() }),
            done => Ok(done == 1),
        }
    }
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
        let mut replaces = self.replaces;
        for _ in 0..ROUNDS {
            let Some(snapshot) = from.snapshot().await? else {
                return Err(ObjectError::Absent { name: from.name.clone() });
            };
            if !to.restored(&snapshot, replaces).await? {
                return Ok(false);
            }
            // From now on it is ours.
            replaces = true;
            let mut request = DELETE_IF_SAME.with(from.keys.iter().cloned());
            for content in &snapshot.dump.0 {
                let sha = content.as_ref().map(|content| sha1_smol::Sha1::from(content).digest().to_string());
                request = request.arg(sha.unwrap_or_default());
            }
            if from.change(request).await? {
                return Ok(true);
            }
        }
        Err(ObjectError::Contended { name: from.name.clone(), times: ROUNDS })
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
        match from.snapshot().await? {
            Some(snapshot) => to.restored(&snapshot, self.replaces).await,
            None => Err(ObjectError::Absent { name: from.name.clone() }),
        }
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
        inner.restored(&Snapshot { dump: self.dump, lifetimes: vec![lifetime; keys] }, self.replaces).await
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
