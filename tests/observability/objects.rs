//! Metrics of queues, limiters, caches, fences, transactions and topics.

use std::time::Duration;

use redgrid_core::fence::{Fence, FenceError};
use redgrid_core::{Client, Failure};
use redgrid_locks::{Election, Lock};
use redgrid_map::Map;
use redgrid_rate_limiter::{GcraLimiter, LimitError, Quota, Rate, RateLimiter};
use redgrid_reliable_queue::{QueueError, QueueSettings, ReliableQueue};
use redgrid_tests::{SOON, client, client_with, server};
use redgrid_topic::{Gap, SubscriptionError, Topic};
use redgrid_transaction::{Transaction, TransactionError};

use super::recorded::{Recorded, recorded};
use super::small_cache;

const HOUR: Duration = Duration::from_secs(3600);

/// Checks the values of a metric's series, by their last label.
fn check(recorded: &mut Recorded, metric: &str, label: &str, expected: &[(&str, f64)]) {
    for (value, count) in expected {
        let series = format!("{metric}{{family=\"orders\",{label}=\"{value}\"}}");
        assert_eq!(recorded.of(&series), *count, "{series}: {:#?}", recorded.totals);
    }
}

#[test]
fn messages_of_a_queue_are_counted_by_what_happens_to_them() {
    recorded(|mut recorded| async move {
        let server = server().await;
        let client = client(&server).await;
        let queue: ReliableQueue<String> = ReliableQueue::new(&client, "orders:7").family("orders");
        let settings = QueueSettings { max_message_size: Some(100), ..QueueSettings::default() };
        queue.set_settings(&settings).await.unwrap();
        queue.push("a").deduplicate("1").await.unwrap();
        // The first event registers all others with 0.
        let dead = "redgrid_queue_messages_total{family=\"orders\",what=\"rejected\"}";
        assert_eq!(recorded.look().get(dead), Some(&0.0));
        assert!(!queue.push("a").deduplicate("1").await.unwrap().is_new);
        assert!(queue.push(&"x".repeat(200)).await.is_err());
        queue.push_many(["b", "c"]).await;
        let first = queue.receive().await.unwrap();
        first.nack(Duration::ZERO).await.unwrap();
        let [again, other] = &queue.receive_many(2).await.unwrap()[..] else { panic!("two messages are ready") };
        assert_eq!((again.attempt(), other.attempt()), (2, 1));
        again.ack().await.unwrap();
        other.reject("because").await.unwrap();
        let stale = other.ack().await;
        assert!(matches!(stale, Err(QueueError::Stale { .. })), "{stale:?}");
        drop(queue.receive().back_on_drop().await.unwrap());
        check(
            &mut recorded,
            "redgrid_queue_messages_total",
            "what",
            &[
                ("pushed", 3.0),
                ("duplicate", 1.0),
                ("refused", 1.0),
                ("received", 3.0),
                ("redelivered", 1.0),
                ("acknowledged", 1.0),
                ("returned", 2.0),
                ("rejected", 1.0),
                ("stale", 1.0),
            ],
        );
        assert_eq!(recorded.of("redgrid_queue_wait_seconds{family=\"orders\"}"), 3.0, "one for each first delivery");
        assert_eq!(recorded.of("redgrid_queue_handle_seconds{family=\"orders\"}"), 4.0, "one for each delivery");
        assert!(!recorded.look().keys().any(|series| series.contains("orders:7")));
    });
}

#[test]
fn decisions_of_limiters_are_counted() {
    recorded(|mut recorded| async move {
        let server = server().await;
        let client = client_with(&server.url(), |config| config.response_timeout(Duration::from_millis(300))).await;
        let calls = GcraLimiter::new(&client, "calls:7", Quota::new(1, HOUR)).family("orders");
        assert!(calls.try_acquire().await.unwrap() && !calls.try_acquire().await.unwrap());
        let late = calls.acquire().timeout(Duration::from_millis(20)).await;
        assert!(matches!(late, Err(LimitError::TimedOut { .. })), "{late:?}");
        // Too many permits are a mistake of the caller, and no decision.
        assert!(calls.try_acquire_many(2).await.is_err());
        let log = RateLimiter::new(&client, "log:7").family("orders");
        let unset = log.try_acquire().await;
        assert!(matches!(unset, Err(LimitError::RateNotSet { .. })), "{unset:?}");
        log.set_rate(Rate::overall(1, HOUR)).await.unwrap();
        assert!(log.try_acquire().await.unwrap().is_some());
        let decisions = [("allowed", 2.0), ("denied", 2.0), ("unavailable", 1.0)];
        check(&mut recorded, "redgrid_limit_decisions_total", "decision", &decisions);
        server.kill().await.unwrap();
        assert!(log.try_acquire().await.is_err());
        check(&mut recorded, "redgrid_limit_decisions_total", "decision", &[("unavailable", 2.0)]);
        // A shutdown is no missing decision. The server is down, so its error does not matter.
        let _ = client.shutdown(Duration::from_millis(100)).await;
        let ended = log.try_acquire().await;
        assert!(matches!(ended, Err(LimitError::Failed(Failure::ShuttingDown { .. }))), "{ended:?}");
        check(&mut recorded, "redgrid_limit_decisions_total", "decision", &[("unavailable", 2.0)]);
        assert_eq!(recorded.of("redgrid_limit_wait_seconds{family=\"orders\"}"), 6.0);
    });
}

#[test]
fn reads_and_entries_of_a_cache_are_counted() {
    recorded(|mut recorded| async move {
        let server = server().await;
        let client = client(&server).await;
        let prices = small_cache(&client, "orders").await;
        for key in 0..50 {
            prices.set(&key.to_string(), &1).await.unwrap();
            prices.get(&key.to_string()).await.unwrap();
            prices.get(&key.to_string()).await.unwrap();
        }
        prices.clear_local();
        let stats = prices.stats();
        assert!(stats.hits > 0 && stats.misses > 0 && stats.evictions > 0, "{stats:?}");
        let read = |result| format!("redgrid_cache_requests_total{{family=\"orders\",result=\"{result}\"}}");
        // Each heartbeat publishes the numbers.
        recorded.until(&read("hit"), stats.hits as f64).await;
        recorded.until(&read("miss"), stats.misses as f64).await;
        recorded.until(&read("bypassed"), stats.bypassed as f64).await;
        let evicted = "redgrid_cache_evictions_total{family=\"orders\",reason=\"size\"}";
        recorded.until(evicted, stats.evictions as f64).await;
        recorded.at_least("redgrid_cache_evictions_total{family=\"orders\",reason=\"changed\"}", 1.0).await;
        prices.get("1").await.unwrap();
        recorded.at_least("redgrid_cache_entries{family=\"orders\"}", 1.0).await;
        recorded.at_least("redgrid_cache_bytes{family=\"orders\"}", 192.0).await;
        drop(prices);
        recorded.until("redgrid_cache_entries{family=\"orders\"}", 0.0).await;
        assert_eq!(recorded.of("redgrid_cache_bytes{family=\"orders\"}"), 0.0);
    });
}

#[test]
fn a_refused_write_of_a_fence_is_counted() {
    recorded(|mut recorded| async move {
        let server = server().await;
        let client = client(&server).await;
        let fence = Fence::new(&client, "{ledger}").family("orders");
        let token = async |client: &Client| {
            let guard = Lock::new(client, "a").acquire().await.unwrap();
            let token = guard.token();
            guard.release().await.unwrap();
            token
        };
        let (old, new) = (token(&client).await, token(&client).await);
        fence.set("{ledger}:total", "1", new).await.unwrap();
        assert_eq!(recorded.of("redgrid_fence_refused_total{family=\"orders\"}"), 0.0);
        let stale = fence.set("{ledger}:total", "2", old).await;
        assert!(matches!(stale, Err(FenceError::Stale { .. })), "{stale:?}");
        assert!(fence.check_and_set(old).await.is_err());
        assert_eq!(recorded.of("redgrid_fence_refused_total{family=\"orders\"}"), 2.0);
    });
}

#[test]
fn commits_are_counted_by_their_outcome() {
    recorded(|mut recorded| async move {
        let server = server().await;
        let client = client(&server).await;
        let stock: Map<String, u32> = Map::new(&client, "stock");
        let begin = || Transaction::new(&client).family("orders").serializable();
        let tx = begin();
        tx.map::<String, u32>("stock").set("a", &1).unwrap();
        tx.commit().await.unwrap();
        let tx = begin();
        assert_eq!(tx.map::<String, u32>("stock").get("a").await.unwrap(), Some(1));
        stock.insert("a", &2).await.unwrap();
        let conflict = tx.commit().await;
        assert!(matches!(conflict, Err(TransactionError::Conflict { .. })), "{conflict:?}");
        let outcomes = [("committed", 1.0), ("conflict", 1.0), ("unknown", 0.0), ("failed", 0.0)];
        check(&mut recorded, "redgrid_transactions_total", "outcome", &outcomes);
    });
}

#[test]
fn messages_of_a_topic_are_counted() {
    recorded(|mut recorded| async move {
        let server = server().await;
        let client = client(&server).await;
        let topic: Topic<String> = Topic::new(&client, "news:7").family("orders");
        let mut slow = topic.subscribe().buffer(2).await.unwrap();
        for number in 0..5 {
            topic.publish(&number.to_string()).await.unwrap();
        }
        // The buffer has dropped some, and says so.
        let (mut received, mut missed) = (0_u64, 0_u64);
        while received + missed < 5 {
            match tokio::time::timeout(SOON, slow.next()).await.unwrap().unwrap() {
                Ok(_) => received += 1,
                Err(SubscriptionError::Gap(Gap::Slow { missed: some })) => missed += some,
                Err(error) => panic!("{error:?}"),
            }
        }
        assert!(missed > 0, "{received} were received");
        check(&mut recorded, "redgrid_topic_messages_total", "direction", &[("published", 5.0)]);
        let of = |direction| format!("redgrid_topic_messages_total{{family=\"orders\",direction=\"{direction}\"}}");
        let counted = ["received", "missed"].map(|direction| recorded.of(&of(direction)));
        assert_eq!(counted, [received as f64, missed as f64], "{:#?}", recorded.totals);
    });
}

#[test]
fn counters_of_a_family_are_0_before_the_first_event() {
    recorded(|mut recorded| async move {
        let server = server().await;
        let (client, other) = (client(&server).await, client(&server).await);
        let _queue: ReliableQueue<String> = ReliableQueue::new(&client, "q").family("first");
        let _limiter = RateLimiter::new(&client, "l").family("first");
        let _calls = GcraLimiter::new(&client, "c", Quota::new(1, HOUR)).family("second");
        let _topic: Topic<String> = Topic::new(&client, "t").family("first");
        let _transaction = Transaction::new(&client).family("first");
        let _fence = Fence::new(&client, "{ledger}").family("first");
        for series in [
            "redgrid_queue_messages_total{family=\"first\",what=\"rejected\"}",
            "redgrid_limit_decisions_total{family=\"first\",decision=\"unavailable\"}",
            "redgrid_limit_decisions_total{family=\"second\",decision=\"denied\"}",
            "redgrid_topic_messages_total{family=\"first\",direction=\"missed\"}",
            "redgrid_transactions_total{family=\"first\",outcome=\"unknown\"}",
            "redgrid_fence_refused_total{family=\"first\"}",
        ] {
            let value = recorded.look().get(series).copied();
            assert_eq!(value, Some(0.0), "{series}: {:#?}", recorded.totals);
        }
        // A candidate that waits has its counter already.
        let leader = Election::new(&client, "e").campaign().await.unwrap();
        let waiting = tokio::spawn(async move { Election::new(&other, "e").family("first").campaign().await });
        recorded.until("redgrid_waiting{kind=\"election\",family=\"first\"}", 1.0).await;
        assert_eq!(recorded.look().get("redgrid_leader_changes_total{family=\"first\"}"), Some(&0.0));
        leader.resign().await.unwrap();
        drop(waiting.await.unwrap().unwrap());
        assert_eq!(recorded.of("redgrid_leader_changes_total{family=\"first\"}"), 1.0);
    });
}
