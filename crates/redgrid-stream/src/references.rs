//! Removing entries together with what groups have of them.

use redgrid_codecs::Codec;
use redgrid_core::{FromReply, Reply, Request, ServerError};

use crate::error::StreamError;
use crate::group::Group;
use crate::id::EntryId;
use crate::stream::Stream;

/// Which servers know how to remove what is referred to by groups.
const NEWER: &str = "Redis 8.2 or newer";

/// What becomes of what other groups have pending, where an entry is removed.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum References {
    /// It stays pending, without fields.
    Keep,
    /// It is pending no more.
    Remove,
    /// The entry is removed only where no group has it to give out or pending.
    OnlyAcknowledged,
}

/// What became of an entry that was to be removed.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[doc(alias = "StreamEntryStatus")]
pub enum Removed {
    /// It was not there.
    Absent,
    /// It is removed.
    Removed,
    /// It stays, as other groups refer to it.
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
    /// Removes entries and says what becomes of references to them; tells of each what became of it. Redis 8.2 or newer.
    ///
    /// # Errors
    ///
    /// [`StreamError::Unsupported`] of other servers; [`StreamError`] says what is true then.
    ///
    /// # Cancel safety
    ///
    /// What has left is carried out although nobody waits for it.
    #[doc(alias = "remove")]
    #[doc(alias = "StreamRemoveArgs")]
    pub async fn remove_with(
        &self,
        ids: impl IntoIterator<Item = EntryId>,
        references: References,
    ) -> Result<Vec<Removed>, StreamError> {
        self.removed("XDELEX", self.place.command("XDELEX")?, ids, references).await
    }

    async fn removed(
        &self,
        command: &'static str,
        request: Request,
        ids: impl IntoIterator<Item = EntryId>,
        references: References,
    ) -> Result<Vec<Removed>, StreamError> {
        let ids = self.ids(ids)?;
        if ids.is_empty() {
            return Ok(Vec::new());
        }
        let word = match references {
            References::Keep => "KEEPREF",
            References::Remove => "DELREF",
            References::OnlyAcknowledged => "ACKED",
        };
        let request = request.arg(word).arg("IDS").arg(ids.len().to_string());
        let told = self.place.change(ids.into_iter().fold(request, Request::arg)).await;
        told.map_err(|error| StreamError::of_new(&self.place, command, NEWER, error))
    }
}

impl<K, V, KC: Codec, VC: Codec> Group<K, V, KC, VC> {
    /// Acknowledges entries and removes them in one step; tells of each what became of it. Redis 8.2 or newer.
    ///
    /// # Errors
    ///
    /// [`StreamError::Unsupported`] of other servers; [`StreamError`] says what is true then.
    ///
    /// # Cancel safety
    ///
    /// What has left is carried out although nobody waits for it.
    #[doc(alias = "ack")]
    #[doc(alias = "StreamAckArgs")]
    pub async fn ack_and_remove(
        &self,
        ids: impl IntoIterator<Item = EntryId>,
        references: References,
    ) -> Result<Vec<Removed>, StreamError> {
        self.stream.removed("XACKDEL", self.command("XACKDEL")?, ids, references).await
    }
}
