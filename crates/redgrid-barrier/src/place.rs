//! What all synchronizers of this crate do: ask under their name, and look again and again until there is an answer.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use bytes::Bytes;
use redgrid_core::clock::Instant;
use redgrid_core::name::{InvalidName, companion};
use redgrid_core::object::{Layout, Object};
use redgrid_core::{ChannelEvent, Client, FromReply, IdempotentRequest, Name, NotDriven, OrderedSubscription, Request};

use crate::error::{AskError, WaitError};

/// How often those look who are not told of changes, because their subscription is not in force: every 100 ms.
const UNHEARD: Duration = Duration::from_millis(100);

/// How many polls of the client's hub go by between two looks of a waiter that is told of changes: 5, so 5 s unless set. The poll has
/// a budget for all names together; a look is a script of each waiter.
const POLLS: u32 = 5;

/// How soon a look is taken again that came too late at the server: 10 ms.
const ANEW: Duration = Duration::from_millis(10);

/// Later than a lease ends by the server's clock, a look finds it over: 2 ms.
const AFTER: Duration = Duration::from_millis(2);

/// How long a leave is waited for when the time is over, at least: 50 ms. Without an answer it goes on in the background.
const LEAVING: Duration = Duration::from_millis(50);

/// What is told on a channel when it is for all who hear it.
const FOR_ALL: &[u8] = b"0";

/// A synchronizer by its name, its keys beside it.
#[derive(Clone, Debug)]
pub(crate) struct Place {
    pub(crate) client: Client,
    pub(crate) name: Name,
    pub(crate) key: Bytes,
    pub(crate) channel: Bytes,
    object: &'static str,
    /// How long the last answer took, in nanoseconds.
    took: Arc<AtomicU64>,
}

/// What a look has found.
pub(crate) enum Seen<T> {
    Done(T),
    /// Nothing yet; a lease that matters ends after so many milliseconds, if it is not negative.
    Wait(i64),
    /// It came too late, and did nothing.
    Late,
}

impl Place {
    pub(crate) fn new(client: &Client, object: &'static str, name: impl AsRef<str>) -> Result<Place, InvalidName> {
        let name = Name::new(name)?;
        let own = client.key(&name);
        let channel = companion(&format!("redgrid_{object}__channel"), &own);
        let key = companion(&format!("redgrid_{object}"), &own);
        Ok(Place { client: client.clone(), key, name, channel, object, took: Arc::default() })
    }

    /// A further key: `redgrid_<object>_<part>:{name}`.
    pub(crate) fn part(&self, part: &str) -> Bytes {
        companion(&format!("redgrid_{}_{part}", self.object), &self.client.key(&self.name))
    }

    /// How long somebody counts without another word, in milliseconds.
    pub(crate) fn lease(&self) -> i64 {
        i64::try_from(self.client.watchdog_lease().as_millis()).unwrap_or(i64::MAX)
    }

    pub(crate) async fn ask<T: FromReply>(&self, request: Request) -> Result<T, AskError> {
        if self.client.is_shut_down() {
            return Err(AskError::of(&self.name, self.client.ended()));
        }
        let clock = self.client.clock();
        let asked = clock.now();
        let answer = self.client.run(request).await.map_err(|error| self.failed(error))?;
        let took = clock.now().since(asked).as_nanos();
        self.took.store(u64::try_from(took).unwrap_or(u64::MAX), Ordering::Relaxed);
        Ok(answer)
    }

    /// Asks for a last time, and waits for the answer no longer than a few round trips; `None` without one by then.
    pub(crate) async fn ask_briefly<T: FromReply>(&self, request: Request) -> Option<T> {
        let few = Duration::from_nanos(self.took.load(Ordering::Relaxed)).saturating_mul(4);
        let clock = self.client.clock();
        tokio::select! {
            biased;
            answer = self.ask(request) => answer.ok(),
            () = clock.sleep_until(clock.now() + few.max(LEAVING)) => None,
        }
    }

    pub(crate) async fn ask_once<T: FromReply>(&self, request: IdempotentRequest) -> Result<T, AskError> {
        if self.client.is_shut_down() {
            return Err(AskError::of(&self.name, self.client.ended()));
        }
        self.client.run_exactly_once(request).await.map_err(|error| self.failed(error))
    }

    fn failed(&self, error: redgrid_core::ServerError) -> AskError {
        // What ended because of the shutdown says so.
        match self.client.is_shut_down() {
            true => AskError::of(&self.name, self.client.ended()),
            false => AskError::of(&self.name, error),
        }
    }

    /// Drives a wait that ends with a grant, whether its caller polls or not: see [`Client::drive_acquire`].
    pub(crate) async fn drive<T, E, F>(
        &self,
        within: Option<Duration>,
        start: impl FnMut(Option<Duration>) -> F + Send,
    ) -> Result<T, E>
    where
        T: Send + 'static,
        E: From<WaitError> + Send + 'static,
        F: Future<Output = Result<T, E>> + Send + 'static,
    {
        self.client.drive_acquire(within, start).await.unwrap_or_else(|not_driven| {
            let name = self.name.clone();
            Err(E::from(match not_driven {
                NotDriven::TimedOut => WaitError::TimedOut { name, waited: within.unwrap_or_default() },
                NotDriven::Ended(source) => WaitError::Failed(AskError::of(&name, source)),
            }))
        })
    }

    /// How a wait is bounded.
    pub(crate) fn bound(&self, within: Option<Duration>) -> Bound {
        let began = self.client.clock().now();
        let until = within.map_or(Instant::MAX, |within| began + within);
        Bound { began, until, met: false, has_key: true, own: None }
    }

    /// Looks until there is an answer: at once, when something is told or may have been missed, when a lease ends, and by itself.
    /// Only who looks a second time subscribes.
    pub(crate) async fn look<T, E: From<WaitError>>(
        &self,
        bound: Bound,
        look: impl Fn() -> Request,
        mut seen: impl FnMut(Vec<i64>) -> Result<Seen<T>, E>,
    ) -> Result<T, E> {
        let clock = self.client.clock();
        let (mut hearing, mut failure): (Option<OrderedSubscription>, _) = (None, None);
        let mut answered = if bound.met { clock.now() } else { Instant::MIN };
        let over = |failure: Option<AskError>, answered: Instant| {
            let unasked = || {
                AskError::of(&self.name, redgrid_core::ServerError::Unknown { reason: "no answer came in time".into() })
            };
            let silent = || Some(AskError::of(&self.name, self.client.out_of_contact(&self.key, answered)?));
            match failure.or_else(silent).or_else(|| (answered == Instant::MIN).then(unasked)) {
                Some(failure) => E::from(WaitError::Failed(failure)),
                None => {
                    E::from(WaitError::TimedOut { name: self.name.clone(), waited: clock.now().since(bound.began) })
                }
            }
        };
        loop {
            let answer = tokio::select! {
                biased;
                answer = self.ask::<Vec<i64>>(look()) => answer,
                () = clock.sleep_until(bound.until) => return Err(over(failure, answered)),
            };
            let pause = match answer {
                Ok(answer) => {
                    (answered, failure) = (clock.now(), None);
                    match seen(answer)? {
                        Seen::Done(done) => return Ok(done),
                        Seen::Wait(left) => {
                            u64::try_from(left).map_or(Duration::MAX, Duration::from_millis).saturating_add(AFTER)
                        }
                        Seen::Late => ANEW,
                    }
                }
                // Who set a bound waits up to it, without contact too.
                Err(error) if error.is_passing() && bound.is_set() => {
                    failure = Some(error);
                    self.unheard()
                }
                Err(error) => return Err(E::from(WaitError::Failed(error))),
            };
            let hearing = hearing.get_or_insert_with(|| self.hear(bound.has_key));
            let beneath = if hearing.is_active() { self.between_looks() } else { self.unheard() };
            tokio::select! {
                biased;
                () = self.client.shutting_down() => {
                    return Err(E::from(WaitError::Failed(AskError::of(&self.name, self.client.ended()))));
                }
                () = told(hearing, bound.own.as_deref()) => {}
                () = clock.sleep_until(clock.now() + pause.min(beneath)) => {}
                () = clock.sleep_until(bound.until) => return Err(over(failure, answered)),
            }
        }
    }

    fn hear(&self, has_key: bool) -> OrderedSubscription {
        match has_key {
            true => self.client.subscribe_ordered([self.channel.clone()], &self.key),
            // The poll would find none there, and have all look every second.
            false => self.client.subscribe_ordered_unpolled([self.channel.clone()], &self.key),
        }
    }

    /// How long a waiter lets pass that is told of nothing; three times a lease at least, as a look renews it.
    fn unheard(&self) -> Duration {
        UNHEARD.min(self.client.watchdog_lease() / 3)
    }

    /// How long a waiter lets pass that is told of changes; three times a lease at least, as a look renews it.
    fn between_looks(&self) -> Duration {
        (self.client.poll_interval() * POLLS).min(self.client.watchdog_lease() / 3)
    }
}

/// What every object has, of one with these keys.
pub(crate) fn object(place: &Result<Place, InvalidName>, layout: Layout) -> Object {
    match place {
        Ok(place) => Object::with_layout(&place.client, Ok(place.name.clone()), layout),
        Err(invalid) => Object::unusable(invalid.clone()),
    }
}

/// Completes when something was told that is for the one with this id, or may have been missed.
async fn told(hearing: &mut OrderedSubscription, own: Option<&[u8]>) {
    let concerns = |heard: &ChannelEvent| match heard {
        ChannelEvent::Message { payload, .. } => own.is_none_or(|own| **payload == *own || **payload == *FOR_ALL),
        ChannelEvent::Resync => true,
    };
    while !concerns(&hearing.next().await) {}
    // The next look covers what else was told before it.
    while hearing.take().is_some() {}
}

/// From when, and until when somebody waits, and for what.
#[derive(Clone, Debug)]
pub(crate) struct Bound {
    began: Instant,
    until: Instant,
    met: bool,
    has_key: bool,
    own: Option<Bytes>,
}

impl Bound {
    /// There was contact before: when the time is over, it was only that.
    pub(crate) fn met(self) -> Bound {
        Bound { met: true, ..self }
    }

    /// What is waited for need not have a key.
    pub(crate) fn without_key(self) -> Bound {
        Bound { has_key: false, ..self }
    }

    /// Only what is told to this one matters, or to all.
    pub(crate) fn told(self, own: Bytes) -> Bound {
        Bound { own: Some(own), ..self }
    }

    pub(crate) fn is_set(&self) -> bool {
        self.until != Instant::MAX
    }

    pub(crate) fn until(&self) -> Instant {
        self.until
    }
}

/// The text of a script behind what all of this crate begin with.
macro_rules! script {
    ($($file:literal),+) => {
        concat!("local k = KEYS\n", include_str!("scripts/seats.lua") $(, include_str!(concat!("scripts/", $file, ".lua")))+)
    };
}
/// The same of one that acts once: the first of its keys is the memory of that.
macro_rules! once {
    ($($file:literal),+) => {
        concat!("local k = {unpack(KEYS, 2)}\n", include_str!("scripts/seats.lua") $(, include_str!(concat!("scripts/", $file, ".lua")))+)
    };
}
pub(crate) use {once, script};
