//! Temporary.
mod local_maps;
mod local_maps_stale;
