//! What is recorded of a lock's life: metrics by their fixed names, and a span for each operation.

mod metrics;
mod spans;
