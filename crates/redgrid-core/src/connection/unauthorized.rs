//! When the refusal of this client by a server counts.

use std::time::Duration;

use tokio::sync::watch;

use crate::error::ServerError;

/// How long a refusal may last before it counts where a provider has the password: server and
/// provider may have different ones for a moment while a password is changed.
pub(super) fn grace(has_provider: bool, timeout: Duration) -> Duration {
    if has_provider { timeout } else { Duration::ZERO }
}

/// The refusal of a node that never refuses.
pub(super) fn none() -> watch::Receiver<Option<ServerError>> {
    watch::channel(None).1
}
