//! The stack below a report: who asked for the memory, and what that means.

use std::sync::LazyLock;

use regex_lite::Regex;
use serde::Serialize;

/// A line of a stack has a function, its offset and size, and its module.
static FRAME: LazyLock<Regex> = LazyLock::new(|| {
    Regex::new(r"(\? ?)?\(?([A-Za-z_][\w.]*)\+0x[0-9a-f]+/0x[0-9a-f]+(?: \[([\w-]+)[^\]]*\])?")
        .expect("the pattern is valid")
});

/// The beginnings of the names of functions that hand a request on to the allocator, or report that it failed.
const ALLOCATORS: [&str; 65] = [
    "dump_",
    "show_",
    "warn_alloc",
    "unwind_",
    "walk_stack",
    "out_of_memory",
    "__out_of_memory",
    "oom_",
    "__alloc_pages",
    "alloc_pages",
    "__alloc_frozen",
    "alloc_frozen",
    "__folio_alloc",
    "folio_alloc_noprof",
    "folio_alloc_mpol",
    "vma_alloc",
    "alloc_page",
    "__alloc_page",
    "__get_free_pages",
    "get_free_pages",
    "get_zeroed_page",
    "get_page_from",
    "__get_dma_pages",
    "kmalloc",
    "__kmalloc",
    "__do_kmalloc",
    "___kmalloc",
    "kmem_",
    "__kmem_",
    "new_slab",
    "___slab_alloc",
    "__slab_alloc",
    "allocate_slab",
    "slab_alloc",
    "alloc_slab",
    "__new_slab",
    "refill_",
    "cache_grow",
    "cache_alloc",
    "____cache_alloc",
    "__cache_alloc",
    "fallback_alloc",
    "kzalloc",
    "kcalloc",
    "krealloc",
    "kvmalloc",
    "__kvmalloc",
    "kvzalloc",
    "vmalloc",
    "__vmalloc",
    "vzalloc",
    "page_frag",
    "__page_frag",
    "dma_alloc",
    "__dma_alloc",
    "dma_direct",
    "dma_generic",
    "__dma_direct",
    "x86_swiotlb",
    "virtballoon_oom",
    "swiotlb_alloc",
    "iommu_dma_alloc",
    "mem_cgroup",
    "try_charge",
    "obj_cgroup",
];
/// Further ones, whole: a longer name is another function.
const WHOLE: [&str; 12] = [
    "rmqueue",
    "folio_alloc",
    "rcu_core",
    "charge_memcg",
    "__mem_cgroup_charge",
    "__memcg_kmem_charge",
    "pagefault_out_of_memory",
    "filemap_alloc_folio",
    "page_cache_alloc",
    "__page_cache_alloc",
    "policy_alloc_pages",
    "ret_from_fork",
];
/// The frames from the caller on that may tell what it is for.
const FRAMES: usize = 12;
/// Parts of the names of functions below which the stack is that of what was interrupted.
const INTERRUPTS: [&str; 6] =
    ["irq_exit", "do_softirq", "_interrupt", "ret_from_intr", "irq_svc", "el1_irq"];

/// The function that asked for memory, outside of the allocator.
#[derive(Clone, PartialEq, Eq, Debug, Serialize)]
pub struct Caller {
    /// The function.
    pub function: String,
    /// Its module.
    pub module: Option<String>,
    /// What the request was for, if the stack tells.
    pub purpose: Option<Purpose>,
}

/// What a request was for.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Purpose {
    /// A buffer for received or sent packets.
    Packet,
    /// A transfer of USB.
    Usb,
    /// A huge page of a process, which gets small ones instead.
    HugePage,
    /// A buffer of a graphics driver.
    Graphics,
    /// To write a page to swap, which is to free it.
    SwapOut,
    /// A new task.
    Fork,
    /// The code of a module or of a BPF program.
    Module,
    /// Memory of a process on a machine without an MMU, in one block.
    NoMmu,
}

/// Parts of the names of functions that tell what a request is for; where one has several, the first counts.
const PURPOSES: [(Purpose, &[&str]); 8] = [
    (Purpose::Module, &["module_alloc", "bpf_jit_binary", "execmem_alloc"]),
    (Purpose::NoMmu, &["do_mmap_private", "load_flat_", "ramfs_nommu"]),
    (
        Purpose::HugePage,
        &[
            "huge_pmd_anonymous",
            "anonymous_huge",
            "khugepaged",
            "alloc_anon_folio",
            "shmem_alloc_hugefolio",
        ],
    ),
    (
        Purpose::Graphics,
        &["ttm_", "i915_gem", "amdgpu_bo", "nvkms_", "drm_gem", "nv_alloc", "os_alloc_mem"],
    ),
    (
        Purpose::SwapOut,
        &["folio_alloc_swap", "add_to_swap", "swap_writepage", "zswap_store", "get_swap_page"],
    ),
    (
        Purpose::Packet,
        &["_skb", "skb_", "napi_", "netdev_", "netif_", "sk_prot_alloc", "tcp_", "inet_"],
    ),
    (Purpose::Usb, &["usb_", "_urb", "urb_", "xhci_", "ehci_", "dwc2_"]),
    (Purpose::Fork, &["copy_process", "dup_task_struct", "alloc_thread_stack", "kernel_clone"]),
];

impl Caller {
    /// Finds it in the lines of a report above the state of memory.
    pub(in crate::log) fn find<'l>(lines: impl Iterator<Item = &'l str>) -> Option<Self> {
        let lines: Vec<&str> = lines.collect();
        // `? name` is a leftover on the stack; a kernel without frame pointers marks all frames so.
        Self::of(&lines, false).or_else(|| Self::of(&lines, true))
    }

    fn of(lines: &[&str], takes_uncertain: bool) -> Option<Self> {
        let mut found: Option<Self> = None;
        // Mail wraps such lines in the middle of a name.
        let has_addresses = lines.iter().any(|line| line.contains("[<"));
        let mut left = FRAMES;
        for line in lines.iter().filter(|line| !has_addresses || line.contains("[<")) {
            // A search for a text costs a tenth of a pattern.
            let Some(frame) = line.contains("+0x").then(|| FRAME.captures(line)).flatten() else {
                // What was interrupted did not ask.
                if line.contains("</IRQ>") && found.is_some() { break } else { continue }
            };
            let is_uncertain = frame.get(1).is_some() && !takes_uncertain;
            // The line that says where the CPU was is no frame.
            if is_uncertain || line.contains("IP:") || line.contains("WARNING:") {
                continue;
            }
            let name = frame[2].split('.').next().unwrap_or_default();
            if found.is_none() && !is_allocator(name) {
                let module = frame.get(3).map(|module| module.as_str().to_owned());
                found = Some(Self { function: name.to_owned(), module, purpose: None });
            }
            let of_name =
                |(_, parts): &&(Purpose, &[&str])| parts.iter().any(|part| name.contains(part));
            if let Some((purpose, _)) = PURPOSES.iter().find(of_name) {
                return found.map(|caller| Self { purpose: Some(*purpose), ..caller });
            }
            left -= usize::from(found.is_some());
            if left == 0 || INTERRUPTS.iter().any(|part| name.contains(part)) {
                break;
            }
        }
        found
    }
}

fn is_allocator(name: &str) -> bool {
    ALLOCATORS.iter().any(|start| name.starts_with(start)) || WHOLE.contains(&name)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn who_asked_is_the_first_function_outside_of_the_allocator() {
        for (stack, function, module, purpose) in [
            (
                " [<ffffffffaf179262>] dump_stack+0x19/0x1b\n [<ffffffffaebc6ef8>] page_frag_alloc+0x158/0x170\n \
                 [<ffffffffaf03c01d>] __napi_alloc_skb+0x8d/0xe0",
                "__napi_alloc_skb",
                None,
                Some(Purpose::Packet),
            ),
            (
                " dump_stack_lvl+0x76/0xa0\n warn_alloc+0x174/0x1f0\n ? foo+0x1/0x2\n __alloc_pages_slowpath.constprop.0+0x1/0x2\n \
                 ttm_pool_alloc+0x1b4/0x5c0 [ttm]",
                "ttm_pool_alloc",
                Some("ttm"),
                Some(Purpose::Graphics),
            ),
            (
                "[<c01b1904>] (warn_alloc) from [<c01de158>] (__vmalloc_node_range+0x228/0x234)\n\
                 [<c01de158>] (__vmalloc_node_range) from [<c010c0b8>] (module_alloc+0x4c/0x54)\n\
                 [<c010c0b8>] (module_alloc) from [<c0190814>] (load_module+0x9e8/0x2100)",
                "module_alloc",
                None,
                Some(Purpose::Module),
            ),
            (
                "WARNING: CPU: 3 PID: 1 at mm/page_alloc.c:4724 __alloc_pages_nodemask+0x1ee/0x320\n\
                 RIP: 0010:__alloc_pages_nodemask+0x1ee/0x320\n kmalloc_large_node+0x3d/0x80\n \
                 char_sgdma_map+0x74/0x1e0 [xdma]",
                "char_sgdma_map",
                Some("xdma"),
                None,
            ),
            (
                " __alloc_frozen_pages_noprof+0x23b/0x320\n isolate_lock_cluster+0x13d/0x200\n \
                 folio_alloc_swap+0x237/0x440\n shrink_folio_list+0x753/0x15d0",
                "isolate_lock_cluster",
                None,
                Some(Purpose::SwapOut),
            ),
        ] {
            let caller =
                Caller { function: function.into(), module: module.map(str::to_owned), purpose };
            assert_eq!(Caller::find(stack.lines()), Some(caller));
        }
        let unsure =
            "[<b2129134>] ? dump_stack+0x5c/0x78\n[<b1f804aa>] ? filemap_fault+0x21a/0x3e0";
        let caller = Caller::find(unsure.lines()).unwrap();
        assert_eq!(caller.function, "filemap_fault");
        let interrupted = " dump_stack+0x1/0x2\n __kmalloc+0x1/0x2\n foo_irq+0x1/0x2 [foo]\n __do_softirq+0x1/0x2\n \
                           do_huge_pmd_anonymous_page+0x1/0x2";
        let caller = Caller::find(interrupted.lines()).unwrap();
        assert_eq!((caller.function.as_str(), caller.purpose), ("foo_irq", None));
        let wrapped = "[<8010ff30>] (unwind_backtrace) from [<8010c174>] (sh\now_stack+0x20/0x24)";
        assert_eq!(Caller::find(wrapped.lines()), None);
        assert_eq!(Caller::find("Call Trace:\n warn_alloc+0x1/0x2".lines()), None);
    }
}
