//! Reads of real servers, one and a cluster, and actions.

mod acl;
mod actions;
mod ask;
mod cluster;
mod doctor;
mod force;
mod force_rw;
mod force_wake;
mod lock;
mod objects;
mod queues;
mod streams;
mod support;
mod synchronizers;
