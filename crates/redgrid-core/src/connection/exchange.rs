//! Retries, in one place, by error class, within one deadline.
//!
//! What was not sent or was refused for a passing reason is tried again with jittered waits. What may have been carried
//! out is sent again only if it says of itself that twice is the same as once. Each copy has a time limit of its own.

use std::sync::atomic::{AtomicU8, Ordering};
use std::time::Duration;

use super::{Reply, Request, Server};
use crate::clock::{Clock, Instant};
use crate::config::Settings;
use crate::error::ServerError;

/// What became of one request, all its copies together.
#[derive(Debug)]
pub(crate) struct Exchange {
    pub(crate) result: Result<Reply, ServerError>,
    /// The instant before the answered (or last) copy left.
    pub(crate) sent: Instant,
    /// When the answer was there.
    pub(crate) received: Instant,
    /// Until when an unanswered copy may still be carried out; `None` if every copy was answered.
    pub(crate) unanswered_until: Option<Instant>,
}

impl Exchange {
    /// Whether an earlier copy may have been carried out before the answered one.
    pub(crate) fn is_repeat(&self) -> bool {
        self.unanswered_until.is_some()
    }
}

/// How far a request has come, for a caller who leaves before it is answered.
#[derive(Debug, Default)]
pub(crate) struct Progress(AtomicU8);

impl Progress {
    const SENT: u8 = 1;

    fn sent(&self, sent: bool) {
        self.0.store(if sent { Self::SENT } else { 0 }, Ordering::Relaxed);
    }

    /// Whether a copy may have reached a server.
    pub(crate) fn is_sent(&self) -> bool {
        self.0.load(Ordering::Relaxed) == Self::SENT
    }
}

/// How long a request is sent again after lost replies.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Persistence {
    /// As often as the settings say.
    Retries,
    /// Until its time is over: what is to be given back is not given up earlier.
    ToTheEnd,
    /// As often as the settings say, but no copy is carried out later than this after the first: later, the first one's
    /// effect may have ended, and a copy would act a second time.
    Within(Duration),
}

/// Sends `request` to `server` until it is answered for good or `until` has passed.
pub(crate) async fn exchange(
    server: &dyn Server,
    settings: &Settings,
    clock: &Clock,
    request: Request,
    until: Instant,
    persistence: Persistence,
    progress: &Progress,
) -> Exchange {
    let mut unanswered: Option<Instant> = None;
    let mut unknowns = 0;
    let mut first = None;
    loop {
        let sent = clock.now();
        let mut limit = sent + settings.timeout;
        if let (Persistence::Within(window), Some(first)) = (persistence, first) {
            limit = limit.min(first + window);
        }
        let copy = request.clone().not_after(limit);
        let over = certainly_over(limit, settings.timeout);
        progress.sent(true);
        let result = server.call(vec![copy]).await.pop().unwrap_or_else(|| Err(ServerError::unknown("no result")));
        let received = clock.now();
        let again = match &result {
            Err(ServerError::NotSent { .. }) => {
                progress.sent(unanswered.is_some());
                true
            }
            Err(ServerError::Refused { code, .. }) => code.is_passing(),
            Err(ServerError::Unknown { .. }) => {
                unanswered = unanswered.max(Some(over));
                unknowns += 1;
                let first = *first.get_or_insert(sent);
                let more = match persistence {
                    Persistence::ToTheEnd => true,
                    Persistence::Retries => unknowns <= settings.retries,
                    Persistence::Within(window) => unknowns <= settings.retries && received < first + window,
                };
                request.is_idempotent() && more
            }
            Ok(_) | Err(ServerError::Decode { .. }) => false,
        };
        if !again || received >= until {
            return Exchange { result, sent, received, unanswered_until: unanswered };
        }
        pause(server, settings, clock, until).await;
        if clock.now() >= until {
            return Exchange { result, sent, received, unanswered_until: unanswered };
        }
    }
}

/// When, by our clock, a copy that is not to be carried out after `limit` certainly will not be: the server's clock may
/// run slower than ours by twice the drift that is allowed for (500 ppm each), and it counts to the microsecond.
///
/// The model (`redgrid-models`) shows what happens without it: the copy is given back and forgotten a moment before it
/// is carried out.
pub(crate) fn certainly_over(limit: Instant, window: Duration) -> Instant {
    limit + window / 1000 + Duration::from_millis(1)
}

/// Waits a little, and then for a connection, but not beyond `until`.
async fn pause(server: &dyn Server, settings: &Settings, clock: &Clock, until: Instant) {
    let mut epoch = server.epoch();
    let wait = async {
        if epoch.borrow().is_some() {
            tokio::time::sleep(jittered(settings.retry_delay)).await;
        }
        // An error here means that the node is closed for good; the next call says so.
        let _ = epoch.wait_for(Option::is_some).await;
    };
    tokio::select! {
        () = wait => {}
        () = clock.sleep_until(until) => {}
    }
}

/// `mean`, spread evenly from half to one and a half of it.
pub(crate) fn jittered(mean: Duration) -> Duration {
    mean.mul_f64(0.5 + fastrand::f64())
}
