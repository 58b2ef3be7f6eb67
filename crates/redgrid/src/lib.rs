//! redgrid
