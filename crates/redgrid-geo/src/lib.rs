//! Positions on the globe that all processes share, in the wire format of Redisson's RGeo.
//!
//! Use it to find members near a position, and distances between members.
//!
//! ```no_run
//! # #[cfg(feature = "json")]
//! # async fn demo() -> Result<(), Box<dyn std::error::Error>> {
//! use redgrid_geo::{Client, Distance, Geo, Position};
//!
//! let client = Client::connect("redis://127.0.0.1:6379").await?;
//! let cities: Geo<String> = Geo::new(&client, "cities");
//! cities.add("Palermo", Position::new(13.361389, 38.115556)?).await?;
//! cities.add("Catania", Position::new(15.087269, 37.502669)?).await?;
//! let apart = cities.distance("Palermo", "Catania").await?; // Some: 166.3 km
//! let here = Position::new(15.0, 37.0)?;
//! let near = cities.around(here).within(Distance::kilometers(200.0)).nearest_first();
//! for (city, away) in near.distances().await? {
//!     println!("{city}: {:.1} km", away.as_kilometers());
//! }
//! # let _ = apart;
//! # Ok(()) }
//! ```
//!
//! # Keys
//!
//! | key | type | lifetime |
//! |---|---|---|
//! | `name` | sorted set: members as their codec writes them, scored by the server's geohash of the position; Redisson's | none, unless set |
//!
//! # Guarantees
//!
//! - A change is sent once. If its reply is lost, the call returns [`Failure::OutcomeUnknown`]
//!   and is not repeated.
//! - A position is checked when it is created: it must be one that the server can store. The server
//!   stores positions with a precision of about 0.6 m.
//! - A distance has its unit in its type. The server computes distances on a sphere, with an error
//!   of up to 0.5 %.

#![cfg_attr(docsrs, feature(doc_cfg))]

mod change;
mod geo;
mod position;
mod search;

pub use geo::Geo;
pub use position::{Distance, InvalidPosition, Position};
pub use redgrid_codecs as codecs;
pub use redgrid_codecs::{Codec, Decode, Encode};
pub use redgrid_core::object::{ExpireCondition, Lifetime, Object, ObjectError};
pub use redgrid_core::{Client, Config, Failure, Name, ServerError};
pub use search::{Around, Search};
