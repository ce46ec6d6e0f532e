//! Failed allocations that drivers and programs report in their own words.

use std::sync::LazyLock;

use regex::Regex;
use serde::Serialize;

use super::about::About;
use super::phrases::PHRASES;
use crate::log::literals::Literals;

/// The subject of such words.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Told {
    /// The hardware lost the content of memory.
    Hardware,
    /// A language's runtime reached the limit of its own heap.
    OwnHeap,
    /// The memory of a graphics card is used up.
    Card,
    /// The number of threads or tasks is limited.
    Threads,
    /// A program found no free huge page.
    HugePages,
    /// Shared memory is limited.
    Shared,
    /// Page faults took small pages instead of a huge one.
    HugeFaults,
    /// The number of mappings of a process is limited.
    Mappings,
    /// The kernel could not make another cgroup.
    Cgroups,
    /// A container, a unit or a job reached its limit.
    Limit,
    /// A process was killed by SIGKILL.
    Killed,
    /// A process could not be copied.
    Fork,
    /// The memory of a virtual machine could not be committed.
    Guest,
    /// Locked memory is limited.
    Locked,
    /// A device got no contiguous memory.
    Contiguous,
    /// A network driver got no buffer.
    Packet,
    /// A file system or block device got no memory.
    FileSystem,
    /// A driver got no memory to start its device.
    Probe,
    /// A driver, or another part of the kernel, returned `ENOMEM`.
    Driver,
    /// A system call returned `ENOMEM`.
    Refused,
    /// Something was not allocated.
    Nothing,
}

static PATTERNS: LazyLock<Vec<Regex>> = LazyLock::new(|| {
    PHRASES.iter().map(|(.., text)| Regex::new(text).expect("the pattern is valid")).collect()
});
/// Words that name no other subject must be about memory.
static OF_MEMORY: LazyLock<Regex> = LazyLock::new(|| {
    Regex::new(r"(?i)mem|buffer|page|byte|skb|dma|\bring\b|-12\b|kB|MB")
        .expect("the pattern is valid")
});
/// The forms of the error's name in a log: `errno: ENOMEM`, `= -1 ENOMEM`, `(ENOMEM)`, `ENOMEM: not enough memory`.
static LOGGED: LazyLock<Regex> = LazyLock::new(|| {
    Regex::new(r#"[:=]\s*(?:-1 )?['"]?-?ENOMEM\b|(?:^|\s)\(-?ENOMEM\)|\bENOMEM: |spawn ENOMEM|error -?ENOMEM|\w\.ENOMEM\b"#)
        .expect("the pattern is valid")
});
/// Source code, which also names errors.
static CODE: LazyLock<Regex> = LazyLock::new(|| {
    Regex::new(r"ERR_PTR\(|\breturn\b.*-E[A-Z]{3}|[=!]= ?-E[A-Z]{3}|^\s*(?:[-+]\s*)?(?:\*|//|#define|if \()|-ENOMEM\)*;|[{;]\s*$|\*/\s*$|%(?:l{1,2}|z)?[dux]\b|\b(?:may|might|can|could) fail\b")
        .expect("the pattern is valid")
});
/// Words of sentences. Few messages have more than two of them, except for these phrases of messages.
const OF_SENTENCES: [&str; 40] = [
    "the", "a", "an", "is", "are", "was", "were", "be", "to", "and", "or", "but", "if", "it", "we",
    "you", "i", "that", "this", "these", "with", "in", "on", "at", "as", "by", "from", "will",
    "would", "can", "have", "has", "them", "they", "when", "so", "just", "should", "which",
    "there",
];
/// Words that only persons say.
const OF_PERSONS: [&str; 8] = ["I", "I'm", "I've", "my", "My", "we", "We", "our"];
static PHRASES_OF_MESSAGES: LazyLock<Regex> = LazyLock::new(|| {
    Regex::new(r"(?i)\b(?:fail\w*|unable|able|trying|tried) to\b|\bout of memory\b")
        .expect("the pattern is valid")
});
/// The least number of such words in a line that is a sentence and no message.
const SENTENCE: usize = 3;
/// The length of the words that are kept, and of the part before the phrase that matched.
const LONGEST: usize = 120;
const BEFORE: usize = 60;

/// Returns strings: such a line contains at least one of them.
pub(super) fn marks() -> impl Iterator<Item = &'static str> {
    PHRASES.iter().flat_map(|(_, marks, _)| marks.iter().copied())
}

/// Returns the place in the table of the subject of such words. The more specific come first.
pub(super) fn rank(told: Told) -> usize {
    PHRASES.iter().position(|(other, ..)| *other == told).unwrap_or(PHRASES.len())
}

/// Returns the subject of a line that reports a failed allocation in its own words.
pub(super) fn said(text: &str) -> Option<About> {
    static MARKED: LazyLock<Literals> = LazyLock::new(|| Literals::new(marks().collect()));
    if !MARKED.is_in(text.as_bytes()) {
        return None;
    }
    let is_said = |marks: &[&str]| marks.iter().any(|mark| text.contains(mark));
    let rows = PHRASES.iter().zip(&*PATTERNS).filter(|((_, marks, _), _)| is_said(marks));
    let (told, at) = rows
        .map(|((told, ..), pattern)| (*told, pattern.find(text)))
        .find_map(|(told, found)| Some((told, found?.start())))?;
    if told == Told::Nothing && (!OF_MEMORY.is_match(text) || is_sentence(text)) {
        return None;
    }
    let is_named_only = text.contains("ENOMEM") && !text.contains("annot allocate memory");
    if CODE.is_match(text) || (is_named_only && !LOGGED.is_match(text)) {
        return None;
    }
    Some(About::Words(told, quoted(text, at)))
}

/// Returns whether a person wrote a line, not a program.
fn is_sentence(text: &str) -> bool {
    if text.split_whitespace().any(|word| OF_PERSONS.contains(&word)) {
        return true;
    }
    let text = PHRASES_OF_MESSAGES.replace_all(text, " ").to_ascii_lowercase();
    let words = || text.split(|c: char| !c.is_ascii_alphabetic());
    OF_SENTENCES.iter().filter(|known| words().any(|word| word == **known)).count() >= SENTENCE
}

/// Returns the part of a line around the phrase that matched.
fn quoted(text: &str, at: usize) -> String {
    let chars = text[..at].chars().count();
    let skipped = if text.chars().count() <= LONGEST { 0 } else { chars.saturating_sub(BEFORE) };
    let part: String = text.chars().skip(skipped).take(LONGEST).collect();
    let before = if skipped > 0 { "... " } else { "" };
    format!("{before}{}", part.trim())
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Checks rows `what it tells | text`.
    #[track_caller]
    fn told(rows: &str) {
        for (told, text) in rows.trim_start().lines().filter_map(|row| row.split_once(" | ")) {
            let found = said(text).map(|about| match about {
                About::Words(told, _) => format!("{told:?}"),
                other => panic!("{other:?}"),
            });
            assert_eq!(found.as_deref().unwrap_or("-"), told, "{text}");
            assert!(told == "-" || marks().any(|mark| text.contains(mark)), "{text}");
        }
    }

    #[test]
    fn words_of_programs_tell_whose_memory_it_is() {
        told(
            r#"
OwnHeap | FATAL ERROR: Reached heap limit Allocation failed - JavaScript heap out of memory
OwnHeap | java.lang.OutOfMemoryError: Java heap space
OwnHeap | PHP Fatal error: Allowed memory size of 134217728 bytes exhausted (tried to allocate 8 bytes)
Card | RuntimeError: CUDA out of memory. Tried to allocate 2.00 GiB (GPU 0)
Threads | java.lang.OutOfMemoryError: unable to create new native thread
Threads | cgroup: fork rejected by pids controller in /system.slice/a.service
HugePages | EAL: No free hugepages reported in hugepages-2048kB
Killed | c++: fatal error: Killed signal terminated program cc1plus
Fork | -bash: fork: Cannot allocate memory
Limit | starting container process caused: container init was OOM-killed (memory limit too low?)
Limit | write /sys/fs/cgroup/memory/a/memory.limit_in_bytes: device or resource busy
Limit | slurmstepd: error: Detected 1 oom-kill event(s) in step 7.0
Killed | make: *** [all] Error 137
Killed | /usr/bin/run: line 96: 2663 Killed  "$server"
HugePages | EAL: Couldn't get fd on hugepage file
HugePages | Not able to allocate all hugepages. Reverting...
HugePages | !PANIC!: Cannot create mbuf pool (Rate TX 0:0) port 0
Shared | HINT: the request exceeded your kernel's SHMMAX parameter
Shared | OSError: [Errno 28] No space left on device: '/dev/shm/torch_7'
HugeFaults | thp_fault_fallback 99999
- | thp_fault_fallback_charge 99999
Refused | PHP Fatal error:  Out of memory (allocated 10485760)
Killed | web-1 exited with code 137
Threads | Out of Memory Error (workerManager.hpp:70), pid=1, tid=1
"#,
        );
    }

    #[test]
    fn words_of_guests_containers_and_machines_tell_it_too() {
        told(
            r#"
HugePages | EAL: Not enough memory available on socket 0! Requested: 9MB
HugePages | Could not allocate packet MBuf pools : error 12
Guest | xc: panic: can't allocate low memory for domain: Out of memory
Mappings | [1]: max virtual memory areas vm.max_map_count [65530] is too low, increase it
Mappings | java.lang.OutOfMemoryError: Map failed
Cgroups | cause: mkdir /sys/fs/cgroup/memory/docker/a1: cannot allocate memory
Cgroups | mkdir /sys/fs/cgroup/memory/pods/b: no space left on device
Killed |       Exit Code:    137
Killed |   exitCode: 137
Killed | "ExitCode":137,
Killed | process didn't exit successfully: `rustc` (signal: 9, SIGKILL: kill)
Killed | pid 77 (java), jid 0, uid 0, was killed: out of swap space
Guest | qemu-kvm: cannot set up guest memory 'pc.ram': Cannot allocate memory
Refused | error='无法分配内存' (errno=12)
Refused | 5:M 11 Dec # Out Of Memory allocating 2046331 bytes!
Card | jetson.utils -- cudaAllocMapped() failed to allocate memory
HugePages | qemu-system-x86_64: unable to map backing store for guest RAM: Cannot allocate memory
Refused | DETAIL:  Failed on request of size 41520 in memory context "WAL record construction".
Refused | InnoDB: mmap(137428992 bytes) failed; errno 12
Refused | runtime: out of memory: cannot allocate 597164032-byte block (3379036160 in use)
Refused | terminate called after throwing an instance of 'std::bad_alloc'
"#,
        );
    }

    #[test]
    fn words_of_the_kernel_tell_whose_memory_it_is() {
        told(
            r#"
- | EAL: No free hugepages reported in hugepages-1048576kB
Contiguous | /dev/video0: Unable to request 1 buffers: Cannot allocate memory
Probe | xilinx-vdma 4300.dma: probe failed with error -12
Driver | uvcvideo: Failed to submit URB 0 (-12).
Contiguous | NvMapMemAllocInternalTagged: 1075072515 error 12
Driver | libusb: error [submit_iso_transfer] submiturb failed, errno=12
Locked | libbpf: map 'a': failed to create: Cannot allocate memory(-12)
Hardware | mce: [Hardware Error]: error_type: 3, multi-bit ECC
- | [Hardware Error]: event severity: corrected
Hardware | Memory failure: 0x31f: recovery action for dirty LRU page: Recovered
Contiguous | ionAlloc <ion_alloc_palloc:335>:ION_IOC_ALLOC error
- | process exited with code 1
Locked | UCX ERROR mlx5_0: ibv_create_cq() failed: Cannot allocate memory
Locked | [ERROR] errno: Cannot allocate memory) Failed to create qp
Contiguous | 640x480: CREATE_DUMB failed: Cannot allocate memory
Contiguous | Unable to allocate contiguous DMA memory region of size 4096
Contiguous | dma_alloc_coherent(size=16777216) failed. return(0)
Nothing | cannot allocate DMA channel
- | failed to request DMA channel
Packet | rtw 1-1:1.2: failed to allocate rx_skb 3
Locked | Unable to lock JVM Memory: error=12,reason=Cannot allocate memory
Contiguous | [drm:vc4_bo_create [vc4]] *ERROR* Failed to allocate from CMA:
Packet | ath: skbuff alloc of size 1974 failed
Packet | eth0: Memory squeeze, dropping packet.
FileSystem | BTRFS warning (device dm-0): Aborting unused transaction(Out of memory).
Contiguous | drm drm: failed to allocate buffer of size 18432000
Probe | foo 1-0: probe failed, err -12
Driver | iptables: create-instance-chains: iptables: Memory allocation problem.
Driver | sof-audio-pci 0000:00:1f.3: error: memory alloc failed: -12
- | 2016-02-09T00:02:38: [GC (Allocation Failure) [PSYoungGen: 262144K->40574K(305664K)]
Nothing | System.OutOfMemoryException: Array dimensions exceeded
- | sd 0:0:0:0: open failed: errno 121
Nothing | tg3 0000:01:00.0: failed to allocate rx ring
- | usb 1-1: failed to allocate minor
- | Killed process list by request
"#,
        );
    }

    #[test]
    fn code_and_sentences_are_no_messages() {
        told(
            r#"
- | 		return -ENOMEM;
- | 643         if (ret == -ENOMEM)
- |  * -ENOMEM: out of memory
- | if kzalloc fails, the driver should return -ENOMEM from probe
- | Under heavy load the device experiences -ENOMEM errors
- | I think the node is out of memory and you have no reclaim
- | I ran out of memory, and the daemon killed nothing
Refused | mmap(NULL, 4096) = -1 ENOMEM (Cannot allocate memory)
Refused | Error: spawn ENOMEM
Locked | Unix_error(Unix.ENOMEM, "io_uring_setup", "")
Nothing | drv 0000:01:00.0: failed to allocate memory for the ring
"#,
        );
    }

    #[test]
    fn a_long_line_is_quoted_around_what_tells() {
        let line = format!("{} std::bad_alloc in the end", "x".repeat(200));
        let Some(About::Words(Told::Refused, words)) = said(&line) else { panic!("{line}") };
        assert!(
            words.starts_with("... x") && words.ends_with("std::bad_alloc in the end"),
            "{words}"
        );
    }
}
