//! Splits many keys or values into chunks.

/// Maximum number of items in one command. While a server executes a command, it does nothing else.
const MAX_ITEMS: usize = 500;

/// Approximate maximum size of a command in bytes. Client and server keep the whole command in
/// memory.
const MAX_BYTES: usize = 4 << 20;

/// Splits `all` into chunks. A chunk ends after 500 items, or after the item with which it reaches
/// 4 MiB.
pub fn chunks<T>(mut all: &[T], size: impl Fn(&T) -> usize) -> impl Iterator<Item = &[T]> {
    std::iter::from_fn(move || {
        let mut bytes = 0;
        let fits = all.iter().take(MAX_ITEMS).take_while(|item| {
            let fits = bytes < MAX_BYTES;
            bytes += size(item);
            fits
        });
        let (chunk, rest) = all.split_at(fits.count());
        all = rest;
        (!chunk.is_empty()).then_some(chunk)
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_chunk_ends_at_500_or_4_mib() {
        let sizes = |all: &[usize]| chunks(all, |size| *size).map(<[usize]>::len).collect::<Vec<_>>();
        assert_eq!(sizes(&[]), [0; 0]);
        assert_eq!(sizes(&[1; 1001]), [500, 500, 1]);
        assert_eq!(sizes(&[3 << 20; 5]), [2, 2, 1]);
        assert_eq!(sizes(&[9 << 20; 2]), [1, 1]);
    }
}
