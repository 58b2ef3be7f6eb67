//! What is said of a multimap as a whole before it is done: another end, another name.

use std::future::IntoFuture;
use std::pin::Pin;
use std::time::{Duration, SystemTime};

use redgrid_core::object::{Ending, NewEnding, ObjectError};

use super::MultimapObject;
use crate::kind::Kind;

impl<Y: Kind> MultimapObject<Y> {
    /// Has it deleted after this time, 1 ms to 3650 days, with the values of all keys; what is inserted until then goes with it.
    #[doc(alias = "expire")]
    pub fn expire_in(&self, lifetime: Duration) -> Expire<Y> {
        Expire { object: self.clone(), ending: NewEnding::after(lifetime) }
    }

    /// Has it deleted at this time by the server's clock, with the values of all keys; at once where that has passed.
    #[doc(alias = "expireAt")]
    #[doc(alias = "expire")]
    pub fn expire_at(&self, at: SystemTime) -> Expire<Y> {
        Expire { object: self.clone(), ending: NewEnding::at(at) }
    }

    /// Gives it another name, with the values of all keys, when awaited. Lifetimes stay. What had that name is replaced if it is a multimap, and else an
    /// error, unless [`Rename::unless_taken`]. In a cluster the other name has to share its slot, as by a hash tag.
    #[doc(alias = "renamenx")]
    pub fn rename(&self, to: impl AsRef<str>) -> Rename<Y> {
        Rename { object: self.clone(), to: to.as_ref().to_owned(), replaces: true }
    }

    /// Makes a second one with another name, with the values of all keys, when awaited. It has the same lifetimes. What has that name stays, and it is
    /// told, unless [`Copy::replacing`]. In a cluster the other name has to share its slot, as by a hash tag.
    #[doc(alias = "copyAndReplace")]
    #[doc(alias = "copy")]
    pub fn copy_to(&self, to: impl AsRef<str>) -> Copy<Y> {
        Copy { object: self.clone(), to: to.as_ref().to_owned(), replaces: false }
    }
}

/// Sets the end of a multimap's life when awaited; made by [`MultimapObject::expire_in`] and [`MultimapObject::expire_at`]. Tells whether it did: not where
/// it is not there, nor where it has another end than [`Expire::only_if`] says.
///
/// # Errors
///
/// [`ObjectError`] says what is true then; [`ObjectError::InvalidArgument`] of a map with more than 10,000 keys, [`ObjectError::Contended`] where others add
/// and remove keys all the time.
///
/// # Cancel safety
///
/// What has left is carried out although nobody waits for it.
#[must_use = "nothing is asked of the server until this is awaited"]
pub struct Expire<Y> {
    object: MultimapObject<Y>,
    ending: NewEnding,
}

impl<Y: Kind> Expire<Y> {
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
        let (name, _) = self.object.map.place.named()?;
        let (command, millis, condition) = self.ending.words(name)?;
        self.object.live(command, millis, condition).await
    }
}

/// Gives a multimap another name when awaited; made by [`MultimapObject::rename`]. Tells whether it did.
///
/// # Errors
///
/// As [`Expire`]; [`ObjectError::Absent`] where it is not there, [`ObjectError::InvalidArgument`] where the other name is in another slot.
///
/// # Cancel safety
///
/// What has left is carried out although nobody waits for it.
#[must_use = "nothing is asked of the server until this is awaited"]
pub struct Rename<Y> {
    object: MultimapObject<Y>,
    to: String,
    replaces: bool,
}

impl<Y: Kind> Rename<Y> {
    /// What has that name stays, and this one keeps its own.
    pub fn unless_taken(mut self) -> Self {
        self.replaces = false;
        self
    }

    async fn carry_out(self) -> Result<bool, ObjectError> {
        self.object.moved("RENAME", &self.to, self.replaces).await
    }
}

/// Makes a second multimap when awaited; made by [`MultimapObject::copy_to`]. Tells whether it did.
///
/// # Errors
///
/// As [`Rename`].
///
/// # Cancel safety
///
/// What has left is carried out although nobody waits for it.
#[must_use = "nothing is asked of the server until this is awaited"]
pub struct Copy<Y> {
    object: MultimapObject<Y>,
    to: String,
    replaces: bool,
}

impl<Y: Kind> Copy<Y> {
    /// What has that name is replaced.
    pub fn replacing(mut self) -> Self {
        self.replaces = true;
        self
    }

    async fn carry_out(self) -> Result<bool, ObjectError> {
        self.object.moved("COPY", &self.to, self.replaces).await
    }
}

macro_rules! awaited {
    ($($builder:ident),*) => {$(
        impl<Y: Kind> IntoFuture for $builder<Y> {
            type Output = Result<bool, ObjectError>;
            type IntoFuture = Pin<Box<dyn Future<Output = Self::Output> + Send>>;

            fn into_future(self) -> Self::IntoFuture {
                Box::pin(self.carry_out())
            }
        }
    )*};
}

awaited!(Expire, Rename, Copy);
