//! A key by chance.

use bytes::Bytes;
use redgrid_core::{Code, Primary, Request};

use crate::key::Role;
use crate::many::is_there;
use crate::{Key, Keys, KeysError, row};

/// How often is asked for one before all are gone through.
const TRIES: u32 = 32;

impl Keys {
    /// The name of an object by chance; `None` where there is none. Each primary is asked as often as it has keys, about.
    ///
    /// What is beside an object counts for it, and a server does not choose quite evenly: it is good for samples, not for lots. With a
    /// namespace, and where most keys are somebody else's, all keys are gone through after 32 tries, and each object has the same chance.
    ///
    /// # Errors
    ///
    /// [`KeysError`] says what is true then.
    ///
    /// # Cancel safety
    ///
    /// Dropping it changes nothing.
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
            let mut at = fastrand::u64(0..all);
            let chosen = primaries.iter().zip(&sizes).find(|(_, size)| {
                let is_here = at < **size;
                at = at.saturating_sub(**size);
                is_here
            });
            let Some((primary, _)) = chosen else { continue };
            let request = Request::command("RANDOMKEY").idempotent();
            let wire: Option<Bytes> = self.client.run_on(primary, request).await.map_err(KeysError::of_read)?;
            let Some(wire) = wire else { continue };
            if let Some(key) = self.own(wire).await? {
                return Ok(Some(key));
            }
        }
        self.sample().await
    }

    /// The object of a key, if it has one under the namespace.
    async fn own(&self, wire: Bytes) -> Result<Option<Key>, KeysError> {
        let namespace = self.client.namespace().as_str();
        let looked = row::looked(&self.client, &wire, None).await.map_err(KeysError::of_read)?;
        let Some(key) = Key::found(namespace, wire, looked).filter(|key| !key.outlives()) else { return Ok(None) };
        if !key.is_companion() {
            return Ok(Some(key));
        }
        // Of a companion the object, which has this name, if it is there.
        let object = key.object(namespace);
        match is_there(&self.client, &object).await {
            Ok(false) => Ok(None),
            Ok(true) => Ok(Key::found(namespace, object.clone(), Some((object, Role::Own)))),
            Err(error) if error.code() == Some(Code::NoPermission) => Ok(None),
            Err(error) => Err(KeysError::of_read(error)),
        }
    }

    /// One of all objects.
    async fn sample(&self) -> Result<Option<Key>, KeysError> {
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
