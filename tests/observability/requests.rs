//! Metrics of requests, nodes and subscriptions.

use std::time::Duration;

use redgrid_core::{Config, ServerError};
use redgrid_locks::Lock;
use redgrid_testkit::wait_until;
use redgrid_tests::{SOON, client, client_with, server};

use super::recorded::recorded;

const ANSWERED: &str = "redgrid_requests_total{outcome=\"answered\"}";
const NOT_SENT: &str = "redgrid_requests_total{outcome=\"not_sent\"}";

#[test]
fn answered_requests_have_a_round_trip_and_the_node_a_clock() {
    recorded(|mut recorded| async move {
        let server = server().await;
        let client = client(&server).await;
        let node = client.health().await.nodes[0].node.to_string();
        let before = recorded.of(ANSWERED);
        let round_trips = format!("redgrid_round_trip_seconds{{node={node:?}}}");
        let took_before = recorded.of(&round_trips);
        for _ in 0..5 {
            let _: Option<String> = client.command("GET").key("a").unwrap().query().await.unwrap();
        }
        assert_eq!(recorded.of(ANSWERED), before + 5.0, "{:#?}", recorded.totals);
        assert_eq!(recorded.of(&round_trips), took_before + 5.0, "{:#?}", recorded.totals);
        for direction in ["sent", "received"] {
            let bytes = recorded.of(&format!("redgrid_bytes_total{{direction={direction:?}}}"));
            assert!((100.0..1e6).contains(&bytes), "{direction}: {bytes}");
        }
        let offset = recorded.of(&format!("redgrid_clock_offset_seconds{{node={node:?}}}"));
        assert!(recorded.look().contains_key(&format!("redgrid_clock_offset_seconds{{node={node:?}}}")));
        assert!(offset.abs() < 5.0, "both have the same clock: {offset}");
        let version = concat!("redgrid_build_info{version=\"", env!("CARGO_PKG_VERSION"), "\"}");
        assert!(recorded.of(version) >= 1.0, "{:#?}", recorded.totals);
    });
}

#[test]
fn refused_and_unsent_requests_and_retries_are_counted() {
    recorded(|mut recorded| async move {
        let server = server().await;
        let short = |config: Config| config.response_timeout(Duration::from_millis(300)).retries(1);
        let client = client_with(&server.url(), short).await;
        let refused = "redgrid_requests_total{outcome=\"refused\"}";
        assert_eq!(recorded.look().get(refused), Some(&0.0));
        let wrong = client.command("NOSUCHCOMMAND").key("a").unwrap().query::<i64>().await;
        assert!(matches!(wrong, Err(ServerError::Refused { .. })), "{wrong:?}");
        assert_eq!(recorded.of(refused), 1.0, "{:#?}", recorded.totals);
        server.kill().await.unwrap();
        recorded.until("redgrid_connections_up", 0.0).await;
        assert_eq!((recorded.of(NOT_SENT), recorded.of("redgrid_retries_total{reason=\"not_sent\"}")), (0.0, 0.0));
        let waiting = tokio::spawn(client.command("GET").key("a").unwrap().query::<Option<String>>());
        server.restart_empty().await.unwrap();
        assert_eq!(waiting.await.unwrap().unwrap(), None);
        recorded.at_least("redgrid_retries_total{reason=\"not_sent\"}", 1.0).await;
        server.kill().await.unwrap();
        let away = client.command("GET").key("a").unwrap().query::<Option<String>>().await;
        assert!(matches!(away, Err(ServerError::NotSent { .. } | ServerError::Unknown { .. })), "{away:?}");
        let unknown = recorded.of("redgrid_requests_total{outcome=\"unknown\"}");
        assert_eq!(recorded.of(NOT_SENT) + unknown, 1.0, "{:#?}", recorded.totals);
    });
}

#[test]
fn channels_are_counted_as_wanted_and_confirmed() {
    recorded(|mut recorded| async move {
        let server = server().await;
        let (one, two) = (client(&server).await, client(&server).await);
        let (wanted, confirmed) =
            ("redgrid_subscriptions{state=\"wanted\"}", "redgrid_subscriptions{state=\"confirmed\"}");
        // Each client has a channel of its own.
        recorded.until(wanted, 2.0).await;
        recorded.until(confirmed, 2.0).await;
        let guard = Lock::new(&one, "a").acquire().await.unwrap();
        let waiting = tokio::spawn(Lock::new(&two, "a").acquire().into_future());
        recorded.until(wanted, 3.0).await;
        recorded.until(confirmed, 3.0).await;
        server.deny(&["subscribe", "psubscribe"]).await.unwrap();
        let other = Lock::new(&one, "b").acquire().await.unwrap();
        let denied = tokio::spawn(Lock::new(&two, "b").acquire().into_future());
        recorded.until(wanted, 4.0).await;
        wait_until(SOON, async || two.health().await.nodes[0].subscription_trouble.is_some()).await;
        assert!(recorded.of(confirmed) < recorded.of(wanted), "{:#?}", recorded.totals);
        server.allow(&["subscribe", "psubscribe"]).await.unwrap();
        drop((guard, other));
        drop((waiting.await.unwrap().unwrap(), denied.await.unwrap().unwrap()));
        one.shutdown(SOON).await.unwrap();
        two.shutdown(SOON).await.unwrap();
        drop((one, two));
        recorded.until(wanted, 0.0).await;
        recorded.until(confirmed, 0.0).await;
    });
}
