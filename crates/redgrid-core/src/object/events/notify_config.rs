//! Checks the servers' setting for keyspace notifications and, if requested, changes it.

use std::sync::Arc;

use bytes::Bytes;
use redgrid_client::internal::SubscriptionManager;
use redgrid_client::{Code, Reply, Request, Server, ServerError};

use super::ListenError;
use super::kind::missing_letters;
use super::listen::unavailable;
use crate::clock::Instant;
use crate::failure::Failure;

const SETTING: &str = "notify-keyspace-events";

/// Maximum number of times that the setting of one server is changed. More than one change is
/// necessary only if other clients change the setting at the same time.
const MAX_CHANGES: usize = 3;

/// The letters that must be in the setting `notify-keyspace-events`, and the servers on which they
/// must be set.
#[derive(Clone)]
pub(super) struct NotifyConfig {
    /// The key whose primary publishes the events; `None` for all primaries.
    pub(super) key: Option<Bytes>,
    pub(super) letters: String,
    /// Whether missing letters are added to the setting. If false, a missing letter is an error.
    pub(super) enable: bool,
}

impl NotifyConfig {
    /// Checks all servers. While one of them does not answer, retries until `until`.
    ///
    /// The topology may change meanwhile, so each retry uses the current list of servers.
    pub(super) async fn ensure(
        self,
        subscriptions: Arc<SubscriptionManager>,
        until: Instant,
    ) -> Result<(), ListenError> {
        loop {
            let nodes = match &self.key {
                Some(key) => vec![subscriptions.topology.primary(key)],
                None => subscriptions.topology.primaries(),
            };
            let mut failed = nodes.is_empty().then(|| ServerError::not_sent("no server is known"));
            let mut refused = None;
            // Waiting does not help if every server refuses this client.
            let is_lasting = !nodes.is_empty() && nodes.iter().all(|node| node.refusal().borrow().is_some());
            for node in nodes {
                match self.ensure_on(&*node).await {
                    Ok(()) => {}
                    Err(ListenError::Failed(Failure::Unavailable { source, .. })) => failed = Some(source),
                    Err(error) => refused = refused.or(Some(error)),
                }
            }
            if let Some(refused) = refused {
                return Err(refused);
            }
            let Some(source) = failed else { return Ok(()) };
            let retry_at = subscriptions.clock.now() + subscriptions.settings.retry_delay;
            if is_lasting || retry_at >= until {
                return Err(unavailable(source));
            }
            subscriptions.clock.sleep_until(retry_at).await;
        }
    }

    async fn ensure_on(&self, server: &dyn Server) -> Result<(), ListenError> {
        let node = || server.id().clone();
        let is_passing = |source: &ServerError| source.code().is_none_or(Code::is_passing);
        let check_error = |source: ServerError| match source {
            source if is_passing(&source) => unavailable(source),
            source => ListenError::CannotCheck { node: node(), source },
        };
        // If another client changes the setting at the same moment, it may remove the added
        // letters. So the setting is read again after each change.
        for attempt in 0.. {
            let set = read_setting(server).await.map_err(check_error)?;
            let missing = missing_letters(&self.letters, &set);
            if missing.is_empty() {
                return Ok(());
            }
            if !self.enable || attempt == MAX_CHANGES {
                return Err(ListenError::Off { node: node(), missing, set });
            }
            let wanted = set + &missing;
            match change_setting(server, &wanted).await {
                Ok(()) => {}
                Err(source) if is_passing(&source) => return Err(unavailable(source)),
                Err(source) => return Err(ListenError::CannotEnable { node: node(), wanted, source }),
            }
        }
        Ok(())
    }
}

async fn read_setting(server: &dyn Server) -> Result<String, ServerError> {
    match call(server, Request::command("CONFIG").arg("GET").arg(SETTING)).await? {
        Reply::Map(pairs) => match pairs.into_iter().next() {
            Some((_, value)) => value.into_typed(),
            None => Ok(String::new()),
        },
        reply => Ok(reply.into_typed::<Vec<String>>()?.into_iter().nth(1).unwrap_or_default()),
    }
}

async fn change_setting(server: &dyn Server, wanted: &str) -> Result<(), ServerError> {
    call(server, Request::command("CONFIG").arg("SET").arg(SETTING).arg(wanted.to_owned())).await?.into_typed()
}

async fn call(server: &dyn Server, request: Request) -> Result<Reply, ServerError> {
    server.call(vec![request]).await.pop().unwrap_or_else(|| Err(ServerError::unknown("no answer")))
}
