//! Merges states that differ only in names: numbers are replaced by their ranks, and processes are
//! sorted.

use super::{Request, State};

impl State {
    pub(super) fn canonical(mut self) -> State {
        let mut numbers = Vec::new();
        self.each_number(|number| numbers.push(*number));
        numbers.sort_unstable();
        numbers.dedup();
        self.each_number(|number| {
            let rank = numbers.partition_point(|other| *other < *number);
            *number = u8::try_from(rank).unwrap_or(u8::MAX) + 1;
        });
        self.clock = u8::try_from(numbers.len()).unwrap_or(u8::MAX);
        let mut order: Vec<usize> = (0..self.processes.len()).collect();
        order.sort_by(|one, other| self.processes[*one].cmp(&self.processes[*other]));
        self.processes.sort_unstable();
        let place = |at: u8| order.iter().position(|was| *was == usize::from(at)).map_or(at, |now| now as u8);
        self.copies.iter_mut().for_each(|(at, _)| *at = place(*at));
        self.server.waiting.iter_mut().for_each(|(at, _)| *at = place(*at));
        self.server.waiting.sort_unstable();
        self
    }

    /// Visits all numbers whose order matters, but not their values.
    fn each_number(&mut self, mut visit: impl FnMut(&mut u8)) {
        for process in &mut self.processes {
            if let Some(read) = &mut process.read {
                visit(&mut read.field);
                visit(&mut read.holder);
            }
            if let Some(write) = &mut process.write {
                visit(&mut write.field);
                visit(&mut write.holder);
            }
            process.request.iter_mut().for_each(|request| in_request(request, &mut visit));
        }
        for (_, request) in &mut self.copies {
            in_request(request, &mut visit);
        }
        self.server.holders.iter_mut().for_each(|holder| visit(&mut holder.field));
        self.server.waiting.iter_mut().for_each(|(_, since)| visit(since));
    }
}

fn in_request(request: &mut Request, visit: &mut impl FnMut(&mut u8)) {
    visit(&mut request.field);
    visit(&mut request.holder);
    visit(&mut request.came);
    request.held.iter_mut().for_each(&mut *visit);
    request.since.iter_mut().for_each(visit);
}
