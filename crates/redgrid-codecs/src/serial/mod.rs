//! What all codecs over serde have in common: bounds that do not depend on the format, and errors that do not tell the
//! value.
//!
//! A serializer and a deserializer of ours stand between the value and those of the format. They count levels and elements,
//! and what a type says of what it was given ([`reason`]) passes through them, with the value taken out.

mod de;
mod reason;
mod ser;

use std::any::type_name;
use std::cell::{Cell, RefCell};
use std::marker::PhantomData;

use bytes::Bytes;
use serde::Serialize;
use serde::de::DeserializeOwned;

pub(crate) use self::de::Seed;
pub(crate) use self::reason::redacted;
pub(crate) use self::ser::Guarded;
use crate::codec::{MAX_DEPTH, checked};

use crate::{Codec, DecodeError, EncodeError};

/// In what formats differ here.
#[derive(Debug, Clone, Copy, Default)]
pub(crate) struct Format {
    /// It has no NaN and no infinities, and would write something else in their place.
    pub(crate) finite_only: bool,
    /// Its numbers say what they are, and its own deserializer takes a float of one width only.
    pub(crate) floats_by_mark: bool,
}

/// One value on its way.
#[derive(Debug)]
pub(crate) struct State {
    format: Format,
    /// How many more levels it may have from here.
    levels: Cell<usize>,
    /// How many more elements sequences and maps may have, all together.
    elements: Cell<usize>,
    /// For how many more elements room may be made before they are there: elements that take bytes are no more than
    /// there are bytes, whatever lengths say.
    room: Cell<usize>,
    /// What went wrong first: not every format keeps what it is told.
    failure: RefCell<Option<Failure>>,
}

/// What is found on the way.
#[derive(Debug)]
enum Failure {
    TooDeep,
    TooMany,
    /// What was expected, where that is known, and what was found.
    Unexpected(Option<String>, String),
}

/// How many elements may be there beyond the number of bytes. Only what takes no bytes, such as `()`, is so many, and
/// a length of a few bytes may claim 2⁶⁴ of it.
const EMPTY_ELEMENTS: usize = 65_536;

impl State {
    fn new(format: Format, elements: usize, room: usize) -> State {
        State {
            format,
            levels: Cell::new(MAX_DEPTH),
            elements: Cell::new(elements),
            room: Cell::new(room),
            failure: RefCell::new(None),
        }
    }

    /// Goes `by` levels deeper until the value is dropped.
    fn enter<E>(&self, by: usize, error: fn(&'static str) -> E) -> Result<Level<'_>, E> {
        let left = self.levels.get().checked_sub(by);
        let left = left.ok_or_else(|| self.fail(Failure::TooDeep, error))?;
        self.levels.set(left);
        Ok(Level { state: self, by })
    }

    /// One more element of a sequence or map.
    fn element<E>(&self, error: fn(&'static str) -> E) -> Result<(), E> {
        let left = self.elements.get().checked_sub(1);
        self.elements.set(left.ok_or_else(|| self.fail(Failure::TooMany, error))?);
        Ok(())
    }

    /// For how many elements of `hint` room is made.
    fn make_room(&self, hint: Option<usize>) -> Option<usize> {
        let granted = hint?.min(self.room.get());
        self.room.set(self.room.get() - granted);
        Some(granted)
    }

    /// The format's error stands for ours on the way out.
    fn fail<E>(&self, failure: Failure, error: fn(&'static str) -> E) -> E {
        self.failure.borrow_mut().get_or_insert(failure);
        error("refused")
    }
}

/// Levels that are open.
struct Level<'a> {
    state: &'a State,
    by: usize,
}

impl Drop for Level<'_> {
    fn drop(&mut self) {
        self.state.levels.set(self.state.levels.get() + self.by);
    }
}

/// Writes `value` by `write`, which gets it as something that keeps the bounds.
pub(crate) fn encode<T, E>(
    codec: &impl Codec,
    format: Format,
    value: &T,
    write: impl FnOnce(&Guarded<'_, T>) -> Result<Vec<u8>, E>,
    say: fn(E) -> String,
) -> Result<Bytes, EncodeError>
where
    T: Serialize + ?Sized,
{
    let state = State::new(format, usize::MAX, 0);
    let written = write(&Guarded::new(value, &state));
    match (state.failure.take(), written) {
        (None, Ok(bytes)) => {
            let elements = usize::MAX - state.elements.get();
            if elements > bytes.len() + EMPTY_ELEMENTS {
                return Err(EncodeError::TooMany { codec: codec.name(), limit: EMPTY_ELEMENTS });
            }
            checked(codec, bytes)
        }
        (Some(Failure::TooDeep), _) => Err(EncodeError::TooDeep { codec: codec.name(), limit: MAX_DEPTH }),
        (Some(Failure::TooMany), _) => Err(EncodeError::TooMany { codec: codec.name(), limit: EMPTY_ELEMENTS }),
        (Some(Failure::Unexpected(expected, found)), _) => {
            Err(EncodeError::unsupported(codec, expected.unwrap_or_else(|| "other values".to_owned()), found))
        }
        (None, Err(error)) => {
            let found = format!("this `{}`: {}", type_name::<T>(), redacted(&say(error)).1);
            Err(EncodeError::unsupported(codec, "what its format has", found))
        }
    }
}

/// Reads a value by `read`, which gets what to read it with, and says how many bytes are left behind it.
pub(crate) fn decode<T, E>(
    codec: &impl Codec,
    format: Format,
    bytes: &[u8],
    read: impl FnOnce(Seed<'_, T>) -> Result<(T, usize), E>,
    say: fn(E) -> String,
) -> Result<T, DecodeError>
where
    T: DeserializeOwned,
{
    let state = State::new(format, bytes.len().saturating_add(EMPTY_ELEMENTS), bytes.len());
    let unexpected = |expected: Option<String>| {
        DecodeError::unexpected(codec, bytes, expected.unwrap_or_else(|| format!("`{}`", type_name::<T>())))
    };
    let error = match read(Seed { state: &state, value: PhantomData }) {
        Ok((value, 0)) => return Ok(value),
        Ok((_, left)) => return Err(unexpected(None).left_over(left)),
        Err(error) => error,
    };
    let (expected, found) = match state.failure.take() {
        Some(Failure::TooDeep) => return Err(DecodeError::TooDeep { codec: codec.name(), limit: MAX_DEPTH }),
        Some(Failure::TooMany) => return Err(DecodeError::TooMany { codec: codec.name(), limit: EMPTY_ELEMENTS }),
        Some(Failure::Unexpected(expected, found)) => (expected, found),
        None => redacted(&say(error)),
    };
    Err(unexpected(expected).found(found))
}
