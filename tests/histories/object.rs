//! A lock as a sequential object. Stateright's tester decides whether a history of it is
//! linearizable.
//!
//! The tester searches all orders, so a long history is cut into pieces. Each cut is an instant at
//! which a hold is certainly valid, so the object's state is known. Each grant and release is on
//! one side of the cut: after it with a higher token, before it with a lower one. A try that found
//! the lock held and spans the cut may take effect at the cut itself, where the lock is held. So a
//! history is linearizable exactly if each piece is.

use stateright::semantics::{ConsistencyTester, LinearizabilityTester, SequentialSpec};

use super::story::{Busy, Hold, Story, TaskId};

/// Approximate number of holds between two cuts: more make the search long, fewer find less.
const PIECE: usize = 6;

/// For this long, in nanoseconds, a request that ended without a grant may still take the lock. At
/// worst it is granted as the last of a queue, and then released.
const PASSING: u64 = 2_000_000_000;

/// The lock.
#[derive(Debug, Clone, PartialEq)]
struct Object {
    state: State,
    /// The highest token so far.
    last: u64,
}

#[derive(Debug, Clone, Copy, PartialEq)]
enum State {
    Free,
    Held(u64),
    /// No task has a valid hold; the server may not have freed the lock yet.
    Lingering,
}

#[derive(Debug, Clone, Copy, PartialEq)]
enum Operation {
    Grant(u64),
    /// A grant that its process found already lost, because the process was stopped meanwhile.
    Missed(u64),
    /// A confirmed release.
    Release(u64),
    /// The hold ended locally, without a confirmed release.
    End(u64),
    /// A try that found the lock held.
    Busy,
}

impl SequentialSpec for Object {
    type Op = Operation;
    /// Whether the operation is possible now.
    type Ret = bool;

    fn invoke(&mut self, operation: &Operation) -> bool {
        let (possible, next) = match *operation {
            Operation::Grant(token) => (!matches!(self.state, State::Held(_)) && token > self.last, State::Held(token)),
            Operation::Missed(token) => {
                if !matches!(self.state, State::Held(_)) && token > self.last {
                    (self.state, self.last) = (State::Lingering, token);
                    return true;
                }
                return false;
            }
            Operation::Release(token) => (self.state == State::Held(token), State::Free),
            Operation::End(token) => (self.state == State::Held(token), State::Lingering),
            Operation::Busy => (self.state != State::Free, self.state),
        };
        if possible {
            self.state = next;
            if let State::Held(token) = next {
                self.last = token;
            }
        }
        possible
    }
}

/// One operation of the history. Without a return it may still take effect.
struct Call {
    task: TaskId,
    operation: Operation,
    from: u64,
    to: Option<u64>,
}

/// Returns the pieces of a lock's history that are not linearizable. With faults (`phantoms`), late
/// copies of requests may take the lock for a while, unnoticed by their clients. A try may then
/// find the lock held at any time.
pub(crate) fn violations(story: &Story, phantoms: bool) -> Vec<String> {
    let mut holds: Vec<&Hold> = story.holds.iter().collect();
    holds.sort_by_key(|hold| hold.token);
    let mut cuts: Vec<&Hold> = Vec::new();
    let mut since = 0;
    for hold in &holds {
        since += 1;
        if since >= PIECE && hold.valid_until.is_some_and(|until| until > hold.got) {
            cuts.push(hold);
            since = 0;
        }
    }
    let starts = std::iter::once(None).chain(cuts.iter().copied().map(Some));
    let ends = cuts.iter().copied().map(Some).chain(std::iter::once(None));
    starts.zip(ends).filter_map(|(start, end)| piece(story, &holds, start, end, phantoms)).collect()
}

/// Checks the piece between two certain holds.
fn piece(story: &Story, holds: &[&Hold], start: Option<&Hold>, end: Option<&Hold>, phantoms: bool) -> Option<String> {
    let first = start.map_or(0, |hold| hold.token);
    let last = end.map_or(u64::MAX, |hold| hold.token);
    let mut calls = Vec::new();
    for hold in holds {
        let task = hold.task;
        if hold.valid_until.is_none() && hold.released.is_none() {
            if hold.token > first && hold.token <= last {
                let operation = Operation::Missed(hold.token);
                calls.push(Call { task, operation, from: hold.sent, to: Some(hold.got) });
            }
            continue;
        }
        if hold.token > first && hold.token <= last {
            let operation = Operation::Grant(hold.token);
            calls.push(Call { task, operation, from: hold.sent, to: Some(hold.got) });
        }
        if hold.token >= first && hold.token < last {
            let (operation, from, to) = match hold.released {
                Some((from, to)) => (Operation::Release(hold.token), from, Some(to)),
                None => (Operation::End(hold.token), hold.valid_until.unwrap_or(hold.got), hold.ended),
            };
            // A task does one thing after the other.
            let from = from.max(hold.got + 1);
            calls.push(Call { task, operation, from, to: to.map(|to| to.max(from)) });
        }
    }
    let (opens, closes) = (start.map_or(0, |hold| hold.got), end.map_or(u64::MAX, |hold| hold.got));
    let inside = story.busy.iter().filter(|busy| busy.sent > opens && busy.answered < closes);
    // A request without a grant may have had the lock for a moment. While tasks wait, a try may
    // find the lock held although it is free, because the waiters go first. The same is true while
    // a hand-over to a waiter fails.
    let passing = |answered: u64| story.ungranted.iter().any(|sent| *sent < answered && answered < sent + PASSING);
    let waits = |busy: &Busy| holds.iter().any(|hold| hold.sent < busy.answered && hold.got > busy.sent);
    let inside = inside.filter(|busy| !phantoms && !passing(busy.answered) && !waits(busy));
    calls.extend(inside.map(|busy| Call {
        task: busy.task,
        operation: Operation::Busy,
        from: busy.sent,
        to: Some(busy.answered),
    }));
    let state = start.map_or(State::Free, |hold| State::Held(hold.token));
    let object = Object { state, last: first };
    match linearizable(object, calls) {
        Ok(true) => None,
        Ok(false) => Some(format!("not linearizable after {first}, up to {last}")),
        Err(why) => Some(format!("no history after {first}, up to {last}: {why}")),
    }
}

fn linearizable(object: Object, calls: Vec<Call>) -> Result<bool, String> {
    let mut events = Vec::new();
    for call in calls {
        events.push((call.from, false, call.task, call.operation));
        if let Some(to) = call.to {
            events.push((to, true, call.task, call.operation));
        }
    }
    // At the same instant calls come before returns: they may have been in flight together.
    events.sort_by_key(|(at, returns, ..)| (*at, *returns));
    let mut tester = LinearizabilityTester::new(object);
    for (_, returns, task, operation) in events {
        match returns {
            false => tester.on_invoke(task, operation)?,
            true => tester.on_return(task, true)?,
        };
    }
    Ok(tester.is_consistent())
}
