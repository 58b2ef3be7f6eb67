//! Macros for the methods that several topic types have in common.

/// Implements `with_codec`, `Clone` and `Debug`. `$name` is the label of its name or pattern.
macro_rules! handle {
    ($type:ident, $name:literal) => {
        impl<T, C: redgrid_codecs::Codec> $type<T, C> {
            #[doc = concat!("Returns a handle of the same ", $name, " with another codec.")]
            pub fn with_codec<D: redgrid_codecs::Codec>(self, codec: D) -> $type<T, D> {
                let $type { object_ref, family, .. } = self;
                $type { object_ref, codec, messages: std::marker::PhantomData, family }
            }

            /// Returns the same topic with the label `family` in metrics.
            ///
            /// It groups names that belong together. Give a constant: each value is a time series
            /// of its own. The default is the empty text.
            #[must_use]
            pub fn family(mut self, family: &'static str) -> Self {
                redgrid_core::author::counts::topic_family(family);
                self.family = family;
                self
            }
        }

        redgrid_core::clone_fields!([T, C: Clone] $type<T, C> { object_ref, codec, messages, family });

        impl<T, C: std::fmt::Debug> std::fmt::Debug for $type<T, C> {
            fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
                let mut debug = f.debug_struct(stringify!($type));
                debug.field($name, &self.object_ref.name()).field("codec", &self.codec).finish_non_exhaustive()
            }
        }
    };
}
pub(crate) use handle;

/// Implements subscriptions to the channels that the type's method `channels` selects.
macro_rules! subscribable {
    ($type:ident) => {
        impl<T, C: redgrid_codecs::Codec> $type<T, C> {
            /// Subscribes when awaited. The subscription receives the messages that are published
            /// after that.
            ///
            /// A [`Gap`](crate::Gap) is reported after each interruption.
            #[doc(alias = "addListener")]
            pub fn subscribe(&self) -> crate::Subscribe<T, C>
            where
                C: redgrid_codecs::Decode<T> + Clone,
            {
                crate::Subscribe::new(&self.object_ref, self.channels(), self.codec.clone(), self.family)
            }

            /// Returns the number of this client's subscriptions to the topic.
            ///
            /// # Errors
            ///
            /// [`Failure::InvalidName`](crate::Failure::InvalidName).
            #[doc(alias = "countListeners")]
            pub fn count_listeners(&self) -> Result<usize, ObjectError> {
                let client = self.object_ref.client();
                Ok(redgrid_core::author::ClientExt::local_subscriptions(client, &self.channels()?))
            }
        }
    };
}
pub(crate) use subscribable;

/// Implements the methods of topics that have a single channel.
macro_rules! one_channel {
    ($type:ident) => {
        impl<T, C: redgrid_codecs::Codec> $type<T, C> {
            /// Returns the channel on the server: the name, prefixed with the client's namespace.
            ///
            /// # Errors
            ///
            /// [`Failure::InvalidName`](crate::Failure::InvalidName).
            #[doc(alias = "getChannelNames")]
            pub fn channel(&self) -> Result<String, ObjectError> {
                Ok(String::from_utf8_lossy(self.object_ref.name_and_key()?.1).into_owned())
            }
        }
    };
}
pub(crate) use one_channel;
