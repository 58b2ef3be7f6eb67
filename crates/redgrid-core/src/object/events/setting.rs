//! What servers are set to tell: asked for, and where that is wished, set.

use std::sync::Arc;

use super::ListenError;
use super::kind::lacking;
use crate::clock::Instant;
use crate::connection::{Reply, Request, Server};
use crate::error::{Code, ServerError};
use crate::pubsub::SubscriptionManager;

const SETTING: &str = "notify-keyspace-events";

/// How often a server is set whose setting others change at the same time.
const TIMES: usize = 3;

/// Where events come from.
#[derive(Clone)]
pub(super) enum From {
    /// The primary of a key.
    Key(bytes::Bytes),
    /// All primaries.
    All,
}

impl From {
    fn nodes(&self, hub: &SubscriptionManager) -> Vec<Arc<dyn Server>> {
        match self {
            From::Key(key) => vec![hub.topology().primary(key)],
            From::All => hub.topology().primaries(),
        }
    }
}

/// What is needed of them.
#[derive(Clone)]
pub(super) struct Needed {
    pub(super) from: From,
    pub(super) letters: String,
    /// What lacks is set.
    pub(super) enable: bool,
}

impl Needed {
    /// Asks all of them, again and again while one can not be asked, until then. The topology may change meanwhile.
    pub(super) async fn ensure(self, hub: Arc<SubscriptionManager>, until: Instant) -> Result<(), ListenError> {
        loop {
            let nodes = self.from.nodes(&hub);
            let mut failed = nodes.is_empty().then(|| ServerError::not_sent("no server is known"));
            let mut refused = None;
            // Waiting does not help where none can be asked at all.
            let is_lasting = !nodes.is_empty() && nodes.iter().all(|node| node.refusal().borrow().is_some());
            for node in nodes {
                match self.ensure_at(&*node).await {
                    Ok(()) => {}
                    Err(ListenError::Unavailable { source }) => failed = Some(source),
                    Err(error) => refused = refused.or(Some(error)),
                }
            }
            if let Some(refused) = refused {
                return Err(refused);
            }
            let Some(source) = failed else { return Ok(()) };
            let again = hub.clock().now() + hub.settings().retry_delay;
            if is_lasting || again >= until {
                return Err(ListenError::Unavailable { source });
            }
            hub.clock().sleep_until(again).await;
        }
    }

    async fn ensure_at(&self, server: &dyn Server) -> Result<(), ListenError> {
        let node = || server.id().clone();
        let is_passing = |source: &ServerError| source.code().is_none_or(Code::is_passing);
        let asked = |source: ServerError| match source {
            source if is_passing(&source) => ListenError::Unavailable { source },
            source => ListenError::CannotCheck { node: node(), source },
        };
        // A client may take away what another has added at the same moment.
        for time in 0.. {
            let set = setting(server).await.map_err(asked)?;
            let missing = lacking(&self.letters, &set);
            if missing.is_empty() {
                return Ok(());
            }
            if !self.enable || time == TIMES {
                return Err(ListenError::Off { node: node(), missing, set });
            }
            let wanted = set + &missing;
            match change(server, &wanted).await {
                Ok(()) => {}
                Err(source) if is_passing(&source) => return Err(ListenError::Unavailable { source }),
                Err(source) => return Err(ListenError::CannotEnable { node: node(), wanted, source }),
            }
        }
        Ok(())
    }
}

async fn setting(server: &dyn Server) -> Result<String, ServerError> {
    match one(server, Request::command("CONFIG").arg("GET").arg(SETTING)).await? {
        Reply::Map(pairs) => match pairs.into_iter().next() {
            Some((_, value)) => value.into_typed(),
            None => Ok(String::new()),
        },
        reply => Ok(reply.into_typed::<Vec<String>>()?.into_iter().nth(1).unwrap_or_default()),
    }
}

async fn change(server: &dyn Server, wanted: &str) -> Result<(), ServerError> {
    one(server, Request::command("CONFIG").arg("SET").arg(SETTING).arg(wanted.to_owned())).await?.into_typed()
}

async fn one(server: &dyn Server, request: Request) -> Result<Reply, ServerError> {
    server.call(vec![request]).await.pop().unwrap_or_else(|| Err(ServerError::unknown("no answer")))
}
