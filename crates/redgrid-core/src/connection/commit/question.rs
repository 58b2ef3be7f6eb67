//! What a group asks: one write, one WAIT, and what proves that the second speaks of the first.

use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use fred::prelude::Value;
use futures_util::future::join4;

use super::Level;
use crate::connection::link::{Link, info_field};
use crate::error::ServerError;

/// How long the key of a group's write lives: 1 s. It is written for its place in the stream, not to be read.
const KEY_LIVES_MS: i64 = 1000;

/// A group's write and WAIT.
pub(super) struct Question {
    pub(super) level: Level,
    /// The tag to write under; `None` when this group's write is done.
    pub(super) tag: Option<Bytes>,
    pub(super) number: u64,
    pub(super) wait: Duration,
    /// Whose data it must be.
    pub(super) history: Arc<str>,
}

pub(super) enum Failure {
    /// Not sent, not answered, or not by one and the same connection.
    Contact(ServerError),
    /// The server is no primary, or its data is of another history.
    Changed,
    Refused {
        error: ServerError,
        /// Whether the write was refused, which alone depends on the tag.
        writing: bool,
    },
}

impl Question {
    /// Writes and waits in one go; how many have acknowledged.
    pub(super) async fn ask(&self, link: &Link) -> Result<u32, Failure> {
        let text = async |name, section: &'static str| {
            link.send_static(name, vec![section.into()]).await?.into_typed::<String>()
        };
        // Polled for the first time in this order, and a first poll hands the bytes to fred. The connection's name comes
        // last: it proves that nothing before it went over another.
        let (written, waited, info, client) =
            join4(self.write(link), self.wait(link), text("INFO", "replication"), text("CLIENT", "INFO")).await;
        written.map_err(|error| Failure::of(error, true))?;
        let acknowledged = waited.map_err(|error| Failure::of(error, false))?;
        let info = info.map_err(|error| Failure::of(error, false))?;
        let client = client.map_err(|error| Failure::of(error, false))?;
        if client.split_whitespace().find_map(|word| word.strip_prefix("name=")) != Some(link.name()) {
            return Err(Failure::Contact(ServerError::unknown("the commit connection was replaced")));
        }
        if info_field(&info, "role") != "master" || info_field(&info, "master_replid") != &*self.history {
            return Err(Failure::Changed);
        }
        Ok(acknowledged)
    }

    async fn write(&self, link: &Link) -> Result<(), ServerError> {
        let Some(tag) = &self.tag else { return Ok(()) };
        let key = Bytes::from([b"redgrid_commit:{", &**tag, b"}"].concat());
        let number = self.number.to_string();
        let args = vec![key.into(), number.into(), Value::from_static_str("PX"), Value::from(KEY_LIVES_MS)];
        link.send_static("SET", args).await.map(drop)
    }

    async fn wait(&self, link: &Link) -> Result<u32, ServerError> {
        let millis = Value::from(i64::try_from(self.wait.as_millis()).unwrap_or(i64::MAX));
        let acknowledged = match self.level {
            Level::Replicas(at_least) => {
                let args = vec![Value::from(i64::from(at_least)), millis];
                link.send_static("WAIT", args).await?.into_typed::<u64>()?
            }
            Level::Disk => {
                let args = vec![Value::from(1), Value::from(0), millis];
                link.send_static("WAITAOF", args).await?.into_typed::<(u64, u64)>()?.0
            }
        };
        Ok(u32::try_from(acknowledged).unwrap_or(u32::MAX))
    }
}

impl Failure {
    fn of(error: ServerError, writing: bool) -> Self {
        match error {
            ServerError::NotSent { .. }
            | ServerError::Unauthorized { .. }
            | ServerError::ShuttingDown
            | ServerError::Unknown { .. } => Failure::Contact(error),
            ServerError::Refused { .. } | ServerError::Decode { .. } => Failure::Refused { error, writing },
        }
    }
}
