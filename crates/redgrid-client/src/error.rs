//! The errors of one request to one server. The errors of objects contain these errors.

use std::borrow::Cow;
use std::fmt;

/// The reason why a request failed. Each variant says whether the server can have executed the
/// request.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum ServerError {
    /// The request never left this process, so the server did not execute it.
    #[error("not sent: {reason}")]
    NotSent {
        /// The reason. The error message ends with this text.
        reason: Cow<'static, str>,
    },
    /// The server answered with an error, or the request has an argument that is too large for
    /// servers ([`Code::TooLarge`]). The request was not executed.
    #[error("the server refused: {message}")]
    Refused {
        /// The class of the refusal.
        code: Code,
        /// The server's message.
        message: String,
    },
    /// The server rejects the client's login (WRONGPASS, NOAUTH) or certificate, or the client
    /// rejects the server's certificate.
    ///
    /// The request was not executed. The client keeps trying to connect, but can succeed only after
    /// the password, the user or the certificate was changed.
    #[error("not authorized: {message}")]
    Unauthorized {
        /// The server's message, or the reason why the certificate is rejected.
        message: String,
    },
    /// The client was shut down. The request never left this process.
    #[error("the client is shut down")]
    ShuttingDown,
    /// The request may have been sent, and no reply arrived. The server may have executed it, or
    /// may still execute it later.
    #[error("no answer: {reason}")]
    Unknown {
        /// The reason. The error message ends with this text.
        reason: Cow<'static, str>,
    },
    /// The request was executed, but its reply is not what the caller expected.
    #[error("unexpected reply: expected {expected}, got {got}")]
    Decode {
        /// The expected type.
        expected: &'static str,
        /// The reply.
        got: String,
    },
}

impl ServerError {
    /// Creates the error of a request that was not sent.
    #[doc(hidden)]
    pub fn not_sent(reason: impl Into<Cow<'static, str>>) -> Self {
        ServerError::NotSent { reason: reason.into() }
    }

    /// Creates the error of a request that may have been executed.
    #[doc(hidden)]
    pub fn unknown(reason: impl Into<Cow<'static, str>>) -> Self {
        ServerError::Unknown { reason: reason.into() }
    }

    /// Creates the error of a request that the server refused with this message.
    #[doc(hidden)]
    pub fn refused(message: impl Into<String>) -> Self {
        let message = message.into();
        match LOGIN_REFUSALS.iter().any(|text| message.starts_with(text)) {
            true => ServerError::Unauthorized { message },
            false => ServerError::Refused { code: Code::of(&message), message },
        }
    }

    /// Returns the class of the refusal; `None` for other errors, and for a refused login whose
    /// message has no known class.
    pub fn code(&self) -> Option<Code> {
        match self {
            ServerError::Refused { code, .. } => Some(*code),
            ServerError::Unauthorized { message } => Some(Code::of(message)).filter(|code| *code != Code::Other),
            _ => None,
        }
    }

    /// Converts the error of a request into the error that an object returns to its caller.
    ///
    /// A [`Code::WrongType`] error gets a new message, which explains that the key stores a value
    /// of another type. The server's own message may point to a line of a script.
    pub fn of_object(self) -> Self {
        match self {
            ServerError::Refused { code: code @ Code::WrongType, .. } => {
                let message =
                    "WRONGTYPE the key holds a value of another type: the name of an object is its key".into();
                ServerError::Refused { code, message }
            }
            other => other,
        }
    }

    /// Returns whether the request was certainly not executed.
    pub fn is_not_done(&self) -> bool {
        !matches!(self, ServerError::Unknown { .. } | ServerError::Decode { .. })
    }

    /// Returns whether the error is [`NotSent`](Self::NotSent),
    /// [`ShuttingDown`](Self::ShuttingDown) or [`Unauthorized`](Self::Unauthorized).
    pub fn is_not_sent(&self) -> bool {
        matches!(self, ServerError::NotSent { .. } | ServerError::Unauthorized { .. } | ServerError::ShuttingDown)
    }

    /// Returns whether the server refused an addition because the sum is outside the range of
    /// numbers that servers support.
    pub fn is_overflow(&self) -> bool {
        let ServerError::Refused { code: Code::Other, message } = self else { return false };
        OVERFLOW_MESSAGES.iter().any(|text| message.contains(text))
    }

    /// Returns whether the server does not know the request's command or subcommand, or a command
    /// that the request's script calls.
    pub fn is_unknown_command(&self) -> bool {
        let ServerError::Refused { code: Code::Other, message } = self else { return false };
        let unknown = ["nknown command", "nknown subcommand", "nknown Redis command", "nknown Valkey command"];
        unknown.iter().any(|text| message.contains(text))
    }

    /// Returns whether the request may have been executed although no reply arrived.
    pub fn is_unknown(&self) -> bool {
        matches!(self, ServerError::Unknown { .. })
    }
}

/// Beginnings of the messages with which a server refuses or requires a login. The word `NOAUTH`
/// alone is not enough, because a script's own error may begin with it, too.
const LOGIN_REFUSALS: [&str; 3] = ["NOAUTH Authentication required", "NOAUTH HELLO must be called", "WRONGPASS "];

/// Converts the error of a request's last transmission, after an earlier transmission of the same
/// request was not answered.
///
/// If the last transmission was not executed, the result is [`ServerError::Unknown`], because the
/// earlier transmission may have been executed. Otherwise the result is `error`.
pub fn after_unanswered(error: ServerError) -> ServerError {
    match error.is_not_done() {
        true => ServerError::unknown(format!("an earlier copy may have been executed; then {error}")),
        false => error,
    }
}

/// Parts of the messages with which a server refuses an addition: one for integers, and one for
/// floating-point numbers.
const OVERFLOW_MESSAGES: [&str; 2] = ["would overflow", "would produce NaN or Infinity"];

/// The class of a refusal: the first word of a Redis error, even if a script has wrapped the error.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum Code {
    /// The script is not in the server's cache.
    NoScript,
    /// The server is a replica and takes no writes.
    ReadOnly,
    /// The server is reading its data from disk.
    Loading,
    /// The slot belongs to another node.
    Moved,
    /// The slot is being migrated to another node.
    Ask,
    /// The keys of the request are on both sides of a slot migration.
    TryAgain,
    /// The cluster does not serve the slot at the moment.
    ClusterDown,
    /// The replica has lost its primary.
    MasterDown,
    /// A script of any client has been running for too long, or the server has too many clients.
    Busy,
    /// The server is out of memory.
    OutOfMemory,
    /// The server cannot persist its data, and is configured to refuse writes in that case.
    MisConf,
    /// The server has fewer replicas than it is configured to need.
    NoReplicas,
    /// The key holds a value of another type.
    WrongType,
    /// The user has no permission.
    NoPermission,
    /// The connection is not authenticated.
    NoAuth,
    /// The password is wrong.
    WrongPass,
    /// The keys of the request are in different slots.
    CrossSlot,
    /// An argument is above the server's limit of 512 MiB. The request was not sent.
    TooLarge,
    /// Any other error.
    Other,
}

/// First words of Redis errors, with their class. If several words have the same class, `Display`
/// shows the first of them, so `BUSY` must precede `UNKILLABLE`.
const CODES: [(&str, Code); 18] = [
    ("NOSCRIPT", Code::NoScript),
    ("READONLY", Code::ReadOnly),
    ("LOADING", Code::Loading),
    ("MOVED", Code::Moved),
    ("ASK", Code::Ask),
    ("TRYAGAIN", Code::TryAgain),
    ("CLUSTERDOWN", Code::ClusterDown),
    ("MASTERDOWN", Code::MasterDown),
    ("BUSY", Code::Busy),
    ("OOM", Code::OutOfMemory),
    ("MISCONF", Code::MisConf),
    ("NOREPLICAS", Code::NoReplicas),
    ("WRONGTYPE", Code::WrongType),
    ("NOPERM", Code::NoPermission),
    ("NOAUTH", Code::NoAuth),
    ("WRONGPASS", Code::WrongPass),
    ("CROSSSLOT", Code::CrossSlot),
    ("UNKILLABLE", Code::Busy),
];

impl Code {
    /// Returns the class of a server's error message.
    ///
    /// Since Redis 7.0, an error inside a script begins with the word of its class. Earlier
    /// versions use the form `ERR Error running script (…): @user_script:3: -READONLY …`, or have
    /// the word elsewhere in the message. All of these forms are recognized.
    pub fn of(message: &str) -> Code {
        let code = |word: &str| {
            let word = word.trim_start_matches('-');
            CODES.iter().find(|(known, _)| *known == word).map(|(_, code)| *code)
        };
        let mut words = message.split([' ', ':']);
        if let Some(code) = words.next().and_then(code) {
            return code;
        }
        if message.contains("script") {
            if let Some(code) = words.find_map(code) {
                return code;
            }
            // Some servers report a denied command or key inside a script by these messages,
            // without the word `NOPERM`.
            if message.contains("The user executing the script can't") || message.contains("ACL failure") {
                return Code::NoPermission;
            }
        }
        if message.starts_with("ERR max number of clients") {
            return Code::Busy;
        }
        Code::Other
    }

    /// Returns whether the condition is temporary: the server may accept the same request a little
    /// later without any intervention.
    pub fn is_passing(self) -> bool {
        matches!(
            self,
            Code::ReadOnly
                | Code::Loading
                | Code::TryAgain
                | Code::ClusterDown
                | Code::MasterDown
                | Code::Busy
                | Code::Moved
                | Code::Ask
                | Code::NoReplicas
        )
    }
}

impl fmt::Display for Code {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let word = CODES.iter().find(|(_, code)| code == self).map_or("ERR", |(word, _)| word);
        f.write_str(word)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_class_is_read_in_front_and_inside_a_script_error() {
        let cases = [
            ("WRONGTYPE Operation against a key holding the wrong kind of value", Code::WrongType),
            ("WRONGTYPE Operation against a key … script: 41a4…, on @user_script:3.", Code::WrongType),
            (
                "ERR Error running script (call to f_41a4): @user_script:3: WRONGTYPE Operation against a key",
                Code::WrongType,
            ),
            ("ERR Error running script (call to f_1): @user_script: 5: -READONLY You can't write", Code::ReadOnly),
            (
                "ERR Error running script (call to f_1): @user_script:2: The user executing the script can't run this \
                 command or subcommand: ACL failure in script",
                Code::NoPermission,
            ),
            ("ERR The user executing the script can't run this command or subcommand", Code::NoPermission),
            ("OOM command not allowed when used memory > 'maxmemory'.", Code::OutOfMemory),
            ("MOVED 3999 127.0.0.1:6381", Code::Moved),
            ("NOSCRIPT No matching script. Please use EVAL.", Code::NoScript),
            ("ERR unknown command 'FOO'", Code::Other),
        ];
        for (message, code) in cases {
            assert_eq!(Code::of(message), code, "{message}");
        }
    }
}
