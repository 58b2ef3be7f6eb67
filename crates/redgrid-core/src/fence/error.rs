//! The errors of a fence.

use std::time::Duration;

use crate::failure::Failure;
use crate::name::Name;
use crate::token::Token;

/// Reason why a fence let nothing pass.
#[derive(Debug, Clone, thiserror::Error)]
#[non_exhaustive]
pub enum FenceError {
    /// A newer holder has passed before. Nothing was written.
    #[error("token {token} is stale for the fence `{name}`: token {highest} has passed before")]
    Stale {
        /// Name of the fence.
        name: Name,
        /// The rejected token.
        token: Token,
        /// The highest token that has passed.
        highest: Token,
    },
    /// The fence remembers nothing, and the token is older than its lifetime: a newer one may have
    /// passed.
    ///
    /// Nothing was written.
    #[error("token {token} is older than the memory of the fence `{name}` ({lifetime:?})")]
    Expired {
        /// Name of the fence.
        name: Name,
        /// The rejected token.
        token: Token,
        /// How long the fence remembers.
        lifetime: Duration,
    },
    /// The fence does not guard the key: it has neither its name nor its hash tag. No request was
    /// sent.
    #[error("the fence `{name}` does not guard `{key}`: they have different hash tags")]
    OtherSlot {
        /// Name of the fence.
        name: Name,
        /// The key of the write.
        key: Name,
    },
    /// The request failed for a reason that all objects share.
    ///
    /// Nothing was written, unless it is [`Failure::OutcomeUnknown`]: then the write may be
    /// executed, now or a moment later.
    #[error(transparent)]
    Failed(#[from] Failure),
}

crate::from_invalid_name!(FenceError);
