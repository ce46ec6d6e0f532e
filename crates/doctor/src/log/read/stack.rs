//! The stack below a report: the caller that asked for memory, and its purpose.

use std::sync::LazyLock;

use regex::Regex;
use serde::Serialize;

/// A line of a stack has a function, its offset and size, and its module.
static FRAME: LazyLock<Regex> = LazyLock::new(|| {
    Regex::new(r"(\? ?)?\(?(?::([\w-]+):)?([A-Za-z_][\w.]*)\+0x[0-9a-f]+/0x[0-9a-f]+(?: \[([\w-]+)[^\]]*\])?")
        .expect("the pattern is valid")
});

/// Prefixes of the names of functions that pass a request on to the allocator, or report that it failed.
const ALLOCATORS: [&str; 77] = [
    "__pfx_",
    "dump_",
    "panic",
    "show_",
    "warn_",
    "__warn",
    "unwind_",
    "walk_stack",
    "out_of_memory",
    "check_panic_on_oom",
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
    "alloc_kmem_pages",
    "slob_",
    "spl_kmem",
    "spl_vmem",
    "spl_kvmalloc",
    "kasan_",
    "__kasan",
    "__asan",
    "mem_cgroup",
    "try_charge",
    "obj_cgroup",
];
/// More of these functions, by their full names: a longer name is another function.
const WHOLE: [&str; 22] = [
    "do_page_fault",
    "__do_page_fault",
    "mm_fault_error",
    "exit_to_usermode_loop",
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
    // The stack of a waiting task, mixed with the lines of a requesting one.
    "schedule",
    "__schedule",
    "schedule_timeout",
    "kthread",
    "worker_thread",
    "process_one_work",
];
/// The number of frames, from the caller on, that may tell the purpose.
const FRAMES: usize = 12;
/// Parts of the names of functions below which the stack is that of what was interrupted.
const INTERRUPTS: [&str; 6] =
    ["irq_exit", "do_softirq", "_interrupt", "ret_from_intr", "irq_svc", "el1_irq"];

/// Prefixes of the names of functions of an idle CPU, which requests nothing.
const IDLE: [&str; 6] =
    ["cpuidle_", "cpu_idle", "do_idle", "default_idle", "cpu_startup_entry", "start_secondary"];

/// The function outside the allocator that requested memory.
#[derive(Clone, PartialEq, Eq, Debug, Serialize)]
pub struct Caller {
    /// The function.
    pub function: String,
    /// Its module.
    pub module: Option<String>,
    /// The purpose of the request, if the stack tells it.
    pub purpose: Option<Purpose>,
}

/// The purpose of a request.
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
    /// Writing a page to swap in order to free it.
    SwapOut,
    /// A new task.
    Fork,
    /// The code of a module or of a BPF program.
    Module,
    /// The kernel's pool for DMA of drivers that cannot wait.
    DmaPool,
    /// Memory of a process on a machine without an MMU, in one block.
    NoMmu,
}

/// Parts of names of functions that tell the purpose of a request. If a name has several, the first counts.
const PURPOSES: [(Purpose, &[&str]); 9] = [
    (Purpose::DmaPool, &["atomic_pool_expand", "dma_atomic_pool"]),
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
        &[
            "folio_alloc_swap",
            "isolate_lock_cluster",
            "cluster_alloc_swap",
            "add_to_swap",
            "swap_writepage",
            "zswap_store",
            "get_swap_page",
        ],
    ),
    (
        Purpose::Packet,
        &[
            "_skb",
            "skb_",
            "napi_",
            "net_rx_action",
            "netdev_",
            "netif_",
            "sk_prot_alloc",
            "tcp_",
            "inet_",
        ],
    ),
    (Purpose::Usb, &["usb_", "_urb", "urb_", "xhci_", "ehci_", "dwc2_"]),
    (Purpose::Fork, &["copy_process", "dup_task_struct", "alloc_thread_stack", "kernel_clone"]),
];

impl Caller {
    /// Returns the caller of a request for a single page.
    pub(in crate::log) fn of_single(self) -> Self {
        let purpose = self.purpose.filter(|purpose| *purpose != Purpose::HugePage);
        Self { purpose, ..self }
    }

    /// Returns a task that loads a module, whose stack is not known.
    pub(in crate::log) fn module(task: impl Into<String>) -> Self {
        Self { function: task.into(), module: None, purpose: Some(Purpose::Module) }
    }

    /// Finds the caller in the lines of a report above the state of memory.
    pub(in crate::log) fn find<'l>(lines: impl Iterator<Item = &'l str>) -> Option<Self> {
        let frames = frames(lines);
        // `? name` is a leftover on the stack; a kernel without frame pointers marks all frames so. Its module, and what
        // it is for, may tell more than its name.
        let is_sure = |frame: &&Frame<'_>| !frame.is_leftover;
        let sure = Self::of(frames.iter().filter(is_sure), false);
        let has_sure = frames.iter().any(|frame| !frame.is_leftover);
        sure.or_else(|| {
            let all = Self::of(frames.iter(), true)?;
            if all.purpose.is_some() || all.module.is_some() {
                return Some(all);
            }
            let of_module = frames.iter().filter(|frame| frame.module.is_some());
            let of_module = Self::of(of_module.take(FRAMES), true);
            if has_sure { None } else { of_module.or(Some(all)) }
        })
    }

    /// Finds the caller in frames. Among leftovers it is the one that tells the purpose of the request.
    fn of<'f>(frames: impl Iterator<Item = &'f Frame<'f>>, has_leftovers: bool) -> Option<Self> {
        let mut found: Option<Self> = None;
        let mut left = FRAMES;
        for Frame { name, module, .. } in frames {
            if IDLE.iter().any(|start| name.starts_with(start)) {
                break;
            }
            if found.is_none() && !is_allocator(name) {
                found = Some(Self::new(name, *module));
            }
            let of_name =
                |(_, parts): &&(Purpose, &[&str])| parts.iter().any(|part| name.contains(part));
            if let Some((purpose, _)) = PURPOSES.iter().find(of_name) {
                let named =
                    found.map(|first| if has_leftovers { Self::new(name, *module) } else { first });
                return named.map(|caller| Self { purpose: Some(*purpose), ..caller });
            }
            left -= usize::from(found.is_some());
            if left == 0 || INTERRUPTS.iter().any(|part| name.contains(part)) {
                break;
            }
        }
        found
    }

    /// Returns the first function of a line.
    pub(in crate::log) fn of_line(line: &str) -> Option<Self> {
        frames(std::iter::once(line)).first().map(|frame| Self::new(frame.name, frame.module))
    }

    fn new(name: &str, module: Option<&str>) -> Self {
        Self { function: name.to_owned(), module: module.map(str::to_owned), purpose: None }
    }
}

/// A function of a stack.
struct Frame<'l> {
    name: &'l str,
    module: Option<&'l str>,
    is_leftover: bool,
}

/// Returns the functions of a stack down to the interrupted ones, which did not request memory.
fn frames<'l>(lines: impl Iterator<Item = &'l str>) -> Vec<Frame<'l>> {
    let lines: Vec<&str> = lines.collect();
    // Mail wraps such lines in the middle of a name.
    let has_addresses = lines.iter().any(|line| line.contains("[<"));
    let mut frames: Vec<Frame<'_>> = Vec::new();
    for line in lines.into_iter().filter(|line| !has_addresses || line.contains("[<")) {
        // The line with the CPU's position is no frame.
        let places = ["IP:", "WARNING:", "pc :", "lr :", "NIP [", "LR ["];
        let is_place = places.iter().any(|place| line.contains(place));
        // A search for a text costs a tenth of a pattern.
        if !is_place && line.contains("+0x") {
            // ARM prints a function and its caller.
            for found in FRAME.captures_iter(line) {
                let Some(name) = found.get(3) else { continue };
                let name = name.as_str().split('.').next().unwrap_or_default();
                let is_leftover = found.get(1).is_some();
                // Up to 2.6.2x a module stands before its function.
                let module = found.get(4).or(found.get(2)).map(|module| module.as_str());
                match frames.last_mut().filter(|last| last.name == name) {
                    Some(last) => last.is_leftover &= is_leftover,
                    None => frames.push(Frame { name, module, is_leftover }),
                }
            }
        } else if line.contains("</IRQ>")
            && frames.iter().any(|frame| !frame.is_leftover && !is_allocator(frame.name))
        {
            break;
        }
    }
    frames
}

fn is_allocator(name: &str) -> bool {
    ALLOCATORS.iter().any(|start| name.starts_with(start)) || WHOLE.contains(&name)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Checks rows `function module purpose |lines of a stack, parted by ;`.
    #[track_caller]
    fn found(rows: &str) {
        for (told, stack) in rows.trim().lines().filter_map(|row| row.split_once(" |")) {
            let seen = Caller::find(stack.split(';')).map_or("-".to_owned(), |of| {
                let purpose = of.purpose.map_or("-".to_owned(), |purpose| format!("{purpose:?}"));
                format!("{} {} {purpose}", of.function, of.module.as_deref().unwrap_or("-"))
            });
            assert_eq!(seen, told, "{stack}");
        }
    }

    #[test]
    fn who_asked_is_the_first_function_outside_of_the_allocator() {
        found(
            r#"
alloc_hashtable ip_conntrack - | [<ffffffff8023def3>] __get_free_pages+0x33/0x69; [<ffffffff884a9aa0>] :ip_conntrack:alloc_hashtable+0x33/0x7a
__napi_alloc_skb - Packet | [<ffffffffaf179262>] dump_stack+0x19/0x1b; [<ffffffffaebc6ef8>] page_frag_alloc+0x158/0x170; [<ffffffffaf03c01d>] __napi_alloc_skb+0x8d/0xe0
ttm_pool_alloc ttm Graphics | dump_stack_lvl+0x76/0xa0; warn_alloc+0x174/0x1f0; ? foo+0x1/0x2; __alloc_pages_slowpath.constprop.0+0x1/0x2; ttm_pool_alloc+0x1b4/0x5c0 [ttm]
module_alloc - Module |[<c01b1904>] (warn_alloc) from [<c01de158>] (__vmalloc_node_range+0x228/0x234);[<c01de158>] (__vmalloc_node_range) from [<c010c0b8>] (module_alloc+0x4c/0x54);[<c010c0b8>] (module_alloc) from [<c0190814>] (load_module+0x9e8/0x2100)
char_sgdma_map xdma - |WARNING: CPU: 3 PID: 1 at mm/page_alloc.c:4724 __alloc_pages_nodemask+0x1ee/0x320;RIP: 0010:__alloc_pages_nodemask+0x1ee/0x320; kmalloc_large_node+0x3d/0x80; char_sgdma_map+0x74/0x1e0 [xdma]
isolate_lock_cluster - SwapOut | __alloc_frozen_pages_noprof+0x23b/0x320; isolate_lock_cluster+0x13d/0x200; folio_alloc_swap+0x237/0x440; shrink_folio_list+0x753/0x15d0
filemap_fault - - |[<b2129134>] ? dump_stack+0x5c/0x78;[<b1f804aa>] ? filemap_fault+0x21a/0x3e0
foo_irq foo - | dump_stack+0x1/0x2; __kmalloc+0x1/0x2; foo_irq+0x1/0x2 [foo]; __do_softirq+0x1/0x2; do_huge_pmd_anonymous_page+0x1/0x2
RingInit wifi - |[<c008d9e0>] (warn_alloc_failed+0xf8/0x124) from [<c008fce8>] (__alloc_pages_nodemask+0x640/0x728);[<c008fce8>] (__alloc_pages_nodemask+0x640/0x728) from [<bf50>] (RingInit.isra.2+0x40/0x5c [wifi])
- |[<8010ff30>] (unwind_backtrace) from [<8010c174>] (sh;ow_stack+0x20/0x24)
- |Call Trace:; warn_alloc+0x1/0x2
"#,
        );
    }

    #[test]
    fn leftovers_are_named_only_where_they_tell_what_a_request_is_for() {
        found(
            r#"
- | warn_alloc+0x1/0x2; ? drain_pages+0x1/0x2; ? memset+0x1/0x2
xt_alloc - - | vmalloc+0x1/0x2; ? xt_alloc+0x1/0x2; xt_alloc+0x1/0x2; translate+0x1/0x2
__netif_receive_skb - Packet | warn_alloc+0x1/0x2; ? __netif_receive_skb+0x1/0x2
i915_gem_shrink i915 Graphics | ? warn_alloc+0x1/0x2; ? timer_forward+0x1/0x2; ? i915_gem_shrink+0x1/0x2 [i915]
try_fill_recv virtio_net - | ? warn_alloc_failed+0x1/0x2; ? ip_local+0x1/0x2; ? try_fill_recv+0x1/0x2 [virtio_net]
"#,
        );
    }
}
