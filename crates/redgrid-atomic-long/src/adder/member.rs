//! The membership of a client in an adder. The handles of the client share it, and its task answers
//! the rounds.

use std::collections::HashMap;
use std::fmt;
use std::sync::{Arc, Mutex, MutexGuard, OnceLock};
use std::time::Duration;

use redgrid_core::author::ClientExt;
use redgrid_core::{Client, Failure, Name, Operation, ServerError};
use tokio::sync::{Notify, watch};
use uuid::Uuid;

use super::adder_number::AdderNumber;
use super::error::AdderError;
use super::member_task::run_member;
use super::scripts::Keys;

/// The allowed save intervals: 10 ms to 1 day.
const SAVE_INTERVALS: std::ops::RangeInclusive<Duration> = Duration::from_millis(10)..=Duration::from_secs(24 * 3600);

/// The count of a client for an adder.
pub(super) struct Member<N: AdderNumber> {
    pub(super) name: Name,
    pub(super) keys: Keys,
    /// The id in the key of its last save.
    pub(super) id: String,
    pub(super) local: N::Local,
    state: Mutex<State>,
    /// The number of times that messages may have been missed.
    pub(super) gaps: watch::Sender<u64>,
    /// Notified of changes of the state.
    pub(super) changed: Notify,
    /// The result of the member's end.
    pub(super) ended: watch::Sender<Option<Result<(), ServerError>>>,
}

#[derive(Default)]
struct State {
    save_interval: Option<Duration>,
    /// Whether all handles are dropped.
    is_abandoned: bool,
    /// The rounds that this client opened, and the outcomes of its own answers.
    rounds: HashMap<String, watch::Sender<AnswerOutcome>>,
}

/// The outcome of a member's answer to a round; `None` until it has answered or failed.
type AnswerOutcome = Option<Result<(), ServerError>>;

/// A handle of an adder. Each call looks the shared part up until one succeeds.
pub(super) struct AdderHandle<N: AdderNumber> {
    client: Client,
    name: Arc<str>,
    shared: OnceLock<Arc<SharedAdder<N>>>,
}

impl<N: AdderNumber> AdderHandle<N> {
    pub(super) fn new(client: &Client, name: &str) -> Self {
        let handle = AdderHandle { client: client.clone(), name: name.into(), shared: OnceLock::new() };
        let _ = handle.find();
        handle
    }

    /// Returns the shared part of the adder. It is an error if the name is invalid, or if the
    /// client has an adder of the other type with that name.
    #[inline]
    pub(super) fn get(&self) -> Result<&Arc<SharedAdder<N>>, AdderError> {
        self.shared.get().map_or_else(|| self.find(), Ok)
    }

    #[cold]
    fn find(&self) -> Result<&Arc<SharedAdder<N>>, AdderError> {
        let adder = SharedAdder::of(&self.client, &*self.name)?;
        Ok(self.shared.get_or_init(|| adder))
    }

    /// Ends this handle. If it is the last one, waits until the member has ended.
    pub(super) async fn end(self) -> Result<(), AdderError> {
        self.get()?;
        match self.shared.into_inner() {
            Some(adder) => adder.end().await,
            None => Ok(()),
        }
    }
}

impl<N: AdderNumber> Clone for AdderHandle<N> {
    fn clone(&self) -> Self {
        AdderHandle { client: self.client.clone(), name: Arc::clone(&self.name), shared: self.shared.clone() }
    }
}

impl<N: AdderNumber> fmt::Debug for AdderHandle<N> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct(N::OBJECT).field("name", &self.name).finish_non_exhaustive()
    }
}

/// The shared part of all handles of a client with one name. The member ends with the last of them.
pub(super) struct SharedAdder<N: AdderNumber> {
    pub(super) client: Client,
    pub(super) member: Arc<Member<N>>,
}

/// The lock that a listening member holds. There is one per name and client, whatever the type of
/// the adder, because a client answers a round once.
pub(super) struct MemberLock {
    object: &'static str,
    pub(super) lock: tokio::sync::Mutex<()>,
}

impl<N: AdderNumber> SharedAdder<N> {
    /// Returns the shared part of the adder with this name.
    pub(super) fn of(client: &Client, name: impl AsRef<str>) -> Result<Arc<Self>, AdderError> {
        let name = Name::new(name)?;
        let key = client.key(&name);
        let member_lock = client.shared(&key, || MemberLock { object: N::OBJECT, lock: tokio::sync::Mutex::default() });
        if member_lock.object != N::OBJECT {
            return Err(AdderError::OtherKind { name, is: member_lock.object });
        }
        Ok(client.shared(&key, || {
            let member = Arc::new(Member {
                name,
                keys: Keys::new(key.clone()),
                id: Uuid::new_v4().simple().to_string(),
                local: N::local(),
                state: Mutex::default(),
                gaps: watch::Sender::new(0),
                changed: Notify::new(),
                ended: watch::Sender::new(None),
            });
            let task_member = Arc::clone(&member);
            client.spawn_attached(|background| run_member(task_member, member_lock, background));
            SharedAdder { client: client.clone(), member }
        }))
    }

    /// Saves the count at this interval from now on, or at a shorter one that was requested before.
    pub(super) fn save_every(&self, interval: Duration) -> Result<(), AdderError> {
        if !SAVE_INTERVALS.contains(&interval) {
            return Err(Failure::invalid_argument(
                &self.member.name,
                "interval",
                "10 ms to 1 day",
                format!("{interval:?}"),
            )
            .into());
        }
        let mut state = self.member.state();
        state.save_interval = Some(state.save_interval.map_or(interval, |current| current.min(interval)));
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
        let result = ended.wait_for(Option::is_some).await.ok().and_then(|result| result.clone());
        match result {
            Some(Ok(())) => Ok(()),
            Some(Err(source)) => Err(AdderError::NotSaved { name, source }),
            None => Err(Failure::ShuttingDown { operation: Operation::new("end the adder", name) }.into()),
        }
    }
}

impl<N: AdderNumber> Drop for SharedAdder<N> {
    fn drop(&mut self) {
        self.member.state().is_abandoned = true;
        self.member.changed.notify_one();
    }
}

impl<N: AdderNumber> Member<N> {
    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(|poisoned| poisoned.into_inner())
    }

    /// Returns whether all handles are dropped.
    pub(super) fn is_abandoned(&self) -> bool {
        self.state().is_abandoned
    }

    pub(super) fn save_interval(&self) -> Option<Duration> {
        self.state().save_interval
    }

    /// Tracks this member's own answer to a round, for as long as the result lives.
    pub(super) fn track_round(&self, id: &str) -> OwnAnswer<'_, N> {
        let sender = watch::Sender::new(None);
        let outcome = sender.subscribe();
        self.state().rounds.insert(id.to_owned(), sender);
        OwnAnswer { member: self, id: id.to_owned(), outcome }
    }

    /// Records that this member has answered a round, or why it could not.
    pub(super) fn record_answer(&self, id: &str, result: Result<(), ServerError>) {
        if let Some(round) = self.state().rounds.get(id) {
            round.send_replace(Some(result));
        }
    }
}

/// The answer of this client's own member to a round that the client opened.
pub(super) struct OwnAnswer<'a, N: AdderNumber> {
    member: &'a Member<N>,
    id: String,
    outcome: watch::Receiver<AnswerOutcome>,
}

impl<N: AdderNumber> OwnAnswer<'_, N> {
    /// Returns whether the member has answered.
    pub(super) fn is_answered(&self) -> bool {
        matches!(*self.outcome.borrow(), Some(Ok(())))
    }

    /// Returns whether the member has answered or failed.
    pub(super) fn is_decided(&self) -> bool {
        self.outcome.borrow().is_some()
    }

    /// Returns the error with which the server refused the answer.
    pub(super) fn refusal(&self) -> Option<ServerError> {
        match &*self.outcome.borrow() {
            Some(Err(error @ (ServerError::Refused { .. } | ServerError::Decode { .. }))) => Some(error.clone()),
            _ => None,
        }
    }

    /// Completes when the member has answered or failed.
    pub(super) async fn decided(&mut self) {
        // The sender lives until this value is dropped.
        let _ = self.outcome.wait_for(Option::is_some).await;
    }
}

impl<N: AdderNumber> Drop for OwnAnswer<'_, N> {
    fn drop(&mut self) {
        self.member.state().rounds.remove(&self.id);
    }
}

impl<N: AdderNumber> fmt::Debug for SharedAdder<N> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct(N::OBJECT).field("name", &self.member.name).finish_non_exhaustive()
    }
}
