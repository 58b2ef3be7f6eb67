//! The access token, and the cookie for which a browser exchanges it.

use std::fmt;

use base64::Engine as _;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use ring::hmac;
use ring::rand::{SecureRandom, SystemRandom};

/// How long a cookie is valid: 12 h, a working day.
pub(crate) const COOKIE_LIFETIME_S: u64 = 12 * 60 * 60;

/// Shortest token: 16 bytes. A cookie allows to try tokens without the server, so a token must not
/// be guessable.
const SHORTEST: usize = 16;

/// Longest token: 512 bytes, so that a comparison is cheap.
pub(crate) const LONGEST: usize = 512;

/// Random bytes of a generated token: 24, which are 32 characters.
const RANDOM: usize = 24;

/// The secret with which operators log in.
///
/// A browser sends it once, in the login form, and gets a cookie that is valid for 12 h. Scripts
/// send it with each request, in the header `Authorization: Bearer …`. Comparisons take the same
/// time for every wrong token.
#[derive(Clone)]
pub struct AccessToken {
    text: String,
    key: hmac::Key,
}

/// The token cannot be used: it is too short, too long, or not printable ASCII.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error(
    "the token has {length} characters; expected {SHORTEST} to {LONGEST} printable ASCII characters without spaces"
)]
pub struct WeakToken {
    length: usize,
}

impl AccessToken {
    /// Creates it from its text; white space around it is removed.
    ///
    /// # Errors
    ///
    /// [`WeakToken`] unless it has 16 to 512 printable ASCII characters without spaces.
    pub fn new(text: impl AsRef<str>) -> Result<Self, WeakToken> {
        let text = text.as_ref().trim();
        let is_printable = text.bytes().all(|byte| byte.is_ascii_graphic());
        if !is_printable || !(SHORTEST..=LONGEST).contains(&text.len()) {
            return Err(WeakToken { length: text.chars().count() });
        }
        // The key of the cookies depends on the token only: several processes behind one address
        // accept each other's cookies, and a new token ends the old cookies.
        let key = hmac::Key::new(hmac::HMAC_SHA256, text.as_bytes());
        Ok(AccessToken { text: text.to_owned(), key })
    }

    /// Generates a token of 32 random characters.
    ///
    /// # Panics
    ///
    /// Panics if the operating system has no random numbers.
    pub fn generate() -> Self {
        let mut random = [0; RANDOM];
        SystemRandom::new().fill(&mut random).expect("the operating system has random numbers");
        let text = URL_SAFE_NO_PAD.encode(random);
        let key = hmac::Key::new(hmac::HMAC_SHA256, text.as_bytes());
        AccessToken { text, key }
    }

    /// Returns its text, to print it.
    pub fn reveal(&self) -> &str {
        &self.text
    }

    /// Returns whether this is the token, in a time that does not depend on the position of the
    /// first difference.
    pub(crate) fn is(&self, given: &str) -> bool {
        given.len() <= LONGEST && hmac::verify(&self.key, given.as_bytes(), self.own_tag().as_ref()).is_ok()
    }

    fn own_tag(&self) -> hmac::Tag {
        hmac::sign(&self.key, self.text.as_bytes())
    }

    /// Returns the name of the cookie. It depends on the token, because browsers send the cookies
    /// of one host to all its ports: two consoles on one host do not replace each other's cookies.
    pub(crate) fn cookie_name(&self) -> String {
        let tag = hmac::sign(&self.key, b"redgrid console cookie name");
        let digits: String = tag.as_ref().iter().take(4).map(|byte| format!("{byte:02x}")).collect();
        format!("redgrid_console_{digits}")
    }

    /// Returns the value of a cookie that is valid from now on, in seconds since 1970.
    pub(crate) fn cookie(&self, now_s: u64) -> String {
        let body = format!("1.{now_s}.{}", now_s.saturating_add(COOKIE_LIFETIME_S));
        let tag = hmac::sign(&self.key, signed(&body).as_bytes());
        format!("{body}.{}", URL_SAFE_NO_PAD.encode(tag))
    }

    /// Returns until when a cookie is valid, in seconds since 1970; `None` if it is not.
    pub(crate) fn valid_until(&self, cookie: &str, now_s: u64) -> Option<u64> {
        let (body, tag) = cookie.rsplit_once('.')?;
        let tag = URL_SAFE_NO_PAD.decode(tag).ok()?;
        hmac::verify(&self.key, signed(body).as_bytes(), &tag).ok()?;
        let mut parts = body.split('.');
        let is_known = parts.next() == Some("1");
        let start: u64 = parts.next()?.parse().ok()?;
        let end: u64 = parts.next()?.parse().ok()?;
        // A start in the future is a clock that was set back, at most for the lifetime.
        (is_known && now_s < end && end.saturating_sub(start) <= COOKIE_LIFETIME_S).then_some(end)
    }
}

/// Returns the signed text. Its prefix differs from every token, which has no space.
fn signed(body: &str) -> String {
    format!("redgrid console cookie {body}")
}

/// Never shows the token.
impl fmt::Debug for AccessToken {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("AccessToken(***)")
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_token_is_compared_as_a_whole() {
        let token = AccessToken::new(" 0123456789abcdef\n").unwrap();
        assert!(token.is("0123456789abcdef"));
        for wrong in ["", "0123456789abcde", "0123456789abcdef0", "0123456789abcdeF", &"0".repeat(10_000)] {
            assert!(!token.is(wrong), "{wrong}");
        }
        assert_eq!(format!("{token:?}"), "AccessToken(***)");
    }

    #[test]
    fn a_weak_token_is_refused() {
        for weak in ["", "short", "has a space in the middle", "schön0123456789ab", &"x".repeat(513)] {
            let error = AccessToken::new(weak).unwrap_err();
            assert!(error.to_string().contains("expected 16 to 512"), "{error}");
        }
    }

    #[test]
    fn generated_tokens_differ_and_can_be_used() {
        let token = AccessToken::generate();
        assert_eq!(token.reveal().len(), 32);
        assert_ne!(token.reveal(), AccessToken::generate().reveal());
        assert!(AccessToken::new(token.reveal()).unwrap().is(token.reveal()));
    }

    #[test]
    fn a_cookie_ends_and_cannot_be_changed() {
        let token = AccessToken::new("0123456789abcdef").unwrap();
        let cookie = token.cookie(1_000);
        assert_eq!(token.valid_until(&cookie, 1_000), Some(1_000 + COOKIE_LIFETIME_S));
        assert_eq!(token.valid_until(&cookie, 1_000 + COOKIE_LIFETIME_S - 1), Some(1_000 + COOKIE_LIFETIME_S));
        assert_eq!(token.valid_until(&cookie, 1_000 + COOKIE_LIFETIME_S), None);
        let longer = cookie.replacen("44200", "99999", 1);
        assert_ne!(longer, cookie);
        assert_eq!(token.valid_until(&longer, 1_000), None);
        let other = AccessToken::new("fedcba9876543210").unwrap();
        assert_eq!(token.cookie_name(), AccessToken::new("0123456789abcdef").unwrap().cookie_name());
        assert_ne!(token.cookie_name(), other.cookie_name());
        assert_eq!(other.valid_until(&cookie, 1_000), None);
        for garbage in ["", ".", "1.2.3", "1.2.3.", "…", &token.own_tag().as_ref().escape_ascii().to_string()] {
            assert_eq!(token.valid_until(garbage, 1_000), None, "{garbage}");
        }
    }
}
