//! Purchase requests, and their two generators: one for a sale of one product, one for a sample
//! file.

use std::io::{self, Write};

use serde::{Deserialize, Serialize};

/// A purchase request.
#[derive(Debug, Clone, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub(crate) struct Request {
    /// The user.
    #[serde(rename = "u")]
    pub(crate) user: String,
    /// The product.
    #[serde(rename = "p")]
    pub(crate) product: String,
    /// How many units, at least one.
    #[serde(rename = "q")]
    pub(crate) quantity: u64,
}

/// The columns of a request file, in order.
pub(crate) const COLUMNS: [&str; 3] = ["user_id", "product_id", "quantity"];

/// The product of a sale without a request file.
const ONE_PRODUCT: &str = "console";

/// On average, one of this many requests repeats a recent one, like an impatient user who clicks
/// again.
const REPEATS_EVERY: u64 = 12;

/// How many requests back a repetition may reach. The number is small, so that both requests are in
/// flight at the same time.
const RECENT: u64 = 24;

/// Generates requests for one unit of one product each: twice as many as the stock, as in a flash
/// sale.
pub(crate) fn crowd(seed: u64, stock: u64) -> Vec<Request> {
    let mut random = SplitMix64(seed);
    let mut users: Vec<u64> = Vec::new();
    for at in 0..stock * 2 {
        let repeats = at > 0 && random.below(REPEATS_EVERY) == 0;
        // Two users drawn from 10^12 rarely collide; a collision only adds one repetition.
        let user = if repeats {
            users[(at - 1 - random.below(RECENT.min(at))) as usize]
        } else {
            random.below(1_000_000_000_000)
        };
        users.push(user);
    }
    let request = |user| Request { user: format!("u{user:012}"), product: ONE_PRODUCT.into(), quantity: 1 };
    users.into_iter().map(request).collect()
}

/// The products of a sample file, and their percentage of requests.
const PRODUCTS: [(&str, u64); 6] =
    [("console", 27), ("headset", 22), ("keyboard", 18), ("monitor", 14), ("webcam", 11), ("desk-lamp", 8)];

/// Writes a sample file: a line of column names, then `rows` requests for [`PRODUCTS`].
///
/// A user may also buy other products. About one row in twelve repeats a recent one, always with
/// the same quantity. If the stock suffices, the result of a sale is therefore independent of the
/// order of service.
pub(crate) fn write_sample(out: &mut impl Write, seed: u64, rows: u64) -> io::Result<()> {
    let mut random = SplitMix64(seed);
    writeln!(out, "{}", COLUMNS.join(","))?;
    let mut recent: Vec<String> = Vec::new();
    for at in 0..rows {
        let row = if at > 0 && random.below(REPEATS_EVERY) == 0 {
            recent[random.below(recent.len() as u64) as usize].clone()
        } else {
            let user = random.below(rows);
            let product = product(random.below(100));
            format!("u{user:06},{product},{}", quantity(seed, user, product))
        };
        writeln!(out, "{row}")?;
        if recent.len() == RECENT as usize {
            recent.remove(0);
        }
        recent.push(row);
    }
    Ok(())
}

fn product(mut percent: u64) -> &'static str {
    for (product, share) in PRODUCTS {
        match percent.checked_sub(share) {
            None => return product,
            Some(left) => percent = left,
        }
    }
    PRODUCTS[0].0
}

/// Returns one unit in six of ten cases, two in three, three in one. The result depends only on
/// user and product, so repetitions have the same quantity.
fn quantity(seed: u64, user: u64, product: &str) -> u64 {
    let mixed = product.bytes().fold(seed ^ user.rotate_left(32), |sum, byte| SplitMix64(sum ^ u64::from(byte)).next());
    match mixed % 10 {
        0..=5 => 1,
        6..=8 => 2,
        _ => 3,
    }
}

/// SplitMix64 (Steele, Lea, Flood: "Fast splittable pseudorandom number generators", 2014). It is
/// implemented here because the same seed must give the same bytes in every release.
struct SplitMix64(u64);

impl SplitMix64 {
    fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut z = self.0;
        z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        z ^ (z >> 31)
    }

    /// Returns a number below `end`: the upper half of a 128-bit product.
    fn below(&mut self, end: u64) -> u64 {
        ((u128::from(self.next()) * u128::from(end)) >> 64) as u64
    }
}

#[cfg(test)]
mod tests {
    use std::collections::{HashMap, HashSet};

    use super::*;

    #[test]
    fn the_generator_is_splitmix64() {
        // The first outputs for seed 1234567, as published with the reference implementation
        // (prng.di.unimi.it).
        let mut random = SplitMix64(1_234_567);
        assert_eq!([random.next(), random.next()], [6_457_827_717_110_365_317, 3_203_168_211_198_807_973]);
    }

    #[test]
    fn a_crowd_wants_more_than_there_is_and_some_ask_twice() {
        let crowd = crowd(1, 1_000);
        let users: HashSet<_> = crowd.iter().map(|request| &request.user).collect();
        assert_eq!(crowd.len(), 2_000);
        assert!(users.len() > 1_500 && users.len() < 1_950, "{}", users.len());
        assert_eq!(crowd, super::crowd(1, 1_000));
        assert_ne!(crowd, super::crowd(2, 1_000));
    }

    #[test]
    fn repetitions_in_a_sample_have_the_same_quantity() {
        let mut file = Vec::new();
        write_sample(&mut file, 7, 5_000).unwrap();
        let text = String::from_utf8(file).unwrap();
        let mut by_user: HashMap<(&str, &str), &str> = HashMap::new();
        let mut repeats = 0;
        for row in text.lines().skip(1) {
            let cells: Vec<_> = row.split(',').collect();
            if let Some(before) = by_user.insert((cells[0], cells[1]), cells[2]) {
                assert_eq!(before, cells[2], "{row}");
                repeats += 1;
            }
        }
        assert!(repeats > 200, "{repeats}");
    }
}
