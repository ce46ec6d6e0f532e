//! A kernel on a machine that is smaller than the real one: what an administrator sets in kilobytes is of the
//! whole machine, and shrinks with it.

use pageblock::layout::ZoneKind;
use pageblock::policy::Policy;
use pageblock::tuning::{self, KBYTES_PER_PAGE};
use pageblock_kernel::{Kernel, Named, Switch};

use crate::error::Error;
use crate::sim::machine_file::{MachineSpec, Scale};
use crate::workload::Workload;

/// The smallest min_free_kbytes that is computed for a smaller machine.
const COMPUTED_FLOOR: u64 = 128;

/// Returns the kernel with what the workload sets up and was not set by hand, and with as much of every value in
/// kilobytes as the machine's scale says: `min_free_kbytes` and `extra_free_kbytes`, set or computed, are of the
/// whole machine.
///
/// # Errors
/// [`Error::Watermarks`] where they are set so high that the machine's memory is below its high watermark. The
/// kernel takes such a value and is out of memory at once.
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
        // 0 has it computed, and 1 is the least that can be set.
        Policy { min_free_kbytes: value @ 2.., .. } if fits_with(min, 1) => (min, value),
        Policy { extra_free_kbytes: value @ 2.., .. } if fits_with(extra, 1) => (extra, value),
        // The machine is too small for what is computed; it shows when it is started.
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

/// The same kernel with another number for a setting of the allocator's, set by hand.
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

/// Tells whether all of memory reaches the high watermark.
fn fits(policy: &Policy, machine: &MachineSpec) -> bool {
    let pages = machine.pages();
    // Every zone has its share of the watermarks, so the machine is as good as a zone.
    let kbytes = tuning::min_free_kbytes(policy, pages * KBYTES_PER_PAGE, None);
    tuning::watermarks(policy, ZoneKind::Normal, pages, pages, kbytes).high <= pages
}

fn shrunk(named: &Named, machine: &MachineSpec, workload: &dyn Workload) -> Kernel {
    let Scale { numerator, denominator } = machine.scale;
    let whole = machine.pages() * denominator / numerator;
    let mut kernel = named.resolve(|kernel| workload.set_up(kernel, whole));
    let tuned = &mut kernel.allocator;
    let part = |kbytes: u64| u32::try_from(machine.scale.of(kbytes)).unwrap_or(u32::MAX);
    tuned.extra_free_kbytes = part(tuned.extra_free_kbytes.into());
    if machine.scale == Scale::WHOLE {
        return kernel;
    }
    tuned.min_free_kbytes = match named.kernel.allocator.min_free_kbytes {
        // It grows with the root of memory and has a floor for huge pages: as of the whole machine.
        0 => part(computed(tuned, machine, whole)).max(COMPUTED_FLOOR as u32),
        kbytes => part(kbytes.into()).max(1),
    };
    kernel
}

/// The min_free_kbytes of a whole machine of so many pages.
fn computed(policy: &Policy, machine: &MachineSpec, whole: u64) -> u64 {
    let mut kinds: Vec<_> = machine.zones.iter().map(|z| (z.node, z.kind)).collect();
    kinds.dedup();
    let raised = tuning::khugepaged_min_free_kbytes(
        kinds.len() as u64,
        machine.geometry.pageblock_order,
        whole,
    );
    tuning::min_free_kbytes(policy, whole * KBYTES_PER_PAGE, Some(raised))
}
