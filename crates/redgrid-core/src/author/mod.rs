//! The interface for authors of objects. Applications do not need it.
//!
//! [`ClientExt`] and [`LockExt`] add methods to [`Client`]. The other traits are implemented by
//! objects, and by simulated servers in tests. The traits change whenever the objects of this
//! project need a change. So any other crate that uses the traits must depend on one exact version
//! of this crate.
//!
//! ```no_run
//! # async fn demo() -> Result<(), Box<dyn std::error::Error>> {
//! use redgrid_core::author::ClientExt;
//! use redgrid_core::{Client, Request};
//!
//! let client = Client::connect("redis://127.0.0.1:6379").await?;
//! let until = client.clock().now() + client.response_timeout();
//! let size: u64 = client.run_until(Request::command("DBSIZE").idempotent(), until).await?;
//! # Ok(()) }
//! ```

mod client;
mod locks;

use redgrid_client::Client;

pub use self::client::ClientExt;
pub use self::locks::{LockExt, NotDriven};
use self::sealed::Sealed;
pub use crate::backoff::Backoff;
pub use crate::batching::{BatchExecutor, Batcher};
pub use crate::lock::fair::ServerQueue;
pub use crate::lock::guard::FromHoldGuard;
pub use crate::lock::multi::MultiKeyProtocol;
pub use crate::lock::protocol::LockProtocol;
pub use crate::lock::shared::ReadWriteMode;
pub use crate::object::pages::{PageRequest, Paged, Pages};
pub use redgrid_client::{ByNode, ScriptText, Server, Topology, UNSUBSCRIBED_POLL};

/// Functions by which objects update metrics. Without the feature `metrics`, they do nothing.
pub mod counts {
    pub use crate::observe::objects::*;
}

mod sealed {
    use redgrid_client::Client;

    #[expect(unnameable_types, reason = "seals `ClientExt` and `LockExt`")]
    pub trait Sealed: Sync {
        fn client(&self) -> &Client;
    }

    impl Sealed for Client {
        fn client(&self) -> &Client {
            self
        }
    }
}

impl ClientExt for Client {}

impl LockExt for Client {}
