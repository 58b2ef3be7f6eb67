//! The deserializer that wraps that of the format.

use std::fmt;
use std::marker::PhantomData;

use serde::de::{
    Deserialize, DeserializeSeed, Deserializer, EnumAccess, Error, MapAccess, SeqAccess, VariantAccess, Visitor,
};

use super::reason::Reason;
use super::{Failure, State};

/// Reads a `T` within limits.
pub(crate) struct Seed<'a, T> {
    pub(super) state: &'a State,
    pub(super) value: PhantomData<T>,
}

impl<'de, T: Deserialize<'de>> DeserializeSeed<'de> for Seed<'_, T> {
    type Value = T;

    fn deserialize<D: Deserializer<'de>>(self, deserializer: D) -> Result<T, D::Error> {
        T::deserialize(Limited { inner: deserializer, state: self.state })
    }
}

/// Wraps a part of serde's protocol: the calls of the type to the format, and the calls of the
/// format to the type.
struct Limited<'a, X> {
    inner: X,
    state: &'a State,
}

impl<'a, X> Limited<'a, X> {
    fn with<Y>(&self, inner: Y) -> Limited<'a, Y> {
        Limited { inner, state: self.state }
    }
}

macro_rules! forward {
    ($($method:ident => $to:ident($($arg:ident: $type:ty),*)),* $(,)?) => {
        $(fn $method<V: Visitor<'de>>(self $(, $arg: $type)*, visitor: V) -> Result<V::Value, D::Error> {
            let visitor = self.with(visitor);
            self.inner.$to($($arg,)* visitor)
        })*
    };
}

impl<'de, D: Deserializer<'de>> Deserializer<'de> for Limited<'_, D> {
    type Error = D::Error;

    forward! {
        deserialize_any => deserialize_any(),
        deserialize_bool => deserialize_bool(),
        deserialize_i8 => deserialize_i8(),
        deserialize_i16 => deserialize_i16(),
        deserialize_i32 => deserialize_i32(),
        deserialize_i64 => deserialize_i64(),
        deserialize_i128 => deserialize_i128(),
        deserialize_u8 => deserialize_u8(),
        deserialize_u16 => deserialize_u16(),
        deserialize_u32 => deserialize_u32(),
        deserialize_u64 => deserialize_u64(),
        deserialize_u128 => deserialize_u128(),
        deserialize_char => deserialize_char(),
        deserialize_str => deserialize_str(),
        // Owned and borrowed values have the same encoding in every format here. For an owned
        // value, bincode allocates the declared length before it checks it. For a borrowed value,
        // it checks the length against the input.
        deserialize_string => deserialize_str(),
        deserialize_bytes => deserialize_bytes(),
        deserialize_byte_buf => deserialize_bytes(),
        deserialize_option => deserialize_option(),
        deserialize_unit => deserialize_unit(),
        deserialize_unit_struct => deserialize_unit_struct(name: &'static str),
        deserialize_newtype_struct => deserialize_newtype_struct(name: &'static str),
        deserialize_seq => deserialize_seq(),
        deserialize_tuple => deserialize_tuple(len: usize),
        deserialize_tuple_struct => deserialize_tuple_struct(name: &'static str, len: usize),
        deserialize_map => deserialize_map(),
        deserialize_struct => deserialize_struct(name: &'static str, fields: &'static [&'static str]),
        deserialize_enum => deserialize_enum(name: &'static str, variants: &'static [&'static str]),
        deserialize_identifier => deserialize_identifier(),
        deserialize_ignored_any => deserialize_ignored_any(),
    }

    fn deserialize_f32<V: Visitor<'de>>(self, visitor: V) -> Result<V::Value, D::Error> {
        let visitor = self.with(visitor);
        if self.state.format.typed_floats {
            self.inner.deserialize_any(visitor)
        } else {
            self.inner.deserialize_f32(visitor)
        }
    }

    fn deserialize_f64<V: Visitor<'de>>(self, visitor: V) -> Result<V::Value, D::Error> {
        let visitor = self.with(visitor);
        if self.state.format.typed_floats {
            self.inner.deserialize_any(visitor)
        } else {
            self.inner.deserialize_f64(visitor)
        }
    }

    fn is_human_readable(&self) -> bool {
        self.inner.is_human_readable()
    }
}

/// Passes scalars to the visitor. If the visitor fails, keeps the type that it expected in our own
/// error.
macro_rules! scalars {
    ($($method:ident: $type:ty),* $(,)?) => {
        $(fn $method<E: Error>(self, value: $type) -> Result<V::Value, E> {
            let state = self.state;
            self.inner.$method(value).map_err(|reason| refused(state, reason))
        })*
    };
}

fn refused<E: Error>(state: &State, Reason { expected, found }: Reason) -> E {
    state.fail(Failure::Unexpected(expected, found), E::custom)
}

impl<'de, V: Visitor<'de>> Visitor<'de> for Limited<'_, V> {
    type Value = V::Value;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.inner.expecting(f)
    }

    scalars! {
        visit_bool: bool, visit_i8: i8, visit_i16: i16, visit_i32: i32, visit_i64: i64, visit_i128: i128,
        visit_u8: u8, visit_u16: u16, visit_u32: u32, visit_u64: u64, visit_u128: u128, visit_f32: f32, visit_f64: f64,
        visit_char: char, visit_str: &str, visit_borrowed_str: &'de str, visit_string: String,
        visit_bytes: &[u8], visit_borrowed_bytes: &'de [u8], visit_byte_buf: Vec<u8>,
    }

    fn visit_none<E: Error>(self) -> Result<V::Value, E> {
        let state = self.state;
        self.inner.visit_none().map_err(|reason| refused(state, reason))
    }

    fn visit_unit<E: Error>(self) -> Result<V::Value, E> {
        let state = self.state;
        self.inner.visit_unit().map_err(|reason| refused(state, reason))
    }

    fn visit_some<D: Deserializer<'de>>(self, deserializer: D) -> Result<V::Value, D::Error> {
        let _level = self.state.enter(1, D::Error::custom)?;
        let deserializer = self.with(deserializer);
        self.inner.visit_some(deserializer)
    }

    fn visit_newtype_struct<D: Deserializer<'de>>(self, deserializer: D) -> Result<V::Value, D::Error> {
        let _level = self.state.enter(1, D::Error::custom)?;
        let deserializer = self.with(deserializer);
        self.inner.visit_newtype_struct(deserializer)
    }

    fn visit_seq<A: SeqAccess<'de>>(self, access: A) -> Result<V::Value, A::Error> {
        let _level = self.state.enter(1, A::Error::custom)?;
        let access = Elements { reservable: self.state.reserve(access.size_hint()), inner: access, state: self.state };
        self.inner.visit_seq(access)
    }

    fn visit_map<A: MapAccess<'de>>(self, access: A) -> Result<V::Value, A::Error> {
        let _level = self.state.enter(1, A::Error::custom)?;
        let access = Elements { reservable: self.state.reserve(access.size_hint()), inner: access, state: self.state };
        self.inner.visit_map(access)
    }

    fn visit_enum<A: EnumAccess<'de>>(self, access: A) -> Result<V::Value, A::Error> {
        let access = self.with(access);
        self.inner.visit_enum(access)
    }
}

impl<'de, S: DeserializeSeed<'de>> DeserializeSeed<'de> for Limited<'_, S> {
    type Value = S::Value;

    fn deserialize<D: Deserializer<'de>>(self, deserializer: D) -> Result<S::Value, D::Error> {
        let deserializer = self.with(deserializer);
        self.inner.deserialize(deserializer)
    }
}

/// The elements of a sequence or map.
struct Elements<'a, A> {
    inner: A,
    state: &'a State,
    /// The number of elements for which memory may be reserved, whatever length the format
    /// declares.
    reservable: Option<usize>,
}

impl<'de, A: SeqAccess<'de>> SeqAccess<'de> for Elements<'_, A> {
    type Error = A::Error;

    fn next_element_seed<S: DeserializeSeed<'de>>(&mut self, seed: S) -> Result<Option<S::Value>, A::Error> {
        let element = self.inner.next_element_seed(Limited { inner: seed, state: self.state })?;
        if element.is_some() {
            self.state.element(A::Error::custom)?;
        }
        Ok(element)
    }

    fn size_hint(&self) -> Option<usize> {
        self.reservable
    }
}

impl<'de, A: MapAccess<'de>> MapAccess<'de> for Elements<'_, A> {
    type Error = A::Error;

    fn next_key_seed<S: DeserializeSeed<'de>>(&mut self, seed: S) -> Result<Option<S::Value>, A::Error> {
        let key = self.inner.next_key_seed(Limited { inner: seed, state: self.state })?;
        if key.is_some() {
            self.state.element(A::Error::custom)?;
        }
        Ok(key)
    }

    fn next_value_seed<S: DeserializeSeed<'de>>(&mut self, seed: S) -> Result<S::Value, A::Error> {
        self.inner.next_value_seed(Limited { inner: seed, state: self.state })
    }

    fn size_hint(&self) -> Option<usize> {
        self.reservable
    }
}

impl<'a, 'de, A: EnumAccess<'de>> EnumAccess<'de> for Limited<'a, A> {
    type Error = A::Error;
    type Variant = Limited<'a, A::Variant>;

    fn variant_seed<S: DeserializeSeed<'de>>(self, seed: S) -> Result<(S::Value, Self::Variant), A::Error> {
        let state = self.state;
        let (value, variant) = self.inner.variant_seed(Limited { inner: seed, state })?;
        Ok((value, Limited { inner: variant, state }))
    }
}

impl<'de, A: VariantAccess<'de>> VariantAccess<'de> for Limited<'_, A> {
    type Error = A::Error;

    fn unit_variant(self) -> Result<(), A::Error> {
        self.inner.unit_variant()
    }

    fn newtype_variant_seed<S: DeserializeSeed<'de>>(self, seed: S) -> Result<S::Value, A::Error> {
        let _level = self.state.enter(1, A::Error::custom)?;
        let seed = self.with(seed);
        self.inner.newtype_variant_seed(seed)
    }

    fn tuple_variant<V: Visitor<'de>>(self, len: usize, visitor: V) -> Result<V::Value, A::Error> {
        let _level = self.state.enter(1, A::Error::custom)?;
        let visitor = self.with(visitor);
        self.inner.tuple_variant(len, visitor)
    }

    fn struct_variant<V: Visitor<'de>>(
        self,
        fields: &'static [&'static str],
        visitor: V,
    ) -> Result<V::Value, A::Error> {
        let _level = self.state.enter(1, A::Error::custom)?;
        let visitor = self.with(visitor);
        self.inner.struct_variant(fields, visitor)
    }
}
