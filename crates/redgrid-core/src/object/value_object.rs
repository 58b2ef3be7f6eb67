//! A macro for objects with one codec for their values.

/// Defines the handle type of an object with values of type `T` and one codec. The handle type has
/// constructors, `object()`, `Clone` and `Debug`. Its default codec is the one that
/// [`default_codec`](crate::default_codec) sets.
#[doc(hidden)]
#[macro_export]
macro_rules! value_object {
    ($(#[$doc:meta])* pub struct $type:ident; $(#[$object_doc:meta])* |$object_ref:ident| $object:expr) => {
        $crate::default_codec! {
            $(#[$doc])*
            pub struct $type<T; C> {
                pub(crate) object_ref: $crate::object::ObjectRef,
                pub(crate) codec: C,
                values: std::marker::PhantomData<fn() -> T>,
            }
        }

        impl<T, C: redgrid_codecs::Codec + Default> $type<T, C> {
            /// Returns a handle of the object with this name.
            ///
            /// No request is sent. An invalid name is reported by the first call.
            pub fn new(client: &$crate::Client, name: impl AsRef<str>) -> Self {
                let object_ref = $crate::object::ObjectRef::new(client, name);
                $type { object_ref, codec: C::default(), values: std::marker::PhantomData }
            }
        }

        impl<T, C: redgrid_codecs::Codec> $type<T, C> {
            /// Returns a handle of the same object with another codec. Two values count as equal if
            /// their encoded bytes are equal.
            pub fn with_codec<D: redgrid_codecs::Codec>(self, codec: D) -> $type<T, D> {
                $type { object_ref: self.object_ref, codec, values: std::marker::PhantomData }
            }

            /// Returns the [`Object`](redgrid_core::object::Object) of this name, for existence,
            /// lifetime, rename, copy and memory size.
            $(#[$object_doc])*
            pub fn object(&self) -> $crate::object::Object {
                let $object_ref = &self.object_ref;
                $object
            }
        }

        $crate::clone_fields!([T, C: Clone] $type<T, C> { object_ref, codec, values });
        $crate::debug_fields!([T, C: std::fmt::Debug] $type<T, C>, |it|
            name: it.object_ref.name(), codec: it.codec
        );
    };
}
