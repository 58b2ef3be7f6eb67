//! Tests of the documented behaviour of the testkit, in one program, so that it is linked once.

#[cfg(feature = "browser")]
mod browser;
mod cluster;
mod faults;
mod proxy;
mod replicated;
mod sentinels;
mod server;
mod support;
mod tls;
