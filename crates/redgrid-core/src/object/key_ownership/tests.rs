use super::*;
use crate::name::same_slot;

const CLIENT: &str = "b8a8d7c6-0f4e-4a7b-9a53-2d7e7a1c9f00";
const ROUND: &str = "0123456789abcdef0123456789abcdef";

fn of(key: &str) -> Option<(String, OnDelete)> {
    owner_of(key.as_bytes()).map(|(object, on_delete)| (String::from_utf8(object.to_vec()).unwrap(), on_delete))
}

#[test]
fn keys_of_an_object_lead_back_to_its_name() {
    for name in ["a", "orders:42", "a{b}", "{a}b", "prod:a", "x:{y}:z"] {
        let suffixed = suffixed_companions(name.as_bytes());
        for own in ALL.iter().flat_map(|kind| (kind.keys)(name.as_bytes())) {
            assert!(owned_keys(name.as_bytes()).contains(&own) != suffixed.contains(&own), "{own:?}");
        }
        let all = owned_keys(name.as_bytes());
        assert_eq!(all[0], name);
        for key in &all[1..] {
            let (object, on_delete) = owner_of(key).unwrap();
            assert_eq!((&object[..], on_delete != OnDelete::Keep), (name.as_bytes(), true), "{key:?}");
            assert!(same_slot(key, name.as_bytes()), "{key:?}");
        }
        assert_eq!(owner_of(name.as_bytes()), None);
        for key in suffixed_companions(name.as_bytes()) {
            assert_eq!((owner_of(&key), possible_owner(&key).unwrap().object), (None, name.into()), "{key:?}");
        }
        assert!(primary_keys(name.as_bytes()).iter().all(|primary| all.contains(primary)));
    }
}

#[test]
fn ids_behind_a_name_are_no_part_of_it() {
    let goes = |name: &str| Some((name.to_owned(), OnDelete::Delete));
    let stays = |name: &str| Some((name.to_owned(), OnDelete::Keep));
    assert_eq!(of(&format!("{{R}}:{CLIENT}:7:rwlock_timeout:1")), goes("R"));
    assert_eq!(of(&format!("a{{R}}:{CLIENT}:7:rwlock_timeout:1")), goes("a{R}"));
    assert_eq!(of(&format!("redgrid_rate:{{R}}:{CLIENT}")), goes("R"));
    assert_eq!(of(&format!("redgrid_adder_round:{{R}}:{ROUND}")), goes("R"));
    assert_eq!(of(&format!("redgrid_once:{{R}}:{CLIENT}")), stays("R"));
    assert_eq!(of(&format!("redgrid_once:{{R}}:{ROUND}:counter:{CLIENT}")), stays("R"));
    assert_eq!(of(&format!("redgrid_once:redgrid_queue_back:{{R}}:{CLIENT}:{CLIENT}")), stays("R"));
    assert_eq!(of(&format!("redgrid_fence:{{R}}:{CLIENT}:12")), stays("R"));
    assert_eq!(of("redgrid_fence:{R}"), stays("R"));
    assert_eq!(of("redisson_lock_token:{prod:R}"), stays("prod:R"));
    for latch in ["a", "{a}:tag", "{a}b", "x{a}:tag"] {
        let round = String::from_utf8(companion("redgrid_latch", latch.as_bytes()).to_vec()).unwrap();
        assert_eq!(of(&round), goes(latch));
    }
    assert_eq!(of("redisson_lock_queue:redgrid_rw_line:{R}"), goes("R"));
    assert_eq!(of("redgrid_barrier:{R}"), Some(("R".to_owned(), OnDelete::Primary)));
    assert_eq!(of("redisson_rb:{R}"), Some(("R".to_owned(), OnDelete::PrimaryIfAlone)));
}

#[test]
fn a_key_with_an_id_that_may_be_an_object_of_its_own_has_to_be_checked() {
    let candidate = |key: String| {
        assert_eq!(of(&key), None, "{key}");
        possible_owner(key.as_bytes()).map(|candidate| (candidate.object, candidate.evidence))
    };
    assert_eq!(candidate(format!("{{R}}:value:{CLIENT}")), Some(("R".into(), Evidence::Types(1))));
    assert_eq!(candidate(format!("a{{R}}:permits:{CLIENT}")), Some(("a{R}".into(), Evidence::Types(2))));
    let round = Evidence::Exists(format!("redgrid_adder_round:{{R}}:{ROUND}").into());
    for suffix in ["counter", "semaphore"] {
        assert_eq!(candidate(format!("{{R}}:{ROUND}:{suffix}")), Some(("R".into(), round.clone())));
    }
    assert_eq!(candidate(format!("a:value:{CLIENT}")), None);
    assert_eq!(candidate("{R}:V7p3tUdzrwY3/qsccaFtGw".into()), Some(("R".into(), Evidence::Multimap)));
    assert_eq!(candidate("{R}:V7p3tUdzrwY3/qsccaFtG".into()), None);
    // The queue of a lock with such a name belongs to that lock.
    let lock = format!("{{R}}:{CLIENT}:semaphore");
    assert_eq!(of(&format!("redisson_lock_queue:{lock}")), Some((lock, OnDelete::Delete)));
}

#[test]
fn the_cursor_of_a_list_goes_with_it_and_the_server_incarnation_stays() {
    assert_eq!(of("__redisson_list_cursor_{a:b}"), Some(("a:b".to_owned(), OnDelete::Delete)));
    assert_eq!(of("__redisson_list_cursor_a"), None);
    assert_eq!(of("{a:b}:redisson_options"), Some(("a:b".to_owned(), OnDelete::Delete)));
    assert_eq!(of("a:redisson_options"), None);
    assert_eq!(of("{a:b}:redisson_set_multimap_ttl"), Some(("a:b".to_owned(), OnDelete::Delete)));
    for key in ["redgrid_birth", "prod:redgrid_birth"] {
        assert_eq!(of(key), Some((key.to_owned(), OnDelete::Keep)));
    }
    assert_eq!(of("my_redgrid_birth"), None);
}

#[test]
fn a_foreign_key_is_read_at_no_cost() {
    // Without a maximum length, each level of nesting would copy the rest of the key.
    let nested = "redgrid_wait:".repeat(10_000) + "{a}";
    assert_eq!((of(&nested), possible_owner(nested.as_bytes())), (None, None));
    let some = "redgrid_wait:".repeat(100) + "{a}";
    assert_eq!(of(&some), Some(("redgrid_wait:".repeat(98) + "{a}", OnDelete::Delete)));
    let colons = ":".repeat(1 << 20) + "{a}:value";
    assert_eq!((of(&colons), possible_owner(colons.as_bytes())), (None, None));
}

#[test]
fn names_of_users_are_no_companions() {
    for name in ["redgrid_fair:a", "redgrid_unheard:{a}", "a:timeout", "{a}:timeout", "{a}:b:value", "a{", "", ":"] {
        assert_eq!(of(name), None, "{name}");
    }
    assert_eq!((possible_owner(b"a:timeout"), possible_owner(b"timeout")), (None, None));
}
