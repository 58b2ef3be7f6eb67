//! Explores the two-level protocol with every rule on: it is safe within the given bounds.

use crate::support::{HOLDER, JOB, LONG, NO_MISHAPS, PAIR, PLAIN, SHORT, TOKENS, holds, with};
use redgrid_models::two_level::properties::*;
use redgrid_models::two_level::{Bounds, Mishaps, Timing, TwoLevel};

#[test]
fn two_processes_hand_over_without_end() {
    holds("two processes", PAIR, &[HANDED_OVER, ENFORCED]);
}

#[test]
fn two_processes_lose_a_connection_and_one_of_them_crashes() {
    let mishaps = Mishaps { losses: 1, crashes: 1, ..NO_MISHAPS };
    holds("a loss and a crash", with(PAIR, &[SHORT], mishaps), &[HANDED_OVER, ENFORCED, LATE_EXECUTED, TAKEN_OVER]);
}

#[test]
fn an_unanswered_acquire_is_sent_again() {
    let model = with(PAIR, &[SHORT], Mishaps { losses: 2, acquires: 2, ..NO_MISHAPS });
    let bounds = Bounds { repeats: true, tasks: 1, cancels: false, ..model.bounds };
    holds("copies", TwoLevel { bounds, ..model }, &[GRANT_AFTER_LOSS, LATE_EXECUTED]);
}

#[test]
fn different_leases_are_lengthened() {
    let mishaps = Mishaps { losses: 1, acquires: 2, ..NO_MISHAPS };
    let timing = Timing { handover_window: 2, ..PAIR.timing };
    let model = with(TwoLevel { timing, ..PAIR }, &[SHORT, LONG, PLAIN], mishaps);
    holds("different leases", model, &[HANDED_OVER, ENFORCED, LENGTHENED]);
}

#[test]
fn holders_enter_again() {
    let mishaps = Mishaps { acquires: 4, ..NO_MISHAPS };
    let model = with(PAIR, &[HOLDER, SHORT], mishaps);
    let bounds = Bounds { reentry: true, tasks: 3, ..model.bounds };
    holds("re-entry", TwoLevel { bounds, ..model }, &[HANDED_OVER, ENTERED_AGAIN]);
}

#[test]
fn holders_enter_again_over_a_lost_connection() {
    let model = with(PAIR, &[HOLDER, SHORT], Mishaps { losses: 1, acquires: 3, ..NO_MISHAPS });
    let bounds = Bounds { reentry: true, tasks: 3, ..model.bounds };
    holds("re-entry, a loss", TwoLevel { bounds, ..model }, &[HANDED_OVER, ENTERED_AGAIN, LATE_EXECUTED]);
}

#[test]
fn three_processes_lose_a_connection() {
    let model = with(PAIR, &[SHORT], Mishaps { losses: 1, acquires: 3, ..NO_MISHAPS });
    let bounds = Bounds { processes: 3, ..model.bounds };
    holds("three processes", TwoLevel { bounds, ..model }, &[HANDED_OVER, ENFORCED, LATE_EXECUTED]);
}

#[test]
fn at_least_is_kept_through_a_crash() {
    let mishaps = Mishaps { crashes: 1, ..NO_MISHAPS };
    let model = with(PAIR, &[SHORT, JOB], mishaps);
    holds("at least", model, &[HANDED_OVER, ENFORCED, TAKEN_OVER]);
}

#[test]
fn tokens_rise_through_hand_overs() {
    let model = with(TOKENS, &[PLAIN], Mishaps { acquires: 8, ..NO_MISHAPS });
    holds("tokens", model, &[HANDED_OVER]);
}

#[test]
fn tokens_rise_through_a_takeover() {
    let mishaps = Mishaps { acquires: 5, takeovers: 1, ..NO_MISHAPS };
    holds("a takeover", with(TOKENS, &[PLAIN], mishaps), &[HANDED_OVER, FORCED, PREEMPTED_BELIEVES]);
}

#[test]
fn a_takeover_may_be_cancelled() {
    let model = with(TOKENS, &[PLAIN], Mishaps { acquires: 4, takeovers: 1, ..NO_MISHAPS });
    let bounds = Bounds { cancels: true, ..model.bounds };
    holds("a cancelled takeover", TwoLevel { bounds, ..model }, &[HANDED_OVER, FORCED, PREEMPTED_BELIEVES]);
}

#[test]
fn a_takeover_may_have_an_unknown_outcome() {
    let mishaps = Mishaps { acquires: 4, takeovers: 1, losses: 1, ..NO_MISHAPS };
    holds("unknown outcome", with(TOKENS, &[PLAIN], mishaps), &[HANDED_OVER, FORCED, PREEMPTED_BELIEVES]);
}

#[test]
fn a_taker_may_be_preempted() {
    let timing = Timing { tokens: false, window: 1, handover_window: 2, ..TOKENS.timing };
    let mishaps = Mishaps { acquires: 3, takeovers: 2, losses: 1, ..NO_MISHAPS };
    holds("two takeovers", with(TwoLevel { timing, ..TOKENS }, &[SHORT], mishaps), &[FORCED, PREEMPTED_BELIEVES]);
}
