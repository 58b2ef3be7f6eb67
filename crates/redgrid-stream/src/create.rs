//! Where groups begin, and creating them.

use std::future::IntoFuture;
use std::pin::Pin;

use bytes::Bytes;
use redgrid_core::Request;
use redgrid_core::object::{ObjectError, Place};

use crate::error::{NO_STREAM, StreamError};
use crate::id::EntryId;

/// Where a group begins.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Start {
    /// With all entries that are there.
    Beginning,
    /// With what is added from then on.
    End,
    /// Behind this entry.
    After(EntryId),
}

impl Start {
    pub(crate) fn written(self) -> Bytes {
        match self {
            Start::Beginning => Bytes::from_static(b"0-0"),
            Start::End => Bytes::from_static(b"$"),
            Start::After(id) => id.bytes(),
        }
    }
}

/// Creates a group when awaited; made by [`Group::create`](crate::Group::create).
///
/// Begins with entries that are added later, as Redisson's groups do, unless [`Create::from_start`] or [`Create::from`] says otherwise.
///
/// It is sent once. Where there is a group of this name it ends [`StreamError::GroupExists`], and that stays as it is.
#[must_use = "nothing is created until this is awaited"]
#[derive(Debug, Clone)]
#[doc(alias = "StreamCreateGroupArgs")]
pub struct Create {
    pub(crate) place: Place,
    pub(crate) group: String,
    pub(crate) start: Start,
    pub(crate) makes: bool,
    pub(crate) read: Option<u64>,
}

impl Create {
    /// Begins with the first entry of the stream, so that entries from before the group was created are delivered too.
    pub fn from_start(self) -> Create {
        self.from(Start::Beginning)
    }

    /// Begins there; with entries that are added later unless set.
    #[doc(alias = "id")]
    pub fn from(self, start: Start) -> Create {
        Create { start, ..self }
    }

    /// Makes the stream where there is none. Else it ends [`ObjectError::Absent`].
    #[doc(alias = "makeStream")]
    pub fn make_stream(self) -> Create {
        Create { makes: true, ..self }
    }

    /// Has so many entries count as read, so that the server knows how many are to be: Redis 7.0 or newer.
    #[doc(alias = "entriesRead")]
    pub fn entries_read(self, entries: u64) -> Create {
        Create { read: Some(entries), ..self }
    }

    async fn run(self) -> Result<(), StreamError> {
        let Create { place, group, start, makes, read } = self;
        let (name, key) = place.named()?;
        let mut request =
            Request::subcommand("XGROUP", "CREATE").key(key.clone()).arg(group.clone()).arg(start.written());
        if makes {
            request = request.arg("MKSTREAM");
        }
        if let Some(read) = read {
            let read = i64::try_from(read);
            let read = read.map_err(|_| place.invalid("entries_read", format_args!("at most {}", i64::MAX), "more"))?;
            request = request.arg("ENTRIESREAD").int(read);
        }
        place.change(request).await.map_err(|error| match StreamError::words(&error) {
            Some(words) if words.contains(NO_STREAM) => ObjectError::Absent { name: name.clone() }.into(),
            _ => StreamError::of_group(&place, &group, error),
        })
    }
}

impl IntoFuture for Create {
    type Output = Result<(), StreamError>;
    type IntoFuture = Pin<Box<dyn Future<Output = Self::Output> + Send>>;

    /// # Cancel safety
    ///
    /// What has left is carried out although nobody waits for it.
    fn into_future(self) -> Self::IntoFuture {
        Box::pin(self.run())
    }
}
