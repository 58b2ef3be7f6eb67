//! A macro for a `Debug` of handles that shows only some of their fields.

/// Implements `Debug` for a type. The arguments are its generic parameters in brackets, its name, a
/// name for the reference to the value, and the fields to show. Each field has an expression. The
/// output says that there are other fields.
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
