//! The serializer that wraps that of the format.

use std::fmt::Display;

use serde::ser::{
    Error, Serialize, SerializeMap, SerializeSeq, SerializeStruct, SerializeStructVariant, SerializeTuple,
    SerializeTupleStruct, SerializeTupleVariant, Serializer,
};

use super::{Failure, Level, State};

/// A value to be written within limits.
pub(crate) struct Guarded<'a, T: ?Sized> {
    value: &'a T,
    state: &'a State,
}

impl<'a, T: ?Sized> Guarded<'a, T> {
    pub(super) fn new(value: &'a T, state: &'a State) -> Guarded<'a, T> {
        Guarded { value, state }
    }
}

impl<T: Serialize + ?Sized> Serialize for Guarded<'_, T> {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        self.value.serialize(Limited { inner: serializer, state: self.state })
    }
}

struct Limited<'a, S> {
    inner: S,
    state: &'a State,
}

impl<'a, S: Serializer> Limited<'a, S> {
    fn enter(&self, by: usize) -> Result<Level<'a>, S::Error> {
        self.state.enter(by, S::Error::custom)
    }

    /// Begins a compound value, `by` levels deeper.
    fn open<C>(self, by: usize, open: impl FnOnce(S) -> Result<C, S::Error>) -> Result<Elements<'a, C>, S::Error> {
        let level = self.enter(by)?;
        Ok(Elements { inner: open(self.inner)?, state: self.state, _level: level })
    }

    fn finite(&self, finite: bool) -> Result<(), S::Error> {
        if finite || !self.state.format.finite_only {
            return Ok(());
        }
        let failure = Failure::Unexpected(Some("finite numbers".to_owned()), "NaN or an infinity".to_owned());
        Err(self.state.fail(failure, S::Error::custom))
    }
}

macro_rules! forward {
    ($($method:ident: $type:ty),* $(,)?) => {
        $(fn $method(self, value: $type) -> Result<S::Ok, S::Error> {
            self.inner.$method(value)
        })*
    };
}

impl<'a, S: Serializer> Serializer for Limited<'a, S> {
    type Ok = S::Ok;
    type Error = S::Error;
    type SerializeSeq = Elements<'a, S::SerializeSeq>;
    type SerializeTuple = Elements<'a, S::SerializeTuple>;
    type SerializeTupleStruct = Elements<'a, S::SerializeTupleStruct>;
    type SerializeTupleVariant = Elements<'a, S::SerializeTupleVariant>;
    type SerializeMap = Elements<'a, S::SerializeMap>;
    type SerializeStruct = Elements<'a, S::SerializeStruct>;
    type SerializeStructVariant = Elements<'a, S::SerializeStructVariant>;

    forward! {
        serialize_bool: bool, serialize_i8: i8, serialize_i16: i16, serialize_i32: i32, serialize_i64: i64,
        serialize_i128: i128, serialize_u8: u8, serialize_u16: u16, serialize_u32: u32, serialize_u64: u64,
        serialize_u128: u128, serialize_char: char, serialize_str: &str, serialize_bytes: &[u8],
        serialize_unit_struct: &'static str,
    }

    fn serialize_f32(self, value: f32) -> Result<S::Ok, S::Error> {
        self.finite(value.is_finite())?;
        self.inner.serialize_f32(value)
    }

    fn serialize_f64(self, value: f64) -> Result<S::Ok, S::Error> {
        self.finite(value.is_finite())?;
        self.inner.serialize_f64(value)
    }

    fn serialize_none(self) -> Result<S::Ok, S::Error> {
        self.inner.serialize_none()
    }

    fn serialize_unit(self) -> Result<S::Ok, S::Error> {
        self.inner.serialize_unit()
    }

    fn serialize_some<T: Serialize + ?Sized>(self, value: &T) -> Result<S::Ok, S::Error> {
        let _level = self.enter(1)?;
        self.inner.serialize_some(&Guarded::new(value, self.state))
    }

    fn serialize_unit_variant(self, name: &'static str, index: u32, variant: &'static str) -> Result<S::Ok, S::Error> {
        self.inner.serialize_unit_variant(name, index, variant)
    }

    fn serialize_newtype_struct<T: Serialize + ?Sized>(self, name: &'static str, value: &T) -> Result<S::Ok, S::Error> {
        let _level = self.enter(1)?;
        self.inner.serialize_newtype_struct(name, &Guarded::new(value, self.state))
    }

    fn serialize_newtype_variant<T: Serialize + ?Sized>(
        self,
        name: &'static str,
        index: u32,
        variant: &'static str,
        value: &T,
    ) -> Result<S::Ok, S::Error> {
        let _level = self.enter(1)?;
        self.inner.serialize_newtype_variant(name, index, variant, &Guarded::new(value, self.state))
    }

    fn serialize_seq(self, len: Option<usize>) -> Result<Self::SerializeSeq, S::Error> {
        self.open(1, |inner| inner.serialize_seq(len))
    }

    fn serialize_tuple(self, len: usize) -> Result<Self::SerializeTuple, S::Error> {
        self.open(1, |inner| inner.serialize_tuple(len))
    }

    fn serialize_tuple_struct(self, name: &'static str, len: usize) -> Result<Self::SerializeTupleStruct, S::Error> {
        self.open(1, |inner| inner.serialize_tuple_struct(name, len))
    }

    fn serialize_tuple_variant(
        self,
        name: &'static str,
        index: u32,
        variant: &'static str,
        len: usize,
    ) -> Result<Self::SerializeTupleVariant, S::Error> {
        self.open(2, |inner| inner.serialize_tuple_variant(name, index, variant, len))
    }

    fn serialize_map(self, len: Option<usize>) -> Result<Self::SerializeMap, S::Error> {
        self.open(1, |inner| inner.serialize_map(len))
    }

    fn serialize_struct(self, name: &'static str, len: usize) -> Result<Self::SerializeStruct, S::Error> {
        self.open(1, |inner| inner.serialize_struct(name, len))
    }

    fn serialize_struct_variant(
        self,
        name: &'static str,
        index: u32,
        variant: &'static str,
        len: usize,
    ) -> Result<Self::SerializeStructVariant, S::Error> {
        self.open(2, |inner| inner.serialize_struct_variant(name, index, variant, len))
    }

    fn collect_str<T: Display + ?Sized>(self, value: &T) -> Result<S::Ok, S::Error> {
        self.inner.collect_str(value)
    }

    fn is_human_readable(&self) -> bool {
        self.inner.is_human_readable()
    }
}

/// The elements or fields of an open compound value.
struct Elements<'a, C> {
    inner: C,
    state: &'a State,
    _level: Level<'a>,
}

impl<C: SerializeSeq> SerializeSeq for Elements<'_, C> {
    type Ok = C::Ok;
    type Error = C::Error;

    fn serialize_element<T: Serialize + ?Sized>(&mut self, value: &T) -> Result<(), C::Error> {
        self.state.element(C::Error::custom)?;
        self.inner.serialize_element(&Guarded::new(value, self.state))
    }

    fn end(self) -> Result<C::Ok, C::Error> {
        self.inner.end()
    }
}

impl<C: SerializeMap> SerializeMap for Elements<'_, C> {
    type Ok = C::Ok;
    type Error = C::Error;

    fn serialize_key<T: Serialize + ?Sized>(&mut self, key: &T) -> Result<(), C::Error> {
        self.state.element(C::Error::custom)?;
        self.inner.serialize_key(&Guarded::new(key, self.state))
    }

    fn serialize_value<T: Serialize + ?Sized>(&mut self, value: &T) -> Result<(), C::Error> {
        self.inner.serialize_value(&Guarded::new(value, self.state))
    }

    fn end(self) -> Result<C::Ok, C::Error> {
        self.inner.end()
    }
}

macro_rules! fields {
    ($($trait:ident: $method:ident($($key:ident)?)),* $(,)?) => {
        $(impl<C: $trait> $trait for Elements<'_, C> {
            type Ok = C::Ok;
            type Error = C::Error;

            fn $method<T: Serialize + ?Sized>(&mut self, $($key: &'static str,)? value: &T) -> Result<(), C::Error> {
                self.inner.$method($($key,)? &Guarded::new(value, self.state))
            }

            fields!(@ $($key)?);

            fn end(self) -> Result<C::Ok, C::Error> {
                self.inner.end()
            }
        })*
    };
    (@) => {};
    (@ $key:ident) => {
        fn skip_field(&mut self, $key: &'static str) -> Result<(), C::Error> {
            self.inner.skip_field($key)
        }
    };
}

fields! {
    SerializeTuple: serialize_element(),
    SerializeTupleStruct: serialize_field(),
    SerializeTupleVariant: serialize_field(),
    SerializeStruct: serialize_field(key),
    SerializeStructVariant: serialize_field(key),
}
