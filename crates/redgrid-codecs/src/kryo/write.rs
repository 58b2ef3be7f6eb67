//! Writes Kryo 5 as Redisson configures it: a class tag, then the body.

pub(super) fn int(value: i32) -> Vec<u8> {
    varint(vec![2], u64::from((value << 1 ^ value >> 31) as u32))
}

pub(super) fn long(value: i64) -> Vec<u8> {
    let mut out = vec![9];
    let mut rest = (value << 1 ^ value >> 63) as u64;
    for _ in 0..8 {
        if rest < 0x80 {
            break;
        }
        out.push(rest as u8 | 0x80);
        rest >>= 7;
    }
    // The ninth byte has eight bits of the number; the others have seven.
    out.push(rest as u8);
    out
}

pub(super) fn fixed<const N: usize>(tag: u8, body: [u8; N]) -> Vec<u8> {
    [&[tag][..], &body].concat()
}

/// The length of a Java string counts UTF-16 units.
pub(super) fn string(value: &str) -> Vec<u8> {
    if value.is_empty() {
        return vec![3, 0x81];
    }
    if value.is_ascii() && (2..=32).contains(&value.len()) {
        let mut out = fixed(3, []);
        out.extend_from_slice(value.as_bytes());
        if let Some(last) = out.last_mut() {
            *last |= 0x80;
        }
        return out;
    }
    let len = value.encode_utf16().count() as u64 + 1;
    let mut out = Vec::with_capacity(value.len() + 8);
    out.push(3);
    let first = 0x80 | (len & 0x3f) as u8;
    out = match len >> 6 {
        0 => {
            out.push(first);
            out
        }
        rest => {
            out.push(first | 0x40);
            varint(out, rest)
        }
    };
    for unit in value.encode_utf16() {
        match unit {
            0x00..=0x7f => out.push(unit as u8),
            0x80..=0x7ff => out.extend([0xc0 | (unit >> 6) as u8, 0x80 | (unit & 0x3f) as u8]),
            _ => out.extend([0xe0 | (unit >> 12) as u8, 0x80 | (unit >> 6 & 0x3f) as u8, 0x80 | (unit & 0x3f) as u8]),
        }
    }
    out
}

/// `byte[]` is encoded as a class with a name.
pub(super) fn bytes(value: &[u8]) -> Vec<u8> {
    let mut out = varint(vec![1, 0, b'[', b'B' | 0x80], value.len() as u64 + 1);
    out.extend_from_slice(value);
    out
}

fn varint(mut out: Vec<u8>, mut rest: u64) -> Vec<u8> {
    while rest >= 0x80 {
        out.push(rest as u8 | 0x80);
        rest >>= 7;
    }
    out.push(rest as u8);
    out
}
