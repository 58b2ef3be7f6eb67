//! Sets the lifetime of an object.

use std::time::{Duration, SystemTime};

use bytes::Bytes;
use redgrid_client::BulkScript;

use super::set_ttl::{millis, unix_time};
use super::{Object, ObjectError};
use crate::into_future;
use crate::name::Name;

static EXPIRE: BulkScript = BulkScript::new("object/expire", include_str!("scripts/expire.lua"));

/// The remaining lifetime of an object.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
// Not `#[non_exhaustive]`: a key on the server has no fourth state.
pub enum Lifetime {
    /// The object does not exist.
    Absent,
    /// The object does not expire.
    Endless,
    /// The object expires after this time, in whole milliseconds.
    Ends(Duration),
}

impl Lifetime {
    /// Converts the reply of PTTL.
    pub fn of(millis: i64) -> Lifetime {
        match u64::try_from(millis) {
            Ok(millis) => Lifetime::Ends(Duration::from_millis(millis)),
            Err(_) if millis == -1 => Lifetime::Endless,
            Err(_) => Lifetime::Absent,
        }
    }
}

/// A condition on the current lifetime of an object. A new lifetime is set only if the condition is
/// met.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[non_exhaustive]
pub enum ExpireCondition {
    /// The object does not expire.
    NoExpiry,
    /// The object expires.
    HasExpiry,
    /// The object expires before the new lifetime ends.
    ExpiresSooner,
    /// The object does not expire, or expires after the new lifetime ends.
    ExpiresLater,
}

/// A new lifetime, and a condition on the current lifetime. For authors of object types.
#[derive(Clone, Copy, Debug)]
pub struct Expiry {
    when: When,
    condition: &'static str,
}

#[derive(Clone, Copy, Debug)]
enum When {
    In(Duration),
    At(SystemTime),
}

impl Expiry {
    /// Creates a lifetime that ends after this time: 1 ms to 3650 days.
    pub fn after(lifetime: Duration) -> Self {
        Expiry { when: When::In(lifetime), condition: "" }
    }

    /// Creates a lifetime that ends at this time by the server's clock.
    pub fn at(at: SystemTime) -> Self {
        Expiry { when: When::At(at), condition: "" }
    }

    /// Sets the lifetime only if the current one meets this condition.
    pub fn only_if(self, condition: ExpireCondition) -> Self {
        let condition = match condition {
            ExpireCondition::NoExpiry => "none",
            ExpireCondition::HasExpiry => "some",
            ExpireCondition::ExpiresSooner => "later",
            ExpireCondition::ExpiresLater => "sooner",
        };
        Expiry { condition, ..self }
    }

    /// Returns the arguments for a script: the command (PEXPIRE or PEXPIREAT), the command's time
    /// argument in milliseconds, and the condition.
    ///
    /// The condition is `none` if there must be no current lifetime, and `some` if there must be
    /// one. It is `later` or `sooner` if the new lifetime must end later or sooner than the current
    /// one. An empty condition is always met.
    ///
    /// # Errors
    ///
    /// [`Failure::InvalidArgument`](crate::Failure::InvalidArgument) if the time is out of range.
    pub fn args(self, name: &Name) -> Result<(&'static str, Bytes, &'static str), ObjectError> {
        let (command, millis) = match self.when {
            When::In(lifetime) => ("PEXPIRE", millis(name, lifetime)?),
            When::At(at) => ("PEXPIREAT", unix_time(name, at)?.max(1).to_string().into()),
        };
        Ok((command, millis, self.condition))
    }
}

/// A request to set the lifetime of an object, sent when awaited.
///
/// Created by [`Object::expire_in`] and [`Object::expire_at`]. The result says whether the lifetime
/// was set. The lifetime is not set if the object is absent, or if the condition of
/// [`Expire::only_if`] is not met.
#[must_use = "does nothing until awaited"]
#[derive(Clone, Debug)]
pub struct Expire {
    object: Object,
    expiry: Expiry,
}

impl Object {
    /// Makes the server delete the object with all its keys after this time: 1 ms to 3650 days.
    #[doc(alias = "expire")]
    pub fn expire_in(&self, lifetime: Duration) -> Expire {
        Expire { object: self.clone(), expiry: Expiry::after(lifetime) }
    }

    /// Makes the server delete the object with all its keys at this time, by the server's clock.
    ///
    /// If the time has passed, the object is deleted at once.
    #[doc(alias = "expireAt")]
    #[doc(alias = "expire")]
    pub fn expire_at(&self, at: SystemTime) -> Expire {
        Expire { object: self.clone(), expiry: Expiry::at(at) }
    }
}

impl Expire {
    /// Sets the lifetime only if the current one meets this condition.
    #[doc(alias = "expireIfSet")]
    #[doc(alias = "expireIfNotSet")]
    #[doc(alias = "expireIfGreater")]
    #[doc(alias = "expireIfLess")]
    pub fn only_if(mut self, condition: ExpireCondition) -> Self {
        self.expiry = self.expiry.only_if(condition);
        self
    }

    async fn execute(self) -> Result<bool, ObjectError> {
        let inner = self.object.inner()?;
        let (command, millis, condition) = self.expiry.args(&inner.name)?;
        let request = EXPIRE.with(inner.keys.iter().cloned()).arg(command).arg(millis).arg(condition);
        let request = request.int(inner.primary_key_count());
        Ok(inner.change::<i64>(request).await? == 1)
    }
}

into_future!(Expire => Result<bool, ObjectError>, |this| this.execute());
