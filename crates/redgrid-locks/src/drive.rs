//! Acquires that consist of several steps. If the caller does not poll the future, a task of the
//! client continues the acquire, so that others do not wait for the grants of its earlier steps.

use std::time::Duration;

use redgrid_core::author::{LockExt, NotDriven};
use redgrid_core::{Client, Failure, Name, ServerError};

use crate::AcquireError;

/// Drives an acquire of `name` that waits for at most `wait`: see [`LockExt::drive_acquire`].
pub(crate) async fn drive<T, E, F>(
    client: &Client,
    name: &Name,
    wait: Option<Duration>,
    start: impl FnMut(Option<Duration>) -> F + Send,
) -> Result<T, E>
where
    T: Send + 'static,
    E: From<AcquireError> + Send + 'static,
    F: Future<Output = Result<T, E>> + Send + 'static,
{
    client.drive_acquire(wait, start).await.unwrap_or_else(|not_driven| {
        let operation = AcquireError::operation(name);
        let error: AcquireError = match not_driven {
            NotDriven::TimedOut => {
                let (name, waited) = (name.clone(), wait.unwrap_or_default());
                AcquireError::TimedOut { name, waited, by_this_client: false }
            }
            NotDriven::Ended(ServerError::ShuttingDown) => Failure::ShuttingDown { operation }.into(),
            NotDriven::Ended(source) => Failure::Unavailable { operation, source }.into(),
        };
        Err(error.into())
    })
}
