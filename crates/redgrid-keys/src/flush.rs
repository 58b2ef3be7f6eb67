//! Deletion of all keys.

use redgrid_core::author::ClientExt;
use redgrid_core::{Code, NodeId, Request, ServerError};

use crate::{Keys, KeysError};

/// The scope of a deletion of all keys. It is explicit because the deletion cannot be undone.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[non_exhaustive]
pub enum FlushScope {
    /// Every key in the client's namespace, one after another. Other keys are kept. Requires a
    /// client with a namespace.
    Namespace,
    /// Every key of the client's database on every primary, including those of other programs.
    /// Requires a client without a namespace.
    Database,
    /// Every key of all databases on every primary, including those of other programs. Requires a
    /// client without a namespace.
    AllDatabases,
}

impl Keys {
    /// Deletes all keys of a scope, including fences and token counters.
    ///
    /// Holders of locks notice the deletion at their next renewal, and tokens may start again from
    /// the beginning. The servers free the memory in the background.
    ///
    /// Without a namespace, one request is sent to each primary. If a slot moves meanwhile, keys
    /// that move to a primary that has already executed the request survive.
    ///
    /// # Errors
    ///
    /// [`Failure::InvalidArgument`](crate::Failure::InvalidArgument) if the scope does not fit the
    /// client's namespace. [`KeysError::SomeNodesFailed`] contains the nodes that have deleted
    /// their keys, as far as known; each node received one request. With a namespace,
    /// [`KeysError::Partial`] and [`KeysError::Stopped`] are possible, too.
    ///
    /// # Cancel safety
    ///
    /// A request that was already sent is executed even if the future is dropped.
    #[doc(alias = "flushdb")]
    #[doc(alias = "flushdbParallel")]
    #[doc(alias = "flushall")]
    #[doc(alias = "flushallParallel")]
    pub async fn flush(&self, what: FlushScope) -> Result<(), KeysError> {
        let namespace = self.client.namespace().as_str();
        let command = match (what, namespace.is_empty()) {
            (FlushScope::Namespace, false) => return self.delete_all().await.map(drop),
            (FlushScope::Namespace, true) => {
                return Err(KeysError::invalid("flush", "a client with a namespace", "a client without one"));
            }
            (FlushScope::Database | FlushScope::AllDatabases, false) => {
                let expected = "`Namespace`, because others have keys outside it";
                return Err(KeysError::invalid(
                    "flush",
                    expected,
                    format!("`{what:?}` with the namespace `{namespace}`"),
                ));
            }
            (FlushScope::Database, true) => "FLUSHDB",
            (FlushScope::AllDatabases, true) => "FLUSHALL",
        };
        let results = self.client.run_on_primaries::<()>(Request::command(command).arg("ASYNC")).await;
        let mut done: Vec<NodeId> = Vec::new();
        let mut failed: Vec<(NodeId, ServerError)> = Vec::new();
        for (node, result) in results.map_err(KeysError::of_read)? {
            match result {
                Ok(()) => done.push(node),
                Err(error) => failed.push((node, error)),
            }
        }
        match &failed[..] {
            [] => Ok(()),
            [(_, source)] if done.is_empty() && source.code() == Some(Code::NoPermission) => {
                Err(KeysError::of_read(source.clone()))
            }
            _ => Err(KeysError::SomeNodesFailed { done, failed }),
        }
    }
}
