//! Merges the records of all processes: the holds of each lock, with their times.

use std::collections::{BTreeMap, HashMap};

use redgrid_tests::history::{Event, Kind, STARVED};

/// All records of a history, and the final state of the server.
#[derive(Default)]
pub(crate) struct History {
    /// The record of each process.
    pub(crate) records: Vec<Vec<Event>>,
    /// Processes that ended with an error, or not at all.
    pub(crate) wrong: Vec<String>,
    /// Locks on the server at a time when they should be free.
    pub(crate) left: Vec<String>,
    /// The writes that each lock's fenced register accepted: token and value.
    pub(crate) accepted: BTreeMap<String, Vec<(u64, u64)>>,
    /// The final value of each lock's counter.
    pub(crate) counters: BTreeMap<String, u64>,
    /// Whether no lock was taken by force, so that at most one hold is valid at a time. Otherwise
    /// only the tokens and the register are checked.
    pub(crate) exclusive: bool,
    /// Whether the history had no faults.
    pub(crate) calm: bool,
}

/// A process and its task.
pub(crate) type TaskId = (usize, u64);

/// Added to a task's number for a re-entry that got a new grant, because its first hold was lost.
const AGAIN: u64 = 1000;

/// The token of a read hold, which has none.
const READS: u64 = 0;

/// One hold, from the request to the last guard.
#[derive(Debug, Clone)]
pub(crate) struct Hold {
    pub(crate) task: TaskId,
    pub(crate) token: u64,
    pub(crate) sent: u64,
    pub(crate) got: u64,
    /// For a converted hold, the last instant at which the former guard was valid. No other task
    /// may have written since then.
    pub(crate) continues: Option<u64>,
    /// The last instant at which the hold was seen to be valid; it was valid ever since `got`.
    pub(crate) valid_until: Option<u64>,
    /// The hold was not valid from this instant on; unknown for a killed process.
    pub(crate) ended: Option<u64>,
    /// Whether it was found lost while a guard was alive.
    pub(crate) lost: bool,
    /// Start and end of its successful release.
    pub(crate) released: Option<(u64, u64)>,
}

/// A try that found the lock held: another task held it at some instant between `sent` and
/// `answered`.
#[derive(Debug, Clone)]
pub(crate) struct Busy {
    pub(crate) task: TaskId,
    pub(crate) sent: u64,
    pub(crate) answered: u64,
}

/// One change of the counter.
#[derive(Debug, Clone)]
pub(crate) struct Update {
    pub(crate) token: u64,
    pub(crate) began: u64,
    pub(crate) sent: u64,
    pub(crate) read: u64,
    pub(crate) answered: Option<u64>,
    /// Whether the lock was held from the first check until the answer.
    pub(crate) safe: bool,
}

/// The history of one lock.
#[derive(Debug, Default)]
pub(crate) struct Story {
    pub(crate) holds: Vec<Hold>,
    /// Holds for reading.
    pub(crate) reads: Vec<Hold>,
    pub(crate) busy: Vec<Busy>,
    /// Requests without a grant: the instants at which they were sent.
    pub(crate) ungranted: Vec<u64>,
    /// Tasks that waited longer than any task held the lock.
    pub(crate) starved: Vec<TaskId>,
    pub(crate) updates: Vec<Update>,
    /// Tokens that the register rejected while their hold was valid.
    pub(crate) refused: Vec<u64>,
    /// Tokens whose release was confirmed after they were found lost.
    pub(crate) released_although_lost: Vec<u64>,
}

impl History {
    /// Returns the stories of all locks.
    pub(crate) fn stories(&self) -> BTreeMap<String, Story> {
        let mut stories = BTreeMap::new();
        for (process, record) in self.records.iter().enumerate() {
            Reader { process, stories: &mut stories, requests: HashMap::new(), holds: HashMap::new() }.read(record);
        }
        stories
    }
}

struct Request {
    name: String,
    at: u64,
    again: Option<u64>,
    continues: Option<u64>,
}

/// A hold that still has guards while its record is read.
struct OpenHold {
    hold: Hold,
    name: String,
    guards: usize,
    releasing: Option<u64>,
}

struct Reader<'a> {
    process: usize,
    stories: &'a mut BTreeMap<String, Story>,
    requests: HashMap<u64, Request>,
    /// Holds by the number of their first request; the other requests refer to that number.
    holds: HashMap<u64, Result<u64, OpenHold>>,
}

impl Reader<'_> {
    fn read(mut self, record: &[Event]) {
        for event in record {
            self.event(event);
        }
        let left: Vec<OpenHold> = self.holds.drain().filter_map(|(_, open)| open.err()).collect();
        for OpenHold { hold, name, .. } in left {
            let story = self.stories.entry(name).or_default();
            if hold.token == READS { story.reads.push(hold) } else { story.holds.push(hold) }
        }
        // The process was killed during these requests.
        for request in self.requests.into_values() {
            self.stories.entry(request.name).or_default().ungranted.push(request.at);
        }
    }

    fn event(&mut self, event: &Event) {
        let (task, at, id) = ((self.process, event.task), event.at, event.id);
        match &event.kind {
            Kind::Request { name, again, .. } => {
                self.requests.insert(id, Request { name: name.clone(), at, again: *again, continues: None });
            }
            Kind::Got { token } => self.granted(task, id, at, *token),
            Kind::Reads => self.granted(task, id, at, READS),
            Kind::Converted { from } => {
                let since = self.open(*from).and_then(|(open, _)| open.hold.valid_until);
                if let Some(request) = self.requests.get_mut(&id) {
                    request.continues = since;
                }
            }
            Kind::Busy => {
                if let Some(request) = self.requests.remove(&id) {
                    let busy = Busy { task, sent: request.at, answered: at };
                    self.stories.entry(request.name).or_default().busy.push(busy);
                }
            }
            Kind::NoGrant { how } => {
                if let Some(request) = self.requests.remove(&id) {
                    let story = self.stories.entry(request.name).or_default();
                    story.ungranted.push(request.at);
                    story.starved.extend((how == STARVED).then_some(task));
                }
            }
            Kind::Update { began, read } => {
                let read = *read;
                if let Some((open, story)) = self.open(id) {
                    let (token, began) = (open.hold.token, *began);
                    story.updates.push(Update { token, began, sent: at, read, answered: None, safe: false });
                }
            }
            Kind::Updated { held } => {
                if let Some((open, story)) = self.open(id) {
                    let token = open.hold.token;
                    let update = story.updates.iter_mut().rfind(|update| update.token == token);
                    if let Some(update) = update {
                        (update.answered, update.safe) = (Some(at), *held);
                    }
                    open.observe(at, *held);
                }
            }
            Kind::Refused { held } => {
                if let Some((open, story)) = self.open(id) {
                    if *held {
                        story.refused.push(open.hold.token);
                    }
                    open.observe(at, *held);
                }
            }
            Kind::Held => self.observe(id, at, true),
            Kind::NotHeld => self.observe(id, at, false),
            Kind::Give => {
                if let Some((open, _)) = self.open(id) {
                    open.guards -= 1;
                    if open.guards == 0 {
                        open.hold.ended.get_or_insert(at);
                        open.releasing = Some(at);
                    }
                }
            }
            Kind::Gave { ok } => {
                if let Some((open, story)) = self.open(id)
                    && *ok
                {
                    if open.hold.lost {
                        story.released_although_lost.push(open.hold.token);
                    } else if let Some(releasing) = open.releasing {
                        open.hold.released = Some((releasing, at));
                    }
                }
            }
        }
    }

    fn granted(&mut self, task: TaskId, id: u64, at: u64, token: u64) {
        let Some(request) = self.requests.remove(&id) else { return };
        let root = request.again.and_then(|outer| self.root(outer));
        if let Some(root) = root
            && let Some(Err(outer)) = self.holds.get_mut(&root)
            && outer.hold.token == token
        {
            outer.guards += 1;
            self.holds.insert(id, Ok(root));
            return;
        }
        // A holder that enters again while the guard of its lost hold is alive counts as two tasks.
        let task = if root.is_some() { (task.0, task.1 + AGAIN) } else { task };
        let (sent, got, continues) = (request.at, at, request.continues);
        let hold =
            Hold { task, token, sent, got, continues, valid_until: None, ended: None, lost: false, released: None };
        let open = OpenHold { hold, name: request.name, guards: 1, releasing: None };
        self.holds.insert(id, Err(open));
    }

    fn observe(&mut self, id: u64, at: u64, held: bool) {
        if let Some((open, _)) = self.open(id) {
            open.observe(at, held);
        }
    }

    fn root(&self, id: u64) -> Option<u64> {
        match self.holds.get(&id)? {
            Ok(root) => Some(*root),
            Err(_) => Some(id),
        }
    }

    fn open(&mut self, id: u64) -> Option<(&mut OpenHold, &mut Story)> {
        let root = self.root(id)?;
        let open = self.holds.get_mut(&root)?.as_mut().err()?;
        let story = self.stories.entry(open.name.clone()).or_default();
        Some((open, story))
    }
}

impl OpenHold {
    fn observe(&mut self, at: u64, held: bool) {
        if held {
            self.hold.valid_until = self.hold.valid_until.max(Some(at));
        } else if self.guards > 0 {
            self.hold.lost = true;
            self.hold.ended.get_or_insert(at);
        }
    }
}
