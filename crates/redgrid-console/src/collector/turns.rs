//! The order in which objects are read.

use std::collections::BTreeSet;

/// The positions in the circles of names that are read in turns.
#[derive(Debug)]
pub(super) struct Turns<N> {
    last_page: Option<N>,
    last_list: Option<N>,
    last_left: Option<N>,
}

impl<N> Default for Turns<N> {
    fn default() -> Self {
        Turns { last_page: None, last_list: None, last_left: None }
    }
}

impl<N: Ord + Clone> Turns<N> {
    /// Returns the next objects to read. Up to a quarter of the reads, and at least one, is for
    /// locks of clients that have left. Of the other reads, objects with pages get two thirds, and
    /// objects in lists one third. One group uses the reads that the other does not need.
    pub(super) fn next(&mut self, pages: &BTreeSet<N>, lists: &BTreeSet<N>, left: &BTreeSet<N>, most: usize) -> Vec<N> {
        let of_left = turn(left, &mut self.last_left, most.div_ceil(4));
        let most = most - of_left.len();
        let is_other = |name: &&N| !pages.contains(*name) && !of_left.contains(*name);
        let lists: BTreeSet<N> = lists.iter().filter(is_other).cloned().collect();
        let for_lists = lists.len().min(most.div_ceil(3)).max(most.saturating_sub(pages.len()));
        let mut batch = turn(pages, &mut self.last_page, most - for_lists.min(most));
        let of_lists = turn(&lists, &mut self.last_list, most - batch.len());
        batch.extend(of_lists);
        let is_new = |name: &N| !batch.contains(name);
        let of_left: Vec<N> = of_left.into_iter().filter(is_new).collect();
        batch.extend(of_left);
        batch
    }
}

/// Returns names after the last one, in a circle.
fn turn<N: Ord + Clone>(names: &BTreeSet<N>, last: &mut Option<N>, most: usize) -> Vec<N> {
    let is_before = |name: &&N| last.as_ref().is_some_and(|last| *name <= last);
    let after = names.iter().skip_while(is_before);
    let before = names.iter().take_while(is_before);
    let next: Vec<N> = after.chain(before).take(most).cloned().collect();
    if let Some(name) = next.last() {
        *last = Some(name.clone());
    }
    next
}

#[cfg(test)]
mod tests {
    use super::*;

    fn names(range: std::ops::Range<usize>) -> BTreeSet<String> {
        range.map(|n| format!("{n:03}")).collect()
    }

    #[test]
    fn every_open_page_has_its_turn() {
        let (pages, lists) = (names(0..30), names(20..60));
        let mut turns = Turns::default();
        let mut read = BTreeSet::new();
        for _ in 0..8 {
            let batch = turns.next(&pages, &lists, &names(0..0), 7);
            let of_pages = batch.iter().filter(|name| pages.contains(*name)).count();
            assert_eq!((batch.len(), of_pages), (7, 4));
            read.extend(batch);
        }
        assert!(pages.is_subset(&read), "{read:?}");
        assert_eq!(read.difference(&pages).count(), 24);
    }

    #[test]
    fn reads_that_pages_do_not_need_are_for_lists() {
        let mut turns = Turns::default();
        let mut next = |pages, lists| turns.next(&names(pages), &names(lists), &names(0..0), 7);
        assert_eq!(next(0..1, 10..30).len(), 7);
        assert_eq!(next(0..30, 0..0).len(), 7);
        assert_eq!(next(0..30, 40..41).iter().filter(|name| *name == "040").count(), 1);
        assert_eq!(next(0..2, 40..41).len(), 3);
        assert!(next(0..0, 0..0).is_empty());
    }

    #[test]
    fn locks_of_clients_that_have_left_are_read_beside_the_others() {
        let mut turns = Turns::default();
        let (pages, lists, left) = (names(0..30), names(30..60), names(60..71));
        let mut read = BTreeSet::new();
        for _ in 0..6 {
            let batch = turns.next(&pages, &lists, &left, 8);
            assert_eq!(batch.iter().collect::<BTreeSet<_>>().len(), 8, "{batch:?}");
            assert_eq!(batch.iter().filter(|name| left.contains(*name)).count(), 2, "{batch:?}");
            read.extend(batch);
        }
        assert!(left.is_subset(&read), "{read:?}");
    }
}
