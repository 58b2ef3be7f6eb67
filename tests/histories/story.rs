//! Merges the records of all processes: who held what from when to when.

use std::collections::{BTreeMap, HashMap};

use redgrid_tests::history::{Event, STARVED, What};

/// Everything that was recorded, and what it left behind.
#[derive(Default)]
pub(crate) struct History {
    /// The record of each process.
    pub(crate) records: Vec<Vec<Event>>,
    /// Processes that did not end as they should.
    pub(crate) wrong: Vec<String>,
    /// What was on the server when it should have been over.
    pub(crate) left: Vec<String>,
    /// What each lock's fenced register accepted: token and value.
    pub(crate) accepted: BTreeMap<String, Vec<(u64, u64)>>,
    /// What each lock's counter ended at.
    pub(crate) counters: BTreeMap<String, u64>,
    /// No lock was taken by force: one holder at a time believes. Otherwise only tokens and the
    /// register are sure.
    pub(crate) exclusive: bool,
    /// Nothing was disturbed.
    pub(crate) calm: bool,
}

/// A process and its task.
pub(crate) type Who = (usize, u64);

/// Added to a task's number for what it enters within another hold.
const AGAIN: u64 = 1000;

/// The token of who reads: none is given.
const READS: u64 = 0;

/// One hold, from the request to the last guard.
#[derive(Debug, Clone)]
pub(crate) struct Hold {
    pub(crate) who: Who,
    pub(crate) token: u64,
    pub(crate) asked: u64,
    pub(crate) got: u64,
    /// It goes on from another, which was believed at this instant: nobody else wrote since then.
    pub(crate) continues: Option<u64>,
    /// Believed at this instant, and ever since `got`.
    pub(crate) believed: Option<u64>,
    /// No longer believed from here on; never known of a process that was killed.
    pub(crate) ended: Option<u64>,
    /// It was seen to be lost while a guard lived.
    pub(crate) lost: bool,
    /// Its release was called and had returned, without an error.
    pub(crate) released: Option<(u64, u64)>,
}

/// Others had the lock at some instant between the two.
#[derive(Debug, Clone)]
pub(crate) struct Busy {
    pub(crate) who: Who,
    pub(crate) asked: u64,
    pub(crate) told: u64,
}

/// One change of the counter.
#[derive(Debug, Clone)]
pub(crate) struct Update {
    pub(crate) token: u64,
    pub(crate) began: u64,
    pub(crate) sent: u64,
    pub(crate) read: u64,
    pub(crate) answered: Option<u64>,
    /// Held from the first look to the answer.
    pub(crate) safe: bool,
}

/// What became of one lock.
#[derive(Debug, Default)]
pub(crate) struct Story {
    pub(crate) holds: Vec<Hold>,
    /// The same of those who read.
    pub(crate) reads: Vec<Hold>,
    pub(crate) busy: Vec<Busy>,
    /// Requests without a grant: when they were made.
    pub(crate) without: Vec<u64>,
    /// Who waited longer than anybody held.
    pub(crate) starved: Vec<Who>,
    pub(crate) updates: Vec<Update>,
    /// Tokens that the register refused while their holder believed.
    pub(crate) refused: Vec<u64>,
    /// Tokens whose release was confirmed after they were seen lost.
    pub(crate) released_although_lost: Vec<u64>,
}

impl History {
    /// The stories of all locks.
    pub(crate) fn stories(&self) -> BTreeMap<String, Story> {
        let mut stories = BTreeMap::new();
        for (process, record) in self.records.iter().enumerate() {
            Reader { process, stories: &mut stories, asks: HashMap::new(), holds: HashMap::new() }.read(record);
        }
        stories
    }
}

struct Ask {
    name: String,
    at: u64,
    again: Option<u64>,
    continues: Option<u64>,
}

/// A hold that is being read: its guards that live.
struct Open {
    hold: Hold,
    name: String,
    guards: usize,
    giving: Option<u64>,
}

struct Reader<'a> {
    process: usize,
    stories: &'a mut BTreeMap<String, Story>,
    asks: HashMap<u64, Ask>,
    /// By the number of its first request; the others lead there.
    holds: HashMap<u64, Result<u64, Open>>,
}

impl Reader<'_> {
    fn read(mut self, record: &[Event]) {
        for event in record {
            self.event(event);
        }
        let left: Vec<Open> = self.holds.drain().filter_map(|(_, open)| open.err()).collect();
        for Open { hold, name, .. } in left {
            let story = self.stories.entry(name).or_default();
            if hold.token == READS { story.reads.push(hold) } else { story.holds.push(hold) }
        }
        // Killed while they asked.
        for ask in self.asks.into_values() {
            self.stories.entry(ask.name).or_default().without.push(ask.at);
        }
    }

    fn event(&mut self, event: &Event) {
        let (who, at, id) = ((self.process, event.task), event.at, event.id);
        match &event.what {
            What::Ask { name, again, .. } => {
                self.asks.insert(id, Ask { name: name.clone(), at, again: *again, continues: None });
            }
            What::Got { token } => self.got(who, id, at, *token),
            What::Reads => self.got(who, id, at, READS),
            What::Converted { from } => {
                let since = self.open(*from).and_then(|(open, _)| open.hold.believed);
                if let Some(ask) = self.asks.get_mut(&id) {
                    ask.continues = since;
                }
            }
            What::Busy => {
                if let Some(ask) = self.asks.remove(&id) {
                    let busy = Busy { who, asked: ask.at, told: at };
                    self.stories.entry(ask.name).or_default().busy.push(busy);
                }
            }
            What::Nothing { how } => {
                if let Some(ask) = self.asks.remove(&id) {
                    let story = self.stories.entry(ask.name).or_default();
                    story.without.push(ask.at);
                    story.starved.extend((how == STARVED).then_some(who));
                }
            }
            What::Update { began, read } => {
                let read = *read;
                if let Some((open, story)) = self.open(id) {
                    let (token, began) = (open.hold.token, *began);
                    story.updates.push(Update { token, began, sent: at, read, answered: None, safe: false });
                }
            }
            What::Updated { held } => {
                if let Some((open, story)) = self.open(id) {
                    let token = open.hold.token;
                    let update = story.updates.iter_mut().rfind(|update| update.token == token);
                    if let Some(update) = update {
                        (update.answered, update.safe) = (Some(at), *held);
                    }
                    open.look(at, *held);
                }
            }
            What::Refused { held } => {
                if let Some((open, story)) = self.open(id) {
                    if *held {
                        story.refused.push(open.hold.token);
                    }
                    open.look(at, *held);
                }
            }
            What::Held => self.look(id, at, true),
            What::NotHeld => self.look(id, at, false),
            What::Give => {
                if let Some((open, _)) = self.open(id) {
                    open.guards -= 1;
                    if open.guards == 0 {
                        open.hold.ended.get_or_insert(at);
                        open.giving = Some(at);
                    }
                }
            }
            What::Gave { ok } => {
                if let Some((open, story)) = self.open(id)
                    && *ok
                {
                    if open.hold.lost {
                        story.released_although_lost.push(open.hold.token);
                    } else if let Some(giving) = open.giving {
                        open.hold.released = Some((giving, at));
                    }
                }
            }
        }
    }

    fn got(&mut self, who: Who, id: u64, at: u64, token: u64) {
        let Some(ask) = self.asks.remove(&id) else { return };
        let root = ask.again.and_then(|outer| self.root(outer));
        if let Some(root) = root
            && let Some(Err(outer)) = self.holds.get_mut(&root)
            && outer.hold.token == token
        {
            outer.guards += 1;
            self.holds.insert(id, Ok(root));
            return;
        }
        // A holder that enters anew while its lost guard lives does two things at a time.
        let who = if root.is_some() { (who.0, who.1 + AGAIN) } else { who };
        let (asked, got, continues) = (ask.at, at, ask.continues);
        let hold = Hold { who, token, asked, got, continues, believed: None, ended: None, lost: false, released: None };
        self.holds.insert(id, Err(Open { hold, name: ask.name, guards: 1, giving: None }));
    }

    fn look(&mut self, id: u64, at: u64, held: bool) {
        if let Some((open, _)) = self.open(id) {
            open.look(at, held);
        }
    }

    fn root(&self, id: u64) -> Option<u64> {
        match self.holds.get(&id)? {
            Ok(root) => Some(*root),
            Err(_) => Some(id),
        }
    }

    fn open(&mut self, id: u64) -> Option<(&mut Open, &mut Story)> {
        let root = self.root(id)?;
        let open = self.holds.get_mut(&root)?.as_mut().err()?;
        let story = self.stories.entry(open.name.clone()).or_default();
        Some((open, story))
    }
}

impl Open {
    fn look(&mut self, at: u64, held: bool) {
        if held {
            self.hold.believed = self.hold.believed.max(Some(at));
        } else if self.guards > 0 {
            self.hold.lost = true;
            self.hold.ended.get_or_insert(at);
        }
    }
}
