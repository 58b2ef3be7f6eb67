//! The commands of one group: a write, a WAIT, and an INFO. The INFO shows whether the server is
//! still a primary with the same replication history.

use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;

use super::Level;
use crate::connection::Reply;
use crate::connection::link::{Connection, WireCommand, info_field, wire};
use crate::error::ServerError;

/// TTL of the key that a group writes: 1 s. The key is never read: its only purpose is to add a
/// write to the replication stream.
const KEY_LIVES_MS: &str = "1000";

pub(super) struct WaitCommand {
    pub(super) level: Level,
    /// The hash tag of the key to write; `None` if this group's write was already sent on the
    /// present connection.
    pub(super) tag: Option<Bytes>,
    pub(super) number: u64,
    pub(super) wait: Duration,
    /// The replication history that the server's data must belong to.
    pub(super) history: Arc<str>,
}

pub(super) enum Failure {
    /// The commands were not sent, not answered, or not all answered on one connection.
    Contact(ServerError),
    /// The server is not a primary, or its data belongs to another replication history.
    Changed,
    Refused {
        error: ServerError,
        /// Whether the write was refused, and not the WAIT or the INFO.
        writing: bool,
    },
}

impl WaitCommand {
    /// Sends the write, the WAIT and the INFO back to back on one connection.
    ///
    /// Returns the number of acknowledgements.
    pub(super) async fn send(&self, link: &Connection) -> Result<u32, Failure> {
        let commands: Vec<_> = self.write().into_iter().chain([self.wait(), wire(["INFO", "replication"])]).collect();
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
        Some(vec!["SET".into(), key, self.number.to_string().into(), "PX".into(), KEY_LIVES_MS.into()])
    }

    fn wait(&self) -> WireCommand {
        let millis = self.wait.as_millis().to_string().into();
        match self.level {
            Level::Replicas(at_least) => vec!["WAIT".into(), at_least.to_string().into(), millis],
            Level::Disk => vec!["WAITAOF".into(), "1".into(), "0".into(), millis],
        }
    }
}

fn answer(answers: &mut impl Iterator<Item = Result<Reply, ServerError>>) -> Result<Reply, ServerError> {
    answers.next().unwrap_or_else(|| Err(ServerError::unknown("no answer")))
}

impl Failure {
    fn of(error: ServerError, writing: bool) -> Self {
        if error.is_not_sent() || error.is_unknown() {
            return Failure::Contact(error);
        }
        Failure::Refused { error, writing }
    }
}
