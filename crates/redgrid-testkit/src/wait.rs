//! Waits for a condition instead of sleeping.

use std::{future::Future, panic::Location, time::Duration};

use tokio::time::Instant;

/// Poll interval: 2 ms. This is short compared with the durations that tests measure, and long
/// enough to leave a server time to work.
const POLL: Duration = Duration::from_millis(2);

/// Polls `condition` until it is true.
///
/// # Panics
///
/// If it is still false after `within`. The message names the location of the call.
///
/// # Examples
///
/// ```
/// # #[tokio::main(flavor = "current_thread")] async fn main() {
/// use std::time::Duration;
/// let mut polls = 0;
/// redgrid_testkit::wait_until(Duration::from_secs(5), async || {
///     polls += 1;
///     polls == 3
/// })
/// .await;
/// # }
/// ```
#[track_caller]
pub fn wait_until(within: Duration, mut condition: impl AsyncFnMut() -> bool) -> impl Future<Output = ()> {
    let place = Location::caller();
    async move {
        let deadline = Instant::now() + within;
        while !condition().await {
            assert!(Instant::now() < deadline, "the condition at {place} did not become true within {within:?}");
            tokio::time::sleep(POLL).await;
        }
    }
}
