//! What a group asks: one write, one WAIT, and what proves that the second speaks of the first.

use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use fred::prelude::Value;

use super::Level;
use crate::connection::Reply;
use crate::connection::dedicated::WireCommand;
use crate::connection::link::{Connection, Named, info_field};
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
    /// Writes and waits in one go, over one connection; how many have acknowledged.
    pub(super) async fn ask(&self, link: &Connection) -> Result<u32, Failure> {
        let info = (Named::Known("INFO"), vec!["replication".into()]);
        let commands: Vec<_> = self.write().into_iter().chain([self.wait(), info]).collect();
        let mut answers = link.send_together(commands).await.into_iter();
        if self.tag.is_some() {
            answer(&mut answers).map_err(|error| Failure::of(error, true))?;
        }
        let refused = |error| Failure::of(error, false);
        let waited = answer(&mut answers).map_err(refused)?;
        let acknowledged = match self.level {
            Level::Replicas(_) => waited.into_typed::<u64>(),
            Level::Disk => waited.into_typed::<(u64, u64)>().map(|(local, _)| local),
        };
        let acknowledged = acknowledged.map_err(refused)?;
        let info = answer(&mut answers).and_then(Reply::into_typed::<String>).map_err(refused)?;
        if info_field(&info, "role") != "master" || info_field(&info, "master_replid") != &*self.history {
            return Err(Failure::Changed);
        }
        Ok(u32::try_from(acknowledged).unwrap_or(u32::MAX))
    }

    fn write(&self) -> Option<WireCommand> {
        let tag = self.tag.as_ref()?;
        let key = Bytes::from([b"redgrid_commit:{", &**tag, b"}"].concat());
        let number = self.number.to_string();
        let args = vec![key.into(), number.into(), Value::from_static_str("PX"), Value::from(KEY_LIVES_MS)];
        Some((Named::Known("SET"), args))
    }

    fn wait(&self) -> WireCommand {
        let millis = Value::from(i64::try_from(self.wait.as_millis()).unwrap_or(i64::MAX));
        match self.level {
            Level::Replicas(at_least) => (Named::Known("WAIT"), vec![Value::from(i64::from(at_least)), millis]),
            Level::Disk => (Named::Known("WAITAOF"), vec![Value::from(1), Value::from(0), millis]),
        }
    }
}

fn answer(answers: &mut impl Iterator<Item = Result<Reply, ServerError>>) -> Result<Reply, ServerError> {
    answers.next().unwrap_or_else(|| Err(ServerError::unknown("no answer")))
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
