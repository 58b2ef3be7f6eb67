//! Requests of a holder that already has the lock. Other functions return whether a holder, or this
//! client, has a lock.

use std::sync::Arc;

use super::acquire::{HoldGuard, PendingAcquire};
use super::error::AcquireError;
use super::hold::Hold;
use super::protocol::{AcquireRequest, Holder, HolderId, LockKeys, LockProtocol};
use super::table::{LockState, State, Table};

impl Hold {
    fn is_released(&self) -> bool {
        self.end.get() == Some(&None)
    }
}

impl Table {
    /// Re-enters a hold of the request's holder, or shares a grant of readers, without a request
    /// to the server.
    ///
    /// Returns `None` if the request needs a grant of its own. In that case, the key of `pending`
    /// identifies the queue in which the request must wait.
    pub(super) fn share_held(
        &self,
        state: &mut State,
        pending: &mut PendingAcquire,
    ) -> Result<Option<HoldGuard>, AcquireError> {
        let (kind, keys, request) = (pending.kind, Arc::clone(&pending.key.keys), Arc::clone(&pending.request.options));
        let known = match request.holder.is_some() || Holder::current().is_some() {
            true => {
                state.grants_of(kind.name(), &keys).find_map(|key| reenter(state.locks.get(&key)?, &request, &keys))
            }
            false => None,
        };
        // An exclusive hold is re-entered, even if the request converts another hold of the same
        // holder.
        if let Some(known) = known.filter(|_| pending.under.is_none() || !kind.is_shared()) {
            return Ok(Some(HoldGuard::further(pending.answer.client.clone(), known?)));
        }
        if kind.read_write().is_none() {
            return Ok(None);
        }
        let under = match pending.under {
            None => state.held_in_paired_mode(kind, &keys, &request)?,
            given => given,
        };
        let shared = self.place(state, pending, under);
        Ok(shared.map(|hold| HoldGuard::first(pending.answer.client.clone(), hold)))
    }

    /// Returns whether the holder holds the key, in either mode (reading or writing). Without a
    /// holder, returns whether this client holds it.
    pub(crate) fn holds_key(&self, kind: &dyn LockProtocol, keys: &Arc<LockKeys>, holder: Option<HolderId>) -> bool {
        let state = self.state();
        let locks = state.all_of(kind, keys);
        let mut held = locks.iter().filter_map(|key| state.locks.get(key)).flat_map(|lock| lock.held());
        held.any(|hold| holder.is_none() || hold.request.holder == holder)
    }
}

/// Re-enters the hold of the request's holder, without a request to the server.
///
/// Returns `None` if there is no hold to re-enter. Returns an error if the request must fail
/// instead of waiting, for example because its holder has lost the hold.
pub(super) fn reenter(
    lock: &LockState,
    request: &AcquireRequest,
    keys: &LockKeys,
) -> Option<Result<Arc<Hold>, AcquireError>> {
    let name = || keys.name.clone();
    if let Some(holder) = request.holder {
        if let Some(hold) = lock.held().find(|hold| hold.request.holder == Some(holder)) {
            if !request.reenters {
                return Some(Err(AcquireError::AlreadyHeld { name: name() }));
            }
            if request.at_least > hold.request.at_least {
                let expected = "as set by the holder's first acquire";
                let error = AcquireError::invalid_argument(&keys.name, "hold_at_least", expected, request.at_least);
                return Some(Err(error));
            }
            return Some(Ok(Arc::clone(hold)));
        }
        // While a lost hold still has a guard, requests of its holder fail. When the last guard is
        // dropped, the holder can request the lock again.
        let lost_by =
            |hold: &Arc<Hold>| hold.request.holder == Some(holder) && !hold.is_released() && hold.is_guarded();
        let mut former = lock.lost.iter().flat_map(|lost| lost.iter()).filter_map(std::sync::Weak::upgrade);
        if lock.holds.iter().any(lost_by) || former.any(|hold| lost_by(&hold)) {
            return Some(Err(AcquireError::Lost { name: name() }));
        }
    }
    if lock.protocol.is_shared() || request.wait.is_some() || request.once {
        return None;
    }
    let scope: HolderId = Holder::current()?.id();
    let is_by_scope = lock.held().any(|hold| hold.request.holder == Some(scope));
    is_by_scope.then(|| Err(AcquireError::WouldDeadlock { name: name() }))
}
