//! Sets up a connection. If the set-up fails, diagnoses what kind of process listens at the
//! address.

use std::pin::pin;
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::Duration;

use bytes::Bytes;
use tokio::sync::mpsc;
use tokio::time::{sleep, timeout};

use super::diagnose::listener;
use super::pipeline::{Expects, Outputs, Pipeline};
use super::server_text::{refuses_resp3, without_arguments};
use super::silence::Silence;
use super::{Connection, WireCommand, wire};
use crate::config::network::Stream;
use crate::config::{Credentials, Protocol};
use crate::connection::dial::dial;
use crate::connection::endpoint::Endpoint;
use crate::connection::login::Login;
use crate::connection::trouble::{CLOSED, Kind, LATE_ANSWER, Trouble, readable};
use crate::connection::{Push, Reply};
use crate::error::ServerError;

/// How long the login on a first connection can take before the client probes the process that
/// listens at the address: 300 ms.
const LATE: Duration = Duration::from_millis(300);

/// A connection that is being set up. Dropping it closes the connection.
pub(super) struct Connected {
    pipeline: Pipeline,
    is_kept: bool,
}

impl Connected {
    pub(super) fn into_pipeline(mut self) -> Pipeline {
        self.is_kept = true;
        self.pipeline.clone()
    }
}

impl Drop for Connected {
    fn drop(&mut self) {
        if !self.is_kept {
            self.pipeline.abort();
        }
    }
}

struct Failure {
    trouble: Trouble,
    /// The error of the server or of a layer below it, such as TLS; `None` if the server was not
    /// reached.
    text: Option<String>,
    /// The diagnosis of the process that listens at the address, if it has already been made.
    found: Option<Trouble>,
}

impl Connection {
    /// Sets up the next connection.
    ///
    /// If the first login takes long, the process that listens at the address is diagnosed
    /// concurrently. Two kinds of process make a login take long. A server without TLS takes the
    /// client's TLS message for an incomplete command. A server of another protocol may send
    /// nothing. The diagnosis is reported at once, and the attempt continues until its timeout.
    ///
    /// # Cancel safety
    ///
    /// A dropped set-up leaves no connection behind.
    pub(super) async fn set_up(&self) -> Result<Connected, Trouble> {
        if let Some(encryption) = &self.target.entry.encryption {
            // The PEM files are read again. If reading them takes too long, only later connections
            // use the new contents.
            let _ = timeout(self.connect_timeout(), encryption.refresh()).await;
        }
        let is_resp2 = self.speaks_resp2();
        let failure = match self.connect(is_resp2).await {
            Ok(connected) => return Ok(connected),
            Err(Failure { text: Some(text), .. }) if !is_resp2 && self.falls_back(&text) => {
                match self.connect(true).await {
                    Ok(connected) => return Ok(connected),
                    Err(failure) => failure,
                }
            }
            Err(failure) => failure,
        };
        let found = match (failure.found, &failure.text) {
            (Some(found), _) => Some(found),
            // If the error has a code, or is about a login or certificate, a server of the expected
            // kind has answered. So no diagnosis is needed.
            (None, Some(text)) if failure.trouble.kind != Kind::Unauthorized && !begins_with_code(text) => {
                self.diagnose_listener().await
            }
            (None, _) => None,
        };
        Err(found.unwrap_or(failure.trouble))
    }

    fn connect_timeout(&self) -> Duration {
        self.target.settings.connect_timeout
    }

    fn speaks_resp2(&self) -> bool {
        match self.target.settings.protocol {
            Protocol::Auto => self.target.without_resp3.get().is_some(),
            Protocol::Resp3 => false,
            Protocol::Resp2 => true,
        }
    }

    /// Returns whether this error means that the server rejects RESP3, and that RESP2 is to be
    /// tried. If so, all later connections to the server use RESP2, too.
    fn falls_back(&self, text: &str) -> bool {
        if self.target.settings.protocol != Protocol::Auto || !refuses_resp3(text) {
            return false;
        }
        let note = format!("the server speaks RESP2 only ({})", without_arguments(text));
        if self.target.without_resp3.set(note.clone()).is_ok() {
            tracing::warn!(node = %self.target.place, "{note}");
        }
        true
    }

    async fn connect(&self, is_resp2: bool) -> Result<Connected, Failure> {
        let stream = self.dial().await.map_err(|trouble| Failure { trouble, text: None, found: None })?;
        let outputs = self.outputs(Arc::clone(&self.silence), self.messages.clone());
        let diagnosing = async {
            sleep(LATE).await;
            let found = self.diagnose_listener().await;
            if let Some(trouble) = &found {
                self.fail_by(trouble.clone());
            }
            found
        };
        let mut found = None;
        let mut connecting = pin!(self.log_in_on(stream, is_resp2, self.login.as_deref(), outputs));
        let connected = tokio::select! {
            biased;
            connected = &mut connecting => connected,
            diagnosed = diagnosing => {
                found = diagnosed;
                connecting.await
            }
        };
        connected.map_err(|text| {
            let text = without_arguments(&text);
            Failure { trouble: Trouble::of(text), text: Some(text.to_owned()), found }
        })
    }

    fn outputs(&self, silence: Arc<Silence>, messages: mpsc::UnboundedSender<Push>) -> Outputs {
        let entry = &self.target.entry;
        let is_socket = entry.encryption.is_none() && entry.network.dialer.is_none();
        Outputs { silence, clock: self.target.clock.clone(), messages, is_socket }
    }

    async fn dial(&self) -> Result<Box<dyn Stream>, Trouble> {
        dial(&self.target.place, &self.target.entry.network, self.connect_timeout()).await
    }

    /// Encrypts a stream if configured, and logs in on it.
    ///
    /// # Errors
    ///
    /// The error text of the server or of a layer below it, such as TLS.
    async fn log_in_on(
        &self,
        stream: Box<dyn Stream>,
        is_resp2: bool,
        login: Option<&Login>,
        outputs: Outputs,
    ) -> Result<Connected, String> {
        let entry = &self.target.entry;
        let stream = match (&entry.encryption, &self.target.place) {
            (Some(encryption), Endpoint::Tcp(address)) => {
                let host = &entry.network.mapped(address).host;
                let encrypted = timeout(self.connect_timeout(), encryption.encrypt(stream, host)).await;
                encrypted.map_err(|_| LATE_ANSWER)?.map_err(|error| format!("{error:?}"))?
            }
            _ => stream,
        };
        let connected = Connected { pipeline: Pipeline::start(stream, is_resp2, outputs), is_kept: false };
        let credentials = match login {
            Some(login) => Some(login.fetch().await?),
            None => {
                let username = || entry.username.clone();
                entry.password.clone().map(|password| Credentials { username: username(), password })
            }
        };
        let logged_in = timeout(self.connect_timeout(), log_in(&connected.pipeline, credentials, entry.database)).await;
        logged_in.map_err(|_| LATE_ANSWER)??;
        Ok(connected)
    }

    /// Tries the provider's current credentials on a temporary connection, and returns whether the
    /// server accepts them.
    pub(super) async fn is_login_accepted(&self) -> bool {
        let Some(logins) = self.target.entry.logins.clone() else { return false };
        let Ok(stream) = self.dial().await else { return false };
        let login = Login::new(logins);
        let outputs = self.outputs(Arc::default(), mpsc::unbounded_channel().0);
        match self.log_in_on(stream, self.speaks_resp2(), Some(&login), outputs).await {
            Ok(connected) => {
                connected.pipeline.quit().await;
                true
            }
            Err(text) => {
                let why = readable(without_arguments(&text));
                tracing::warn!(why, "the server does not accept the new password yet; the connection stays open");
                false
            }
        }
    }

    /// Detects which kind of process listens at the address, if a set-up has failed or takes long.
    ///
    /// Returns `None` if the kind of process does not explain the failure. Only connections of a
    /// pool make this check, and only until their first handshake is answered. After that, the
    /// process is known to be a server.
    pub(super) async fn diagnose_listener(&self) -> Option<Trouble> {
        if self.member.is_none() || self.has_been_up.load(Ordering::Acquire) {
            return None;
        }
        listener(|| async { self.dial().await.ok() }).await?.trouble(self.target.entry.encryption.is_some())
    }
}

/// Returns the username and the password as arguments of HELLO and AUTH.
///
/// Without a username, RESP3 uses `default`. RESP2 sends the password alone, because proxies and
/// servers before Redis 6 accept only a password.
pub(super) fn login_args(credentials: Credentials, is_resp2: bool) -> WireCommand {
    let Credentials { username, password } = credentials;
    let user = username.or_else(|| (!is_resp2).then(|| "default".into()));
    user.into_iter().chain([password.reveal().to_owned()]).map(Bytes::from).collect()
}

/// Logs in, and selects the protocol and the database.
///
/// # Errors
///
/// The error text of the server, or why the connection has ended.
async fn log_in(pipeline: &Pipeline, credentials: Option<Credentials>, database: u8) -> Result<(), String> {
    let is_resp2 = pipeline.is_resp2();
    let login = credentials
        .into_iter()
        .flat_map(|credentials| std::iter::once("AUTH".into()).chain(login_args(credentials, is_resp2)));
    let command: WireCommand =
        if is_resp2 { login.collect() } else { wire(["HELLO", "3"]).into_iter().chain(login).collect() };
    if !command.is_empty() {
        execute(pipeline, &command).await?;
    }
    if database != 0 {
        execute(pipeline, &["SELECT".into(), database.to_string().into()]).await?;
    }
    Ok(())
}

async fn execute(pipeline: &Pipeline, command: &[Bytes]) -> Result<(), String> {
    let ended = || pipeline.end().unwrap_or_else(|| CLOSED.into());
    let answer = pipeline.enqueue(command, Expects::Reply).map_err(|_| ended())?;
    match answer.await {
        Ok(Ok(Reply::Error(ServerError::Refused { message, .. } | ServerError::Unauthorized { message }))) => {
            Err(message)
        }
        Ok(Ok(_)) => Ok(()),
        Ok(Err(_)) | Err(_) => Err(ended()),
    }
}

/// Returns whether the first word looks like a server's error code, such as `ERR` or `WRONGPASS`.
fn begins_with_code(text: &str) -> bool {
    let is_of_code = |c: char| c.is_ascii_uppercase() || c.is_ascii_digit() || c == '_' || c == '-';
    text.split_once(' ').is_some_and(|(word, _)| word.len() > 1 && word.chars().all(is_of_code))
}
