//! redgrid-locks
