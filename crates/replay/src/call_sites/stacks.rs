//! Stacks, and the events that they belong to.

use std::collections::BTreeMap;

use pageblock_recording::{CALLED_BY, Other, What};

/// The number of functions that name a call site: the one that asked for memory, and its callers.
const NAMED: usize = 3;
/// The number of events without a stack to which the next stack of a CPU may belong. An interrupt may come in between, and its
/// stack comes first.
const PENDING: usize = 4;

/// Prefixes of the names of functions that pass a request on: the page allocator's, and those of allocators on top
/// of it.
const PASSING: [&str; 40] = [
    "trace_event_raw_event_",
    "__traceiter_",
    "event_triggers_",
    "trace_event_buffer_",
    "__trace_stack",
    "rmqueue",
    "__rmqueue",
    "steal_suitable_fallback",
    "try_to_claim_block",
    "try_to_steal_block",
    "get_page_from_freelist",
    "try_to_compact_pages",
    "try_to_free_pages",
    "do_try_to_free_pages",
    "__perform_reclaim",
    "compact_zone",
    "__alloc_pages",
    "__alloc_frozen_pages",
    "alloc_frozen_pages",
    "alloc_pages",
    "__alloc_folio",
    "__folio_alloc",
    "folio_alloc",
    "filemap_alloc_folio",
    "vma_alloc_",
    "alloc_page_interleave",
    "__get_free_pages",
    "get_free_pages",
    "get_zeroed_page",
    "__get_zeroed_page",
    "new_slab",
    "allocate_slab",
    "refill_objects",
    "__slab_alloc",
    "___slab_alloc",
    "kmem_cache_alloc",
    "__kmem_cache_alloc",
    "__kmalloc",
    "__do_kmalloc",
    "kmalloc",
];

/// Functions that serve one slab cache, and the cache.
const CACHES: [(&str, &str); 28] = [
    ("__alloc_object", "kmemleak_object"),
    ("__alloc_skb", "skbuff_head_cache"),
    ("__d_alloc", "dentry"),
    ("alloc_buffer_head", "buffer_head"),
    ("alloc_empty_file", "filp"),
    ("alloc_extent_state", "btrfs_extent_state"),
    ("alloc_pid", "pid"),
    ("alloc_vfsmnt", "mnt_cache"),
    ("anon_vma_clone", "anon_vma_chain"),
    ("anon_vma_fork", "anon_vma"),
    ("btrfs_alloc_inode", "btrfs_inode"),
    ("build_skb", "skbuff_head_cache"),
    ("copy_signal", "signal_cache"),
    ("dup_fd", "files_cache"),
    ("dup_mm", "mm_struct"),
    ("dup_task_struct", "task_struct"),
    ("ep_insert", "eventpoll_epi"),
    ("ext4_alloc_inode", "ext4_inode_cache"),
    ("ext4_es_insert_extent", "ext4_extent_status"),
    ("fuse_alloc_inode", "fuse_inode"),
    ("getname", "names_cache"),
    ("kernfs_new_node", "kernfs_node_cache"),
    ("mas_alloc_nodes", "maple_node"),
    ("prepare_creds", "cred_jar"),
    ("proc_alloc_inode", "proc_inode_cache"),
    ("shmem_alloc_inode", "shmem_inode_cache"),
    ("vm_area_alloc", "vm_area_struct"),
    ("xas_alloc", "radix_tree_node"),
];

/// Functions of the slab allocator itself.
const SLAB: [&str; 4] = ["new_slab", "allocate_slab", "___slab_alloc", "refill_objects"];

/// Events whose stack may follow, by CPU.
#[derive(Debug)]
pub(crate) struct Stacks<T> {
    pending: BTreeMap<u16, Vec<T>>,
}

impl<T> Default for Stacks<T> {
    fn default() -> Self {
        Self { pending: BTreeMap::new() }
    }
}

impl<T> Stacks<T> {
    /// Waits for the stack of an event. Returns the oldest event of the CPU that waits no longer.
    pub(crate) fn wait(&mut self, cpu: u16, event: T) -> Option<T> {
        let pending = self.pending.entry(cpu).or_default();
        pending.push(event);
        // Most events have no stack; a stack follows its event at once.
        (pending.len() > PENDING).then(|| pending.remove(0))
    }

    /// Returns the event that a stack on a CPU belongs to.
    pub(crate) fn take(&mut self, cpu: u16) -> Option<T> {
        self.pending.get_mut(&cpu)?.pop()
    }

    /// Returns the events that no stack came for.
    pub(crate) fn rest(&mut self) -> impl Iterator<Item = T> {
        std::mem::take(&mut self.pending).into_values().flatten()
    }
}

/// Reports whether a stack may follow an event that is kept as text.
pub(crate) fn has_stack(other: &Other) -> bool {
    matches!(&*other.name, "mm_compaction_try_to_compact_pages" | "mm_vmscan_direct_reclaim_begin")
}

/// Reports whether a stack may follow an event.
pub(crate) fn may_have_stack(what: &What) -> bool {
    match what {
        What::Extfrag(_) | What::Alloc { pfn: Some(_), .. } => true,
        What::Other(other) => has_stack(other),
        _ => false,
    }
}

/// Returns the functions of a stack, from the one that asked for memory on.
pub(crate) fn site(stack: &str) -> Vec<&str> {
    let plain = |name: &&str| !PASSING.iter().any(|start| name.starts_with(start));
    let all: Vec<&str> = stack.split(CALLED_BY).collect();
    let from = all.iter().position(plain).unwrap_or(0);
    all[from..].iter().copied().take(NAMED).collect()
}

/// Returns the functions of a site that were joined to a text; none where no stack came.
pub(super) fn functions(site: &str) -> Vec<String> {
    site.split(CALLED_BY).filter(|name| !name.is_empty()).map(str::to_owned).collect()
}

/// Returns the name of a process, or its number where the recording does not name it.
pub(super) fn process(names: &BTreeMap<u32, String>, pid: u32) -> String {
    names.get(&pid).cloned().unwrap_or_else(|| format!("pid {pid}"))
}

/// Returns the slab cache that a stack served; "slab" where its function is not known to serve only one.
pub(crate) fn slab(stack: &str) -> Option<&'static str> {
    let is_slab = |name: &str| SLAB.iter().any(|own| name.starts_with(own));
    if !stack.split(CALLED_BY).any(is_slab) {
        return None;
    }
    let functions = site(stack);
    let bare = |name: &str| {
        name.split('.').next().unwrap_or_default().trim_end_matches("_noprof").to_owned()
    };
    let cache = functions.first().and_then(|first| {
        let first = bare(first);
        CACHES.iter().find(|(function, _)| *function == first).map(|&(_, cache)| cache)
    });
    Some(cache.unwrap_or("slab"))
}
