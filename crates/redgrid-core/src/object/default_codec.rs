//! A macro for types with a default codec.

/// Defines a type with one or two codec parameters. The first defaults to `Json`, and the second
/// defaults to the first.
///
/// The default of the first codec exists only with the feature `json` of the calling crate. So the
/// stored format never depends on features that other crates enable.
#[doc(hidden)]
#[macro_export]
macro_rules! default_codec {
    (
        $(#[$doc:meta])*
        pub struct $type:ident<
            $($value:ident),+; $codec:ident $(: $bound:ident)? $(, $other:ident $(: $also:ident)?)?
        > {
            $($fields:tt)*
        }
    ) => {
        #[cfg(feature = "json")]
        $(#[$doc])*
        pub struct $type<$($value,)+ $codec $(: $bound)? = redgrid_codecs::Json $(, $other $(: $also)? = $codec)?> {
            $($fields)*
        }

        #[cfg(not(feature = "json"))]
        $(#[$doc])*
        pub struct $type<$($value,)+ $codec $(: $bound)? $(, $other $(: $also)? = $codec)?> {
            $($fields)*
        }
    };
}
