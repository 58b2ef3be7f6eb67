//! Work that goes on whoever goes away, and what is done where it does not go as it should.

use std::any::Any;
use std::error::Error;
use std::panic::{AssertUnwindSafe, resume_unwind};
use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use futures_util::{FutureExt, StreamExt, stream};
use redgrid_codecs::Codec;
use redgrid_core::clock::Instant;
use redgrid_core::object::ObjectError;
use redgrid_core::{BackgroundClient, FromReply, Name, Request};
use tokio::sync::{OwnedSemaphorePermit, oneshot, watch};
use tokio::task::JoinHandle;

use super::queue::OutOfTime;
use super::store::{BackedError, Writer};
use super::turn::{Batch, Turn, lost};
use super::{BackedMap, Inner, Mode};
use crate::compare::{compare_and_remove, compare_and_set};

/// How many keys are changed back at a time.
const AT_ONCE: usize = 16;

/// What a change made of a key in the map.
pub(super) struct Made {
    pub(super) was: Option<Bytes>,
    pub(super) new: Option<Bytes>,
}

/// A key as its codec writes it, itself, and what it is to have: its value and the bytes of that.
pub(super) type Change<K, V> = (Bytes, K, Option<(V, Bytes)>);

/// How many changes are under way.
#[derive(Clone, Default)]
pub(super) struct UnderWay(Arc<watch::Sender<usize>>);

impl UnderWay {
    fn one_more(&self) -> OneOf {
        self.0.send_modify(|count| *count += 1);
        OneOf(self.clone())
    }

    /// Whether there was a moment `within` this time at which there was none.
    pub(super) async fn none(&self, within: Duration) -> bool {
        let mut count = self.0.subscribe();
        tokio::time::timeout(within, count.wait_for(|count| *count == 0)).await.is_ok_and(|seen| seen.is_ok())
    }
}

struct OneOf(UnderWay);

impl Drop for OneOf {
    fn drop(&mut self) {
        self.0.0.send_modify(|count| *count -= 1);
    }
}

/// What a task came to. A panic in it, which only a codec can have, goes on in who waits.
pub(super) async fn done<T>(name: &Name, task: JoinHandle<Result<T, BackedError>>) -> Result<T, BackedError> {
    match task.await {
        Ok(done) => done,
        Err(panic) if panic.is_panic() => resume_unwind(panic.into_panic()),
        Err(_) => Err(BackedError::Ended { name: name.clone() }),
    }
}

impl<K, V, KC: Codec, VC: Codec> BackedMap<K, V, KC, VC> {
    /// Has the client do it: it goes on whoever goes away, and a shutdown waits for it.
    pub(super) async fn carried<T, W>(&self, work: impl FnOnce(BackgroundClient) -> W) -> Result<T, BackedError>
    where
        T: Send + 'static,
        W: Future<Output = Result<T, BackedError>> + Send + 'static,
    {
        let (name, client) = (self.0.name()?, self.0.map.place.client());
        if client.is_shut_down() {
            return Err(BackedError::Closed { name });
        }
        let (tell, told) = oneshot::channel::<Result<Result<T, BackedError>, Box<dyn Any + Send>>>();
        let one = self.0.under_way.one_more();
        client.spawn_attached(|attendant| {
            let work = AssertUnwindSafe(work(attendant)).catch_unwind();
            async move {
                let done = work.await;
                drop(one);
                // Whoever waited may have gone.
                let _ = tell.send(done);
            }
        });
        match told.await {
            Ok(Ok(done)) => done,
            Ok(Err(panic)) => resume_unwind(panic),
            Err(_) => Err(BackedError::Ended { name }),
        }
    }
}

impl<K, V, KC, VC> Inner<K, V, KC, VC>
where
    K: Clone + Send + Sync + 'static,
    V: Clone + Send + Sync + 'static,
    KC: Codec,
    VC: Codec,
{
    /// The turn at a key; a shutdown ends the wait for it.
    pub(super) async fn turn_unless_closed(
        &self,
        attendant: &BackgroundClient,
        field: &Bytes,
    ) -> Result<Turn, BackedError> {
        tokio::select! {
            biased;
            turn = self.turn(field) => turn,
            () = attendant.closing() => Err(BackedError::Closed { name: self.name()? }),
        }
    }

    /// Writes to the store what was made in the map; where that does not take it, the map is changed back.
    pub(super) async fn through(
        &self,
        attendant: &BackgroundClient,
        turns: &[Turn],
        batch: &Batch<K, V>,
        made: Vec<(Bytes, Made)>,
    ) -> Result<(), BackedError> {
        let Mode::Through(writer) = &self.mode else { return Ok(()) };
        let (name, attempts) = (self.name()?, self.terms.attempts);
        let Err(source) = self.stored(attendant, turns, batch, writer).await else { return Ok(()) };
        // One that can not be changed back does not keep the others from it.
        let back = stream::iter(made).map(|(field, made)| self.undone(attendant, field, made));
        let outcomes: Vec<Result<(), ObjectError>> = back.buffer_unordered(AT_ONCE).collect().await;
        match outcomes.into_iter().find_map(Result::err) {
            Some(undo) => Err(BackedError::Divided { name, attempts, undo: Arc::new(undo), source }),
            None => Err(BackedError::NotStored { name, attempts, source }),
        }
    }

    /// Has the store take it, while the keys are ours and the client is there.
    async fn stored(
        &self,
        attendant: &BackgroundClient,
        turns: &[Turn],
        batch: &Batch<K, V>,
        writer: &Arc<dyn Writer<K, V>>,
    ) -> Result<(), Arc<dyn Error + Send + Sync>> {
        tokio::select! {
            biased;
            lost = lost(turns) => Err(lost),
            done = batch.stored(&self.terms, writer) => done,
            () = attendant.nearly_closed(Duration::MAX) => Err(Arc::new(OutOfTime)),
        }
    }

    /// Gives a key what it had before a change, unless others have changed it since.
    async fn undone(&self, attendant: &BackgroundClient, field: Bytes, made: Made) -> Result<(), ObjectError> {
        let (_, map) = self.map.place.named()?;
        let request = match (made.was, made.new) {
            (None, None) => return Ok(()),
            (Some(was), Some(new)) if was == new => return Ok(()),
            (Some(was), Some(new)) => compare_and_set(map, false, [field, new, was]),
            (None, Some(new)) => compare_and_remove(map, false, [field, new]),
            (Some(was), None) => self.map.place.command("HSETNX")?.arg(field).arg(was),
        };
        self.asked::<bool>(attendant, request).await.map(drop)
    }

    /// After an answer that was lost: what is in the map as it was to be goes to the store, too. Where the map does not tell in time what
    /// it has, what was to wait for the store counts as lost.
    pub(super) async fn settled(
        &self,
        attendant: &BackgroundClient,
        turns: &[Turn],
        changes: Vec<Change<K, V>>,
        rooms: Vec<OwnedSemaphorePermit>,
        error: &ObjectError,
    ) -> Result<(), ObjectError> {
        if matches!(self.mode, Mode::Kept) {
            return Ok(());
        }
        let place = &self.map.place;
        let request = changes.iter().map(|(field, ..)| field.clone()).fold(place.command("HMGET")?, Request::arg);
        let has: Vec<Option<Bytes>> = match (&self.mode, self.asked(attendant, request.idempotent()).await) {
            (_, Ok(has)) => has,
            (Mode::Behind(queue), Err(_)) => {
                queue.lose(changes.into_iter().map(|(_, key, _)| key).collect(), Arc::new(error.clone()));
                return Ok(());
            }
            (Mode::Kept | Mode::Through(_), Err(_)) => return Ok(()),
        };
        let there = changes.into_iter().zip(has);
        let there = there.filter(|((.., value), has)| value.as_ref().map(|(_, bytes)| bytes) == has.as_ref());
        let there = there.map(|((field, key, value), _)| (field, key, value.map(|(value, _)| value)));
        match &self.mode {
            Mode::Behind(queue) => {
                for ((field, key, value), room) in there.zip(rooms) {
                    queue.push(field, key, value, room);
                }
            }
            Mode::Through(writer) => {
                let there: Vec<_> = there.map(|(_, key, value)| (key, value)).collect();
                if !there.is_empty() {
                    // Whether it does is not told: the call ends with the unknown answer. What was there before is not known either.
                    let _ = self.stored(attendant, turns, &Batch::of(there), writer).await;
                }
            }
            Mode::Kept => {}
        }
        Ok(())
    }

    /// Asks also while the client is being shut down.
    async fn asked<T: FromReply>(&self, attendant: &BackgroundClient, request: Request) -> Result<T, ObjectError> {
        let name = self.name()?;
        let until = attendant.clock().now() + attendant.contact_timeout();
        let until: Instant = attendant.closes_by().map_or(until, |by| until.min(by));
        attendant.run_until(request, until).await.map_err(|source| ObjectError::of(&name, source))
    }
}

/// Whether a change may have been made although its answer did not come.
pub(super) fn is_unanswered(error: &ObjectError) -> bool {
    matches!(error, ObjectError::OutcomeUnknown { .. } | ObjectError::Unexpected { .. })
}
