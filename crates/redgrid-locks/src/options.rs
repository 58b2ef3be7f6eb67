//! The options of an acquire, for each builder that has them.

/// The option methods of a builder around [`AcquireBuilder`] or [`AcquireOptions`].
macro_rules! option_methods {
    ($builder:ident $(, $of:ident: $bound:path)?) => {
        impl$(<$of: $bound>)? $builder$(<$of>)? {
            /// Limits how long to wait, for other holders and for an unreachable server.
            ///
            /// Zero means one attempt. Without a timeout, an acquire waits as long as it takes,
            /// while there is contact with the server, and a `try_…` method does not wait.
            pub fn timeout(mut self, wait: std::time::Duration) -> Self {
                self.0.wait = Some(wait);
                self
            }

            /// Sets a fixed lease, which is not renewed: 100 ms to 30 days.
            ///
            /// A short lease frees the lock soon after a crash. If the lease runs out during the
            /// work, the lock is lost. Without this option the lease is renewed while the guard
            /// lives. The guard's `extend` extends it explicitly.
            pub fn lease(mut self, lease: std::time::Duration) -> Self {
                self.0.lease = Some(lease);
                self
            }

            /// Renews the lease, as by default, but with leases of this length.
            ///
            /// The length is 100 ms to 30 days; 30 s unless set here or in the configuration. Short
            /// leases free the lock sooner after a crash. Long ones survive longer pauses.
            #[doc(alias = "watchdog")]
            pub fn auto_renew(mut self, lease: std::time::Duration) -> Self {
                self.0.lease = None;
                self.0.renewed_lease = Some(lease);
                self
            }

            /// Acquires for this holder. If it already holds the lock, it re-enters without
            /// waiting.
            pub fn holder(mut self, holder: &crate::Holder) -> Self {
                self.0.holder = Some(holder.clone());
                self
            }

            /// Keeps the lock taken for at least this long, for a job that must run once per
            /// interval.
            ///
            /// The lock stays taken even if the guard is released or the process dies earlier. The
            /// default is zero.
            pub fn hold_at_least(mut self, keep: std::time::Duration) -> Self {
                self.0.at_least = keep;
                self
            }

            /// Sets how durable the grant and each renewal must be before they are valid.
            ///
            /// The default is that of the configuration. A grant that falls short is released, and
            /// the acquire returns [`AcquireError::NotDurable`](crate::AcquireError::NotDurable). A
            /// renewal that falls short is retried until the deadline of the hold. A holder that
            /// re-enters has the durability of its first acquire.
            pub fn durability(mut self, durability: crate::Durability) -> Self {
                self.0.durability = Some(durability);
                self
            }

            /// Gives the hold a label of at most 64 bytes, such as the job that it is for.
            ///
            /// [Reports about the client](redgrid_core::report) show it. It is not stored on the
            /// server.
            pub fn label(mut self, label: impl Into<String>) -> Self {
                self.0.label = Some(redgrid_core::Label::new(label));
                self
            }

            /// Ends the renewal after this time. Unlimited unless set.
            ///
            /// A holder that hangs loses the lock one lease later.
            pub fn hold_at_most(mut self, longest: std::time::Duration) -> Self {
                self.0.max_hold = Some(longest);
                self
            }
        }
    };
}

pub(crate) use option_methods;
