//! redgrid-testkit
