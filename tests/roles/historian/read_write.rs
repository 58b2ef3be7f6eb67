//! Sections under a read-write lock: reads, writes, and conversions.

use redgrid_locks::{
    AcquireError, DowngradeError, Holder, ReadGuard, RwLock, UpgradableGuard, UpgradeError, WriteGuard,
};
use redgrid_tests::history::{Kind, PATIENCE, STARVED, now};

use super::Task;

/// A guard, and the id of its request.
struct Entered {
    id: u64,
    guard: Guard,
}

enum Guard {
    Read(ReadGuard),
    Upgradable(UpgradableGuard),
    Write(WriteGuard),
}

impl Guard {
    fn is_held(&self) -> bool {
        match self {
            Guard::Read(read) => read.is_held(),
            Guard::Upgradable(read) => read.is_held(),
            Guard::Write(write) => write.is_held(),
        }
    }
}

impl Task {
    /// Runs one section, from the request to the last guard.
    pub(super) async fn read_or_write(&mut self, name: &str) {
        let lock = RwLock::new(&self.client, name);
        let me = Holder::new();
        let Some(mut entered) = self.enter_rw(name, &lock, &me).await else {
            return self.pause(0..4).await;
        };
        for _ in 0..self.rng.u8(1..4) {
            self.work_rw(name, &entered).await;
            if self.rng.u8(..3) == 0 {
                let Some(converted) = self.convert(name, entered).await else { return };
                entered = converted;
            }
        }
        if let (Guard::Write(_), 0) = (&entered.guard, self.rng.u8(..4)) {
            // A writer also reads, and keeps reading when the write has ended.
            if let Some(read) = self.read_as_writer(name, &lock, &me).await {
                self.end_rw(entered).await;
                self.record(read.id, Kind::Reads);
                self.work_rw(name, &read).await;
                return self.end_rw(read).await;
            }
        }
        self.end_rw(entered).await;
    }

    async fn enter_rw(&mut self, name: &str, lock: &RwLock, me: &Holder) -> Option<Entered> {
        let id = self.request(name, false, None);
        let (lease, wait) = (self.millis(100..400), self.millis(5..600));
        let how = self.rng.u8(..16);
        let acquire = async {
            let read = |got: Option<ReadGuard>| got.map(Guard::Read);
            let write = |got: Option<WriteGuard>| got.map(Guard::Write);
            match how {
                0..4 => lock.read().timeout(wait).await.map(|got| read(Some(got))),
                4..6 => lock.read().await.map(|got| read(Some(got))),
                6 => lock.read().lease(lease).holder(me).await.map(|got| read(Some(got))),
                7..9 => lock.try_read().await.map(read),
                9..11 => lock.write().timeout(wait).holder(me).await.map(|got| write(Some(got))),
                11 => lock.write().holder(me).await.map(|got| write(Some(got))),
                12 => lock.write().lease(lease).await.map(|got| write(Some(got))),
                13 => lock.upgradable_read().timeout(wait).await.map(|got| Some(Guard::Upgradable(got))),
                14 => lock.upgradable_read().lease(lease).await.map(|got| Some(Guard::Upgradable(got))),
                _ => lock.try_write().holder(me).await.map(write),
            }
        };
        let leaves = self.rng.u8(..8) == 0;
        let patience = if leaves { self.millis(0..40) } else { PATIENCE };
        match tokio::time::timeout(patience, acquire).await {
            Ok(Ok(Some(guard))) => Some(self.got_rw(id, guard)),
            Ok(Ok(None)) => self.no_grant(id, "busy"),
            Ok(Err(error)) => self.no_grant(id, &format!("{error:?}")),
            Err(_) if leaves => self.no_grant(id, "left"),
            Err(_) => self.no_grant(id, STARVED),
        }
    }

    async fn read_as_writer(&self, name: &str, lock: &RwLock, me: &Holder) -> Option<Entered> {
        let id = self.request(name, false, None);
        let got: Result<Option<ReadGuard>, AcquireError> = lock.try_read().holder(me).await;
        match got {
            // The read is recorded when the write has ended, because until then it is part of the
            // write.
            Ok(Some(read)) => Some(Entered { id, guard: Guard::Read(read) }),
            other => self.no_grant(id, &format!("{other:?}")),
        }
    }

    fn got_rw(&self, id: u64, guard: Guard) -> Entered {
        self.record(
            id,
            match &guard {
                Guard::Read(_) | Guard::Upgradable(_) => Kind::Reads,
                Guard::Write(write) => Kind::Got { token: write.token().get() },
            },
        );
        let entered = Entered { id, guard };
        self.check_rw(&entered);
        entered
    }

    /// Converts a read to a write, or back. The old guard ends with the request.
    async fn convert(&mut self, name: &str, entered: Entered) -> Option<Entered> {
        self.check_rw(&entered);
        self.record(entered.id, Kind::Give);
        let id = self.request(name, false, None);
        // One upgrade in two is cancelled, some of them while they wait.
        let leaves = self.rng.bool();
        let patience = if leaves { self.millis(0..60) } else { PATIENCE };
        let converted = match entered.guard {
            Guard::Read(read) => match read.try_upgrade().await {
                Ok(write) => Ok(Guard::Write(write)),
                Err(UpgradeError::Busy(read) | UpgradeError::Held { guard: read, .. }) => Ok(Guard::Read(*read)),
                Err(error) => Err(error.to_string()),
            },
            Guard::Upgradable(read) => match tokio::time::timeout(patience, read.upgrade()).await {
                Ok(Ok(write)) => Ok(Guard::Write(write)),
                Ok(Err(UpgradeError::Busy(read) | UpgradeError::Held { guard: read, .. })) => Ok(Guard::Read(*read)),
                Ok(Err(error)) => Err(error.to_string()),
                Err(_) if leaves => Err("left".to_owned()),
                Err(_) => Err(STARVED.to_owned()),
            },
            Guard::Write(write) => match write.downgrade().await {
                Ok(read) => Ok(Guard::Read(read)),
                // The task still writes, but not by a new grant, and the former write is already
                // recorded as released. So no conversion is recorded.
                Err(DowngradeError::Held { .. }) => Err("it still writes".to_owned()),
                Err(error) => Err(error.to_string()),
            },
        };
        match converted {
            Ok(guard) => {
                self.record(id, Kind::Converted { from: entered.id });
                Some(self.got_rw(id, guard))
            }
            Err(error) => self.no_grant(id, &error),
        }
    }

    /// A writer updates the counter; a reader watches the lock.
    async fn work_rw(&mut self, name: &str, entered: &Entered) {
        if !matches!(entered.guard, Guard::Write(_)) || self.rng.u8(..4) == 0 {
            let most = if self.rng.u64(..self.orders.sits) == 0 { 900 } else { self.rng.u64(1..40) };
            let ends = now() + most * 1_000_000;
            while self.check_rw(entered) && now() < ends {
                tokio::time::sleep(std::time::Duration::from_millis(2)).await;
            }
        } else {
            self.update(name, entered.id, &|| entered.guard.is_held(), 3).await;
        }
    }

    async fn end_rw(&mut self, entered: Entered) {
        self.check_rw(&entered);
        let Entered { id, guard } = entered;
        self.record(id, Kind::Give);
        let how = self.rng.u8(..32);
        let released = match guard {
            Guard::Read(read) if how < 4 => return read.forget(),
            Guard::Write(write) if how == 0 => return write.forget(),
            _ if how < 10 => return,
            Guard::Read(read) => read.release().await,
            Guard::Upgradable(read) => read.release().await,
            Guard::Write(write) => write.release().await,
        };
        self.record(id, Kind::Gave { ok: released.is_ok() });
    }

    fn check_rw(&self, entered: &Entered) -> bool {
        self.check_by(entered.id, &|| entered.guard.is_held())
    }
}
