//! Compares positions and searches with a model.

use std::collections::{BTreeMap, BTreeSet};

use redgrid_core::{Client, Pairs, Request};
use redgrid_geo::codecs::Json;
use redgrid_geo::{Around, Distance, Geo, Position, Search};
use redgrid_tests::model::seeds;
use redgrid_tests::{client, server};

/// The radius of the globe that the server uses, in metres.
const RADIUS: f64 = 6_372_797.560_856;

/// The tolerance of reported distances, in metres: the server stores positions with a precision of
/// 0.6 m.
const ABOUT: f64 = 1.5;

/// The tolerance of positions, in degrees.
const DEGREES: f64 = 1e-5;

/// The number of members.
const MEMBERS: u8 = 24;

/// The approximate positions of the members: at the edges of the map and between them.
const PARTS: [(f64, f64); 5] = [(15.0, 38.0), (179.9, 0.0), (-179.9, -20.0), (-70.0, 84.0), (0.0, -60.0)];

/// The northernmost latitude.
const END: f64 = 85.051_128_78;

#[tokio::test(flavor = "multi_thread")]
async fn members_with_positions_match_their_model() {
    let server = server().await;
    modelled([&client(&server).await, &client(&server).await], 20).await;
}

type Model = BTreeMap<u8, Position>;
type Places = Geo<u8, Json>;

/// Returns the distance between two positions, in metres.
fn apart(one: Position, other: Position) -> f64 {
    let [(a, x), (b, y)] = [one, other].map(|place| (place.latitude().to_radians(), place.longitude().to_radians()));
    let (u, v) = (((b - a) / 2.0).sin(), ((y - x) / 2.0).sin());
    2.0 * RADIUS * (u * u + a.cos() * b.cos() * v * v).sqrt().asin()
}

/// The searched area.
#[derive(Debug, Clone, Copy)]
enum Area {
    Within(f64),
    Box(f64, f64),
}

impl Area {
    /// Returns how far inside the area a position is, in metres; negative outside of it.
    fn depth(self, center: Position, at: Position) -> f64 {
        match self {
            Area::Within(radius) => radius - apart(center, at),
            Area::Box(width, height) => {
                // The distance from east to west, along the latitude of the position.
                let beside = Position::new(center.longitude(), at.latitude()).unwrap();
                (width / 2.0 - apart(beside, at)).min(height / 2.0 - apart(beside, center))
            }
        }
    }

    fn of(self, around: Around<u8, Json>) -> Search<u8, Json> {
        match self {
            Area::Within(radius) => around.within(Distance::meters(radius)),
            Area::Box(width, height) => around.within_box(Distance::meters(width), Distance::meters(height)),
        }
    }
}

/// The order of the results, and their number.
#[derive(Debug, Clone, Copy, PartialEq)]
struct Wanted {
    order: u8,
    /// The maximum number of results, and whether any members may be returned.
    count: Option<(u32, bool)>,
}

impl Wanted {
    fn of(self, search: Search<u8, Json>) -> Search<u8, Json> {
        let search = match self.order {
            1 => search.nearest_first(),
            2 => search.farthest_first(),
            _ => search,
        };
        match self.count {
            Some((count, true)) => search.any(count),
            Some((count, false)) => search.at_most(count),
            None => search,
        }
    }

    /// Whether these are the expected members. Members nearer to an edge than the tolerance may be
    /// included or not.
    fn fits(self, model: &Model, center: Position, area: Area, found: &[u8]) -> bool {
        let some = |depth: f64| -> BTreeMap<u8, f64> {
            let places = model.iter().filter(|(_, at)| area.depth(center, **at) > depth);
            places.map(|(member, at)| (*member, apart(center, *at))).collect()
        };
        let (sure, possible) = (some(ABOUT), some(-ABOUT));
        let each = found.iter().collect::<BTreeSet<_>>().len() == found.len();
        if !each || !found.iter().all(|member| possible.contains_key(member)) {
            return false;
        }
        let most = self.count.map_or(usize::MAX, |(count, _)| count as usize);
        if found.len() < sure.len().min(most) || found.len() > possible.len().min(most) {
            return false;
        }
        // If there is a maximum, the first members in this order must be found.
        let sign = if self.order == 2 { -1.0 } else { 1.0 };
        let far: Vec<f64> = found.iter().map(|member| sign * possible[member]).collect();
        let is_ordered = self.order == 0 || far.windows(2).all(|two| two[0] <= two[1] + ABOUT);
        let last = far.iter().copied().fold(f64::NEG_INFINITY, f64::max);
        let mut left = sure.iter().filter(|(member, _)| !found.contains(member)).map(|(_, far)| sign * far);
        let is_first = matches!(self.count, Some((_, true))) || left.all(|far| far >= last - ABOUT);
        is_ordered && is_first
    }
}

fn near(one: Position, other: Position) -> bool {
    let around = (one.longitude() - other.longitude()).abs();
    around.min(360.0 - around) < DEGREES && (one.latitude() - other.latitude()).abs() < DEGREES
}

/// Whether a position matches a geohash, of which the server computes ten characters.
fn is_at(hash: &str, at: Position) -> bool {
    let (mut lon, mut lat) = ((-180.0, 180.0), (-90.0, 90.0));
    for (n, character) in hash.chars().take(10).enumerate() {
        let value = "0123456789bcdefghjkmnpqrstuvwxyz".find(character).expect("a character of geohashes");
        for bit in 0..5 {
            let span: &mut (f64, f64) = if (n * 5 + bit) % 2 == 0 { &mut lon } else { &mut lat };
            let middle = f64::midpoint(span.0, span.1);
            if value >> (4 - bit) & 1 == 1 { span.0 = middle } else { span.1 = middle }
        }
    }
    let within = |(from, to): (f64, f64), at: f64| at > from - DEGREES && at < to + DEGREES;
    hash.len() == 11 && within(lon, at.longitude()) && within(lat, at.latitude())
}

fn anywhere(random: &mut fastrand::Rng) -> Position {
    let (longitude, latitude) = PARTS[random.usize(..PARTS.len())];
    if random.u8(..8) == 0 {
        // A position exactly at the edge of the map.
        return Position::new(f64::copysign(180.0, longitude), END.min(latitude * 100.0).max(-END)).unwrap();
    }
    let mut off = || (random.f64() - 0.5) * 2.0;
    let longitude = match longitude + off() {
        east if east > 180.0 => east - 360.0,
        west if west < -180.0 => west + 360.0,
        longitude => longitude,
    };
    Position::new(longitude, (latitude + off()).clamp(-END, END)).unwrap()
}

/// Applies the same operations to two sets of positions and to their models. Two clients use the
/// sets, and a third one uses the server's commands.
pub(super) async fn modelled(clients: [&Client; 2], some: u64) {
    for seed in seeds(some) {
        let mut random = fastrand::Rng::with_seed(seed);
        let names = ["a", "b"].map(|set| format!("geo:{{{seed}}}:{set}"));
        let mut models: [Model; 2] = Default::default();
        let mut story = Vec::new();
        for _ in 0..100 {
            let step = (random.u8(..30), random.usize(..2), random.u8(..MEMBERS), random.u8(..MEMBERS));
            let (at, beside) = (anywhere(&mut random), anywhere(&mut random));
            story.push(format!("{step:?} {at:?} {beside:?}"));
            let (step, which, one, other) = step;
            let client = clients[random.usize(..2)];
            let set = Places::new(client, &names[which]);
            let fits = match step {
                0..10 => change(&set, &mut models[which], step, [(one, at), (other, beside)]).await,
                10..14 => ask(&set, &models[which], step, [one, other]).await,
                14..28 => {
                    let center = if step % 2 == 0 { Err(one) } else { Ok(at) };
                    let into = if step < 24 { None } else { Some(random.usize(..2)) };
                    let area = match random.u8(..3) {
                        0 => Area::Box(random.f64() * 400_000.0, random.f64() * 200_000.0),
                        _ => Area::Within(random.f64() * 300_000.0),
                    };
                    let count = (random.u8(..3) > 0).then(|| (random.u32(1..4), random.bool()));
                    let wanted = Wanted { order: random.u8(..3), count };
                    let (asked, kind) = ((center, area, wanted), random.u8(..3));
                    story.push(format!("{asked:?} {into:?} {kind}"));
                    match into {
                        None => found(&set, &models[which], asked, kind).await,
                        Some(into) => stored(client, &set, &mut models, asked, (which, into, &names[into]), kind).await,
                    }
                }
                _ => intrude(client, &names[which], &mut models[which], step, one, at).await,
            };
            let all: Vec<u8> = (0..MEMBERS).collect();
            let told = set.positions(&all).await.unwrap();
            let same = all.iter().zip(&told).all(|(member, told)| match (told, models[which].get(member)) {
                (Some(told), Some(at)) => near(*told, *at),
                (told, at) => told.is_none() && at.is_none(),
            });
            assert!(fits && same, "seed {seed}: {models:?} after {story:?}");
        }
    }
}

async fn change(set: &Places, model: &mut Model, step: u8, both: [(u8, Position); 2]) -> bool {
    let (one, at) = both[0];
    let there = both.map(|(member, _)| model.contains_key(&member));
    // The list contains a member twice; its last position counts.
    let many = [both[0], both[1], (both[0].0, both[1].1)];
    let placed = || many.iter().map(|(member, at)| (member, *at));
    let different = 1 + u64::from(both[0].0 != both[1].0);
    let new = u64::from(!there[0]) + u64::from(!there[1] && different == 2);
    match step {
        0..3 => set.add(&one, at).await.unwrap() == model.insert(one, at).is_none(),
        3 | 4 => {
            model.extend(many);
            set.add_many(placed()).await.unwrap() == new
        }
        5 => {
            model.entry(one).or_insert(at);
            set.add_if_absent(&one, at).await.unwrap() != there[0]
        }
        6 => {
            many.into_iter().for_each(|(member, at)| _ = model.entry(member).or_insert(at));
            set.add_many_if_absent(placed()).await.unwrap() == new
        }
        7 => {
            model.entry(one).and_modify(|has| *has = at);
            set.add_if_exists(&one, at).await.unwrap() == there[0]
        }
        8 => {
            let known = many.iter().filter(|(member, _)| model.contains_key(member)).count();
            many.into_iter().for_each(|(member, at)| _ = model.entry(member).and_modify(|has| *has = at));
            set.add_many_if_exists(placed()).await.unwrap() == known as u64
        }
        _ if one < 12 => set.remove(&one).await.unwrap() == model.remove(&one).is_some(),
        _ if one < 22 => {
            let gone = many.iter().filter(|(member, _)| model.remove(member).is_some()).count();
            set.remove_many(many.iter().map(|(member, _)| member)).await.unwrap() == gone as u64
        }
        _ => set.clear().await.unwrap() != std::mem::take(model).is_empty(),
    }
}

async fn ask(set: &Places, model: &Model, step: u8, [one, other]: [u8; 2]) -> bool {
    let at = [one, other].map(|member| model.get(&member).copied());
    match step {
        10 => {
            let told = (set.len().await.unwrap(), set.is_empty().await.unwrap(), set.contains(&one).await.unwrap());
            told == (model.len() as u64, model.is_empty(), at[0].is_some())
        }
        11 => match (set.distance(&one, &other).await.unwrap(), at) {
            (Some(told), [Some(one), Some(other)]) => (told.as_meters() - apart(one, other)).abs() < ABOUT,
            (told, at) => told.is_none() && at.contains(&None),
        },
        12 => match (set.position(&one).await.unwrap(), at[0]) {
            (Some(told), Some(at)) => near(told, at),
            (told, at) => told.is_none() && at.is_none(),
        },
        _ => {
            let both = set.geohashes(&[one, other]).await.unwrap();
            let same = both[0] == set.geohash(&one).await.unwrap();
            let fits = |(told, at): (&Option<String>, &Option<Position>)| match (told, at) {
                (Some(told), Some(at)) => is_at(told, *at),
                (told, at) => told.is_none() && at.is_none(),
            };
            same && both.iter().zip(&at).all(fits)
        }
    }
}

/// A position or a member, the area, and the order and number of results.
type Asked = (Result<Position, u8>, Area, Wanted);

fn search(set: &Places, (center, area, wanted): Asked) -> Search<u8, Json> {
    let around = match center {
        Ok(at) => set.around(at),
        Err(member) => set.around_member(&member),
    };
    wanted.of(area.of(around))
}

async fn found(set: &Places, model: &Model, asked: Asked, kind: u8) -> bool {
    let (center, area, wanted) = asked;
    let search = search(set, asked);
    let Some(center) = center.ok().or_else(|| model.get(&asked.0.unwrap_err()).copied()) else {
        return search.members().await.unwrap().is_empty();
    };
    let (members, is_told) = match kind {
        0 => (search.members().await.unwrap(), true),
        1 => {
            let found = search.distances().await.unwrap();
            let is_far = |(member, far): &(u8, Distance)| {
                model.get(member).is_some_and(|at| (far.as_meters() - apart(center, *at)).abs() < ABOUT)
            };
            (found.iter().map(|(member, _)| *member).collect(), found.iter().all(is_far))
        }
        _ => {
            let found = search.positions().await.unwrap();
            let is_there = |(member, told): &(u8, Position)| model.get(member).is_some_and(|at| near(*told, *at));
            (found.iter().map(|(member, _)| *member).collect(), found.iter().all(is_there))
        }
    };
    is_told && wanted.fits(model, center, area, &members)
}

/// Stores the result in one of the two sets, which may be the searched one. In other cases, stores
/// the distances and removes them again.
async fn stored(
    client: &Client,
    set: &Places,
    models: &mut [Model; 2],
    asked: Asked,
    (from, into, name): (usize, usize, &String),
    kind: u8,
) -> bool {
    let (center, area, wanted) = asked;
    let model = models[from].clone();
    let center = center.ok().or_else(|| model.get(&asked.0.unwrap_err()).copied());
    let (stored, mut found, is_told) = match kind {
        0 => {
            let stored = search(set, asked).store_distances(name).await.unwrap();
            let all = || Request::command("ZRANGE").key(name.clone()).int(0).int(-1).arg("WITHSCORES");
            let Pairs(found): Pairs<u64, f64> = client.run(all()).await.unwrap();
            client.run::<()>(Request::command("DEL").key(name.clone())).await.unwrap();
            let is_far = |(member, far): &(u64, f64)| {
                let at = model.get(&(*member as u8)).zip(center);
                at.is_some_and(|(at, center)| (far - apart(center, *at)).abs() < ABOUT)
            };
            let is_told = found.iter().all(is_far);
            models[into].clear();
            (stored, found.into_iter().map(|(member, _)| member as u8).collect::<Vec<u8>>(), is_told)
        }
        _ => {
            let stored = search(set, asked).store(name).await.unwrap();
            let other = Places::new(client, name);
            let all: Vec<u8> = (0..MEMBERS).collect();
            let told = other.positions(&all).await.unwrap();
            let found: Vec<u8> = all.into_iter().zip(told).filter_map(|(member, at)| at.and(Some(member))).collect();
            models[into] = found.iter().filter_map(|member| Some((*member, *model.get(member)?))).collect();
            let is_there = other.object().exists().await.unwrap() != found.is_empty();
            (stored, found, is_there)
        }
    };
    let Some(center) = center else { return stored == 0 && found.is_empty() };
    // The stored set is not in the order of the search.
    let far = |member: &u8| model.get(member).map_or(f64::NAN, |at| apart(center, *at));
    found.sort_by(|one, other| far(one).total_cmp(&far(other)));
    if wanted.order == 2 {
        found.reverse();
    }
    is_told && stored == found.len() as u64 && wanted.fits(&model, center, area, &found)
}

async fn intrude(client: &Client, name: &str, model: &mut Model, step: u8, one: u8, at: Position) -> bool {
    let on = |command: &'static str| Request::command(command).key(name.to_owned());
    match step {
        // The server does not find members exactly at the edge of its map.
        28 if at.longitude() < 180.0 && at.latitude() < END => {
            let add = on("GEOADD").arg(at.longitude().to_string()).arg(at.latitude().to_string()).arg(one.to_string());
            client.run::<bool>(add).await.unwrap() == model.insert(one, at).is_none()
        }
        _ => client.run::<bool>(on("ZREM").arg(one.to_string())).await.unwrap() == model.remove(&one).is_some(),
    }
}
