//! Types with a default codec.

/// Defines a type with default codecs: the first defaults to `Json`, and a second one to the first.
///
/// Only the feature `json` of the calling crate gives the first codec a default, so that the stored
/// format never depends on features that other crates enable.
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
