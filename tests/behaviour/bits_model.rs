//! Compares combinations of bit sets, and numbers in them, with rows of `bool`s.

use redgrid_bits::{BitSet, Field, FieldOp, Overflow};
use redgrid_core::{Client, Request};
use redgrid_tests::model::seeds;
use redgrid_tests::{client, server};

/// The number of sets.
const SETS: usize = 3;

/// All bits that are set, or belong to a number, are below this index.
const BITS: u64 = 150;

#[tokio::test(flavor = "multi_thread")]
async fn bit_set_combinations_and_numbers_match_their_models() {
    let server = server().await;
    modelled([&client(&server).await, &client(&server).await], 16).await;
    let left: Vec<String> = server.observer().await.unwrap().query(&["KEYS", "redgrid_bits:*"]).await.unwrap();
    assert!(left.is_empty(), "temporary keys: {left:?}");
}

/// The bits from index 0: eight for each byte of the server's value.
#[derive(Clone, Debug, Default, PartialEq)]
struct Model(Vec<bool>);

impl Model {
    fn of(bytes: &[u8]) -> Model {
        Model(bytes.iter().flat_map(|byte| (0..8).map(move |bit| byte & (0x80 >> bit) != 0)).collect())
    }

    fn get(&self, index: usize) -> bool {
        self.0.get(index).copied().unwrap_or_default()
    }

    /// Extends the value so that it contains this bit.
    fn reach(&mut self, end: u64) {
        let end = (end as usize).next_multiple_of(8);
        self.0.resize(self.0.len().max(end), false);
    }

    fn set(&mut self, index: u64, bit: bool) -> bool {
        self.reach(index + 1);
        std::mem::replace(&mut self.0[index as usize], bit)
    }

    /// Returns the combination with other sets. `bit` receives each bit of this set, and the number
    /// of other sets with the bit.
    fn made(&self, others: &[Model], bit: impl Fn(bool, usize) -> bool) -> Model {
        let len = others.iter().map(|other| other.0.len()).max().unwrap_or(0).max(self.0.len());
        let of = |at| bit(self.get(at), others.iter().filter(|other| other.get(at)).count());
        Model((0..len).map(of).collect())
    }

    fn number(&self, number: &Number) -> i128 {
        let bits = (0..number.bits).map(|n| i128::from(self.get((number.offset + u64::from(n)) as usize)));
        let unsigned = bits.fold(0, |sum, bit| sum << 1 | bit);
        number.wrapped(unsigned)
    }

    fn put(&mut self, number: &Number, value: i128) {
        for n in 0..number.bits {
            self.set(number.offset + u64::from(n), value >> (number.bits - 1 - n) & 1 == 1);
        }
    }

    /// Applies one operation of a call, and returns its result.
    fn apply(&mut self, op: &Op) -> Option<i64> {
        let number = &op.number;
        let was = self.number(number);
        let told = match op.what {
            What::Get => Some(was),
            What::Set(value) => {
                self.put(number, value.into());
                Some(was)
            }
            What::Add(by, overflow) => {
                let (sum, (least, most)) = (was + i128::from(by), number.bounds());
                let is = match overflow {
                    _ if (least..=most).contains(&sum) => Some(sum),
                    Overflow::Wrap => Some(number.wrapped(sum)),
                    Overflow::Saturate => Some(sum.clamp(least, most)),
                    Overflow::Fail => None,
                };
                if let Some(is) = is {
                    self.put(number, is);
                }
                is
            }
        };
        told.map(|told| told.try_into().expect("a value of 64 bits"))
    }
}

/// The position and type of a number.
#[derive(Clone, Copy, Debug)]
struct Number {
    signed: bool,
    bits: u32,
    offset: u64,
}

impl Number {
    fn any(random: &mut fastrand::Rng) -> Number {
        let signed = random.bool();
        let most = if signed { 64 } else { 63 };
        let bits = if random.u8(..4) == 0 { most } else { random.u32(1..=most) };
        Number { signed, bits, offset: random.u64(..=BITS - u64::from(bits)) }
    }

    fn field(&self) -> Field {
        match self.signed {
            true => Field::signed(self.bits, self.offset),
            false => Field::unsigned(self.bits, self.offset),
        }
    }

    fn bounds(&self) -> (i128, i128) {
        match self.signed {
            true => (-(1 << (self.bits - 1)), (1 << (self.bits - 1)) - 1),
            false => (0, (1 << self.bits) - 1),
        }
    }

    /// Returns the number with this many bits whose lowest bits are the same.
    fn wrapped(&self, value: i128) -> i128 {
        let (least, most) = self.bounds();
        (value - least).rem_euclid(most - least + 1) + least
    }

    /// Returns a value in the range of the number; the extremes are more frequent.
    fn value(&self, random: &mut fastrand::Rng) -> i64 {
        let (least, most) = self.bounds();
        let value = match random.u8(..6) {
            0 => least,
            1 => most,
            _ => self.wrapped(random.i64(..).into()),
        };
        value.try_into().expect("a value of 64 bits")
    }
}

#[derive(Clone, Copy, Debug)]
enum What {
    Get,
    Set(i64),
    Add(i64, Overflow),
}

/// One operation of a call.
#[derive(Clone, Copy, Debug)]
struct Op {
    number: Number,
    what: What,
}

impl Op {
    fn any(random: &mut fastrand::Rng) -> Op {
        let number = Number::any(random);
        let what = match random.u8(..5) {
            0 => What::Get,
            1 => What::Set(number.value(random)),
            _ => {
                let by = match random.u8(..6) {
                    0 => i64::MIN,
                    1 => i64::MAX,
                    2 => random.i64(..),
                    _ => random.i64(-9..10),
                };
                What::Add(by, [Overflow::Wrap, Overflow::Saturate, Overflow::Fail][random.usize(..3)])
            }
        };
        Op { number, what }
    }

    fn op(&self) -> FieldOp {
        let field = self.number.field();
        match self.what {
            What::Get => FieldOp::Get(field),
            What::Set(value) => FieldOp::Set(field, value),
            What::Add(by, overflow) => FieldOp::Add(field, by, overflow),
        }
    }
}

/// Two clients, and one that does not use redgrid, change and combine sets of bits.
pub(super) async fn modelled(clients: [&Client; 2], some: u64) {
    for seed in seeds(some) {
        let mut random = fastrand::Rng::with_seed(seed);
        let names: Vec<String> = (0..SETS).map(|n| format!("bits:{{{seed}}}:{n}")).collect();
        let mut models: [Model; SETS] = Default::default();
        let mut story = Vec::new();
        for _ in 0..100 {
            let (who, at) = (random.usize(..2), random.usize(..SETS));
            let set = BitSet::new(clients[who], &names[at]);
            let step = random.u8(..17);
            story.push(format!("{step} by {who} at {at}"));
            let fits = match step {
                0..8 => {
                    let others: Vec<usize> = (0..random.usize(1..4)).map(|_| random.usize(..SETS)).collect();
                    story.push(format!("with {others:?}"));
                    let beside: Vec<Model> = others.iter().map(|other| models[*other].clone()).collect();
                    let named: Vec<&String> = others.iter().map(|other| &names[*other]).collect();
                    combined(&set, &mut models[at], step, (&named, &beside)).await
                }
                8..13 => {
                    let count = if random.bool() { 1 } else { random.usize(..6) };
                    let ops: Vec<Op> = (0..count).map(|_| Op::any(&mut random)).collect();
                    story.push(format!("{ops:?}"));
                    numbers(&set, &mut models[at], &ops).await
                }
                13 => {
                    let (index, bit) = (random.u64(..BITS), random.bool());
                    story.push(format!("{index} {bit}"));
                    set.set(index, bit).await.unwrap() == models[at].set(index, bit)
                }
                14 => {
                    let there = !models[at].0.is_empty();
                    models[at] = Model::default();
                    set.clear().await.unwrap() == there
                }
                _ => {
                    let other = random.usize(..SETS);
                    let (number, index) = (Number::any(&mut random), random.u64(..BITS));
                    let value = number.value(&mut random);
                    story.push(format!("as others do: {other} {number:?} {value} {index}"));
                    let beside = models[other].clone();
                    let with = (names[at].clone(), names[other].clone(), &beside);
                    intrude(clients[1 - who], &mut models[at], with, (random.u8(..5), number, value, index)).await
                }
            };
            assert!(fits, "seed {seed}: {models:?} after {story:?}");
            for (name, model) in names.iter().zip(&models) {
                let beside = BitSet::new(clients[1 - who], name);
                let there = Model::of(&beside.to_bytes().await.unwrap());
                let count = model.0.iter().filter(|bit| **bit).count() as u64;
                let same = there == *model && beside.count().await.unwrap() == count;
                assert!(same, "seed {seed}: {name} is {there:?} of {models:?} after {story:?}");
            }
        }
    }
}

/// Combines a set with others, and stores the result in it.
async fn combined(set: &BitSet, model: &mut Model, way: u8, (named, beside): (&[&String], &[Model])) -> bool {
    let (told, made) = match way {
        0 => (set.and(named).await, model.made(beside, |own, others| own && others == beside.len())),
        1 => (set.or(named).await, model.made(beside, |own, others| own || others > 0)),
        2 => (set.xor(named).await, model.made(beside, |own, others| (usize::from(own) + others) % 2 == 1)),
        3 => (set.not().await, model.made(&[], |own, _| !own)),
        4 => (set.and_not(named).await, model.made(beside, |own, others| own && others == 0)),
        5 => (set.or_and_not(named).await, model.made(beside, |own, others| !own && others > 0)),
        6 => (set.and_any(named).await, model.made(beside, |own, others| own && others > 0)),
        _ => (set.exactly_one(named).await, model.made(beside, |own, others| usize::from(own) + others == 1)),
    };
    *model = made;
    told.unwrap() == model.0.len() as u64 / 8
}

/// Changes several numbers in one call, or one number with its own call.
async fn numbers(set: &BitSet, model: &mut Model, ops: &[Op]) -> bool {
    let written = ops.iter().filter(|op| !matches!(op.what, What::Get));
    let end = written.map(|op| op.number.offset + u64::from(op.number.bits)).max();
    // The value is extended for all written numbers, even if a write overflows.
    end.into_iter().for_each(|end| model.reach(end));
    let expected: Vec<Option<i64>> = ops.iter().map(|op| model.apply(op)).collect();
    match ops {
        [Op { number, what: What::Get }] => Some(set.integer(number.field()).await.unwrap()) == expected[0],
        [Op { number, what: What::Set(value) }] => {
            Some(set.set_integer(number.field(), *value).await.unwrap()) == expected[0]
        }
        [Op { number, what: What::Add(by, overflow) }] => {
            set.add_integer(number.field(), *by, *overflow).await.unwrap() == expected[0]
        }
        ops => set.fields(ops.iter().map(Op::op)).await.unwrap() == expected,
    }
}

/// Writes like a program that only uses string commands, as Redisson does.
async fn intrude(
    client: &Client,
    model: &mut Model,
    (name, other, beside): (String, String, &Model),
    (step, number, value, index): (u8, Number, i64, u64),
) -> bool {
    let on = |command: &'static str| Request::command(command).key(name.clone());
    match step {
        0 => {
            let request = on("SETBIT").arg(index.to_string()).int(value & 1);
            client.run::<bool>(request).await.unwrap() == model.set(index, value & 1 == 1)
        }
        1 => {
            model.reach(number.offset + u64::from(number.bits));
            let was = model.apply(&Op { number, what: What::Set(value) });
            let kind = format!("{}{}", if number.signed { 'i' } else { 'u' }, number.bits);
            let request = on("BITFIELD").arg("SET").arg(kind).arg(number.offset.to_string()).int(value);
            client.run::<Vec<Option<i64>>>(request).await.unwrap() == [was]
        }
        2 => {
            let there = !model.0.is_empty();
            *model = Model::default();
            client.run::<bool>(on("DEL")).await.unwrap() == there
        }
        _ => {
            *model = match step {
                3 => model.made(std::slice::from_ref(beside), |own, others| own || others > 0),
                _ => model.made(std::slice::from_ref(beside), |own, others| own != (others > 0)),
            };
            let request = Request::subcommand("BITOP", if step == 3 { "OR" } else { "XOR" });
            let request = request.key(name.clone()).key(name.clone()).key(other);
            client.run::<u64>(request).await.unwrap() == model.0.len() as u64 / 8
        }
    }
}
