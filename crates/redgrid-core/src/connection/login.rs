//! Logging in with a password that changes.
//!
//! The provider is asked before each connection is set up. Connections that live ask every `credentials_interval`, all of a
//! client together, and log in anew where the answer is another one. A login that the server refuses leaves a connection as
//! it was, so nothing is lost while the server does not know the new password yet. A connection with subscriptions that
//! speaks RESP2 takes no login: it is replaced after a short connection has logged in.

use std::sync::{Arc, Mutex};
use std::time::Duration;

use tokio::time::Instant;

use crate::config::{Credentials, Provider, Settings};
use crate::error::ServerError;

/// The provider of a client, and what it said last.
pub(super) struct Logins {
    provider: Provider,
    within: Duration,
    pub(super) every: Duration,
    /// An answer or a failure, and when.
    last: Mutex<Option<(Instant, Result<Credentials, String>)>>,
    /// Held by who asks for all.
    turn: tokio::sync::Mutex<()>,
}

impl Logins {
    pub(super) fn new(provider: Provider, settings: &Settings) -> Self {
        let Settings { connect_timeout: within, credentials_interval: every, .. } = *settings;
        Logins { provider, within, every, last: Mutex::default(), turn: tokio::sync::Mutex::default() }
    }

    /// Asks the provider. Its own task keeps a panic there from ending the connection's.
    async fn ask(&self) -> Result<Credentials, String> {
        let provider = self.provider.clone();
        let mut asking = tokio::spawn(async move { provider.fetch().await });
        match tokio::time::timeout(self.within, &mut asking).await {
            Ok(Ok(Ok(credentials))) => Ok(credentials),
            Ok(Ok(Err(error))) => Err(format!("the credential provider failed: {}", in_full(&*error))),
            Ok(Err(_)) => Err("the credential provider panicked".into()),
            Err(_) => {
                asking.abort();
                Err(format!("the credential provider did not answer within {:?}", self.within))
            }
        }
    }

    /// What the provider says now.
    async fn now(&self) -> Result<Credentials, String> {
        let said = self.ask().await;
        *self.last() = Some((Instant::now(), said.clone()));
        said
    }

    /// What the provider has said to any connection, no older than half an interval; a failure, too, which may have taken long.
    async fn lately(&self) -> Result<Credentials, String> {
        let _turn = self.turn.lock().await;
        let recent = self.last().clone().filter(|(at, _)| at.elapsed() < self.every / 2);
        match recent {
            Some((_, said)) => said,
            None => self.now().await,
        }
    }

    fn last(&self) -> std::sync::MutexGuard<'_, Option<(Instant, Result<Credentials, String>)>> {
        self.last.lock().unwrap_or_else(|p| p.into_inner())
    }
}

/// What one connection has logged in with.
pub(super) struct Login {
    logins: Arc<Logins>,
    state: Mutex<State>,
    /// Held by who logs in anew.
    turn: tokio::sync::Mutex<()>,
}

#[derive(Default)]
struct State {
    shown: Option<Credentials>,
    /// Counts what was shown on a connection.
    count: u64,
    /// What the provider said instead of an answer.
    trouble: Option<String>,
}

impl Login {
    pub(super) fn new(logins: Arc<Logins>) -> Arc<Self> {
        Arc::new(Login { logins, state: Mutex::default(), turn: tokio::sync::Mutex::default() })
    }

    /// How often the provider is asked although nothing is amiss.
    pub(super) fn every(&self) -> Duration {
        self.logins.every
    }

    /// What stands in the way of a new connection.
    pub(super) fn trouble(&self) -> Option<String> {
        self.state().trouble.clone()
    }

    /// How often something was shown; to be read before a request that may be refused.
    pub(super) fn count(&self) -> u64 {
        self.state().count
    }

    /// What the provider says now, to be shown on a new connection.
    ///
    /// # Errors
    ///
    /// Why the provider has no answer.
    pub(super) async fn fetch(&self) -> Result<Credentials, String> {
        let asked = self.logins.now().await;
        let mut state = self.state();
        match &asked {
            Ok(credentials) => {
                *state = State { shown: Some(credentials.clone()), count: state.count + 1, trouble: None };
            }
            Err(reason) => state.trouble = Some(reason.clone()),
        }
        asked
    }

    /// Logs in anew, by `auth`, where the provider says something else by now.
    pub(super) async fn follow<F>(&self, auth: impl FnOnce(Credentials) -> F) -> Result<(), ServerError>
    where
        F: Future<Output = Result<(), ServerError>>,
    {
        let _turn = self.turn.lock().await;
        let (credentials, count) = (self.logins.lately().await.map_err(ServerError::not_sent)?, self.count());
        if self.state().shown.as_ref() == Some(&credentials) {
            return Ok(());
        }
        self.show(credentials, count, auth).await?;
        tracing::debug!("logged in anew with other credentials");
        Ok(())
    }

    /// Logs in anew after a refusal of what was sent at `count`, unless somebody has done so since.
    pub(super) async fn again<F>(&self, count: u64, auth: impl FnOnce(Credentials) -> F) -> Result<(), ServerError>
    where
        F: Future<Output = Result<(), ServerError>>,
    {
        let _turn = self.turn.lock().await;
        if self.count() != count {
            return Ok(());
        }
        let credentials = self.logins.now().await.map_err(ServerError::not_sent)?;
        self.show(credentials, count, auth).await
    }

    async fn show<F>(
        &self,
        credentials: Credentials,
        count: u64,
        auth: impl FnOnce(Credentials) -> F,
    ) -> Result<(), ServerError>
    where
        F: Future<Output = Result<(), ServerError>>,
    {
        auth(credentials.clone()).await?;
        let mut state = self.state();
        // A connection made meanwhile has shown something later.
        if state.count == count {
            (state.shown, state.count) = (Some(credentials), count + 1);
        }
        Ok(())
    }

    fn state(&self) -> std::sync::MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(|p| p.into_inner())
    }
}

fn in_full(error: &dyn std::error::Error) -> String {
    let mut text = error.to_string();
    let mut source = error.source();
    while let Some(cause) = source {
        text = format!("{text}: {cause}");
        source = cause.source();
    }
    text
}
