//! What fred gives, as replies and errors of ours.

use fred::prelude::{Error as FredError, ErrorKind, Value};
use fred::types::Resp3Frame;

use crate::connection::Reply;
use crate::connection::trouble::readable;
use crate::error::{Code, ServerError};

/// A server's error as a pipeline gives it: not as a frame, and not told apart from those of fred.
pub(super) fn refusal(error: &FredError) -> Option<ServerError> {
    let refused = ServerError::refused(error.details());
    match refused.code() {
        // fred says so to all that were in flight with the one that was told.
        Some(Code::ClusterDown) => None,
        // fred has no kind for these, and no words of its own that begin so.
        Some(Code::Other) => {
            (*error.kind() == ErrorKind::Unknown && begins_with_code(error.details())).then_some(refused)
        }
        _ => Some(refused),
    }
}

/// Whether the first word is one as errors of servers and scripts begin with: `ERR`, `SOLDOUT`.
pub(super) fn begins_with_code(details: &str) -> bool {
    let is_of_code = |c: char| c.is_ascii_uppercase() || c.is_ascii_digit() || c == '_' || c == '-';
    details.split_once(' ').is_some_and(|(word, _)| word.len() > 1 && word.chars().all(is_of_code))
}

/// Whether the server wants a login before anything else, in its own words: a script has words of its own.
pub(in crate::connection) fn wants_login(error: &ServerError) -> bool {
    matches!(error, ServerError::Unauthorized { message } if message.starts_with("NOAUTH Authentication required"))
}

/// Whether the server takes no writes, in its own words.
pub(super) fn is_read_only(error: &ServerError) -> bool {
    let words = "READONLY You can't write against a read only";
    matches!(error, ServerError::Refused { message, .. } if message.contains(words))
}

pub(super) fn from_value(value: Value) -> Reply {
    match value {
        Value::Null | Value::Queued => Reply::Nil,
        Value::Integer(n) => Reply::Int(n),
        Value::Double(x) => Reply::Double(x),
        Value::Boolean(truth) => Reply::Bool(truth),
        Value::String(text) => Reply::Bytes(text.into_inner()),
        Value::Bytes(bytes) => Reply::Bytes(bytes),
        Value::Array(items) => Reply::Array(items.into_iter().map(from_value).collect()),
        Value::Map(map) => {
            let pairs = map.inner().into_iter();
            Reply::Map(pairs.map(|(key, value)| (Reply::Bytes(key.into_bytes()), from_value(value))).collect())
        }
    }
}

/// What a failure inside fred means for the request, sent to the node `place`.
pub(super) fn classify(error: &FredError, place: &str) -> ServerError {
    let details = error.details();
    let words = || format!("{} (at {place})", readable(details));
    match error.kind() {
        // The text of fred's check before sending; the same kind with other words is given to requests in flight.
        ErrorKind::Canceled if details == "Connection closed unexpectedly." => {
            ServerError::not_sent(format!("no connection to {place}"))
        }
        ErrorKind::Backpressure => {
            ServerError::not_sent(format!("too many requests wait for the connection to {place}"))
        }
        ErrorKind::Unknown
            if details == "Client is not initialized." || details == "Failed to send command to router." =>
        {
            ServerError::not_sent(format!("no connection to {place}"))
        }
        ErrorKind::InvalidArgument | ErrorKind::InvalidCommand | ErrorKind::Config => ServerError::not_sent(words()),
        // The server's own words stay in front: they say that it was the cluster.
        _ => ServerError::unknown(words()),
    }
}

/// The value of a field in the text of INFO; empty when it is not there.
pub(in crate::connection) fn info_field<'a>(info: &'a str, field: &str) -> &'a str {
    let value = |line: &'a str| line.strip_prefix(field)?.strip_prefix(':');
    info.lines().find_map(value).unwrap_or_default().trim()
}

pub(super) fn into_reply(frame: Resp3Frame) -> Reply {
    match frame {
        Resp3Frame::BlobString { data, .. }
        | Resp3Frame::SimpleString { data, .. }
        | Resp3Frame::BigNumber { data, .. }
        | Resp3Frame::VerbatimString { data, .. } => Reply::Bytes(data),
        Resp3Frame::ChunkedString(data) => Reply::Bytes(data),
        Resp3Frame::SimpleError { data, .. } => Reply::Error(ServerError::refused(&*data)),
        Resp3Frame::BlobError { data, .. } => {
            Reply::Error(ServerError::refused(String::from_utf8_lossy(&data).into_owned()))
        }
        Resp3Frame::Boolean { data, .. } => Reply::Bool(data),
        Resp3Frame::Null | Resp3Frame::Hello { .. } => Reply::Nil,
        Resp3Frame::Number { data, .. } => Reply::Int(data),
        Resp3Frame::Double { data, .. } => Reply::Double(data),
        Resp3Frame::Array { data, .. } | Resp3Frame::Push { data, .. } => {
            Reply::Array(data.into_iter().map(into_reply).collect())
        }
        Resp3Frame::Set { data, .. } => Reply::Array(data.into_iter().map(into_reply).collect()),
        Resp3Frame::Map { data, .. } => {
            Reply::Map(data.into_iter().map(|(k, v)| (into_reply(k), into_reply(v))).collect())
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_field_of_info_is_found_by_its_whole_name() {
        let info = "# Replication\r\nrole:master\r\nmaster_replid2:0000\r\nmaster_replid:ab12\r\n";
        assert_eq!(info_field(info, "master_replid"), "ab12");
        assert_eq!(info_field(info, "role"), "master");
        assert_eq!(info_field(info, "run_id"), "");
    }

    #[test]
    fn what_a_server_refused_in_a_pipeline_is_refused_and_not_unknown() {
        let refused = |kind, details: &'static str| refusal(&FredError::new(kind, details)).and_then(|it| it.code());
        let arity = "ERR wrong number of arguments for 'set' command";
        assert_eq!(refused(ErrorKind::Unknown, arity), Some(Code::Other));
        assert_eq!(refused(ErrorKind::Unknown, "OOM command not allowed"), Some(Code::OutOfMemory));
        assert_eq!(refused(ErrorKind::Unknown, "SOLDOUT none left"), Some(Code::Other));
        for (kind, details) in [
            (ErrorKind::Unknown, "Too many failed write attempts."),
            (ErrorKind::Cluster, "CLUSTERDOWN The cluster is down"),
            (ErrorKind::IO, "ERR closed"),
            (ErrorKind::Unknown, "No connections are blocked."),
            (ErrorKind::Unknown, "Missing response."),
        ] {
            assert_eq!(refused(kind, details), None, "{details}");
        }
    }

    #[test]
    fn only_what_certainly_did_not_leave_counts_as_not_sent() {
        let class = |kind, details: &'static str| classify(&FredError::new(kind, details), "db:6379");
        let not_sent = [
            (ErrorKind::Canceled, "Connection closed unexpectedly."),
            (ErrorKind::Backpressure, "Max in-flight commands reached."),
            (ErrorKind::Unknown, "Client is not initialized."),
        ];
        for (kind, details) in not_sent {
            assert!(matches!(class(kind, details), ServerError::NotSent { .. }), "{details}");
        }
        let unknown = [
            (ErrorKind::Canceled, "Canceled."),
            (ErrorKind::IO, "Connection closed."),
            (ErrorKind::Timeout, "Request timed out."),
            (ErrorKind::Unknown, "Too many failed write attempts."),
            (ErrorKind::Cluster, "CLUSTERDOWN The cluster is down"),
        ];
        for (kind, details) in unknown {
            assert!(class(kind, details).is_unknown(), "{details}");
        }
    }
}
