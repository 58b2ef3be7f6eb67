//! The settings of a queue, shared by all its users.

use redgrid_core::Request;
use redgrid_core::object::ObjectError;

use crate::queue::ReliableQueue;
use crate::settings::{NAMES, QueueSettings};

impl<T, C> ReliableQueue<T, C> {
    /// Replaces all settings of the queue. They apply to messages that are pushed or received from
    /// now on.
    ///
    /// # Errors
    ///
    /// [`ObjectError`] says whether the settings were set;
    /// [`Failure::InvalidArgument`](crate::Failure::InvalidArgument) for invalid settings.
    ///
    /// # Cancel safety
    ///
    /// If the future is dropped after the request is sent, the request is still executed.
    #[doc(alias = "setConfig")]
    pub async fn set_settings(&self, settings: &QueueSettings) -> Result<(), ObjectError> {
        self.store_settings(settings, false).await.map(drop)
    }

    /// Sets the settings of the queue if it has none. Returns whether they were set.
    ///
    /// # Errors and cancel safety
    ///
    /// As for [`ReliableQueue::set_settings`].
    #[doc(alias = "setConfigIfAbsent")]
    pub async fn try_set_settings(&self, settings: &QueueSettings) -> Result<bool, ObjectError> {
        self.store_settings(settings, true).await
    }

    async fn store_settings(&self, settings: &QueueSettings, only_if_none: bool) -> Result<bool, ObjectError> {
        let queue_client = self.queue_client()?;
        let request = queue_client.keys().set().arg(if only_if_none { "1" } else { "0" });
        let values = settings.values(self.object_ref())?;
        let request = values.into_iter().fold(request, |request, (name, value)| request.arg(name).arg(value));
        let set = self.run_exactly_once(queue_client, request).await?;
        Ok(set.first() == Some(&1))
    }

    /// Returns the settings of the queue; all of them are `None` if it has none.
    ///
    /// # Errors
    ///
    /// [`ObjectError`] if the server did not answer.
    ///
    /// # Cancel safety
    ///
    /// Dropping the future changes nothing.
    #[doc(alias = "getConfig")]
    pub async fn settings(&self) -> Result<QueueSettings, ObjectError> {
        let queue = self.queue_client()?.keys().queue().clone();
        let request = NAMES.into_iter().fold(Request::command("HMGET").key(queue), Request::arg);
        let values: Vec<Option<u64>> = self.object_ref().read(request).await?;
        QueueSettings::read(&values).ok_or_else(|| self.unexpected("settings"))
    }
}
