//! The lossy seam: one Redis node in memory behind the `Server` trait, and a network that loses, delays and repeats by a
//! seeded plan, on tokio's paused clock.
//!
//! | file | what happens there |
//! |---|---|
//! | `store` | the server's memory: hashes with lifetimes, subscriptions |
//! | `scripts` | the lock scripts in Rust, one function each |
//! | `plan` | what goes wrong, from one seed |
//! | `world` | the queue of events: connections, deliveries, losses, restarts |
//! | `server` | the seam as one client sees it |
//! | `topology` | one node for every name |

pub mod plan;
pub mod scripts;
pub mod server;
pub mod store;
pub mod world;

pub use plan::{Fate, Plan, Wreck};
pub use scripts::Call;
pub use server::SimulatedServer;
pub use store::Store;
pub use world::{Witness, World};
