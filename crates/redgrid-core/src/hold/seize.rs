//! Taking a name by force, past every queue.

use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use tokio::sync::oneshot;

use super::attempt::{Verdict, judge};
use super::error::{AcquireError, LostReason};
use super::grant::Grant;
use super::kind::{Claim, HoldKind, Target};
use super::release::Settlement;
use super::state::{Granted, Hold, Phase};
use super::table::{Failure, Place, Slot, SlotKey, Table};
use super::terms::Wish;
use super::ticket::told;
use crate::clock::Instant;
use crate::connection::{Client, Exchange, Persistence, Progress};
use crate::error::ServerError;

impl Table {
    pub(crate) async fn seize(
        self: &Arc<Self>,
        client: &Client,
        kind: &'static dyn HoldKind,
        target: &Arc<Target>,
        wish: Wish,
        only_if_held: bool,
    ) -> Result<Option<Grant>, AcquireError> {
        if self.state().closed {
            return Err(AcquireError::ShuttingDown { name: target.name.clone() });
        }
        let (answer, outcome) = oneshot::channel();
        let (table, client, name) = (Arc::clone(self), client.clone(), target.name.clone());
        let target = Arc::clone(target);
        // A task of its own: whoever asked may leave, and what was taken must not stay.
        self.hand_over(Box::pin(async move {
            let _ = answer.send(table.seize_for(client, kind, target, wish, only_if_held).await);
        }));
        outcome.await.unwrap_or(Err(Failure::ShuttingDown)).map_err(|failure| told(failure, name))
    }

    async fn seize_for(
        self: Arc<Self>,
        client: Client,
        kind: &'static dyn HoldKind,
        target: Arc<Target>,
        wish: Wish,
        only_if_held: bool,
    ) -> Result<Option<Grant>, Failure> {
        let server = self.core.topology.primary(&target.key);
        let place = Place { hub: self.core.hub(&server), server };
        let id = self.number();
        let field = self.core.field(id);
        let lease = wish.first_lease();
        let claim = Claim { target: &target, field: &field, lease };
        let request = kind.seize(claim, &self.core.notice_prefix(), only_if_held);
        let until = self.now() + self.core.settings.patience();
        let asked =
            self.core.exchange(&*place.server, request, until, Persistence::Within(lease), &Progress::default()).await;
        match judge(&place, &asked) {
            Verdict::Granted { token } => {
                let granted = granted(id, field, token, &asked);
                let hold = Hold::new(
                    granted,
                    Arc::clone(&target),
                    kind,
                    Arc::clone(&place.server),
                    self.core.clock.clone(),
                    wish,
                );
                Ok(self.install(client, place, Arc::new(hold)))
            }
            Verdict::Busy(_) | Verdict::TooLate if asked.unanswered_until.is_some() => {
                self.unsettled(&place, kind, &target, &field, &asked, lease);
                let why = "an earlier copy was not answered, and it is too late for another";
                Err(Failure::Unknown(ServerError::unknown(why)))
            }
            Verdict::Busy(_) => Ok(None),
            Verdict::TooLate => {
                Err(Failure::Unavailable(ServerError::not_sent("the server found the request too late")))
            }
            Verdict::Failed(failure) => {
                self.unsettled(&place, kind, &target, &field, &asked, lease);
                Err(if asked.unanswered_until.is_some() { failure.unknown() } else { failure })
            }
        }
    }

    /// What we hold under the name now, instead of what we held before.
    fn install(self: &Arc<Self>, client: Client, place: Place, hold: Arc<Hold>) -> Option<Grant> {
        let key = SlotKey(hold.kind.name(), hold.target.key.clone());
        let now = self.now();
        let mut state = self.state();
        if state.closed {
            drop(state);
            self.give_back(&hold);
            return None;
        }
        let forced = state.forced.remove(&hold.id).is_some();
        let slot = state.slots.entry(key).or_insert_with(|| Slot::new(place, hold.kind, Arc::clone(&hold.target), now));
        if forced || hold.token < slot.highest {
            // Another was quicker to take it from us than we to know that we had it.
            hold.end(LostReason::Forced.into());
            slot.lost.push(Arc::downgrade(&hold));
            return Some(Grant::new(client, hold));
        }
        slot.highest = hold.token;
        if let Some(former) = slot.hold.replace(Arc::clone(&hold)) {
            if former.phase() != Phase::Released {
                slot.lost.push(Arc::downgrade(&former));
            }
            state.schedule.remove(former.id);
            former.end(LostReason::Forced.into());
        }
        self.register(&mut state, &hold);
        Some(Grant::new(client, hold))
    }

    fn unsettled(
        self: &Arc<Self>,
        place: &Place,
        kind: &'static dyn HoldKind,
        target: &Arc<Target>,
        field: &Bytes,
        asked: &Exchange,
        lease: Duration,
    ) {
        if let Some(limit) = asked.unanswered_until {
            let (server, target) = (Arc::clone(&place.server), Arc::clone(target));
            let (field, keep_until) = (field.clone(), Instant::PAST);
            self.settle(Settlement { server, kind, target, field, limit, at_once: true, keep_until, lease });
        }
    }
}

fn granted(id: u64, field: Bytes, token: u64, asked: &Exchange) -> Granted {
    let (sent, received, unanswered_until) = (asked.sent, asked.received, asked.unanswered_until);
    Granted { id, field, token, sent, received, unanswered_until }
}
