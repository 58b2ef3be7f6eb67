//! The web console in a real browser: properties that only a browser shows.
//!
//! The tests are numbered B1 to B16. Each has a server, a console and a headless Chromium of its
//! own. Without Chromium, chromedriver or axe-core they are skipped; `cargo xtask test --browser`
//! installs them.

#![cfg(feature = "console")]

mod accessibility;
mod actions;
mod data;
mod hostile;
mod keyboard;
mod letters;
mod live;
mod load;
mod login;
mod mounted;
mod no_script;
mod other_sites;
mod support;
