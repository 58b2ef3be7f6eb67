//! Who is near.

use std::borrow::Borrow;
use std::fmt;

use bytes::Bytes;
use redgrid_codecs::{Codec, Decode, Encode};
use redgrid_core::object::ObjectError;
use redgrid_core::{FromReply, Request, Script};

use crate::geo::Geo;
use crate::position::{Distance, Position};

static SEARCH: Script<1> = Script::new("geo/search", include_str!("scripts/search.lua"));
static STORE: Script<2> = Script::new("geo/store", include_str!("scripts/store.lua"));

/// What a search is around.
#[derive(Clone)]
enum Center {
    At(Position),
    /// As its codec writes it, or why that can not be.
    Member(Result<Bytes, ObjectError>),
}

/// The middle of a search, made by [`Geo::around`] and [`Geo::around_member`]: [`Around::within`] or [`Around::within_box`] says how far it goes.
#[must_use = "nothing is asked before it is said how far the search goes"]
#[doc(alias = "GeoSearchArgs")]
pub struct Around<T, C> {
    geo: Geo<T, C>,
    center: Center,
}

/// A search of an area; ended by what is wanted of it: [`Search::members`], [`Search::distances`], [`Search::positions`], or [`Search::store`].
#[must_use = "nothing is asked before it is said what is wanted"]
pub struct Search<T, C> {
    geo: Geo<T, C>,
    center: Center,
    area: Result<Vec<Bytes>, ObjectError>,
    order: Option<&'static str>,
    count: Option<(u32, bool)>,
}

impl<T, C: Codec> Geo<T, C> {
    /// A search around a place.
    #[doc(alias = "search")]
    pub fn around(&self, center: Position) -> Around<T, C> {
        Around { geo: self.clone(), center: Center::At(center) }
    }

    /// A search around a member, which is among what is found. Around one that is not in it, nothing is found.
    #[doc(alias = "search")]
    pub fn around_member<Q: ?Sized>(&self, member: &Q) -> Around<T, C>
    where
        T: Borrow<Q>,
        C: Encode<Q>,
    {
        Around { geo: self.clone(), center: Center::Member(self.place.encoded(&self.codec, member)) }
    }
}

impl<T, C: Codec> Around<T, C> {
    /// All that is no farther away than this.
    #[doc(alias = "radius")]
    pub fn within(self, radius: Distance) -> Search<T, C> {
        let area = self.lengths("radius", "BYRADIUS", &[radius]);
        self.search(area)
    }

    /// All that is in a box of this width, east to west, and this height around the middle.
    #[doc(alias = "box")]
    pub fn within_box(self, width: Distance, height: Distance) -> Search<T, C> {
        let area = self.lengths("box", "BYBOX", &[width, height]);
        self.search(area)
    }

    fn lengths(
        &self,
        option: &'static str,
        command: &'static str,
        lengths: &[Distance],
    ) -> Result<Vec<Bytes>, ObjectError> {
        let mut area = vec![command.into()];
        for length in lengths.iter().map(|length| length.as_meters()) {
            if !(length.is_finite() && length >= 0.0) {
                let place = &self.geo.place;
                return Err(place.invalid(option, "a distance of 0 or more", format_args!("{length} m")));
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
    /// From near to far. Without an order they come as the server finds them.
    #[doc(alias = "order")]
    pub fn nearest_first(mut self) -> Self {
        self.order = Some("ASC");
        self
    }

    /// From far to near.
    #[doc(alias = "order")]
    pub fn farthest_first(mut self) -> Self {
        self.order = Some("DESC");
        self
    }

    /// The nearest so many, 1 at least, or the farthest where these come first. The server looks at all in the area.
    #[doc(alias = "count")]
    pub fn at_most(mut self, count: u32) -> Self {
        self.count = Some((count, false));
        self
    }

    /// Any so many, 1 at least: the server stops when it has found them. For areas with many members.
    #[doc(alias = "countAny")]
    pub fn any(mut self, count: u32) -> Self {
        self.count = Some((count, true));
        self
    }

    /// Has them be another set of places, with this name, in place of what that was; tells how many there are. It has no lifetime, and is
    /// gone where nothing is found. In a cluster both must be of one slot (a hash tag, `{cities}:near`).
    ///
    /// # Errors
    ///
    /// [`ObjectError`] says what is true then; a name of another slot is [`ObjectError::InvalidArgument`].
    ///
    /// # Cancel safety
    ///
    /// What has left is carried out although nobody waits for it.
    #[doc(alias = "storeSearchTo")]
    pub async fn store(self, name: impl AsRef<str>) -> Result<u64, ObjectError> {
        self.stored(name.as_ref(), false).await
    }

    /// The same, as a sorted set by the distance in metres.
    ///
    /// # Errors
    ///
    /// As [`Search::store`].
    ///
    /// # Cancel safety
    ///
    /// As [`Search::store`].
    #[doc(alias = "storeSortedSearchTo")]
    pub async fn store_distances(self, name: impl AsRef<str>) -> Result<u64, ObjectError> {
        self.stored(name.as_ref(), true).await
    }

    async fn stored(self, name: &str, distances: bool) -> Result<u64, ObjectError> {
        let place = &self.geo.place;
        let keys = [place.beside("name", name)?, place.named()?.1.clone()];
        let request = match &self.center {
            Center::At(_) => Request::command("GEOSEARCHSTORE").keys(keys),
            Center::Member(_) => STORE.with(keys),
        };
        let request = self.written(request)?;
        place.change(if distances { request.arg("STOREDIST") } else { request }).await
    }

    async fn found<R: FromReply>(&self, with: Option<&'static str>) -> Result<R, ObjectError> {
        let place = &self.geo.place;
        let request = match &self.center {
            Center::At(_) => place.command("GEOSEARCH")?,
            Center::Member(_) => SEARCH.with([place.named()?.1.clone()]),
        };
        let request = self.written(request)?;
        place.read(with.into_iter().fold(request, Request::arg)).await
    }

    /// The arguments behind the keys; a script says itself that the first is a member.
    fn written(&self, request: Request) -> Result<Request, ObjectError> {
        let request = match &self.center {
            Center::At(at) => at.written().into_iter().fold(request.arg("FROMLONLAT"), Request::arg),
            Center::Member(member) => request.arg(member.clone()?),
        };
        let request = self.area.clone()?.into_iter().fold(request, Request::arg);
        let request = self.order.into_iter().fold(request, Request::arg);
        match self.count {
            None => Ok(request),
            Some((0, _)) => Err(self.geo.place.invalid("count", "1 or more", 0)),
            Some((count, any)) => {
                let request = request.arg("COUNT").int(count.into());
                Ok(if any { request.arg("ANY") } else { request })
            }
        }
    }
}

impl<T, C: Decode<T>> Search<T, C> {
    /// The members that are found.
    ///
    /// # Errors
    ///
    /// [`ObjectError`] says what is true then.
    ///
    /// # Cancel safety
    ///
    /// Dropping it changes nothing.
    pub async fn members(self) -> Result<Vec<T>, ObjectError> {
        let found: Vec<Bytes> = self.found(None).await?;
        found.iter().map(|member| self.member(member)).collect()
    }

    /// The members that are found, and how far each is from the middle.
    ///
    /// # Errors
    ///
    /// As [`Search::members`].
    ///
    /// # Cancel safety
    ///
    /// Dropping it changes nothing.
    #[doc(alias = "searchWithDistance")]
    pub async fn distances(self) -> Result<Vec<(T, Distance)>, ObjectError> {
        let found: Vec<(Bytes, Distance)> = self.found(Some("WITHDIST")).await?;
        found.iter().map(|(member, distance)| Ok((self.member(member)?, *distance))).collect()
    }

    /// The members that are found, and where each is.
    ///
    /// # Errors
    ///
    /// As [`Search::members`].
    ///
    /// # Cancel safety
    ///
    /// Dropping it changes nothing.
    #[doc(alias = "searchWithPosition")]
    pub async fn positions(self) -> Result<Vec<(T, Position)>, ObjectError> {
        let found: Vec<(Bytes, Position)> = self.found(Some("WITHCOORD")).await?;
        found.iter().map(|(member, at)| Ok((self.member(member)?, *at))).collect()
    }

    fn member(&self, bytes: &Bytes) -> Result<T, ObjectError> {
        self.geo.place.decoded(&self.geo.codec, bytes, || Some("a member".into()))
    }
}

impl<T, C: fmt::Debug> fmt::Debug for Around<T, C> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Around").field("geo", &self.geo).finish_non_exhaustive()
    }
}

impl<T, C: fmt::Debug> fmt::Debug for Search<T, C> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Search").field("geo", &self.geo).field("order", &self.order).finish_non_exhaustive()
    }
}
