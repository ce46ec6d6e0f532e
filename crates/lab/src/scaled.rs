//! A policy on a machine that is smaller than the real one: what an administrator sets in kilobytes is of the
//! whole machine, and shrinks with it.

use pageblock::layout::ZoneKind;
use pageblock::policy::Policy;
use pageblock::tuning::{self, KBYTES_PER_PAGE};

use crate::error::Error;
use crate::sim::machine_file::{MachineSpec, Scale};
use crate::workload::Workload;

/// The smallest min_free_kbytes that is computed for a smaller machine.
const COMPUTED_FLOOR: u64 = 128;

/// Returns the policy with what the workload sets, and with as much of every value in kilobytes as the
/// machine's scale says: `min_free_kbytes` and `extra_free_kbytes`, set or computed, are of the whole machine.
///
/// # Errors
/// [`Error::Watermarks`] where the policy sets them so high that the machine's memory is below its high
/// watermark. The kernel takes such a value and is out of memory at once.
pub fn policy(
    policy: &Policy,
    machine: &MachineSpec,
    workload: &dyn Workload,
) -> Result<Policy, Error> {
    let scaled = shrunk(policy, machine, workload);
    if fits(&scaled, machine) {
        return Ok(scaled);
    }
    let fits_with = |set: fn(&mut Policy, u32), kbytes| {
        let mut other = *policy;
        set(&mut other, kbytes);
        fits(&shrunk(&other, machine, workload), machine)
    };
    let extra: fn(&mut Policy, u32) = |policy, kbytes| policy.extra_free_kbytes = kbytes;
    let min: fn(&mut Policy, u32) = |policy, kbytes| policy.min_free_kbytes = kbytes;
    let (name, value, set) = match policy {
        // 0 has it computed, and 1 is the least that can be set.
        Policy { min_free_kbytes: value @ 2.., .. } if fits_with(min, 1) => {
            ("min_free_kbytes", *value, min)
        }
        Policy { extra_free_kbytes: value @ 2.., .. } if fits_with(extra, 1) => {
            ("extra_free_kbytes", *value, extra)
        }
        // The machine is too small for what is computed; it shows when it is started.
        _ => return Ok(scaled),
    };
    let (mut largest, mut too_large) = (1, value);
    while too_large - largest > 1 {
        let middle = largest.midpoint(too_large);
        *(if fits_with(set, middle) { &mut largest } else { &mut too_large }) = middle;
    }
    let Scale { numerator, denominator } = machine.scale;
    Err(Error::Watermarks {
        name,
        value,
        largest,
        mib: machine.pages() * denominator / numerator * KBYTES_PER_PAGE / 1024,
    })
}

/// Tells whether all of memory reaches the high watermark.
fn fits(policy: &Policy, machine: &MachineSpec) -> bool {
    let pages = machine.pages();
    // Every zone has its share of the watermarks, so the machine is as good as a zone.
    let kbytes = tuning::min_free_kbytes(policy, pages * KBYTES_PER_PAGE, None);
    tuning::watermarks(policy, ZoneKind::Normal, pages, pages, kbytes).high <= pages
}

fn shrunk(policy: &Policy, machine: &MachineSpec, workload: &dyn Workload) -> Policy {
    let Scale { numerator, denominator } = machine.scale;
    let whole = machine.pages() * denominator / numerator;
    let mut tuned = *policy;
    workload.tune(&mut tuned, whole);
    let part = |kbytes: u64| u32::try_from(machine.scale.of(kbytes)).unwrap_or(u32::MAX);
    tuned.extra_free_kbytes = part(tuned.extra_free_kbytes.into());
    if machine.scale == Scale::WHOLE {
        return tuned;
    }
    tuned.min_free_kbytes = match policy.min_free_kbytes {
        // It grows with the root of memory and has a floor for huge pages: as of the whole machine.
        0 => part(computed(&tuned, machine, whole)).max(COMPUTED_FLOOR as u32),
        kbytes => part(kbytes.into()).max(1),
    };
    tuned
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
