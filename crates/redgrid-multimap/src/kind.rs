//! What the values of a key are: a set or a list.

/// What the values of a key are to the server. [`Sets`] and [`Lists`] are all there are.
pub trait Kind: sealed::Commands + Send + Sync + 'static {}

/// Each value once, in no order.
#[derive(Debug, Clone, Copy)]
pub enum Sets {}

/// Values in the order in which they came, some of them several times.
#[derive(Debug, Clone, Copy)]
pub enum Lists {}

impl Kind for Sets {}
impl Kind for Lists {}

pub(crate) mod sealed {
    use super::{Lists, Sets};

    /// The commands.
    pub trait Commands {
        const NAME: &'static str;
        const ADD: &'static str;
        const LEN: &'static str;
        const REMOVE: &'static str;
        /// All values, and what stands behind the key.
        const ALL: &'static [&'static str];
        const CONTAINS: &'static str;

        /// What that tells: of a set 1 or 0, of a list where it is.
        fn is_in(told: Option<i64>) -> bool;
    }

    impl Commands for Sets {
        const NAME: &'static str = "SetMultimap";
        const ADD: &'static str = "SADD";
        const LEN: &'static str = "SCARD";
        const REMOVE: &'static str = "SREM";
        const ALL: &'static [&'static str] = &["SMEMBERS"];
        const CONTAINS: &'static str = "SISMEMBER";

        fn is_in(told: Option<i64>) -> bool {
            told == Some(1)
        }
    }

    impl Commands for Lists {
        const NAME: &'static str = "ListMultimap";
        const ADD: &'static str = "RPUSH";
        const LEN: &'static str = "LLEN";
        const REMOVE: &'static str = "LREM";
        const ALL: &'static [&'static str] = &["LRANGE", "0", "-1"];
        const CONTAINS: &'static str = "LPOS";

        fn is_in(told: Option<i64>) -> bool {
            told.is_some()
        }
    }
}
