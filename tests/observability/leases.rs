//! Metrics of leases: of renewals, and of the permits of semaphores.

use std::time::Duration;

use redgrid_core::Config;
use redgrid_locks::Lock;
use redgrid_semaphore::{PlainSemaphore, Semaphore};
use redgrid_tests::{client, client_with, server};

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

#[test]
fn permits_are_counted_as_held_released_and_lost() {
    recorded(|mut recorded| async move {
        let server = server().await;
        let client = client(&server).await;
        let leased = |metric: &str| format!("{metric}{{kind=\"leased_semaphore\",family=\"mails\"}}");
        let lost = |reason: &str| {
            format!("redgrid_lost_total{{kind=\"leased_semaphore\",family=\"mails\",reason=\"{reason}\"}}")
        };
        let semaphore = Semaphore::new(&client, "s", 5).family("mails");
        let mut two = semaphore.acquire_many(2).await.unwrap();
        assert_eq!(recorded.of(&leased("redgrid_held")), 2.0, "{:#?}", recorded.totals);
        let one = two.split(1).unwrap();
        assert_eq!(recorded.of(&leased("redgrid_held")), 2.0, "{:#?}", recorded.totals);
        one.release().await.unwrap();
        drop(two);
        recorded.until(&leased("redgrid_held"), 0.0).await;
        assert_eq!(recorded.of(&leased("redgrid_released_total")), 2.0, "{:#?}", recorded.totals);
        assert_eq!(recorded.look().get(&lost("expired")), Some(&0.0));
        let short = semaphore.acquire().lease(Duration::from_secs(1)).await.unwrap();
        // The guard is still there: a loss is counted when it happens.
        recorded.until(&lost("expired"), 1.0).await;
        drop(short);
        assert_eq!(recorded.of(&leased("redgrid_held")), 0.0);
        assert_eq!(recorded.of(&leased("redgrid_hold_seconds")), 3.0);

        let plain = PlainSemaphore::new(&client, "p").family("mails");
        assert!(plain.try_set_permits(3).await.unwrap());
        let permits = plain.acquire_many(3).await.unwrap();
        let held = "redgrid_held{kind=\"semaphore\",family=\"mails\"}";
        assert_eq!(recorded.of(held), 3.0, "{:#?}", recorded.totals);
        permits.forget();
        assert_eq!(recorded.of(held), 0.0);
        assert_eq!(recorded.of("redgrid_released_total{kind=\"semaphore\",family=\"mails\"}"), 0.0);
    });
}

#[test]
fn failed_renewals_of_permits_are_counted() {
    recorded(|mut recorded| async move {
        let server = server().await;
        let client = client(&server).await;
        let semaphore = Semaphore::new(&client, "s", 5);
        let permit = semaphore.acquire().auto_renew(Duration::from_secs(3)).await.unwrap();
        recorded.at_least("redgrid_renewal_lag_seconds{kind=\"leased_semaphore\",family=\"\"}", 1.0).await;
        server.deny(&["evalsha", "eval"]).await.unwrap();
        recorded.at_least("redgrid_renewals_failed_total{kind=\"leased_semaphore\",family=\"\"}", 1.0).await;
        server.allow(&["evalsha", "eval"]).await.unwrap();
        drop(permit);
    });
}

#[test]
fn renewals_without_a_server_are_counted_before_the_loss() {
    recorded(|mut recorded| async move {
        let server = server().await;
        let quick = |config: Config| config.response_timeout(Duration::from_millis(500));
        let client = client_with(&server.url(), quick).await;
        let lease = Duration::from_secs(9);
        let permit = Semaphore::new(&client, "s", 5).acquire().auto_renew(lease).await.unwrap();
        let guard = Lock::new(&client, "a").acquire().auto_renew(lease).await.unwrap();
        let of = |metric: &str, kind: &str| format!("{metric}{{kind=\"{kind}\",family=\"\"}}");
        let lost = |kind: &str| format!("redgrid_lost_total{{kind=\"{kind}\",family=\"\",reason=\"expired\"}}");
        let kinds = ["lock", "leased_semaphore"];
        for kind in kinds {
            recorded.at_least(&of("redgrid_renewal_lag_seconds", kind), 1.0).await;
        }
        server.kill().await.unwrap();
        for kind in kinds {
            recorded.at_least(&lost(kind), 1.0).await;
            // Nothing is counted of a permit that is lost, so these failures were before the loss.
            let failed = recorded.of(&of("redgrid_renewals_failed_total", kind));
            assert!(failed >= 2.0, "{kind}: {failed}");
            assert_eq!(recorded.of(&of("redgrid_renewals_overdue_total", kind)), 1.0, "{kind}");
        }
        drop((permit, guard));
    });
}

#[test]
fn a_failure_that_is_confirmed_at_once_is_not_overdue() {
    recorded(|mut recorded| async move {
        let server = server().await;
        let client = client(&server).await;
        let guard = Lock::new(&client, "a").acquire().auto_renew(Duration::from_secs(9)).await.unwrap();
        let of = |metric: &str| format!("{metric}{{kind=\"lock\",family=\"\"}}");
        recorded.at_least(&of("redgrid_renewal_lag_seconds"), 1.0).await;
        server.deny(&["evalsha", "eval"]).await.unwrap();
        recorded.at_least(&of("redgrid_renewals_failed_total"), 1.0).await;
        let renewed = recorded.of(&of("redgrid_renewal_lag_seconds"));
        server.allow(&["evalsha", "eval"]).await.unwrap();
        recorded.at_least(&of("redgrid_renewal_lag_seconds"), renewed + 1.0).await;
        assert!(guard.is_held());
        assert_eq!(recorded.of(&of("redgrid_renewals_overdue_total")), 0.0);
    });
}
