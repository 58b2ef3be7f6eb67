//! The common part of all synchronizers of this crate: requests under their name, and the poll loop
//! of a wait.
//!
//! Each participant polls for itself: its poll registers it, renews its lease and returns its
//! state. So participants share no poll, and no [`wait_queue`](redgrid_core::wait_queue).

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use bytes::Bytes;
use redgrid_core::author::{ClientExt, LockExt, NotDriven, UNSUBSCRIBED_POLL};
use redgrid_core::clock::Instant;
use redgrid_core::name::{InvalidName, companion};
use redgrid_core::object::{Layout, Object};
use redgrid_core::wait_queue::{AFTER_CHANGE, SUBSCRIBED_POLLS};
use redgrid_core::{
    ChannelEvent, Client, Failure, FromReply, IdempotentRequest, Name, OrderedSubscription, Request, ServerError,
};

use crate::error::{WaitError, failure, is_passing};

/// The pause before the retry of a poll that reached the server too late: 10 ms.
const LATE_RETRY: Duration = Duration::from_millis(10);

/// The minimum time to wait for the reply to a leave request after a timeout: 50 ms. Without a
/// reply by then, the request continues in the background.
const MIN_LEAVE_WAIT: Duration = Duration::from_millis(50);

/// The payload of a message that concerns all subscribers.
const BROADCAST: &[u8] = b"0";

/// A synchronizer: its client, its name, and the keys that belong to it.
#[derive(Clone, Debug)]
pub(crate) struct SyncHandle {
    pub(crate) client: Client,
    pub(crate) name: Name,
    pub(crate) key: Bytes,
    pub(crate) channel: Bytes,
    object: &'static str,
    /// The duration of the last answered request, in nanoseconds.
    last_round_trip: Arc<AtomicU64>,
}

/// The outcome of one poll.
pub(crate) enum PollOutcome<T> {
    Done(T),
    /// The wait goes on. The next relevant lease ends after this many milliseconds; negative if
    /// there is none.
    Wait(i64),
    /// The poll reached the server too late, and did nothing.
    Late,
}

impl SyncHandle {
    pub(crate) fn new(client: &Client, object: &'static str, name: impl AsRef<str>) -> Result<SyncHandle, InvalidName> {
        let name = Name::new(name)?;
        let base_key = client.key(&name);
        let channel = companion(&format!("redgrid_{object}__channel"), &base_key);
        let key = companion(&format!("redgrid_{object}"), &base_key);
        Ok(SyncHandle { client: client.clone(), key, name, channel, object, last_round_trip: Arc::default() })
    }

    /// Returns a companion key: `redgrid_<object>_<suffix>:{name}`.
    pub(crate) fn companion_key(&self, suffix: &str) -> Bytes {
        companion(&format!("redgrid_{}_{suffix}", self.object), &self.client.key(&self.name))
    }

    /// Returns how long a participant counts without renewal, in milliseconds.
    pub(crate) fn lease(&self) -> i64 {
        i64::try_from(self.client.watchdog_lease().as_millis()).unwrap_or(i64::MAX)
    }

    /// Sends a request, and returns its reply.
    pub(crate) async fn run<T: FromReply>(&self, request: Request) -> Result<T, Failure> {
        if self.client.is_shut_down() {
            return Err(failure(&self.name, self.client.ended()));
        }
        let clock = self.client.clock();
        let sent = clock.now();
        let reply = self.client.run(request).await.map_err(|error| self.to_failure(error))?;
        let round_trip = clock.now().since(sent).as_nanos();
        self.last_round_trip.store(u64::try_from(round_trip).unwrap_or(u64::MAX), Ordering::Relaxed);
        Ok(reply)
    }

    /// Sends a final request, and waits for its reply no longer than a few round trips. Returns
    /// `None` without a reply by then.
    pub(crate) async fn run_briefly<T: FromReply>(&self, request: Request) -> Option<T> {
        let few_round_trips = Duration::from_nanos(self.last_round_trip.load(Ordering::Relaxed)).saturating_mul(4);
        let clock = self.client.clock();
        tokio::select! {
            biased;
            reply = self.run(request) => reply.ok(),
            () = clock.sleep_until(clock.now() + few_round_trips.max(MIN_LEAVE_WAIT)) => None,
        }
    }

    /// Sends a request that is executed exactly once, and returns its reply.
    pub(crate) async fn run_exactly_once<T: FromReply>(&self, request: IdempotentRequest) -> Result<T, Failure> {
        if self.client.is_shut_down() {
            return Err(failure(&self.name, self.client.ended()));
        }
        self.client.run_exactly_once(request).await.map_err(|error| self.to_failure(error))
    }

    fn to_failure(&self, error: ServerError) -> Failure {
        // A request that a shutdown interrupted reports the shutdown.
        if self.client.is_shut_down() { failure(&self.name, self.client.ended()) } else { failure(&self.name, error) }
    }

    /// Drives a wait that ends with a grant, whether or not its caller polls it: see
    /// [`LockExt::drive_acquire`].
    pub(crate) async fn drive<T, E, F>(
        &self,
        timeout: Option<Duration>,
        start: impl FnMut(Option<Duration>) -> F + Send,
    ) -> Result<T, E>
    where
        T: Send + 'static,
        E: From<WaitError> + Send + 'static,
        F: Future<Output = Result<T, E>> + Send + 'static,
    {
        self.client.drive_acquire(timeout, start).await.unwrap_or_else(|not_driven| {
            let name = self.name.clone();
            Err(E::from(match not_driven {
                NotDriven::TimedOut => WaitError::TimedOut { name, waited: timeout.unwrap_or_default() },
                NotDriven::Ended(source) => WaitError::Failed(failure(&name, source)),
            }))
        })
    }

    /// Returns the options of a wait that begins now.
    pub(crate) fn wait_options(&self, timeout: Option<Duration>) -> WaitOptions {
        let began = self.client.clock().now();
        let until = timeout.map_or(Instant::MAX, |timeout| began + timeout);
        WaitOptions { began, until, had_contact: false, has_key: true, participant_id: None }
    }

    /// Polls until `parse` finds the wait done. It polls at once, on each relevant message, when
    /// messages may have been missed, when a lease ends, and periodically.
    ///
    /// The subscription starts after the first poll that does not end the wait.
    pub(crate) async fn poll_until<T, E: From<WaitError>>(
        &self,
        options: WaitOptions,
        poll_request: impl Fn() -> Request,
        mut parse: impl FnMut(Vec<i64>) -> Result<PollOutcome<T>, E>,
    ) -> Result<T, E> {
        let clock = self.client.clock();
        let mut subscription: Option<OrderedSubscription> = None;
        let mut last_failure = None;
        let mut last_reply = if options.had_contact { clock.now() } else { Instant::MIN };
        loop {
            let reply = tokio::select! {
                biased;
                reply = self.run::<Vec<i64>>(poll_request()) => reply,
                () = clock.sleep_until(options.until) => break,
            };
            let pause = match reply {
                Ok(reply) => {
                    last_reply = clock.now();
                    last_failure = None;
                    match parse(reply)? {
                        PollOutcome::Done(done) => return Ok(done),
                        PollOutcome::Wait(lease_left) => u64::try_from(lease_left)
                            .map_or(Duration::MAX, Duration::from_millis)
                            .saturating_add(AFTER_CHANGE),
                        PollOutcome::Late => LATE_RETRY,
                    }
                }
                // A wait with a timeout lasts until the timeout, even without contact.
                Err(error) if is_passing(&error) && options.has_timeout() => {
                    last_failure = Some(error);
                    UNSUBSCRIBED_POLL
                }
                Err(error) => return Err(E::from(WaitError::Failed(error))),
            };
            let subscription = subscription.get_or_insert_with(|| self.subscribe(options.has_key));
            let interval = match subscription.is_active() {
                true => self.client.poll_interval() * SUBSCRIBED_POLLS,
                false => UNSUBSCRIBED_POLL,
            };
            // Polls renew the lease, so they are at most a third of it apart.
            let pause = pause.min(interval).min(self.client.watchdog_lease() / 3);
            tokio::select! {
                biased;
                () = self.client.closing() => {
                    return Err(E::from(WaitError::Failed(failure(&self.name, self.client.ended()))));
                }
                () = until_notified(subscription, options.participant_id.as_deref()) => {}
                () = clock.sleep_until(clock.now() + pause) => {}
                () = clock.sleep_until(options.until) => break,
            }
        }
        let no_reply =
            || (last_reply == Instant::MIN).then(|| ServerError::Unknown { reason: "no reply arrived in time".into() });
        let no_contact = || self.client.out_of_contact(&self.key, last_reply).or_else(no_reply);
        Err(E::from(match last_failure.or_else(|| Some(failure(&self.name, no_contact()?))) {
            Some(failure) => WaitError::Failed(failure),
            None => WaitError::TimedOut { name: self.name.clone(), waited: clock.now().since(options.began) },
        }))
    }

    fn subscribe(&self, has_key: bool) -> OrderedSubscription {
        if has_key {
            self.client.subscribe_ordered([self.channel.clone()], &self.key)
        } else {
            // The client's poll would find no key, and make all waiters poll every second.
            self.client.subscribe_ordered_unpolled([self.channel.clone()], &self.key)
        }
    }
}

/// Returns the [`Object`] of a synchronizer with these keys.
pub(crate) fn object(handle: &Result<SyncHandle, InvalidName>, layout: Layout) -> Object {
    match handle {
        Ok(handle) => Object::with_layout(&handle.client, Ok(handle.name.clone()), layout),
        Err(invalid) => Object::unusable(invalid.clone()),
    }
}

/// Completes when a message arrives that concerns the participant with this id, or when messages
/// may have been missed.
async fn until_notified(subscription: &mut OrderedSubscription, participant_id: Option<&[u8]>) {
    let is_relevant = |event: &ChannelEvent| match event {
        ChannelEvent::Message { payload, .. } => {
            participant_id.is_none_or(|id| **payload == *id || **payload == *BROADCAST)
        }
        ChannelEvent::Resync => true,
    };
    while !is_relevant(&subscription.next().await) {}
    // The next poll covers all messages that arrived before it.
    while subscription.take().is_some() {}
}

/// The options of a wait: its time limit, and which messages concern it.
#[derive(Clone, Debug)]
pub(crate) struct WaitOptions {
    began: Instant,
    until: Instant,
    had_contact: bool,
    has_key: bool,
    participant_id: Option<Bytes>,
}

impl WaitOptions {
    /// Records that the server has answered before the wait. Reaching the time limit is then a
    /// timeout, not a missing reply.
    pub(crate) fn had_contact(self) -> WaitOptions {
        WaitOptions { had_contact: true, ..self }
    }

    /// Records that the key of the synchronizer need not exist.
    pub(crate) fn without_key(self) -> WaitOptions {
        WaitOptions { has_key: false, ..self }
    }

    /// Ignores messages for other participants.
    pub(crate) fn only_messages_for(self, participant_id: Bytes) -> WaitOptions {
        WaitOptions { participant_id: Some(participant_id), ..self }
    }

    pub(crate) fn has_timeout(&self) -> bool {
        self.until != Instant::MAX
    }

    pub(crate) fn until(&self) -> Instant {
        self.until
    }
}

/// The text of a script, behind the prelude of all scripts of this crate.
macro_rules! script {
    ($($file:literal),+) => {
        concat!("local k = KEYS\n", include_str!("scripts/participants.lua") $(, include_str!(concat!("scripts/", $file, ".lua")))+)
    };
}
/// Like `script!`, for a script that is executed exactly once: its first key is for deduplication.
macro_rules! exactly_once_script {
    ($($file:literal),+) => {
        concat!("local k = {unpack(KEYS, 2)}\n", include_str!("scripts/participants.lua") $(, include_str!(concat!("scripts/", $file, ".lua")))+)
    };
}
pub(crate) use {exactly_once_script, script};
