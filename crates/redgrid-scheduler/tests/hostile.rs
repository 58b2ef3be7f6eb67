//! Patterns, zones and stored texts may come from other programs, or from people. No text makes a
//! parser panic or search without an end.

use std::time::{Duration, UNIX_EPOCH};

use redgrid_scheduler::{Cron, Spec};

const PATTERNS: [&str; 8] = [
    "0 3 * * *",
    "*/15 8-17 * * MON-FRI",
    "0 0 29 2 ?",
    "0,30 2 L JAN-MAR +5L",
    "*/10 0 0 15W * *",
    "0 0/5 * * * ?",
    "0 0 12 ? * 6#3",
    "0 30 2 LW 3,10 ? 2020-2030",
];

/// Fields that are valid in some places, and ones that are valid in none.
const FIELDS: [&str; 46] = [
    "*",
    "?",
    "L",
    "LW",
    "15W",
    "0",
    "1",
    "2",
    "5",
    "7",
    "29",
    "30",
    "31",
    "59",
    "2024",
    "1-5",
    "*/7",
    "0/5",
    "2-4/2",
    "MON",
    "fri#2",
    "5L",
    "FEB",
    "jan-mar",
    "+MON",
    "0,30",
    "",
    ",",
    "-",
    "/",
    "#",
    "+",
    "@",
    "W",
    "60",
    "5000",
    "65535",
    "65536",
    "99999999999999999999",
    "*/0",
    "-1",
    "5-1",
    "é",
    "ß",
    "\u{0}",
    "@daily",
];

/// Returns a pattern in which a few fields are replaced, left out, or joined with others.
fn text(random: &mut fastrand::Rng) -> String {
    let mut fields: Vec<String> = PATTERNS[random.usize(..8)].split(' ').map(str::to_owned).collect();
    for _ in 0..random.usize(..3) {
        let (at, field) = (random.usize(..fields.len()), FIELDS[random.usize(..FIELDS.len())]);
        match random.u8(..6) {
            0 => drop(fields.remove(at)),
            1 => fields.insert(at, field.to_owned()),
            2 => fields[at].push_str(field),
            3 => fields[at] = format!("{},{field}", fields[at]),
            _ => fields[at] = field.to_owned(),
        }
    }
    fields.join(" ")
}

#[test]
fn no_pattern_makes_the_parser_or_the_search_panic() {
    let mut random = fastrand::Rng::with_seed(33);
    let now = UNIX_EPOCH + Duration::from_secs(1_700_000_000);
    let (mut read, mut refused) = (0, 0);
    for _ in 0..3_000 {
        let text = text(&mut random);
        for cron in [Cron::new(&text), Cron::quartz(&text)] {
            let Ok(cron) = cron else {
                refused += 1;
                continue;
            };
            read += 1;
            let cron = cron.zone("Antarctica/Troll").unwrap();
            let next = cron.next(now);
            assert!(next.is_none_or(|next| next > now), "{text}");
            assert!(cron.latest(now).is_none_or(|latest| latest <= now), "{text}");
            if let Some(next) = next {
                assert_eq!(cron.latest(next), Some(next), "{text}");
            }
            let spec = Spec::new(cron);
            assert_eq!(Spec::from_stored(&spec.to_stored()).as_ref(), Ok(&spec), "{text}");
        }
    }
    assert!(read > 1_000 && refused > 1_000, "{read} read, {refused} refused");
}

#[test]
fn no_stored_text_makes_the_reader_panic() {
    let mut random = fastrand::Rng::with_seed(33);
    let whole = r#"{"v":1,"cron":"0 3 * * *","zone":"UTC","missed":{"all":5},"overlap":"skip","jitter_ms":30000,"until_ms":-1}"#;
    assert!(Spec::from_stored(whole).is_ok());
    for _ in 0..20_000 {
        let mut bytes = whole.as_bytes().to_vec();
        for _ in 0..random.usize(1..4) {
            let at = random.usize(..bytes.len());
            match random.u8(..3) {
                0 => bytes[at] = random.u8(b' '..127),
                1 => drop(bytes.remove(at)),
                _ => bytes.insert(at, random.u8(b' '..127)),
            }
        }
        // Whatever is read can be written and read again.
        let Ok(spec) = Spec::from_stored(&String::from_utf8_lossy(&bytes)) else { continue };
        assert_eq!(Spec::from_stored(&spec.to_stored()), Ok(spec));
    }
    for text in ["", "{}", "[]", "null", "{\"v\":1}", &"[".repeat(100_000), &format!("{{\"v\":{}}}", "9".repeat(400))] {
        assert!(Spec::from_stored(text).is_err(), "{}", text.len());
    }
}
