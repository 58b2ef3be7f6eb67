//! The scripts that servers remember.

use redgrid_core::{Client, Code, NodeId, Request, ServerError};

use crate::error::CallError;
use crate::everywhere::Everywhere;
use crate::script::Script;

/// What servers know of scripts. Nobody needs it to run one: [`Script::call`].
#[derive(Debug, Clone)]
pub struct Scripts {
    client: Client,
}

/// Says that all that servers keep of a kind is meant, whoever put it there.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ForgetAll {
    /// It is.
    Yes,
}

impl Scripts {
    /// The scripts of a client's servers.
    pub fn new(client: &Client) -> Self {
        Scripts { client: client.clone() }
    }

    /// Has every primary remember a script, so that its first call needs not send the text. Tells its hash.
    ///
    /// # Errors
    ///
    /// [`CallError`] of one of the primaries; others may know it.
    ///
    /// # Cancel safety
    ///
    /// What has left is carried out although nobody waits for it.
    #[doc(alias = "scriptLoad")]
    pub async fn load(&self, script: &Script) -> Result<String, CallError> {
        let request = Request::subcommand("SCRIPT", "LOAD").arg(script.text().to_owned()).idempotent();
        let hashes = on_primaries::<String>(&self.client, "SCRIPT LOAD", request).await?;
        hashes.reduce(script.sha(), |_, hash| hash)
    }

    /// Which of these every primary remembers, in their order.
    ///
    /// # Errors
    ///
    /// [`CallError`] of one of the primaries.
    ///
    /// # Cancel safety
    ///
    /// Dropping it changes nothing.
    #[doc(alias = "scriptExists")]
    pub async fn exists<'a>(&self, scripts: impl IntoIterator<Item = &'a Script>) -> Result<Vec<bool>, CallError> {
        let hashes: Vec<_> = scripts.into_iter().map(Script::sha).collect();
        if hashes.is_empty() {
            return Ok(Vec::new());
        }
        let all = vec![true; hashes.len()];
        let request = hashes.into_iter().fold(Request::subcommand("SCRIPT", "EXISTS"), Request::arg).idempotent();
        let known = on_primaries::<Vec<bool>>(&self.client, "SCRIPT EXISTS", request).await?;
        known.reduce(all, |all, here| all.into_iter().zip(here).map(|(one, other)| one && other).collect())
    }

    /// Has every primary forget all scripts, those of others too. Who calls one afterwards sends its text once more.
    ///
    /// # Errors
    ///
    /// [`CallError`] of one of the primaries; others may have forgotten them.
    ///
    /// # Cancel safety
    ///
    /// What has left is carried out although nobody waits for it.
    #[doc(alias = "scriptFlush")]
    pub async fn flush(&self, _all: ForgetAll) -> Result<(), CallError> {
        let request = Request::subcommand("SCRIPT", "FLUSH").idempotent();
        on_primaries::<()>(&self.client, "SCRIPT FLUSH", request).await?.reduce((), |(), ()| ())
    }

    /// Has the primaries end the scripts that they are running, whoever called them, if those have written nothing yet. Tells where
    /// one was ended. It goes by a connection of its own, as it would queue behind a script of this client.
    ///
    /// # Errors
    ///
    /// [`CallError::Refused`] where a script has written something: it goes on. Of other primaries some may have ended theirs.
    ///
    /// # Cancel safety
    ///
    /// What has left is carried out although nobody waits for it.
    #[doc(alias = "scriptKill")]
    pub async fn kill(&self) -> Result<Vec<NodeId>, CallError> {
        kill(&self.client, "SCRIPT").await
    }
}

/// Asks every primary.
pub(crate) async fn on_primaries<T: redgrid_core::FromReply>(
    client: &Client,
    what: &str,
    request: Request,
) -> Result<Everywhere<T>, CallError> {
    let answers = client.run_on_primaries::<T>(request).await.map_err(|source| CallError::of(what, source))?;
    let of = |(node, answer): (_, Result<T, _>)| (node, answer.map_err(|source| CallError::of(what, source)));
    Ok(Everywhere::new(answers.into_iter().map(of)))
}

/// Has all primaries end what they are running.
pub(crate) async fn kill(client: &Client, kind: &'static str) -> Result<Vec<NodeId>, CallError> {
    let what = format!("{kind} KILL");
    let answers = client.run_on_primaries::<()>(Request::subcommand(kind, "KILL").aside()).await;
    let mut ended = Vec::new();
    for (node, answer) in answers.map_err(|source| CallError::of(&what, source))? {
        match answer {
            Ok(()) => ended.push(node),
            Err(ServerError::Refused { code: Code::Other, message }) if message.starts_with("NOTBUSY") => {}
            Err(source) => return Err(CallError::of(&what, source)),
        }
    }
    Ok(ended)
}
