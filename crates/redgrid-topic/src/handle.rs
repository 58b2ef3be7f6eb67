//! What all topics have in common, whatever their channels.

/// The same under another codec; cloned and shown as what is inside, `named` by what it is found by.
macro_rules! handle {
    ($type:ident, $named:literal) => {
        impl<T, C: redgrid_codecs::Codec> $type<T, C> {
            #[doc = concat!("The same ", $named, " with another codec.")]
            pub fn with_codec<D: redgrid_codecs::Codec>(self, codec: D) -> $type<T, D> {
                $type { place: self.place, codec, messages: std::marker::PhantomData }
            }
        }

        impl<T, C: Clone> Clone for $type<T, C> {
            fn clone(&self) -> Self {
                $type { place: self.place.clone(), codec: self.codec.clone(), messages: std::marker::PhantomData }
            }
        }

        impl<T, C: std::fmt::Debug> std::fmt::Debug for $type<T, C> {
            fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
                let mut shown = f.debug_struct(stringify!($type));
                shown.field($named, &self.place.name()).field("codec", &self.codec).finish_non_exhaustive()
            }
        }
    };
}
pub(crate) use handle;

/// What those have that are heard by a subscription of the client's, to their `channels`.
macro_rules! heard {
    ($type:ident) => {
        impl<T, C: redgrid_codecs::Codec> $type<T, C> {
            /// Listens to what is published from when this is awaited. Behind each interruption a [`Gap`](crate::Gap) is told.
            #[doc(alias = "addListener")]
            pub fn subscribe(&self) -> crate::Subscribe<T, C>
            where
                C: redgrid_codecs::Decode<T> + Clone,
            {
                crate::Subscribe::new(&self.place, self.channels(), self.codec.clone())
            }

            /// How many subscriptions to it this client has.
            ///
            /// # Errors
            ///
            /// [`ObjectError::InvalidName`].
            #[doc(alias = "countListeners")]
            pub fn count_listeners(&self) -> Result<usize, ObjectError> {
                Ok(self.place.client().local_subscriptions(&self.channels()?))
            }
        }
    };
}
pub(crate) use heard;

/// What those have that are one channel.
macro_rules! one_channel {
    ($type:ident) => {
        impl<T, C: redgrid_codecs::Codec> $type<T, C> {
            /// Its channel at the server: its name behind the client's namespace.
            ///
            /// # Errors
            ///
            /// [`ObjectError::InvalidName`].
            #[doc(alias = "getChannelNames")]
            pub fn channel(&self) -> Result<String, ObjectError> {
                Ok(String::from_utf8_lossy(self.place.named()?.1).into_owned())
            }
        }
    };
}
pub(crate) use one_channel;
