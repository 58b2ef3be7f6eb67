//! A simulated network: one Redis node in memory behind the `Server` trait. The network loses,
//! delays and repeats requests by a seeded plan, on tokio's paused clock.
//!
//! | file | contents |
//! |---|---|
//! | `store` | the server's memory: hashes with lifetimes, subscriptions |
//! | `scripts` | the lock scripts in Rust, one function each |
//! | `plan` | all faults, from one seed |
//! | `world` | the queue of events: connections, deliveries, losses, restarts |
//! | `server` | the `Server` of one client |
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
