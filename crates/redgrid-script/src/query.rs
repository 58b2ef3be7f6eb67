//! Making a call, and reading what it is answered.

use std::collections::HashMap;
use std::hash::Hash;
use std::sync::Arc;

use bytes::Bytes;
use redgrid_codecs::Decode;
use redgrid_core::{Client, FromReply, Reply, ServerError};

use crate::call::Call;
use crate::error::CallError;
use crate::everywhere::Everywhere;

impl Call {
    /// Makes the call and reads its answer as `T`: numbers, text, bytes, `bool`, `Option`, `Vec`, `HashMap`, tuples up to four, or a
    /// [`Reply`] as it is.
    ///
    /// # Errors
    ///
    /// [`CallError`] says what is true then.
    ///
    /// # Cancel safety
    ///
    /// What has left is carried out although nobody waits for it.
    #[doc(alias = "eval")]
    pub async fn query<T: FromReply>(self, client: &Client) -> Result<T, CallError> {
        let request = self.request(client)?;
        let until = client.clock().now() + self.time(client);
        let answer = match client.run_until(request, until).await {
            // Replicas load nothing.
            Err(error) if self.is_read() && self.names_a_library() && is_not_there(&error) => {
                client.run_until(self.for_primary(client)?, until).await
            }
            answer => answer,
        };
        answer.map_err(|source| self.error(source))
    }

    /// The same, its answer read as a value by this codec; `None` where it answers with nothing.
    ///
    /// # Errors
    ///
    /// [`CallError`] says what is true then.
    ///
    /// # Cancel safety
    ///
    /// What has left is carried out although nobody waits for it.
    #[doc(alias = "eval")]
    pub async fn query_as<T, C: Decode<T>>(self, client: &Client, codec: &C) -> Result<Option<T>, CallError> {
        let label = self.label().to_owned();
        let bytes: Option<Bytes> = self.query(client).await?;
        bytes.map(|bytes| decoded(&label, codec, &bytes)).transpose()
    }

    /// The same for a list of values; `None` in the place of nothing.
    ///
    /// # Errors
    ///
    /// [`CallError`] says what is true then.
    ///
    /// # Cancel safety
    ///
    /// What has left is carried out although nobody waits for it.
    #[doc(alias = "eval")]
    pub async fn query_list_as<T, C: Decode<T>>(self, client: &Client, codec: &C) -> Result<Vec<Option<T>>, CallError> {
        let label = self.label().to_owned();
        let items: Vec<Option<Bytes>> = self.query(client).await?;
        items.into_iter().map(|bytes| bytes.map(|bytes| decoded(&label, codec, &bytes)).transpose()).collect()
    }

    /// The same for pairs, as HGETALL has them.
    ///
    /// # Errors
    ///
    /// [`CallError`] says what is true then.
    ///
    /// # Cancel safety
    ///
    /// What has left is carried out although nobody waits for it.
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
        let read = |(key, value)| Ok((decoded(&label, keys, &key)?, decoded(&label, values, &value)?));
        pairs.into_iter().map(read).collect()
    }

    /// Makes the call at every primary, at the same time; it must name no keys. Each answers for itself: see [`Everywhere`].
    ///
    /// # Errors
    ///
    /// [`CallError::InvalidArgument`] for a call with keys; [`CallError::Unavailable`] where nobody knows who the primaries are.
    ///
    /// # Cancel safety
    ///
    /// What has left is carried out although nobody waits for it.
    #[doc(alias = "eval")]
    pub async fn query_everywhere<T: FromReply>(self, client: &Client) -> Result<Everywhere<T>, CallError> {
        if let Some(key) = self.names().first() {
            return Err(CallError::InvalidArgument {
                what: self.label().to_owned(),
                option: "keys",
                expected: "none, as a key has one node".into(),
                got: format!("`{key}`"),
            });
        }
        let until = client.clock().now() + self.time(client);
        let answers = client.run_on_primaries_until::<T>(self.for_primary(client)?, until).await;
        let answers = answers.map_err(|source| self.error(source))?;
        Ok(Everywhere::new(
            answers.into_iter().map(|(node, answer)| (node, answer.map_err(|source| self.error(source)))),
        ))
    }
}

/// Whether a replica does not have a function, or can not have it loaded.
fn is_not_there(error: &ServerError) -> bool {
    matches!(error, ServerError::Refused { message, .. }
        if message == "ERR Function not found" || message.starts_with("READONLY "))
}

/// A value that was answered, as this codec reads it.
pub(crate) fn decoded<T, C: Decode<T>>(what: &str, codec: &C, bytes: &Bytes) -> Result<T, CallError> {
    let undecodable =
        |source| CallError::Decode { what: what.to_owned(), codec: codec.name(), source: Arc::new(source) };
    codec.decode(bytes).map_err(undecodable)
}

/// An answer as `T`, where it is one.
pub(crate) fn typed<T: FromReply>(what: &str, reply: Reply) -> Result<T, CallError> {
    reply.into_typed().map_err(|source| CallError::of(what, source))
}
