//! The end of an object's life.

use std::future::IntoFuture;
use std::pin::Pin;
use std::time::{Duration, SystemTime};

use bytes::Bytes;

use super::lives::{millis, moment};
use super::{Object, ObjectError};
use crate::name::Name;
use crate::script::BulkScript;

static EXPIRE: BulkScript = BulkScript::new("object/expire", include_str!("scripts/expire.lua"));

/// How long something lives.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Lifetime {
    /// It is not there.
    Absent,
    /// It lives until somebody deletes it.
    Endless,
    /// It is deleted after this time, to the millisecond.
    Ends(Duration),
}

impl Lifetime {
    /// As PTTL tells it.
    pub fn of(millis: i64) -> Lifetime {
        match u64::try_from(millis) {
            Ok(millis) => Lifetime::Ends(Duration::from_millis(millis)),
            Err(_) if millis == -1 => Lifetime::Endless,
            Err(_) => Lifetime::Absent,
        }
    }
}

/// What must be true of the end an object has, for it to get another.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[non_exhaustive]
pub enum Ending {
    /// It has none.
    None,
    /// It has one.
    Some,
    /// It has one, and the new one is later.
    Sooner,
    /// It has none, or the new one is sooner.
    Later,
}

/// An end that something is to get, where what is said of the end it has is true: for types of objects.
#[derive(Clone, Copy, Debug)]
pub struct NewEnding {
    when: When,
    condition: &'static str,
}

#[derive(Clone, Copy, Debug)]
enum When {
    In(Duration),
    At(SystemTime),
}

impl NewEnding {
    /// After this time, 1 ms to 3650 days.
    pub fn after(lifetime: Duration) -> Self {
        NewEnding { when: When::In(lifetime), condition: "" }
    }

    /// At this time by the server's clock.
    pub fn at(at: SystemTime) -> Self {
        NewEnding { when: When::At(at), condition: "" }
    }

    /// Only where this is true of the end it has.
    pub fn only_if(self, ending: Ending) -> Self {
        let condition = match ending {
            Ending::None => "none",
            Ending::Some => "some",
            Ending::Sooner => "later",
            Ending::Later => "sooner",
        };
        NewEnding { condition, ..self }
    }

    /// The server's command for it, the time in milliseconds that it takes, and `none`, `some`, `later`, `sooner` or nothing: what must be so of
    /// the end it has.
    ///
    /// # Errors
    ///
    /// [`ObjectError::InvalidArgument`] where it can not be.
    pub fn words(self, name: &Name) -> Result<(&'static str, Bytes, &'static str), ObjectError> {
        let (command, millis) = match self.when {
            When::In(lifetime) => ("PEXPIRE", millis(name, lifetime)?),
            When::At(at) => ("PEXPIREAT", moment(name, at)?.max(1).to_string().into()),
        };
        Ok((command, millis, self.condition))
    }
}

/// Sets the end of an object's life when awaited; made by [`Object::expire_in`] and [`Object::expire_at`]. Tells whether it did: not
/// where the object is not there, nor where it has another end than [`Expire::only_if`] says.
#[must_use = "nothing is asked of the server until this is awaited"]
#[derive(Clone, Debug)]
pub struct Expire {
    object: Object,
    ending: NewEnding,
}

impl Object {
    /// Has it deleted after this time, 1 ms to 3650 days, with all that belongs to it.
    #[doc(alias = "expire")]
    pub fn expire_in(&self, lifetime: Duration) -> Expire {
        Expire { object: self.clone(), ending: NewEnding::after(lifetime) }
    }

    /// Has it deleted at this time by the server's clock, with all that belongs to it; at once where that has passed.
    #[doc(alias = "expireAt")]
    #[doc(alias = "expire")]
    pub fn expire_at(&self, at: SystemTime) -> Expire {
        Expire { object: self.clone(), ending: NewEnding::at(at) }
    }
}

impl Expire {
    /// Only where this is true of the end it has.
    #[doc(alias = "expireIfSet")]
    #[doc(alias = "expireIfNotSet")]
    #[doc(alias = "expireIfGreater")]
    #[doc(alias = "expireIfLess")]
    pub fn only_if(mut self, ending: Ending) -> Self {
        self.ending = self.ending.only_if(ending);
        self
    }

    async fn carry_out(self) -> Result<bool, ObjectError> {
        let inner = self.object.inner()?;
        let (command, millis, condition) = self.ending.words(&inner.name)?;
        let request = EXPIRE.with(inner.keys.iter().cloned()).arg(command).arg(millis).arg(condition);
        let request = request.int(inner.count_of_faces());
        Ok(inner.change::<i64>(request).await? == 1)
    }
}

impl IntoFuture for Expire {
    type Output = Result<bool, ObjectError>;
    type IntoFuture = Pin<Box<dyn Future<Output = Self::Output> + Send>>;

    fn into_future(self) -> Self::IntoFuture {
        Box::pin(self.carry_out())
    }
}
