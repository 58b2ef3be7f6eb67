//! Which round those who wait are in, and when it is over: decided from looks and messages alone.
//!
//! Looks and messages come by two connections, so a message that is heard may be older than an answer that was there before
//! it. The end of a round is therefore told by the round's number, which no other has: that message is proof whenever it
//! comes. All others, Redisson's above all, are a reason to look.

use crate::scripts::Look;

/// Who goes on.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Over {
    Nobody,
    /// Those who were placed in a round before.
    Placed,
    /// They, and those who asked by this look.
    All,
}

#[derive(Debug, Default)]
pub(crate) struct Rounds {
    /// The round of those who are placed; 0 where Redisson has begun it.
    round: Option<u64>,
    asking: bool,
    /// Rounds whose end was heard since the look was sent.
    ended: Vec<u64>,
    due: bool,
}

impl Rounds {
    /// A look is sent: what was heard before is older.
    pub(crate) fn asks(&mut self) {
        (self.asking, self.due) = (true, false);
        self.ended.clear();
    }

    /// It is answered.
    pub(crate) fn sees(&mut self, look: &Look) -> Over {
        self.asking = false;
        if look.is_open || look.round.is_some_and(|round| self.ended.contains(&round)) {
            self.round = None;
            return Over::All;
        }
        // A look that could not tell the round says nothing about ours, and places nobody.
        let Some(round) = look.round else { return Over::Nobody };
        match self.round {
            // Another has begun, or ours is known to be over and Redisson has begun one.
            Some(former) if former < round || (former > 0 && former <= look.over) => {
                self.round = Some(round);
                Over::Placed
            }
            // A number that is lower is that of a server that knows less, and says nothing about ours. Nor does one that is
            // missing: under `maxmemory` it may be evicted before the count is.
            Some(_) => Over::Nobody,
            None => {
                self.round = Some(round);
                Over::Nobody
            }
        }
    }

    /// It failed: nobody is in a round any more.
    pub(crate) fn fails(&mut self) {
        (self.asking, self.round) = (false, None);
    }

    /// The end of a round is heard.
    pub(crate) fn hears_end(&mut self, number: u64) -> Over {
        if number == 0 {
            self.doubts();
            return Over::Nobody;
        }
        if self.asking {
            self.ended.push(number);
        }
        if self.round == Some(number) {
            self.round = None;
            return Over::Placed;
        }
        // Ours may be one that Redisson has begun, or be known by a number that was lost since.
        self.due = true;
        Over::Nobody
    }

    /// Something has happened, or messages may have been missed.
    pub(crate) fn doubts(&mut self) {
        self.due = true;
    }

    /// The round of those who are placed.
    pub(crate) fn round(&self) -> Option<u64> {
        self.round
    }

    /// Whether there is a reason to look.
    pub(crate) fn is_due(&self) -> bool {
        self.due
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn look(round: u64) -> Look {
        Look { is_open: false, round: Some(round), over: 0, ends_in: None }
    }

    fn placed(round: u64) -> Rounds {
        let mut rounds = Rounds::default();
        rounds.asks();
        assert_eq!(rounds.sees(&look(round)), Over::Nobody);
        rounds
    }

    #[test]
    fn the_end_of_the_round_is_enough() {
        let mut rounds = placed(7);
        assert_eq!(rounds.hears_end(7), Over::Placed);
        assert!(!rounds.is_due());
    }

    #[test]
    fn the_late_end_of_an_earlier_round_lets_nobody_go() {
        let mut rounds = placed(8);
        assert_eq!(rounds.hears_end(7), Over::Nobody);
        assert!(rounds.is_due(), "and is a reason to look");
        rounds.asks();
        assert_eq!(rounds.hears_end(7), Over::Nobody);
        assert_eq!(rounds.sees(&look(8)), Over::Nobody);
        assert_eq!(rounds.hears_end(8), Over::Placed);
    }

    #[test]
    fn an_end_that_overtakes_the_answer_that_saw_the_round_counts() {
        let mut rounds = Rounds::default();
        rounds.asks();
        assert_eq!(rounds.hears_end(7), Over::Nobody);
        assert_eq!(rounds.sees(&look(7)), Over::All);
        // Not for a later look.
        rounds.asks();
        assert_eq!(rounds.sees(&look(8)), Over::Nobody);
    }

    #[test]
    fn those_in_a_round_go_while_a_look_for_others_is_under_way() {
        let mut rounds = placed(7);
        rounds.asks();
        assert_eq!(rounds.hears_end(7), Over::Placed);
        assert_eq!(rounds.sees(&look(8)), Over::Nobody, "who asked by this look is in the next round");
        assert_eq!(rounds.hears_end(8), Over::Placed);
    }

    #[test]
    fn a_message_without_a_number_is_a_reason_to_look_and_no_more() {
        let mut rounds = placed(7);
        assert_eq!(rounds.hears_end(0), Over::Nobody);
        assert!(rounds.is_due());
        rounds.asks();
        assert!(!rounds.is_due(), "one look for all that came before it");
        rounds.doubts();
        assert_eq!(rounds.sees(&look(7)), Over::Nobody);
        assert!(rounds.is_due(), "the message may be younger than the look");
        // A round of Redisson's has no number to be told by.
        let mut rounds = placed(0);
        assert_eq!(rounds.hears_end(0), Over::Nobody);
    }

    #[test]
    fn a_higher_round_ends_the_one_before_for_those_in_it_only() {
        let mut rounds = placed(7);
        rounds.asks();
        assert_eq!(rounds.sees(&look(8)), Over::Placed);
        rounds.asks();
        assert_eq!(rounds.sees(&look(8)), Over::Nobody);
    }

    #[test]
    fn a_lower_or_missing_round_ends_none() {
        for less in [6, 0] {
            let mut rounds = placed(7);
            rounds.asks();
            assert_eq!(rounds.sees(&look(less)), Over::Nobody);
            rounds.asks();
            assert_eq!(rounds.sees(&look(7)), Over::Nobody, "nor does it when it is back");
            rounds.asks();
            assert_eq!(rounds.sees(&look(8)), Over::Placed);
        }
        // One that Redisson has begun is followed by one of ours.
        let mut rounds = placed(0);
        rounds.asks();
        assert_eq!(rounds.sees(&look(5)), Over::Placed);
    }

    #[test]
    fn a_round_of_redissons_behind_the_known_end_of_ours_ends_ours() {
        let behind = |over| Look { over, ..look(0) };
        for (over, expected) in [(6, Over::Nobody), (7, Over::Placed), (8, Over::Placed)] {
            let mut rounds = placed(7);
            rounds.asks();
            assert_eq!(rounds.sees(&behind(over)), expected, "{over}");
        }
        // Those who asked by that look are in Redisson's.
        let mut rounds = placed(7);
        rounds.asks();
        rounds.sees(&behind(7));
        rounds.asks();
        assert_eq!(rounds.sees(&behind(7)), Over::Nobody);
        assert_eq!(rounds.hears_end(7), Over::Nobody);
    }

    #[test]
    fn a_look_that_could_not_tell_the_round_lets_nobody_go_but_by_an_open_latch() {
        let untold = Look { round: None, ..look(0) };
        let mut rounds = placed(7);
        rounds.asks();
        assert_eq!(rounds.sees(&untold), Over::Nobody);
        assert_eq!(rounds.hears_end(7), Over::Placed, "those in the round before");
        rounds.asks();
        assert_eq!(rounds.sees(&Look { is_open: true, ..untold }), Over::All);
    }

    #[test]
    fn an_open_latch_lets_all_go() {
        let mut rounds = placed(7);
        rounds.asks();
        assert_eq!(rounds.sees(&Look { is_open: true, ..look(0) }), Over::All);
        rounds.asks();
        assert_eq!(rounds.sees(&look(7)), Over::Nobody, "whoever comes then begins anew");
    }
}
