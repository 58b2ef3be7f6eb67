//! A macro that implements `Clone` for handles, even if their type parameters are not `Clone`.

/// Implements `Clone` for a struct by cloning its fields. The arguments are the generic parameters
/// in brackets, the name of the struct, and all fields. Unlike a derived `Clone`, the
/// implementation does not require that all parameters are `Clone`.
#[doc(hidden)]
#[macro_export]
macro_rules! clone_fields {
    ([$($generics:tt)*] $type:ident<$($arg:ident),*> { $($field:ident),* }) => {
        impl<$($generics)*> Clone for $type<$($arg),*> {
            fn clone(&self) -> Self {
                $type { $($field: Clone::clone(&self.$field)),* }
            }
        }
    };
}
