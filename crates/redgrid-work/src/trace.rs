//! The trace context of a message: which span has pushed it.

use std::fmt;
use std::sync::Arc;

use crate::body::Headers;

/// The names of the headers, as W3C Trace Context defines them.
const TRACEPARENT: &str = "traceparent";
const TRACESTATE: &str = "tracestate";

/// The longest `tracestate` that is kept, in bytes. W3C Trace Context requires to pass on at least
/// that many. A longer one is left out.
const MAX_STATE: usize = 512;

/// The context of a span, in the text format of [W3C Trace
/// Context](https://www.w3.org/TR/trace-context/). With it, the consumer of a message links its own
/// span to the span that has pushed the message.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct TraceContext {
    parent: String,
    state: Option<String>,
}

impl TraceContext {
    /// Reads a context; `None` if `traceparent` is not valid. An invalid `tracestate` is left out.
    ///
    /// ```
    /// # extern crate redgrid_work as redgrid_reliable_queue;
    /// use redgrid_reliable_queue::TraceContext;
    ///
    /// let parent = "00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01";
    /// let context = TraceContext::parse(parent, None);
    /// assert!(context.is_some_and(|context| context.traceparent().ends_with("-01")));
    /// assert_eq!(TraceContext::parse("00-none", None), None);
    /// ```
    pub fn parse(traceparent: &str, tracestate: Option<&str>) -> Option<TraceContext> {
        let is_hex = |text: &str| text.bytes().all(|byte| matches!(byte, b'0'..=b'9' | b'a'..=b'f'));
        let is_id = |text: &str| is_hex(text) && text.bytes().any(|byte| byte != b'0');
        let parts: Vec<&str> = traceparent.splitn(5, '-').collect();
        let [version, trace, span, flags]: [&str; 4] = parts.get(..4)?.try_into().ok()?;
        // A later version may have more parts.
        let is_whole = parts.len() == 4 || version != "00";
        let has_lengths = (version.len(), trace.len(), span.len(), flags.len()) == (2, 32, 16, 2);
        let is_valid = is_whole && has_lengths && is_hex(version) && version != "ff";
        if !(is_valid && is_id(trace) && is_id(span) && is_hex(flags)) {
            return None;
        }
        let is_state = |text: &&str| !text.is_empty() && text.len() <= MAX_STATE && text.bytes().all(is_printable);
        Some(TraceContext {
            parent: [version, trace, span, flags].join("-"),
            state: tracestate.filter(is_state).map(str::to_owned),
        })
    }

    /// Returns the header `traceparent`: version, trace id, span id and flags.
    pub fn traceparent(&self) -> &str {
        &self.parent
    }

    /// Returns the header `tracestate`; `None` if there is none.
    pub fn tracestate(&self) -> Option<&str> {
        self.state.as_deref()
    }

    /// Reads the context of a message's headers. If a name occurs twice, the last one counts.
    pub fn of_headers(headers: &[(String, String)]) -> Option<TraceContext> {
        let header = |name| headers.iter().rev().find(|(of, _)| of == name).map(|(_, text)| text.as_str());
        TraceContext::parse(header(TRACEPARENT)?, header(TRACESTATE))
    }

    /// Adds the context to the headers of a message.
    pub(crate) fn add_to(self, headers: &mut Headers) {
        headers.push((TRACEPARENT.to_owned(), self.parent));
        headers.extend(self.state.map(|state| (TRACESTATE.to_owned(), state)));
    }
}

fn is_printable(byte: u8) -> bool {
    (0x20..0x7f).contains(&byte)
}

/// Connects a queue to a library for traces, such as OpenTelemetry. This crate depends on none.
///
/// The example `queue_traces` implements it with the crate `opentelemetry`.
pub trait TracePropagator: Send + Sync + 'static {
    /// Returns the context of the current span; `None` outside of a span. It is called by each
    /// push, in the task of its caller.
    fn current(&self) -> Option<TraceContext>;
}

/// The propagator of a handle.
#[derive(Clone, Default)]
pub struct Propagator(Option<Arc<dyn TracePropagator>>);

impl Propagator {
    /// Creates the propagator of a handle with trace contexts.
    pub fn new(propagator: impl TracePropagator) -> Self {
        Propagator(Some(Arc::new(propagator)))
    }

    /// Returns the headers of a new message.
    pub fn headers(&self) -> Headers {
        let mut headers = Headers::new();
        if let Some(context) = self.0.as_ref().and_then(|propagator| propagator.current()) {
            context.add_to(&mut headers);
        }
        headers
    }
}

impl fmt::Debug for Propagator {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(if self.0.is_some() { "Propagator" } else { "None" })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const PARENT: &str = "00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01";

    #[test]
    fn a_context_is_read_from_the_headers_it_was_added_to() {
        let mut headers = vec![("traceparent".to_owned(), "old".to_owned())];
        let context = TraceContext::parse(PARENT, Some("vendor=1")).unwrap();
        context.clone().add_to(&mut headers);
        assert_eq!(TraceContext::of_headers(&headers), Some(context));
        assert_eq!(TraceContext::of_headers(&headers[..1]), None);
        assert_eq!(TraceContext::of_headers(&[]), None);
    }

    #[test]
    fn what_is_no_context_is_ignored() {
        let zero_trace = format!("00-{}-00f067aa0ba902b7-01", "0".repeat(32));
        let (upper, longer) = (PARENT.to_uppercase(), format!("{PARENT}-more"));
        for bad in
            ["", "00", "\0", "ff-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01", &zero_trace, &upper, &longer]
        {
            assert_eq!(TraceContext::parse(bad, None), None, "{bad}");
        }
        let later = TraceContext::parse(&longer.replacen("00", "01", 1), None).unwrap();
        assert_eq!(later.traceparent(), PARENT.replacen("00", "01", 1), "later versions may have more parts");
        for bad in ["", "a\nb", &"x".repeat(513)] {
            assert_eq!(TraceContext::parse(PARENT, Some(bad)).unwrap().tracestate(), None);
        }
    }
}
