//! Tests of the checker: it finds planted violations, and accepts correct histories.

use redgrid_tests::history::{Event, STARVED, What};

use super::check::violations;
use super::story::History;

/// A record written by hand, of one task.
#[derive(Default)]
struct Record(Vec<Event>);

impl Record {
    fn at(mut self, at: u64, id: u64, what: What) -> Self {
        self.0.push(Event { at, task: 0, id, what });
        self
    }

    /// A hold that is believed from `got` to `until`, and released in one instant more.
    fn hold(self, id: u64, token: u64, asked: u64, got: u64, until: u64) -> Self {
        self.taken(id, token, asked, got, until).at(until, id, What::Give).at(until + 1, id, What::Gave { ok: true })
    }

    fn taken(self, id: u64, token: u64, asked: u64, got: u64, until: u64) -> Self {
        let ask = What::Ask { name: "a".into(), steal: false, again: None };
        self.at(asked, id, ask).at(got, id, What::Got { token }).at(until, id, What::Held)
    }

    fn update(self, id: u64, at: u64, read: u64, held: bool) -> Self {
        self.at(at + 1, id, What::Update { began: at, read }).at(at + 2, id, What::Updated { held })
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
fn a_history_without_fault_has_no_violations() {
    let one = Record::default().taken(0, 10, 0, 5, 8).update(0, 10, 0, true).update(0, 20, 1, true);
    let one = one.at(30, 0, What::Give).at(40, 0, What::Gave { ok: true });
    // Stopped within its update, and told so: it overwrites what came after it.
    let two = Record::default().taken(0, 20, 3, 39, 41).at(50, 0, What::Update { began: 41, read: 2 });
    let two = two.at(200, 0, What::Updated { held: false }).at(201, 0, What::Give);
    let three = Record::default().taken(0, 30, 60, 100, 105).update(0, 110, 2, true).update(0, 120, 3, true);
    let three = three.at(130, 0, What::Give).at(131, 0, What::Gave { ok: true });
    let ask = What::Ask { name: "a".into(), steal: false, again: None };
    let four = Record::default().at(6, 0, ask).at(9, 0, What::Busy);
    let mut history = history([one, two, three, four]);
    history.counters.insert("a".into(), 3);
    history.accepted.insert("a".into(), vec![(10, 1), (10, 2), (30, 3)]);
    assert_eq!(violations(&history), Vec::<String>::new());
}

#[test]
fn beliefs_that_overlap_are_found() {
    let one = Record::default().hold(0, 10, 0, 5, 50);
    let two = Record::default().hold(0, 20, 0, 49, 60);
    assert!(finds(&history([one, two]), "both believed"));
    // One after the other is fine, and so is what its process only found lost later.
    let one = Record::default().taken(0, 10, 0, 5, 48).at(90, 0, What::NotHeld).at(91, 0, What::Give);
    let two = Record::default().hold(0, 20, 0, 49, 60);
    assert_eq!(violations(&history([one, two])), Vec::<String>::new());
}

#[test]
fn a_guard_within_another_is_the_same_hold_and_outlives_it() {
    let within = |token| {
        let one = Record::default().taken(0, 10, 0, 5, 20);
        let one = one.at(21, 1, What::Ask { name: "a".into(), steal: false, again: Some(0) });
        let one = one.at(22, 1, What::Got { token }).at(25, 0, What::Held);
        one.at(30, 0, What::Give).at(31, 0, What::Gave { ok: true })
    };
    let end = |record: Record| record.at(80, 1, What::Held).at(81, 1, What::Give).at(82, 1, What::Gave { ok: true });
    assert_eq!(violations(&history([end(within(10))])), Vec::<String>::new());
    // Released with the first guard: another comes in while the second is believed.
    let two = Record::default().hold(0, 40, 35, 40, 50);
    assert!(finds(&history([end(within(10)), two]), "both believed"));
    assert!(finds(&history([end(within(12))]), "both believed"));
}

#[test]
fn a_read_beside_a_write_is_found() {
    let ask = || What::Ask { name: "a".into(), steal: false, again: None };
    let read = |id, got, until| {
        let record = Record::default().at(0, id, ask()).at(got, id, What::Reads).at(until, id, What::Held);
        record.at(until, id, What::Give).at(until + 1, id, What::Gave { ok: true })
    };
    let write = || Record::default().hold(0, 10, 0, 50, 60);
    assert!(finds(&history([read(0, 5, 51), write()]), "reads and"));
    assert!(finds(&history([read(0, 55, 57), write()]), "reads and"));
    assert_eq!(violations(&history([read(0, 5, 50), read(0, 7, 49), write(), read(0, 60, 90)])), Vec::<String>::new());
}

/// What three processes record that read, write, and go from the one to the other: one reads and
/// upgrades, another reads beside it, the third writes and downgrades.
fn of_readers_and_writers() -> [Record; 3] {
    let ask = || What::Ask { name: "a".into(), steal: false, again: None };
    let gave = || What::Gave { ok: true };
    let one = Record::default().at(0, 0, ask()).at(5, 0, What::Reads).at(20, 0, What::Held).at(21, 0, What::Give);
    let one = one.at(22, 1, ask()).at(40, 1, What::Converted { from: 0 }).at(41, 1, What::Got { token: 40 });
    let one = one.at(42, 1, What::Held).update(1, 44, 0, true).at(50, 1, What::Held);
    let one = one.at(51, 1, What::Give).at(52, 1, gave());
    let two = Record::default().at(1, 0, ask()).at(6, 0, What::Reads).at(30, 0, What::Held);
    let two = two.at(31, 0, What::Give).at(32, 0, gave());
    let three = Record::default().at(7, 0, ask()).at(60, 0, What::Got { token: 60 }).at(61, 0, What::Held);
    let three = three.update(0, 62, 1, true).at(70, 0, What::Held).at(71, 0, What::Give);
    let three = three.at(72, 1, ask()).at(80, 1, What::Converted { from: 0 }).at(81, 1, What::Reads);
    let three = three.at(90, 1, What::Held).at(91, 1, What::Give).at(92, 1, gave());
    [one, two, three]
}

fn read_write(records: [Record; 3]) -> History {
    let mut history = history(records);
    history.counters.insert("a".into(), 2);
    history
}

/// The event at this instant is another.
fn instead(record: &mut Record, at: u64, what: What) {
    record.0.iter_mut().find(|event| event.at == at).expect("it is there").what = what;
}

/// An event happened later, or earlier.
fn moved(record: &mut Record, at: u64, to: u64) {
    record.0.iter_mut().find(|event| event.at == at).expect("it is there").at = to;
}

#[test]
fn readers_and_writers_without_fault_have_no_violations() {
    assert_eq!(violations(&read_write(of_readers_and_writers())), Vec::<String>::new());
}

/// A fault that is planted, and how the checker tells it.
type Fault = (&'static str, fn(&mut [Record; 3]));

#[test]
fn faults_of_readers_writers_and_conversions_are_found() {
    let faults: [Fault; 12] = [
        // The read beside it is believed when the upgrade has been granted.
        ("reads and", |[_, two, _]| moved(two, 30, 43)),
        // A reader comes in while the upgraded one writes.
        ("reads and", |[_, two, _]| {
            for (at, to) in [(1, 42), (6, 45), (30, 46), (31, 47), (32, 48)] {
                moved(two, at, to);
            }
        }),
        // The read of a downgrade goes on beside another writer.
        ("reads and", |[one, ..]| one.0.extend(writes(7, 85, 85, 88).0)),
        // Two write at a time.
        ("both believed", |[_, two, _]| two.0.extend(writes(7, 45, 45, 49).0)),
        // Between a read and its upgrade another wrote, and left.
        ("within the conversion", |[_, two, _]| two.0.extend(writes(7, 33, 33, 38).0)),
        // Between a write and its downgrade.
        ("within the conversion", |[_, two, _]| two.0.extend(writes(7, 73, 73, 78).0)),
        // It wrote before the old guard was last believed, and after the new one was granted: all
        // the time.
        ("within the conversion", |[_, two, _]| two.0.extend(writes(7, 19, 19, 45).0)),
        // An upgrade gets the token of one before it.
        ("got 40 after somebody had 50", |[_, two, _]| two.0.extend(writes(7, 50, 2, 3).0)),
        ("given to two holders", |[_, two, _]| two.0.extend(writes(7, 60, 93, 95).0)),
        // An upgraded writer does not see what was written, or is not seen.
        ("wrote 1, and 60 read 0", |[.., three]| instead(three, 63, What::Update { began: 62, read: 0 })),
        // A read that was lost is released as if it was not.
        ("although it was lost", |[_, two, _]| instead(two, 30, What::NotHeld)),
        ("never got it", |[one, ..]| instead(one, 41, What::Nothing { how: STARVED.into() })),
    ];
    for (n, (word, plant)) in faults.into_iter().enumerate() {
        let mut records = of_readers_and_writers();
        plant(&mut records);
        let found = violations(&read_write(records));
        assert!(found.iter().any(|what| what.contains(word)), "fault {n}: {word}: {found:?}");
    }
}

/// One who writes from `got` to `until`.
fn writes(id: u64, token: u64, got: u64, until: u64) -> Record {
    Record::default().hold(id, token, got.saturating_sub(1), got, until)
}

#[test]
fn tokens_that_fall_are_found() {
    let one = Record::default().hold(0, 20, 0, 5, 10);
    let two = Record::default().hold(0, 15, 11, 12, 20);
    assert!(finds(&history([one, two]), "got 15 after somebody had 20"));
    let one = Record::default().hold(0, 20, 0, 5, 10);
    let two = Record::default().hold(0, 20, 3, 12, 20);
    assert!(finds(&history([one, two]), "given to two holders"));
}

#[test]
fn a_lost_update_of_a_believed_hold_is_found() {
    let one = Record::default().taken(0, 10, 0, 5, 6).update(0, 10, 0, true).at(20, 0, What::Give);
    let two = Record::default().taken(0, 20, 0, 25, 26).update(0, 30, 0, true).at(40, 0, What::Give);
    let mut twice = history([one, two]);
    twice.counters.insert("a".into(), 1);
    assert!(finds(&twice, "10 wrote 1, and 20 read 0"));
    let one = Record::default().taken(0, 10, 0, 5, 6).update(0, 10, 0, true).at(20, 0, What::Give);
    assert!(finds(&history([one]), "at the end it was 0"));
}

#[test]
fn a_stale_write_that_the_register_took_is_found() {
    for (accepted, word) in [(vec![(20, 1), (10, 2)], "took 10 after 20"), (vec![(10, 1), (20, 1)], "wrote 1 for 2")] {
        let mut history = history([Record::default().hold(0, 10, 0, 5, 6), Record::default().hold(0, 20, 0, 8, 9)]);
        history.accepted.insert("a".into(), accepted);
        assert!(finds(&history, word));
    }
    let refused = Record::default().taken(0, 10, 0, 5, 6).at(8, 0, What::Refused { held: true });
    assert!(finds(&history([refused]), "refused 10"));
}

#[test]
fn an_unexplainable_history_is_not_linearizable() {
    let ask = || What::Ask { name: "a".into(), steal: false, again: None };
    // Taken, says one who looked when it had been given back for long.
    let one = Record::default().hold(0, 10, 0, 5, 20);
    let two = Record::default().at(30, 0, ask()).at(40, 0, What::Busy);
    assert!(finds(&history([one, two]), "not linearizable"));
    // Others go first: nobody has it, and somebody waits.
    let one = Record::default().hold(0, 10, 0, 5, 20);
    let two = Record::default().at(30, 0, ask()).at(40, 0, What::Busy);
    let three = Record::default().hold(0, 20, 25, 60, 90);
    assert_eq!(violations(&history([one, two, three])), Vec::<String>::new());
    // Given while its holder had it: his release was confirmed afterwards.
    let one = Record::default().taken(0, 10, 0, 5, 5).at(50, 0, What::Give).at(60, 0, What::Gave { ok: true });
    let two = Record::default().taken(0, 20, 6, 9, 9).at(12, 0, What::Give).at(15, 0, What::Gave { ok: true });
    assert!(finds(&history([one, two]), "not linearizable"));
    // Handed on and lost before its process came to know of it.
    let one = Record::default().at(0, 0, ask()).at(70, 0, What::Got { token: 10 }).at(71, 0, What::NotHeld);
    let two = Record::default().hold(0, 20, 5, 60, 90);
    assert_eq!(violations(&history([one, two])), Vec::<String>::new());
    // A request that was cancelled may have had it for a moment.
    let one = Record::default().hold(0, 10, 0, 5, 20).at(22, 1, ask()).at(24, 1, What::Nothing { how: "left".into() });
    let two = Record::default().at(30, 0, ask()).at(40, 0, What::Busy);
    assert_eq!(violations(&history([one, two])), Vec::<String>::new());
}

#[test]
fn a_confirmed_release_of_a_lost_lock_is_found() {
    let one = Record::default().taken(0, 10, 0, 5, 6).at(9, 0, What::NotHeld).at(10, 0, What::Give);
    assert!(finds(&history([one.at(11, 0, What::Gave { ok: true })]), "although it was lost"));
}
