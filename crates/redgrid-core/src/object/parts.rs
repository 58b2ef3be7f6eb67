//! Many keys or values in parts.

/// How many one command has at most: a server does nothing else meanwhile.
const AT_ONCE: usize = 500;

/// How many bytes, about: what is sent at once is in memory here and there.
const BYTES_AT_ONCE: usize = 4 << 20;

/// The parts of what is asked about: each ends at 500 or 4 MiB, and has one at least.
pub fn parts<T>(mut all: &[T], size: impl Fn(&T) -> usize) -> impl Iterator<Item = &[T]> {
    std::iter::from_fn(move || {
        let mut bytes = 0;
        let fits = all.iter().take(AT_ONCE).take_while(|one| {
            let fits = bytes < BYTES_AT_ONCE;
            bytes += size(one);
            fits
        });
        let (part, rest) = all.split_at(fits.count());
        all = rest;
        (!part.is_empty()).then_some(part)
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_part_ends_at_500_or_4_mib() {
        let sizes = |all: &[usize]| parts(all, |size| *size).map(<[usize]>::len).collect::<Vec<_>>();
        assert_eq!(sizes(&[]), [0; 0]);
        assert_eq!(sizes(&[1; 1001]), [500, 500, 1]);
        assert_eq!(sizes(&[3 << 20; 5]), [2, 2, 1]);
        assert_eq!(sizes(&[9 << 20; 2]), [1, 1]);
    }
}
