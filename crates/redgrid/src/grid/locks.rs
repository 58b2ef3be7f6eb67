//! Locks, fences and elections.

use super::Grid;

impl Grid {
    /// A lock that one holder has at a time. See [`Lock`](redgrid_locks::Lock).
    #[cfg(feature = "locks")]
    #[doc(alias = "getLock")]
    pub fn lock(&self, name: impl AsRef<str>) -> redgrid_locks::Lock {
        redgrid_locks::Lock::new(&self.client, name)
    }

    /// A lock whose tokens are counted in a key of their own. See [`FencedLock`](redgrid_locks::FencedLock).
    #[cfg(feature = "locks")]
    #[doc(alias = "getFencedLock")]
    pub fn fenced_lock(&self, name: impl AsRef<str>) -> redgrid_locks::FencedLock {
        redgrid_locks::FencedLock::new(&self.client, name)
    }

    /// Several locks as one. See [`MultiLock`](redgrid_locks::MultiLock).
    #[cfg(feature = "locks")]
    #[doc(alias = "getMultiLock")]
    pub fn multi_lock<N: AsRef<str>>(&self, names: impl IntoIterator<Item = N>) -> redgrid_locks::MultiLock {
        redgrid_locks::MultiLock::new(&self.client, names)
    }

    /// A lock without messages. See [`SpinLock`](redgrid_locks::SpinLock).
    #[cfg(feature = "locks")]
    #[doc(alias = "getSpinLock")]
    pub fn spin_lock(&self, name: impl AsRef<str>) -> redgrid_locks::SpinLock {
        redgrid_locks::SpinLock::new(&self.client, name)
    }

    /// A lock that is given in the order of asking. See [`FairLock`](redgrid_locks::FairLock).
    #[cfg(feature = "locks")]
    #[doc(alias = "getFairLock")]
    pub fn fair_lock(&self, name: impl AsRef<str>) -> redgrid_locks::FairLock {
        redgrid_locks::FairLock::new(&self.client, name)
    }

    /// A lock that many read or one writes. See [`RwLock`](redgrid_locks::RwLock).
    #[cfg(feature = "locks")]
    #[doc(alias = "getReadWriteLock")]
    pub fn rw_lock(&self, name: impl AsRef<str>) -> redgrid_locks::RwLock {
        redgrid_locks::RwLock::new(&self.client, name)
    }

    /// An election of one leader among processes. See [`Election`](redgrid_locks::Election).
    #[cfg(feature = "locks")]
    #[doc(alias = "LeaderLatch")]
    pub fn election(&self, name: impl AsRef<str>) -> redgrid_locks::Election {
        redgrid_locks::Election::new(&self.client, name)
    }

    /// A lock in segments, for one hot thing that can be divided. See [`SegmentedLock`](redgrid_locks::SegmentedLock).
    #[cfg(feature = "locks")]
    pub fn segmented_lock(&self, name: impl AsRef<str>, segments: usize) -> redgrid_locks::SegmentedLock {
        redgrid_locks::SegmentedLock::new(&self.client, name, segments)
    }

    /// A fence, which refuses the writes of those whose lock has passed on. See [`Fence`](redgrid_locks::Fence).
    #[cfg(feature = "locks")]
    pub fn fence(&self, name: impl AsRef<str>) -> redgrid_locks::Fence {
        redgrid_locks::Fence::new(&self.client, name)
    }
}
