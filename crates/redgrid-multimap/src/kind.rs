//! Kinds of multimaps: sets or lists of values, and the lifetimes of keys.

use std::marker::PhantomData;

/// The kind of a multimap: the type of a key's values, and whether keys have lifetimes. The kinds
/// are [`Sets`] and [`Lists`], alone, as [`Expiring`] and as [`Native`].
pub trait Kind: sealed::KindInfo + Send + Sync + 'static {}

/// The kinds whose keys have lifetimes: [`Expiring`] and [`Native`].
pub trait Lifetimes: Kind {}

/// Each value occurs once, in no order.
#[derive(Debug, Clone, Copy)]
// Not `#[non_exhaustive]`: a marker, which has no values.
pub enum Sets {}

/// Values in the order of their insertion, possibly with duplicates.
#[derive(Debug, Clone, Copy)]
// Not `#[non_exhaustive]`: a marker, which has no values.
pub enum Lists {}

/// [`Sets`] or [`Lists`] with lifetimes of the keys in an additional sorted set, as in Redisson's
/// `RMultimapCache`. For all servers.
#[derive(Debug, Clone, Copy)]
pub struct Expiring<Y>(PhantomData<fn() -> Y>);

/// [`Sets`] or [`Lists`] with expired keys that the server removes, as in Redisson's
/// `RSetMultimapCacheNative`. Requires Redis 7.4 or Valkey 9.
#[derive(Debug, Clone, Copy)]
pub struct Native<Y>(PhantomData<fn() -> Y>);

impl Kind for Sets {}
impl Kind for Lists {}
impl<Y: sealed::Values> Kind for Expiring<Y> {}
impl<Y: sealed::Values> Kind for Native<Y> {}
impl<Y: sealed::Values> Lifetimes for Expiring<Y> {}
impl<Y: sealed::Values> Lifetimes for Native<Y> {}

#[expect(unnameable_types, reason = "seals `Kind`")]
pub(crate) mod sealed {
    use super::{Expiring, Lists, Native, Sets};

    /// Where the lifetimes of keys are stored; an argument of the scripts.
    #[derive(Debug, Clone, Copy, PartialEq, Eq)]
    // Not `#[non_exhaustive]`: only this crate can name it.
    pub enum LifetimeMode {
        /// Keys have no lifetimes.
        Plain,
        /// In a sorted set of expiries.
        SortedSet,
        /// As lifetimes of the hash fields; the keys of values get the same lifetimes.
        Native,
    }

    impl LifetimeMode {
        pub fn name(self) -> &'static str {
            match self {
                LifetimeMode::Plain => "plain",
                LifetimeMode::SortedSet => "ends",
                LifetimeMode::Native => "native",
            }
        }
    }

    /// The commands for the values of a key, and names.
    pub trait Values: Send + Sync + 'static {
        /// Names of the types: without lifetimes, with lifetimes, with native lifetimes.
        const NAMES: [&'static str; 3];
        /// Suffix of the sorted set of expiries.
        const EXPIRY_SUFFIX: &'static str;
        const ADD: &'static str;
        const LEN: &'static str;
        const REMOVE: &'static str;
        /// The command for all values, with its arguments after the key.
        const ALL: &'static [&'static str];
        const CONTAINS: &'static str;

        /// Returns whether a reply of `CONTAINS` means that the value was found. It is 1 or 0 for a
        /// set, and the index or nil for a list.
        fn is_found(reply: Option<i64>) -> bool;
    }

    impl Values for Sets {
        const NAMES: [&'static str; 3] = ["SetMultimap", "SetMultimapCache", "NativeSetMultimapCache"];
        const EXPIRY_SUFFIX: &'static str = redgrid_core::object::layouts::SET_MULTIMAP_ENDS;
        const ADD: &'static str = "SADD";
        const LEN: &'static str = "SCARD";
        const REMOVE: &'static str = "SREM";
        const ALL: &'static [&'static str] = &["SMEMBERS"];
        const CONTAINS: &'static str = "SISMEMBER";

        fn is_found(reply: Option<i64>) -> bool {
            reply == Some(1)
        }
    }

    impl Values for Lists {
        const NAMES: [&'static str; 3] = ["ListMultimap", "ListMultimapCache", "NativeListMultimapCache"];
        const EXPIRY_SUFFIX: &'static str = redgrid_core::object::layouts::LIST_MULTIMAP_ENDS;
        const ADD: &'static str = "RPUSH";
        const LEN: &'static str = "LLEN";
        const REMOVE: &'static str = "LREM";
        const ALL: &'static [&'static str] = &["LRANGE", "0", "-1"];
        const CONTAINS: &'static str = "LPOS";

        fn is_found(reply: Option<i64>) -> bool {
            reply.is_some()
        }
    }

    /// The properties of a kind.
    pub trait KindInfo {
        type Values: Values;
        const NAME: &'static str;
        const LIFETIME_MODE: LifetimeMode;
    }

    impl<Y: Values> KindInfo for Y {
        type Values = Y;
        const NAME: &'static str = Y::NAMES[0];
        const LIFETIME_MODE: LifetimeMode = LifetimeMode::Plain;
    }

    impl<Y: Values> KindInfo for Expiring<Y> {
        type Values = Y;
        const NAME: &'static str = Y::NAMES[1];
        const LIFETIME_MODE: LifetimeMode = LifetimeMode::SortedSet;
    }

    impl<Y: Values> KindInfo for Native<Y> {
        type Values = Y;
        const NAME: &'static str = Y::NAMES[2];
        const LIFETIME_MODE: LifetimeMode = LifetimeMode::Native;
    }
}
