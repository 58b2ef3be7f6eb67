//! What the program runs under: a lock of one kind or another.

use std::future::IntoFuture;

use redgrid::locks::{AcquireError, HoldWatch, ReleaseError};
use redgrid::{LockGuard, ReadGuard, WriteGuard};

use super::LockOptions;
use crate::server::Server;

/// A guard of any kind.
pub(super) enum Held {
    Lock(LockGuard),
    Read(ReadGuard),
    Write(WriteGuard),
}

/// Asks with the options of the command line.
macro_rules! ask {
    ($asking:expr, $options:expr) => {{
        let mut asking = $asking;
        if let Some(wait) = $options.wait {
            asking = asking.timeout(wait);
        }
        if let Some(lease) = $options.lease {
            asking = asking.lease(lease);
        }
        if let Some(keep) = $options.at_least {
            asking = asking.hold_at_least(keep);
        }
        asking.into_future().await
    }};
}

impl Held {
    pub(super) async fn ask(server: &Server, options: &LockOptions) -> Result<Self, AcquireError> {
        let (grid, name) = (&server.grid, &options.name);
        let rw_lock = || if options.fair { grid.rw_lock(name).fair() } else { grid.rw_lock(name) };
        if options.read {
            ask!(rw_lock().read(), options).map(Held::Read)
        } else if options.write {
            ask!(rw_lock().write(), options).map(Held::Write)
        } else if options.fair {
            ask!(grid.fair_lock(name).acquire(), options).map(Held::Lock)
        } else {
            ask!(grid.lock(name).acquire(), options).map(Held::Lock)
        }
    }

    /// The fencing token; readers have none.
    pub(super) fn token(&self) -> Option<u64> {
        match self {
            Held::Lock(guard) => Some(guard.token().get()),
            Held::Read(_) => None,
            Held::Write(guard) => Some(guard.token().get()),
        }
    }

    pub(super) fn watch(&self) -> HoldWatch {
        match self {
            Held::Lock(guard) => guard.watch(),
            Held::Read(guard) => guard.watch(),
            Held::Write(guard) => guard.watch(),
        }
    }

    pub(super) async fn release(self) -> Result<(), ReleaseError> {
        match self {
            Held::Lock(guard) => guard.release().await,
            Held::Read(guard) => guard.release().await,
            Held::Write(guard) => guard.release().await,
        }
    }
}
