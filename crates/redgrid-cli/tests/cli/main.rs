//! Runs the real program with real servers, and checks its output and its exit codes.

mod bench;
mod clients;
mod config;
#[cfg(feature = "console")]
mod console;
mod contexts;
mod doctor;
mod endings;
mod files;
mod flash_sale;
mod formats;
#[cfg(feature = "console")]
mod holder_states;
mod lock;
mod look;
mod ls;
mod ls_moving;
mod outcomes;
mod permissions;
mod queue;
mod reference;
mod shared_server;
mod support;
mod top;
mod topologies;
mod unlock;
mod usage;
mod wait;
mod watch;
