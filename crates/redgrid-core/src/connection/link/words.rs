//! Texts of servers: errors and INFO.

use crate::error::ServerError;

/// Returns whether the server requires a login, by its own error text: a script may raise other
/// errors.
pub(in crate::connection) fn wants_login(error: &ServerError) -> bool {
    matches!(error, ServerError::Unauthorized { message } if message.starts_with("NOAUTH Authentication required"))
}

/// Returns whether the server rejects writes, by its own error text.
pub(super) fn is_read_only(error: &ServerError) -> bool {
    let words = "READONLY You can't write against a read only";
    matches!(error, ServerError::Refused { message, .. } if message.contains(words))
}

/// Returns the value of a field in the text of INFO; empty if it is missing.
pub(in crate::connection) fn info_field<'a>(info: &'a str, field: &str) -> &'a str {
    let value = |line: &'a str| line.strip_prefix(field)?.strip_prefix(':');
    info.lines().find_map(value).unwrap_or_default().trim()
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
}
