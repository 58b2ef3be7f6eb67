//! The methods of all kinds of semaphores.

/// Implements the methods of a semaphore, and `Debug`, for a type whose field `handle` is a
/// [`SemaphoreHandle`](super::SemaphoreHandle).
#[doc(hidden)]
#[macro_export]
macro_rules! semaphore_methods {
    ($type:ident) => {
        impl $type {
            /// Returns the same handle in fair mode. Waiting requests of fair handles are served in
            /// the order in which they reach the server.
            ///
            /// The order covers the requests of all processes that use fair handles. So a large
            /// request is not starved by small ones in other processes. A permit that is released
            /// through a fair handle always goes back to the server, even if a task of the same
            /// process waits.
            #[must_use]
            pub fn fair(mut self) -> Self {
                self.handle = self.handle.fair();
                self
            }

            /// Returns the same semaphore with the label `family` in metrics and spans.
            ///
            /// The label groups names that belong together. Give a constant: each value is a time
            /// series of its own. The default is the empty text.
            #[must_use]
            pub fn family(mut self, family: &'static str) -> Self {
                self.handle = self.handle.family(family);
                self
            }

            /// Acquires one permit. Waits for the permit without limit, unless
            /// [`Acquire::timeout`](crate::Acquire::timeout) is set.
            ///
            /// # Errors
            ///
            /// [`AcquireError`](crate::AcquireError) describes the state on the server after the
            /// failure.
            ///
            /// # Cancel safety
            ///
            /// Dropping the future gives up the position in the queue. A permit that the server had
            /// granted is returned in the background.
            pub fn acquire(&self) -> $crate::permits::Acquire {
                self.acquire_many(1)
            }

            /// Acquires `permits` permits at once: all of them or none. The maximum is 1,000 if
            /// permits have leases.
            ///
            /// Zero permits are granted without a request, as in Redisson. The result is an empty
            /// guard. [`Permit::merge`](crate::Permit::merge) can move the permits of other guards
            /// into it.
            ///
            /// # Errors and cancel safety
            ///
            /// As for [`Self::acquire`].
            #[doc(alias = "acquire")]
            pub fn acquire_many(&self, permits: u64) -> $crate::permits::Acquire {
                $crate::permits::Acquire::new(&self.handle, permits)
            }

            /// Acquires one permit if one is available.
            ///
            /// Returns `None` if no permit is available, or if other requests of this process wait.
            ///
            /// The call does not wait for a permit, unless
            /// [`TryAcquire::timeout`](crate::TryAcquire::timeout) is set. With a timeout, the call
            /// waits until the timeout ends, even while the server is unreachable. Without a
            /// timeout, the call ends when the reply arrives. If no reply arrives, the call fails
            /// after `response_timeout × (retries + 1)`: 15 s by default. If there is no connection
            /// to the server, the call already fails after `response_timeout`: 3 s by default.
            ///
            /// # Errors and cancel safety
            ///
            /// As for [`Self::acquire`].
            #[doc(alias = "tryAcquire")]
            pub fn try_acquire(&self) -> $crate::permits::TryAcquire {
                self.try_acquire_many(1)
            }

            /// Acquires `permits` permits at once if they are available.
            ///
            /// Returns `None` if there are too few permits, or if other requests of this process
            /// wait. The timeouts are those of [`Self::try_acquire`].
            ///
            /// # Errors and cancel safety
            ///
            /// As for [`Self::acquire`].
            #[doc(alias = "tryAcquire")]
            pub fn try_acquire_many(&self, permits: u64) -> $crate::permits::TryAcquire {
                $crate::permits::TryAcquire::new(&self.handle, permits)
            }

            /// Returns the operations that every object has: existence, lifetime, rename, events.
            ///
            /// These operations also apply to the leases of permits, and to the queue of a fair
            /// semaphore. They have effect even while guards hold permits: a deletion or a rename
            /// also removes held permits from this name. Such a change wakes no waiters. The
            /// waiters notice the change when they poll, within `poll_interval`.
            pub fn object(&self) -> $crate::object::Object {
                self.handle.object()
            }

            /// Deletes the semaphore, even while permits are held. Returns whether it existed.
            ///
            /// # Errors
            ///
            /// [`Failure`](crate::Failure) says whether the semaphore may have been deleted.
            ///
            /// # Cancel safety
            ///
            /// A request that was sent is executed even if the future is dropped.
            pub async fn delete(&self) -> Result<bool, $crate::Failure> {
                self.handle.delete().await
            }

            /// Closes this handle and its clones.
            ///
            /// The pending and all later requests of these handles end with
            /// [`Closed`](crate::AcquireError::Closed). Held permits stay held. Other handles and
            /// processes are not affected.
            pub fn close(&self) {
                self.handle.close();
            }

            /// Returns whether this handle was closed.
            pub fn is_closed(&self) -> bool {
                self.handle.is_closed()
            }
        }

        impl std::fmt::Debug for $type {
            fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
                let keys = self.handle.keys.as_ref();
                let mut debug = f.debug_struct(stringify!($type));
                debug.field("name", &keys.map(|keys| &keys.name));
                if let Some(permits) = keys.ok().and_then(|keys| keys.capacity) {
                    debug.field("permits", &permits);
                }
                debug.finish_non_exhaustive()
            }
        }
    };
}
