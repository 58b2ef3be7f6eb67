//! Tasks of changes, which continue when the caller is dropped, and the handling of failed changes.

use std::any::Any;
use std::error::Error;
use std::panic::{AssertUnwindSafe, resume_unwind};
use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use futures_util::{FutureExt, StreamExt, stream};
use redgrid_codecs::Codec;
use redgrid_core::author::ClientExt;
use redgrid_core::clock::Instant;
use redgrid_core::object::ObjectError;
use redgrid_core::{BackgroundClient, Failure, FromReply, Name, Request};
use tokio::sync::{OwnedSemaphorePermit, oneshot, watch};
use tokio::task::JoinHandle;

use super::key_lock::{KeyGuard, lock_lost};
use super::queue::NotWrittenInTime;
use super::store::{BackedError, Storable, Writer};
use super::store_call::StoreWrite;
use super::{BackedMap, Inner, Mode};
use crate::compare::{compare_and_remove, compare_and_set};

/// Number of keys that are changed back at a time.
const MAX_CONCURRENT_UNDOS: usize = 16;

/// The encoded value of a key in the map before and after a change.
pub(super) struct AppliedChange {
    pub(super) previous: Option<Bytes>,
    pub(super) new: Option<Bytes>,
}

/// An encoded key, the key, and its new value with the encoded value; `None` removes the key.
pub(super) type Change<K, V> = (Bytes, K, Option<(V, Bytes)>);

/// The number of changes in flight.
#[derive(Clone, Default)]
pub(super) struct InFlightChanges(Arc<watch::Sender<usize>>);

impl InFlightChanges {
    fn begin(&self) -> InFlightGuard {
        self.0.send_modify(|count| *count += 1);
        InFlightGuard(self.clone())
    }

    /// Waits until no change is in flight. Returns whether that happened `within` this time.
    pub(super) async fn wait_until_none(&self, within: Duration) -> bool {
        let mut count = self.0.subscribe();
        tokio::time::timeout(within, count.wait_for(|count| *count == 0)).await.is_ok_and(|count| count.is_ok())
    }
}

struct InFlightGuard(InFlightChanges);

impl Drop for InFlightGuard {
    fn drop(&mut self) {
        self.0.0.send_modify(|count| *count -= 1);
    }
}

/// Waits for the result of a task. A panic of the task, which only a codec can cause, is resumed in
/// the caller.
pub(super) async fn join<T>(name: &Name, task: JoinHandle<Result<T, BackedError>>) -> Result<T, BackedError> {
    match task.await {
        Ok(result) => result,
        Err(panic) if panic.is_panic() => resume_unwind(panic.into_panic()),
        Err(_) => Err(BackedError::Ended { name: name.clone() }),
    }
}

impl<K, V, KC: Codec, VC: Codec> BackedMap<K, V, KC, VC> {
    /// Runs `work` in a task of the client and waits for its result.
    ///
    /// The task continues if the caller is dropped, and a shutdown waits for it.
    pub(super) async fn run_in_task<T, W>(&self, work: impl FnOnce(BackgroundClient) -> W) -> Result<T, BackedError>
    where
        T: Send + 'static,
        W: Future<Output = Result<T, BackedError>> + Send + 'static,
    {
        let (name, client) = (self.0.name()?, self.0.map.object_ref.client());
        if client.is_shut_down() {
            return Err(BackedError::Closed { name });
        }
        let (sender, receiver) = oneshot::channel::<Result<Result<T, BackedError>, Box<dyn Any + Send>>>();
        let in_flight = self.0.changes_in_flight.begin();
        client.spawn_attached(|background| {
            let work = AssertUnwindSafe(work(background)).catch_unwind();
            async move {
                let result = work.await;
                drop(in_flight);
                // The caller may have been dropped.
                let _ = sender.send(result);
            }
        });
        match receiver.await {
            Ok(Ok(result)) => result,
            Ok(Err(panic)) => resume_unwind(panic),
            Err(_) => Err(BackedError::Ended { name }),
        }
    }
}

impl<K: Storable, V: Storable, KC: Codec, VC: Codec> Inner<K, V, KC, VC> {
    /// Locks a key. A shutdown ends the wait.
    pub(super) async fn lock_key_unless_closing(
        &self,
        background: &BackgroundClient,
        field: &Bytes,
    ) -> Result<KeyGuard, BackedError> {
        tokio::select! {
            biased;
            guard = self.lock_key(field) => guard,
            () = background.closing() => Err(BackedError::Closed { name: self.name()? }),
        }
    }

    /// Writes a change of the map to the store. If the store rejects it, the map is changed back.
    pub(super) async fn write_through(
        &self,
        background: &BackgroundClient,
        guards: &[KeyGuard],
        write: &StoreWrite<K, V>,
        applied: Vec<(Bytes, AppliedChange)>,
    ) -> Result<(), BackedError> {
        let Mode::WriteThrough(writer) = &self.mode else { return Ok(()) };
        let (name, attempts) = (self.name()?, self.store_options.attempts);
        let Err(source) = self.write_to_store(background, guards, write, writer).await else { return Ok(()) };
        // If one key cannot be changed back, the others are changed back nevertheless.
        let undos = stream::iter(applied).map(|(field, change)| self.undo(background, field, change));
        let outcomes: Vec<Result<(), ObjectError>> = undos.buffer_unordered(MAX_CONCURRENT_UNDOS).collect().await;
        match outcomes.into_iter().find_map(Result::err) {
            Some(undo) => Err(BackedError::Divided { name, attempts, undo: Arc::new(undo), source }),
            None => Err(BackedError::NotStored { name, attempts, source }),
        }
    }

    /// Writes to the store. The loss of a key's lock and the end of a shutdown end the write.
    async fn write_to_store(
        &self,
        background: &BackgroundClient,
        guards: &[KeyGuard],
        write: &StoreWrite<K, V>,
        writer: &Arc<dyn Writer<K, V>>,
    ) -> Result<(), Arc<dyn Error + Send + Sync>> {
        tokio::select! {
            biased;
            lost = lock_lost(guards) => Err(lost),
            result = write.run(&self.store_options, writer) => result,
            () = background.nearly_closed(Duration::MAX) => Err(Arc::new(NotWrittenInTime)),
        }
    }

    /// Restores the previous value of a key, unless another client has changed it since.
    async fn undo(
        &self,
        background: &BackgroundClient,
        field: Bytes,
        change: AppliedChange,
    ) -> Result<(), ObjectError> {
        let (_, map) = self.map.object_ref.name_and_key()?;
        let request = match (change.previous, change.new) {
            (None, None) => return Ok(()),
            (Some(previous), Some(new)) if previous == new => return Ok(()),
            (Some(previous), Some(new)) => compare_and_set(map, false, [field, new, previous]),
            (None, Some(new)) => compare_and_remove(map, false, [field, new]),
            (Some(previous), None) => self.map.object_ref.command("HSETNX")?.arg(field).arg(previous),
        };
        self.run_during_shutdown::<bool>(background, request).await.map(drop)
    }

    /// Handles a lost reply: reads the map, and passes the changes that were made to the store.
    ///
    /// If the map cannot be read in time, changes that were to be written behind count as lost.
    pub(super) async fn resolve_unknown_outcome(
        &self,
        background: &BackgroundClient,
        guards: &[KeyGuard],
        changes: Vec<Change<K, V>>,
        permits: Vec<OwnedSemaphorePermit>,
        error: &ObjectError,
    ) -> Result<(), ObjectError> {
        if matches!(self.mode, Mode::NoWriter) {
            return Ok(());
        }
        let object_ref = &self.map.object_ref;
        let request = changes.iter().map(|(field, ..)| field.clone()).fold(object_ref.command("HMGET")?, Request::arg);
        let current: Vec<Option<Bytes>> =
            match (&self.mode, self.run_during_shutdown(background, request.idempotent()).await) {
                (_, Ok(current)) => current,
                (Mode::WriteBehind(queue), Err(_)) => {
                    queue.report_lost(changes.into_iter().map(|(_, key, _)| key).collect(), Arc::new(error.clone()));
                    return Ok(());
                }
                (Mode::NoWriter | Mode::WriteThrough(_), Err(_)) => return Ok(()),
            };
        let applied = changes.into_iter().zip(current);
        let applied =
            applied.filter(|((.., value), current)| value.as_ref().map(|(_, bytes)| bytes) == current.as_ref());
        let applied = applied.map(|((field, key, value), _)| (field, key, value.map(|(value, _)| value)));
        match &self.mode {
            Mode::WriteBehind(queue) => {
                for ((field, key, value), permit) in applied.zip(permits) {
                    queue.push(field, key, value, permit);
                }
            }
            Mode::WriteThrough(writer) => {
                let applied: Vec<_> = applied.map(|(_, key, value)| (key, value)).collect();
                if !applied.is_empty() {
                    // The result is ignored: the call returns the unknown outcome, and the previous
                    // values are not known.
                    let _ = self.write_to_store(background, guards, &StoreWrite::of(applied), writer).await;
                }
            }
            Mode::NoWriter => {}
        }
        Ok(())
    }

    /// Runs a request, even while the client is being shut down.
    async fn run_during_shutdown<T: FromReply>(
        &self,
        background: &BackgroundClient,
        request: Request,
    ) -> Result<T, ObjectError> {
        let name = self.name()?;
        let until = background.clock().now() + background.contact_timeout();
        let until: Instant = background.closes_by().map_or(until, |by| until.min(by));
        background.run_until(request, until).await.map_err(|source| ObjectError::of(&name, source))
    }
}

/// Returns whether a change may have been made although its reply was lost or not decoded.
pub(super) fn is_unanswered(error: &ObjectError) -> bool {
    matches!(error, ObjectError::Failed(Failure::OutcomeUnknown { .. }) | ObjectError::Unexpected { .. })
}
