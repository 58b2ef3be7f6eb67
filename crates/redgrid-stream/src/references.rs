//! Removal of entries together with the references that groups have to them.

use redgrid_codecs::Codec;
use redgrid_core::{FromReply, Reply, Request, ServerError};

use crate::error::StreamError;
use crate::group::Group;
use crate::id::EntryId;
use crate::stream::Stream;

/// The servers that have XDELEX and XACKDEL.
const REQUIRED_SERVER: &str = "Redis 8.2 or newer";

/// The effect on the pending references of other groups when an entry is removed.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[non_exhaustive]
pub enum References {
    /// The entry stays pending, without fields.
    Keep,
    /// The entry is no longer pending.
    Remove,
    /// The entry is removed only if every group has delivered it and it is not pending in any
    /// group.
    OnlyAcknowledged,
}

/// The result of removing one entry.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[doc(alias = "StreamEntryStatus")]
#[non_exhaustive]
pub enum Removed {
    /// The stream has no such entry.
    Absent,
    /// The entry was removed.
    Removed,
    /// The entry was kept because other groups refer to it.
    Referred,
}

impl FromReply for Removed {
    fn from_reply(reply: Reply) -> Result<Self, ServerError> {
        match i64::from_reply(reply)? {
            1 => Ok(Removed::Removed),
            2 => Ok(Removed::Referred),
            -1 => Ok(Removed::Absent),
            other => Err(ServerError::Decode { expected: "1, 2 or -1", got: other.to_string() }),
        }
    }
}

impl<K, V, KC: Codec, VC: Codec> Stream<K, V, KC, VC> {
    /// Removes entries with a policy for references to them, and returns the result for each.
    ///
    /// Requires Redis 8.2 or newer.
    ///
    /// # Errors
    ///
    /// [`StreamError::Unsupported`] on other servers. Otherwise [`StreamError`] states what failed
    /// and whether anything may have changed.
    ///
    /// # Cancel safety
    ///
    /// A request that was already sent is executed even if the future is dropped.
    #[doc(alias = "remove")]
    #[doc(alias = "StreamRemoveArgs")]
    pub async fn remove_with(
        &self,
        ids: impl IntoIterator<Item = EntryId>,
        references: References,
    ) -> Result<Vec<Removed>, StreamError> {
        self.run_removal("XDELEX", self.object_ref.command("XDELEX")?, ids, references).await
    }

    async fn run_removal(
        &self,
        command: &'static str,
        request: Request,
        ids: impl IntoIterator<Item = EntryId>,
        references: References,
    ) -> Result<Vec<Removed>, StreamError> {
        let ids = self.id_args(ids)?;
        if ids.is_empty() {
            return Ok(Vec::new());
        }
        let policy = match references {
            References::Keep => "KEEPREF",
            References::Remove => "DELREF",
            References::OnlyAcknowledged => "ACKED",
        };
        let request = request.arg(policy).arg("IDS").arg(ids.len().to_string());
        let removed = self.object_ref.change(ids.into_iter().fold(request, Request::arg)).await;
        removed.map_err(|error| StreamError::from_new_command(&self.object_ref, command, REQUIRED_SERVER, error))
    }
}

impl<K, V, KC: Codec, VC: Codec> Group<K, V, KC, VC> {
    /// Acknowledges entries and removes them in one step, and returns the result for each.
    ///
    /// Requires Redis 8.2 or newer.
    ///
    /// # Errors
    ///
    /// [`StreamError::Unsupported`] on other servers. Otherwise [`StreamError`] states what failed
    /// and whether anything may have changed.
    ///
    /// # Cancel safety
    ///
    /// A request that was already sent is executed even if the future is dropped.
    #[doc(alias = "ack")]
    #[doc(alias = "StreamAckArgs")]
    pub async fn ack_and_remove(
        &self,
        ids: impl IntoIterator<Item = EntryId>,
        references: References,
    ) -> Result<Vec<Removed>, StreamError> {
        self.stream.run_removal("XACKDEL", self.command("XACKDEL")?, ids, references).await
    }
}
