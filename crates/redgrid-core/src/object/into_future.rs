//! A macro for requests that are sent when they are awaited.

/// Implements `IntoFuture` for a builder, with a boxed future. The arguments are the generic
/// parameters in brackets, the type of the builder, the output type, and the future as a function
/// of the builder.
#[doc(hidden)]
#[macro_export]
macro_rules! into_future {
    ($(#[$doc:meta])* [$($generics:tt)*] $builder:ty => $output:ty, |$this:ident| $future:expr) => {
        impl<$($generics)*> ::std::future::IntoFuture for $builder {
            type Output = $output;
            type IntoFuture = ::std::pin::Pin<Box<dyn Future<Output = $output> + Send>>;

            $(#[$doc])*
            fn into_future(self) -> Self::IntoFuture {
                let $this = self;
                Box::pin($future)
            }
        }
    };
    ($(#[$doc:meta])* $builder:ty => $($rest:tt)*) => {
        $crate::into_future!($(#[$doc])* [] $builder => $($rest)*);
    };
}
