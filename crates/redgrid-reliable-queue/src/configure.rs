//! The settings of a queue, which all who use it go by.

use redgrid_core::Request;
use redgrid_core::object::ObjectError;

use crate::queue::ReliableQueue;
use crate::settings::{NAMES, QueueSettings};

impl<T, C> ReliableQueue<T, C> {
    /// Sets the settings of the queue, all of them: messages that are pushed or received from now on go by them.
    ///
    /// # Errors
    ///
    /// [`ObjectError`] says what is true then;
    /// [`Failure::InvalidArgument`](crate::Failure::InvalidArgument) for settings that can not be.
    ///
    /// # Cancel safety
    ///
    /// What has left is carried out although nobody waits for it.
    #[doc(alias = "setConfig")]
    pub async fn set_settings(&self, settings: &QueueSettings) -> Result<(), ObjectError> {
        self.settings_set(settings, false).await.map(drop)
    }

    /// The same where none were set before; tells whether it did.
    ///
    /// # Errors
    ///
    /// As [`ReliableQueue::set_settings`].
    ///
    /// # Cancel safety
    ///
    /// As [`ReliableQueue::set_settings`].
    #[doc(alias = "setConfigIfAbsent")]
    pub async fn try_set_settings(&self, settings: &QueueSettings) -> Result<bool, ObjectError> {
        self.settings_set(settings, true).await
    }

    async fn settings_set(&self, settings: &QueueSettings, only_if_none: bool) -> Result<bool, ObjectError> {
        let desk = self.desk()?;
        let request = desk.keys.set().arg(if only_if_none { "1" } else { "0" });
        let values = settings.values(self.object_ref())?;
        let request = values.into_iter().fold(request, |request, (name, value)| request.arg(name).arg(value));
        let set = self.once(desk, request).await?;
        Ok(set.first() == Some(&1))
    }

    /// The settings of the queue; those of one that has none are all `None`.
    ///
    /// # Errors
    ///
    /// [`ObjectError`] says what is true then.
    ///
    /// # Cancel safety
    ///
    /// Dropping it changes nothing.
    #[doc(alias = "getConfig")]
    pub async fn settings(&self) -> Result<QueueSettings, ObjectError> {
        let queue = self.desk()?.keys.queue().clone();
        let request = NAMES.into_iter().fold(Request::command("HMGET").key(queue), Request::arg);
        let values: Vec<Option<u64>> = self.object_ref().read(request).await?;
        QueueSettings::read(&values).ok_or_else(|| self.unexpected("settings"))
    }
}
