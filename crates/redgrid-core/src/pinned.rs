//! A future that is made where it stays.

use std::pin::Pin;

/// The same as `Box::pin(make())`, but the room is there before the future is: a large one is not made elsewhere and copied.
#[inline(always)]
pub(crate) fn pinned<F: Future>(make: impl FnOnce() -> F) -> Pin<Box<F>> {
    let room = Box::new_uninit();
    Box::into_pin(Box::write(room, make()))
}
