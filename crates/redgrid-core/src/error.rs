//! What one request to one server can end in, and nothing else. Each object has errors of its own above these.

use std::borrow::Cow;
use std::fmt;

/// How a request failed. The variants differ in what is true on the server now.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum ServerError {
    /// The request never left this process. Nothing happened on the server.
    #[error("not sent: {reason}")]
    NotSent {
        /// Why, in a clause.
        reason: Cow<'static, str>,
    },
    /// The server answered with an error. The request was not carried out.
    #[error("the server refused: {message}")]
    Refused {
        /// The class of the refusal.
        code: Code,
        /// The server's own words.
        message: String,
    },
    /// The server does not accept this client (WRONGPASS, NOAUTH), or one of both refuses the
    /// other's certificate. The request was not carried out. The client goes on trying; only a
    /// change of password, user or certificate helps.
    #[error("not authorized: {message}")]
    Unauthorized {
        /// The words of the server, or what is wrong with the certificate.
        message: String,
    },
    /// The client was shut down. The request never left this process.
    #[error("the client is shut down")]
    ShuttingDown,
    /// The request may have left, and no answer came. It may be carried out, now or later.
    #[error("no answer: {reason}")]
    Unknown {
        /// Why, in a clause.
        reason: Cow<'static, str>,
    },
    /// The request was carried out, and the answer is not what the caller expected.
    #[error("unexpected reply: expected {expected}, got {got}")]
    Decode {
        /// What would have fitted.
        expected: &'static str,
        /// What came.
        got: String,
    },
}

impl ServerError {
    pub(crate) fn not_sent(reason: impl Into<Cow<'static, str>>) -> Self {
        ServerError::NotSent { reason: reason.into() }
    }

    pub(crate) fn unknown(reason: impl Into<Cow<'static, str>>) -> Self {
        ServerError::Unknown { reason: reason.into() }
    }

    pub(crate) fn refused(message: impl Into<String>) -> Self {
        let message = message.into();
        match LOGIN_REFUSED.iter().any(|words| message.starts_with(words)) {
            true => ServerError::Unauthorized { message },
            false => ServerError::Refused { code: Code::of(&message), message },
        }
    }

    /// The class of the refusal, if the server refused.
    pub fn code(&self) -> Option<Code> {
        match self {
            ServerError::Refused { code, .. } => Some(*code),
            ServerError::Unauthorized { message } => Some(Code::of(message)).filter(|code| *code != Code::Other),
            _ => None,
        }
    }

    /// This error for the caller of an object. Where the key holds another type, it says so,
    /// instead of the place in a script.
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

    /// Whether the request certainly was not carried out.
    pub fn is_not_done(&self) -> bool {
        match self {
            ServerError::NotSent { .. }
            | ServerError::Refused { .. }
            | ServerError::Unauthorized { .. }
            | ServerError::ShuttingDown => true,
            ServerError::Unknown { .. } | ServerError::Decode { .. } => false,
        }
    }

    /// Whether the request never left this process, or was stopped by the login.
    pub fn is_not_sent(&self) -> bool {
        matches!(self, ServerError::NotSent { .. } | ServerError::Unauthorized { .. } | ServerError::ShuttingDown)
    }

    /// Whether the server refused a sum for being beyond its numbers.
    pub fn is_overflow(&self) -> bool {
        let ServerError::Refused { code: Code::Other, message } = self else { return false };
        OVERFLOW.iter().any(|words| message.contains(words))
    }

    /// Whether the server does not know a command, or a subcommand, that was sent or that a script calls.
    pub fn is_unknown_command(&self) -> bool {
        let ServerError::Refused { code: Code::Other, message } = self else { return false };
        let unknown = ["nknown command", "nknown subcommand", "nknown Redis command", "nknown Valkey command"];
        unknown.iter().any(|words| message.contains(words))
    }

    /// Whether the request may have been carried out although no answer came.
    pub fn is_unknown(&self) -> bool {
        matches!(self, ServerError::Unknown { .. })
    }
}

/// First words of a server that does not accept a login, or wants one. A script's own error may
/// begin with `NOAUTH` alone.
const LOGIN_REFUSED: [&str; 3] = ["NOAUTH Authentication required", "NOAUTH HELLO must be called", "WRONGPASS "];

/// The words by which a server refuses a sum that is beyond its numbers: whole ones, and those with a fraction.
const OVERFLOW: [&str; 2] = ["would overflow", "would produce NaN or Infinity"];

/// The class of a refusal: the first word of a Redis error, also where a script wraps it in words of its own.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum Code {
    /// The script is not in the server's cache.
    NoScript,
    /// The server is a replica and takes no writes.
    ReadOnly,
    /// The server is reading its data from disk.
    Loading,
    /// The slot lives on another node.
    Moved,
    /// The slot is on its way to another node.
    Ask,
    /// The keys of the request are on both sides of a slot migration.
    TryAgain,
    /// The cluster does not serve the slot at the moment.
    ClusterDown,
    /// The replica has lost its primary.
    MasterDown,
    /// A script of somebody is running for too long.
    Busy,
    /// The server has no memory left.
    OutOfMemory,
    /// The server can not persist, and is configured to refuse writes then.
    MisConf,
    /// The server has fewer replicas than it is configured to need.
    NoReplicas,
    /// The key holds another type.
    WrongType,
    /// The user may not do this.
    NoPermission,
    /// The connection is not authenticated.
    NoAuth,
    /// The password is wrong.
    WrongPass,
    /// The keys of the request are in different slots.
    CrossSlot,
    /// An argument is larger than servers take, 512 MiB. It was not sent.
    TooLarge,
    /// Anything else.
    Other,
}

/// First words of Redis errors, and their class. The order matters only for errors wrapped by scripts.
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
    /// Reads the class off a server's error message.
    ///
    /// Before 7.0 an error inside a script arrives as `ERR Error running script (…): @user_script:3: -READONLY …` or
    /// with the word in the middle; 7.0 keeps the word in front. Both are recognised.
    pub fn of(message: &str) -> Code {
        let first = message.split([' ', ':']).next().unwrap_or_default().trim_start_matches('-');
        if let Some((_, code)) = CODES.iter().find(|(word, _)| *word == first) {
            return *code;
        }
        if message.contains("script") {
            let inside = message.split([' ', ':']).map(|word| word.trim_start_matches('-'));
            for word in inside {
                if let Some((_, code)) = CODES.iter().find(|(known, _)| *known == word) {
                    return *code;
                }
            }
            // What servers say inside a script for a denied command or key; it has no first word there.
            if message.contains("The user executing the script can't") || message.contains("ACL failure") {
                return Code::NoPermission;
            }
        }
        if message.starts_with("ERR max number of clients") {
            return Code::Busy;
        }
        Code::Other
    }

    /// Whether the same request may well be accepted a little later, without anybody changing it.
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
