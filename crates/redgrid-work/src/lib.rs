//! The engine of redgrid's work queues: keys, scripts, batches of changes, waiting consumers, ids
//! and receipts. It knows no codecs and no names of objects.
//!
//! This crate is not for applications. Its interface changes with the crates that are built on it,
//! such as `redgrid-reliable-queue`.

#![cfg_attr(docsrs, feature(doc_cfg))]

mod batch;
pub mod body;
mod counts;
mod keys;
mod message;
mod page;
mod receivers;
mod request;
mod settings;
mod trace;
mod work_client;

pub use batch::{Change, ChangeReply, receipt_change};
pub use counts::{Counts, Totals, parse_counts};
pub use keys::Keys;
pub use message::{InvalidId, MessageGroup, MessageId, MessageState, Receipt, parse_millis, parse_state};
pub use page::{MessagePage, MessageSummary, parse_page};
pub use receivers::{Granted, Polled, ReceiveRequest, Received, Receivers};
pub use request::{MAX_MESSAGES, MessageRequest, ReceivedMessage, millis};
pub use settings::{delay_of, reason_of, visibility_of};
pub use trace::{Propagator, TraceContext, TracePropagator};
pub use work_client::WorkClient;
