//! The first step of an answer: it depends on who has the memory, as far as the log tells.

use pageblock_doctor::class::Class;
use pageblock_doctor::log::Kind;
use pageblock_doctor::{Explanation, explain};

/// Returns the only explanation of a log.
#[track_caller]
fn only(log: &str) -> Explanation {
    let mut found = explain(log);
    assert_eq!(found.len(), 1, "{log}");
    found.remove(0)
}

#[track_caller]
fn begins(log: &str, what: &str) {
    let helps = only(log).helps;
    assert!(helps[0].what.starts_with(what), "{helps:?}");
}

const KILL: &str = "app invoked oom-killer: gfp_mask=0x201da, order=0, oom_score_adj=0\n\
                    [ pid ]   uid  tgid total_vm      rss nr_ptes swapents oom_score_adj name\n";

/// Many small processes may have more than the largest one.
#[test]
fn processes_of_one_name_count_together() {
    let row = |pid: u32, rss: u32, name: &str| {
        format!("[ {pid}]     0  {pid}      492     {rss}       4        0             0 {name}\n")
    };
    let workers: String = (100..140).map(|pid| row(pid, 5000, "worker")).collect();
    let log = [KILL, &row(99, 60_000, "database"), &workers].concat();
    let named = only(&log).report.most_named.unwrap();
    assert_eq!((named.task.as_str(), named.count, named.pages), ("worker", 40, 200_000));
    begins(&log, "less memory for 40 of worker");
    let one = [KILL, &row(99, 300_000, "database"), &workers].concat();
    assert_eq!(only(&one).report.most_named, None);
    begins(&one, "less memory for database");
}

/// Lines that two consoles printed, or somebody repeated, add up to more than the machine has.
#[test]
fn more_than_the_machine_has_is_not_counted() {
    let state = |times: usize| {
        let counts =
            " active_anon:1000 inactive_anon:1000\n active_file:90000 inactive_file:90000\n";
        KILL.to_owned() + "Mem-Info:\n" + &counts.repeat(times) + "524288 pages RAM\n"
    };
    let memory = |times| only(&state(times)).report.memory;
    assert_eq!(memory(1).file_pages, Some(180_000));
    assert_eq!((memory(3).file_pages, memory(3).held.anonymous), (None, Some(24_000)));
    assert_eq!(memory(300).held.anonymous, None);
}

/// A state without a request tells who has the memory, or that nothing is short.
#[test]
fn a_state_alone_has_a_first_step() {
    let state = |available: u32, slab: u32| {
        format!(
            "MemTotal: 8000000 kB\nMemFree: 100000 kB\nMemAvailable: {available} kB\nBuffers: 0 kB\nCached: 300000 kB\n\
             AnonPages: 200000 kB\nShmem: 0 kB\nSlab: {slab} kB\nSReclaimable: 0 kB\nSUnreclaim: {slab} kB\nSwapFree: 0 kB\n"
        )
    };
    begins(&state(150_000, 7_300_000), "slabtop");
    begins(&state(7_000_000, 200_000), "find who has it: VmallocUsed");
    let cached = state(7_000_000, 200_000).replace("Cached: 300000", "Cached: 7300000");
    begins(&cached, "nothing for memory at that moment");
}

/// Mail wraps the first line anywhere.
#[test]
fn a_first_line_that_is_broken_in_the_middle_begins_a_report() {
    let of = only(
        "[  336.17] kworker/u48:6: page\nallocation failure: order:5, mode:\n0x40c40(GFP_NOFS|__GFP_COMP), nodemask=(null)\n\
         [  336.18] CPU: 7 PID: 1407\nComm: kworker/u48:6 Not tainted 6.14.0 #9\n",
    );
    let report = &of.report;
    assert_eq!((report.kind, report.order), (Kind::Failure, Some(5)));
    assert_eq!(report.flags.as_deref(), Some("GFP_NOFS|__GFP_COMP"));
}

/// On 32 bits high memory does not serve the kernel itself, however much of it is free.
#[test]
fn the_kernels_own_memory_on_32_bits_is_of_low_zones() {
    let log = "sh invoked oom-killer: gfp_mask=0xd0, order=1, oom_score_adj=0\n\
               Pid: 3, comm: sh Not tainted 3.2.0-4-686-pae #1\nMem-Info:\n\
               Normal free:43788kB min:44112kB low:55140kB high:66168kB present:887976kB\nlowmem_reserve[]: 0 0 400\n\
               HighMem free:474208kB min:512kB low:7898kB high:15792kB inactive_file:16579kB present:635553kB\n\
               lowmem_reserve[]: 0 0 0\nNormal: 900*4kB 620*8kB 2200*16kB = 43760kB\nHighMem: 226*4kB 242*8kB 29457*16kB = 474152kB\n\
               Free swap  = 0kB\n390000 pages RAM\n";
    assert_eq!(only(log).class, Class::ZoneMask);
    begins(log, "a 64-bit kernel");
    let full = log.replace("HighMem free:474208kB", "HighMem free:500kB");
    assert_eq!(only(&full).class, Class::SlowReclaim, "high memory is as short");
}
