//! The sizes of slabs, and how many partial slabs are kept, under SLUB and SLAB.

use pageblock::frame::Order;

/// The slab allocator that the kernel was built with.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub enum SlabAllocator {
    /// SLAB, the choice of SUSE and others up to the years 2018 to 2023: orders 0 and 1.
    Slab,
    /// SLUB: orders up to 3, larger with more CPUs.
    #[default]
    Slub,
}

/// Bytes of a page.
pub(super) const PAGE_SIZE: u32 = 4096;
/// The largest order of slabs under SLUB (`slub_max_order`).
const SLUB_MAX_ORDER: Order = 3;
/// The largest order under SLAB on machines of more than 32 MiB (`slab_max_order`).
const SLAB_MAX_ORDER: Order = 1;
/// Partial slabs that a node keeps, even empty: bounds of half the size's logarithm
/// (`MIN_PARTIAL`, `MAX_PARTIAL`).
const PARTIAL: (u32, u32) = (5, 10);

impl SlabAllocator {
    /// Returns the order of slabs for objects of `size` bytes on a machine of `cpus` CPUs
    /// (`calculate_order` of mm/slub.c, `calculate_slab_order` of mm/slab.c).
    #[must_use]
    pub fn order(self, size: u32, cpus: u32) -> Order {
        match self {
            Self::Slab => (0..=SLAB_MAX_ORDER)
                .find(|&order| {
                    let slab = PAGE_SIZE << order;
                    slab >= size && (slab % size) * 8 <= slab
                })
                .unwrap_or(SLAB_MAX_ORDER.max(covering(size))),
            Self::Slub => slub_order(size, cpus),
        }
    }
}

/// Returns the number of free objects on a CPU's partial slabs above which these slabs go to the node
/// (`set_cpu_partial` of 3.2 to 5.15).
#[must_use]
pub const fn cpu_partial(size: u32) -> u32 {
    match size {
        PAGE_SIZE.. => 2,
        1024.. => 6,
        256.. => 13,
        _ => 30,
    }
}

/// Returns the number of partial slabs of so many objects that a CPU keeps (`set_cpu_partial`, `slub_set_cpu_partial` of
/// 5.16 to 6.19).
pub(super) const fn cpu_partial_slabs(size: u32, objects: u32) -> u32 {
    let wanted = match size {
        PAGE_SIZE.. => 6_u32,
        1024.. => 24,
        256.. => 52,
        _ => 120,
    };
    (2 * wanted).div_ceil(objects)
}

/// Returns the number of partial slabs that a node keeps, even empty (`set_min_partial`).
#[must_use]
pub fn min_partial(size: u32) -> u32 {
    (size.ilog2() / 2).clamp(PARTIAL.0, PARTIAL.1)
}

/// Returns the smallest order that holds `size` bytes.
pub(super) fn covering(size: u32) -> Order {
    (size.div_ceil(PAGE_SIZE)).next_power_of_two().ilog2() as Order
}

/// Returns the order that holds four objects for each binary logarithm of the number of CPUs and wastes at most a
/// sixteenth, else an eighth, else a quarter; if there is none, fewer objects are tried.
fn slub_order(size: u32, cpus: u32) -> Order {
    let wanted = 4 * (cpus.max(1).ilog2() + 2);
    let fit = (PAGE_SIZE << SLUB_MAX_ORDER) / size;
    for objects in (2..=wanted.min(fit)).rev() {
        for fraction in [16, 8, 4] {
            let first = covering(size * objects);
            let found = (first..=SLUB_MAX_ORDER).find(|&order| {
                let slab = PAGE_SIZE << order;
                (slab % size) * fraction <= slab
            });
            if let Some(order) = found {
                return order;
            }
        }
    }
    covering(size)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The orders of docs/experiments/sources.md#slab-orders (measured on 2 CPUs, a desktop's for 8).
    #[test]
    fn slub_orders_are_those_of_real_machines() {
        let check = |size, expect: [Order; 4]| {
            let orders = [2, 4, 8, 48].map(|cpus| SlabAllocator::Slub.order(size, cpus));
            assert_eq!(orders, expect, "size {size}");
        };
        check(960, [2, 2, 3, 3]);
        check(192, [0, 0, 0, 1]);
        check(576, [1, 2, 2, 2]);
        check(208, [0, 0, 1, 1]);
        check(104, [0, 0, 0, 0]);
        check(512, [1, 1, 2, 2]);
        check(1024, [2, 2, 3, 3]);
    }

    /// mm/slub.c of 6.12: dentries and kmalloc-4k on 8 CPUs.
    #[test]
    fn a_cpu_keeps_twice_the_slabs_of_its_objects() {
        assert_eq!((cpu_partial_slabs(192, 21), cpu_partial_slabs(4096, 8)), (12, 2));
    }

    #[test]
    fn slab_orders_stay_small() {
        for size in [192, 208, 512, 576, 960, 1024, 2048] {
            assert_eq!(SlabAllocator::Slab.order(size, 48), 0, "{size}");
        }
        assert_eq!(SlabAllocator::Slab.order(3000, 8), 1);
        assert_eq!(SlabAllocator::Slab.order(9000, 8), 2);
    }
}
