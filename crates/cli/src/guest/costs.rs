//! `pageblock guest costs`: what operations cost in a guest, beside the simulation's costs.

use std::time::Duration;

use pageblock_guest::error::Error;
use pageblock_guest::job::COSTS;
use pageblock_guest::series;
use pageblock_plan::guest::{self, GuestRequest};
use pageblock_simulate::sim::cost::{Costs, EMULATED, YEAR_2018};

use super::wanted;
use crate::args::guest::CostsArgs;
use crate::progress::terminal;
use crate::{Verdict, interrupt, output};

/// How long the guest may take.
const TIMEOUT: Duration = Duration::from_secs(1800);
/// The guest's memory: kernels leave most of it.
const MEMORY_MIB: u64 = 640;
/// What the simulation charges for each of [`COSTS`], and what it is.
type Row = (fn(&Costs) -> u64, &'static str);
const ROWS: [Row; COSTS.len()] = [
    (|c| c.fault_base + c.alloc, "fault of a small page"),
    (|c| c.fault_base + c.table + 2 * c.alloc, "fault that needs a table of pages"),
    (|c| c.fault_huge + c.alloc, "fault of a huge page"),
    (|c| c.write_page + c.alloc, "4 KiB written to a new page of a file"),
    (|c| c.read_page, "4 KiB read from the page cache"),
    (|c| c.open, "file opened and closed"),
    (|c| c.message + 2 * c.object + c.alloc / 4, "message of 640 bytes"),
    (|c| c.message_free, "message freed"),
    (|c| c.pipe_page + c.alloc, "page through a pipe"),
    (|c| c.program + 42 * (c.fault_base + c.alloc), "program of 42 pages started and ended"),
    (|c| c.scan + c.reclaim, "small page reclaimed by kswapd"),
    (|c| 100 * c.migrate / YEAR_2018.migrate, "compaction, in percent of 2018's"),
];

pub(super) fn run(args: &CostsArgs) -> anyhow::Result<Verdict> {
    let asked = GuestRequest {
        workload: "mixed".to_owned(),
        kernels: args.kernels.clone(),
        source: None,
        patches: Vec::new(),
        sysctls: Vec::new(),
        repeat: 1,
        machine: None,
        scale: None,
        // One CPU: another's work would take of its time.
        memory: Some(MEMORY_MIB),
        cpus: 1,
        nodes: 1,
        record: false,
        out: args.out.clone(),
        qemu: args.qemu.clone(),
        accelerator: wanted(args.accel),
        timeout: TIMEOUT,
        jobs: Some(1),
        program: None,
    };
    interrupt::watch_quietly();
    let watcher = terminal();
    let mut plan = guest::plan(&asked, watcher.as_ref())?;
    guest::settle(&mut plan, &asked, watcher.as_ref())?;
    for kernel in &plan.kernels {
        output::note(&format!("{}: a guest of one CPU, half a minute\n", kernel.release));
    }
    let found = match series::costs(&plan, &interrupt::requested) {
        Err(Error::Stopped) => return Ok(Verdict::Interrupted),
        found => found?,
    };
    let mut text = format!("{:<38} {:>9} {:>9}", "nanoseconds", "2018", "emulated");
    found.iter().for_each(|(release, _)| text += &format!("  {release}"));
    text.push('\n');
    for (key, (of, what)) in COSTS.into_iter().zip(ROWS) {
        text += &format!("{what:<38} {:>9} {:>9}", of(&YEAR_2018), of(&EMULATED));
        for (release, costs) in &found {
            let cost = costs.get(key).map_or_else(|| "-".to_owned(), u64::to_string);
            text += &format!("  {cost:>width$}", width = release.len());
        }
        text.push('\n');
    }
    output::print(&text)?;
    Ok(Verdict::Yes)
}
