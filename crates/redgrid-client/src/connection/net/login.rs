//! Logging in with a password that changes.
//!
//! The credential provider is called before each connection is set up. While connections are up, it
//! is called every `credentials_interval`, once for all connections of a client. The connections
//! log in again if the credentials have changed. If the server refuses such a login, the connection
//! continues with its previous login. So no connection is lost while the server still has the old
//! password. With RESP2 a connection with subscriptions accepts no login. Such a connection is
//! replaced once a temporary connection has logged in with the new password.

use std::sync::Arc;
use std::time::Duration;

use tokio::time::Instant;

use crate::config::{Credentials, Provider, Settings};
use crate::connection::link::Connection;
use crate::error::ServerError;
use crate::sync::Mutex;

/// The credential provider of a client, and its last result.
pub(crate) struct Logins {
    provider: Provider,
    timeout: Duration,
    pub(crate) every: Duration,
    /// The provider's last result, with the time at which it was returned.
    last: Mutex<Option<(Instant, Result<Credentials, String>)>>,
    /// Locked by the task that calls the provider, so that one call serves all connections.
    exclusive: tokio::sync::Mutex<()>,
}

impl Logins {
    pub(crate) fn new(provider: Provider, settings: &Settings) -> Self {
        let Settings { connect_timeout: timeout, credentials_interval: every, .. } = *settings;
        Logins { provider, timeout, every, last: Mutex::default(), exclusive: tokio::sync::Mutex::default() }
    }

    /// Calls the provider in a separate task, because a panic of the provider must not end the
    /// connection's task.
    async fn call_provider(&self) -> Result<Credentials, String> {
        let provider = self.provider.clone();
        let mut call = tokio::spawn(async move { provider.fetch().await });
        match tokio::time::timeout(self.timeout, &mut call).await {
            Ok(Ok(Ok(credentials))) => Ok(credentials),
            Ok(Ok(Err(error))) => Err(format!("the credential provider failed: {}", in_full(&*error))),
            Ok(Err(_)) => Err("the credential provider panicked".into()),
            Err(_) => {
                call.abort();
                Err(format!("the credential provider did not answer within {:?}", self.timeout))
            }
        }
    }

    async fn now(&self) -> Result<Credentials, String> {
        let result = self.call_provider().await;
        *self.last.lock() = Some((Instant::now(), result.clone()));
        result
    }

    /// Returns the provider's last result if it is younger than half an interval; otherwise calls
    /// the provider.
    ///
    /// The last call may have been made for another connection. A recent failure is also returned
    /// without a new call, because a failing call may take long.
    async fn lately(&self) -> Result<Credentials, String> {
        let _guard = self.exclusive.lock().await;
        let recent = self.last.lock().clone().filter(|(at, _)| at.elapsed() < self.every / 2);
        match recent {
            Some((_, result)) => result,
            None => self.now().await,
        }
    }
}

pub(crate) struct Login {
    logins: Arc<Logins>,
    state: Mutex<State>,
    exclusive: tokio::sync::Mutex<()>,
}

#[derive(Default)]
struct State {
    shown: Option<Credentials>,
    count: u64,
    trouble: Option<String>,
}

impl Login {
    pub(crate) fn new(logins: Arc<Logins>) -> Arc<Self> {
        Arc::new(Login { logins, state: Mutex::default(), exclusive: tokio::sync::Mutex::default() })
    }

    pub(crate) fn every(&self) -> Duration {
        self.logins.every
    }

    pub(crate) fn trouble(&self) -> Option<String> {
        self.state.lock().trouble.clone()
    }

    /// Returns the number of logins so far. The caller reads this number before sending a request
    /// that may be refused; see [`Login::again`].
    pub(crate) fn count(&self) -> u64 {
        self.state.lock().count
    }

    /// Returns fresh credentials for a new connection.
    ///
    /// # Errors
    ///
    /// The provider's failure.
    pub(crate) async fn fetch(&self) -> Result<Credentials, String> {
        let result = self.logins.now().await;
        let mut state = self.state.lock();
        match &result {
            Ok(credentials) => {
                *state = State { shown: Some(credentials.clone()), count: state.count + 1, trouble: None };
            }
            Err(reason) => state.trouble = Some(reason.clone()),
        }
        result
    }

    /// Logs in again if the provider's credentials have changed.
    pub(crate) async fn follow(&self, link: &Connection) -> Result<(), ServerError> {
        let _guard = self.exclusive.lock().await;
        let (credentials, count) = (self.logins.lately().await.map_err(ServerError::not_sent)?, self.count());
        if self.state.lock().shown.as_ref() == Some(&credentials) {
            return Ok(());
        }
        self.show(credentials, count, link).await?;
        tracing::debug!("logged in anew with other credentials");
        Ok(())
    }

    /// Logs in again after a request was refused.
    ///
    /// `count` is the value of [`Login::count`] before that request was sent. If the value has
    /// changed since, there has been a login already, and nothing is done.
    pub(crate) async fn again(&self, count: u64, link: &Connection) -> Result<(), ServerError> {
        let _guard = self.exclusive.lock().await;
        if self.count() != count {
            return Ok(());
        }
        let credentials = self.logins.now().await.map_err(ServerError::not_sent)?;
        self.show(credentials, count, link).await
    }

    async fn show(&self, credentials: Credentials, count: u64, link: &Connection) -> Result<(), ServerError> {
        link.authenticate(credentials.clone()).await?;
        let mut state = self.state.lock();
        // If a connection was set up meanwhile, the state already contains newer credentials.
        if state.count == count {
            (state.shown, state.count) = (Some(credentials), count + 1);
        }
        Ok(())
    }
}

/// Returns the text of an error and of all its sources.
fn in_full(error: &dyn std::error::Error) -> String {
    let all = std::iter::successors(Some(error), |error| error.source());
    all.map(ToString::to_string).collect::<Vec<_>>().join(": ")
}
