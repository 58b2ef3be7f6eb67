//! The router with real servers: access, pages, hostile input, the stream, and the load.

mod access;
mod acl;
mod actions;
mod budget;
mod contention;
mod dead_letters;
mod events;
mod live;
mod metrics;
mod pages;
mod queues;
mod silent;
mod streams;
mod support;
