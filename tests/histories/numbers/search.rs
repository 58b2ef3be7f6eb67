//! A number as a sequential object, and a search for an order of the calls that explains all
//! answers.
//!
//! The search is that of Wing and Gong, with Lowe's memory of visited situations. A situation is
//! the set of executed calls and the resulting number. An unanswered call may take effect at any
//! later time, or never.

use std::collections::HashSet;

use redgrid_atomic_long::Comparison;

/// An operation on a number.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Op {
    Get,
    Add(i64),
    GetAndAdd(i64),
    AddAtMost { by: i64, most: i64, clamps: bool },
    Set(i64),
    GetAndSet(i64),
    GetAndDelete,
    Delete,
    CompareAndSet(i64, i64),
    SetIf(Comparison, i64, i64),
    DeleteIf(Comparison, i64),
    Update,
}

/// The answer of a call.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Answer {
    Done,
    Number(i64),
    Truth(bool),
    Overflow,
    OutOfBounds(i64),
}

/// Returns the number after [`Op::Update`].
pub(crate) fn changed(n: i64) -> i64 {
    n.wrapping_mul(3).wrapping_add(1)
}

/// A call, from its start to its answer, in nanoseconds.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(crate) struct Call {
    pub(crate) caller: (usize, usize),
    pub(crate) op: Op,
    pub(crate) from: u64,
    /// The time of the answer, and the answer. An unanswered call may take effect after this time,
    /// or never.
    pub(crate) answer: Option<(u64, Answer)>,
}

/// The result of a search.
#[derive(Debug, PartialEq)]
pub(crate) enum Verdict {
    /// An order was found, after this many situations.
    Explained(usize),
    /// There is no order; the longest prefix that can be explained.
    Contradicted(Vec<Call>),
    /// There were too many situations.
    GivenUp,
}

/// Limit of situations in a search: 400,000 take a second on a slow machine.
const SITUATIONS: usize = 400_000;

/// The highest number of calls to one number: one bit each.
pub(crate) const MOST: usize = 64;

/// Searches for an order. The number is absent at first.
pub(crate) fn judge(calls: &[Call]) -> Verdict {
    assert!(calls.len() <= MOST, "{} calls", calls.len());
    let must = calls.iter().enumerate().filter(|(_, call)| call.answer.is_some()).fold(0, |all, (n, _)| all | 1 << n);
    let mut search = Search { calls, must, seen: HashSet::new(), path: Vec::new(), best: Vec::new() };
    match search.search_from(0, None) {
        Some(true) => Verdict::Explained(search.seen.len()),
        Some(false) => Verdict::Contradicted(search.best.iter().map(|n| calls[*n]).collect()),
        None => Verdict::GivenUp,
    }
}

struct Search<'a> {
    calls: &'a [Call],
    /// Bits of the answered calls.
    must: u64,
    seen: HashSet<(u64, Option<i64>)>,
    path: Vec<usize>,
    best: Vec<usize>,
}

impl Search<'_> {
    /// Returns whether the remaining calls can be explained from here; `None` after too many
    /// situations.
    fn search_from(&mut self, done: u64, number: Option<i64>) -> Option<bool> {
        if done & self.must == self.must {
            return Some(true);
        }
        if !self.seen.insert((done, number)) {
            return Some(false);
        }
        if self.seen.len() > SITUATIONS {
            return None;
        }
        if self.path.len() > self.best.len() {
            self.best.clone_from(&self.path);
        }
        let left = |n: &usize| done & (1 << n) == 0;
        let ends = (0..self.calls.len()).filter(left).filter_map(|n| self.calls[n].answer.map(|(to, _)| to)).min();
        for n in (0..self.calls.len()).filter(left) {
            let call = self.calls[n];
            // Another remaining call ended before this one began, and so has to come first.
            if ends.is_some_and(|end| end < call.from) {
                continue;
            }
            let (next, answer) = step(number, call.op);
            let fits = call.answer.is_none_or(|(_, given)| given == answer);
            // An unanswered call without an effect does not have to be placed in the order.
            if !fits || call.answer.is_none() && next == number {
                continue;
            }
            self.path.push(n);
            let found = self.search_from(done | 1 << n, next);
            self.path.pop();
            if found != Some(false) {
                return found;
            }
        }
        Some(false)
    }
}

/// Returns the number after an operation, and the operation's answer.
fn step(number: Option<i64>, op: Op) -> (Option<i64>, Answer) {
    let was = number.unwrap_or(0);
    let set_if =
        |holds: bool, new| if holds { (Some(new), Answer::Truth(true)) } else { (number, Answer::Truth(false)) };
    match op {
        Op::Get => (number, Answer::Number(was)),
        Op::Add(by) => match was.checked_add(by) {
            Some(now) => (Some(now), Answer::Number(now)),
            None => (number, Answer::Overflow),
        },
        Op::GetAndAdd(by) => match was.checked_add(by) {
            Some(now) => (Some(now), Answer::Number(was)),
            None => (number, Answer::Overflow),
        },
        Op::AddAtMost { by, most, clamps } => match was.checked_add(by) {
            Some(now) if now <= most => (Some(now), Answer::Number(now)),
            None if by < 0 || !clamps => (number, Answer::Overflow),
            _ if clamps => (Some(most), Answer::Number(most)),
            _ => (number, Answer::OutOfBounds(was)),
        },
        Op::Set(new) => (Some(new), Answer::Done),
        Op::GetAndSet(new) => (Some(new), Answer::Number(was)),
        Op::GetAndDelete => (None, Answer::Number(was)),
        Op::Delete => (None, Answer::Truth(number.is_some())),
        Op::CompareAndSet(expected, new) => set_if(was == expected, new),
        Op::SetIf(how, to, new) => set_if(holds(was, how, to), new),
        Op::DeleteIf(how, to) if number.is_some() && holds(was, how, to) => (None, Answer::Truth(true)),
        Op::DeleteIf(..) => (number, Answer::Truth(false)),
        Op::Update => (Some(changed(was)), Answer::Number(changed(was))),
    }
}

fn holds(was: i64, how: Comparison, to: i64) -> bool {
    match how {
        Comparison::Less => was < to,
        Comparison::LessOrEqual => was <= to,
        Comparison::Greater => was > to,
        Comparison::GreaterOrEqual => was >= to,
        Comparison::Equal => was == to,
        _ => was != to,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn call(op: Op, from: u64, to: u64, answer: Answer) -> Call {
        Call { caller: (0, 0), op, from, answer: Some((to, answer)) }
    }

    fn unanswered(op: Op, from: u64) -> Call {
        Call { caller: (0, 0), op, from, answer: None }
    }

    fn is_explained(calls: &[Call]) -> bool {
        match judge(calls) {
            Verdict::Explained(_) => true,
            Verdict::Contradicted(_) => false,
            Verdict::GivenUp => panic!("given up"),
        }
    }

    #[test]
    fn a_linearizable_history_is_explained() {
        // One call after the other.
        let (one, two) = (call(Op::Add(2), 0, 1, Answer::Number(2)), call(Op::GetAndSet(7), 2, 3, Answer::Number(2)));
        assert!(is_explained(&[one, two, call(Op::Delete, 4, 5, Answer::Truth(true))]));
        // Concurrent calls, in the order that the answers imply.
        let (one, two) = (call(Op::Add(2), 0, 9, Answer::Number(5)), call(Op::Add(3), 0, 9, Answer::Number(3)));
        assert!(is_explained(&[one, two]));
        // An unanswered call took effect, or did not.
        for seen in [0, 5] {
            assert!(is_explained(&[unanswered(Op::Add(5), 0), call(Op::Get, 10, 11, Answer::Number(seen))]));
        }
    }

    #[test]
    fn a_contradictory_history_is_rejected() {
        let one = call(Op::Add(2), 0, 1, Answer::Number(2));
        // Four impossible results of an addition: it counts twice; it does not count; it is seen
        // before it begins; two additions return the same sum.
        assert!(!is_explained(&[one, call(Op::Get, 2, 3, Answer::Number(4))]));
        assert!(!is_explained(&[one, call(Op::Get, 2, 3, Answer::Number(0))]));
        assert!(!is_explained(&[call(Op::Get, 0, 1, Answer::Number(2)), call(Op::Add(2), 2, 3, Answer::Number(2))]));
        assert!(!is_explained(&[one, call(Op::Add(2), 0, 1, Answer::Number(2))]));
        // An unanswered call takes effect only once.
        let reads = [call(Op::Get, 3, 4, Answer::Number(5)), call(Op::Get, 5, 6, Answer::Number(10))];
        assert!(!is_explained(&[unanswered(Op::Add(5), 0), reads[0], reads[1]]));
        // The effect of the unanswered call is seen, and is gone afterwards.
        let gone = call(Op::Get, 5, 6, Answer::Number(0));
        assert!(!is_explained(&[unanswered(Op::Add(5), 0), reads[0], gone]));
    }

    #[test]
    fn the_longest_explainable_order_is_reported() {
        let (one, two) = (call(Op::Add(2), 0, 1, Answer::Number(2)), call(Op::Get, 2, 3, Answer::Number(3)));
        assert_eq!(judge(&[one, two]), Verdict::Contradicted(vec![one]));
    }

    #[test]
    fn a_search_without_end_is_given_up() {
        let mut calls: Vec<Call> = (0..40).map(|n| unanswered(Op::Add(1 << n), 0)).collect();
        calls.push(call(Op::Get, 10, 11, Answer::Number(-1)));
        assert_eq!(judge(&calls), Verdict::GivenUp);
    }

    #[test]
    fn every_operation_has_its_documented_effect() {
        let cases = [
            (Some(3), Op::Add(i64::MAX), Some(3), Answer::Overflow),
            (None, Op::AddAtMost { by: 4, most: 3, clamps: false }, None, Answer::OutOfBounds(0)),
            (None, Op::AddAtMost { by: 4, most: 3, clamps: true }, Some(3), Answer::Number(3)),
            (Some(i64::MAX), Op::AddAtMost { by: 4, most: 3, clamps: true }, Some(3), Answer::Number(3)),
            (None, Op::Delete, None, Answer::Truth(false)),
            (None, Op::CompareAndSet(0, 4), Some(4), Answer::Truth(true)),
            (None, Op::DeleteIf(Comparison::Equal, 0), None, Answer::Truth(false)),
            (Some(0), Op::DeleteIf(Comparison::Equal, 0), None, Answer::Truth(true)),
            (Some(2), Op::SetIf(Comparison::Less, 2, 9), Some(2), Answer::Truth(false)),
            (Some(2), Op::GetAndAdd(5), Some(7), Answer::Number(2)),
            (Some(2), Op::Update, Some(7), Answer::Number(7)),
            (Some(2), Op::GetAndDelete, None, Answer::Number(2)),
        ];
        for (number, op, next, answer) in cases {
            assert_eq!(step(number, op), (next, answer), "{number:?} {op:?}");
        }
    }
}
