//! Temporary.
mod object_events;
