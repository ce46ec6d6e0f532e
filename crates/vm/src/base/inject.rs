//! Fault injection, for tests: allocations and migrations fail at a given rate.

/// The rates of injected faults; 0 means never.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct Inject {
    /// Every Nth allocation fails, of the fast path and of the attempts of the slow path.
    pub alloc_every: u64,
    /// Every Nth migration fails.
    pub migrate_every: u64,
    allocs: u64,
    moves: u64,
}

/// Counts an operation. Returns whether it is to fail.
fn hits(every: u64, count: &mut u64) -> bool {
    *count += 1;
    every > 0 && count.is_multiple_of(every)
}

impl Inject {
    /// Returns faults of both kinds.
    #[must_use]
    pub const fn new(alloc_every: u64, migrate_every: u64) -> Self {
        Self { alloc_every, migrate_every, allocs: 0, moves: 0 }
    }

    /// Counts an allocation. Returns whether it is to fail.
    pub(crate) fn refuses_alloc(&mut self) -> bool {
        hits(self.alloc_every, &mut self.allocs)
    }

    /// Counts a migration. Returns whether it is to fail.
    pub(crate) fn fails_migration(&mut self) -> bool {
        hits(self.migrate_every, &mut self.moves)
    }
}
