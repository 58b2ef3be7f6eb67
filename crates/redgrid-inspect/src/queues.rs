//! Reliable queues: numbers of messages, the age of the oldest one, and pages of messages.

use futures_util::future::ready;
use futures_util::{Stream, TryStreamExt};
use redgrid_core::author::ClientExt;
use redgrid_core::name::companion;
use redgrid_core::{Name, ServerError};
use redgrid_reliable_queue::codecs::Raw;
use redgrid_reliable_queue::{Counts, MessageGroup, MessagePage, ObjectError, QueueSettings, ReliableQueue};

use crate::error::{InspectError, unless_denied};
use crate::inspector::Inspector;
use crate::object_kind::ObjectKind;
use crate::objects::{ObjectFilter, until_error};

/// The most queues that are read at the same time.
const MAX_IN_FLIGHT: usize = 8;

/// A reliable queue as the server sees it.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub struct QueueView {
    /// The name, without the namespace.
    pub name: String,
    /// The messages in each state, the age of the oldest one, since when it is paused, and totals.
    pub counts: Counts,
    /// The settings of the queue.
    pub settings: QueueSettings,
    /// The number of clients that wait for a message. Consumers that work on messages do not wait.
    /// `None` if the user may not count subscribers.
    pub waiting_clients: Option<u64>,
}

impl Inspector {
    /// Reads a reliable queue; `None` if it does not exist.
    ///
    /// It reads numbers, and the states of at most 100 messages.
    ///
    /// # Errors
    ///
    /// [`InspectError::Failed`] if the name is invalid, no server answers, or the user may not read
    /// the queue.
    ///
    /// # Cancel safety
    ///
    /// Dropping the future changes nothing.
    pub async fn queue(&self, name: impl AsRef<str>) -> Result<Option<QueueView>, InspectError> {
        let name = Name::new(name)?;
        let queue = self.reliable_queue(&name);
        let receivers = async {
            let failed = |source| InspectError::of_object("read the queue", name.as_str(), source);
            self.receivers(&name).await.map_err(failed)
        };
        let (exists, counts, settings, waiting_clients) = tokio::try_join!(
            async { queue.object().exists().await.map_err(InspectError::from) },
            async { queue.counts().await.map_err(InspectError::from) },
            async { queue.settings().await.map_err(InspectError::from) },
            receivers,
        )?;
        let view = || QueueView { name: name.as_str().to_owned(), counts, settings, waiting_clients };
        Ok(exists.then(view))
    }

    /// Returns a stream of all reliable queues with names that match the pattern of the filter. Its
    /// kinds are ignored.
    ///
    /// It finds them as [`Inspector::objects`] does, and reads each as [`Inspector::queue`] does.
    ///
    /// # Errors
    ///
    /// As those two. The stream ends after an error.
    pub fn queues(&self, filter: &ObjectFilter) -> impl Stream<Item = Result<QueueView, InspectError>> + Send + use<> {
        let filter = ObjectFilter { kinds: vec![ObjectKind::ReliableQueue], ..filter.clone() };
        let inspector = self.clone();
        let read = self.objects(&filter).map_ok(move |object| {
            let inspector = inspector.clone();
            async move { inspector.queue(&object.name).await }
        });
        // A queue that was deleted meanwhile is left out.
        until_error(read.try_buffer_unordered(MAX_IN_FLIGHT).try_filter_map(|view| ready(Ok(view))))
    }

    /// Returns up to 100 messages of a group of a reliable queue, from the index `first` on,
    /// without their values.
    ///
    /// # Errors
    ///
    /// As [`Inspector::queue`].
    ///
    /// # Cancel safety
    ///
    /// Dropping the future changes nothing.
    pub async fn messages(
        &self,
        name: impl AsRef<str>,
        group: MessageGroup,
        first: u64,
    ) -> Result<MessagePage, InspectError> {
        let name = Name::new(name)?;
        Ok(self.reliable_queue(&name).list(group, first).await?)
    }

    /// Returns the queue for reads that decode no value.
    fn reliable_queue(&self, name: &Name) -> ReliableQueue<(), Raw> {
        ReliableQueue::new(&self.client, name.as_str())
    }

    /// Counts the clients that wait for a message; `None` without permission.
    async fn receivers(&self, name: &Name) -> Result<Option<u64>, ServerError> {
        let key = self.client.key(name);
        let channels = [companion("redgrid_reliable_queue_channel", &key)];
        unless_denied(self.client.waiting_subscribers(&channels, &key).await)
    }
}

impl From<ObjectError> for InspectError {
    fn from(error: ObjectError) -> Self {
        match error {
            ObjectError::Failed(failure) => InspectError::Failed(failure),
            other => InspectError::Object(other),
        }
    }
}
