//! Servers for the blocks of the documentation, and arguments of their hidden function `example`.

use std::env;
use std::error::Error;
use std::fmt::Display;

use redgrid::codecs::Json;
use redgrid::local_cached_map::Options;
use redgrid::locks::{Quorum, QuorumGuard};
use redgrid::map::{BackedMap, Loader, Map, StoreError, Writer, async_trait};
use redgrid::{Client, Grid, LocalCachedMap, Lock, ReliableQueue};
use tokio::runtime::Runtime;

type Outcome<T> = Result<T, Box<dyn Error>>;

/// Returns the address of the running server that replaces the address `written` in a block: the
/// one at `index` in the list of `variable`. Without the variable, it returns `written`.
pub(crate) fn server(written: &'static str, variable: &str, index: usize) -> &'static str {
    let all = env::var(variable).unwrap_or_default().leak();
    match all.split(',').nth(index) {
        None | Some("") => written,
        Some(running) if written.starts_with("redis://") => running,
        Some(running) => running.rsplit('/').next().unwrap_or(running), // without the scheme
    }
}

pub(crate) fn block_on<F: Future>(block: F) -> F::Output {
    Runtime::new().expect("a runtime starts").block_on(block)
}

/// The return value of a block.
pub(crate) trait End {
    fn result(self) -> Result<(), String>;
}

impl End for () {
    fn result(self) -> Result<(), String> {
        Ok(())
    }
}

impl<E: Display> End for Result<(), E> {
    fn result(self) -> Result<(), String> {
        self.map_err(|error| error.to_string())
    }
}

/// Returns an argument of `example`.
pub(crate) async fn argument<T: Argument>() -> T {
    T::given().await.unwrap_or_else(|error| panic!("there is no argument for the block: {error}"))
}

/// A type of an argument of `example`.
pub(crate) trait Argument: Sized {
    async fn given() -> Outcome<Self>;
}

impl<T: Argument + 'static> Argument for &'static T {
    async fn given() -> Outcome<Self> {
        Ok(Box::leak(Box::new(T::given().await?)))
    }
}

impl Argument for u64 {
    async fn given() -> Outcome<Self> {
        Ok(7)
    }
}

/// The password of the user `app`.
impl Argument for &'static str {
    async fn given() -> Outcome<Self> {
        Ok("secret")
    }
}

impl Argument for Grid {
    async fn given() -> Outcome<Self> {
        Ok(Grid::connect(env::var("REDGRID_URL")?).await?)
    }
}

impl Argument for Lock {
    async fn given() -> Outcome<Self> {
        Ok(Grid::given().await?.lock("lock:report"))
    }
}

impl Argument for ReliableQueue<String> {
    async fn given() -> Outcome<Self> {
        Ok(Grid::given().await?.reliable_queue("orders"))
    }
}

impl Argument for LocalCachedMap<String, u32> {
    async fn given() -> Outcome<Self> {
        Ok(Grid::given().await?.local_cached_map("prices", Options::default()))
    }
}

impl Argument for Map<String, u64> {
    async fn given() -> Outcome<Self> {
        Ok(Grid::given().await?.map("prices"))
    }
}

impl Argument for BackedMap<String, u64, Json, Json> {
    async fn given() -> Outcome<Self> {
        Ok(Map::<String, u64>::given().await?.backed().loader(Table).build()?)
    }
}

impl Argument for Quorum {
    async fn given() -> Outcome<Self> {
        let mut clients = Vec::new();
        for url in env::var("REDGRID_QUORUM")?.split(',') {
            clients.push(Client::connect(url).await?);
        }
        let quorum = Quorum::new(clients)?;
        quorum.bootstrap().await?;
        Ok(quorum)
    }
}

impl Argument for QuorumGuard {
    async fn given() -> Outcome<Self> {
        Ok(Quorum::given().await?.lock("lock:report").acquire().await?)
    }
}

/// A store for the maps: the argument for `impl Writer`.
pub(crate) struct Table;

#[async_trait]
impl Loader<String, u64> for Table {
    async fn load(&self, _: &String) -> Result<Option<u64>, StoreError> {
        Ok(Some(100))
    }
}

#[async_trait]
impl Writer<String, u64> for Table {
    async fn write(&self, _: &[(String, u64)]) -> Result<(), StoreError> {
        Ok(())
    }

    async fn delete(&self, _: &[String]) -> Result<(), StoreError> {
        Ok(())
    }
}
