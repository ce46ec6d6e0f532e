//! The table of phrases in others' words: their subject, a string that a line must contain, and its pattern.

use super::words::Told;

/// The meaning of a phrase, the strings that select its lines, and its pattern. The more specific come first.
pub(super) const PHRASES: [(Told, &[&str], &str); 21] = [
    (
        Told::Hardware,
        &["[Hardware Error]", "Memory failure: 0x", "EDAC "],
        r"Hardware Error\].*(?:multi-bit ECC|[Uu]ncorrect)|Memory failure: 0x[0-9a-f]+: |EDAC .* UE ",
    ),
    (
        Told::OwnHeap,
        &[
            "heap out of memory",
            "process out of memory",
            "OutOfMemoryError: ",
            "memory size of",
            "OOM command",
            "byte allocation with",
            "Data too large",
        ],
        r"(?:heap|Allocation failed - process) out of memory|OutOfMemoryError: (?:Java heap space|GC overhead limit|Metaspace|PermGen|Compressed class|Requested array size|Direct buffer)|Allowed memory size of \d+ bytes exhausted|OOM command not allowed|Failed to allocate a \d+ byte allocation with|CircuitBreaking\w*.*Data too large",
    ),
    (
        Told::Card,
        &[
            "ut of memory",
            "UT_OF_",
            "device memory",
            "allocating tensor",
            "cuda",
            "STATUS_ALLOC_FAILED",
            "VRAM",
        ],
        r"(?i)\b(?:cuda|hip|xpu|mps)\b.*out of memory|\b(?:cuda|cu|hip|vk|gl|cl)_\w*out_of_\w*memory|out of (?:device|video|gpu) memory|OOM when allocating tensor.*GPU|\(GPU_\d+_bfc\) ran out of memory|\bcuda\w*(?:alloc|malloc)\w*.*\bfail|STATUS_ALLOC_FAILED|RESOURCE_EXHAUSTED: out of memory|(?:not enough|insufficient|out of) VRAM",
    ),
    (
        Told::HugePages,
        &[
            "uge page",
            "ugepage",
            "to map backing store",
            "mbuf",
            "allocate packet",
            "allocate guest",
            "ot enough memory",
        ],
        r"(?i)not enough memory available on socket|(?:cannot|could not|fail\w*|error)\b.*\b(?:create|init\w*|alloc\w*)\b.*\bmbufs?|empty mbuf pool|insufficient free host memory pages|not enough (?:free )?huge ?pages|cannot get hugepage information|no free hugepages reported in hugepages-2048kB|unable to map backing store for guest RAM|couldn't get fd on hugepage file|requested \d+ hugepages but only|(?:failed|unable|not able) to (?:reserve|allocate|commit)\b.*\bhuge ?pages",
    ),
    (
        Told::Shared,
        &["SHM", "hared memory", "/dev/shm"],
        r"exceed\w*\b.*\bSHM(?:MAX|ALL)|shared memory segment: Invalid argument|out of shared memory|(?:shared memory segment|/dev/shm).*No space left|No space left on device.*/dev/shm",
    ),
    (Told::HugeFaults, &["thp_fault_fallback "], r"^\s*thp_fault_fallback [1-9]\d{3}"),
    (
        Told::Mappings,
        &["max_map_count", "OutOfMemoryError: M"],
        r"max_map_count\b.*\btoo low|OutOfMemoryError: Map failed",
    ),
    (
        Told::Cgroups,
        &["mkdir /sys/fs/cgroup"],
        r"mkdir /sys/fs/cgroup/\S+: (?i:cannot allocate memory|no space left on device)",
    ),
    (
        Told::Limit,
        &["emory limit", "OOM", "limit_in_bytes", "oom-kill", "oom_kill", "emory quota"],
        r"container init was OOM-killed|[Mm]emory limit (?:is |could be )?too low|[Mm]inimum memory limit|(?:write|set)\b.*memory\.(?:(?:memsw\.)?limit_in_bytes|max)\b.*(?:busy|[Ii]nvalid)|[Ee]xceed\w* (?:job |step )?memory limit|running beyond (?:physical|virtual) memory limit|[Dd]etected \d+ oom[-_]kill event|some of the step tasks have been OOM|Memory quota (?:vastly )?exceeded",
    ),
    (
        Told::Killed,
        &["Killed", "signal 9", "SIGKILL", " 137", "(137)", "ode\":137", "was killed: "],
        r"Killed signal terminated program|internal compiler error: Killed \(program|terminated (?:with|by) signal 9\b|signal: 9, SIGKILL|sent SIGKILL! Perhaps out of memory|Signals\.SIGKILL|\] Error 137\b|(?i:exit(?:ed)?(?: with)?(?: ?status| ?code)?[\x22']?[:=]? *\(?137\b)|^Killed\s*$|^\s*(?:.*: line \d+: +)?\d+ Killed +\S|was killed: (?:out of swap|failed to reclaim)",
    ),
    (
        Told::Threads,
        &["native thread", "pids controller", "fork: retry", "pthread_create", "workerManager"],
        r"Out of Memory Error \(workerManager|unable to create (?:new )?native thread|fork rejected by pids controller|fork: retry: Resource temporarily|pthread_create.*Resource temporarily",
    ),
    (
        Told::Fork,
        &["fork"],
        r"(?i)\bfork\w*\b.*(?:cannot allocate memory|not enough space|\bENOMEM\b|errno[ =:]*12\b|os error 12)",
    ),
    (
        Told::Guest,
        &["annot allocate", "ut of memory", "ot enough memory"],
        r"set up guest memory|allocate guest (?:memory|RAM)|can't allocate \w+ memory for domain|[Nn]ot enough memory to start domain",
    ),
    (
        Told::Locked,
        &["annot allocate", "ENOMEM", "rrno", "MEMLOCK", "lock memory"],
        r"(?i)(?:memlock|locked memory|ulimit -l|\bmlock\w*|io_uring|\bibv_|\bmlx[45]|\brdma\b|libbpf|\bbpf\b|\bvfio|\bxsk_).*(?:cannot allocate memory|\bENOMEM\b|errno[ =:]*12\b)|(?:cannot allocate memory|\bENOMEM\b|errno[ =:]*12\b).*(?:memlock|locked memory|create qp\b|io_uring|\bibv_)|(?:failed|unable|cannot) to (?:m?lock|pin) (?:\w+ )?memory|memlock.*too (?:low|small)",
    ),
    (
        Told::Contiguous,
        &["alloc", "Alloc", "ALLOC", "ENOMEM", "rrno"],
        r"(?i)\b(?:unable|failed|cannot|can't|could not|couldn't|error)\b.*\balloc\w*\b.*\b(?:contiguous|coherent|from cma|cma (?:mem|buf|area)|dumb buffer|dma[- ](?:able )?(?:mem|buf|pool|ring|region|desc|area))|\b(?:dma_\w*alloc\w*|dma alloc\w*|coherent alloc\w*|(?:pci|dma)_pool_alloc|pci_alloc_consistent)\b.*\b(?:fail|error)|CREATE_DUMB failed|failed to allocate buffer (?:with|of) size|(?:REQBUFS|/dev/video\d).*(?:cannot allocate memory|\bENOMEM\b|errno[ =:]*12\b)|\bion_?\w*alloc\w*\b.*\b(?:error|fail)|NvMapMem\w+:? (?:\d+ )?error 12|\bcma[_ ]alloc\w* (?:failed|failures?|errors?)\b",
    ),
    (
        Told::Packet,
        &["alloc", "emory squeeze"],
        r"(?i)(?:failed|failure|cannot|can't|could not|couldn't|unable|no memory)\b.*\b(?:alloc\w*|memory)\b.*(?:\b|_)(?:skb|skbuff|sk_buff)|\b(?:skb|skbuff|sk_buff)s? alloc\w*\b.*\bfail|memory squeeze",
    ),
    (
        Told::FileSystem,
        &["ut of memory", "ENOMEM", " -12", "(-12", "=-12", "annot allocate memory"],
        r"(?i)\b(?:btrfs|ext4-fs|jbd2|xfs|f2fs|cifs|libceph|ceph|nfsd?|ocfs2|gfs2|bcachefs|bcache|squashfs|overlayfs|device-mapper|drbd|rbd)\b.*(?:out of memory|\bENOMEM\b|-12\b|cannot allocate memory)",
    ),
    (
        Told::Probe,
        &[" -12", "(-12", "=-12"],
        r"(?i)\bprobe\b.*-12\b|failed with error -12\b|failed to (?:init|probe|load|start|enable|setup|set up|register|attach)\w*\b.*-12\b",
    ),
    (
        Told::Driver,
        &[
            "annot allocate memory",
            "failed: -12",
            "(-12)",
            "ENOMEM",
            "rrno",
            "emory allocation problem",
        ],
        r"(?i)(?:ioctl|\bdrm|\bdma|v4l2|video|camera|buffers?\b|insmod|modprobe|insert module|/dev/|\bgpu|\bgem\b|\busb|urb\b).*(?:cannot allocate memory|\bENOMEM\b|\berrno[ =:]*12\b)|ip6?tables.*Memory allocation problem|\bfailed: -12\b|\bfail\w*\b.*\(-12\)",
    ),
    (
        Told::Refused,
        &[
            "annot allocate ",
            "nable to allocate",
            "bad_alloc",
            "memory allocation of",
            "ried to allocate",
            "rrno",
            "os error 12",
            "ENOMEM",
            "MemoryError",
            "ut of memory",
            "to map ",
            "nsufficient memory",
            "on request of size",
            "emory exhausted",
            "ut Of Memory allocating",
            "无法分配内存",
        ],
        r"[Cc]annot allocate memory|\berrno[ =:]*12\b|\(os error 12\)|\bENOMEM\b|std::bad_alloc|^(?:numpy\S*)?MemoryError\b|NoMemoryError|cannot allocate \d+-byte block|cannot allocate vector of size|runtime: out of memory|memory allocation of \d+ bytes failed|failed to map \d+ bytes|insufficient memory for the Java|Unable to allocate .* for an array|Failed on request of size|memory exhausted|Out Of Memory allocating \d+ bytes|malloc failed \(tried to allocate|[Oo]ut of memory \((?:Needed|allocated)|无法分配内存",
    ),
    (
        Told::Nothing,
        &["alloc", "Alloc", "ut of memory", "ot enough memory", "OutOfMemory"],
        r"(?i)(?:fail(?:ed|ure)?|unable|cannot|can't|could not|not enough|error) (?:to )?(?:re)?alloc(?:at\w*|ed)?\b.*|alloc\w* (?:\S+ ){0,4}fail.*|out of memory.*|not enough memory.*|OutOfMemory(?:Error|Exception)",
    ),
];
