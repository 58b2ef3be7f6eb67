//! A macro that implements `Debug` for handles. The output has only some of the fields.

/// Implements `Debug` for a type. The arguments are the generic parameters in brackets, the name of
/// the type, a name for the reference to the value, and the fields to show. Each field has an
/// expression for its value. The output ends with `..`, because there are other fields.
#[doc(hidden)]
#[macro_export]
macro_rules! debug_fields {
    ([$($generics:tt)*] $type:ident $(<$($arg:ident),*>)?, |$this:ident| $($field:ident: $value:expr),*) => {
        impl<$($generics)*> ::std::fmt::Debug for $type $(<$($arg),*>)? {
            fn fmt(&self, f: &mut ::std::fmt::Formatter<'_>) -> ::std::fmt::Result {
                let $this = self;
                f.debug_struct(stringify!($type))$(.field(stringify!($field), &$value))*.finish_non_exhaustive()
            }
        }
    };
    ($type:ident, $($rest:tt)*) => {
        $crate::debug_fields!([] $type, $($rest)*);
    };
}
