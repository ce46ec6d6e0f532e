//! What drivers and programs say in their own words of memory that they did not get.

use std::sync::LazyLock;

use regex::Regex;
use serde::Serialize;

use super::about::About;

/// What such words tell.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Told {
    /// A language's runtime reached the limit of its own heap.
    OwnHeap,
    /// The memory of a graphics card is used up.
    Card,
    /// The number of threads or tasks is limited.
    Threads,
    /// A program found no free huge page.
    HugePages,
    /// A compiler's process was killed.
    Compiler,
    /// A driver, or another part of the kernel, returned `ENOMEM`.
    Driver,
    /// Another system call did.
    Refused,
    /// Something was not allocated.
    Nothing,
}

/// What such words tell, what they contain one of, and their pattern; what tells more is first.
const TABLE: [(Told, &[&str], &str); 8] = [
    (
        Told::OwnHeap,
        &[
            "heap out of memory",
            "process out of memory",
            "OutOfMemoryError: ",
            "memory size of",
            "OOM command",
        ],
        r"(?:heap|Allocation failed - process) out of memory|OutOfMemoryError: (?:Java heap space|GC overhead limit|Metaspace|PermGen|Compressed class|Requested array size|Direct buffer)|Allowed memory size of \d+ bytes exhausted|OOM command not allowed",
    ),
    (
        Told::Card,
        &[
            "ut of memory",
            "UT_OF_MEMORY",
            "UT_OF_DEVICE_MEMORY",
            "device memory",
            "allocating tensor",
            "cuda",
        ],
        r"(?i)\b(?:cuda|hip|xpu)\b.*out of memory|\b(?:cuda|cu|hip|vk|gl|cl)_\w*out_of_\w*memory|out of (?:device|video|gpu) memory|OOM when allocating tensor.*GPU|\(GPU_\d+_bfc\) ran out of memory|\bcuda\w*(?:alloc|malloc)\w*.*\bfail",
    ),
    (
        Told::Threads,
        &["native thread", "pids controller"],
        r"unable to create (?:new )?native thread|fork rejected by pids controller",
    ),
    (
        Told::HugePages,
        &["uge page", "ugepage", "backing store for guest"],
        r"(?i)not enough (?:free )?huge ?pages|cannot get hugepage information|no free hugepages reported in hugepages-2048kB|unable to map backing store for guest RAM",
    ),
    (
        Told::Compiler,
        &["terminated program", "Killed (program", "terminated with signal 9"],
        r"Killed signal terminated program|internal compiler error: Killed \(program|ld terminated with signal 9",
    ),
    (
        Told::Driver,
        &[
            "annot allocate memory",
            "error -12",
            "failed: -12",
            "(-12)",
            "ENOMEM",
            "rrno",
            "emory allocation problem",
        ],
        r"(?i)(?:ioctl|\bdrm|\bdma|v4l2|video|camera|buffers?\b|insmod|modprobe|insert module|/dev/|\bgpu|\bgem\b|\busb|vfio|\bibv?_|memlock|bpf|urb\b).*(?:cannot allocate memory|\bENOMEM\b|\berrno[ =:]*12\b)|ip6?tables.*Memory allocation problem|failed with error -12\b|\bfailed: -12\b|\bfailed \(-12\)",
    ),
    (
        Told::Refused,
        &[
            "annot allocate memory",
            "rrno",
            "os error 12",
            "ENOMEM",
            "bad_alloc",
            "MemoryError",
            "cannot allocate ",
            "runtime: out of memory",
            "memory allocation of",
            "to map ",
            "insufficient memory",
            "nable to allocate",
            "on request of size",
        ],
        r"[Cc]annot allocate memory|\berrno[ =:]*12\b|\(os error 12\)|\bENOMEM\b|std::bad_alloc|^(?:numpy\S*)?MemoryError\b|NoMemoryError|cannot allocate \d+-byte block|runtime: out of memory|memory allocation of \d+ bytes failed|failed to map \d+ bytes|insufficient memory for the Java|Unable to allocate .* for an array|Failed on request of size",
    ),
    (
        Told::Nothing,
        &["alloc", "Alloc", "ut of memory", "ot enough memory", "OutOfMemory"],
        r"(?i)(?:fail(?:ed|ure)?|unable|cannot|can't|could not|not enough|error) (?:to )?(?:re)?alloc(?:at\w*|ed)?\b.*|alloc\w* (?:\S+ ){0,4}fail.*|out of memory.*|not enough memory.*|OutOfMemory(?:Error|Exception)",
    ),
];

static PATTERNS: LazyLock<Vec<Regex>> = LazyLock::new(|| {
    TABLE.iter().map(|(.., text)| Regex::new(text).expect("the pattern is valid")).collect()
});
/// Words that tell nothing else must be about memory.
static OF_MEMORY: LazyLock<Regex> = LazyLock::new(|| {
    Regex::new(r"(?i)mem|buffer|page|byte|skb|dma|\bring\b|-12\b|kB|MB")
        .expect("the pattern is valid")
});
/// The longest such words that are kept.
const LONGEST: usize = 120;

/// Returns strings: such a line contains at least one of them.
pub(super) fn marks() -> impl Iterator<Item = &'static str> {
    TABLE.iter().flat_map(|(_, marks, _)| marks.iter().copied())
}

/// Returns what a line says in its own words of memory that was not had.
pub(super) fn said(text: &str) -> Option<About> {
    let is_said = |marks: &[&str]| marks.iter().any(|mark| text.contains(mark));
    let mut rows = TABLE.iter().zip(&*PATTERNS);
    let ((told, ..), _) =
        rows.find(|((_, marks, _), pattern)| is_said(marks) && pattern.is_match(text))?;
    if *told == Told::Nothing && !OF_MEMORY.is_match(text) {
        return None;
    }
    let end = text.char_indices().nth(LONGEST).map_or(text.len(), |(at, _)| at);
    Some(About::Words(*told, text[..end].trim().to_owned()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn words_tell_whose_memory_it_is() {
        for (text, told) in [
            (
                "FATAL ERROR: Reached heap limit Allocation failed - JavaScript heap out of memory",
                Some(Told::OwnHeap),
            ),
            ("java.lang.OutOfMemoryError: Java heap space", Some(Told::OwnHeap)),
            (
                "PHP Fatal error: Allowed memory size of 134217728 bytes exhausted (tried to allocate 8 bytes)",
                Some(Told::OwnHeap),
            ),
            (
                "RuntimeError: CUDA out of memory. Tried to allocate 2.00 GiB (GPU 0)",
                Some(Told::Card),
            ),
            ("java.lang.OutOfMemoryError: unable to create new native thread", Some(Told::Threads)),
            (
                "cgroup: fork rejected by pids controller in /system.slice/a.service",
                Some(Told::Threads),
            ),
            ("EAL: No free hugepages reported in hugepages-2048kB", Some(Told::HugePages)),
            // The other size may be there.
            ("EAL: No free hugepages reported in hugepages-1048576kB", None),
            ("c++: fatal error: Killed signal terminated program cc1plus", Some(Told::Compiler)),
            ("-bash: fork: Cannot allocate memory", Some(Told::Refused)),
            (
                "/dev/video0: Unable to request 1 buffers: Cannot allocate memory",
                Some(Told::Driver),
            ),
            ("xilinx-vdma 4300.dma: probe failed with error -12", Some(Told::Driver)),
            ("libusb: error [submit_iso_transfer] submiturb failed, errno=12", Some(Told::Driver)),
            ("libbpf: map 'a': failed to create: Cannot allocate memory(-12)", Some(Told::Driver)),
            (
                "iptables: create-instance-chains: iptables: Memory allocation problem.",
                Some(Told::Driver),
            ),
            ("jetson.utils -- cudaAllocMapped() failed to allocate memory", Some(Told::Card)),
            ("sof-audio-pci 0000:00:1f.3: error: memory alloc failed: -12", Some(Told::Driver)),
            (
                "qemu-system-x86_64: unable to map backing store for guest RAM: Cannot allocate memory",
                Some(Told::HugePages),
            ),
            (
                "DETAIL:  Failed on request of size 41520 in memory context \"WAL record construction\".",
                Some(Told::Refused),
            ),
            (
                "2016-02-09T00:02:38: [GC (Allocation Failure) [PSYoungGen: 262144K->40574K(305664K)]",
                None,
            ),
            ("System.OutOfMemoryException: Array dimensions exceeded", Some(Told::Nothing)),
            ("InnoDB: mmap(137428992 bytes) failed; errno 12", Some(Told::Refused)),
            (
                "runtime: out of memory: cannot allocate 597164032-byte block (3379036160 in use)",
                Some(Told::Refused),
            ),
            (
                "terminate called after throwing an instance of 'std::bad_alloc'",
                Some(Told::Refused),
            ),
            ("sd 0:0:0:0: open failed: errno 121", None),
            ("tg3 0000:01:00.0: failed to allocate rx ring", Some(Told::Nothing)),
            ("usb 1-1: failed to allocate minor", None),
            ("Killed process list by request", None),
        ] {
            let found = said(text).map(|about| match about {
                About::Words(told, _) => told,
                other => panic!("{other:?}"),
            });
            assert_eq!(found, told, "{text}");
            assert!(told.is_none() || marks().any(|mark| text.contains(mark)), "{text}");
        }
    }
}
