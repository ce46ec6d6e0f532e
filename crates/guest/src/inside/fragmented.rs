//! A guest's memory, fragmented as its machine says, before the load begins.

use std::path::Path;

use pageblock::mobility::Migratetype;
use pageblock_recording::{Input, PageTypeInfo};

use crate::error::Error;
use crate::fragment::{Fragmenter, Goal, Reached};

/// Fragments memory, which stays so until the result goes.
pub(super) fn hold(goal: &Goal, seed: u64) -> Result<Fragmenter, String> {
    let wrong = |error: Error| format!("[fragment]: {error}");
    let mut held = Fragmenter::new(seed).map_err(wrong)?;
    if let Some(why) = held.obstacle(goal).map_err(wrong)? {
        return Err(format!("[fragment]: {why}"));
    }
    let reached = held.reach(goal, &|_| false).map_err(wrong)?;
    let info = Input::open(Path::new("/proc/pagetypeinfo")).and_then(PageTypeInfo::read);
    let blocks = info.map_err(|error| error.to_string())?.blocks;
    let of = |kinds: &[Migratetype]| -> u64 {
        blocks.iter().filter(|((_, kind), _)| kinds.contains(kind)).map(|(_, count)| count).sum()
    };
    // What the kernel has unmovable memory for; after a boot little of it is elsewhere.
    let fixed = of(&[Migratetype::Unmovable, Migratetype::Reclaimable]);
    let more = goal.unmovable.of(of(&Migratetype::ALL)).saturating_sub(fixed);
    if reached != Reached::Yes || held.pin(more).map_err(wrong)? < more {
        let now = held.now().map_err(wrong)?;
        let (free, spread) = (now.free_share(), now.spread());
        return Err(format!(
            "[fragment]: not reached: {free} is free, {spread} of that in smaller blocks"
        ));
    }
    Ok(held)
}
