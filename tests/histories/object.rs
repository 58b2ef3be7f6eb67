//! A lock as a sequential object, and whether a history of it is linearizable: by stateright's
//! tester.
//!
//! The tester searches all orders, so a long history is cut, at instants at which a hold is
//! certainly believed: there the object's state is known, and every operation is on one side of it.
//! What has a higher token comes after it, what has a lower one before; a look that found the lock
//! taken and lasts across the cut may be put at the cut itself, and is right there. So a history is
//! linearizable exactly if each piece is.

use stateright::semantics::{ConsistencyTester, LinearizabilityTester, SequentialSpec};

use super::story::{Busy, Hold, Story, Who};

/// Holds between two cuts, about: more make the search long, fewer find less.
const PIECE: usize = 6;

/// How long a request that ended without a grant may still have the lock: until it was granted, at
/// worst as the last of a queue, and given back.
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
    /// Nobody believes any more; the server may not have let go yet.
    Lingering,
}

#[derive(Debug, Clone, Copy, PartialEq)]
enum Operation {
    Grant(u64),
    /// Granted, and lost before its holder knew: a process that stood still meanwhile.
    Missed(u64),
    /// Given back, and confirmed.
    Release(u64),
    /// The belief in it ended otherwise.
    End(u64),
    /// A look that found it taken.
    Busy,
}

impl SequentialSpec for Object {
    type Op = Operation;
    /// Whether it is possible now.
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

/// One operation of the history. What never returned may still take effect.
struct Call {
    who: Who,
    operation: Operation,
    from: u64,
    to: Option<u64>,
}

/// The pieces of a lock's history that are not linearizable. In bad weather (`phantoms`) copies of
/// requests may take the lock for a while without a holder knowing: there it may be found taken at
/// any time.
pub(crate) fn violations(story: &Story, phantoms: bool) -> Vec<String> {
    let mut holds: Vec<&Hold> = story.holds.iter().collect();
    holds.sort_by_key(|hold| hold.token);
    let mut cuts: Vec<&Hold> = Vec::new();
    let mut since = 0;
    for hold in &holds {
        since += 1;
        if since >= PIECE && hold.believed.is_some_and(|until| until > hold.got) {
            cuts.push(hold);
            since = 0;
        }
    }
    let starts = std::iter::once(None).chain(cuts.iter().copied().map(Some));
    let ends = cuts.iter().copied().map(Some).chain(std::iter::once(None));
    starts.zip(ends).filter_map(|(start, end)| piece(story, &holds, start, end, phantoms)).collect()
}

/// Checks what lies between two holds that are certain.
fn piece(story: &Story, holds: &[&Hold], start: Option<&Hold>, end: Option<&Hold>, phantoms: bool) -> Option<String> {
    let first = start.map_or(0, |hold| hold.token);
    let last = end.map_or(u64::MAX, |hold| hold.token);
    let mut calls = Vec::new();
    for hold in holds {
        let who = hold.who;
        if hold.believed.is_none() && hold.released.is_none() {
            if hold.token > first && hold.token <= last {
                let operation = Operation::Missed(hold.token);
                calls.push(Call { who, operation, from: hold.asked, to: Some(hold.got) });
            }
            continue;
        }
        if hold.token > first && hold.token <= last {
            let operation = Operation::Grant(hold.token);
            calls.push(Call { who, operation, from: hold.asked, to: Some(hold.got) });
        }
        if hold.token >= first && hold.token < last {
            let (operation, from, to) = match hold.released {
                Some((from, to)) => (Operation::Release(hold.token), from, Some(to)),
                None => (Operation::End(hold.token), hold.believed.unwrap_or(hold.got), hold.ended),
            };
            // A task does one thing after the other.
            let from = from.max(hold.got + 1);
            calls.push(Call { who, operation, from, to: to.map(|to| to.max(from)) });
        }
    }
    let (opens, closes) = (start.map_or(0, |hold| hold.got), end.map_or(u64::MAX, |hold| hold.got));
    let inside = story.busy.iter().filter(|busy| busy.asked > opens && busy.told < closes);
    // A request without a grant may have had it for a moment. While others wait, a look finds it
    // taken although it is free: they go first; so it is where a hand-over to one of them fails.
    let passing = |told: u64| story.without.iter().any(|asked| *asked < told && told < asked + PASSING);
    let waits = |busy: &Busy| holds.iter().any(|hold| hold.asked < busy.told && hold.got > busy.asked);
    let inside = inside.filter(|busy| !phantoms && !passing(busy.told) && !waits(busy));
    calls.extend(inside.map(|busy| Call {
        who: busy.who,
        operation: Operation::Busy,
        from: busy.asked,
        to: Some(busy.told),
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
        events.push((call.from, false, call.who, call.operation));
        if let Some(to) = call.to {
            events.push((to, true, call.who, call.operation));
        }
    }
    // At the same instant calls come before returns: they may have been under way together.
    events.sort_by_key(|(at, returns, ..)| (*at, *returns));
    let mut tester = LinearizabilityTester::new(object);
    for (_, returns, who, operation) in events {
        match returns {
            false => tester.on_invoke(who, operation)?,
            true => tester.on_return(who, true)?,
        };
    }
    Ok(tester.is_consistent())
}
