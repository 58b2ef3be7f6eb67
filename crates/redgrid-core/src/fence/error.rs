//! The errors of a fence.

use std::time::Duration;

use crate::failure::Failure;
use crate::name::Name;
use crate::token::Token;

/// Reason why a fence rejected a token or did not execute a write.
#[derive(Debug, Clone, thiserror::Error)]
#[non_exhaustive]
pub enum FenceError {
    /// A higher token, from a newer holder, has passed before. Nothing was written.
    #[error("token {token} is stale for the fence `{name}`, which has already accepted token {highest}")]
    Stale {
        /// Name of the fence.
        name: Name,
        /// The rejected token.
        token: Token,
        /// The highest token that has passed.
        highest: Token,
    },
    /// The fence remembers no token, and the given token is older than the lifetime of the fence.
    ///
    /// The fence may have accepted a higher token before, and have forgotten it. Nothing was
    /// written.
    #[error("token {token} is older than the lifetime of the fence `{name}` ({lifetime:?})")]
    Expired {
        /// Name of the fence.
        name: Name,
        /// The rejected token.
        token: Token,
        /// The lifetime of the fence.
        lifetime: Duration,
    },
    /// The fence does not guard the key, because the key has neither the name nor the hash tag of
    /// the fence. No request was sent.
    #[error("the fence `{name}` does not guard `{key}`: they have different hash tags")]
    OtherSlot {
        /// Name of the fence.
        name: Name,
        /// The key of the write.
        key: Name,
    },
    /// The request failed for a reason that all objects share.
    ///
    /// After [`Failure::OutcomeUnknown`], the write may have been executed, or may be executed a
    /// moment later. After any other failure, nothing was written.
    #[error(transparent)]
    Failed(#[from] Failure),
}

crate::from_invalid_name!(FenceError);
