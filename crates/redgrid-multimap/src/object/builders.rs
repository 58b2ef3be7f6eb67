//! Builders of changes of the whole map: expiry, rename and copy.

use std::time::{Duration, SystemTime};

use redgrid_core::into_future;
use redgrid_core::object::{ExpireCondition, Expiry, ObjectError};

use super::MultimapObject;
use crate::kind::Kind;

impl<Y: Kind> MultimapObject<Y> {
    /// Sets the lifetime of the map, 1 ms to 3650 days, with the values of all keys. Values that
    /// are inserted meanwhile expire with it.
    #[doc(alias = "expire")]
    pub fn expire_in(&self, lifetime: Duration) -> Expire<Y> {
        Expire { object: self.clone(), expiry: Expiry::after(lifetime) }
    }

    /// Sets the expiry of the map by the server's clock, with the values of all keys. A past time
    /// deletes it at once.
    #[doc(alias = "expireAt")]
    #[doc(alias = "expire")]
    pub fn expire_at(&self, at: SystemTime) -> Expire<Y> {
        Expire { object: self.clone(), expiry: Expiry::at(at) }
    }

    /// Renames the map, with the values of all keys, when awaited. Lifetimes are unchanged.
    ///
    /// A multimap with the new name is replaced, unless [`Rename::unless_taken`] is set; any other
    /// object with that name is an error. In a cluster both names must be in the same slot, for
    /// example by a hash tag.
    #[doc(alias = "renamenx")]
    pub fn rename(&self, to: impl AsRef<str>) -> Rename<Y> {
        Rename { object: self.clone(), to: to.as_ref().to_owned(), replaces: true }
    }

    /// Copies the map to another name, with the values of all keys and the same lifetimes, when
    /// awaited.
    ///
    /// If the other name is taken, nothing is copied and the result is false, unless
    /// [`Copy::replacing`] is set. In a cluster both names must be in the same slot, for example by
    /// a hash tag.
    #[doc(alias = "copyAndReplace")]
    #[doc(alias = "copy")]
    pub fn copy_to(&self, to: impl AsRef<str>) -> Copy<Y> {
        Copy { object: self.clone(), to: to.as_ref().to_owned(), replaces: false }
    }
}

/// Sets or changes the expiry of a multimap when awaited; created by [`MultimapObject::expire_in`]
/// and [`MultimapObject::expire_at`].
///
/// Returns whether it was set; false if the map does not exist, or if its present expiry does not
/// satisfy [`Expire::only_if`].
///
/// # Errors
///
/// [`ObjectError`] states what failed and whether anything may have changed.
/// [`Failure::InvalidArgument`](crate::Failure::InvalidArgument) for a map with more than 10,000
/// keys; [`ObjectError::Contended`] if other clients add and remove keys all the time.
///
/// # Cancel safety
///
/// A request that was already sent is executed even if the future is dropped.
#[must_use = "does nothing until awaited"]
pub struct Expire<Y> {
    object: MultimapObject<Y>,
    expiry: Expiry,
}

impl<Y: Kind> Expire<Y> {
    /// Sets a condition on the present expiry.
    #[doc(alias = "expireIfSet")]
    #[doc(alias = "expireIfNotSet")]
    #[doc(alias = "expireIfGreater")]
    #[doc(alias = "expireIfLess")]
    pub fn only_if(mut self, condition: ExpireCondition) -> Self {
        self.expiry = self.expiry.only_if(condition);
        self
    }

    async fn run(self) -> Result<bool, ObjectError> {
        let (name, _) = self.object.map.object_ref.name_and_key()?;
        let (command, millis, condition) = self.expiry.args(name)?;
        self.object.set_expiry(command, millis, condition).await
    }
}

/// Renames a multimap when awaited; created by [`MultimapObject::rename`]. Returns whether it was
/// renamed.
///
/// # Errors
///
/// As for [`Expire`]. [`ObjectError::Absent`] if the map does not exist;
/// [`Failure::InvalidArgument`](crate::Failure::InvalidArgument) if the other name is in another
/// slot.
///
/// # Cancel safety
///
/// A request that was already sent is executed even if the future is dropped.
#[must_use = "does nothing until awaited"]
pub struct Rename<Y> {
    object: MultimapObject<Y>,
    to: String,
    replaces: bool,
}

impl<Y: Kind> Rename<Y> {
    /// Changes nothing if the other name is taken.
    pub fn unless_taken(mut self) -> Self {
        self.replaces = false;
        self
    }

    async fn run(self) -> Result<bool, ObjectError> {
        self.object.move_to("RENAME", &self.to, self.replaces).await
    }
}

/// Copies a multimap when awaited; created by [`MultimapObject::copy_to`]. Returns whether it was
/// copied.
///
/// # Errors
///
/// As for [`Rename`].
///
/// # Cancel safety
///
/// A request that was already sent is executed even if the future is dropped.
#[must_use = "does nothing until awaited"]
pub struct Copy<Y> {
    object: MultimapObject<Y>,
    to: String,
    replaces: bool,
}

impl<Y: Kind> Copy<Y> {
    /// Replaces a multimap with the other name.
    pub fn replacing(mut self) -> Self {
        self.replaces = true;
        self
    }

    async fn run(self) -> Result<bool, ObjectError> {
        self.object.move_to("COPY", &self.to, self.replaces).await
    }
}

into_future!([Y: Kind] Expire<Y> => Result<bool, ObjectError>, |this| this.run());
into_future!([Y: Kind] Rename<Y> => Result<bool, ObjectError>, |this| this.run());
into_future!([Y: Kind] Copy<Y> => Result<bool, ObjectError>, |this| this.run());
