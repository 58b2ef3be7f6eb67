//! The kinds of locks that a program can run under.

use std::future::IntoFuture;

use redgrid::locks::{AcquireError, HoldWatch, ReleaseError};
use redgrid::{LockGuard, ReadGuard, WriteGuard};

use super::LockOptions;
use crate::server::Server;

/// A guard of any kind of lock.
pub(super) enum Held {
    Lock(LockGuard),
    Read(ReadGuard),
    Write(WriteGuard),
}

/// Requests a lock with the options of the command line.
macro_rules! acquire {
    ($request:expr, $options:expr) => {{
        let mut request = $request;
        if let Some(wait) = $options.wait {
            request = request.timeout(wait);
        }
        if let Some(lease) = $options.lease {
            request = request.lease(lease);
        }
        if let Some(keep) = $options.at_least {
            request = request.hold_at_least(keep);
        }
        request.into_future().await
    }};
}

impl Held {
    pub(super) async fn acquire(server: &Server, options: &LockOptions) -> Result<Self, AcquireError> {
        let grid = &server.grid;
        let name = &options.name;
        let rw_lock = || if options.fair { grid.rw_lock(name).fair() } else { grid.rw_lock(name) };
        if options.read {
            acquire!(rw_lock().read(), options).map(Held::Read)
        } else if options.write {
            acquire!(rw_lock().write(), options).map(Held::Write)
        } else if options.fair {
            acquire!(grid.fair_lock(name).acquire(), options).map(Held::Lock)
        } else {
            acquire!(grid.lock(name).acquire(), options).map(Held::Lock)
        }
    }

    /// Returns the fencing token; read locks have none.
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
