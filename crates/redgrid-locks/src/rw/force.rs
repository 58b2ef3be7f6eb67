//! Removing the hold of one holder of a read-write lock.

use bytes::Bytes;
use redgrid_core::author::ClientExt;
use redgrid_core::lock::TakeoverFrom;

use super::{RwLock, kinds};
use crate::AcquireError;
use crate::scripts::RETAINED;
use crate::takeover::ForcedRelease;

impl RwLock {
    /// Removes the hold with this field on the server: `<client id>:<number>` for a reader,
    /// `<client id>:<number>:write` for the writer. All other holds remain: a writer that also
    /// reads keeps its read, and others may read half a second later.
    ///
    /// A hold that was released and stays taken for its `hold_at_least` (`…:kept`) is not removed:
    /// the result is [`ForcedRelease::HeldByAnother`], as for [`RwLock::force_release_if`].
    ///
    /// Use it for a field that a tool has read. [`RwLock::force_release_if`] takes the field of a
    /// reader from a writer of the same number, too: a Redisson thread that has stopped reading
    /// and writes now would lose its write lock. Here it keeps it.
    ///
    /// ```no_run
    /// # async fn demo(lock: redgrid_locks::RwLock) -> Result<(), Box<dyn std::error::Error>> {
    /// let reader = "0f8fad5b-d9cb-469f-a165-70867728950e:17";
    /// if lock.force_release_field(reader).await?.is_done() {
    ///     println!("it does not read any more");
    /// }
    /// # Ok(()) }
    /// ```
    ///
    /// # Errors
    ///
    /// As [`RwLock::force_release_if`].
    ///
    /// # Cancel safety
    ///
    /// If the future is dropped early, the hold may or may not be removed.
    pub async fn force_release_field(&self, field: impl AsRef<str>) -> Result<ForcedRelease, AcquireError> {
        let field = field.as_ref();
        let field = field.strip_suffix(RETAINED).unwrap_or(field);
        match field.strip_suffix(kinds::WRITER) {
            Some(writer) => {
                let writer = Bytes::copy_from_slice(writer.as_bytes());
                self.take_over_and_release(TakeoverFrom::Holder(writer)).await
            }
            None => self.evict_reader(&Bytes::copy_from_slice(field.as_bytes())).await,
        }
    }

    /// Removes the read with this field, and nothing else.
    pub(super) async fn evict_reader(&self, field: &Bytes) -> Result<ForcedRelease, AcquireError> {
        let target = self.valid_target()?;
        let evicted =
            self.client.run::<i64>(kinds::evict_reader_request(target, field, &self.client.notice_prefix())).await;
        Ok(match evicted.map_err(|error| AcquireError::of_request(&target.name, error))? {
            1 => ForcedRelease::Done,
            0 => ForcedRelease::Free,
            _ => ForcedRelease::HeldByAnother,
        })
    }
}
