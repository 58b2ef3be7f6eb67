//! Random keys.

use bytes::Bytes;
use redgrid_core::author::ClientExt;
use redgrid_core::{Code, Primary, Request};

use crate::bulk::object_exists;
use crate::key::Role;
use crate::{Key, Keys, KeysError, key_ownership};

/// The number of tries with RANDOMKEY before all keys are scanned.
const TRIES: u32 = 32;

impl Keys {
    /// Returns the name of a random object; `None` if there is none.
    ///
    /// A primary is chosen with a probability approximately proportional to its number of keys.
    /// Companions count for their object, and servers do not choose evenly: the result is suitable
    /// for samples, but not for a fair draw. If 32 tries find no object, for example because most
    /// keys are not in the namespace, all keys are scanned. In that case each object has the same
    /// probability.
    ///
    /// # Errors
    ///
    /// [`KeysError`] states what failed and whether anything may have changed.
    ///
    /// # Cancel safety
    ///
    /// Dropping the future changes nothing.
    #[doc(alias = "randomKey")]
    pub async fn random(&self) -> Result<Option<Key>, KeysError> {
        let primaries = self.client.primaries().await.map_err(KeysError::of_read)?;
        let size = async |primary: &Primary| {
            let size = self.client.run_on::<u64>(primary, Request::command("DBSIZE").idempotent()).await;
            size.map_err(KeysError::of_read)
        };
        let mut sizes = Vec::with_capacity(primaries.len());
        for primary in &primaries {
            sizes.push(size(primary).await?);
        }
        let all: u64 = sizes.iter().sum();
        if all == 0 {
            return Ok(None);
        }
        for _ in 0..TRIES {
            let mut index = fastrand::u64(0..all);
            let chosen = primaries.iter().zip(&sizes).find(|(_, size)| {
                let is_here = index < **size;
                index = index.saturating_sub(**size);
                is_here
            });
            let Some((primary, _)) = chosen else { continue };
            let request = Request::command("RANDOMKEY").idempotent();
            let wire: Option<Bytes> = self.client.run_on(primary, request).await.map_err(KeysError::of_read)?;
            let Some(wire) = wire else { continue };
            if let Some(key) = self.object_of(wire).await? {
                return Ok(Some(key));
            }
        }
        self.sample_all().await
    }

    /// Returns the object to which a key belongs, if that is in the namespace and exists.
    async fn object_of(&self, wire: Bytes) -> Result<Option<Key>, KeysError> {
        let namespace = self.client.namespace().as_str();
        let owner = key_ownership::find_owner(&self.client, &wire, None).await.map_err(KeysError::of_read)?;
        let Some(key) = Key::from_wire(namespace, wire, owner).filter(|key| !key.outlives()) else { return Ok(None) };
        if !key.is_companion() {
            return Ok(Some(key));
        }
        // For a companion, return the object to which it belongs, if that exists.
        let object = key.object_key(namespace);
        match object_exists(&self.client, &object).await {
            Ok(false) => Ok(None),
            Ok(true) => Ok(Key::from_wire(namespace, object.clone(), Some((object, Role::Object)))),
            Err(error) if error.code() == Some(Code::NoPermission) => Ok(None),
            Err(error) => Err(KeysError::of_read(error)),
        }
    }

    /// Returns a random object of a scan over all objects.
    async fn sample_all(&self) -> Result<Option<Key>, KeysError> {
        let (mut objects, mut seen, mut chosen) = (self.objects(), 0_u64, None);
        while let Some(key) = objects.try_next().await? {
            seen += 1;
            if fastrand::u64(0..seen) == 0 {
                chosen = Some(key);
            }
        }
        Ok(chosen)
    }
}
