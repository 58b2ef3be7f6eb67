//! Rate limiters.

use std::time::Duration;

use bytes::Bytes;
use redgrid_core::Name;
use redgrid_core::object::layouts;

use crate::error::InspectError;
use crate::inspector::Inspector;
use crate::scripts::LIMITER;

/// A `RateLimiter` as the server sees it.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub struct LimiterView {
    /// The name, without the namespace.
    pub name: String,
    /// The number of permits in each interval.
    pub rate: u64,
    /// The interval.
    pub interval: Duration,
    /// Whether each client has this rate for itself. Then the next three values are not known.
    pub is_per_client: bool,
    /// The number of permits that are free now. `None` if the server has not counted them.
    pub free: Option<u64>,
    /// The time until the next permits become free. `None` if all are free.
    pub next_free_in: Option<Duration>,
    /// The number of entries in the log of taken permits.
    pub log_len: Option<u64>,
    /// The time after its last use at which it is deleted. `None` if it is kept.
    pub keep_alive: Option<Duration>,
    /// The remaining lifetime of its key. `None` if it has none.
    pub lifetime: Option<Duration>,
}

impl Inspector {
    /// Reads a `RateLimiter`; `None` if it does not exist. A `GcraLimiter` does not store its rate,
    /// so it cannot be read.
    ///
    /// At most 101 entries of its log are read.
    ///
    /// # Errors
    ///
    /// [`InspectError::Failed`] if the name is invalid, no server answers, or the user may not read
    /// the limiter.
    ///
    /// # Cancel safety
    ///
    /// Dropping the future changes nothing.
    pub async fn limiter(&self, name: impl AsRef<str>) -> Result<Option<LimiterView>, InspectError> {
        let name = Name::new(name)?;
        let failed = |source| InspectError::of_object("read the limiter", name.as_str(), source);
        let request = LIMITER.with(layouts::rate_limiter(&self.client.key(&name))).idempotent();
        let reply: Vec<Bytes> = self.client.run(request).await.map_err(failed)?;
        Ok(parse(name.as_str(), &reply))
    }
}

fn parse(name: &str, reply: &[Bytes]) -> Option<LimiterView> {
    let [left, rate, interval, kind, keep, value, expired, next, length] = reply else { return None };
    let rate: u64 = number(rate)?;
    let is_per_client = kind[..] == *b"1";
    let length: u64 = number(length)?;
    let free = match (number::<i64>(value), number::<i64>(expired)) {
        (Some(value), Some(expired)) => u64::try_from(value.saturating_add(expired).max(0)).ok(),
        // Nothing was taken yet.
        (None, Some(_)) if value.is_empty() && length == 0 => Some(rate),
        _ => None,
    };
    let millis = |text: &Bytes| number(text).map(Duration::from_millis);
    Some(LimiterView {
        name: name.to_owned(),
        rate,
        interval: millis(interval)?,
        is_per_client,
        free: free.map(|free| free.min(rate)).filter(|_| !is_per_client),
        next_free_in: millis(next).filter(|_| !is_per_client),
        log_len: (!is_per_client).then_some(length),
        keep_alive: millis(keep).filter(|keep| !keep.is_zero()),
        lifetime: millis(left),
    })
}

fn number<N: std::str::FromStr>(text: &[u8]) -> Option<N> {
    std::str::from_utf8(text).ok()?.parse().ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn view(reply: [&str; 9]) -> Option<LimiterView> {
        parse("api", &reply.map(|part| Bytes::copy_from_slice(part.as_bytes())))
    }

    #[test]
    fn free_permits_are_those_of_the_value_and_of_expired_entries() {
        let used = view(["-1", "10", "1000", "0", "0", "3", "2", "250", "6"]).expect("a limiter");
        assert_eq!((used.rate, used.free, used.log_len), (10, Some(5), Some(6)));
        assert_eq!((used.next_free_in, used.lifetime), (Some(Duration::from_millis(250)), None));
        let new = view(["5000", "10", "1000", "0", "60000", "", "0", "", "0"]).expect("a limiter");
        assert_eq!((new.free, new.next_free_in, new.keep_alive), (Some(10), None, Some(Duration::from_secs(60))));
        assert_eq!(new.lifetime, Some(Duration::from_secs(5)));
        // A rate that was lowered, many expired entries, and a rate for each client.
        assert_eq!(view(["-1", "2", "1000", "0", "0", "5", "9", "", "9"]).and_then(|view| view.free), Some(2));
        assert_eq!(view(["-1", "2", "1000", "0", "0", "-5", "", "1", "200"]).and_then(|view| view.free), None);
        let own = view(["-1", "2", "1000", "1", "0", "", "0", "", "0"]).expect("a limiter");
        assert_eq!((own.is_per_client, own.free, own.log_len), (true, None, None));
    }

    #[test]
    fn other_hashes_are_no_limiters() {
        assert_eq!(parse("api", &[]), None);
        assert_eq!(view(["-1", "much", "1000", "0", "0", "", "0", "", "0"]), None);
        assert_eq!(view(["-1", "1.5", "1000", "0", "0", "", "0", "", "0"]), None);
    }
}
