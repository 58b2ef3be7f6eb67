//! Where something is, and how far that is from something else.

use std::fmt;

use bytes::Bytes;
use redgrid_core::{FromReply, Reply, ServerError};

/// The largest longitude the server keeps, in degrees, and the smallest below 0.
const LONGITUDE: f64 = 180.0;

/// The same of latitudes: those of the square map of the web (EPSG:3857), which leaves out the poles.
const LATITUDE: f64 = 85.051_128_78;

/// How far inside of the map's ends a place is to be, in degrees: its cells are fifty times as wide, 25 times as high.
const INSIDE: f64 = 1e-7;

/// A place on the globe, in degrees.
#[derive(Debug, Clone, Copy, PartialEq, PartialOrd)]
#[doc(alias = "GeoPosition")]
pub struct Position {
    longitude: f64,
    latitude: f64,
}

impl Position {
    /// A place by its longitude, −180° to 180°, and its latitude, −85.05112878° to 85.05112878°: what the server keeps.
    ///
    /// # Errors
    ///
    /// [`InvalidPosition`] for any other.
    pub fn new(longitude: f64, latitude: f64) -> Result<Position, InvalidPosition> {
        match longitude.abs() <= LONGITUDE && latitude.abs() <= LATITUDE {
            true => Ok(Position { longitude, latitude }),
            false => Err(InvalidPosition { longitude, latitude }),
        }
    }

    /// Degrees to the east, less than 0 to the west.
    pub fn longitude(self) -> f64 {
        self.longitude
    }

    /// Degrees to the north, less than 0 to the south.
    pub fn latitude(self) -> f64 {
        self.latitude
    }

    /// Its longitude and its latitude as the server is told them. At the very ends of its map it takes what its hash has no cell for, and does not
    /// find it again: that is moved into the last cell, by a centimetre.
    pub(crate) fn written(self) -> [Bytes; 2] {
        let within = |degrees: f64, end: f64| Bytes::from(degrees.min(end - INSIDE).to_string());
        [within(self.longitude, LONGITUDE), within(self.latitude, LATITUDE)]
    }
}

impl FromReply for Position {
    fn from_reply(reply: Reply) -> Result<Self, ServerError> {
        reply.into_typed().map(|(longitude, latitude)| Position { longitude, latitude })
    }
}

/// A place that the server can not keep.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct InvalidPosition {
    /// The longitude that was given.
    pub longitude: f64,
    /// The latitude that was given.
    pub latitude: f64,
}

impl fmt::Display for InvalidPosition {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let InvalidPosition { longitude, latitude } = self;
        write!(
            f,
            "invalid position: expected a longitude of -{LONGITUDE} to {LONGITUDE} and a latitude of -{LATITUDE} to {LATITUDE} degrees, \
             got {longitude} and {latitude}"
        )
    }
}

impl std::error::Error for InvalidPosition {}

/// Metres in a mile, as the server has it.
const MILE: f64 = 1609.34;

/// Metres in a foot.
const FOOT: f64 = 0.3048;

/// A distance, of whatever unit.
#[derive(Debug, Clone, Copy, PartialEq, PartialOrd)]
#[doc(alias = "GeoUnit")]
pub struct Distance {
    meters: f64,
}

impl Distance {
    /// So many metres.
    pub const fn meters(meters: f64) -> Distance {
        Distance { meters }
    }

    /// So many kilometres.
    pub const fn kilometers(kilometers: f64) -> Distance {
        Distance { meters: kilometers * 1000.0 }
    }

    /// So many miles of 1,609.34 m, as the server has it.
    pub const fn miles(miles: f64) -> Distance {
        Distance { meters: miles * MILE }
    }

    /// So many feet of 0.3048 m.
    pub const fn feet(feet: f64) -> Distance {
        Distance { meters: feet * FOOT }
    }

    /// In metres.
    pub const fn as_meters(self) -> f64 {
        self.meters
    }

    /// In kilometres.
    pub const fn as_kilometers(self) -> f64 {
        self.meters / 1000.0
    }

    /// In miles.
    pub const fn as_miles(self) -> f64 {
        self.meters / MILE
    }

    /// In feet.
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
    fn what_the_server_can_not_keep_is_no_position() {
        for (longitude, latitude) in [(0.0, 0.0), (180.0, 85.051_128_78), (-180.0, -85.051_128_78)] {
            assert!(Position::new(longitude, latitude).is_ok(), "{longitude} {latitude}");
        }
        for (longitude, latitude) in [(180.01, 0.0), (0.0, 85.06), (f64::NAN, 0.0), (0.0, f64::INFINITY)] {
            assert!(Position::new(longitude, latitude).is_err(), "{longitude} {latitude}");
        }
        let told = Position::new(0.0, 90.0).unwrap_err().to_string();
        assert!(told.contains("-85.05112878 to 85.05112878") && told.contains("got 0 and 90"), "{told}");
    }

    #[test]
    fn a_distance_is_the_same_in_all_units() {
        let far = Distance::kilometers(3.218_68);
        assert!((far.as_miles() - 2.0).abs() < 1e-9 && (far.as_meters() - 3218.68).abs() < 1e-9);
        assert!((Distance::miles(1.0).as_feet() - 5_279.986_877).abs() < 1e-3);
        assert!((Distance::feet(10.0).as_meters() - 3.048).abs() < 1e-9);
    }
}
