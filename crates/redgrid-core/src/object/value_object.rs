//! Objects whose values have one codec.

/// Defines the type of an object with values of type `T`, its constructors, its `object()`, `Clone`
/// and `Debug`.
///
/// Only the feature `json` of the calling crate gives the codec a default, so that the stored
/// format never depends on features that other crates enable.
#[doc(hidden)]
#[macro_export]
macro_rules! value_object {
    ($(#[$doc:meta])* pub struct $type:ident; $(#[$object_doc:meta])* |$object_ref:ident| $object:expr) => {
        #[cfg(feature = "json")]
        $crate::value_object!(@type [$(#[$doc])*] $type, = redgrid_codecs::Json);
        #[cfg(not(feature = "json"))]
        $crate::value_object!(@type [$(#[$doc])*] $type,);

        impl<T, C: redgrid_codecs::Codec + Default> $type<T, C> {
            /// Returns the object with this name.
            ///
            /// No request is sent: the first call reports an invalid name.
            pub fn new(client: &$crate::Client, name: impl AsRef<str>) -> Self {
                let object_ref = $crate::object::ObjectRef::new(client, name);
                $type { object_ref, codec: C::default(), values: std::marker::PhantomData }
            }
        }

        impl<T, C: redgrid_codecs::Codec> $type<T, C> {
            /// Returns a handle of the same name with another codec. Values are equal if their
            /// encoded bytes are equal.
            pub fn with_codec<D: redgrid_codecs::Codec>(self, codec: D) -> $type<T, D> {
                $type { object_ref: self.object_ref, codec, values: std::marker::PhantomData }
            }

            /// Returns the [`Object`](redgrid_core::object::Object) of this name: existence,
            /// lifetime, other names, memory size.
            $(#[$object_doc])*
            pub fn object(&self) -> $crate::object::Object {
                let $object_ref = &self.object_ref;
                $object
            }
        }

        impl<T, C: Clone> Clone for $type<T, C> {
            fn clone(&self) -> Self {
                let $type { object_ref, codec, values } = self;
                $type { object_ref: object_ref.clone(), codec: codec.clone(), values: *values }
            }
        }

        impl<T, C: std::fmt::Debug> std::fmt::Debug for $type<T, C> {
            fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
                let mut debug = f.debug_struct(stringify!($type));
                debug.field("name", &self.object_ref.name()).field("codec", &self.codec).finish_non_exhaustive()
            }
        }
    };
    (@type [$(#[$doc:meta])*] $type:ident, $($default:tt)*) => {
        $(#[$doc])*
        pub struct $type<T, C $($default)*> {
            pub(crate) object_ref: $crate::object::ObjectRef,
            pub(crate) codec: C,
            values: std::marker::PhantomData<fn() -> T>,
        }
    };
}
