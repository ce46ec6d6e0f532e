//! Names of tasks: kernel threads keep theirs, others get a number.

use std::collections::BTreeMap;

/// Names of kernel threads, which a reader of a recording needs and which tell nothing: a task may be named so only if what
/// follows is a number, as the kernel has it.
const NUMBERED: [&str; 5] = ["kswapd", "kcompactd", "ksoftirqd/", "migration/", "swapper/"];
/// Those that nothing follows.
const WHOLE: [&str; 10] = [
    "khugepaged",
    "kthreadd",
    "ksmd",
    "oom_reaper",
    "rcu_bh",
    "rcu_gp",
    "rcu_par_gp",
    "rcu_preempt",
    "rcu_sched",
    "rcu_tasks_kthread",
];
/// Those after which a disk or a work is named, and the first letter of that.
const KWORKER: &str = "kworker/";
const JBD2: &str = "jbd2/";

/// Returns names for names: the same for the same.
pub(super) fn anonymous(comms: &BTreeMap<u32, String>) -> BTreeMap<u32, String> {
    let mut names: BTreeMap<&str, usize> = BTreeMap::new();
    let mut name = |name| {
        kernel_thread(name).unwrap_or_else(|| {
            let next = names.len() + 1;
            format!("command-{}", names.entry(name).or_insert(next))
        })
    };
    comms.iter().map(|(&pid, comm)| (pid, name(comm))).collect()
}

/// Returns the part of a kernel thread's name that is not a workqueue's or a disk's; `None` for other names.
fn kernel_thread(name: &str) -> Option<String> {
    let is_number = |text: &str| !text.is_empty() && text.bytes().all(|b| b.is_ascii_digit());
    if WHOLE.contains(&name) {
        return Some(name.to_owned());
    }
    if NUMBERED.iter().any(|start| name.strip_prefix(start).is_some_and(is_number)) {
        return Some(name.to_owned());
    }
    if name.starts_with(JBD2) {
        return Some("jbd2".to_owned());
    }
    // `kworker/3:1H-kblockd`, `kworker/u8:2+events_unbound`.
    let rest = name.strip_prefix(KWORKER)?;
    let id = rest.split(['-', '+']).next()?;
    let (pool, worker) = id.split_once(':')?;
    let worker = worker.strip_suffix('H').unwrap_or(worker);
    let is_worker = is_number(pool.strip_prefix('u').unwrap_or(pool)) && is_number(worker);
    is_worker.then(|| format!("{KWORKER}{id}"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_of_commands_go_and_those_of_kernel_threads_stay() {
        let all = [
            "secret",
            "kworker/1:2-mm_percpu_wq",
            "bash",
            "secret",
            "jbd2/vda1-8",
            "kswapd0",
            "kworker/u8:3H+flush",
            // Tasks of users who call them so.
            "kswapd-alice",
            "ksmdalice",
            "rcu_alice",
            "kworker/alice:1",
            "migration/bob",
        ];
        let comms = (0..).zip(all.map(str::to_owned)).collect();
        assert_eq!(
            anonymous(&comms).into_values().collect::<Vec<_>>(),
            [
                "command-1",
                "kworker/1:2",
                "command-2",
                "command-1",
                "jbd2",
                "kswapd0",
                "kworker/u8:3H",
                "command-3",
                "command-4",
                "command-5",
                "command-6",
                "command-7"
            ]
        );
    }
}
