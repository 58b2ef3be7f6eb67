//! Positions and distances.

use std::fmt;

use bytes::Bytes;
use redgrid_core::{FromReply, Reply, ServerError};

/// The largest longitude that the server stores, in degrees; its negative is the smallest.
const MAX_LONGITUDE: f64 = 180.0;

/// The largest latitude that the server stores, in degrees; its negative is the smallest. It is the
/// limit of the square web map (EPSG:3857), which excludes the poles.
const MAX_LATITUDE: f64 = 85.051_128_78;

/// The minimum distance of a stored position from the upper limits of the map, in degrees. The
/// cells of the map are fifty times as wide, and 25 times as high.
const MARGIN: f64 = 1e-7;

/// A position on the globe, in degrees.
#[derive(Debug, Clone, Copy, PartialEq, PartialOrd)]
#[doc(alias = "GeoPosition")]
pub struct Position {
    longitude: f64,
    latitude: f64,
}

impl Position {
    /// Creates a position from a longitude, −180° to 180°, and a latitude, −85.05112878° to
    /// 85.05112878°. These are the positions that the server can store.
    ///
    /// # Errors
    ///
    /// [`InvalidPosition`] for a position outside of these ranges.
    pub fn new(longitude: f64, latitude: f64) -> Result<Position, InvalidPosition> {
        if longitude.abs() <= MAX_LONGITUDE && latitude.abs() <= MAX_LATITUDE {
            Ok(Position { longitude, latitude })
        } else {
            Err(InvalidPosition { longitude, latitude })
        }
    }

    /// Returns the degrees to the east, negative to the west.
    pub fn longitude(self) -> f64 {
        self.longitude
    }

    /// Returns the degrees to the north, negative to the south.
    pub fn latitude(self) -> f64 {
        self.latitude
    }

    /// Encodes the longitude and the latitude for the server.
    ///
    /// The server accepts positions at the upper limits of its map, but its hash has no cell for
    /// them, and a search does not find them. Such a position is moved into the last cell, by a
    /// centimetre.
    pub(crate) fn encode(self) -> [Bytes; 2] {
        let clamped = |degrees: f64, end: f64| Bytes::from(degrees.min(end - MARGIN).to_string());
        [clamped(self.longitude, MAX_LONGITUDE), clamped(self.latitude, MAX_LATITUDE)]
    }
}

impl FromReply for Position {
    fn from_reply(reply: Reply) -> Result<Self, ServerError> {
        reply.into_typed().map(|(longitude, latitude)| Position { longitude, latitude })
    }
}

/// A position that the server cannot store.
#[derive(Debug, Clone, Copy, PartialEq)]
#[non_exhaustive]
pub struct InvalidPosition {
    /// The longitude.
    pub longitude: f64,
    /// The latitude.
    pub latitude: f64,
}

impl fmt::Display for InvalidPosition {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let InvalidPosition { longitude, latitude } = self;
        write!(
            f,
            "invalid position: expected a longitude of -{MAX_LONGITUDE} to {MAX_LONGITUDE} and a latitude of -{MAX_LATITUDE} to {MAX_LATITUDE} degrees, \
             got {longitude} and {latitude}"
        )
    }
}

impl std::error::Error for InvalidPosition {}

/// Metres in a mile, as defined by the server.
const MILE: f64 = 1609.34;

/// Metres in a foot.
const FOOT: f64 = 0.3048;

/// A distance, in any unit.
#[derive(Debug, Clone, Copy, PartialEq, PartialOrd)]
#[doc(alias = "GeoUnit")]
pub struct Distance {
    meters: f64,
}

impl Distance {
    /// Creates a distance from metres.
    pub const fn meters(meters: f64) -> Distance {
        Distance { meters }
    }

    /// Creates a distance from kilometres.
    pub const fn kilometers(kilometers: f64) -> Distance {
        Distance { meters: kilometers * 1000.0 }
    }

    /// Creates a distance from miles of 1,609.34 m, as defined by the server.
    pub const fn miles(miles: f64) -> Distance {
        Distance { meters: miles * MILE }
    }

    /// Creates a distance from feet of 0.3048 m.
    pub const fn feet(feet: f64) -> Distance {
        Distance { meters: feet * FOOT }
    }

    /// Returns the distance in metres.
    pub const fn as_meters(self) -> f64 {
        self.meters
    }

    /// Returns the distance in kilometres.
    pub const fn as_kilometers(self) -> f64 {
        self.meters / 1000.0
    }

    /// Returns the distance in miles.
    pub const fn as_miles(self) -> f64 {
        self.meters / MILE
    }

    /// Returns the distance in feet.
    pub const fn as_feet(self) -> f64 {
        self.meters / FOOT
    }
}

impl FromReply for Distance {
    fn from_reply(reply: Reply) -> Result<Self, ServerError> {
        f64::from_reply(reply).map(Distance::meters)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_position_that_the_server_cannot_store_is_an_error() {
        for (longitude, latitude) in [(0.0, 0.0), (180.0, 85.051_128_78), (-180.0, -85.051_128_78)] {
            assert!(Position::new(longitude, latitude).is_ok(), "{longitude} {latitude}");
        }
        for (longitude, latitude) in [(180.01, 0.0), (0.0, 85.06), (f64::NAN, 0.0), (0.0, f64::INFINITY)] {
            assert!(Position::new(longitude, latitude).is_err(), "{longitude} {latitude}");
        }
        let message = Position::new(0.0, 90.0).unwrap_err().to_string();
        assert!(message.contains("-85.05112878 to 85.05112878") && message.contains("got 0 and 90"), "{message}");
    }

    #[test]
    fn a_distance_is_the_same_in_all_units() {
        let far = Distance::kilometers(3.218_68);
        assert!((far.as_miles() - 2.0).abs() < 1e-9 && (far.as_meters() - 3218.68).abs() < 1e-9);
        assert!((Distance::miles(1.0).as_feet() - 5_279.986_877).abs() < 1e-3);
        assert!((Distance::feet(10.0).as_meters() - 3.048).abs() < 1e-9);
    }
}
