//! A future that is created in its final memory.

use std::pin::Pin;

/// Returns `Box::pin(make())`, but allocates before the future is created.
///
/// So a large future is not created on the stack and then copied.
#[inline(always)]
pub fn pinned<F: Future>(make: impl FnOnce() -> F) -> Pin<Box<F>> {
    let memory = Box::new_uninit();
    Box::into_pin(Box::write(memory, make()))
}
