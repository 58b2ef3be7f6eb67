//! Where parties wait for each other.

use super::Grid;

impl Grid {
    /// A barrier of so many parties. See [`Barrier`](redgrid_barrier::Barrier).
    #[cfg(feature = "barrier")]
    pub fn barrier(&self, name: impl AsRef<str>, parties: u32) -> redgrid_barrier::Barrier {
        redgrid_barrier::Barrier::new(&self.client, name, parties)
    }

    /// A section that so many begin and end together. See [`DoubleBarrier`](redgrid_barrier::DoubleBarrier).
    #[cfg(feature = "barrier")]
    pub fn double_barrier(&self, name: impl AsRef<str>, parties: u32) -> redgrid_barrier::DoubleBarrier {
        redgrid_barrier::DoubleBarrier::new(&self.client, name, parties)
    }

    /// Work in phases by parties that come and go. See [`Phaser`](redgrid_barrier::Phaser).
    #[cfg(feature = "barrier")]
    pub fn phaser(&self, name: impl AsRef<str>) -> redgrid_barrier::Phaser {
        redgrid_barrier::Phaser::new(&self.client, name)
    }

    /// What tasks wait for under a lock. See [`Condition`](redgrid_barrier::Condition).
    #[cfg(feature = "barrier")]
    #[doc(alias = "newCondition")]
    pub fn condition(&self, name: impl AsRef<str>) -> redgrid_barrier::Condition {
        redgrid_barrier::Condition::new(&self.client, name)
    }

    /// Something that has happened, or has not yet. See [`Event`](redgrid_barrier::Event).
    #[cfg(feature = "barrier")]
    pub fn event(&self, name: impl AsRef<str>) -> redgrid_barrier::Event {
        redgrid_barrier::Event::new(&self.client, name)
    }

    /// A nudge for one who waits, or all. See [`Notify`](redgrid_barrier::Notify).
    #[cfg(feature = "barrier")]
    pub fn notify(&self, name: impl AsRef<str>) -> redgrid_barrier::Notify {
        redgrid_barrier::Notify::new(&self.client, name)
    }
}
