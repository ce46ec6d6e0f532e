//! The requests of one task, a step of a round in each batch.

use std::cmp::Reverse;
use std::collections::BinaryHeap;

use pageblock::request::Gfp;

use super::file::{Amount, Lifetime, Make, Size, Step, Task, Thing, What};
use crate::sim::Nanos;
use crate::sim::world::Random;
use crate::workload::requests::{Ask, IDS, Operation, Stream};

/// The purpose of the random numbers, beside those of other parts of a simulation; a task has its own.
const PURPOSE: u64 = 1 << 32;
/// Bytes of a page.
const PAGE: u64 = 4096;
/// About how many requests of files that grow together are in a batch.
const BATCH: usize = 1 << 16;

/// Something that a step made.
#[derive(Clone, Copy, Debug)]
struct Made {
    id: u32,
    /// Which it is of all that the task made: ids are used again.
    number: u64,
    pages: u64,
    /// The round at whose end it is freed.
    until: u64,
}

/// A task in its rounds.
#[derive(Debug)]
pub(super) struct Rounds {
    task: Task,
    /// The machine's.
    pages: u64,
    random: Random,
    round: u64,
    step: usize,
    time: Nanos,
    /// What each step made and holds.
    held: Vec<Vec<Made>>,
    /// Where each id stands in the list of its step.
    place: Vec<usize>,
    /// How much was made so far.
    made: u64,
    /// Ids that were freed, and the first that was never used.
    free: Vec<u32>,
    next: u32,
    /// What is freed by time: when, its step, its id and its number.
    due: BinaryHeap<Reverse<(Nanos, usize, u32, u64)>>,
    asked: Vec<Ask>,
    growing: Option<Growing>,
}

/// Files that are written, a page of each in turn, as programs do that write many at a time.
#[derive(Debug)]
struct Growing {
    files: Vec<Made>,
    /// The page that is written next.
    page: u64,
}

impl Stream for Rounds {
    fn next(&mut self) -> Result<Option<Vec<Ask>>, String> {
        while self.round < self.task.rounds {
            if let Some(growing) = self.growing.take() {
                self.grow(growing);
                return Ok(Some(std::mem::take(&mut self.asked)));
            }
            match self.task.steps.get(self.step).cloned() {
                Some(step) => {
                    let at = self.step;
                    self.step += 1;
                    if (self.round + 1).is_multiple_of(step.every) {
                        self.run(at, &step)?;
                    }
                }
                None => self.end_round(),
            }
            if !self.asked.is_empty() {
                return Ok(Some(std::mem::take(&mut self.asked)));
            }
        }
        Ok(None)
    }
}

impl Rounds {
    pub(super) fn new(task: Task, seed: u64, number: u32, pages: u64) -> Self {
        let held = vec![Vec::new(); task.steps.len()];
        Self {
            task,
            pages,
            random: Random::new(seed, PURPOSE + u64::from(number)),
            round: 0,
            step: 0,
            time: 0,
            held,
            place: Vec::new(),
            made: 0,
            free: Vec::new(),
            next: 0,
            due: BinaryHeap::new(),
            asked: Vec::new(),
            growing: None,
        }
    }

    fn run(&mut self, at: usize, step: &Step) -> Result<(), String> {
        let turn = (self.round / step.every) as usize;
        match &step.what {
            What::Sleep(time) => self.pass(*time),
            What::Make(make) => {
                let count = self.count(&step.amount, turn, make.thing, make.size);
                self.make(at, make, count, step.gap)?;
            }
            What::Use { of, pages } => {
                let thing = Thing::File { together: false };
                for _ in 0..self.count(&step.amount, turn, thing, *pages) {
                    self.wait(step.gap);
                    self.use_one(*of, *pages);
                }
            }
            What::Free { of } => {
                // A share of the machine is meant of what that step makes.
                let What::Make(of_make) = self.task.steps[*of].what.clone() else { return Ok(()) };
                for _ in 0..self.count(&step.amount, turn, of_make.thing, of_make.size) {
                    self.wait(step.gap);
                    self.free_one(*of);
                }
            }
        }
        Ok(())
    }

    /// Returns how many requests a step makes in its `turn`.
    fn count(&self, amount: &Amount, turn: usize, thing: Thing, size: Size) -> u64 {
        let of_turn = |list: &Vec<u64>| list[turn % list.len()];
        let percent = match amount {
            Amount::Count(list) => return of_turn(list),
            Amount::Percent(list) => of_turn(list),
        };
        let bytes = |size: u64| match thing {
            Thing::Block { .. } => PAGE << size,
            Thing::Object { .. } => size,
            Thing::File { .. } | Thing::Memory { .. } => PAGE * size,
        };
        let mean = (bytes(size.least) + bytes(size.most)) / 2;
        let wanted = self.pages * PAGE / 100 * percent / mean.max(1);
        if percent == 0 { 0 } else { wanted.clamp(1, u64::from(IDS) / 2) }
    }

    fn make(&mut self, at: usize, make: &Make, count: u64, gap: Nanos) -> Result<(), String> {
        let holds = if make.hold { self.held[at].len() as u64 } else { 0 };
        for _ in count..holds {
            self.wait(gap);
            self.free_one(at);
        }
        let first = self.held[at].len();
        for _ in holds..count {
            self.wait(gap);
            self.make_one(at, make)?;
        }
        if make.thing == (Thing::File { together: true }) {
            self.growing = Some(Growing { files: self.held[at][first..].to_vec(), page: 0 });
        }
        Ok(())
    }

    fn make_one(&mut self, at: usize, make: &Make) -> Result<(), String> {
        let Some(id) = self.free.pop().or_else(|| (self.next < IDS).then_some(self.next)) else {
            return Err(format!("more than {IDS} things are held at a time"));
        };
        self.next = self.next.max(id + 1);
        self.made += 1;
        let size = self.draw(make.size);
        let (operation, pages) = match make.thing {
            Thing::Block { reclaimable: false } => (Operation::Alloc, 1 << size),
            Thing::Block { reclaimable: true } => (Operation::AllocReclaimable, 1 << size),
            Thing::Object { reclaimable: false } => (Operation::Object, 1),
            Thing::Object { reclaimable: true } => (Operation::ObjectReclaimable, 1),
            Thing::File { .. } => (Operation::File, size),
            Thing::Memory { huge: false } => (Operation::Map, size),
            Thing::Memory { huge: true } => (Operation::MapHuge, size),
        };
        self.ask(operation, id, size, 0);
        match make.thing {
            Thing::File { together: false } => self.ask(Operation::Write, id, size, 0),
            Thing::Memory { .. } => self.ask(Operation::Touch, id, size, 0),
            _ => {}
        }
        let until = match make.lifetime {
            Lifetime::Whole => u64::MAX,
            Lifetime::Rounds(rounds) => self.round + rounds,
            Lifetime::Mean(mean) => {
                let end = self.time + self.exponential(mean);
                self.due.push(Reverse((end, at, id, self.made)));
                u64::MAX
            }
        };
        self.place.resize(self.next as usize, 0);
        self.place[id as usize] = self.held[at].len();
        self.held[at].push(Made { id, number: self.made, pages, until });
        Ok(())
    }

    /// Writes a part of what is left of files that grow together.
    fn grow(&mut self, mut growing: Growing) {
        growing.files.retain(|file| growing.page < file.pages);
        while !growing.files.is_empty() && self.asked.len() < BATCH {
            for file in &growing.files {
                self.ask(Operation::Write, file.id, 1, growing.page);
            }
            growing.page += 1;
            growing.files.retain(|file| growing.page < file.pages);
        }
        self.growing = Some(growing).filter(|growing| !growing.files.is_empty());
    }

    /// Reads or writes some pages of something that a step holds; nothing if it holds nothing.
    fn use_one(&mut self, of: usize, pages: Size) {
        if self.held[of].is_empty() {
            return;
        }
        let chosen = self.random.below(self.held[of].len() as u64) as usize;
        let Made { id, pages: all, .. } = self.held[of][chosen];
        let pages = self.draw(pages).min(all);
        let offset = self.random.below(all - pages + 1);
        let is_file =
            matches!(&self.task.steps[of].what, What::Make(Make { thing: Thing::File { .. }, .. }));
        let operation = if is_file { Operation::Read } else { Operation::Touch };
        self.ask(operation, id, pages, offset);
    }

    /// Frees something that a step holds, chosen at random.
    fn free_one(&mut self, of: usize) {
        if self.held[of].is_empty() {
            return;
        }
        let chosen = self.random.below(self.held[of].len() as u64) as usize;
        self.take(of, chosen);
    }

    /// Frees what stands at a place in the list of a step.
    fn take(&mut self, step: usize, at: usize) {
        let made = self.held[step].swap_remove(at);
        if let Some(moved) = self.held[step].get(at) {
            self.place[moved.id as usize] = at;
        }
        self.release(made.id);
    }

    fn release(&mut self, id: u32) {
        self.ask(Operation::Free, id, 0, 0);
        self.free.push(id);
    }

    /// Ends a round: what lives until then is freed.
    fn end_round(&mut self) {
        for step in 0..self.held.len() {
            let (ended, kept): (Vec<Made>, Vec<Made>) =
                self.held[step].iter().partition(|made| made.until <= self.round);
            for (at, made) in kept.iter().enumerate() {
                self.place[made.id as usize] = at;
            }
            self.held[step] = kept;
            ended.into_iter().for_each(|made| self.release(made.id));
        }
        self.pass(self.task.pause);
        self.round += 1;
        self.step = 0;
    }

    /// Waits for the next request of a step with a rate: gaps from nothing to twice the mean, each as likely.
    fn wait(&mut self, mean: Nanos) {
        if mean > 0 {
            let gap = self.random.below(2 * mean + 1);
            self.pass(gap);
        }
    }

    /// Lets time pass; what ends meanwhile is freed at its time.
    fn pass(&mut self, time: Nanos) {
        let until = self.time + time;
        while let Some(&Reverse((end, step, id, number))) = self.due.peek()
            && end <= until
        {
            self.due.pop();
            // A step may have freed it before, and its id may be another's since: then this is not its time.
            let at = self.place[id as usize];
            if self.held[step].get(at).is_some_and(|made| made.number == number) {
                self.time = self.time.max(end);
                self.take(step, at);
            }
        }
        self.time = until;
    }

    fn draw(&mut self, Size { least, most }: Size) -> u64 {
        least + self.random.below(most - least + 1)
    }

    /// Draws from a distribution with this mean that is exponential but for straight lines between its halvings: the
    /// logarithm of a library may differ between machines.
    fn exponential(&mut self, mean: Nanos) -> Nanos {
        let bits = self.random.below(1 << 63) << 1;
        let halvings = u64::from(bits.leading_zeros().min(62));
        // What follows the first one: 32 bits of the way to the next halving.
        let part = (bits << (halvings + 1)) >> 32;
        let value = ((halvings + 1) << 32) - part;
        (u128::from(mean) * u128::from(value) / (3 << 31)) as Nanos
    }

    fn ask(&mut self, operation: Operation, id: u32, amount: u64, offset: u64) {
        let time_ns = self.time;
        self.asked.push(Ask { time_ns, operation, id, amount, offset, flags: Gfp::NONE });
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_was_freed_before_its_time_frees_nothing_else() {
        let make = Make {
            thing: Thing::Block { reclaimable: false },
            size: Size { least: 0, most: 0 },
            lifetime: Lifetime::Mean(1_000_000),
            hold: false,
        };
        let step = Step {
            what: What::Make(make.clone()),
            amount: Amount::Count(vec![1]),
            every: 1,
            gap: 1,
        };
        let task = Task { count: 1, rounds: 1, pause: 0, steps: vec![step] };
        let mut rounds = Rounds::new(task, 1, 0, 1000);
        let mut later = 0;
        for _ in 0..100 {
            rounds.make_one(0, &make).unwrap();
            let first = rounds.due.peek().unwrap().0.0;
            rounds.free_one(0);
            rounds.make_one(0, &make).unwrap();
            assert_eq!(rounds.held[0][0].id, 0, "the id is used again");
            let second = rounds.due.iter().map(|due| due.0.0).max().unwrap();
            rounds.pass(first - rounds.time);
            if second > first {
                assert_eq!(rounds.held[0].len(), 1, "its own time has not come");
                later += 1;
            }
            rounds.pass(second - rounds.time);
            assert!(rounds.held[0].is_empty());
        }
        assert!(later > 20, "{later}");
    }
}
