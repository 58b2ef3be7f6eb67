//! The script cache of the servers.

use redgrid_core::author::ClientExt;
use redgrid_core::{Client, Code, NodeId, Request, ServerError};

use crate::all_nodes::AllNodes;
use crate::error::CallError;
use crate::script::Script;

/// The script cache of the servers. It is not needed to run a script: see [`Script::call`].
#[derive(Debug, Clone)]
pub struct Scripts {
    client: Client,
}

/// Confirms the removal of all scripts or libraries of the servers, including those of other
/// programs.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[non_exhaustive]
pub enum ForgetAll {
    /// Removes all of them.
    Yes,
}

impl Scripts {
    /// Returns the script cache of a client's servers.
    pub fn new(client: &Client) -> Self {
        Scripts { client: client.clone() }
    }

    /// Loads a script into the cache of every primary, and returns its hash.
    ///
    /// After that, the first call of the script need not send its text.
    ///
    /// # Errors
    ///
    /// The [`CallError`] of one of the primaries. Others may have loaded it.
    ///
    /// # Cancel safety
    ///
    /// A request that was already sent is executed even if the future is dropped.
    #[doc(alias = "scriptLoad")]
    pub async fn load(&self, script: &Script) -> Result<String, CallError> {
        let request = Request::subcommand("SCRIPT", "LOAD").arg(script.text().to_owned()).idempotent();
        let hashes = on_primaries::<String>(&self.client, "SCRIPT LOAD", request).await?;
        hashes.reduce(script.sha(), |_, hash| hash)
    }

    /// Returns for each script whether all primaries have it.
    ///
    /// # Errors
    ///
    /// The [`CallError`] of one of the primaries.
    ///
    /// # Cancel safety
    ///
    /// Dropping the future changes nothing.
    #[doc(alias = "scriptExists")]
    pub async fn exists<'a>(&self, scripts: impl IntoIterator<Item = &'a Script>) -> Result<Vec<bool>, CallError> {
        let hashes: Vec<_> = scripts.into_iter().map(Script::sha).collect();
        if hashes.is_empty() {
            return Ok(Vec::new());
        }
        let all = vec![true; hashes.len()];
        let request = hashes.into_iter().fold(Request::subcommand("SCRIPT", "EXISTS"), Request::arg).idempotent();
        let cached = on_primaries::<Vec<bool>>(&self.client, "SCRIPT EXISTS", request).await?;
        cached.reduce(all, |all, here| all.into_iter().zip(here).map(|(one, other)| one && other).collect())
    }

    /// Removes all scripts from the cache of every primary, including those of other programs.
    ///
    /// The next call of a script sends its text again.
    ///
    /// # Errors
    ///
    /// The [`CallError`] of one of the primaries. Others may have removed them.
    ///
    /// # Cancel safety
    ///
    /// A request that was already sent is executed even if the future is dropped.
    #[doc(alias = "scriptFlush")]
    pub async fn flush(&self, _all: ForgetAll) -> Result<(), CallError> {
        let request = Request::subcommand("SCRIPT", "FLUSH").idempotent();
        on_primaries::<()>(&self.client, "SCRIPT FLUSH", request).await?.reduce((), |(), ()| ())
    }

    /// Kills the scripts that are running on the primaries, of any client, if they have not written
    /// anything yet. Returns the primaries where a script was killed.
    ///
    /// The request uses a dedicated connection. Otherwise it would wait for a script that this
    /// client is running.
    ///
    /// # Errors
    ///
    /// [`Failure::Refused`](crate::Failure::Refused) if a script has already written something: the
    /// script continues. Scripts on other primaries may have been killed.
    ///
    /// # Cancel safety
    ///
    /// A request that was already sent is executed even if the future is dropped.
    #[doc(alias = "scriptKill")]
    pub async fn kill(&self) -> Result<Vec<NodeId>, CallError> {
        kill(&self.client, "SCRIPT").await
    }
}

/// Sends a request to every primary.
pub(crate) async fn on_primaries<T: redgrid_core::FromReply + Send>(
    client: &Client,
    what: &str,
    request: Request,
) -> Result<AllNodes<T>, CallError> {
    let results = client.run_on_primaries::<T>(request).await.map_err(|source| CallError::of(what, source))?;
    let map_error = |(node, result): (_, Result<T, _>)| (node, result.map_err(|source| CallError::of(what, source)));
    Ok(AllNodes::new(results.into_iter().map(map_error)))
}

/// Kills the script or function that each primary is running, and returns the primaries where one
/// was killed.
pub(crate) async fn kill(client: &Client, kind: &'static str) -> Result<Vec<NodeId>, CallError> {
    let what = format!("{kind} KILL");
    let results = client.run_on_primaries::<()>(Request::subcommand(kind, "KILL").dedicated()).await;
    let mut killed = Vec::new();
    for (node, result) in results.map_err(|source| CallError::of(&what, source))? {
        match result {
            Ok(()) => killed.push(node),
            Err(ServerError::Refused { code: Code::Other, message }) if message.starts_with("NOTBUSY") => {}
            Err(source) => return Err(CallError::of(&what, source)),
        }
    }
    Ok(killed)
}
