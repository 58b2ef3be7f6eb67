//! The common handle in every sharded object: its shard layout, and its shards.

use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use bytes::Bytes;
use redgrid_core::author::ClientExt;
use redgrid_core::clock::Instant;
use redgrid_core::object::layouts::sharded;
use redgrid_core::object::{ObjectError, ObjectRef};
use redgrid_core::{Client, Failure, Name, Pairs, Request};

use crate::layout::{Kind, ShardLayout, ShardLayoutRequest};
use crate::tags::{MAX_TAG_LENGTH, tag};

/// The maximum length of a name. The name of a shard has an additional colon and a tag in braces.
const MAX_NAME_LENGTH: usize = 1024 - MAX_TAG_LENGTH - 3;

/// How long a client uses a cached shard layout before it reads the layout again. If an object is
/// deleted and created with another layout, other clients notice this within that time.
const LAYOUT_TTL: Duration = Duration::from_secs(10);

/// A plain object that is a shard of a sharded one.
pub(crate) trait Shard: Clone {
    /// The options of a shard, apart from its name.
    type Options: Clone;

    fn kind(options: &Self::Options) -> Kind;

    fn new(client: &Client, name: String, options: &Self::Options) -> Self;
}

/// A cached shard layout, and the time until which it is used.
type CachedLayout = Mutex<Option<(ShardLayout, Instant)>>;

/// The shards of an object with this layout.
pub(crate) struct Shards<P> {
    pub(crate) layout: ShardLayout,
    pub(crate) all: Vec<P>,
}

impl<P: Shard> Shards<P> {
    /// Returns the shard of an encoded key, value or element.
    pub(crate) fn shard_of(&self, bytes: &[u8]) -> P {
        self.all[self.layout.shard_of(bytes) as usize].clone()
    }

    /// Returns the numbers of all shards, as targets without arguments.
    pub(crate) fn every_shard(&self) -> impl Iterator<Item = (u32, ())> + use<P> {
        (0..self.layout.shards).map(|shard| (shard, ()))
    }
}

/// The handle of a sharded object.
pub(crate) struct Sharded<P: Shard> {
    pub(crate) object_ref: ObjectRef,
    pub(crate) options: P::Options,
    pub(crate) requested: ShardLayoutRequest,
    cached_layout: Arc<CachedLayout>,
    shards: Arc<Mutex<Option<Arc<Shards<P>>>>>,
}

impl<P: Shard> Sharded<P> {
    pub(crate) fn new(client: &Client, name: impl AsRef<str>, options: P::Options) -> Self {
        let object_ref = ObjectRef::new(client, name);
        // All handles of the client share the cache.
        let cached_layout = object_ref
            .name_and_key()
            .map(|(_, key)| client.shared(&sharded(key)[0], CachedLayout::default))
            .unwrap_or_default();
        Sharded { object_ref, options, requested: ShardLayoutRequest::default(), cached_layout, shards: Arc::default() }
    }

    /// Returns a handle of the same object with shards of another type.
    pub(crate) fn with_shard_type<O: Shard>(&self, options: O::Options) -> Sharded<O> {
        Sharded {
            object_ref: self.object_ref.clone(),
            options,
            requested: self.requested,
            cached_layout: Arc::clone(&self.cached_layout),
            shards: Arc::default(),
        }
    }

    /// Returns the key of the shard layout. Checks the name.
    fn config_key(&self) -> Result<Bytes, ObjectError> {
        let (name, key) = self.object_ref.name_and_key()?;
        if name.as_str().contains('{') {
            let expected = "a name without a hash tag, because the shards have tags of their own";
            return Err(self.object_ref.invalid("name", expected, name));
        }
        let length = name.as_str().len();
        if length > MAX_NAME_LENGTH {
            let expected = format_args!("up to {MAX_NAME_LENGTH} bytes, because the names of shards are longer");
            return Err(self.object_ref.invalid("name", expected, format_args!("{length} bytes")));
        }
        Ok(sharded(key).remove(0))
    }

    pub(crate) fn forget_layout(&self) {
        *self.cached_layout.lock().unwrap_or_else(PoisonError::into_inner) = None;
    }

    fn cache_layout(&self, layout: ShardLayout) {
        let until = self.object_ref.client().clock().now() + LAYOUT_TTL;
        *self.cached_layout.lock().unwrap_or_else(PoisonError::into_inner) = Some((layout, until));
    }

    /// Returns the shards for a read. They have the stored layout or, if there is none, that of
    /// this handle.
    pub(crate) async fn shards_to_read(&self) -> Result<Arc<Shards<P>>, ObjectError> {
        Ok(self.shards(self.layout(false).await?))
    }

    /// Returns the shards for a change. If no layout is stored, stores the layout of this handle.
    pub(crate) async fn shards_to_change(&self) -> Result<Arc<Shards<P>>, ObjectError> {
        Ok(self.shards(self.layout(true).await?))
    }

    async fn layout(&self, create: bool) -> Result<ShardLayout, ObjectError> {
        let (config, kind) = (self.config_key()?, P::kind(&self.options));
        let cached = *self.cached_layout.lock().unwrap_or_else(PoisonError::into_inner);
        // Ignore a cached layout of another type, so that the server reports the type.
        let cached = cached.filter(|(layout, _)| layout.kind == kind);
        if let Some((layout, _)) = cached.filter(|(_, until)| self.object_ref.client().clock().now() < *until) {
            return layout.checked(&self.object_ref, self.requested);
        }
        let cached = cached.map(|(layout, _)| layout);
        let new_layout = ShardLayout::requested(&self.object_ref, kind, self.requested, cached)?;
        let stored: Result<Pairs<Bytes, Bytes>, ObjectError> = if create {
            self.object_ref.read_primary(new_layout.create_request(&config)).await.map(|(_, fields): (bool, _)| fields)
        } else {
            self.object_ref.read_primary(Request::command("HGETALL").key(config)).await
        };
        match (stored, cached) {
            (Ok(fields), _) => match ShardLayout::parse(&self.object_ref, kind, fields)? {
                Some(layout) => {
                    self.cache_layout(layout);
                    layout.checked(&self.object_ref, self.requested)
                }
                None => Ok(new_layout),
            },
            // Only the node with the layout may be unavailable: use the cached layout for shards on
            // other nodes.
            (Err(ObjectError::Failed(Failure::Unavailable { .. })), Some(layout)) => {
                self.cache_layout(layout);
                layout.checked(&self.object_ref, self.requested)
            }
            (Err(error), _) => Err(error),
        }
    }

    /// Reads the layout from the server and returns its shards; `None` if none is stored.
    pub(crate) async fn stored_shards(&self) -> Result<Option<Arc<Shards<P>>>, ObjectError> {
        let request = Request::command("HGETALL").key(self.config_key()?);
        match ShardLayout::parse(
            &self.object_ref,
            P::kind(&self.options),
            self.object_ref.read_primary(request).await?,
        )? {
            Some(layout) => {
                self.cache_layout(layout);
                Ok(Some(self.shards(layout.checked(&self.object_ref, self.requested)?)))
            }
            None => {
                self.forget_layout();
                Ok(None)
            }
        }
    }

    /// Returns the shards for an operation that clears or expires all of them, and whether their
    /// layout is stored.
    ///
    /// The layout is read from the server, because a cached layout could be that of a deleted
    /// object, and lack shards.
    pub(crate) async fn verified_shards(&self) -> Result<(Arc<Shards<P>>, bool), ObjectError> {
        match self.stored_shards().await? {
            Some(shards) => Ok((shards, true)),
            None => {
                let (kind, requested) = (P::kind(&self.options), self.requested);
                Ok((self.shards(ShardLayout::requested(&self.object_ref, kind, requested, None)?), false))
            }
        }
    }

    /// Deletes the stored layout, if it is still equal to this one.
    pub(crate) async fn delete_layout(&self, layout: &ShardLayout) -> Result<(), ObjectError> {
        let request = layout.delete_request(&self.config_key()?);
        let _: bool = self.object_ref.change(request).await?;
        self.forget_layout();
        Ok(())
    }

    /// Stores the layout, if none is stored. Returns whether this call has stored it.
    #[cfg(feature = "bits")]
    pub(crate) async fn create_layout(
        &self,
        requested: ShardLayoutRequest,
    ) -> Result<(bool, Arc<Shards<P>>), ObjectError> {
        let (config, kind, new_layout) =
            (self.config_key()?, P::kind(&self.options), self.requested_layout(requested)?);
        let (created, fields) = self.object_ref.change(new_layout.create_request(&config)).await?;
        let layout = ShardLayout::parse(&self.object_ref, kind, fields)?.unwrap_or(new_layout);
        self.cache_layout(layout);
        Ok((created, self.shards(layout.checked(&self.object_ref, self.requested)?)))
    }

    /// Returns the requested layout, if it is valid.
    #[cfg(feature = "bits")]
    pub(crate) fn requested_layout(&self, requested: ShardLayoutRequest) -> Result<ShardLayout, ObjectError> {
        self.config_key()?;
        ShardLayout::requested(&self.object_ref, P::kind(&self.options), requested, None)
    }

    /// Returns the shards of a layout without sending a request.
    pub(crate) fn shards(&self, layout: ShardLayout) -> Arc<Shards<P>> {
        let mut shards = self.shards.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(shards) = shards.as_ref().filter(|shards| shards.layout == layout) {
            return Arc::clone(shards);
        }
        let name = self.object_ref.name().map_or("", Name::as_str);
        let shard = |shard| {
            P::new(self.object_ref.client(), format!("{name}:{{{}}}", tag(shard, layout.shards)), &self.options)
        };
        let all = Arc::new(Shards { layout, all: (0..layout.shards).map(shard).collect() });
        *shards = Some(Arc::clone(&all));
        all
    }
}

redgrid_core::clone_fields!([P: Shard] Sharded<P> { object_ref, options, requested, cached_layout, shards });
