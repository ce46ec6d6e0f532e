//! Sheaves: arrays of free objects that stand before the slabs of a cache (mm/slub.c from 7.0 on).
//!
//! A CPU allocates from its main sheaf and frees into it; beside it the CPU may have a spare sheaf, which is empty or
//! full. A node's barn has more of both, so that objects pass between CPUs by whole sheaves. A sheaf is filled from the
//! node's partial slabs and from new slabs, and emptied into slabs, all at once. The memory of the arrays themselves
//! is not modelled: at most 512 bytes each.

/// The number of full sheaves in a barn from which on a full sheaf goes back to slabs (`MAX_FULL_SHEAVES`).
const MAX_FULL: usize = 10;
/// Bytes of a sheaf before its array (`struct slab_sheaf`).
const HEADER: u32 = 32;
/// Bytes of a pointer to an object.
const POINTER: u32 = 8;
/// Objects of different slabs that are looked past for more of the same slab when a sheaf is emptied
/// (`build_detached_freelist`).
const LOOK_AHEAD: u32 = 3;

/// A sheaf: objects, each named by its slab's first frame; the last is used first.
pub(super) type Sheaf = Vec<u32>;

/// The sheaves of a cache.
#[derive(Clone, Debug)]
pub(super) struct Sheaves {
    /// Objects of a full sheaf.
    capacity: usize,
    cpus: Vec<CpuSheaves>,
    barns: Vec<Barn>,
}

/// The sheaves of a CPU (`struct slub_percpu_sheaves`). None of the objects that are modelled is freed by `kfree_rcu`,
/// so there is no sheaf for those.
#[derive(Clone, Debug, Default)]
struct CpuSheaves {
    main: Sheaf,
    /// Empty or full.
    spare: Option<Sheaf>,
    /// It is being filled, and waits for a new slab.
    filling: Option<Sheaf>,
}

/// The sheaves of a node (`struct node_barn`).
#[derive(Clone, Debug, Default)]
struct Barn {
    full: Vec<Sheaf>,
    empty: Vec<Sheaf>,
}

/// Returns the objects of a sheaf: by the object's size in bytes, then as many as fit the `kmalloc` cache of the array
/// (`calculate_sheaf_capacity`).
pub(super) const fn capacity(size: u32) -> u32 {
    let least = match size {
        4096.. => 4,
        1024.. => 12,
        256.. => 26,
        _ => 60,
    };
    ((HEADER + least * POINTER).next_power_of_two() - HEADER) / POINTER
}

impl Sheaves {
    /// Returns the sheaves of a cache of objects of `size` bytes, all empty.
    pub(super) fn new(size: u32, cpus: usize, nodes: usize) -> Self {
        Self {
            capacity: capacity(size) as usize,
            cpus: vec![CpuSheaves::default(); cpus],
            barns: vec![Barn::default(); nodes],
        }
    }

    /// Returns the number of objects in sheaves.
    pub(super) fn objects(&self) -> u64 {
        let of_cpus = self.cpus.iter().flat_map(|cpu| {
            std::iter::once(&cpu.main).chain(cpu.spare.as_ref()).chain(cpu.filling.as_ref())
        });
        of_cpus.chain(self.barns.iter().flat_map(|b| &b.full)).map(|sheaf| sheaf.len() as u64).sum()
    }

    /// Takes an object of a CPU, or else of its node's full sheaves; `None` if a sheaf must be filled
    /// (`alloc_from_pcs`).
    pub(super) fn take(&mut self, cpu: usize, node: usize) -> Option<u32> {
        let CpuSheaves { main, spare, .. } = &mut self.cpus[cpu];
        if main.is_empty() {
            if let Some(spare) = spare.as_mut().filter(|spare| !spare.is_empty()) {
                std::mem::swap(main, spare);
            } else {
                let full = self.barns[node].full.pop()?;
                self.barns[node].empty.push(std::mem::replace(main, full));
            }
        }
        main.pop()
    }

    /// Frees an object to a CPU of a node. Returns the objects that go back to slabs instead
    /// (`free_to_pcs`, `__pcs_replace_full_main`).
    pub(super) fn put(&mut self, cpu: usize, node: usize, object: u32) -> Sheaf {
        let (own, barn) = (&mut self.cpus[cpu], &mut self.barns[node]);
        let mut flushed = Sheaf::new();
        if own.main.len() == self.capacity {
            match &mut own.spare {
                None => own.spare = Some(std::mem::replace(&mut own.main, barn.empty())),
                Some(spare) if spare.len() < self.capacity => std::mem::swap(&mut own.main, spare),
                Some(_) if barn.full.len() < MAX_FULL => {
                    let empty = barn.empty();
                    barn.full.push(std::mem::replace(&mut own.main, empty));
                }
                Some(spare) => {
                    std::mem::swap(&mut own.main, spare);
                    flushed = std::mem::take(&mut own.main);
                }
            }
        }
        own.main.push(object);
        flushed
    }

    /// Returns the sheaf that a CPU is filling, and the objects that it still needs; `true` if it was just begun: then
    /// partial slabs come first.
    pub(super) fn filling(&mut self, cpu: usize, node: usize) -> (&mut Sheaf, usize, bool) {
        let CpuSheaves { spare, filling, .. } = &mut self.cpus[cpu];
        let begun = filling.is_none();
        let sheaf =
            filling.get_or_insert_with(|| spare.take().unwrap_or_else(|| self.barns[node].empty()));
        debug_assert!(sheaf.len() < self.capacity, "the sheaf is full");
        let missing = self.capacity - sheaf.len();
        (sheaf, missing, begun)
    }

    /// Gives a CPU the sheaf that it was filling, if it is full now (`__pcs_replace_empty_main`). Other tasks may
    /// have freed into the CPU's sheaves while the new slab was allocated.
    pub(super) fn end_filling(&mut self, cpu: usize, node: usize) {
        let (own, barn) = (&mut self.cpus[cpu], &mut self.barns[node]);
        let Some(full) = own.filling.take_if(|sheaf| sheaf.len() == self.capacity) else { return };
        match &mut own.spare {
            spare if own.main.is_empty() => {
                let empty = std::mem::replace(&mut own.main, full);
                match spare {
                    None => *spare = Some(empty),
                    Some(_) => barn.empty.push(empty),
                }
            }
            spare @ None => *spare = Some(full),
            Some(spare) if spare.is_empty() => barn.empty.push(std::mem::replace(spare, full)),
            Some(_) => barn.full.push(full),
        }
    }

    /// Gives up the sheaf that a CPU was filling. Returns its objects, which go back to slabs.
    pub(super) fn give_up(&mut self, cpu: usize) -> Sheaf {
        self.cpus[cpu].filling.take().unwrap_or_default()
    }
}

impl Barn {
    /// Returns an empty sheaf: one of the barn's, or a new one.
    fn empty(&mut self) -> Sheaf {
        self.empty.pop().unwrap_or_default()
    }
}

/// Removes from the end of a sheaf objects of one slab. Returns the slab and their number; `None` if the sheaf is empty
/// (`build_detached_freelist`).
pub(super) fn detach(sheaf: &mut Sheaf) -> Option<(u32, u32)> {
    let slab = sheaf.pop()?;
    let (mut count, mut others) = (1, 0);
    let mut at = sheaf.len();
    while at > 0 && others < LOOK_AHEAD {
        at -= 1;
        if sheaf[at] == slab {
            sheaf.swap_remove(at);
            count += 1;
        } else {
            others += 1;
        }
    }
    Some((slab, count))
}

#[cfg(test)]
mod tests {
    use super::*;

    /// mm/slub.c of 7.2 and 7.3: at least 4, 12, 26 and 60, and what the array's `kmalloc` cache has room for.
    #[test]
    fn arrays_fill_their_kmalloc_caches() {
        let sizes = [8192, 4096, 4095, 1024, 1023, 256, 255, 8];
        assert_eq!(sizes.map(capacity), [4, 4, 12, 12, 28, 28, 60, 60]);
    }

    #[test]
    fn objects_are_detached_slab_by_slab() {
        let mut sheaf = vec![1, 2, 3, 4, 2, 3, 2];
        let mut seen = Vec::new();
        while let Some(found) = detach(&mut sheaf) {
            seen.push(found);
        }
        // Three objects of other slabs are looked past, not more.
        assert_eq!(seen, [(2, 2), (3, 2), (4, 1), (2, 1), (1, 1)]);
    }

    /// A CPU that only frees fills main and spare, then the barn of its node, then slabs; another CPU of the node takes
    /// whole sheaves from the barn.
    #[test]
    fn full_sheaves_pass_through_the_barn() {
        let mut sheaves = Sheaves::new(4096, 2, 1);
        let held = 4 * (2 + MAX_FULL as u32);
        for object in 0..held {
            assert!(sheaves.put(0, 0, object).is_empty());
        }
        // The spare sheaf goes, main becomes the spare.
        assert_eq!(sheaves.put(0, 0, held), [0, 1, 2, 3]);
        assert_eq!(sheaves.objects(), u64::from(held) - 3);
        let taken: Vec<u32> = std::iter::from_fn(|| sheaves.take(1, 0)).collect();
        assert_eq!((taken.len(), taken[0]), (4 * MAX_FULL, held - 5));
        assert_eq!(sheaves.objects(), 5);
    }
}
