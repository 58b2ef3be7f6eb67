//! When a refusal of this client by a server counts.

use std::time::Duration;

use tokio::sync::watch;

use crate::error::ServerError;

/// Returns how long a refusal must last before it counts.
///
/// The time is zero unless a provider has the password. Server and provider may have different
/// passwords for a moment while the password is changed.
pub(super) fn grace(has_provider: bool, timeout: Duration) -> Duration {
    if has_provider { timeout } else { Duration::ZERO }
}

/// Returns the refusal of a node that never refuses.
pub(super) fn none() -> watch::Receiver<Option<ServerError>> {
    watch::channel(None).1
}
