//! Read-modify-write of a value, with optimistic retries.

use bytes::Bytes;
use redgrid_codecs::{Codec, Decode, Encode, EncodesFor};
use redgrid_core::object::{CasLoop, ObjectError};

use crate::cache::Cache;
use crate::layout::{Layout, PutOptions, ReadKind};

impl<K, V, KC: Codec, VC: Encode<V> + Decode<V>, Y: Layout> Cache<K, V, KC, VC, Y> {
    /// Changes the value of a key in place, and overwrites no concurrent change. Returns the new
    /// value.
    ///
    /// `change` is called again with each new value that another client has set. If the key is not
    /// in the map, nothing is changed and the result is `None`. The entry keeps its lifetime; its
    /// idle time starts again.
    ///
    /// Updates of one key by one client run one after another while they make progress. An update
    /// that is not polled does not block the others. After an unknown outcome the update is not
    /// retried.
    ///
    /// # Errors
    ///
    /// [`ObjectError::Contended`] if other clients changed the entry before each attempt, until the
    /// call's time limit, `response_timeout × (retries + 1)`. Otherwise [`ObjectError`] states what
    /// failed and whether anything may have changed.
    ///
    /// # Cancel safety
    ///
    /// A request that was already sent is executed even if the future is dropped.
    #[doc(alias = "computeIfPresent")]
    #[doc(alias = "addAndGet")]
    pub async fn update<Q: ?Sized>(&self, key: &Q, mut change: impl FnMut(&mut V)) -> Result<Option<V>, ObjectError>
    where
        KC: EncodesFor<K, Q>,
    {
        let fields = self.encode_keys([key])?;
        let field = &fields[0];
        let mut cas_loop = CasLoop::serialized_part(&self.object_ref, field).await?;
        loop {
            let found: Vec<Option<Bytes>> = cas_loop.read(Y::read(&self.object_ref, ReadKind::Peek, &fields)?).await?;
            let Some(previous) = found.into_iter().next().flatten() else { return Ok(None) };
            let mut value = self.decode_value(field, &previous)?;
            change(&mut value);
            let options = PutOptions {
                condition: "equal",
                expected: Some(previous),
                return_previous: false,
                lifetime: "=".into(),
                idle: "=".into(),
            };
            let new = self.object_ref.encoded(&self.values, &value)?;
            let request = Y::put(&self.object_ref, &options, &[(field.clone(), new)])?;
            let done: Vec<(i64, Option<Bytes>)> = cas_loop.change(request).await?;
            if done.into_iter().any(|(done, _)| done > 0) {
                return Ok(Some(value));
            }
            cas_loop.lost().await?;
        }
    }
}
