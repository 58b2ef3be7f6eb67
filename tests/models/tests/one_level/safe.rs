//! Explores the one-level protocol with every rule on: it is safe within the given bounds.

use crate::support::{ALONE, NO_MISHAPS, PAIR, bounded, holds, timed};
use redgrid_models::one_level::model::Mishaps;
use redgrid_models::one_level::properties::*;
use redgrid_models::one_level::{Bounds, OneLevel, Rules, Timing};

#[test]
fn three_clients_lose_two_connections_and_one_of_them_crashes() {
    let mishaps = Mishaps { losses: 2, crashes: 1, attempts: 3, ..NO_MISHAPS };
    let model = timed(bounded(PAIR, 3, 1, mishaps), Timing { extends: &[], ..PAIR.timing });
    holds("three clients, three attempts", model, &[GRANT_AFTER_LOSS, LATE_EXECUTED, EXPIRED, TAKEN_OVER]);
}

#[test]
fn three_clients_extend_lose_a_connection_and_one_of_them_crashes() {
    let mishaps = Mishaps { losses: 1, crashes: 1, attempts: 3, ..NO_MISHAPS };
    let model = timed(bounded(PAIR, 3, 1, mishaps), Timing { extends: &[1], ..PAIR.timing });
    holds("three clients, with extend", model, &[GRANT_AFTER_LOSS, LATE_EXECUTED, EXPIRED, TAKEN_OVER]);
}

#[test]
fn three_clients_acquire_and_release_without_end() {
    let model = bounded(PAIR, 3, 1, Mishaps { losses: 1, crashes: 1, ..NO_MISHAPS });
    let model = OneLevel { bounds: Bounds { renewals: false, ..model.bounds }, ..model };
    let model = timed(model, Timing { extends: &[], ..PAIR.timing });
    holds("three clients, any number of attempts", model, &[GRANT_AFTER_LOSS, LATE_EXECUTED, EXPIRED, TAKEN_OVER]);
}

#[test]
fn two_clients_renew_and_extend_with_two_lost_connections() {
    let model = bounded(PAIR, 2, 1, Mishaps { losses: 2, crashes: 1, attempts: 2, ..NO_MISHAPS });
    holds("two clients, every operation", model, &[GRANT_AFTER_LOSS, LATE_EXECUTED, EXPIRED, TAKEN_OVER]);
}

#[test]
fn several_requests_in_flight_are_safe() {
    let two = bounded(PAIR, 2, 2, Mishaps { attempts: 2, ..NO_MISHAPS });
    holds("two clients, two requests in flight", two, &[EXPIRED]);
    let one = bounded(PAIR, 1, 2, Mishaps { losses: 2, attempts: 1, ..NO_MISHAPS });
    holds("one client, two requests in flight", one, &[GRANT_AFTER_LOSS, LATE_EXECUTED, EXPIRED]);
}

#[test]
fn a_margin_covers_a_slow_clock_and_the_servers_time_a_fast_one() {
    for offset_gap in [0, 1] {
        let mishaps = Mishaps { losses: 1, slow_ticks: 1, fast_ticks: 1, attempts: 3, ..NO_MISHAPS };
        let timing = Timing { lease: 3, extends: &[2, 4], window: 1, margin: 1, offset_gap };
        holds("clock errors", timed(bounded(PAIR, 2, 1, mishaps), timing), &[GRANT_AFTER_LOSS, EXPIRED]);
    }
}

#[test]
fn a_client_whose_key_was_deleted_is_notified() {
    let model = bounded(PAIR, 2, 1, Mishaps { losses: 1, deletions: 1, attempts: 2, ..NO_MISHAPS });
    holds("an administrator deletes the key", model, &[GRANT_AFTER_LOSS]);
}

#[test]
fn a_shortened_lease_may_outlive_the_window() {
    for offset_gap in [0, 1] {
        let mishaps = Mishaps { losses: 2, fast_ticks: 1, ..NO_MISHAPS };
        let model = timed(bounded(ALONE, 1, 1, mishaps), Timing { offset_gap, ..ALONE.timing });
        holds("one client, long leases", model, &[GRANT_AFTER_LOSS, LATE_EXECUTED, EXPIRED]);
    }
}

/// The client's own clock and a lower bound of the clock difference are sufficient while both
/// clocks run at the same rate.
#[test]
fn the_clients_clock_may_decide_while_both_clocks_run_alike() {
    let rules = Rules { server_time_decides: false, ..Rules::ALL };
    for offset_gap in [0, 1] {
        let alone = bounded(ALONE, 1, 1, Mishaps { losses: 2, ..NO_MISHAPS });
        let alone = timed(alone, Timing { offset_gap, ..ALONE.timing });
        holds("one client, its own clock", OneLevel { rules, ..alone }, &[GRANT_AFTER_LOSS, LATE_EXECUTED]);
        let pair = bounded(PAIR, 2, 1, Mishaps { losses: 2, attempts: 2, ..NO_MISHAPS });
        let pair = timed(pair, Timing { offset_gap, ..PAIR.timing });
        holds("two clients, their own clocks", OneLevel { rules, ..pair }, &[GRANT_AFTER_LOSS, LATE_EXECUTED]);
    }
}

/// The model usually removes bytes without effect. If it does not, the same properties hold, and
/// refused copies are reached.
#[test]
fn late_bytes_without_effect_change_nothing() {
    let model = bounded(PAIR, 2, 1, Mishaps { losses: 1, attempts: 3, ..NO_MISHAPS });
    let model = OneLevel { bounds: Bounds { drop_idle_bytes: false, ..model.bounds }, ..model };
    holds("every late byte kept", model, &[GRANT_AFTER_LOSS, LATE_REFUSED, LATE_EXECUTED, EXPIRED]);
}
