//! Invariants, and states that must be reachable to make the invariants meaningful.

use stateright::Property;

use super::hold::{Fate, Phase};
use super::network::Request;
use super::server::{Field, Order};
use super::{OneLevel, State};

/// At most one client believes that it holds the lock.
pub const ONE_BELIEVES: &str = "at most one client believes";
/// The key holds the field of the client that believes.
pub const BELIEVED_IS_HELD: &str = "believed is held";
/// The key never holds a field that its client has forgotten.
pub const NOTHING_LEFT_BEHIND: &str = "nothing is left behind";
/// Each grant reported to a caller has a higher token than all grants reported before.
pub const TOKENS_RISE: &str = "tokens rise";
/// "Lost" is reported only for a hold that ended without our own release.
pub const LOST_IS_TRUE: &str = "a report of lost is true";
/// "Released" is reported only for a hold that ended by our own release.
pub const RELEASED_IS_TRUE: &str = "a report of released is true";
/// "Busy" is reported only if the server answered so.
pub const BUSY_IS_TRUE: &str = "a report of busy is true";
/// After the answer "not yours", a client does not believe.
pub const NOT_YOURS_ENDS_BELIEF: &str = "not yours ends belief";

/// A grant was received although an earlier copy of its acquire went unanswered.
pub const GRANT_AFTER_LOSS: &str = "a grant after a lost copy";
/// A copy from a lost connection arrives after its `not_after`.
pub const LATE_REFUSED: &str = "a late copy is refused";
/// A copy from a lost connection arrives in time and takes the key.
pub const LATE_EXECUTED: &str = "a late copy is executed";
/// A lease ends before its client has released the hold.
pub const EXPIRED: &str = "a lease ends under a holder";
/// A client is granted the lock after a crashed client held it.
pub const TAKEN_OVER: &str = "a take-over after a crash";

/// Returns all properties of the model.
pub fn all() -> Vec<Property<OneLevel>> {
    vec![
        Property::always(ONE_BELIEVES, |model: &OneLevel, state: &State| {
            state.key_deleted || believers(model, state).count() <= 1
        }),
        Property::always(BELIEVED_IS_HELD, |model: &OneLevel, state: &State| {
            state.key_deleted || believers(model, state).all(|field| state.server.holder() == Some(field))
        }),
        Property::always(NOTHING_LEFT_BEHIND, nothing_left_behind),
        Property::always(TOKENS_RISE, |_: &OneLevel, state: &State| state.key_deleted || !state.flaws.token_not_above),
        Property::always(LOST_IS_TRUE, |_: &OneLevel, state: &State| state.key_deleted || !state.flaws.untrue_lost),
        Property::always(RELEASED_IS_TRUE, |_: &OneLevel, state: &State| {
            state.key_deleted || !state.flaws.untrue_released
        }),
        Property::always(BUSY_IS_TRUE, |_: &OneLevel, state: &State| !state.flaws.untrue_busy),
        Property::always(NOT_YOURS_ENDS_BELIEF, |_: &OneLevel, state: &State| !state.flaws.ignored_not_yours),
        Property::sometimes(GRANT_AFTER_LOSS, |_: &OneLevel, state: &State| {
            holds(state, |phase, unclean| phase == Phase::Held && unclean)
        }),
        Property::sometimes(LATE_REFUSED, |_: &OneLevel, state: &State| {
            late(state).any(|request| is_acquire(request, |ahead| !ahead))
        }),
        Property::sometimes(LATE_EXECUTED, |_: &OneLevel, state: &State| {
            state.server.key.is_none() && late(state).any(|request| is_acquire(request, |ahead| ahead))
        }),
        Property::sometimes(EXPIRED, |_: &OneLevel, state: &State| {
            state.clients.iter().flat_map(|client| &client.holds).any(|hold| hold.fate == Fate::Ended)
        }),
        Property::sometimes(TAKEN_OVER, |model: &OneLevel, state: &State| {
            state.clients.iter().any(|client| client.crashed == Some(true)) && believers(model, state).next().is_some()
        }),
    ]
}

/// Returns the fields of all clients that believe.
fn believers<'a>(model: &'a OneLevel, state: &'a State) -> impl Iterator<Item = Field> + 'a {
    (0..).zip(&state.clients).filter_map(|(at, client)| {
        let serial = client.believes(&model.rules).then(|| client.current().map(|hold| hold.serial))??;
        Some(Field { client: at, serial })
    })
}

fn nothing_left_behind(_: &OneLevel, state: &State) -> bool {
    let Some(field) = state.server.holder() else { return true };
    let client = &state.clients[usize::from(field.client)];
    client.crashed.is_some() || client.knows(field.serial)
}

fn holds(state: &State, wanted: impl Fn(Phase, bool) -> bool) -> bool {
    state.clients.iter().flat_map(|client| &client.holds).any(|hold| wanted(hold.phase, hold.unclean))
}

/// Returns the requests of lost connections that can arrive next.
fn late(state: &State) -> impl Iterator<Item = &Request> {
    state.clients.iter().flat_map(|client| &client.link.late).map(|requests| &requests[0])
}

fn is_acquire(request: &Request, wanted: impl Fn(bool) -> bool) -> bool {
    matches!(request.order, Order::Acquire { refused_from, .. } if wanted(refused_from.is_ahead()))
}
