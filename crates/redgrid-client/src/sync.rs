//! A mutex without poisoning: if a thread panics while the mutex is locked, other threads can still
//! lock the mutex later.

use std::sync::{MutexGuard, PoisonError};

/// A mutex that stays usable after a panic in a thread that has locked it.
#[derive(Debug, Default)]
pub struct Mutex<T>(std::sync::Mutex<T>);

impl<T> Mutex<T> {
    /// Creates a mutex that contains `value`.
    pub fn new(value: T) -> Self {
        Mutex(std::sync::Mutex::new(value))
    }

    /// Locks the mutex.
    pub fn lock(&self) -> MutexGuard<'_, T> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
