//! Interprets texts of servers: error messages and INFO.

use crate::error::ServerError;

/// Returns whether the error says that the server requires a login.
///
/// The beginning of the message is compared, not only the code, because a script may raise an error
/// with the same code.
pub(crate) fn wants_login(error: &ServerError) -> bool {
    matches!(error, ServerError::Unauthorized { message } if message.starts_with("NOAUTH Authentication required"))
}

/// Returns whether the error says that the server accepts no writes. The text is compared, not only
/// the code, for the same reason as in [`wants_login`].
pub(super) fn is_read_only(error: &ServerError) -> bool {
    let text = "READONLY You can't write against a read only";
    matches!(error, ServerError::Refused { message, .. } if message.contains(text))
}

/// Returns the value of a field in the text of INFO; empty if the field is missing.
pub(crate) fn info_field<'a>(info: &'a str, field: &str) -> &'a str {
    let value = |line: &'a str| line.strip_prefix(field)?.strip_prefix(':');
    info.lines().find_map(value).unwrap_or_default().trim()
}

/// Returns whether the error says that the server does not know RESP3 or HELLO, or forbids HELLO.
///
/// Returns false for all other errors, even if they mention HELLO, as the error of a missing login
/// does.
pub(super) fn refuses_resp3(why: &str) -> bool {
    let is = |code: &str| why.split(' ').next() == Some(code);
    let names_hello = why.to_ascii_lowercase().contains("hello");
    match () {
        () if is("NOPROTO") => true,
        () if is("NOAUTH") || is("WRONGPASS") => false,
        // The error concerns another set-up command, such as SELECT. Even so, its text can contain
        // `hello`, as the name of a user or as an argument.
        () if quoted_command(why).is_some_and(|name| !name.eq_ignore_ascii_case("hello")) => false,
        () => names_hello && (is("ERR") || is("NOPERM")) || UNKNOWN.iter().any(|text| why.starts_with(text)),
    }
}

/// Returns the name of a command from an error's text: the quoted word next to the word `command`.
fn quoted_command(why: &str) -> Option<&str> {
    const QUOTES: [char; 3] = ['\'', '`', '"'];
    let (before, end) = without_arguments(why).rsplit_once(QUOTES)?;
    let (start, name) = before.rsplit_once(QUOTES)?;
    (start.ends_with("command ") || end.starts_with(" command")).then_some(name)
}

/// Beginnings of the errors that proxies send for unknown commands. Such an error may omit the name
/// of the command.
const UNKNOWN: [&str; 3] = ["ERR unknown command", "ERR unsupported command", "invalid request"];

/// Returns a server's error without the arguments of the command.
///
/// The error for an unknown command repeats the arguments of that command. The arguments of HELLO
/// and AUTH contain passwords.
pub(super) fn without_arguments(error: &str) -> &str {
    error.split_once(", with args").map_or(error, |(error, _)| error)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_refusal_of_the_protocol_is_distinguished_from_other_errors() {
        for why in [
            "ERR unknown command 'HELLO', with args beginning with: '3' 'AUTH' 'default' 'hunter2' ",
            "ERR unknown command `HELLO`, with args beginning with: `3`, ",
            "ERR unknown command",
            "ERR unsupported command 'hello'",
            "NOPROTO unsupported protocol version",
            "NOPERM this user has no permissions to run the 'hello' command",
            "NOPERM User app has no permissions to run the 'hello' command",
            "ERR unknown command \"HELLO\"",
            "ERR Syntax error in HELLO option 'auth'",
        ] {
            assert!(refuses_resp3(why) && !without_arguments(why).contains("hunter2"), "{why}");
        }
        for why in [
            "NOAUTH HELLO must be called with the client already authenticated",
            "WRONGPASS invalid username-password pair or user is disabled.",
            "LOADING Redis is loading the dataset in memory",
            "ERR max number of clients reached",
            "ERR unknown command 'SELECT', with args beginning with: '3' ",
            "ERR unknown command `SELECT`, with args beginning with: `hello`, ",
            "ERR unsupported command 'select'",
            "NOPERM User hello has no permissions to run the 'select' command",
            "Connection refused",
            "unexpected end of file",
        ] {
            assert!(!refuses_resp3(why), "{why}");
        }
    }

    #[test]
    fn a_field_of_info_is_found_by_its_whole_name() {
        let info = "# Replication\r\nrole:master\r\nmaster_replid2:0000\r\nmaster_replid:ab12\r\n";
        assert_eq!(info_field(info, "master_replid"), "ab12");
        assert_eq!(info_field(info, "role"), "master");
        assert_eq!(info_field(info, "run_id"), "");
    }
}
