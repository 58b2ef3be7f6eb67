//! Spans, as a subscriber receives them.

use std::collections::BTreeMap;
use std::fmt::Debug;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use redgrid_core::Client;
use redgrid_locks::Lock;
use redgrid_tests::{client, server};
use tracing::Subscriber;
use tracing::field::{Field, Visit};
use tracing::span::{Attributes, Id, Record};
use tracing_subscriber::Layer;
use tracing_subscriber::layer::{Context, SubscriberExt};
use tracing_subscriber::registry::LookupSpan;

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

struct Reader(Fields);

impl Visit for Reader {
    fn record_debug(&mut self, field: &Field, value: &dyn Debug) {
        self.0.insert(field.name().to_owned(), format!("{value:?}").trim_matches('"').to_owned());
    }
}

#[tokio::test]
async fn each_operation_is_one_span_with_its_outcome() {
    let seen = Seen::default();
    let subscriber = tracing_subscriber::registry().with(seen.clone());
    // The whole test runs on this thread.
    let _guard = tracing::subscriber::set_default(subscriber);
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
    assert!(seen[0].1["token"] == token && seen[1].1["token"] == token && seen[3].1["token"] == token, "{seen:?}");
    let waited: f64 = seen[2].1["waited"].parse().unwrap();
    assert!((0.9..10.0).contains(&waited), "{waited}");
    assert_eq!(seen[2].1["waited_for"], one.id());
    assert!(!seen[0].1.contains_key("waited_for"), "nobody held it: {seen:?}");
    assert!(!seen[2].1.contains_key("token"), "{seen:?}");
}
