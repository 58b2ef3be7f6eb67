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
        Saved { number: 0, sum: none, last: String::new(), born: String::new(), since: [(0, none)].into() }
    }

    /// So much, all in all.
    pub(super) fn sum(&self) -> N::Wide {
        self.sum
    }

    /// Whether the server has something of this member.
    pub(super) fn is_some(&self) -> bool {
        !self.last.is_empty()
    }

    /// Whether that is what the server has, by the key's text.
    pub(super) fn is(&self, known: &str) -> bool {
        known.rsplit_once(' ').map_or("", |(last, _)| last) == self.last
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
        if self.since.len() >= KNOWN {
            self.since.pop_front();
        }
        self.since.push_back((saves, save.sum));
    }

    /// It is not made: the server has another one, or none.
    pub(super) fn found(&mut self, last: &str, saves: u64, born: String) {
        let known = last.split_once(' ').and_then(|(number, sum)| Some((number.parse().ok()?, N::wide(sum)?)));
        match known {
            // A copy that was given up has landed, or a failover has lost some.
            Some((number, sum)) => {
                self.number = self.number.max(number);
                self.sum = sum;
                self.since = [(0, sum)].into();
            }
            // Only forgotten: its lifetime was over, and the total is the same.
            None if !born.is_empty() && born == self.born => {}
            // The total was lost, and this member's part with it.
            None => {
                self.sum = N::Wide::default();
                self.since = [(saves, self.sum)].into();
            }
        }
        (self.last, self.born) = (last.to_owned(), born);
    }
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
        assert!(saved.is("2 2 7") && !saved.is("1 5 3") && !saved.is(""));
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
        // Given up, and landed.
        let given_up = saved.next(8).unwrap();
        saved.found(&given_up.next, 2, "b".into());
        assert_eq!((saved.sum(), saved.next(9).unwrap().last), (8, given_up.next.clone()));
        // A failover that lost it.
        saved.found("1 5", 1, "b".into());
        assert_eq!((saved.sum(), saved.next(9).unwrap().by.as_str()), (5, "4"));
        // Its own memory is over.
        saved.found("", 1, "b".into());
        assert_eq!((saved.sum(), saved.is_some()), (5, false));
        // All is lost.
        saved.found("", 0, String::new());
        let again = saved.next(9).unwrap();
        assert_eq!((again.by.as_str(), again.last.as_str(), saved.at(0)), ("9", "", Some(0)));
        // Numbers rise all the while: what was given up does not fit any more.
        assert!(again.next > given_up.next, "{again:?}");
    }
}
