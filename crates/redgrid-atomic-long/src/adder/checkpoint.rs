//! A member's last save to the total, and the history of the member's part of the total. The module
//! is pure: it sends no requests.

use std::collections::VecDeque;

use super::adder_number::AdderNumber;

/// The maximum number of saves with a known time. A round needs only recent ones, which are few.
const MAX_HISTORY: usize = 256;

/// The last save of a member, as recorded by its process.
#[derive(Debug)]
pub(super) struct Checkpoint<N: AdderNumber> {
    /// Grows with each attempt to save.
    sequence: u64,
    sum: N::Wide,
    /// The record `sequence sum` that the server stores; empty if there is none.
    record: String,
    /// When the total was created; it identifies the total.
    total_born: String,
    /// Pairs of a save count of the total, and the member's part of the total from then on.
    history: VecDeque<(u64, N::Wide)>,
    /// Pairs of a sequence number, and an amount that was reset. Saves up to that number include
    /// the amount.
    resets: VecDeque<(u64, N::Wide)>,
}

/// A save that is to be sent.
#[derive(Debug, Clone, PartialEq)]
pub(super) struct PendingSave<N: AdderNumber> {
    pub(super) last_record: String,
    pub(super) next_record: String,
    /// The amount to add, in decimal.
    pub(super) amount: String,
    sum: N::Wide,
}

impl<N: AdderNumber> Checkpoint<N> {
    pub(super) fn new() -> Self {
        let zero = N::Wide::default();
        let (record, total_born) = (String::new(), String::new());
        Checkpoint { sequence: 0, sum: zero, record, total_born, history: [(0, zero)].into(), resets: VecDeque::new() }
    }

    /// Returns the saved sum.
    pub(super) fn sum(&self) -> N::Wide {
        self.sum
    }

    /// Returns whether the server stores a save of this member.
    pub(super) fn exists(&self) -> bool {
        !self.record.is_empty()
    }

    /// Returns whether the server stores this record.
    pub(super) fn matches(&self, record: &str) -> bool {
        record == self.record
    }

    /// Returns the member's part of the total after this number of saves to the total.
    pub(super) fn sum_at(&self, saves: u64) -> Option<N::Wide> {
        self.history.iter().rev().find(|(since, _)| *since <= saves).map(|(_, sum)| *sum)
    }

    /// Returns the next save of this count, or of the part of it that one command can add. Returns
    /// `None` if the count is out of range.
    pub(super) fn next_save(&mut self, counted: N::Wide) -> Option<PendingSave<N>> {
        self.sequence += 1;
        let step = N::step(N::minus(counted, self.sum))?;
        let sum = if step == N::minus(counted, self.sum) { counted } else { N::plus(self.sum, step) };
        let next_record = format!("{} {}", self.sequence, N::wide_text(sum));
        Some(PendingSave { last_record: self.record.clone(), next_record, amount: N::text(step)?, sum })
    }

    /// Records that a save was executed, as save number `saves` of the total.
    pub(super) fn record_save(&mut self, save: PendingSave<N>, saves: u64, total_born: String) {
        (self.sum, self.record, self.total_born) = (save.sum, save.next_record, total_born);
        push(&mut self.history, (saves, save.sum));
    }

    /// Records that the total was reset when it included this amount of the member. Only the rest
    /// beyond that amount counts from now on.
    pub(super) fn record_reset(&mut self, amount: N::Wide) {
        if amount == N::Wide::default() {
            return;
        }
        self.sum = N::minus(self.sum, amount);
        self.history.iter_mut().for_each(|(_, sum)| *sum = N::minus(*sum, amount));
        push(&mut self.resets, (self.sequence, amount));
    }

    /// Adopts another save that the server stores. The pending one was not executed.
    pub(super) fn adopt(&mut self, record: &str, at: u64, total_born: String) -> Option<()> {
        let (sequence, sum) = record.split_once(' ')?;
        let (sequence, sum): (u64, _) = (sequence.parse().ok()?, N::parse_wide(sum)?);
        // A retransmission without a reply was executed, or a failover has lost saves.
        self.sequence = self.sequence.max(sequence);
        let resets = self.resets.iter().filter(|(until, _)| sequence <= *until);
        self.sum = resets.fold(sum, |sum, (_, amount)| N::minus(sum, *amount));
        // The history before this save stays valid.
        self.history.retain(|(since, _)| *since < at);
        push(&mut self.history, (at, self.sum));
        (self.record, self.total_born) = (record.to_owned(), total_born);
        Some(())
    }

    /// Records that the server stores no save of this member, but a total with this number of
    /// saves. The pending one was not executed.
    ///
    /// If the record `may_be_expired` and the total is the known one, only the record is gone.
    /// Otherwise the member's part of the total is lost, too.
    pub(super) fn adopt_missing(&mut self, saves: u64, total_born: String, may_be_expired: bool) {
        let last_at = self.history.back().map_or(0, |(since, _)| *since);
        let only_record_lost =
            may_be_expired && !total_born.is_empty() && total_born == self.total_born && saves >= last_at;
        if !only_record_lost {
            // The total has lost the part of this member. Open rounds do not include it either, so
            // the history starts again at 0.
            self.sum = N::Wide::default();
            self.history = [(0, self.sum)].into();
        }
        (self.record, self.total_born) = (String::new(), total_born);
    }
}

/// Appends an entry, and removes the oldest one if there are too many.
fn push<T>(entries: &mut VecDeque<T>, next: T) {
    if entries.len() >= MAX_HISTORY {
        entries.pop_front();
    }
    entries.push_back(next);
}

#[cfg(test)]
mod tests {
    use super::*;

    fn save(checkpoint: &mut Checkpoint<i64>, counted: i128, saves: u64) {
        let next = checkpoint.next_save(counted).unwrap();
        checkpoint.record_save(next, saves, "b".into());
    }

    #[test]
    fn a_save_adds_the_difference_and_is_known_by_its_time() {
        let mut checkpoint = Checkpoint::<i64>::new();
        let next = checkpoint.next_save(5).unwrap();
        assert_eq!((&*next.last_record, &*next.next_record, &*next.amount), ("", "1 5", "5"));
        checkpoint.record_save(next, 3, "b".into());
        save(&mut checkpoint, 2, 7);
        assert_eq!([0, 2, 3, 6, 7, 99].map(|saves| checkpoint.sum_at(saves)), [0, 0, 5, 5, 2, 2].map(Some));
        assert!(checkpoint.matches("2 2") && !checkpoint.matches("1 5") && !checkpoint.matches(""));
        (0..MAX_HISTORY as u64).for_each(|n| save(&mut checkpoint, 9, 10 + n));
        assert_eq!((checkpoint.sum_at(9), checkpoint.sum_at(10)), (None, Some(9)));
    }

    #[test]
    fn a_difference_beyond_the_range_is_saved_in_steps() {
        let (mut checkpoint, max) = (Checkpoint::<i64>::new(), i128::from(i64::MAX));
        save(&mut checkpoint, max + 4, 1);
        assert_eq!(checkpoint.sum(), max);
        assert_eq!(checkpoint.next_save(max + 4).unwrap().amount, "4");
        let mut doubles = Checkpoint::<f64>::new();
        let next = doubles.next_save(f64::MAX).unwrap();
        doubles.record_save(next, 1, "b".into());
        assert_eq!(doubles.next_save(-f64::MAX), None);
    }

    #[test]
    fn an_executed_retransmission_a_failover_and_a_lost_total_are_distinguished() {
        let mut checkpoint = Checkpoint::<i64>::new();
        save(&mut checkpoint, 5, 1);
        // The save was executed, but its reply was lost: an earlier round does not include it.
        let unanswered = checkpoint.next_save(8).unwrap();
        checkpoint.adopt(&unanswered.next_record, 2, "b".into()).unwrap();
        assert_eq!(
            (checkpoint.sum(), checkpoint.next_save(9).unwrap().last_record),
            (8, unanswered.next_record.clone())
        );
        assert_eq!([0, 1, 2].map(|saves| checkpoint.sum_at(saves)), [0, 5, 8].map(Some));
        // A failover has lost the save.
        checkpoint.adopt("1 5", 1, "b".into()).unwrap();
        assert_eq!((checkpoint.sum(), checkpoint.next_save(9).unwrap().amount.as_str()), (5, "4"));
        assert_eq!([0, 1, 2].map(|saves| checkpoint.sum_at(saves)), [0, 5, 5].map(Some));
        // The record has expired.
        checkpoint.adopt_missing(1, "b".into(), true);
        assert_eq!((checkpoint.sum(), checkpoint.exists()), (5, false));
        // The total is lost.
        checkpoint.adopt_missing(0, String::new(), true);
        let again = checkpoint.next_save(9).unwrap();
        assert_eq!((again.amount.as_str(), again.last_record.as_str(), checkpoint.sum_at(0)), ("9", "", Some(0)));
        // The sequence has grown all the while: the unanswered save can no longer be executed.
        assert!(again.next_record > unanswered.next_record, "{again:?}");
        assert_eq!(checkpoint.adopt("x", 1, "b".into()), None);
    }

    /// The total is the same, and others save to it.
    #[test]
    fn a_record_that_cannot_have_expired_is_lost() {
        for (saves, may_be_expired, rest) in [(7, true, 5), (6, true, 0), (7, false, 0), (99, false, 0)] {
            let mut checkpoint = Checkpoint::<i64>::new();
            save(&mut checkpoint, 5, 7);
            checkpoint.adopt_missing(saves, "b".into(), may_be_expired);
            assert_eq!((checkpoint.sum(), checkpoint.sum_at(saves)), (rest, Some(rest)), "{saves} {may_be_expired}");
        }
    }

    #[test]
    fn the_sum_restarts_at_0_after_a_reset() {
        let mut checkpoint = Checkpoint::<f64>::new();
        let high = checkpoint.next_save(1e17).unwrap();
        checkpoint.record_save(high.clone(), 3, "b".into());
        let amount = checkpoint.sum_at(4).unwrap();
        checkpoint.record_reset(amount);
        assert_eq!((checkpoint.sum(), checkpoint.sum_at(4), checkpoint.sum_at(0)), (0.0, Some(0.0), Some(-1e17)));
        let low = checkpoint.next_save(1.0).unwrap();
        assert_eq!((&*low.last_record, &*low.next_record, &*low.amount), (&*high.next_record, "2 1", "1"));
        checkpoint.record_save(low, 5, "b".into());
        // A failover has lost the reset and everything after it.
        checkpoint.adopt(&high.next_record, 3, "b".into()).unwrap();
        assert_eq!((checkpoint.sum(), checkpoint.next_save(1.0).unwrap().amount), (0.0, "1".into()));
    }
}
