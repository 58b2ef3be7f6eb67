//! What a member has saved to the total, and since when: pure.

use std::collections::VecDeque;

use super::figure::Figure;

/// So many saves are known by when they were made. A round asks for those behind it, which are few.
const KNOWN: usize = 256;

/// What a member has saved, as far as it knows.
#[derive(Debug)]
pub(super) struct Saved<N: Figure> {
    /// Rises with each save that is tried.
    number: u64,
    sum: N::Wide,
    /// `number sum` as the server has it; empty for none.
    last: String,
    /// When the total was begun.
    born: String,
    /// From that save of the total on, so much of it was this member's.
    since: VecDeque<(u64, N::Wide)>,
    /// Up to that number, so much more was written into saves than counts since a reset.
    begun: VecDeque<(u64, N::Wide)>,
}

/// A save that is to be made.
#[derive(Debug, Clone, PartialEq)]
pub(super) struct Save<N: Figure> {
    pub(super) last: String,
    pub(super) next: String,
    /// What is added, in decimal.
    pub(super) by: String,
    sum: N::Wide,
}

impl<N: Figure> Saved<N> {
    pub(super) fn new() -> Self {
        let none = N::Wide::default();
        let (last, born) = (String::new(), String::new());
        Saved { number: 0, sum: none, last, born, since: [(0, none)].into(), begun: VecDeque::new() }
    }

    /// So much, all in all.
    pub(super) fn sum(&self) -> N::Wide {
        self.sum
    }

    /// Whether the server has something of this member.
    pub(super) fn is_some(&self) -> bool {
        !self.last.is_empty()
    }

    /// Whether that is what the server has.
    pub(super) fn is(&self, last: &str) -> bool {
        last == self.last
    }

    /// How much of the total was this member's when that had been saved to so often.
    pub(super) fn at(&self, saves: u64) -> Option<N::Wide> {
        self.since.iter().rev().find(|(since, _)| *since <= saves).map(|(_, sum)| *sum)
    }

    /// The next save, of what was counted all in all, or of as much of it as can be saved at once; `None` where that is beyond
    /// all numbers.
    pub(super) fn next(&mut self, counted: N::Wide) -> Option<Save<N>> {
        self.number += 1;
        let by = N::step(N::minus(counted, self.sum))?;
        let sum = if by == N::minus(counted, self.sum) { counted } else { N::plus(self.sum, by) };
        let next = format!("{} {}", self.number, N::memo(sum));
        Some(Save { last: self.last.clone(), next, by: N::text(by)?, sum })
    }

    /// It is made.
    pub(super) fn landed(&mut self, save: Save<N>, saves: u64, born: String) {
        (self.sum, self.last, self.born) = (save.sum, save.next, born);
        push(&mut self.since, (saves, save.sum));
    }

    /// From here on counts what is beyond this: the total was set to 0 when so much of it was this member's.
    pub(super) fn begin_at(&mut self, behind: N::Wide) {
        if behind == N::Wide::default() {
            return;
        }
        self.sum = N::minus(self.sum, behind);
        self.since.iter_mut().for_each(|(_, sum)| *sum = N::minus(*sum, behind));
        push(&mut self.begun, (self.number, behind));
    }

    /// It is not made: the server has another one.
    pub(super) fn found(&mut self, last: &str, at: u64, born: String) -> Option<()> {
        let (number, sum) = last.split_once(' ')?;
        let (number, sum): (u64, _) = (number.parse().ok()?, N::wide(sum)?);
        // A copy that was given up has landed, or a failover has lost some.
        self.number = self.number.max(number);
        let begun = self.begun.iter().filter(|(until, _)| number <= *until);
        self.sum = begun.fold(sum, |sum, (_, behind)| N::minus(sum, *behind));
        // What was before it was the same.
        self.since.retain(|(since, _)| *since < at);
        push(&mut self.since, (at, self.sum));
        (self.last, self.born) = (last.to_owned(), born);
        Some(())
    }

    /// It is not made: the server has none, but a total that was saved to so often. That is only forgotten where `may_be_forgotten`: as
    /// long as the server was to remember it, it is gone with this member's part.
    pub(super) fn found_none(&mut self, saves: u64, born: String, may_be_forgotten: bool) {
        let last_at = self.since.back().map_or(0, |(since, _)| *since);
        let forgotten = may_be_forgotten && !born.is_empty() && born == self.born && saves >= last_at;
        if !forgotten {
            // A round that is open had nothing of it either: what came behind this member's save is lost with it.
            self.sum = N::Wide::default();
            self.since = [(0, self.sum)].into();
        }
        (self.last, self.born) = (String::new(), born);
    }
}

/// The oldest makes room.
fn push<T>(known: &mut VecDeque<T>, next: T) {
    if known.len() >= KNOWN {
        known.pop_front();
    }
    known.push_back(next);
}

#[cfg(test)]
mod tests {
    use super::*;

    fn save(saved: &mut Saved<i64>, counted: i128, saves: u64) {
        let next = saved.next(counted).unwrap();
        saved.landed(next, saves, "b".into());
    }

    #[test]
    fn a_save_adds_what_is_new_and_is_known_by_its_time() {
        let mut saved = Saved::<i64>::new();
        let next = saved.next(5).unwrap();
        assert_eq!((&*next.last, &*next.next, &*next.by), ("", "1 5", "5"));
        saved.landed(next, 3, "b".into());
        save(&mut saved, 2, 7);
        assert_eq!([0, 2, 3, 6, 7, 99].map(|saves| saved.at(saves)), [0, 0, 5, 5, 2, 2].map(Some));
        assert!(saved.is("2 2") && !saved.is("1 5") && !saved.is(""));
        (0..KNOWN as u64).for_each(|n| save(&mut saved, 9, 10 + n));
        assert_eq!((saved.at(9), saved.at(10)), (None, Some(9)));
    }

    #[test]
    fn what_is_too_much_at_once_is_saved_in_steps() {
        let (mut saved, most) = (Saved::<i64>::new(), i128::from(i64::MAX));
        save(&mut saved, most + 4, 1);
        assert_eq!(saved.sum(), most);
        assert_eq!(saved.next(most + 4).unwrap().by, "4");
        let mut doubles = Saved::<f64>::new();
        let next = doubles.next(f64::MAX).unwrap();
        doubles.landed(next, 1, "b".into());
        assert_eq!(doubles.next(-f64::MAX), None);
    }

    #[test]
    fn a_copy_that_landed_a_failover_and_a_lost_total_are_told_apart() {
        let mut saved = Saved::<i64>::new();
        save(&mut saved, 5, 1);
        // Given up, and landed: a round of before it does not have it.
        let given_up = saved.next(8).unwrap();
        saved.found(&given_up.next, 2, "b".into()).unwrap();
        assert_eq!((saved.sum(), saved.next(9).unwrap().last), (8, given_up.next.clone()));
        assert_eq!([0, 1, 2].map(|saves| saved.at(saves)), [0, 5, 8].map(Some));
        // A failover that lost it.
        saved.found("1 5", 1, "b".into()).unwrap();
        assert_eq!((saved.sum(), saved.next(9).unwrap().by.as_str()), (5, "4"));
        assert_eq!([0, 1, 2].map(|saves| saved.at(saves)), [0, 5, 5].map(Some));
        // Its own memory is over.
        saved.found_none(1, "b".into(), true);
        assert_eq!((saved.sum(), saved.is_some()), (5, false));
        // All is lost.
        saved.found_none(0, String::new(), true);
        let again = saved.next(9).unwrap();
        assert_eq!((again.by.as_str(), again.last.as_str(), saved.at(0)), ("9", "", Some(0)));
        // Numbers rise all the while: what was given up does not fit any more.
        assert!(again.next > given_up.next, "{again:?}");
        assert_eq!(saved.found("x", 1, "b".into()), None);
    }

    /// The total is the same, and others save to it.
    #[test]
    fn what_can_not_be_forgotten_yet_is_lost() {
        for (saves, may_be_forgotten, left) in [(7, true, 5), (6, true, 0), (7, false, 0), (99, false, 0)] {
            let mut saved = Saved::<i64>::new();
            save(&mut saved, 5, 7);
            saved.found_none(saves, "b".into(), may_be_forgotten);
            assert_eq!((saved.sum(), saved.at(saves)), (left, Some(left)), "{saves} {may_be_forgotten}");
        }
    }

    #[test]
    fn after_a_reset_it_begins_at_0() {
        let mut saved = Saved::<f64>::new();
        let high = saved.next(1e17).unwrap();
        saved.landed(high.clone(), 3, "b".into());
        let behind = saved.at(4).unwrap();
        saved.begin_at(behind);
        assert_eq!((saved.sum(), saved.at(4), saved.at(0)), (0.0, Some(0.0), Some(-1e17)));
        let low = saved.next(1.0).unwrap();
        assert_eq!((&*low.last, &*low.next, &*low.by), (&*high.next, "2 1", "1"));
        saved.landed(low, 5, "b".into());
        // A failover that lost the reset and all behind it.
        saved.found(&high.next, 3, "b".into()).unwrap();
        assert_eq!((saved.sum(), saved.next(1.0).unwrap().by), (0.0, "1".into()));
    }
}
