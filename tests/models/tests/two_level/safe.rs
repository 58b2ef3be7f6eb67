//! The two-level protocol is safe with every rule, for the given bounds.

use crate::support::{HOLDER, JOB, LONG, NO_MISHAPS, PAIR, PLAIN, SHORT, TOKENS, holds, with};
use redgrid_models::two_level::properties::*;
use redgrid_models::two_level::{Bounds, Mishaps, Timing, TwoLevel};

#[test]
fn two_processes_hand_over_without_end() {
    holds("two processes", PAIR, &[HANDED_ON, ENFORCED]);
}

#[test]
fn two_processes_lose_a_connection_and_one_of_them_crashes() {
    let mishaps = Mishaps { losses: 1, crashes: 1, ..NO_MISHAPS };
    holds("a loss and a crash", with(PAIR, &[SHORT], mishaps), &[HANDED_ON, ENFORCED, LATE_EXECUTED, TAKEN_OVER]);
}

#[test]
fn an_unanswered_acquire_is_sent_again() {
    let model = with(PAIR, &[SHORT], Mishaps { losses: 2, asks: 2, ..NO_MISHAPS });
    let bounds = Bounds { repeats: true, tasks: 1, cancels: false, ..model.bounds };
    holds("copies", TwoLevel { bounds, ..model }, &[GRANT_AFTER_LOSS, LATE_EXECUTED]);
}

#[test]
fn leases_that_differ_are_lengthened() {
    let mishaps = Mishaps { losses: 1, asks: 2, ..NO_MISHAPS };
    let timing = Timing { handover_window: 2, ..PAIR.timing };
    let model = with(TwoLevel { timing, ..PAIR }, &[SHORT, LONG, PLAIN], mishaps);
    holds("different leases", model, &[HANDED_ON, ENFORCED, LENGTHENED]);
}

#[test]
fn holders_enter_again() {
    let mishaps = Mishaps { asks: 4, ..NO_MISHAPS };
    let model = with(PAIR, &[HOLDER, SHORT], mishaps);
    let bounds = Bounds { reentry: true, tasks: 3, ..model.bounds };
    holds("re-entry", TwoLevel { bounds, ..model }, &[HANDED_ON, ENTERED_AGAIN]);
}

#[test]
fn holders_enter_again_over_a_lost_connection() {
    let model = with(PAIR, &[HOLDER, SHORT], Mishaps { losses: 1, asks: 3, ..NO_MISHAPS });
    let bounds = Bounds { reentry: true, tasks: 3, ..model.bounds };
    holds("re-entry, a loss", TwoLevel { bounds, ..model }, &[HANDED_ON, ENTERED_AGAIN, LATE_EXECUTED]);
}

#[test]
fn three_processes_lose_a_connection() {
    let model = with(PAIR, &[SHORT], Mishaps { losses: 1, asks: 3, ..NO_MISHAPS });
    let bounds = Bounds { processes: 3, ..model.bounds };
    holds("three processes", TwoLevel { bounds, ..model }, &[HANDED_ON, ENFORCED, LATE_EXECUTED]);
}

#[test]
fn at_least_is_kept_through_a_crash() {
    let mishaps = Mishaps { crashes: 1, ..NO_MISHAPS };
    let model = with(PAIR, &[SHORT, JOB], mishaps);
    holds("at least", model, &[HANDED_ON, ENFORCED, TAKEN_OVER]);
}

#[test]
fn tokens_rise_through_hand_overs() {
    let model = with(TOKENS, &[PLAIN], Mishaps { asks: 8, ..NO_MISHAPS });
    holds("tokens", model, &[HANDED_ON]);
}

#[test]
fn tokens_rise_through_a_theft() {
    let mishaps = Mishaps { asks: 5, thefts: 1, ..NO_MISHAPS };
    holds("a theft", with(TOKENS, &[PLAIN], mishaps), &[HANDED_ON, STOLEN, ROBBED_HANDS_ON]);
}

#[test]
fn a_theft_may_be_given_up() {
    let model = with(TOKENS, &[PLAIN], Mishaps { asks: 4, thefts: 1, ..NO_MISHAPS });
    let bounds = Bounds { cancels: true, ..model.bounds };
    holds("a theft given up", TwoLevel { bounds, ..model }, &[HANDED_ON, STOLEN, ROBBED_HANDS_ON]);
}

#[test]
fn a_theft_may_have_an_unknown_outcome() {
    let mishaps = Mishaps { asks: 4, thefts: 1, losses: 1, ..NO_MISHAPS };
    holds("a theft in doubt", with(TOKENS, &[PLAIN], mishaps), &[HANDED_ON, STOLEN, ROBBED_HANDS_ON]);
}

#[test]
fn a_taker_may_be_dispossessed() {
    let timing = Timing { tokens: false, window: 1, handover_window: 2, ..TOKENS.timing };
    let mishaps = Mishaps { asks: 3, thefts: 2, losses: 1, ..NO_MISHAPS };
    holds("two thefts", with(TwoLevel { timing, ..TOKENS }, &[SHORT], mishaps), &[STOLEN, ROBBED_HANDS_ON]);
}
