//! redgrid-core
