//! Spans, as a subscriber receives them.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt::Debug;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use futures_util::future::join_all;
use redgrid_core::Client;
use redgrid_locks::{Holder, Lock, RwLock};
use redgrid_semaphore::Semaphore;
use redgrid_testkit::{Monitor, wait_until};
use redgrid_tests::{SOON, client, client_with, listening, server};
use tracing::field::{Field, Visit};
use tracing::span::{Attributes, Id, Record};
use tracing::{Event, Instrument, Subscriber, info_span};
use tracing_subscriber::Layer;
use tracing_subscriber::layer::{Context, SubscriberExt};
use tracing_subscriber::registry::LookupSpan;

/// Held by each test while it runs. Whether a span is wanted is remembered for the whole process,
/// so a test whose subscriber is not set yet would hide spans from the other tests.
static ONE_AT_A_TIME: tokio::sync::Mutex<()> = tokio::sync::Mutex::const_new(());

type Fields = BTreeMap<String, String>;

/// Spans that were closed, in order.
#[derive(Clone, Default)]
struct Seen(Arc<Mutex<Vec<(String, Fields)>>>);

impl<S: Subscriber + for<'a> LookupSpan<'a>> Layer<S> for Seen {
    fn on_new_span(&self, attributes: &Attributes<'_>, id: &Id, context: Context<'_, S>) {
        let mut fields = Reader(Fields::new());
        attributes.record(&mut fields);
        context.span(id).unwrap().extensions_mut().insert(fields.0);
    }

    fn on_record(&self, id: &Id, values: &Record<'_>, context: Context<'_, S>) {
        let span = context.span(id).unwrap();
        let mut fields = Reader(Fields::new());
        values.record(&mut fields);
        if let Some(known) = span.extensions_mut().get_mut::<Fields>() {
            known.extend(fields.0);
        }
    }

    fn on_close(&self, id: Id, context: Context<'_, S>) {
        let span = context.span(&id).unwrap();
        if span.metadata().target() == "redgrid" {
            let fields = span.extensions_mut().remove::<Fields>().unwrap_or_default();
            self.0.lock().unwrap().push((span.name().to_owned(), fields));
        }
    }
}

/// An event, and the name of the span that has it.
type EventInSpan = (Option<String>, Fields);

/// The events of redgrid.
#[derive(Clone, Default)]
struct Events(Arc<Mutex<Vec<EventInSpan>>>);

impl<S: Subscriber + for<'a> LookupSpan<'a>> Layer<S> for Events {
    fn on_event(&self, event: &Event<'_>, context: Context<'_, S>) {
        if event.metadata().target() == "redgrid" {
            let mut fields = Reader(Fields::new());
            event.record(&mut fields);
            let span = context.event_span(event).map(|span| span.name().to_owned());
            self.0.lock().unwrap().push((span, fields.0));
        }
    }
}

impl Events {
    /// Returns the events with this message.
    fn of(&self, message: &str) -> Vec<EventInSpan> {
        let all = self.0.lock().unwrap();
        all.iter().filter(|(_, fields)| fields["message"] == message).cloned().collect()
    }
}

struct Reader(Fields);

impl Visit for Reader {
    fn record_debug(&mut self, field: &Field, value: &dyn Debug) {
        self.0.insert(field.name().to_owned(), format!("{value:?}").trim_matches('"').to_owned());
    }
}

#[tokio::test]
async fn each_operation_is_one_span_with_its_outcome() {
    let _alone = ONE_AT_A_TIME.lock().await;
    let seen = Seen::default();
    // The whole test runs on this thread.
    let _guard = subscribe(&seen);
    let server = server().await;
    let (one, two) = (client(&server).await, client(&server).await);
    let lock = |client: &Client| Lock::new(client, "a").family("orders");
    let guard = lock(&one).acquire().await.unwrap();
    let token = guard.token().get().to_string();
    guard.extend(Duration::from_secs(60)).await.unwrap();
    // The holder is read after half of the timeout.
    assert!(lock(&two).acquire().timeout(Duration::from_secs(1)).await.is_err());
    guard.release().await.unwrap();
    let stolen = lock(&two).steal().await.unwrap();
    assert!(lock(&one).force_release().await.unwrap());
    drop(stolen);
    let seen = seen.0.lock().unwrap().clone();
    let outcomes: Vec<_> = seen.iter().map(|(name, fields)| (name.as_str(), fields["outcome"].as_str())).collect();
    let expected = [
        ("redgrid.acquire", "acquired"),
        ("redgrid.extend", "extended"),
        ("redgrid.acquire", "timed_out"),
        ("redgrid.release", "released"),
        ("redgrid.steal", "acquired"),
        ("redgrid.force_release", "acquired"),
        ("redgrid.release", "released"),
    ];
    assert_eq!(outcomes, expected);
    assert!(seen.iter().all(|(_, fields)| fields["name"] == "a" && fields["kind"] == "lock"), "{seen:?}");
    assert!(seen.iter().all(|(_, fields)| fields["family"] == "orders"), "{seen:?}");
    assert!(seen.iter().all(|(_, fields)| fields["otel.kind"] == "client"), "{seen:?}");
    let failed = seen.iter().enumerate().filter_map(|(at, (_, fields))| Some((at, fields.get("error.type")?.as_str())));
    assert_eq!(failed.collect::<Vec<_>>(), [(2, "timed_out")]);
    assert!(seen[0].1["token"] == token && seen[1].1["token"] == token && seen[3].1["token"] == token, "{seen:?}");
    let waited: f64 = seen[2].1["waited"].parse().unwrap();
    assert!((0.9..10.0).contains(&waited), "{waited}");
    assert_eq!(seen[2].1["waited_for"], one.id());
    assert!(!seen[2].1.contains_key("token"), "{seen:?}");
}

#[tokio::test]
async fn a_try_that_finds_the_lock_taken_has_no_error_and_the_release_of_a_lost_lock_has_one() {
    let _alone = ONE_AT_A_TIME.lock().await;
    let seen = Seen::default();
    let _guard = subscribe(&seen);
    let server = server().await;
    let (one, two) = (client(&server).await, client(&server).await);
    listening(&server, &one).await;
    let held = Lock::new(&one, "a").acquire().await.unwrap();
    assert!(Lock::new(&two, "a").try_acquire().await.unwrap().is_none());
    assert!(Lock::new(&two, "a").force_release().await.unwrap());
    held.lost().await;
    assert!(held.release().await.is_err());
    let seen = seen.0.lock().unwrap().clone();
    let of_outcome = |outcome: &str| {
        let (_, fields) = seen.iter().find(|(_, fields)| fields["outcome"] == outcome).unwrap();
        fields.get("error.type").cloned()
    };
    assert_eq!((of_outcome("busy"), of_outcome("lost")), (None, Some("lost".to_owned())));
}

#[tokio::test]
async fn a_loss_is_an_event_of_the_span_of_the_acquire_unless_that_span_has_ended() {
    let _alone = ONE_AT_A_TIME.lock().await;
    let events = Events::default();
    let _guard = tracing::subscriber::set_default(tracing_subscriber::registry().with(events.clone()));
    let server = server().await;
    let (one, two) = (client(&server).await, client(&server).await);
    listening(&server, &one).await;
    let holder = Holder::new();
    let lock = |name: &str| Lock::new(&one, name).family("orders");
    let acquire = async |name: &str| lock(name).acquire().holder(&holder).await.unwrap();
    let (open, again, ended) = (info_span!("open"), info_span!("again"), info_span!("ended"));
    let held = acquire("a").instrument(open.clone()).await;
    let reentered = acquire("a").instrument(again.clone()).await;
    let outlives = acquire("b").instrument(ended).await;
    let outside = acquire("c").await;
    let stolen = async { lock("d").steal().await.unwrap() }.instrument(open.clone()).await;
    for guard in [&held, &outlives, &outside, &stolen] {
        assert!(Lock::new(&two, guard.name()).force_release().await.unwrap());
        guard.lost().await;
    }
    let lost = events.of("lost");
    let spans: Vec<_> = lost.iter().map(|(span, fields)| (span.as_deref(), fields["name"].as_str())).collect();
    assert_eq!(spans, [(Some("open"), "a"), (None, "b"), (Some("open"), "d")]);
    let token = held.token().get().to_string();
    let expected = [("kind", "lock"), ("family", "orders"), ("reason", "forced"), ("token", &*token)];
    assert_eq!(expected.map(|(field, _)| (field, lost[0].1[field].as_str())), expected);
    drop((reentered, open, again));
}

#[tokio::test]
async fn a_lock_and_a_permit_have_events_of_failed_renewals_and_of_their_loss() {
    let _alone = ONE_AT_A_TIME.lock().await;
    let events = Events::default();
    let _guard = tracing::subscriber::set_default(tracing_subscriber::registry().with(events.clone()));
    let server = server().await;
    let client = client(&server).await;
    let order = info_span!("order");
    let lease = Duration::from_secs(9);
    let acquire = async {
        let guard = Lock::new(&client, "lock").acquire().auto_renew(lease).await.unwrap();
        (guard, Semaphore::new(&client, "permits", 5).acquire().auto_renew(lease).await.unwrap())
    };
    let (guard, permit) = acquire.instrument(order.clone()).await;
    assert!(events.of("renewal failed").is_empty() && events.of("lost").is_empty());
    server.deny(&["evalsha", "eval"]).await.unwrap();
    for message in ["renewal failed", "lost"] {
        let names = || -> BTreeSet<String> {
            let of_order = events.of(message).into_iter().filter(|(span, _)| span.as_deref() == Some("order"));
            of_order.map(|(_, fields)| fields["name"].clone()).collect()
        };
        wait_until(SOON, async || names().len() == 2).await;
        assert_eq!(names(), BTreeSet::from(["lock".to_owned(), "permits".to_owned()]));
    }
    // Each loss is one event, and the drop of a lost guard is none. A permit has no token.
    drop((guard, permit));
    let lost = events.of("lost");
    assert_eq!(lost.len(), 2, "{lost:?}");
    for (_, fields) in lost {
        assert_eq!((fields["reason"].as_str(), fields.contains_key("token")), ("expired", fields["kind"] == "lock"));
    }
    server.allow(&["evalsha", "eval"]).await.unwrap();
    drop(order);
}

/// Requests a lock until a timeout of 400 ms; the holder is read after half of it.
async fn wait_in_vain(lock: Lock) {
    assert!(lock.acquire().timeout(Duration::from_millis(400)).await.is_err());
}

fn subscribe(seen: &Seen) -> tracing::subscriber::DefaultGuard {
    tracing::subscriber::set_default(tracing_subscriber::registry().with(seen.clone()))
}

fn waited_for(seen: &Seen) -> Vec<Option<String>> {
    std::mem::take(&mut *seen.0.lock().unwrap())
        .into_iter()
        .map(|(_, mut fields)| fields.remove("waited_for"))
        .collect()
}

#[tokio::test]
async fn the_waiters_of_a_lock_share_one_lookup_of_its_holder() {
    let _alone = ONE_AT_A_TIME.lock().await;
    let seen = Seen::default();
    let server = server().await;
    let (one, two) = (client(&server).await, client(&server).await);
    let _write = RwLock::new(&one, "prices").write().await.unwrap();
    let _held = Lock::new(&one, "a").acquire().await.unwrap();
    let mut monitor = Monitor::start(&server).await.unwrap();
    let _guard = subscribe(&seen);
    join_all((0..20).map(|_| wait_in_vain(Lock::new(&two, "a")))).await;
    assert_eq!(waited_for(&seen), vec![Some(one.id().to_owned()); 20]);
    assert!(RwLock::new(&two, "prices").read().timeout(Duration::from_millis(400)).await.is_err());
    assert_eq!(waited_for(&seen), [Some(one.id().to_owned())]);
    // The holder's client knows the holder without a request.
    wait_in_vain(Lock::new(&one, "a")).await;
    assert_eq!(waited_for(&seen), [Some(one.id().to_owned())]);
    // A try does not wait, so nothing is read.
    assert!(Lock::new(&two, "a").try_acquire().await.unwrap().is_none());
    assert_eq!(waited_for(&seen), [None]);
    let sent = monitor.take().await.unwrap();
    let lookups = sent.iter().filter(|command| command.name == "HRANDFIELD");
    assert_eq!(lookups.map(|command| &command.args[0][..]).collect::<Vec<_>>(), [&b"a"[..], b"prices"]);
}

#[tokio::test]
async fn a_denied_lookup_of_the_holder_is_not_repeated() {
    let _alone = ONE_AT_A_TIME.lock().await;
    let seen = Seen::default();
    let server = server().await;
    let observer = server.observer().await.unwrap();
    observer.cmd(&["ACL", "SETUSER", "app", "on", ">secret", "~*", "&*", "+@all", "-hrandfield"]).await.unwrap();
    let holder = client(&server).await;
    let url = format!("redis://app:secret@{}", server.addr());
    let waiter = client_with(&url, |config| config).await;
    let _held = Lock::new(&holder, "a").acquire().await.unwrap();
    let _guard = subscribe(&seen);
    for _ in 0..3 {
        // Each wait is longer than the time in which lookups are shared.
        assert!(Lock::new(&waiter, "a").acquire().timeout(Duration::from_millis(1_100)).await.is_err());
    }
    assert_eq!(waited_for(&seen), [None, None, None]);
    let errors: String = observer.query(&["INFO", "errorstats"]).await.unwrap();
    assert!(errors.contains("errorstat_NOPERM:count=1\r"), "{errors}");
}
