//! Changing a key's value by a function, whatever others do meanwhile.

use std::borrow::Borrow;

use bytes::Bytes;
use redgrid_codecs::{Codec, Decode, Encode};
use redgrid_core::object::{ObjectError, Rounds};

use crate::cache::Cache;
use crate::layout::{Asked, Layout, Said};

impl<K, V, KC: Codec, VC: Encode<V> + Decode<V>, Y: Layout> Cache<K, V, KC, VC, Y> {
    /// Changes the key's value in place, whatever others do meanwhile: `change` is called anew with each new value. Tells what it is then;
    /// `None`, and nothing is changed, where the key is not in the map. It lives as long as it would have; its idle time
    /// begins anew.
    ///
    /// Updates of one key by one client come one after another while they go on; one that is not polled is not waited for. After an
    /// unknown answer it does not go on.
    ///
    /// # Errors
    ///
    /// [`ObjectError::Contended`] when others were quicker for as long as a call may take, [`Client::patience`](crate::Client::patience);
    /// else as the rest.
    ///
    /// # Cancel safety
    ///
    /// What has left is carried out although nobody waits for it.
    #[doc(alias = "computeIfPresent")]
    #[doc(alias = "addAndGet")]
    pub async fn update<Q: ?Sized>(&self, key: &Q, mut change: impl FnMut(&mut V)) -> Result<Option<V>, ObjectError>
    where
        K: Borrow<Q>,
        KC: Encode<Q>,
    {
        let fields = self.fields([key])?;
        let field = &fields[0];
        let mut rounds = Rounds::of_part(&self.place, field).await?;
        loop {
            let found: Vec<Option<Bytes>> = rounds.read(Y::read(&self.place, Asked::Peek, &fields)?).await?;
            let Some(was) = found.into_iter().next().flatten() else { return Ok(None) };
            let mut value = self.value(field, &was)?;
            change(&mut value);
            let said =
                Said { condition: "equal", expected: Some(was), told: false, lifetime: "=".into(), idle: "=".into() };
            let new = self.place.encoded(&self.values, &value)?;
            let request = Y::put(&self.place, &said, &[(field.clone(), new)])?;
            let done: Vec<(i64, Option<Bytes>)> = rounds.change(request).await?;
            if done.into_iter().any(|(done, _)| done > 0) {
                return Ok(Some(value));
            }
            rounds.lost().await?;
        }
    }
}
