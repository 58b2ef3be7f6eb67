//! Tests of the checker: it finds planted violations, and accepts correct histories.

use redgrid_tests::history::{Event, Kind, STARVED};

use super::check::violations;
use super::story::History;

/// A record written by hand, of one task.
#[derive(Default)]
struct Record(Vec<Event>);

impl Record {
    fn at(mut self, at: u64, id: u64, kind: Kind) -> Self {
        self.0.push(Event { at, task: 0, id, kind });
        self
    }

    /// Adds a hold that is valid from `got` to `until`. Its release begins at `until`, and is
    /// confirmed one instant later.
    fn hold(self, id: u64, token: u64, sent: u64, got: u64, until: u64) -> Self {
        self.taken(id, token, sent, got, until).at(until, id, Kind::Give).at(until + 1, id, Kind::Gave { ok: true })
    }

    fn taken(self, id: u64, token: u64, sent: u64, got: u64, until: u64) -> Self {
        let request = Kind::Request { name: "a".into(), steal: false, again: None };
        self.at(sent, id, request).at(got, id, Kind::Got { token }).at(until, id, Kind::Held)
    }

    fn update(self, id: u64, at: u64, read: u64, held: bool) -> Self {
        self.at(at + 1, id, Kind::Update { began: at, read }).at(at + 2, id, Kind::Updated { held })
    }
}

fn history<const N: usize>(records: [Record; N]) -> History {
    let records = records.map(|record| record.0).to_vec();
    History { records, exclusive: true, calm: true, ..History::default() }
}

fn finds(history: &History, word: &str) -> bool {
    violations(history).iter().any(|what| what.contains(word))
}

#[test]
fn a_history_without_faults_has_no_violations() {
    let one = Record::default().taken(0, 10, 0, 5, 8).update(0, 10, 0, true).update(0, 20, 1, true);
    let one = one.at(30, 0, Kind::Give).at(40, 0, Kind::Gave { ok: true });
    // This process was stopped during its update, and then found its lock lost. Its late write
    // overwrites newer writes.
    let two = Record::default().taken(0, 20, 3, 39, 41).at(50, 0, Kind::Update { began: 41, read: 2 });
    let two = two.at(200, 0, Kind::Updated { held: false }).at(201, 0, Kind::Give);
    let three = Record::default().taken(0, 30, 60, 100, 105).update(0, 110, 2, true).update(0, 120, 3, true);
    let three = three.at(130, 0, Kind::Give).at(131, 0, Kind::Gave { ok: true });
    let request = Kind::Request { name: "a".into(), steal: false, again: None };
    let four = Record::default().at(6, 0, request).at(9, 0, Kind::Busy);
    let mut history = history([one, two, three, four]);
    history.counters.insert("a".into(), 3);
    history.accepted.insert("a".into(), vec![(10, 1), (10, 2), (30, 3)]);
    assert_eq!(violations(&history), Vec::<String>::new());
}

#[test]
fn valid_holds_that_overlap_are_found() {
    let one = Record::default().hold(0, 10, 0, 5, 50);
    let two = Record::default().hold(0, 20, 0, 49, 60);
    assert!(finds(&history([one, two]), "both valid"));
    // Consecutive holds are no violation, even if the first process notices its loss later.
    let one = Record::default().taken(0, 10, 0, 5, 48).at(90, 0, Kind::NotHeld).at(91, 0, Kind::Give);
    let two = Record::default().hold(0, 20, 0, 49, 60);
    assert_eq!(violations(&history([one, two])), Vec::<String>::new());
}

#[test]
fn a_guard_within_another_is_the_same_hold_and_outlives_it() {
    let within = |token| {
        let one = Record::default().taken(0, 10, 0, 5, 20);
        let one = one.at(21, 1, Kind::Request { name: "a".into(), steal: false, again: Some(0) });
        let one = one.at(22, 1, Kind::Got { token }).at(25, 0, Kind::Held);
        one.at(30, 0, Kind::Give).at(31, 0, Kind::Gave { ok: true })
    };
    let end = |record: Record| record.at(80, 1, Kind::Held).at(81, 1, Kind::Give).at(82, 1, Kind::Gave { ok: true });
    assert_eq!(violations(&history([end(within(10))])), Vec::<String>::new());
    // The hold was released with the first guard: another task enters while the second guard still
    // reports the lock as held.
    let two = Record::default().hold(0, 40, 35, 40, 50);
    assert!(finds(&history([end(within(10)), two]), "both valid"));
    assert!(finds(&history([end(within(12))]), "both valid"));
}

#[test]
fn a_read_beside_a_write_is_found() {
    let request = || Kind::Request { name: "a".into(), steal: false, again: None };
    let read = |id, got, until| {
        let record = Record::default().at(0, id, request()).at(got, id, Kind::Reads).at(until, id, Kind::Held);
        record.at(until, id, Kind::Give).at(until + 1, id, Kind::Gave { ok: true })
    };
    let write = || Record::default().hold(0, 10, 0, 50, 60);
    assert!(finds(&history([read(0, 5, 51), write()]), "reads and"));
    assert!(finds(&history([read(0, 55, 57), write()]), "reads and"));
    assert_eq!(violations(&history([read(0, 5, 50), read(0, 7, 49), write(), read(0, 60, 90)])), Vec::<String>::new());
}

/// Returns the records of three processes that read, write and convert. The first reads and
/// upgrades, the second reads at the same time, the third writes and downgrades.
fn reader_and_writer_records() -> [Record; 3] {
    let request = || Kind::Request { name: "a".into(), steal: false, again: None };
    let gave = || Kind::Gave { ok: true };
    let one = Record::default().at(0, 0, request()).at(5, 0, Kind::Reads).at(20, 0, Kind::Held).at(21, 0, Kind::Give);
    let one = one.at(22, 1, request()).at(40, 1, Kind::Converted { from: 0 }).at(41, 1, Kind::Got { token: 40 });
    let one = one.at(42, 1, Kind::Held).update(1, 44, 0, true).at(50, 1, Kind::Held);
    let one = one.at(51, 1, Kind::Give).at(52, 1, gave());
    let two = Record::default().at(1, 0, request()).at(6, 0, Kind::Reads).at(30, 0, Kind::Held);
    let two = two.at(31, 0, Kind::Give).at(32, 0, gave());
    let three = Record::default().at(7, 0, request()).at(60, 0, Kind::Got { token: 60 }).at(61, 0, Kind::Held);
    let three = three.update(0, 62, 1, true).at(70, 0, Kind::Held).at(71, 0, Kind::Give);
    let three = three.at(72, 1, request()).at(80, 1, Kind::Converted { from: 0 }).at(81, 1, Kind::Reads);
    let three = three.at(90, 1, Kind::Held).at(91, 1, Kind::Give).at(92, 1, gave());
    [one, two, three]
}

fn read_write(records: [Record; 3]) -> History {
    let mut history = history(records);
    history.counters.insert("a".into(), 2);
    history
}

/// Replaces the event at this instant.
fn replace(record: &mut Record, at: u64, kind: Kind) {
    record.0.iter_mut().find(|event| event.at == at).expect("it is there").kind = kind;
}

/// Moves an event to another instant.
fn move_event(record: &mut Record, at: u64, to: u64) {
    record.0.iter_mut().find(|event| event.at == at).expect("it is there").at = to;
}

#[test]
fn readers_and_writers_without_faults_have_no_violations() {
    assert_eq!(violations(&read_write(reader_and_writer_records())), Vec::<String>::new());
}

/// A planted fault, and a word of the checker's report.
type Fault = (&'static str, fn(&mut [Record; 3]));

#[test]
fn faults_of_readers_writers_and_conversions_are_found() {
    let faults: [Fault; 12] = [
        // The second reader's hold is still valid when the upgrade is granted.
        ("reads and", |[_, two, _]| move_event(two, 30, 43)),
        // A reader enters while the upgraded task writes.
        ("reads and", |[_, two, _]| {
            for (at, to) in [(1, 42), (6, 45), (30, 46), (31, 47), (32, 48)] {
                move_event(two, at, to);
            }
        }),
        // The read hold of a downgrade continues while another task writes.
        ("reads and", |[one, ..]| one.0.extend(writes(7, 85, 85, 88).0)),
        // Two tasks write at the same time.
        ("both valid", |[_, two, _]| two.0.extend(writes(7, 45, 45, 49).0)),
        // Another task wrote between a read and its upgrade.
        ("within the conversion", |[_, two, _]| two.0.extend(writes(7, 33, 33, 38).0)),
        // Another task wrote between a write and its downgrade.
        ("within the conversion", |[_, two, _]| two.0.extend(writes(7, 73, 73, 78).0)),
        // Another task held the write lock from before the last instant of the old guard until
        // after the grant of the new one.
        ("within the conversion", |[_, two, _]| two.0.extend(writes(7, 19, 19, 45).0)),
        // An upgrade has a lower token than an earlier grant.
        ("got 40 after a grant of 50", |[_, two, _]| two.0.extend(writes(7, 50, 2, 3).0)),
        ("given to two holders", |[_, two, _]| two.0.extend(writes(7, 60, 93, 95).0)),
        // The third writer does not see the write of the upgraded task.
        ("wrote 1, and 60 read 0", |[.., three]| replace(three, 63, Kind::Update { began: 62, read: 0 })),
        // The release of a lost read is confirmed.
        ("although it was lost", |[_, two, _]| replace(two, 30, Kind::NotHeld)),
        ("never got it", |[one, ..]| replace(one, 41, Kind::NoGrant { how: STARVED.into() })),
    ];
    for (n, (word, plant)) in faults.into_iter().enumerate() {
        let mut records = reader_and_writer_records();
        plant(&mut records);
        let found = violations(&read_write(records));
        assert!(found.iter().any(|what| what.contains(word)), "fault {n}: {word}: {found:?}");
    }
}

/// Returns the record of a task that writes from `got` to `until`.
fn writes(id: u64, token: u64, got: u64, until: u64) -> Record {
    Record::default().hold(id, token, got.saturating_sub(1), got, until)
}

#[test]
fn tokens_that_fall_are_found() {
    let one = Record::default().hold(0, 20, 0, 5, 10);
    let two = Record::default().hold(0, 15, 11, 12, 20);
    assert!(finds(&history([one, two]), "got 15 after a grant of 20"));
    let one = Record::default().hold(0, 20, 0, 5, 10);
    let two = Record::default().hold(0, 20, 3, 12, 20);
    assert!(finds(&history([one, two]), "given to two holders"));
}

#[test]
fn a_lost_update_of_a_valid_hold_is_found() {
    let one = Record::default().taken(0, 10, 0, 5, 6).update(0, 10, 0, true).at(20, 0, Kind::Give);
    let two = Record::default().taken(0, 20, 0, 25, 26).update(0, 30, 0, true).at(40, 0, Kind::Give);
    let mut twice = history([one, two]);
    twice.counters.insert("a".into(), 1);
    assert!(finds(&twice, "10 wrote 1, and 20 read 0"));
    let one = Record::default().taken(0, 10, 0, 5, 6).update(0, 10, 0, true).at(20, 0, Kind::Give);
    assert!(finds(&history([one]), "at the end it was 0"));
}

#[test]
fn a_stale_write_that_the_register_took_is_found() {
    for (accepted, word) in [(vec![(20, 1), (10, 2)], "took 10 after 20"), (vec![(10, 1), (20, 1)], "wrote 1 for 2")] {
        let mut history = history([Record::default().hold(0, 10, 0, 5, 6), Record::default().hold(0, 20, 0, 8, 9)]);
        history.accepted.insert("a".into(), accepted);
        assert!(finds(&history, word));
    }
    let refused = Record::default().taken(0, 10, 0, 5, 6).at(8, 0, Kind::Refused { held: true });
    assert!(finds(&history([refused]), "refused 10"));
}

#[test]
fn an_unexplainable_history_is_not_linearizable() {
    let request = || Kind::Request { name: "a".into(), steal: false, again: None };
    // A try reports the lock as held, long after its release.
    let one = Record::default().hold(0, 10, 0, 5, 20);
    let two = Record::default().at(30, 0, request()).at(40, 0, Kind::Busy);
    assert!(finds(&history([one, two]), "not linearizable"));
    // A try may report a free lock as held while another task waits, because waiters go first.
    let one = Record::default().hold(0, 10, 0, 5, 20);
    let two = Record::default().at(30, 0, request()).at(40, 0, Kind::Busy);
    let three = Record::default().hold(0, 20, 25, 60, 90);
    assert_eq!(violations(&history([one, two, three])), Vec::<String>::new());
    // The second grant came while the first task held the lock: the release of the first one began
    // only later.
    let one = Record::default().taken(0, 10, 0, 5, 5).at(50, 0, Kind::Give).at(60, 0, Kind::Gave { ok: true });
    let two = Record::default().taken(0, 20, 6, 9, 9).at(12, 0, Kind::Give).at(15, 0, Kind::Gave { ok: true });
    assert!(finds(&history([one, two]), "not linearizable"));
    // The first hold was lost before its process noticed the grant.
    let one = Record::default().at(0, 0, request()).at(70, 0, Kind::Got { token: 10 }).at(71, 0, Kind::NotHeld);
    let two = Record::default().hold(0, 20, 5, 60, 90);
    assert_eq!(violations(&history([one, two])), Vec::<String>::new());
    // A cancelled request may have had the lock for a moment.
    let one = Record::default().hold(0, 10, 0, 5, 20).at(22, 1, request());
    let one = one.at(24, 1, Kind::NoGrant { how: "left".into() });
    let two = Record::default().at(30, 0, request()).at(40, 0, Kind::Busy);
    assert_eq!(violations(&history([one, two])), Vec::<String>::new());
}

#[test]
fn a_confirmed_release_of_a_lost_lock_is_found() {
    let one = Record::default().taken(0, 10, 0, 5, 6).at(9, 0, Kind::NotHeld).at(10, 0, Kind::Give);
    assert!(finds(&history([one.at(11, 0, Kind::Gave { ok: true })]), "although it was lost"));
}
