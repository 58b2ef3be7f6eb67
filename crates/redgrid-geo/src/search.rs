//! Searches by distance.

use bytes::Bytes;
use redgrid_codecs::{Codec, Decode, EncodesFor};
use redgrid_core::object::ObjectError;
use redgrid_core::{FromReply, Request, Script};

use crate::geo::Geo;
use crate::position::{Distance, Position};

static SEARCH: Script<1> = Script::new("geo/search", include_str!("scripts/search.lua"));
static STORE: Script<2> = Script::new("geo/store", include_str!("scripts/store.lua"));

/// The center of a search.
#[derive(Clone)]
enum Center {
    Position(Position),
    /// The encoded member, or the error of its codec.
    Member(Result<Bytes, ObjectError>),
}

/// The center of a search; returned by [`Geo::around`] and [`Geo::around_member`].
/// [`Around::within`] or [`Around::within_box`] sets the area.
#[must_use = "does nothing until an area is set, by `within` or `within_box`"]
#[doc(alias = "GeoSearchArgs")]
pub struct Around<T, C> {
    geo: Geo<T, C>,
    center: Center,
}

/// A search in an area. A request is sent by [`Search::members`], [`Search::distances`],
/// [`Search::positions`], [`Search::store`] or [`Search::store_distances`].
#[must_use = "does nothing until a method such as `members` is awaited"]
pub struct Search<T, C> {
    geo: Geo<T, C>,
    center: Center,
    area: Result<Vec<Bytes>, ObjectError>,
    order: Option<&'static str>,
    count: Option<(u32, bool)>,
}

impl<T, C: Codec> Geo<T, C> {
    /// Starts a search around a position.
    #[doc(alias = "search")]
    pub fn around(&self, center: Position) -> Around<T, C> {
        Around { geo: self.clone(), center: Center::Position(center) }
    }

    /// Starts a search around a member. This member is one of the results. If the member is absent,
    /// there are no results.
    #[doc(alias = "search")]
    pub fn around_member<Q: ?Sized>(&self, member: &Q) -> Around<T, C>
    where
        C: EncodesFor<T, Q>,
    {
        Around { geo: self.clone(), center: Center::Member(self.object_ref.encoded(&self.codec, member)) }
    }
}

impl<T, C: Codec> Around<T, C> {
    /// Searches in a circle with this radius.
    #[doc(alias = "radius")]
    pub fn within(self, radius: Distance) -> Search<T, C> {
        let area = self.encode_area("radius", "BYRADIUS", &[radius]);
        self.search(area)
    }

    /// Searches in a box around the center, with this width from east to west and this height from
    /// north to south.
    #[doc(alias = "box")]
    pub fn within_box(self, width: Distance, height: Distance) -> Search<T, C> {
        let area = self.encode_area("box", "BYBOX", &[width, height]);
        self.search(area)
    }

    fn encode_area(
        &self,
        option: &'static str,
        command: &'static str,
        lengths: &[Distance],
    ) -> Result<Vec<Bytes>, ObjectError> {
        let mut area = vec![command.into()];
        for length in lengths.iter().map(|length| length.as_meters()) {
            if !(length.is_finite() && length >= 0.0) {
                let object_ref = &self.geo.object_ref;
                return Err(object_ref.invalid(option, "a distance of 0 or more", format_args!("{length} m")));
            }
            area.push(length.to_string().into());
        }
        area.push("m".into());
        Ok(area)
    }

    fn search(self, area: Result<Vec<Bytes>, ObjectError>) -> Search<T, C> {
        Search { geo: self.geo, center: self.center, area, order: None, count: None }
    }
}

impl<T, C: Codec> Search<T, C> {
    /// Sorts the results from near to far. By default, they are in the order in which the server
    /// finds them.
    #[doc(alias = "order")]
    pub fn nearest_first(mut self) -> Self {
        self.order = Some("ASC");
        self
    }

    /// Sorts the results from far to near.
    #[doc(alias = "order")]
    pub fn farthest_first(mut self) -> Self {
        self.order = Some("DESC");
        self
    }

    /// Returns only this number of results, at least 1: the nearest ones, or with
    /// [`Search::farthest_first`] the farthest ones. The server visits all members in the area.
    #[doc(alias = "count")]
    pub fn at_most(mut self, count: u32) -> Self {
        self.count = Some((count, false));
        self
    }

    /// Returns only this number of arbitrary results, at least 1. The server stops when it has
    /// found them, so this option is suitable for areas with many members.
    #[doc(alias = "countAny")]
    pub fn any(mut self, count: u32) -> Self {
        self.count = Some((count, true));
        self
    }

    /// Stores the results as another object with this name, and replaces what is stored there.
    /// Returns the number of results.
    ///
    /// The new object has no lifetime. If there are no results, an existing object with this name
    /// is deleted. In a cluster, both names must be in one slot (by a hash tag, like
    /// `{cities}:near`).
    ///
    /// # Errors
    ///
    /// [`ObjectError`] states what failed and whether anything may have changed.
    /// [`Failure::InvalidArgument`](crate::Failure::InvalidArgument) for a name in another slot.
    ///
    /// # Cancel safety
    ///
    /// A request that was already sent is executed even if the future is dropped.
    #[doc(alias = "storeSearchTo")]
    pub async fn store(self, name: impl AsRef<str>) -> Result<u64, ObjectError> {
        self.store_as(name.as_ref(), false).await
    }

    /// Stores the results as a sorted set with this name, scored by the distance in metres.
    /// Otherwise it is the same as [`Search::store`].
    ///
    /// # Errors and cancel safety
    ///
    /// As for [`Search::store`].
    #[doc(alias = "storeSortedSearchTo")]
    pub async fn store_distances(self, name: impl AsRef<str>) -> Result<u64, ObjectError> {
        self.store_as(name.as_ref(), true).await
    }

    async fn store_as(self, name: &str, distances: bool) -> Result<u64, ObjectError> {
        let object_ref = &self.geo.object_ref;
        let keys = [object_ref.same_slot_key("name", name)?, object_ref.name_and_key()?.1.clone()];
        let request = match &self.center {
            Center::Position(_) => Request::command("GEOSEARCHSTORE").keys(keys),
            Center::Member(_) => STORE.with(keys),
        };
        let request = self.append_args(request)?;
        object_ref.change(if distances { request.arg("STOREDIST") } else { request }).await
    }

    async fn send<R: FromReply>(&self, option: Option<&'static str>) -> Result<R, ObjectError> {
        let object_ref = &self.geo.object_ref;
        let request = match &self.center {
            Center::Position(_) => object_ref.command("GEOSEARCH")?,
            Center::Member(_) => SEARCH.with([object_ref.name_and_key()?.1.clone()]),
        };
        let request = self.append_args(request)?;
        object_ref.read(option.into_iter().fold(request, Request::arg)).await
    }

    /// Appends the arguments after the keys. For a member as the center, the scripts add the option
    /// `FROMMEMBER`.
    fn append_args(&self, request: Request) -> Result<Request, ObjectError> {
        let request = match &self.center {
            Center::Position(position) => position.encode().into_iter().fold(request.arg("FROMLONLAT"), Request::arg),
            Center::Member(member) => request.arg(member.clone()?),
        };
        let request = self.area.clone()?.into_iter().fold(request, Request::arg);
        let request = self.order.into_iter().fold(request, Request::arg);
        match self.count {
            None => Ok(request),
            Some((0, _)) => Err(self.geo.object_ref.invalid("count", "1 or more", 0)),
            Some((count, any)) => {
                let request = request.arg("COUNT").int(count.into());
                Ok(if any { request.arg("ANY") } else { request })
            }
        }
    }
}

impl<T, C: Decode<T>> Search<T, C> {
    /// Returns the members in the area.
    ///
    /// # Errors
    ///
    /// [`ObjectError`] states what failed and whether anything may have changed.
    ///
    /// # Cancel safety
    ///
    /// Dropping the future changes nothing.
    pub async fn members(self) -> Result<Vec<T>, ObjectError> {
        let found: Vec<Bytes> = self.send(None).await?;
        found.iter().map(|member| self.decode(member)).collect()
    }

    /// Returns the members in the area, with their distances from the center.
    ///
    /// # Errors and cancel safety
    ///
    /// As for [`Search::members`].
    #[doc(alias = "searchWithDistance")]
    pub async fn distances(self) -> Result<Vec<(T, Distance)>, ObjectError> {
        let found: Vec<(Bytes, Distance)> = self.send(Some("WITHDIST")).await?;
        found.iter().map(|(member, distance)| Ok((self.decode(member)?, *distance))).collect()
    }

    /// Returns the members in the area, with their positions.
    ///
    /// # Errors and cancel safety
    ///
    /// As for [`Search::members`].
    #[doc(alias = "searchWithPosition")]
    pub async fn positions(self) -> Result<Vec<(T, Position)>, ObjectError> {
        let found: Vec<(Bytes, Position)> = self.send(Some("WITHCOORD")).await?;
        found.iter().map(|(member, at)| Ok((self.decode(member)?, *at))).collect()
    }

    fn decode(&self, bytes: &Bytes) -> Result<T, ObjectError> {
        self.geo.object_ref.decoded(&self.geo.codec, bytes, || Some("a member".into()))
    }
}

redgrid_core::debug_fields!([T, C: std::fmt::Debug] Around<T, C>, |it| geo: it.geo);

redgrid_core::debug_fields!([T, C: std::fmt::Debug] Search<T, C>, |it| geo: it.geo, order: it.order);
