//! Common parts of the serde codecs: limits that do not depend on the format, and errors without
//! the value.
//!
//! Our serializer and deserializer wrap those of the format. They count levels and elements, and
//! report the type's error ([`reason`]) without the value.

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

/// Differences between formats.
#[derive(Debug, Clone, Copy, Default)]
pub(crate) struct Format {
    /// Whether the format has no NaN and no infinities, and would replace them by another value.
    pub(crate) finite_only: bool,
    /// Whether numbers are tagged with their type, and the format's deserializer accepts floats of
    /// only one width.
    pub(crate) typed_floats: bool,
}

/// The state of encoding or decoding one value.
#[derive(Debug)]
pub(crate) struct State {
    format: Format,
    /// Remaining levels.
    levels: Cell<usize>,
    /// Remaining elements of all sequences and maps.
    elements: Cell<usize>,
    /// Remaining elements for which memory may be reserved before they are read. Each element that
    /// has bytes has at least one, so there cannot be more of them than bytes, whatever the
    /// declared lengths are.
    reservable: Cell<usize>,
    /// The first error of our own. It is stored here because not every format returns it.
    failure: RefCell<Option<Failure>>,
}

/// Errors of our own.
#[derive(Debug)]
enum Failure {
    TooDeep,
    TooMany,
    /// The expected value, if known, and the found one.
    Unexpected(Option<String>, String),
}

/// The maximum number of elements in excess of the number of bytes. Only elements without bytes,
/// such as `()`, can exceed it, and a few bytes may declare 2⁶⁴ of them.
const EMPTY_ELEMENTS: usize = 65_536;

impl State {
    fn new(format: Format, elements: usize, reservable: usize) -> State {
        State {
            format,
            levels: Cell::new(MAX_DEPTH),
            elements: Cell::new(elements),
            reservable: Cell::new(reservable),
            failure: RefCell::new(None),
        }
    }

    /// Enters `by` levels. They are left when the returned value is dropped.
    fn enter<E>(&self, by: usize, error: fn(&'static str) -> E) -> Result<Level<'_>, E> {
        let left = self.levels.get().checked_sub(by);
        let left = left.ok_or_else(|| self.fail(Failure::TooDeep, error))?;
        self.levels.set(left);
        Ok(Level { state: self, by })
    }

    /// Counts an element of a sequence or map.
    fn element<E>(&self, error: fn(&'static str) -> E) -> Result<(), E> {
        let left = self.elements.get().checked_sub(1);
        self.elements.set(left.ok_or_else(|| self.fail(Failure::TooMany, error))?);
        Ok(())
    }

    /// Returns the number of elements for which memory may be reserved, given the declared `hint`.
    fn reserve(&self, hint: Option<usize>) -> Option<usize> {
        let granted = hint?.min(self.reservable.get());
        self.reservable.set(self.reservable.get() - granted);
        Some(granted)
    }

    /// Records our error. The format returns its own error instead, until the caller restores ours.
    fn fail<E>(&self, failure: Failure, error: fn(&'static str) -> E) -> E {
        self.failure.borrow_mut().get_or_insert(failure);
        error("refused")
    }
}

/// Nesting levels that are in use. Dropping it releases them.
struct Level<'a> {
    state: &'a State,
    by: usize,
}

impl Drop for Level<'_> {
    fn drop(&mut self) {
        self.state.levels.set(self.state.levels.get() + self.by);
    }
}

/// Encodes `value` with `write`, which receives the value wrapped with the limits.
pub(crate) fn encode<T, E>(
    codec: &impl Codec,
    format: Format,
    value: &T,
    write: impl FnOnce(&Guarded<'_, T>) -> Result<Vec<u8>, E>,
    describe: fn(E) -> String,
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
            let found = format!("this `{}`: {}", type_name::<T>(), redacted(&describe(error)).1);
            Err(EncodeError::unsupported(codec, "values that its format supports", found))
        }
    }
}

/// Decodes a value with `read`, which receives a seed with the limits. `read` also returns the
/// number of bytes that follow the value.
pub(crate) fn decode<T, E>(
    codec: &impl Codec,
    format: Format,
    bytes: &[u8],
    read: impl FnOnce(Seed<'_, T>) -> Result<(T, usize), E>,
    describe: fn(E) -> String,
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
        None => redacted(&describe(error)),
    };
    Err(unexpected(expected).found(found))
}
