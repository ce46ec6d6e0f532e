//! Messages about kills.

use super::{Text, words};
use crate::log::find::about::About;

pub(super) static TEXTS: [Text; 33] = [
    (
        // Not of a memory cgroup: for one the kernel does not panic.
        "panic - not syncing",
        r"panic - not syncing: (?:Out of memory and no killable processes|System is deadlocked on memory)",
        |_| Some(About::NobodyLeft),
    ),
    ("no killable processes", r"(?i)no killable processes", |_| Some(About::NobodyToKill)),
    (
        "systemd-oomd",
        r"(systemd-oomd)\[\d+\]: (?:Killed|Marked) (?<task>/\S+)(?:.*? due to (?<numbers>.*))?",
        |found| words(found, 1).map(About::KilledBy),
    ),
    ("systemd-oomd", r"(?<task>[^ :]+): (systemd-oomd) killed ", |found| {
        words(found, 2).map(About::KilledBy)
    }),
    (
        "Sending SIGKILL to cgroup",
        r"\[(talos)\] Sending SIGKILL to cgroup .*\x22cgroup\x22: \x22(?<task>[^\x22]+)",
        |found| words(found, 1).map(About::KilledBy),
    ),
    (
        // The words of older versions of earlyoom.
        "illing process ",
        r"(?:(earlyoom)\[\d+\]: )?[Kk]illing process (?:\d+ )?[\x22'](?<task>[^\x22']+)[\x22'] with signal",
        |found| Some(About::KilledBy(words(found, 1).unwrap_or_else(|| "earlyoom".to_owned()))),
    ),
    (
        "illing process ",
        r"(earlyoom)\[\d+\]: Killing process \d+ (?<task>[^\x22'\s].*)$",
        |found| words(found, 1).map(About::KilledBy),
    ),
    (
        "sending SIG",
        r"(earlyoom|nohang)?(?:\[\d+\])?:? ?sending SIG(?:TERM|KILL) to process (?:group )?\d+(?: uid \d+)? \x22(?<task>.+?)\x22(?:.*?(?<numbers>VmRSS \d+ \w+))?",
        |found| Some(About::KilledBy(words(found, 1).unwrap_or_else(|| "earlyoom".to_owned()))),
    ),
    ("ow memory! ", r"[Ll]ow memory! (?:mem avail:|at or below SIG)", |_| {
        Some(About::KilledBy("earlyoom".to_owned()))
    }),
    (
        "killed due to memory pressure (OOM)",
        r"\b(?<task>[1-9]\d* Workers) \(tasks / actors\) killed due to memory pressure \(OOM\)",
        |_| Some(About::KilledBy("Ray".to_owned())),
    ),
    (
        "Ray killed this worker",
        r"was (?<numbers>[\d.]+[KMG]B / [\d.]+[KMG]B \([\d.]+\), which exceeds the memory usage threshold of [\d.]+\d).*\bRay killed (?<task>this worker)",
        |_| Some(About::KilledBy("Ray".to_owned())),
    ),
    ("OOM Killed", r"[Rr]eason\W+OOM Killed", |_| Some(About::Container)),
    ("kB rss", r"(?:Reclaim|Kill) '(?<task>[^']+)' \(\d+\), uid \d+, .* to free \d+kB rss", |_| {
        Some(About::KilledBy("lowmemorykiller".to_owned()))
    }),
    ("OOM killed process", r"OOM killed process (?:\d+ )?\(?(?<task>[^ ()]+)", |_| {
        Some(About::Container)
    }),
    ("lowmemorykiller", r"(lowmemorykiller): ?Kill(?:ing)? '(?<task>[^']+)'", |found| {
        words(found, 1).map(About::KilledBy)
    }),
    (
        // The program's name may be a part of what the logger put before it.
        "Kill '",
        r"^Kill '(?<task>[^']+)' \(\d+\), uid",
        |_| Some(About::KilledBy("lowmemorykiller".to_owned())),
    ),
    ("Killing '", r"^Killing '(?<task>[^']+)' \(\d+\), (?:uid|adj)", |_| {
        Some(About::KilledBy("lowmemorykiller".to_owned()))
    }),
    (
        "killed by the OOM killer",
        r"(?<task>[^ :]+): A process of this unit has been killed by the OOM killer",
        |_| Some(About::Node),
    ),
    ("esult: oom-kill", r"\(Result: oom-kill\)", |_| Some(About::Node)),
    ("result 'oom-kill'", r"(?<task>[^ :]+): Failed with result 'oom-kill'", |_| Some(About::Node)),
    ("OOMKilled", r"OOMKilled(?:\x22?: *(\w+))?", |found| {
        (words(found, 1).as_deref() != Some("false")).then_some(About::Container)
    }),
    ("an OOM event in container", r"Created an OOM event in container \x22/\x22", |_| {
        Some(About::Node)
    }),
    (
        "an OOM event in container",
        r"Created an OOM event in container \x22(?<task>[^\x22]+)\x22",
        |_| Some(About::Container),
    ),
    (
        "low on resource: memory.",
        r"low on resource: memory\.(?<numbers> Threshold quantity: \S+, available: \S+\w)?",
        |_| Some(About::Evicted),
    ),
    (
        "eviction manager: ",
        r"eviction manager: .*(?:\[signal=memory\.available|observed: \[MemoryPressure)",
        |_| Some(About::Evicted),
    ),
    ("Purging GPU memory", r"Purging GPU memory, \d+ pages freed", |_| Some(About::GpuPurge)),
    (
        "systemd-oomd",
        r"(systemd-oomd)\[\d+\]: Memory pressure for (?<task>/\S+) is (?<numbers>\d.*)",
        |found| words(found, 1).map(About::KilledBy),
    ),
    ("Running Action=kill", r"(oomd)\[\d+\]: .*Running Action=kill", |found| {
        words(found, 1).map(About::KilledBy)
    }),
    ("systemd-oomd", r"(systemd-oomd)\[\d+\]: (?<numbers>Failed to kill any cgroups.*)", |found| {
        words(found, 1).map(About::KilledBy)
    }),
    ("cgroups for killing", r"Considered \d+ cgroups for killing, top candidates", |_| {
        Some(About::KilledBy("systemd-oomd".to_owned()))
    }),
    ("Manual OOM execution", r"(?i)sysrq.* Manual OOM execution", |_| Some(About::Asked)),
    ("panic - not syncing", r"panic - not syncing: .*panic_on_oom is enabled", |_| {
        Some(About::PanicOnOom)
    }),
    (
        "System OOM encountered",
        r"System OOM encountered(?:, victim process: (?<task>[^,]+), pid: \d+)?",
        |_| Some(About::Node),
    ),
];

#[cfg(test)]
mod tests {
    use super::super::tests::known;

    #[test]
    fn who_was_killed_is_known() {
        known(
            r#"
NobodyToKill | - | Out of memory and no killable processes...
NobodyLeft | - | Kernel panic - not syncing: Out of memory and no killable processes...
Container | - |   map[exitCode:137 reason:OOM Killed
KilledBy("lowmemorykiller") | com.example | Reclaim 'com.example' (591), uid 10112, state 19 to free 19252kB rss, 5kB swap
KilledBy("earlyoom") | - | low memory! at or below SIGTERM limits: mem 10.00%, swap 10.00%
Container | httpd | Out of memory in UB 101: OOM killed process 812 (httpd) score 0 vm:9kB
NobodyLeft | - | Kernel panic - not syncing: System is deadlocked on memory
KilledBy("systemd-oomd") | /user.slice/app.scope | systemd-oomd[612]: Killed /user.slice/app.scope due to memory pressure for /user.slice being 61.23% > 50.00%
KilledBy("earlyoom") | bash | killing process 27541 "bash" with signal 15: badness 550, VmRSS 7609 MiB
KilledBy("talos") | /sys/fs/cgroup/pods/a | [talos] Sending SIGKILL to cgroup {"controller": "OOM", "cgroup": "/sys/fs/cgroup/pods/a"}
KilledBy("systemd-oomd") | /user.slice/app-with-a-name-that-the-terminal-cu> | systemd-oomd[612]: Killed /user.slice/app-with-a-name-that-the-terminal-cu>
KilledBy("systemd-oomd") | app.scope | app.scope: systemd-oomd killed 3 process(es) in this unit.
KilledBy("lowmemorykiller") | com.example | Killing 'com.example' (4563), uid 10010, adj 906
KilledBy("earlyoom") | firefox | earlyoom[700]: sending SIGTERM to process 812 uid 1000 "firefox": badness 801, VmRSS 2011 MiB
KilledBy("lowmemorykiller") | com.example | lowmemorykiller: Kill 'com.example' (6673), uid 10565, oom_score_adj 100 to free 53808kB rss
KilledBy("lowmemorykiller") | com.example | Kill 'com.example' (6673), uid 10565, oom_score_adj 100 to free 53808kB rss
"#,
        );
    }

    #[test]
    fn kills_that_others_tell_of_are_known() {
        known(
            r#"
Node | web.service | web.service: A process of this unit has been killed by the OOM killer.
Node | web.service | web.service: Failed with result 'oom-kill'.
Container | - |       Reason:       OOMKilled
Container | - |             "OOMKilled": true,
Node | - |    Active: failed (Result: oom-kill) since Mon 2024-01-01
Node | - | kubelet[4991]: manager.go:1126] Created an OOM event in container "/" at 2017-10-10 17:41:55
Evicted | - | Message: The node was low on resource: memory. Container app was using 1Gi
Evicted | - | eviction_manager.go:288] eviction manager: node conditions - observed: [MemoryPressure]
GpuPurge | - | Purging GPU memory, 0 pages freed, 0 pages still pinned, 1 pages left available.
KilledBy("systemd-oomd") | /a.slice/b.scope | systemd-oomd[70]: Memory pressure for /a.slice/b.scope is 74.23% > 20.00% for > 2s with reclaim activity
KilledBy("oomd") | - | oomd[14628]: [../src/oomd/engine/Ruleset.cpp:112] Running Action=kill_by_memory_size_or_growth
KilledBy("systemd-oomd") | - | systemd-oomd[612]: Considered 75 cgroups for killing, top candidates were:
Asked | - | sysrq: SysRq : Manual OOM execution
PanicOnOom | - | Kernel panic - not syncing: Out of memory: system-wide panic_on_oom is enabled
Node | java | Warning  SystemOOM  12m  kubelet  System OOM encountered, victim process: java, pid: 22113
Node | - | Warning  SystemOOM  12m (x4 over 25m)  kubelet  System OOM encountered
KilledBy("earlyoom") | kworker/27:0-events | earlyoom[73850]: Killing process 106631 kworker/27:0-events
KilledBy("Ray") | 3 Workers | (raylet) node_manager.cc:1: 3 Workers (tasks / actors) killed due to memory pressure (OOM), 0 Workers crashed
KilledBy("Ray") | this worker | Memory on the node was 9GB / 10GB (0.90), which exceeds the memory usage threshold of 0.85. Ray killed this worker (ID: 1)
"#,
        );
    }
}
