//! Geo sets: members with positions, distances and searches.

use std::collections::BTreeMap;
use std::time::Duration;

use redgrid_core::Failure;
use redgrid_geo::codecs::Text;
use redgrid_geo::{Distance, Geo, ObjectError, Position};
use redgrid_testkit::{Action, Proxy};
use redgrid_tests::{client, client_with, server};

fn at(longitude: f64, latitude: f64) -> Position {
    Position::new(longitude, latitude).unwrap()
}

fn near(one: Position, other: Position) -> bool {
    (one.longitude() - other.longitude()).abs() < 1e-5 && (one.latitude() - other.latitude()).abs() < 1e-5
}

const PALERMO: (f64, f64) = (13.361_389, 38.115_556);
const CATANIA: (f64, f64) = (15.087_269, 37.502_669);

#[tokio::test(flavor = "multi_thread")]
async fn members_come_move_and_go() {
    let server = server().await;
    let client = client(&server).await;
    let cities: Geo<String> = Geo::new(&client, "cities");
    let (palermo, catania) = (at(PALERMO.0, PALERMO.1), at(CATANIA.0, CATANIA.1));
    assert!(cities.is_empty().await.unwrap() && cities.position("Palermo").await.unwrap().is_none());
    assert!(!cities.add_if_exists("Palermo", palermo).await.unwrap());
    assert!(cities.add("Palermo", catania).await.unwrap() && !cities.add("Palermo", catania).await.unwrap());
    assert!(cities.add_if_exists("Palermo", palermo).await.unwrap());
    // An existing member is updated, even if its position stays the same.
    assert!(cities.add_if_exists("Palermo", palermo).await.unwrap());
    assert!(!cities.add_if_absent("Palermo", catania).await.unwrap());
    assert!(cities.add_if_absent("Catania", catania).await.unwrap());
    assert!(near(cities.position("Palermo").await.unwrap().unwrap(), palermo));
    let positions = cities.positions(["Catania", "Rome", "Palermo"]).await.unwrap();
    assert!(near(positions[0].unwrap(), catania) && positions[1].is_none() && near(positions[2].unwrap(), palermo));
    assert_eq!(cities.geohash("Palermo").await.unwrap().as_deref(), Some("sqc8b49rny0"));
    assert_eq!(cities.geohashes(["Rome", "Catania"]).await.unwrap(), [None, Some("sqdtr74hyu0".to_owned())]);
    let apart = cities.distance("Palermo", "Catania").await.unwrap().unwrap();
    assert!(
        (apart.as_kilometers() - 166.2742).abs() < 0.001 && (apart.as_miles() - 103.3182).abs() < 0.001,
        "{apart:?}"
    );
    assert_eq!(cities.distance("Palermo", "Rome").await.unwrap(), None);
    assert!(cities.contains("Catania").await.unwrap() && !cities.contains("Rome").await.unwrap());
    assert_eq!(cities.add_many_if_absent([("Rome", palermo), ("Catania", palermo)]).await.unwrap(), 1);
    assert_eq!(cities.add_many_if_exists([("Rome", catania), ("Milan", catania)]).await.unwrap(), 1);
    assert_eq!(cities.add_many([("Rome", at(12.5, 41.9)), ("Milan", at(9.2, 45.5))]).await.unwrap(), 1);
    assert_eq!(cities.len().await.unwrap(), 4);
    assert!(cities.remove("Rome").await.unwrap() && !cities.remove("Rome").await.unwrap());
    assert_eq!(cities.remove_many(["Milan", "Rome", "Catania"]).await.unwrap(), 2);
    assert!(cities.clear().await.unwrap() && !cities.clear().await.unwrap());
    // More members than one command has.
    let many: Vec<String> = (0..1100).map(|n| n.to_string()).collect();
    let placed = many.iter().zip(0..).map(|(member, n)| (member, at(f64::from(n) / 10.0, 0.0)));
    assert_eq!(cities.add_many(placed.clone()).await.unwrap(), 1100);
    assert_eq!((cities.add_many(placed).await.unwrap(), cities.len().await.unwrap()), (0, 1100));
    assert!(cities.positions(&many).await.unwrap().iter().all(Option::is_some));
}

#[tokio::test(flavor = "multi_thread")]
async fn nearby_members_are_found_and_stored() {
    let server = server().await;
    let client = client(&server).await;
    let cities: Geo<String, Text> = Geo::<String, Text>::new(&client, "cities");
    let placed =
        [("Palermo", at(PALERMO.0, PALERMO.1)), ("Catania", at(CATANIA.0, CATANIA.1)), ("Rome", at(12.5, 41.9))];
    cities.add_many(placed).await.unwrap();
    let (here, far) = (at(15.0, 37.0), Distance::kilometers(200.0));
    assert_eq!(cities.around(here).within(far).nearest_first().members().await.unwrap(), ["Catania", "Palermo"]);
    assert_eq!(cities.around(here).within(far).farthest_first().members().await.unwrap(), ["Palermo", "Catania"]);
    assert_eq!(cities.around(here).within(far).at_most(1).members().await.unwrap(), ["Catania"]);
    assert_eq!(cities.around(here).within(far).farthest_first().at_most(1).members().await.unwrap(), ["Palermo"]);
    assert_eq!(cities.around(here).within(far).any(1).members().await.unwrap().len(), 1);
    let found = cities.around(here).within(Distance::miles(125.0)).nearest_first().distances().await.unwrap();
    assert!(found[0].0 == "Catania" && (found[0].1.as_kilometers() - 56.4413).abs() < 0.001, "{found:?}");
    assert!(found[1].0 == "Palermo" && (found[1].1.as_kilometers() - 190.4424).abs() < 0.001, "{found:?}");
    let (narrow, high) = (Distance::kilometers(60.0), Distance::kilometers(400.0));
    let boxed = cities.around(here).within_box(narrow, high).positions().await.unwrap();
    assert!(boxed.len() == 1 && boxed[0].0 == "Catania" && near(boxed[0].1, placed[1].1), "{boxed:?}");
    // A search around a member also finds that member.
    let around = || cities.around_member("Palermo").within(far).nearest_first();
    assert_eq!(around().members().await.unwrap(), ["Palermo", "Catania"]);
    let distances: BTreeMap<String, f64> =
        around().distances().await.unwrap().into_iter().map(|(city, away)| (city, away.as_meters())).collect();
    assert!(distances["Palermo"] == 0.0 && (distances["Catania"] - 166_274.151_6).abs() < 0.1, "{distances:?}");
    assert_eq!(around().positions().await.unwrap().len(), 2);
    assert!(cities.around_member("Milan").within(far).members().await.unwrap().is_empty());
    // The search result is stored as another set.
    assert_eq!(cities.around(here).within(far).store("near").await.unwrap(), 2);
    let stored: Geo<String, Text> = Geo::new(&client, "near");
    assert_eq!((stored.len().await.unwrap(), stored.contains("Palermo").await.unwrap()), (2, true));
    assert!(near(stored.position("Catania").await.unwrap().unwrap(), placed[1].1));
    assert_eq!(around().at_most(1).store("near").await.unwrap(), 1);
    assert_eq!(around().store_distances("distances").await.unwrap(), 2);
    let observer = server.observer().await.unwrap();
    let scores: Vec<String> = observer.query(&["ZRANGE", "distances", "0", "-1"]).await.unwrap();
    assert_eq!(scores, ["Palermo", "Catania"]);
    assert_eq!(cities.around_member("Milan").within(far).store("near").await.unwrap(), 0);
    assert!(!stored.object().exists().await.unwrap());
    assert_eq!(cities.around(at(-100.0, 0.0)).within(far).store("distances").await.unwrap(), 0);
    assert!(!observer.exists("distances").await.unwrap());
}

/// Members at the edge of the map are found, although the server's geohash has no cell for them.
#[tokio::test(flavor = "multi_thread")]
async fn members_at_the_edge_of_the_map_are_found() {
    let server = server().await;
    let client = client(&server).await;
    let geo: Geo<String> = Geo::new(&client, "ends");
    let ends =
        [at(180.0, 0.0), at(-180.0, 0.0), at(0.0, 85.051_128_78), at(180.0, 85.051_128_78), at(-180.0, -85.051_128_78)];
    let near = Distance::meters(2.0);
    for end in ends {
        geo.clear().await.unwrap();
        geo.add_many([("many", end), ("moved", at(1.0, 1.0))]).await.unwrap();
        assert!(geo.add("one", end).await.unwrap() && geo.add_if_absent("absent", end).await.unwrap());
        assert!(geo.add_if_exists("moved", end).await.unwrap());
        let hashes: Vec<String> = geo.geohashes(["one", "many"]).await.unwrap().into_iter().flatten().collect();
        assert!(hashes.len() == 2 && hashes[0] == hashes[1], "{end:?}: {hashes:?}");
        let position = geo.position("one").await.unwrap().unwrap();
        assert!(
            (position.longitude().abs() - end.longitude().abs()).abs() < 1e-5
                && (position.latitude() - end.latitude()).abs() < 1e-5,
            "{end:?}: {position:?}"
        );
        // Searches from the position itself, from beside it, and from the other side of the map.
        let inner = at(end.longitude() * 0.999_999_99, end.latitude() * 0.999_999_99);
        let across = at(-end.longitude(), end.latitude());
        for center in [end, inner, across] {
            let mut found = geo.around(center).within(near).members().await.unwrap();
            found.sort();
            assert_eq!(found, ["absent", "many", "moved", "one"], "{end:?} from {center:?}");
            assert_eq!(
                geo.around(center).within_box(near, near).store("found").await.unwrap(),
                4,
                "{end:?} from {center:?}"
            );
        }
        assert_eq!(geo.around_member("one").within(near).members().await.unwrap().len(), 4, "{end:?}");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn invalid_searches_are_reported() {
    let server = server().await;
    let client = client(&server).await;
    let geo: Geo<String> = Geo::new(&client, "geo");
    let middle = at(0.0, 0.0);
    for radius in [-1.0, f64::NAN, f64::INFINITY] {
        let told = geo.around(middle).within(Distance::meters(radius)).members().await.unwrap_err();
        assert!(matches!(&told, ObjectError::Failed(Failure::InvalidArgument { option: "radius", .. })), "{told:?}");
        let (width, height) = (Distance::meters(1.0), Distance::meters(radius));
        let told = geo.around_member("a").within_box(width, height).store("b").await.unwrap_err();
        assert!(matches!(&told, ObjectError::Failed(Failure::InvalidArgument { option: "box", .. })), "{told:?}");
    }
    let told = geo.around(middle).within(Distance::meters(1.0)).any(0).members().await.unwrap_err();
    assert!(matches!(&told, ObjectError::Failed(Failure::InvalidArgument { option: "count", .. })), "{told:?}");
    let told = geo.around(middle).within(Distance::meters(1.0)).store("a{b").await.unwrap_err();
    assert!(matches!(told, ObjectError::Failed(Failure::InvalidName(_))), "{told:?}");
    let text: Geo<String, Text> = Geo::new(&client, "geo");
    text.add("no json", middle).await.unwrap();
    let told = geo.around(middle).within(Distance::meters(1.0)).members().await.unwrap_err();
    assert!(matches!(told, ObjectError::Decode { .. }), "{told:?}");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_move_with_a_lost_reply_has_an_unknown_outcome() {
    let server = server().await;
    let proxy = Proxy::to(&server).await.unwrap();
    let client =
        client_with(&server.url_via(proxy.addr()), |config| config.response_timeout(Duration::from_secs(1))).await;
    let geo: Geo<String> = Geo::new(&client, "geo");
    proxy.next(1, "GEOADD", Action::SwallowReply);
    let told = geo.add("a", at(1.0, 2.0)).await.unwrap_err();
    assert!(matches!(told, ObjectError::Failed(Failure::OutcomeUnknown { .. })), "{told:?}");
    // A read without a reply is sent again.
    proxy.next(1, "GEOPOS", Action::SwallowReply);
    assert!(near(geo.position("a").await.unwrap().unwrap(), at(1.0, 2.0)));
}
