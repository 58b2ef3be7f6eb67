//! A future that is created in its final memory.

use std::pin::Pin;

/// Returns `Box::pin(make())`, but allocates the memory before it creates the future.
///
/// So a large future need not be copied from the stack.
#[inline(always)]
pub fn pinned<F: Future>(make: impl FnOnce() -> F) -> Pin<Box<F>> {
    let memory = Box::new_uninit();
    Box::into_pin(Box::write(memory, make()))
}
