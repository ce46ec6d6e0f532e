//! Scales a kernel to a machine that is smaller than the real one: settings in kilobytes apply to the whole
//! machine and shrink with it.

use pageblock::layout::ZoneKind;
use pageblock::policy::Policy;
use pageblock::tuning::{self, KBYTES_PER_PAGE};
use pageblock_kernel::rules::huge::ThpEnabled;
use pageblock_kernel::{Kernel, Named, Switch};

use crate::error::Error;
use crate::sim::machine_file::{MachineSpec, Scale};
use crate::workload::Workload;

/// The lower limit of min_free_kbytes when it is computed for a scaled machine.
const COMPUTED_FLOOR: u64 = 128;

/// Returns the kernel with the workload's settings, where they were not set by hand, and with every value in
/// kilobytes multiplied by the machine's scale: `min_free_kbytes` and `extra_free_kbytes`, set or computed,
/// apply to the whole machine.
///
/// # Errors
/// [`Error::Watermarks`] if they are set so high that the high watermark is above the machine's memory. The
/// kernel accepts such a value and is out of memory at once.
pub fn kernel(
    named: &Named,
    machine: &MachineSpec,
    workload: &dyn Workload,
) -> Result<Kernel, Error> {
    let scaled = shrunk(named, machine, workload);
    if fits(&scaled.allocator, machine) {
        return Ok(scaled);
    }
    let fits_with = |name, kbytes| {
        fits(&shrunk(&with(named, name, kbytes), machine, workload).allocator, machine)
    };
    let (min, extra) = ("min_free_kbytes", "extra_free_kbytes");
    let (name, value) = match named.kernel.allocator {
        // 0 means computed, and 1 is the smallest value that can be set.
        Policy { min_free_kbytes: value @ 2.., .. } if fits_with(min, 1) => (min, value),
        Policy { extra_free_kbytes: value @ 2.., .. } if fits_with(extra, 1) => (extra, value),
        // The machine is too small even for the computed value; starting it reports that.
        _ => return Ok(scaled),
    };
    let (mut largest, mut too_large) = (1, value);
    while too_large - largest > 1 {
        let middle = largest.midpoint(too_large);
        *(if fits_with(name, middle) { &mut largest } else { &mut too_large }) = middle;
    }
    let Scale { numerator, denominator } = machine.scale;
    Err(Error::Watermarks {
        name,
        value,
        largest,
        mib: machine.pages() * denominator / numerator * KBYTES_PER_PAGE / 1024,
    })
}

/// Returns the same kernel with one numeric setting of the allocator set by hand.
fn with(named: &Named, name: &str, number: u32) -> Named {
    let mut other = named.clone();
    other.set.retain(|(switch, _)| switch.name() != name);
    if let Some(switch) = Switch::find(name)
        && switch.set(&mut other.kernel, &number.to_string())
    {
        other.set.push((switch, switch.get(&other.kernel)));
    }
    other
}

/// Reports whether the high watermark is within the machine's memory.
fn fits(policy: &Policy, machine: &MachineSpec) -> bool {
    let pages = machine.pages();
    // Every zone gets its share of the watermarks, so the machine can be treated as one zone.
    let kbytes = tuning::min_free_kbytes(policy, pages * KBYTES_PER_PAGE, None);
    tuning::watermarks(policy, ZoneKind::Normal, pages, pages, kbytes, machine.geometry).high
        <= pages
}

fn shrunk(named: &Named, machine: &MachineSpec, workload: &dyn Workload) -> Kernel {
    let Scale { numerator, denominator } = machine.scale;
    let whole = machine.pages() * denominator / numerator;
    let mut kernel = named.resolve(|kernel| workload.set_up(kernel));
    let huge = kernel.huge.thp_enabled;
    let tuned = &mut kernel.allocator;
    // khugepaged raises it only where huge pages are enabled (`set_recommended_min_free_kbytes`).
    if huge == ThpEnabled::Never && tuned.min_free_kbytes == 0 {
        let kbytes = tuning::min_free_kbytes(tuned, whole * KBYTES_PER_PAGE, None);
        tuned.min_free_kbytes = u32::try_from(kbytes).unwrap_or(u32::MAX);
    }
    let part = |kbytes: u64| u32::try_from(machine.scale.of(kbytes)).unwrap_or(u32::MAX);
    tuned.extra_free_kbytes = part(tuned.extra_free_kbytes.into());
    if machine.scale == Scale::WHOLE {
        return kernel;
    }
    tuned.min_free_kbytes = match named.kernel.allocator.min_free_kbytes {
        // It grows with the square root of memory and has a floor for huge pages: computed for the whole
        // machine.
        0 => part(computed(tuned, machine, whole)).max(COMPUTED_FLOOR as u32),
        kbytes => part(kbytes.into()).max(1),
    };
    kernel
}

/// Returns the min_free_kbytes of a whole machine with this many pages.
fn computed(policy: &Policy, machine: &MachineSpec, whole: u64) -> u64 {
    let mut kinds: Vec<_> = machine.zones.iter().map(|z| (z.node, z.kind)).collect();
    kinds.dedup();
    let raised = tuning::khugepaged_min_free_kbytes(kinds.len() as u64, machine.geometry, whole);
    tuning::min_free_kbytes(policy, whole * KBYTES_PER_PAGE, Some(raised))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::sim::machine_file;
    use crate::workload;

    /// A guest of 640 MiB with `transparent_hugepage/enabled` at `never`: min 727 and 19 pages; 7,147 and 186 with `madvise`.
    #[test]
    fn without_huge_pages_nothing_raises_the_watermarks() {
        let machine =
            machine_file::parse(include_str!("../../../machines/guest-640m.toml"), Scale::WHOLE)
                .unwrap();
        let workload = workload::find("oscillating").unwrap();
        let kbytes = |policy: &str| {
            let named = Named::parse(policy).unwrap();
            kernel(&named, &machine, workload).unwrap().allocator.min_free_kbytes
        };
        let least = kbytes("linux-6.12,thp_enabled=never");
        assert!((2900..3300).contains(&least), "{least}");
        assert_eq!(kbytes("linux-6.12"), 0);
        assert_eq!(kbytes("linux-6.12,thp_enabled=never,min_free_kbytes=4096"), 4096);
    }
}
