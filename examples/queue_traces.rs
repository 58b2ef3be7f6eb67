//! Shows a trace that goes on in the consumer of a message: the span of the consumer is linked to
//! the span that has pushed the message, by OpenTelemetry.
//!
//! Run it with `cargo run -p redgrid-examples --features traces --example queue_traces`, for a
//! server at 127.0.0.1:6379 or `REDGRID_URL`. A service adds an exporter to its provider, such as
//! that of the crate `opentelemetry-otlp`.

use std::collections::HashMap;
use std::time::Duration;

use opentelemetry::propagation::TextMapPropagator;
use opentelemetry::trace::{FutureExt, Link, Span, SpanKind, TraceContextExt, Tracer, TracerProvider};
use opentelemetry::{Context, KeyValue};
use opentelemetry_sdk::propagation::TraceContextPropagator;
use opentelemetry_sdk::trace::SdkTracerProvider;
use redgrid::Grid;
use redgrid::reliable_queue::{TraceContext, TracePropagator};

/// The name of the queue.
const MAILS: &str = "redgrid-example:mails";

/// Reads the context of the current span.
struct CurrentSpan;

impl TracePropagator for CurrentSpan {
    fn current(&self) -> Option<TraceContext> {
        let mut headers = HashMap::new();
        TraceContextPropagator::new().inject_context(&Context::current(), &mut headers);
        TraceContext::parse(headers.get("traceparent")?, headers.get("tracestate").map(String::as_str))
    }
}

/// Returns the link to the span that has pushed a message.
fn link_to(context: &TraceContext) -> Link {
    let mut headers = HashMap::from([("traceparent".to_owned(), context.traceparent().to_owned())]);
    headers.extend(context.tracestate().map(|state| ("tracestate".to_owned(), state.to_owned())));
    let producer = TraceContextPropagator::new().extract(&headers);
    Link::with_context(producer.span().span_context().clone())
}

/// Returns the attributes of a span of the queue, by OpenTelemetry's conventions for messages.
fn attributes(operation: &'static str) -> [KeyValue; 3] {
    [
        KeyValue::new("messaging.system", "redgrid"),
        KeyValue::new("messaging.destination.name", MAILS),
        KeyValue::new("messaging.operation.type", operation),
    ]
}

#[tokio::main]
async fn main() -> Result<(), Box<dyn std::error::Error>> {
    let provider = SdkTracerProvider::builder().build();
    let tracer = provider.tracer("shop");
    let url = std::env::var("REDGRID_URL").unwrap_or_else(|_| "redis://127.0.0.1:6379".into());
    let grid = Grid::connect(&*url).await?;
    let mails = grid.reliable_queue::<String>(MAILS).trace_with(CurrentSpan);

    // The producer. Its names are those of the same conventions.
    let span = tracer.span_builder("send mails").with_kind(SpanKind::Producer).with_attributes(attributes("send"));
    let span = span.start(&tracer);
    let trace = span.span_context().trace_id();
    async { mails.push("welcome ada").await }.with_context(Context::current_with_span(span)).await?;

    // The consumer, usually in another process. Its span is in a trace of its own.
    let delivery = mails.receive().await?;
    let links: Vec<Link> = delivery.trace_context().iter().map(link_to).collect();
    let is_linked = links.iter().any(|link| link.span_context.trace_id() == trace);
    let span = tracer.span_builder("process mails").with_kind(SpanKind::Consumer).with_links(links);
    let mut span = span.with_attributes(attributes("process")).start(&tracer);
    println!("{}: linked to its producer: {is_linked}", delivery.value()?);
    delivery.ack().await?;
    span.end();

    mails.object().delete().await?;
    provider.shutdown()?;
    grid.shutdown(Duration::from_secs(5)).await?;
    Ok(())
}
