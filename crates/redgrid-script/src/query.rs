//! Sending calls, and converting their replies.

use std::collections::HashMap;
use std::hash::Hash;
use std::sync::Arc;

use bytes::Bytes;
use redgrid_codecs::Decode;
use redgrid_core::author::ClientExt;
use redgrid_core::{Client, Failure, FromReply, Reply, ServerError};

use crate::all_nodes::AllNodes;
use crate::call::Call;
use crate::error::CallError;

impl Call {
    /// Sends the call and converts its reply to `T`.
    ///
    /// `T` can be a number, text, bytes, `bool`, `Option`, `Vec`, `HashMap`, a tuple of up to four
    /// elements, or [`Reply`], which is not converted.
    ///
    /// # Errors
    ///
    /// [`CallError`] states what failed and whether anything may have changed.
    ///
    /// # Cancel safety
    ///
    /// A request that was already sent is executed even if the future is dropped.
    #[doc(alias = "eval")]
    pub async fn query<T: FromReply>(self, client: &Client) -> Result<T, CallError> {
        let request = self.request(client)?;
        let until = client.clock().now() + self.timeout_or_default(client);
        let result = match client.run_until(request, until).await {
            // Replicas cannot load a library: call the function on the primary.
            Err(error) if self.is_read() && self.has_library() && is_missing_on_replica(&error) => {
                client.run_until(self.primary_request(client)?, until).await
            }
            result => result,
        };
        result.map_err(|source| self.error(source))
    }

    /// Sends the call and decodes its reply with this codec; `None` if the reply is nil.
    ///
    /// # Errors
    ///
    /// [`CallError`] states what failed and whether anything may have changed.
    ///
    /// # Cancel safety
    ///
    /// A request that was already sent is executed even if the future is dropped.
    #[doc(alias = "eval")]
    pub async fn query_as<T, C: Decode<T>>(self, client: &Client, codec: &C) -> Result<Option<T>, CallError> {
        let label = self.label().to_owned();
        let bytes: Option<Bytes> = self.query(client).await?;
        bytes.map(|bytes| decode_value(&label, codec, &bytes)).transpose()
    }

    /// Sends the call and decodes the list in its reply with this codec; nil elements are `None`.
    ///
    /// # Errors
    ///
    /// [`CallError`] states what failed and whether anything may have changed.
    ///
    /// # Cancel safety
    ///
    /// A request that was already sent is executed even if the future is dropped.
    #[doc(alias = "eval")]
    pub async fn query_list_as<T, C: Decode<T>>(self, client: &Client, codec: &C) -> Result<Vec<Option<T>>, CallError> {
        let label = self.label().to_owned();
        let items: Vec<Option<Bytes>> = self.query(client).await?;
        items.into_iter().map(|bytes| bytes.map(|bytes| decode_value(&label, codec, &bytes)).transpose()).collect()
    }

    /// Sends the call and decodes the pairs in its reply, as HGETALL returns them, with these
    /// codecs.
    ///
    /// # Errors
    ///
    /// [`CallError`] states what failed and whether anything may have changed.
    ///
    /// # Cancel safety
    ///
    /// A request that was already sent is executed even if the future is dropped.
    #[doc(alias = "MAPVALUE")]
    #[doc(alias = "eval")]
    pub async fn query_map_as<K, V, KC, VC>(
        self,
        client: &Client,
        keys: &KC,
        values: &VC,
    ) -> Result<HashMap<K, V>, CallError>
    where
        K: Eq + Hash,
        KC: Decode<K>,
        VC: Decode<V>,
    {
        let label = self.label().to_owned();
        let pairs: HashMap<Bytes, Bytes> = self.query(client).await?;
        let decode_pair = |(key, value)| Ok((decode_value(&label, keys, &key)?, decode_value(&label, values, &value)?));
        pairs.into_iter().map(decode_pair).collect()
    }

    /// Sends the call to all primaries in parallel. The call must not have keys.
    ///
    /// Each primary has its own result: see [`AllNodes`].
    ///
    /// # Errors
    ///
    /// [`Failure::InvalidArgument`] for a call with keys; [`Failure::Unavailable`] if the primaries
    /// are unknown.
    ///
    /// # Cancel safety
    ///
    /// A request that was already sent is executed even if the future is dropped.
    #[doc(alias = "eval")]
    pub async fn query_all_nodes<T: FromReply + Send>(self, client: &Client) -> Result<AllNodes<T>, CallError> {
        if let Some(key) = self.key_names().first() {
            return Err(Failure::invalid_argument(
                self.label(),
                "keys",
                "none, because a key is on one node",
                format!("`{key}`"),
            )
            .into());
        }
        let until = client.clock().now() + self.timeout_or_default(client);
        let results = client.run_on_primaries_until::<T>(self.primary_request(client)?, until).await;
        let results = results.map_err(|source| self.error(source))?;
        Ok(AllNodes::new(results.into_iter().map(|(node, result)| (node, result.map_err(|source| self.error(source))))))
    }
}

/// Returns whether a replica does not have a function, and cannot load it.
fn is_missing_on_replica(error: &ServerError) -> bool {
    matches!(error, ServerError::Refused { message, .. }
        if message == "ERR Function not found" || message.starts_with("READONLY "))
}

/// Decodes a value of a reply.
pub(crate) fn decode_value<T, C: Decode<T>>(what: &str, codec: &C, bytes: &Bytes) -> Result<T, CallError> {
    let undecodable =
        |source| CallError::Decode { what: what.to_owned(), codec: codec.name(), source: Arc::new(source) };
    codec.decode(bytes).map_err(undecodable)
}

/// Converts a reply to `T`.
pub(crate) fn convert_reply<T: FromReply>(what: &str, reply: Reply) -> Result<T, CallError> {
    reply.into_typed().map_err(|source| CallError::of(what, source))
}
