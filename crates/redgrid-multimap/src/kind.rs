//! What the values of a key are, a set or a list, and where the lifetimes of keys are.

use std::marker::PhantomData;

/// What the values of a key are to the server, and whether keys have lifetimes: [`Sets`] and [`Lists`], these as [`Expiring`] and as [`Native`] are all
/// there are.
pub trait Kind: sealed::Commands + Send + Sync + 'static {}

/// Of which keys have lifetimes: [`Expiring`] and [`Native`].
pub trait Lifetimes: Kind {}

/// Each value once, in no order.
#[derive(Debug, Clone, Copy)]
pub enum Sets {}

/// Values in the order in which they came, some of them several times.
#[derive(Debug, Clone, Copy)]
pub enum Lists {}

/// [`Sets`] or [`Lists`] whose keys have lifetimes in a sorted set beside the map, as in Redisson's `RMultimapCache`: on every server.
#[derive(Debug, Clone, Copy)]
pub struct Expiring<Y>(PhantomData<fn() -> Y>);

/// [`Sets`] or [`Lists`] whose keys the server takes out when their lifetimes are over, as in Redisson's `RSetMultimapCacheNative`: Redis 7.4, Valkey 9.
#[derive(Debug, Clone, Copy)]
pub struct Native<Y>(PhantomData<fn() -> Y>);

impl Kind for Sets {}
impl Kind for Lists {}
impl<Y: sealed::Values> Kind for Expiring<Y> {}
impl<Y: sealed::Values> Kind for Native<Y> {}
impl<Y: sealed::Values> Lifetimes for Expiring<Y> {}
impl<Y: sealed::Values> Lifetimes for Native<Y> {}

pub(crate) mod sealed {
    use super::{Expiring, Lists, Native, Sets};

    /// How keys have lifetimes, as the scripts are told it.
    #[derive(Debug, Clone, Copy, PartialEq, Eq)]
    pub enum Way {
        /// They have none.
        Plain,
        /// In a sorted set.
        Ends,
        /// As fields of the hash, and their values as keys.
        Native,
    }

    impl Way {
        pub fn word(self) -> &'static str {
            match self {
                Way::Plain => "plain",
                Way::Ends => "ends",
                Way::Native => "native",
            }
        }
    }

    /// The commands for values, and names.
    pub trait Values: Send + Sync + 'static {
        /// Names of the types: plain, with lifetimes, with native ones.
        const NAMES: [&'static str; 3];
        /// What is behind the name of the map for its sorted set of lifetimes.
        const ENDS: &'static str;
        const ADD: &'static str;
        const LEN: &'static str;
        const REMOVE: &'static str;
        /// All values, and what stands behind the key.
        const ALL: &'static [&'static str];
        const CONTAINS: &'static str;

        /// What that tells: of a set 1 or 0, of a list where it is.
        fn is_in(told: Option<i64>) -> bool;
    }

    impl Values for Sets {
        const NAMES: [&'static str; 3] = ["SetMultimap", "SetMultimapCache", "NativeSetMultimapCache"];
        const ENDS: &'static str = redgrid_core::object::layouts::SET_MULTIMAP_ENDS;
        const ADD: &'static str = "SADD";
        const LEN: &'static str = "SCARD";
        const REMOVE: &'static str = "SREM";
        const ALL: &'static [&'static str] = &["SMEMBERS"];
        const CONTAINS: &'static str = "SISMEMBER";

        fn is_in(told: Option<i64>) -> bool {
            told == Some(1)
        }
    }

    impl Values for Lists {
        const NAMES: [&'static str; 3] = ["ListMultimap", "ListMultimapCache", "NativeListMultimapCache"];
        const ENDS: &'static str = redgrid_core::object::layouts::LIST_MULTIMAP_ENDS;
        const ADD: &'static str = "RPUSH";
        const LEN: &'static str = "LLEN";
        const REMOVE: &'static str = "LREM";
        const ALL: &'static [&'static str] = &["LRANGE", "0", "-1"];
        const CONTAINS: &'static str = "LPOS";

        fn is_in(told: Option<i64>) -> bool {
            told.is_some()
        }
    }

    /// What a kind is.
    pub trait Commands {
        type Values: Values;
        const NAME: &'static str;
        const WAY: Way;
    }

    impl<Y: Values> Commands for Y {
        type Values = Y;
        const NAME: &'static str = Y::NAMES[0];
        const WAY: Way = Way::Plain;
    }

    impl<Y: Values> Commands for Expiring<Y> {
        type Values = Y;
        const NAME: &'static str = Y::NAMES[1];
        const WAY: Way = Way::Ends;
    }

    impl<Y: Values> Commands for Native<Y> {
        type Values = Y;
        const NAME: &'static str = Y::NAMES[2];
        const WAY: Way = Way::Native;
    }
}
