//! A view of a hold for other tasks.

use std::sync::Arc;

use super::error::LostReason;
use super::hold::Hold;
use crate::token::Token;
/// A view of a hold, cloneable for other tasks. It does not keep the hold.
#[derive(Clone)]
pub struct HoldWatch(pub(super) Arc<Hold>);

impl HoldWatch {
    /// Returns whether the hold is valid at this instant, by the local clock.
    pub fn is_held(&self) -> bool {
        self.0.is_held()
    }

    /// Returns the fencing token of the hold.
    pub fn token(&self) -> Token {
        Token::new(self.0.token)
    }

    /// Returns how the hold ended without being released, if it did.
    pub fn lost_reason(&self) -> Option<LostReason> {
        self.0.lost()
    }

    /// Completes when the hold is no longer certain. It never completes if the hold was released
    /// before.
    ///
    /// # Cancel safety
    ///
    /// Dropping the future leaves nothing behind.
    pub async fn lost(&self) -> LostReason {
        self.0.ended().await;
        match self.0.lost() {
            Some(reason) => reason,
            None => std::future::pending().await,
        }
    }

    /// Completes when the hold has ended, and returns the reason of a loss; `None` after a release.
    ///
    /// # Cancel safety
    ///
    /// Dropping the future leaves nothing behind.
    pub async fn ended(&self) -> Option<LostReason> {
        self.0.ended().await;
        self.0.lost()
    }
}
