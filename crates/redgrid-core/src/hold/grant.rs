//! The armed proof of a hold, of which every guard is made.

use std::future::poll_fn;
use std::pin::Pin;
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::Duration;

use super::error::{ExtendError, LostReason, ReleaseError};
use super::flight::Flight;
use super::release::LetGo;
use super::state::Hold;
use super::table::Table;
use super::terms::Lease;
use crate::clock::Instant;
use crate::config::{LONGEST_LEASE, SHORTEST_LEASE};
use crate::connection::{Client, Persistence, Progress, certainly_over};
use crate::error::ServerError;
use crate::name::Name;
use crate::token::Token;

/// A hold, and the means to end it. Dropping it gives the hold back in the background.
#[must_use = "dropping the grant gives the hold back"]
pub struct Grant {
    client: Client,
    hold: Arc<Hold>,
    armed: bool,
}

impl Grant {
    /// Counted under the table's lock, which every caller holds.
    pub(super) fn new(client: Client, hold: Arc<Hold>) -> Self {
        hold.guards.fetch_add(1, Ordering::AcqRel);
        Grant { client, hold, armed: true }
    }

    fn table(&self) -> &Arc<Table> {
        self.client.table()
    }

    /// What is held.
    pub fn name(&self) -> &Name {
        &self.hold.target.name
    }

    /// The fencing token of this hold.
    pub fn token(&self) -> Token {
        Token::new(self.hold.token)
    }

    /// The holder field on the server.
    pub fn field(&self) -> &[u8] {
        &self.hold.field
    }

    /// Whether the hold may be believed at this instant, by our own clock.
    pub fn is_held(&self) -> bool {
        self.hold.is_held()
    }

    /// How it ended without us, if it did.
    pub fn lost_reason(&self) -> Option<LostReason> {
        self.hold.lost()
    }

    /// How long it may be believed without a further confirmation; zero when it has ended.
    pub fn remaining(&self) -> Duration {
        if self.is_held() { self.hold.deadline().since(self.hold.clock.now()) } else { Duration::ZERO }
    }

    /// A view of the hold for other tasks.
    pub fn watch(&self) -> HoldWatch {
        HoldWatch(Arc::clone(&self.hold))
    }

    /// Another grant of the same hold, without asking anybody; `None` when it has ended.
    pub fn again(&self) -> Option<Grant> {
        let state = self.table().state();
        let again = self.is_held().then(|| Grant::new(self.client.clone(), Arc::clone(&self.hold)));
        drop(state);
        again
    }

    /// Completes when the hold is no longer certain.
    pub async fn lost(&self) -> LostReason {
        self.watch().lost().await
    }

    /// Sets the lease to `lease` from now on.
    ///
    /// # Errors
    ///
    /// [`ExtendError`] says what may be believed then.
    ///
    /// # Cancel safety
    ///
    /// Dropped early, the new lease may or may not be in force; the earlier end of the two is believed.
    pub async fn extend(&self, lease: Duration) -> Result<(), ExtendError> {
        let hold = &self.hold;
        let name = || hold.target.name.clone();
        if lease < SHORTEST_LEASE || lease > LONGEST_LEASE {
            return Err(ExtendError::InvalidArgument { name: name(), expected: "100 ms to 30 days", got: lease });
        }
        if let Some(reason) = hold.lost() {
            return Err(ExtendError::Lost { name: name(), reason });
        }
        let core = &self.table().core;
        let sent = core.clock.now();
        let shorter = super::terms::deadline(sent, lease) < hold.deadline();
        if shorter && hold.is_renewed() {
            // The next renewal would lengthen it again: a renewed hold is not shortened, it is released.
            return Ok(());
        }
        if shorter {
            let underway = Shortening::begin(hold, sent, lease, core.settings.timeout);
            self.table().reschedule(hold);
            // The name stays taken for `at_least`, however early the hold is to end.
            let keep = super::terms::still_to_keep(hold.wish.at_least, hold.granted, sent);
            let request = hold.kind.extend(hold.claim(lease.max(keep)));
            let until = hold.deadline().min(core.clock.now() + core.settings.patience());
            let asked = core.exchange(&*hold.server, request, until, Persistence::Retries, &Progress::default()).await;
            underway.end(asked.unanswered_until);
            // Believed from when it was begun, which is not later than when it left.
            return self.extended(asked.result.and_then(|reply| reply.into_typed()), sent, lease);
        }
        // Lengthening twice is lengthening once: the renewal script, sent until it is answered.
        let request = hold.kind.renew(&[hold.claim(lease)]);
        let until = hold.deadline().min(core.clock.now() + core.settings.patience());
        let asked = core.exchange(&*hold.server, request, until, Persistence::Retries, &Progress::default()).await;
        let status = asked.result.and_then(|reply| reply.into_typed::<Vec<i64>>());
        let status = status.map(|list| (list.first().copied().unwrap_or_default(), 0));
        self.extended(status, asked.sent, lease)
    }

    fn extended(
        &self,
        status: Result<(i64, u64), ServerError>,
        sent: Instant,
        lease: Duration,
    ) -> Result<(), ExtendError> {
        let hold = &self.hold;
        let name = || hold.target.name.clone();
        match status {
            Ok((1, _)) => {
                if let Lease::Fixed(_) = hold.wish.lease {
                    hold.set_lease(lease);
                }
                let believed = hold.confirmed(sent, lease);
                self.table().reschedule(hold);
                match hold.lost() {
                    Some(reason) => Err(ExtendError::Lost { name: name(), reason }),
                    None if believed < super::terms::deadline(sent, lease) => {
                        let source =
                            ServerError::unknown("a shorter lease that was not answered may still take effect");
                        Err(ExtendError::OutcomeUnknown { name: name(), source })
                    }
                    None => Ok(()),
                }
            }
            Ok((0, _)) => {
                self.table().gone(hold);
                Err(ExtendError::Lost { name: name(), reason: LostReason::Gone })
            }
            Ok(_) => {
                let source = ServerError::not_sent("the server found the request too late");
                Err(ExtendError::NotExtended { name: name(), source })
            }
            Err(source @ (ServerError::Unknown { .. } | ServerError::Decode { .. })) => {
                Err(ExtendError::OutcomeUnknown { name: name(), source })
            }
            Err(source) => Err(ExtendError::NotExtended { name: name(), source }),
        }
    }

    /// Gives it back and waits for the answer. The release goes on if this is dropped.
    ///
    /// # Errors
    ///
    /// [`ReleaseError::Lost`] when it had ended before.
    ///
    /// # Cancel safety
    ///
    /// Dropped early, the release goes on in the background.
    pub async fn release(mut self) -> Result<(), ReleaseError> {
        self.armed = false;
        let name = self.hold.target.name.clone();
        match self.table().let_go(&self.hold) {
            LetGo::StillHeld => Ok(()),
            LetGo::Lost(reason) => Err(ReleaseError::Lost { name, reason }),
            LetGo::Release(work, mut told, alone) => {
                let table = Arc::clone(self.table());
                let flight = if alone {
                    Landing(Arc::clone(&table), table.fly(&self.hold, work))
                } else {
                    table.hand_over(work);
                    Landing(table, Flight::new(Box::pin(async {})))
                };
                let outcome = poll_fn(|cx| {
                    flight.1.poll(cx);
                    Pin::new(&mut told).poll(cx)
                })
                .await;
                outcome.unwrap_or_else(|_| {
                    let source = ServerError::not_sent("the client is shut down");
                    Err(ReleaseError::OutcomeUnknown { name, source })
                })
            }
        }
    }

    /// Stops renewing and leaves the hold to its lease.
    pub fn forget(mut self) {
        self.armed = false;
        self.table().stop_renewing(&self.hold);
    }
}

/// An extension to a shorter lease under way. Dropped early, it counts as unanswered.
struct Shortening<'a> {
    hold: &'a Hold,
    timeout: Duration,
    ended: bool,
}

impl<'a> Shortening<'a> {
    fn begin(hold: &'a Hold, sent: Instant, lease: Duration, timeout: Duration) -> Self {
        hold.begin_shortening(sent, lease);
        Shortening { hold, timeout, ended: false }
    }

    fn end(mut self, unanswered_until: Option<Instant>) {
        self.ended = true;
        self.hold.end_shortening(unanswered_until);
    }
}

impl Drop for Shortening<'_> {
    fn drop(&mut self) {
        if !self.ended {
            let limit = self.hold.clock.now() + self.timeout;
            self.hold.end_shortening(Some(certainly_over(limit, self.timeout)));
        }
    }
}

/// A release that its caller polls; dropped early, a task goes on with it.
struct Landing(Arc<Table>, Flight);

impl Drop for Landing {
    fn drop(&mut self) {
        if let Some(work) = self.1.take() {
            self.0.hand_over(work);
        }
    }
}

impl Drop for Grant {
    fn drop(&mut self) {
        if self.armed
            && let LetGo::Release(work, ..) = self.table().let_go(&self.hold)
        {
            self.table().hand_over(work);
        }
    }
}

impl Table {
    fn reschedule(&self, hold: &Hold) {
        let mut state = self.state();
        let due = hold.is_renewed().then(|| super::terms::next_renewal(self.now(), hold.lease()));
        state.schedule.reschedule(hold.id, due);
        self.wake_engine(&state);
    }

    fn stop_renewing(&self, hold: &Hold) {
        hold.forget();
        hold.guards.fetch_sub(1, Ordering::AcqRel);
        self.state().schedule.reschedule(hold.id, None);
    }

    fn gone(self: &Arc<Self>, hold: &Arc<Hold>) {
        let mut state = self.state();
        if state.schedule.get(hold.id).is_some() {
            self.lose(&mut state, hold, LostReason::Gone);
        }
    }
}

/// A view of a hold: cloneable, for other tasks. It does not keep the hold.
#[derive(Clone)]
pub struct HoldWatch(Arc<Hold>);

impl HoldWatch {
    /// Whether the hold may be believed at this instant, by our own clock.
    pub fn is_held(&self) -> bool {
        self.0.is_held()
    }

    /// The fencing token of the hold.
    pub fn token(&self) -> Token {
        Token::new(self.0.token)
    }

    /// How it ended without being released, if it did.
    pub fn lost_reason(&self) -> Option<LostReason> {
        self.0.lost()
    }

    /// Completes when the hold is no longer certain. Never, if it was released before.
    ///
    /// # Cancel safety
    ///
    /// Dropping it leaves nothing behind.
    pub async fn lost(&self) -> LostReason {
        self.0.ended().await;
        match self.0.lost() {
            Some(reason) => reason,
            None => std::future::pending().await,
        }
    }

    /// Completes when the hold has ended, by release or loss; tells which.
    ///
    /// # Cancel safety
    ///
    /// Dropping it leaves nothing behind.
    pub async fn ended(&self) -> Option<LostReason> {
        self.0.ended().await;
        self.0.lost()
    }
}
