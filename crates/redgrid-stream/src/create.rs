//! Creation of groups, and their start positions.

use bytes::Bytes;
use redgrid_core::Request;
use redgrid_core::into_future;
use redgrid_core::object::{ObjectError, ObjectRef};

use crate::error::{NO_STREAM, StreamError};
use crate::id::EntryId;

/// The position in the stream at which a group starts.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[non_exhaustive]
pub enum Start {
    /// The group starts with the first entry of the stream.
    Beginning,
    /// The group starts with the next entry that is added.
    End,
    /// The group starts after this entry.
    After(EntryId),
}

impl Start {
    pub(crate) fn to_arg(self) -> Bytes {
        match self {
            Start::Beginning => Bytes::from_static(b"0-0"),
            Start::End => Bytes::from_static(b"$"),
            Start::After(id) => id.to_bytes(),
        }
    }
}

/// Creates a group when awaited; made by [`Group::create`](crate::Group::create).
///
/// The group starts with entries that are added later, as Redisson's groups do, unless
/// [`Create::from_start`] or [`Create::from`] is called.
///
/// The request is sent once. If the group exists, the request fails with
/// [`StreamError::GroupExists`], and the group is not changed.
#[must_use = "does nothing until awaited"]
#[derive(Debug, Clone)]
#[doc(alias = "StreamCreateGroupArgs")]
pub struct Create {
    pub(crate) object_ref: ObjectRef,
    pub(crate) group: String,
    pub(crate) start: Start,
    pub(crate) make_stream: bool,
    pub(crate) entries_read: Option<u64>,
}

impl Create {
    /// Starts with the first entry of the stream, so that entries from before the group was created
    /// are delivered too.
    pub fn from_start(self) -> Create {
        self.from(Start::Beginning)
    }

    /// Sets the start position. The default is [`Start::End`].
    #[doc(alias = "id")]
    pub fn from(self, start: Start) -> Create {
        Create { start, ..self }
    }

    /// Creates the stream if it does not exist.
    ///
    /// Without this option, the call fails with [`ObjectError::Absent`] if the stream does not
    /// exist.
    #[doc(alias = "makeStream")]
    pub fn make_stream(self) -> Create {
        Create { make_stream: true, ..self }
    }

    /// Sets the number of entries that count as read. The server computes the lag from it. Requires
    /// Redis 7.0 or newer.
    /// Requires Redis 7.0 or newer.
    #[doc(alias = "entriesRead")]
    pub fn entries_read(self, entries: u64) -> Create {
        Create { entries_read: Some(entries), ..self }
    }

    async fn run(self) -> Result<(), StreamError> {
        let Create { object_ref, group, start, make_stream, entries_read } = self;
        let (name, key) = object_ref.name_and_key()?;
        let mut request =
            Request::subcommand("XGROUP", "CREATE").key(key.clone()).arg(group.clone()).arg(start.to_arg());
        if make_stream {
            request = request.arg("MKSTREAM");
        }
        if let Some(entries) = entries_read {
            let entries = i64::try_from(entries);
            let entries = entries
                .map_err(|_| object_ref.invalid("entries_read", format_args!("at most {}", i64::MAX), "more"))?;
            request = request.arg("ENTRIESREAD").int(entries);
        }
        object_ref.change(request).await.map_err(|error| match StreamError::server_message(&error) {
            Some(message) if message.contains(NO_STREAM) => ObjectError::Absent { name: name.clone() }.into(),
            _ => StreamError::from_group_request(&object_ref, &group, error),
        })
    }
}

into_future!(
    /// # Cancel safety
    ///
    /// A request that was already sent is executed even if the future is dropped.
    Create => Result<(), StreamError>, |this| this.run());
