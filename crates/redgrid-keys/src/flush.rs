//! Deletion of everything, by those who say what they mean.

use redgrid_core::{Code, NodeId, Request, ServerError};

use crate::{Keys, KeysError};

/// What is to be deleted: it has to be said, as nothing brings it back.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[non_exhaustive]
pub enum Everything {
    /// Every key under the namespace of the client, one after another; whatever is elsewhere stays. Only a client with a namespace can.
    UnderTheNamespace,
    /// Every key of the client's database, whoever made it, on every primary. Only a client without a namespace can.
    InThisDatabase,
    /// Every key of all databases, whoever made it, on every primary. Only a client without a namespace can.
    InAllDatabases,
}

impl Keys {
    /// Deletes everything that is said, fences and counters of tokens too: whoever holds a lock is told so at its next renewal, and tokens
    /// may begin anew. The servers free the memory in the background.
    ///
    /// # Errors
    ///
    /// [`KeysError::InvalidArgument`] where the client's namespace and what is said do not go together. [`KeysError::NotEverywhere`]
    /// says which nodes have done it, as far as is known; all were asked, once. Under a namespace [`KeysError::Partial`] and
    /// [`KeysError::Stopped`].
    ///
    /// # Cancel safety
    ///
    /// What has left is carried out although nobody waits for it.
    #[doc(alias = "flushdb")]
    #[doc(alias = "flushdbParallel")]
    #[doc(alias = "flushall")]
    #[doc(alias = "flushallParallel")]
    pub async fn flush(&self, what: Everything) -> Result<(), KeysError> {
        let namespace = self.client.namespace().as_str();
        let command = match (what, namespace.is_empty()) {
            (Everything::UnderTheNamespace, false) => return self.clear().await.map(drop),
            (Everything::UnderTheNamespace, true) => {
                return Err(KeysError::invalid("flush", "a client with a namespace", "one without"));
            }
            (Everything::InThisDatabase | Everything::InAllDatabases, false) => {
                let expected = "`UnderTheNamespace`, as others have keys beside it";
                return Err(KeysError::invalid(
                    "flush",
                    expected,
                    format!("`{what:?}` with the namespace `{namespace}`"),
                ));
            }
            (Everything::InThisDatabase, true) => "FLUSHDB",
            (Everything::InAllDatabases, true) => "FLUSHALL",
        };
        let answers = self.client.run_on_primaries::<()>(Request::command(command).arg("ASYNC")).await;
        let (mut done, mut failed): (Vec<NodeId>, Vec<(NodeId, ServerError)>) = (Vec::new(), Vec::new());
        for (node, answer) in answers.map_err(KeysError::of_read)? {
            match answer {
                Ok(()) => done.push(node),
                Err(error) => failed.push((node, error)),
            }
        }
        match &failed[..] {
            [] => Ok(()),
            [(_, source)] if done.is_empty() && source.code() == Some(Code::NoPermission) => {
                Err(KeysError::Refused { source: source.clone() })
            }
            _ => Err(KeysError::NotEverywhere { done, failed }),
        }
    }
}
