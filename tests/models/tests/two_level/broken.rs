//! The two-level protocol without one of its rules: for each, the checker finds a violation.

use crate::support::{HOLDER, JOB, LONG, NO_MISHAPS, PAIR, PLAIN, SHORT, TOKENS, breaks, with};
use redgrid_models::two_level::properties::*;
use redgrid_models::two_level::{Bounds, Mishaps, Rules, Timing, TwoLevel};

/// A test per rule: its name, the configuration, the rules that are off, the property that is
/// violated.
macro_rules! without {
    ($($test:ident: $model:expr, [$($rule:ident),+] breaks $property:expr;)+) => {$(
        #[test]
        fn $test() {
            let rules = Rules { $($rule: false,)+ ..Rules::ALL };
            breaks(stringify!($test), TwoLevel { rules, ..$model }, $property);
        }
    )+};
}

/// Leases that differ, and a hand-over window long enough for two of them.
const MIXED: TwoLevel =
    with(TwoLevel { timing: Timing { handover_window: 2, ..PAIR.timing }, ..PAIR }, &[SHORT, LONG, PLAIN], NO_MISHAPS);
/// The same, and a connection may be lost.
const MIXED_LOSSY: TwoLevel = with(MIXED, &[SHORT, LONG], Mishaps { losses: 1, ..NO_MISHAPS });
/// A theft, without tokens.
const TOLD: TwoLevel = with(PAIR, &[SHORT], Mishaps { thefts: 1, ..NO_MISHAPS });
/// A connection may be lost.
const LOSSY: TwoLevel = with(PAIR, &[SHORT], Mishaps { losses: 1, ..NO_MISHAPS });
/// Holders that enter again.
const AGAIN: TwoLevel =
    TwoLevel { bounds: Bounds { requests: &[HOLDER, SHORT], reentry: true, ..PAIR.bounds }, ..PAIR };
/// A job that must run once, and a crash.
const JOBS: TwoLevel = with(PAIR, &[SHORT, JOB], Mishaps { crashes: 1, ..NO_MISHAPS });
/// A theft, and a hand-over window of two ticks.
const THEFT: TwoLevel = TwoLevel {
    timing: Timing { lease: 5, handover_window: 2, window: 0, tokens: true },
    bounds: Bounds { mishaps: Mishaps { thefts: 1, asks: 6, ..NO_MISHAPS }, ..TOKENS.bounds },
    ..TOKENS
};
/// A theft, within a hand-over window of four ticks.
const THEFT_EARLY: TwoLevel = TwoLevel { timing: Timing { lease: 2, handover_window: 4, ..THEFT.timing }, ..THEFT };
/// A theft that may be given up.
const THEFT_LEFT: TwoLevel = TwoLevel { bounds: Bounds { cancels: true, ..THEFT_EARLY.bounds }, ..THEFT_EARLY };
/// A theft whose request or reply is lost.
const THEFT_LOST: TwoLevel = with(THEFT_EARLY, &[PLAIN], Mishaps { thefts: 1, losses: 1, asks: 5, ..NO_MISHAPS });

without! {
    handed_on_after_the_deadline: MIXED, [hand_over_looks_at_the_deadline] breaks ENTERED_IS_HELD;
    lease_not_covered: MIXED, [hand_over_covers_the_lease] breaks BELIEVED_IS_HELD;
    lease_not_covered_lets_two_in: MIXED, [hand_over_covers_the_lease] breaks ONE_BELIEVES;
    lengthening_believed_at_once: MIXED, [lengthening_is_confirmed_first] breaks DEADLINE_IN_EXPIRY;
    lengthening_believed_at_once_lets_two_in: MIXED, [lengthening_is_confirmed_first] breaks ONE_BELIEVES;
    dispossessed_hands_over_after_its_window: THEFT, [window_ends_handover] breaks ROBBED_STAYS_BELOW;
    tokens_without_waiting: TOKENS, [token_waits_for_time] breaks TOKEN_IN_TIME;
    tokens_without_waiting_overtaken: TOKENS, [token_waits_for_time] breaks TOKENS_RISE;
    takers_token_at_once: THEFT_EARLY, [taker_waits_a_window] breaks ROBBED_STAYS_BELOW;
    unwanted_theft_freed_at_once: THEFT_LEFT, [unwanted_theft_waits] breaks ROBBED_STAYS_BELOW;
    unsure_theft_freed_at_once: THEFT_LOST, [unsure_theft_waits] breaks ROBBED_STAYS_BELOW;
    handed_on_after_a_notice: TOLD, [force_ends_hand_over] breaks TOLD_IS_KNOWN;
    belief_beyond_the_owners_deadline: PAIR, [owner_has_a_deadline] breaks ONE_BELIEVES;
    late_guard_ends_the_next_owner: PAIR, [release_names_its_owner] breaks ONE_BELIEVES;
    first_guard_ends: AGAIN, [last_guard_ends] breaks ONE_BELIEVES;
    reentry_lengthens: AGAIN, [reentry_keeps_the_deadline] breaks DEADLINE_IN_EXPIRY;
    reentry_after_the_deadline: AGAIN, [reentry_ends_with_the_deadline] breaks BELIEVED_IS_HELD;
    grant_goes_with_its_asker: PAIR, [grant_outlives_its_asker] breaks NOTHING_THROWN_AWAY;
    watch_goes_with_its_asker: PAIR, [watch_outlives_its_asker] breaks NO_LOST_WAKE_UP;
    lost_lengthening_unnoticed: MIXED_LOSSY, [loss_is_looked_at] breaks TENURE_MOVES;
    release_that_begins_nothing: PAIR, [release_begins_an_attempt] breaks NO_LOST_WAKE_UP;
    adopted_and_released: PAIR, [adoption_takes_the_release_back] breaks BELIEVED_IS_HELD;
    unsettled_is_replaced: LOSSY, [unsettled_is_kept] breaks NOTHING_LEFT_BEHIND;
    last_come_first: PAIR, [first_come_first_served] breaks FIRST_COME;
    at_least_forgotten: JOBS, [at_least_keeps_the_name] breaks AT_LEAST;
    at_least_dies_in_a_crash: JOBS, [at_least_is_in_the_lease] breaks AT_LEAST;
}
