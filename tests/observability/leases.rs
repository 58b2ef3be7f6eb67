//! Metrics of leases: of renewals, and of the permits of semaphores.

use std::time::Duration;

use redgrid_core::Config;
use redgrid_locks::Lock;
use redgrid_tests::{client_with, server};

use super::recorded::recorded;

#[test]
fn a_renewal_that_is_confirmed_late_has_not_failed() {
    recorded(|mut recorded| async move {
        let server = server().await;
        let patient = |config: Config| config.response_timeout(Duration::from_secs(20));
        let client = client_with(&server.url(), patient).await;
        let guard = Lock::new(&client, "a").acquire().auto_renew(Duration::from_secs(9)).await.unwrap();
        let renewed = "redgrid_renewal_lag_seconds{kind=\"lock\",family=\"\"}";
        recorded.at_least(renewed, 1.0).await;
        // The next renewal is sent after 3 s, and once more 1.5 s later, because no reply has come.
        server.pause().await.unwrap();
        tokio::time::sleep(Duration::from_millis(5_200)).await;
        server.resume().await.unwrap();
        recorded.at_least(renewed, 2.0).await;
        assert!(guard.is_held());
        assert_eq!(recorded.of("redgrid_renewals_failed_total{kind=\"lock\",family=\"\"}"), 0.0);
    });
}
