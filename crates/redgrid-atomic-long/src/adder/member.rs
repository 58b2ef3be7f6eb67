//! What a client has of one adder: its handles share it, and its task answers for it.

use std::collections::HashMap;
use std::fmt;
use std::sync::{Arc, Mutex, MutexGuard, OnceLock};
use std::time::Duration;

use redgrid_core::{Client, Name, ServerError};
use tokio::sync::{Notify, watch};
use uuid::Uuid;

use super::attend::attend;
use super::error::AdderError;
use super::figure::Figure;
use super::scripts::Keys;

/// How often may be saved: each 10 ms to once a day.
const INTERVALS: std::ops::RangeInclusive<Duration> = Duration::from_millis(10)..=Duration::from_secs(24 * 3600);

/// What a client has counted for an adder.
pub(super) struct Member<N: Figure> {
    pub(super) name: Name,
    pub(super) keys: Keys,
    /// In the key of what it has saved.
    pub(super) id: String,
    pub(super) local: N::Local,
    state: Mutex<State>,
    /// Something of the state has.
    pub(super) changed: Notify,
    /// What became of it in the end.
    pub(super) ended: watch::Sender<Option<Result<(), ServerError>>>,
}

#[derive(Default)]
struct State {
    saves_every: Option<Duration>,
    left: bool,
    /// How often messages may have been missed.
    gaps: u64,
    /// Rounds that were begun here, and what became of them here.
    rounds: HashMap<String, watch::Sender<Mine>>,
}

/// None until a round was answered here, or could not be.
type Mine = Option<Result<(), ServerError>>;

/// A handle: what it is of is looked up, once that can be.
pub(super) struct Handle<N: Figure> {
    client: Client,
    name: Arc<str>,
    found: OnceLock<Arc<Counting<N>>>,
}

impl<N: Figure> Handle<N> {
    pub(super) fn new(client: &Client, name: &str) -> Self {
        let handle = Handle { client: client.clone(), name: name.into(), found: OnceLock::new() };
        let _ = handle.find();
        handle
    }

    /// What this client has of the adder; an error where the name can not be, or is one of the other kind.
    #[inline]
    pub(super) fn get(&self) -> Result<&Arc<Counting<N>>, AdderError> {
        self.found.get().map_or_else(|| self.find(), Ok)
    }

    #[cold]
    fn find(&self) -> Result<&Arc<Counting<N>>, AdderError> {
        let counting = Counting::of(&self.client, &*self.name)?;
        Ok(self.found.get_or_init(|| counting))
    }

    /// Ends this handle; with the last one, waits until the member has ended.
    pub(super) async fn end(self) -> Result<(), AdderError> {
        self.get()?;
        match self.found.into_inner() {
            Some(counting) => counting.end().await,
            None => Ok(()),
        }
    }
}

impl<N: Figure> Clone for Handle<N> {
    fn clone(&self) -> Self {
        Handle { client: self.client.clone(), name: Arc::clone(&self.name), found: self.found.clone() }
    }
}

impl<N: Figure> fmt::Debug for Handle<N> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct(N::OBJECT).field("name", &self.name).finish_non_exhaustive()
    }
}

/// All handles of a client with one name. With the last of them the member ends.
pub(super) struct Counting<N: Figure> {
    pub(super) client: Client,
    pub(super) member: Arc<Member<N>>,
}

/// One member of a name listens at a time in a client, whatever its kind: a round is answered once by each client.
pub(super) struct Desk {
    object: &'static str,
    pub(super) turn: tokio::sync::Mutex<()>,
}

impl<N: Figure> Counting<N> {
    /// What this client has of the adder with that name.
    pub(super) fn of(client: &Client, name: impl AsRef<str>) -> Result<Arc<Self>, AdderError> {
        let name = Name::new(name)?;
        let key = client.key(&name);
        let desk = client.shared(&key, || Desk { object: N::OBJECT, turn: tokio::sync::Mutex::default() });
        if desk.object != N::OBJECT {
            return Err(AdderError::OtherKind { name, is: desk.object });
        }
        Ok(client.shared(&key, || {
            let member = Arc::new(Member {
                name,
                keys: Keys::new(key.clone()),
                id: Uuid::new_v4().simple().to_string(),
                local: N::local(),
                state: Mutex::default(),
                changed: Notify::new(),
                ended: watch::Sender::new(None),
            });
            let attended = Arc::clone(&member);
            client.spawn_attached(|on| attend(attended, desk, on));
            Counting { client: client.clone(), member }
        }))
    }

    /// Has what is counted here saved at this interval from now on, or at a shorter one that was asked for before.
    pub(super) fn save_every(&self, interval: Duration) -> Result<(), AdderError> {
        if !INTERVALS.contains(&interval) {
            return Err(AdderError::InvalidArgument {
                name: self.member.name.clone(),
                option: "interval",
                expected: "10 ms to 1 day",
                got: format!("{interval:?}"),
            });
        }
        let mut state = self.member.state();
        state.saves_every = Some(state.saves_every.map_or(interval, |known| known.min(interval)));
        drop(state);
        self.member.changed.notify_one();
        Ok(())
    }

    /// Ends one handle.
    async fn end(self: Arc<Self>) -> Result<(), AdderError> {
        let Some(last) = Arc::into_inner(self) else { return Ok(()) };
        let name = last.member.name.clone();
        let mut ended = last.member.ended.subscribe();
        drop(last);
        let told = ended.wait_for(Option::is_some).await.ok().and_then(|told| told.clone());
        match told {
            Some(Ok(())) => Ok(()),
            Some(Err(source)) => Err(AdderError::NotSaved { name, source }),
            None => Err(AdderError::ShuttingDown { name }),
        }
    }
}

impl<N: Figure> Drop for Counting<N> {
    fn drop(&mut self) {
        self.member.state().left = true;
        self.member.changed.notify_one();
    }
}

impl<N: Figure> Member<N> {
    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(|poisoned| poisoned.into_inner())
    }

    /// Whether there is no handle any more.
    pub(super) fn is_left(&self) -> bool {
        self.state().left
    }

    pub(super) fn saves_every(&self) -> Option<Duration> {
        self.state().saves_every
    }

    pub(super) fn gaps(&self) -> u64 {
        self.state().gaps
    }

    /// Messages may have been missed.
    pub(super) fn has_gap(&self) {
        self.state().gaps += 1;
    }

    /// Has it told what became of a round here, for as long as the result lives.
    pub(super) fn expect(&self, id: &str) -> Expected<'_, N> {
        let sender = watch::Sender::new(None);
        let answered = sender.subscribe();
        self.state().rounds.insert(id.to_owned(), sender);
        Expected { member: self, id: id.to_owned(), answered }
    }

    /// A round was answered here, or why it could not be.
    pub(super) fn answered(&self, id: &str, what: Result<(), ServerError>) {
        if let Some(round) = self.state().rounds.get(id) {
            round.send_replace(Some(what));
        }
    }
}

/// A round that was begun here.
pub(super) struct Expected<'a, N: Figure> {
    member: &'a Member<N>,
    id: String,
    answered: watch::Receiver<Mine>,
}

impl<N: Figure> Expected<'_, N> {
    /// Whether it was answered here.
    pub(super) fn is_answered(&self) -> bool {
        matches!(*self.answered.borrow(), Some(Ok(())))
    }

    /// Whether that is decided.
    pub(super) fn is_told(&self) -> bool {
        self.answered.borrow().is_some()
    }

    /// What the server refused to have answered here.
    pub(super) fn refusal(&self) -> Option<ServerError> {
        match &*self.answered.borrow() {
            Some(Err(error @ (ServerError::Refused { .. } | ServerError::Decode { .. }))) => Some(error.clone()),
            _ => None,
        }
    }

    /// Completes when it was answered, or could not be.
    pub(super) async fn told(&mut self) {
        // Its sender goes with this.
        let _ = self.answered.wait_for(Option::is_some).await;
    }
}

impl<N: Figure> Drop for Expected<'_, N> {
    fn drop(&mut self) {
        self.member.state().rounds.remove(&self.id);
    }
}

impl<N: Figure> fmt::Debug for Counting<N> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct(N::OBJECT).field("name", &self.member.name).finish_non_exhaustive()
    }
}
