//! The reader of a deployment.

use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use redgrid_core::Client;
use redgrid_core::author::ClientExt;
use redgrid_core::clock::Instant;

use crate::doctor::{self, DoctorReport, Requirements};
use crate::error::InspectError;

/// The pause between two questions to clients: 20 ms, so that there are at most 50 a second.
const QUESTION_INTERVAL: Duration = Duration::from_millis(20);

/// Reads the holders of objects on the servers of a client. It is cheap to clone.
///
/// Names are those of the client's namespace. All clones of an inspector share one limit for
/// [questions](Inspector::ask).
#[derive(Clone)]
pub struct Inspector {
    pub(crate) client: Client,
    /// The earliest time of the next question.
    next_question: Arc<Mutex<Instant>>,
}

redgrid_core::debug_fields!(Inspector, |it| client: it.client.id());

impl Inspector {
    /// Returns an inspector that uses the connections of this client.
    pub fn new(client: &Client) -> Self {
        Inspector { client: client.clone(), next_question: Arc::new(Mutex::new(Instant::MIN)) }
    }

    /// Returns the client that the inspector uses.
    pub fn client(&self) -> &Client {
        &self.client
    }

    /// Reserves the next time for a question, and returns it.
    pub(crate) fn reserve_question(&self) -> Instant {
        let mut next = self.next_question.lock().unwrap_or_else(PoisonError::into_inner);
        let at = self.client.clock().now().max(*next);
        *next = at + QUESTION_INTERVAL;
        at
    }

    /// Checks each server of the deployment, replicas included, and reports what the settings mean
    /// for locks.
    ///
    /// It connects to each server with the credentials of the configuration. To check permissions,
    /// it writes a hash and a string with unique names, and deletes them, unless the requirements
    /// are [read-only](Requirements::read_only). Settings that the user
    /// may not read are reported as not checked.
    ///
    /// # Errors
    ///
    /// [`InspectError::NoAddresses`] if the servers are known only by a Unix socket. Servers that
    /// do not answer are part of the report.
    ///
    /// # Cancel safety
    ///
    /// Dropping the future leaves nothing behind: each check of permissions is one step on the
    /// server.
    pub async fn doctor(&self, requirements: &Requirements) -> Result<DoctorReport, InspectError> {
        doctor::run(&self.client, requirements).await
    }
}
