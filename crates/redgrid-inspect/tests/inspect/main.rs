//! Reads of real servers: one, and a cluster.

mod acl;
mod ask;
mod cluster;
mod doctor;
mod lock;
mod objects;
mod queues;
mod support;
mod synchronizers;
