//! What all synchronizers of this crate do: ask under their name, and look again and again until there is an answer.

use std::time::Duration;

use bytes::Bytes;
use redgrid_core::clock::Instant;
use redgrid_core::name::{InvalidName, companion};
use redgrid_core::{Client, FromReply, Name, OnceRequest, Request, Watch};

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

/// A synchronizer by its name, its keys beside it.
#[derive(Clone, Debug)]
pub(crate) struct Place {
    pub(crate) client: Client,
    pub(crate) name: Name,
    pub(crate) key: Bytes,
    pub(crate) channel: Bytes,
    object: &'static str,
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
        Ok(Place { client: client.clone(), key: companion(&format!("redgrid_{object}"), &own), name, channel, object })
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
            return Err(AskError::ShuttingDown { name: self.name.clone() });
        }
        self.client.run(request).await.map_err(|error| self.failed(error))
    }

    pub(crate) async fn ask_once<T: FromReply>(&self, request: OnceRequest) -> Result<T, AskError> {
        if self.client.is_shut_down() {
            return Err(AskError::ShuttingDown { name: self.name.clone() });
        }
        self.client.run_once(request).await.map_err(|error| self.failed(error))
    }

    fn failed(&self, error: redgrid_core::ServerError) -> AskError {
        // What ended because of the shutdown says so.
        match self.client.is_shut_down() {
            true => AskError::ShuttingDown { name: self.name.clone() },
            false => AskError::of(&self.name, error),
        }
    }

    /// How a wait is bounded.
    pub(crate) fn bound(&self, within: Option<Duration>) -> Bound {
        let began = self.client.clock().now();
        Bound { began, until: within.map_or(Instant::NEVER, |within| began + within) }
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
        let (mut watch, mut failure): (Option<Watch>, _) = (None, None);
        let mut contact = false;
        let over = |failure: Option<AskError>, contact: bool| {
            let unasked = || {
                AskError::of(&self.name, redgrid_core::ServerError::Unknown { reason: "no answer came in time".into() })
            };
            match failure.or_else(|| (!contact).then(unasked)) {
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
                () = clock.sleep_until(bound.until) => return Err(over(failure, contact)),
            };
            let pause = match answer {
                Ok(answer) => {
                    (contact, failure) = (true, None);
                    match seen(answer)? {
                        Seen::Done(done) => return Ok(done),
                        Seen::Wait(left) => {
                            u64::try_from(left).map_or(Duration::MAX, Duration::from_millis).saturating_add(AFTER)
                        }
                        Seen::Late => ANEW,
                    }
                }
                // Who set a bound waits up to it, without contact too.
                Err(error) if error.is_passing() && bound.until != Instant::NEVER => {
                    failure = Some(error);
                    UNHEARD
                }
                Err(error) => return Err(E::from(WaitError::Failed(error))),
            };
            let watch = watch.get_or_insert_with(|| self.client.watch(self.channel.clone(), self.key.clone()));
            let beneath = if watch.in_force() { self.between_looks() } else { UNHEARD };
            tokio::select! {
                biased;
                () = self.client.shutting_down() => {
                    return Err(E::from(WaitError::Failed(AskError::ShuttingDown { name: self.name.clone() })));
                }
                _ = watch.wake() => {}
                () = clock.sleep_until(clock.now() + pause.min(beneath)) => {}
                () = clock.sleep_until(bound.until) => return Err(over(failure, contact)),
            }
        }
    }

    /// How long a waiter lets pass that is told of changes; three times a lease at least, as a look renews it.
    fn between_looks(&self) -> Duration {
        (self.client.poll_interval() * POLLS).min(self.client.watchdog_lease() / 3)
    }
}

/// From when, and until when somebody waits.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Bound {
    pub(crate) began: Instant,
    pub(crate) until: Instant,
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
