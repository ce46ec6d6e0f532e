//! Faults on purpose: what may fail does fail now and then, so that tests see it handled.

/// How often what fails; 0 never.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct Inject {
    /// Every Nth allocation of the fast path and of the slow path's attempts is refused.
    pub alloc_every: u64,
    /// Every Nth page cannot be moved.
    pub migrate_every: u64,
    allocs: u64,
    moves: u64,
}

fn hits(every: u64, count: &mut u64) -> bool {
    *count += 1;
    every > 0 && count.is_multiple_of(every)
}

impl Inject {
    /// Faults of both kinds.
    #[must_use]
    pub const fn new(alloc_every: u64, migrate_every: u64) -> Self {
        Self { alloc_every, migrate_every, allocs: 0, moves: 0 }
    }

    pub(crate) fn refuses_alloc(&mut self) -> bool {
        hits(self.alloc_every, &mut self.allocs)
    }

    pub(crate) fn fails_migration(&mut self) -> bool {
        hits(self.migrate_every, &mut self.moves)
    }
}
