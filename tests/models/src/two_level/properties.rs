//! Invariants, and states that must be reachable to make the invariants meaningful.

use stateright::Property;

use super::process::{Guard, Poll, Process};
use super::server::Field;
use super::{State, TwoLevel};

/// At most one owner believes, over all tasks of all processes. Preempted owners that have not read
/// the notice are not counted.
pub const ONE_BELIEVES: &str = "at most one owner believes";
/// If a task believes, the key holds the field of its process.
pub const BELIEVED_IS_HELD: &str = "believed is held";
/// No task believes for longer than the key exists.
pub const DEADLINE_IN_EXPIRY: &str = "a deadline lies within the key's expiry";
/// A process holds the key whenever one of its tasks enters.
pub const ENTERED_IS_HELD: &str = "entered is held";
/// Tokens rise in the order in which they are issued.
pub const TOKENS_RISE: &str = "tokens rise";
/// A preempted process issues only tokens below those issued since the takeover.
pub const PREEMPTED_STAYS_BELOW: &str = "tokens of a preempted process stay below";
/// No token is above the server's time.
pub const TOKEN_IN_TIME: &str = "no token is ahead of the server's time";
/// After the notice of a forced takeover, the server lease is not handed over.
pub const NOTICE_ENDS_HANDOVER: &str = "a notice ends hand-over";
/// Tasks of one process enter in the order of their acquires.
pub const FIRST_COME: &str = "first come, first served";
/// No task enters before an `at_least` has ended.
pub const AT_LEAST: &str = "at least is kept";
/// No server lease is released while the first waiter could use it.
pub const NOTHING_THROWN_AWAY: &str = "no grant is thrown away";
/// While a task waits, the process has an owner, a server lease, a request in flight, or another
/// next step.
pub const NO_LOST_WAKE_UP: &str = "no wake-up is lost";
/// A server lease without an owner always has a next step.
pub const LEASE_MOVES: &str = "a server lease without an owner has a next step";
/// The key never holds a field that its process has forgotten.
pub const NOTHING_LEFT_BEHIND: &str = "nothing is left behind";

/// A second task owns the same server lease.
pub const HANDED_OVER: &str = "a server lease is handed over";
/// A lease is lengthened for the next owner.
pub const LENGTHENED: &str = "a lease is lengthened for the next";
/// An owner's deadline passes while its server lease lasts.
pub const ENFORCED: &str = "an owner's deadline passes within its server lease";
/// A task of a process that took the key by force believes.
pub const FORCED: &str = "a taker enters";
/// A preempted process still believes.
pub const PREEMPTED_BELIEVES: &str = "a preempted process still believes";
/// A copy from a lost connection takes the key late.
pub const LATE_EXECUTED: &str = "a late copy is executed";
/// A process enters after another one crashed.
pub const TAKEN_OVER: &str = "a take-over after a crash";
/// A task enters by a grant although a copy of its acquire was never answered.
pub const GRANT_AFTER_LOSS: &str = "a grant after a lost copy";
/// One ownership has two guards.
pub const ENTERED_AGAIN: &str = "a holder has two guards";

/// Returns all properties of the model.
pub fn all() -> Vec<Property<TwoLevel>> {
    let mut all = always();
    all.extend(sometimes());
    all
}

fn always() -> Vec<Property<TwoLevel>> {
    vec![
        Property::always(ONE_BELIEVES, one_believes),
        Property::always(BELIEVED_IS_HELD, |model: &TwoLevel, state: &State| {
            believers(model, state).all(|(field, _)| state.server.holder() == Some(field))
        }),
        Property::always(DEADLINE_IN_EXPIRY, |model: &TwoLevel, state: &State| {
            let Some(key) = state.server.key else { return true };
            believers(model, state).all(|(field, guard)| field != key.holder || guard.deadline <= key.expiry)
        }),
        Property::always(ENTERED_IS_HELD, |_: &TwoLevel, state: &State| !state.flaws.unheld),
        Property::always(TOKENS_RISE, |_: &TwoLevel, state: &State| !state.flaws.token_not_above),
        Property::always(PREEMPTED_STAYS_BELOW, |_: &TwoLevel, state: &State| !state.flaws.token_not_below),
        Property::always(TOKEN_IN_TIME, |_: &TwoLevel, state: &State| !state.flaws.token_ahead),
        Property::always(NOTICE_ENDS_HANDOVER, |_: &TwoLevel, state: &State| !state.flaws.ignores_notice),
        Property::always(FIRST_COME, |_: &TwoLevel, state: &State| !state.flaws.overtook),
        Property::always(AT_LEAST, |_: &TwoLevel, state: &State| !state.flaws.too_early),
        Property::always(NOTHING_THROWN_AWAY, |_: &TwoLevel, state: &State| !state.flaws.thrown_away),
        Property::always(NO_LOST_WAKE_UP, |_: &TwoLevel, state: &State| {
            state.processes.iter().all(waiters_have_a_next_step)
        }),
        Property::always(LEASE_MOVES, |_: &TwoLevel, state: &State| state.processes.iter().all(lease_has_a_next_step)),
        Property::always(NOTHING_LEFT_BEHIND, |_: &TwoLevel, state: &State| {
            let Some(field) = state.server.holder() else { return true };
            let process = &state.processes[usize::from(field.process)];
            process.crashed || process.knows(field.serial)
        }),
    ]
}

fn sometimes() -> Vec<Property<TwoLevel>> {
    vec![
        Property::sometimes(HANDED_OVER, |_: &TwoLevel, state: &State| {
            owned(state).any(|process| process.server_lease.is_some_and(|server_lease| server_lease.handed_over))
        }),
        Property::sometimes(LENGTHENED, |_: &TwoLevel, state: &State| {
            owned(state).any(|process| process.server_lease.is_some_and(|server_lease| server_lease.lengthened))
        }),
        Property::sometimes(ENFORCED, |_: &TwoLevel, state: &State| {
            owned(state).any(|process| {
                process.owner.is_some_and(|owner| !owner.deadline.is_ahead())
                    && process.server_lease.is_some_and(|server_lease| server_lease.deadline.is_ahead())
            })
        }),
        Property::sometimes(FORCED, |model: &TwoLevel, state: &State| {
            let is_preempted =
                state.processes.iter().any(|process| process.preempted.iter().any(|preempted| preempted.followed));
            is_preempted && believers(model, state).next().is_some()
        }),
        Property::sometimes(PREEMPTED_BELIEVES, |_: &TwoLevel, state: &State| {
            state.processes.iter().any(|process| process.guards.iter().any(|guard| process.was_preempted(guard.serial)))
        }),
        Property::sometimes(LATE_EXECUTED, |_: &TwoLevel, state: &State| {
            state.server.holder().is_some_and(|field| {
                let process = &state.processes[usize::from(field.process)];
                process.deferred.iter().any(|left| left.serial == field.serial && left.answered)
            })
        }),
        Property::sometimes(TAKEN_OVER, |model: &TwoLevel, state: &State| {
            state.processes.iter().any(|process| process.crashed) && believers(model, state).next().is_some()
        }),
        Property::sometimes(GRANT_AFTER_LOSS, |_: &TwoLevel, state: &State| {
            owned(state)
                .any(|process| process.server_lease.is_some_and(|server_lease| server_lease.unanswered.is_some()))
        }),
        Property::sometimes(ENTERED_AGAIN, |_: &TwoLevel, state: &State| {
            state.processes.iter().any(|process| {
                let mut numbers: Vec<u8> = process.guards.iter().map(|guard| guard.number).collect();
                numbers.sort_unstable();
                numbers.windows(2).any(|pair| pair[0] == pair[1])
            })
        }),
    ]
}

/// Returns the guards of tasks that believe, each with the field that the key should hold. Guards
/// of preempted attempts are excluded.
fn believers<'a>(model: &'a TwoLevel, state: &'a State) -> impl Iterator<Item = (Field, &'a Guard)> {
    (0..).zip(&state.processes).flat_map(move |(at, process)| {
        process
            .guards
            .iter()
            .filter(|guard| !guard.notified && (guard.deadline.is_ahead() || !model.rules.owner_has_a_deadline))
            .filter(|guard| !process.was_preempted(guard.serial))
            .map(move |guard| (Field { process: at, serial: guard.serial }, guard))
    })
}

fn one_believes(model: &TwoLevel, state: &State) -> bool {
    let mut owners = believers(model, state).map(|(field, guard)| (field.process, guard.number));
    let first = owners.next();
    owners.all(|owner| Some(owner) == first)
}

fn owned(state: &State) -> impl Iterator<Item = &Process> {
    state.processes.iter().filter(|process| process.owner.is_some())
}

fn waiters_have_a_next_step(process: &Process) -> bool {
    process.queue.is_empty() || process.server_lease.is_some() || process.flight.is_some() || process.poll != Poll::Idle
}

fn lease_has_a_next_step(process: &Process) -> bool {
    let Some(server_lease) = &process.server_lease else { return true };
    process.owner.is_some() || server_lease.release_queued || process.flight.is_some() || server_lease.watched
}
