//! Whether the holder of a lock works.

use std::collections::BTreeMap;

use crate::snapshot::{Living, Presence, Process, Reading};

/// A change of a lease's end by less than this is the inaccuracy of its measurement: 1.5 s.
const JITTER_MS: u64 = 1_500;

/// After a primary was replaced or restarted, clients may not have connected to the new one for
/// this long: 10 s.
const SETTLING_MS: u64 = 10_000;

/// Whether a holder works.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub(crate) enum State {
    /// Its client is connected.
    Alive,
    /// Its client is connected, has answered before, and does not answer now.
    Silent,
    /// Its client is connected, and has never answered.
    Unreported,
    /// Its client was not connected twice, and has not renewed: the hold ends with its lease.
    Gone,
    /// It is no client of this library, such as one of Redisson.
    Foreign,
    /// Nothing of this is known, or not yet.
    Unknown,
}

impl State {
    pub(crate) const ALL: [State; 6] =
        [State::Alive, State::Silent, State::Unreported, State::Gone, State::Foreign, State::Unknown];

    /// Returns its name in addresses and style classes.
    pub(crate) fn id(self) -> &'static str {
        match self {
            State::Alive => "alive",
            State::Silent => "silent",
            State::Unreported => "unreported",
            State::Gone => "gone",
            State::Foreign => "foreign",
            State::Unknown => "unknown",
        }
    }

    /// Returns its name for people.
    pub(crate) fn label(self) -> &'static str {
        match self {
            State::Alive => "alive",
            State::Silent => "silent",
            State::Unreported => "does not report",
            State::Gone => "gone",
            State::Foreign => "not redgrid",
            State::Unknown => "unknown",
        }
    }

    /// Returns an explanation.
    pub(crate) fn meaning(self) -> &'static str {
        match self {
            State::Alive => "The client of the holder is connected.",
            State::Silent => {
                "The client is connected. It has answered before, and does not answer now: its process may be \
                 stopped or blocked."
            }
            State::Unreported => {
                "The client is connected, and has not answered since the console watches it. Its process may be \
                 stopped or blocked. Or it does not report: introspection is off, it may not publish, or its \
                 version is older."
            }
            State::Gone => {
                "The client has been absent for at least 1.5 s, and still has the lock, which it has not renewed. If \
                 the lock has a lease, it is free at its end."
            }
            State::Foreign => "The holder is no client of redgrid, for example one of Redisson.",
            State::Unknown => {
                "It is not known whether the client works: the list of clients is missing or too old, a server has \
                 just been replaced, the lock was not read since the client left, or the holder renews its lease \
                 without being connected."
            }
        }
    }
}

/// The readings of a lock about one of its holders. Times are in milliseconds since 1970.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Seen {
    /// When the holder was first seen.
    pub(crate) first_at: u64,
    /// When it was last seen.
    pub(crate) last_at: u64,
    /// When its lease ends; `None` without a lease. It does not change with the inaccuracy of each
    /// measurement.
    pub(crate) until: Option<u64>,
    /// When the lease was last seen to end later than before.
    renewed_at: Option<u64>,
    /// Set if its last renewal came while its client was absent: until when the next one comes at
    /// the latest.
    unconnected_until: Option<u64>,
}

impl Seen {
    /// Returns what the first reading says.
    pub(crate) fn first(at: u64, until: Option<u64>) -> Seen {
        Seen { first_at: at, last_at: at, until, renewed_at: None, unconnected_until: None }
    }

    /// Returns the reading for a waiter: it has no lease, and may have waited for long.
    pub(crate) fn waiting(at: u64) -> Seen {
        Seen { first_at: 0, ..Seen::first(at, None) }
    }

    /// Adds a later reading, with the state of the holder's client in the lists of clients.
    pub(crate) fn again(self, at: u64, until: Option<u64>, presence: Presence) -> Seen {
        let mut seen = Seen { last_at: at, until, ..self };
        if let (Some(now), Some(before)) = (until, self.until) {
            // Near its end, a lease of about a second would be shown as over although it is
            // renewed.
            if now.abs_diff(before) < JITTER_MS && before >= at.saturating_add(JITTER_MS) {
                seen.until = self.until;
            }
            if now >= before.saturating_add(JITTER_MS) {
                seen.renewed_at = Some(at);
                seen.unconnected_until = match presence {
                    // The renewal came after the last reading, so after the client was absent. A
                    // lease is renewed in each third of it, so the next renewal is overdue at half.
                    Presence::Absent { since } if since <= self.last_at => Some(at.midpoint(now.max(at))),
                    Presence::Connected => None,
                    _ => self.unconnected_until,
                };
            }
        }
        seen
    }

    /// Returns whether the holder renews its lease without being connected, as far as the last
    /// reading shows.
    fn renews_unconnected(&self) -> bool {
        self.unconnected_until.is_some_and(|until| self.last_at <= until)
    }
}

/// Returns the state of a holder.
pub(crate) fn state_of(
    client: &str,
    seen: &Seen,
    living: &Reading<Living>,
    processes: &BTreeMap<String, Process>,
) -> State {
    let Some(clients) = living.get() else { return State::Unknown };
    if clients.has(client) {
        return connected_state(processes.get(client));
    }
    let Some(read_at) = living.read_at().filter(|_| clients.is_complete) else { return State::Unknown };
    if !is_own_id(client) {
        // An older list cannot contain a client that was seen later.
        return if read_at > seen.first_at { State::Foreign } else { State::Unknown };
    }
    let is_settled = clients.changed_at.is_none_or(|at| read_at >= at.saturating_add(SETTLING_MS));
    let is_gone = clients.absent_since(client, read_at).is_some_and(|since| {
        // A client that leaves releases its locks: one that was not read since may be free.
        let is_kept = since > seen.first_at && seen.last_at >= since;
        is_kept && seen.renewed_at.is_none_or(|at| at < since) && !seen.renews_unconnected()
    });
    if is_settled && is_gone { State::Gone } else { State::Unknown }
}

/// Returns the state of a client that is connected.
pub(crate) fn connected_state(process: Option<&Process>) -> State {
    match process {
        Some(process) if process.silent_since.is_none() => State::Alive,
        Some(process) if process.has_answered => State::Silent,
        Some(_) => State::Unreported,
        None => State::Alive,
    }
}

/// Returns whether a client's id is one of redgrid: a UUID of version 8. The ids of
/// Redisson have version 4.
fn is_own_id(client: &str) -> bool {
    client.len() == 36 && client.as_bytes()[14] == b'8'
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A client of redgrid, and one of Redisson.
    const OWN: &str = "0f8fad5b-d9cb-869f-a165-70867728950e";
    const JAVA: &str = "0f8fad5b-d9cb-469f-a165-70867728950e";

    /// Lists of the living clients, each with its time.
    fn living(lists: &[(&[&str], u64)]) -> Reading<Living> {
        let mut reading: Reading<Living> = Reading::default();
        for (ids, at) in lists {
            let ids = ids.iter().map(|id| (*id).to_owned()).collect();
            let next = Living::of(ids, true).after(&reading, *at);
            reading.answered(next, *at);
        }
        reading
    }

    fn state(client: &str, seen: &Seen, living: &Reading<Living>) -> State {
        state_of(client, seen, living, &BTreeMap::new())
    }

    #[test]
    fn a_client_is_gone_after_two_lists_without_it() {
        let seen = Seen::first(1_000, Some(60_000)).again(4_000, Some(60_000), Presence::Unknown);
        for (lists, expected) in [
            (&[][..], State::Unknown),
            (&[(&[][..], 2_000)], State::Unknown),
            (&[(&[], 2_000), (&[], 3_000)], State::Unknown),
            (&[(&[], 2_000), (&[], 3_000), (&[], 4_000)], State::Gone),
            (&[(&[OWN], 2_000), (&[], 3_000), (&[], 4_000)], State::Unknown),
            (&[(&[OWN], 2_000), (&[], 3_000), (&[], 4_000), (&[], 5_000)], State::Gone),
            (&[(&[], 2_000), (&[], 12_000)], State::Gone),
            // It reconnected for a moment.
            (&[(&[], 2_000), (&[OWN], 3_000), (&[], 4_000)], State::Unknown),
            (&[(&[], 2_000), (&[], 4_000), (&[OWN], 5_000)], State::Alive),
            // The first list is older than the holder.
            (&[(&[], 1_000), (&[], 4_000)], State::Unknown),
            // The lock was not read since the client left, and may be free.
            (&[(&[OWN], 3_000), (&[], 4_001), (&[], 6_000)], State::Unknown),
        ] {
            assert_eq!(state(OWN, &seen, &living(lists)), expected, "{lists:?}");
        }
    }

    #[test]
    fn a_client_of_redisson_is_foreign_once_the_list_is_newer() {
        for client in [JAVA, "odd"] {
            let seen = Seen::first(1_000, None);
            assert_eq!(state(client, &seen, &living(&[(&[], 1_001)])), State::Foreign);
            assert_eq!(state(client, &seen, &living(&[(&[], 1_000)])), State::Unknown);
        }
    }

    #[test]
    fn nothing_is_gone_while_the_list_is_incomplete_or_a_server_is_new() {
        let seen = Seen::first(1_000, Some(60_000)).again(20_000, Some(60_000), Presence::Unknown);
        let mut lists = living(&[(&[], 2_000), (&[], 4_000)]);
        let at = |changed_at, is_complete| {
            let mut list = (**lists.get().unwrap()).clone();
            (list.changed_at, list.is_complete) = (changed_at, is_complete);
            list
        };
        let (new, old, part) = (at(Some(3_000), true), at(Some(0), true), at(None, false));
        for (list, at, expected) in
            [(new.clone(), 12_999, State::Unknown), (new, 13_000, State::Gone), (old, 20_000, State::Gone)]
        {
            lists.answered(list, at);
            assert_eq!(state(OWN, &seen, &lists), expected, "{at}");
        }
        lists.answered(part, 20_000);
        assert_eq!((state(OWN, &seen, &lists), state(JAVA, &seen, &lists)), (State::Unknown, State::Unknown));
    }

    #[test]
    fn a_holder_that_renews_without_a_channel_is_not_gone() {
        let lists = living(&[(&[], 2_000), (&[], 4_000), (&[], 6_000), (&[], 8_000)]);
        let seen = Seen::first(1_000, Some(30_000));
        let absent = Presence::Absent { since: 2_000 };
        let quiet = seen.again(7_000, Some(30_100), absent);
        assert_eq!((quiet.until, state(OWN, &quiet, &lists)), (Some(30_000), State::Gone));
        let unconnected = quiet.again(7_500, Some(37_000), absent).again(8_000, Some(37_000), absent);
        let later = living(&[(&[], 20_000), (&[], 22_000)]);
        assert_eq!(state(OWN, &unconnected.again(22_000, Some(37_000), absent), &later), State::Unknown);
        // It died after it had renewed.
        let died = seen.again(3_000, Some(33_000), Presence::Connected).again(8_000, Some(33_000), absent);
        assert_eq!(state(OWN, &died, &lists), State::Gone);
        let just = seen.again(7_000, Some(37_000), Presence::Unknown);
        assert_eq!(state(OWN, &just, &lists), State::Unknown);
    }

    #[test]
    fn a_holder_that_stops_to_renew_without_a_channel_is_gone() {
        let lists = living(&[(&[], 20_000), (&[], 22_000)]);
        let absent = Presence::Absent { since: 1_000 };
        let renewed = Seen::first(1_000, Some(30_000)).again(8_000, Some(38_000), absent);
        for (at, expected) in [(22_000, State::Unknown), (23_000, State::Unknown), (23_001, State::Gone)] {
            assert_eq!(state(OWN, &renewed.again(at, Some(38_000), absent), &lists), expected, "{at}");
        }
        // The client connects, renews, and dies.
        let connected = renewed.again(18_000, Some(48_000), Presence::Connected);
        assert_eq!(state(OWN, &connected.again(20_500, Some(48_000), absent), &lists), State::Gone);
        let uncertain = renewed.again(18_000, Some(48_000), Presence::Unknown);
        assert_eq!(state(OWN, &uncertain.again(20_500, Some(48_000), absent), &lists), State::Unknown);
    }

    #[test]
    fn only_a_client_that_has_answered_is_silent() {
        let with = |has_answered, silent_since| Process { has_answered, silent_since, ..Process::default() };
        assert_eq!(connected_state(Some(&with(true, Some(5)))), State::Silent);
        assert_eq!(connected_state(Some(&with(false, Some(5)))), State::Unreported);
        assert_eq!((connected_state(Some(&with(false, None))), connected_state(None)), (State::Alive, State::Alive));
    }

    #[test]
    fn the_end_of_a_lease_does_not_flicker_and_a_short_one_is_not_over() {
        let first = Seen::first(10, Some(60_000));
        let next = first.again(20, Some(60_900), Presence::Unknown);
        assert_eq!((next.until, next.first_at, next.last_at), (Some(60_000), 10, 20));
        assert_eq!(next.again(30, Some(70_000), Presence::Unknown).until, Some(70_000));
        let short = Seen::first(1_000, Some(2_000)).again(1_700, Some(2_700), Presence::Unknown);
        assert_eq!(short.until, Some(2_700));
    }
}
