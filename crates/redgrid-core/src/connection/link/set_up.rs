//! How a connection is set up, and what listens where none comes about.

use std::pin::pin;
use std::sync::atomic::Ordering;

use fred::clients::Client as Fred;
use fred::interfaces::ClientLike;
use fred::prelude::Error as FredError;
use tokio::task::JoinHandle;

use super::build::{Target, without_arguments};
use super::diagnose::listener;
use super::frames::begins_with_code;
use super::{LATE, Link, QUIT};
use crate::connection::trouble::{Kind, Trouble};

/// A client of fred that is connected, and the task that drives it.
type Connected = (Fred, JoinHandle<Result<(), FredError>>);

/// Why fred has no connection, in its words, and what was found out beside it.
struct Failure {
    why: String,
    found: Option<Trouble>,
}

impl Link {
    /// Finds out where to connect to, and connects there.
    ///
    /// A first connection that takes long is looked into beside it: a server that does not speak TLS
    /// waits for the rest of a command, and one that speaks nothing is silent. What is found out is
    /// reported at once, while the connection has the rest of its time.
    pub(super) async fn set_up(&self) -> Result<Connected, Trouble> {
        let target = self.blueprint.find().await?;
        let failure = match self.connect(target).await {
            Ok(connected) => return Ok(connected),
            Err(failure) => match self.blueprint.instead_of(target, &failure.why) {
                Some(other) => match self.connect(other).await {
                    Ok(connected) => return Ok(connected),
                    Err(failure) => failure,
                },
                None => failure,
            },
        };
        let trouble = Trouble::of(&failure.why);
        // What refuses with words of its own is a server.
        let found = match failure.found {
            None if trouble.kind != Kind::Unauthorized && !begins_with_code(&failure.why) => self.look_into().await,
            found => found,
        };
        Err(found.unwrap_or(trouble))
    }

    async fn connect(&self, target: Target) -> Result<Connected, Failure> {
        let is_another = self.fred.borrow().0 != target;
        if is_another {
            let failed = |error: FredError| Failure { why: error.to_string(), found: None };
            self.fred.send_replace((target, self.blueprint.build(target).map_err(failed)?));
        }
        let fred = self.fred();
        let looked_into = async {
            tokio::time::sleep(LATE).await;
            let found = self.look_into().await;
            if let Some(trouble) = &found {
                self.fail_by(trouble.clone());
            }
            found
        };
        let (connector, mut found) = (fred.clone(), None);
        let mut connecting = pin!(connector.init());
        let connected = tokio::select! {
            biased;
            connected = &mut connecting => connected,
            looked = looked_into => {
                found = looked;
                connecting.await
            }
        };
        match connected {
            Ok(router) => Ok((fred, router)),
            Err(error) => Err(Failure { why: without_arguments(error.details()).to_owned(), found }),
        }
    }

    /// Whether the server accepts what the provider says now. A short connection of its own tries that.
    pub(super) async fn is_login_accepted(&self) -> bool {
        let Ok(target) = self.blueprint.find().await else { return false };
        let Some(Ok(fred)) = self.blueprint.build_trial(target) else { return false };
        // A task of its own ends the connection, even where this future is dropped.
        let trial = tokio::spawn(async move {
            match fred.init().await {
                Ok(router) => {
                    end(&fred, &router).await;
                    true
                }
                Err(error) => {
                    let why = without_arguments(error.details());
                    tracing::warn!(why, "the server does not accept the new password yet; the connection stays");
                    false
                }
            }
        });
        trial.await.unwrap_or(false)
    }

    /// What listens where no connection comes about, where that explains it. Asked only for requests
    /// and before the first connection: a server that has answered once is one.
    pub(super) async fn look_into(&self) -> Option<Trouble> {
        if self.seat.is_none() || self.has_been_up.load(Ordering::Acquire) {
            return None;
        }
        let find = async || self.blueprint.address().await.ok().flatten();
        listener(find().await?, find()).await?.trouble(self.is_encrypted)
    }
}

/// Ends a connection, and what drives it.
pub(super) async fn end<T>(fred: &Fred, router: &JoinHandle<T>) {
    let _ = tokio::time::timeout(QUIT, fred.quit()).await;
    router.abort();
}

/// Ends a connection that is just being set up, as soon as it is. That is bounded: fred gives up after `connect_timeout`.
pub(super) async fn end_when_set_up(setting_up: impl Future<Output = Result<Connected, Trouble>>) {
    if let Ok((fred, router)) = setting_up.await {
        end(&fred, &router).await;
    }
}
