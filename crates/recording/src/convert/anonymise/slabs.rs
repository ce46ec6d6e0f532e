//! Names of slab caches: the kernel's own stay, those that a driver, a container or a task gave get a number.

use std::collections::BTreeMap;

/// The beginnings of names of caches that the kernel itself makes: of allocations by size, of the subsystems of every machine,
/// and of file systems.
const KERNEL: [&str; 47] = [
    "Acpi-",
    "anon_vma",
    "bio",
    "blkdev_",
    "btrfs_",
    "buffer_head",
    "dentry",
    "dma-kmalloc-",
    "dmaengine-",
    "dquot",
    "ep_head",
    "erofs_",
    "eventpoll_",
    "ext4_",
    "f2fs_",
    "fanotify_",
    "file_l",
    "files_cache",
    "filp",
    "fs_cache",
    "fscrypt_",
    "fuse_",
    "inode_cache",
    "jbd2_",
    "kernfs_",
    "kmalloc-",
    "kmem_cache",
    "maple_node",
    "memdup_user-",
    "mm_",
    "mnt_cache",
    "msg_msg-",
    "names_cache",
    "nfs_",
    "ovl_inode",
    "pid",
    "proc_",
    "radix_tree_node",
    "shmem_inode_cache",
    "sig",
    "skbuff_",
    "sock_inode_cache",
    "task_struct",
    "thread_stack",
    "vm_area_struct",
    "vmap_area",
    "xfs_",
];

/// Replaces the names of caches in a `slabinfo`.
pub(super) fn anonymous(slabinfo: &str) -> String {
    let mut names = BTreeMap::new();
    let mut line = |line: &str| {
        // The two lines of headings.
        let Some((name, rest)) = line.split_once(' ').filter(|_| !line.starts_with(['#', ' ']))
        else {
            return heading(line).map_or(String::new(), |line| format!("{line}\n"));
        };
        // Old kernels write a memory cgroup in parentheses after a cache's name.
        let name = name.split('(').next().unwrap_or_default();
        let rest = rest.rsplit_once(')').map_or(rest, |(_, rest)| rest.trim_start());
        if is_kernels(name) {
            return format!("{name} {rest}\n");
        }
        let next = names.len() + 1;
        format!("cache-{} {rest}\n", names.entry(name.to_owned()).or_insert(next))
    };
    slabinfo.lines().map(&mut line).collect()
}

/// Returns a line of the headings, as the kernel prints them; `None` for any other comment.
fn heading(line: &str) -> Option<&str> {
    ["slabinfo - version", "# name "].iter().any(|start| line.starts_with(start)).then_some(line)
}

fn is_kernels(name: &str) -> bool {
    // The first line of all.
    let plain = name.bytes().all(|b| b.is_ascii_alphanumeric() || matches!(b, b'_' | b'-'));
    plain && (name == "slabinfo" || KERNEL.iter().any(|start| name.starts_with(start)))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn caches_of_containers_and_drivers_go() {
        assert_eq!(
            anonymous(
                "slabinfo - version: 2.1\n# name            <active_objs>\n\
                 dentry(12:docker-3f) 1 2\ninode_cache 3 4\nalice_driver  5 6\n\
                 nf_conntrack_ffff88 7\nalice_driver 8\ndentry(13:bob the (b) 9) 10 11\n# by carol\n"
            ),
            "slabinfo - version: 2.1\n# name            <active_objs>\n\
             dentry 1 2\ninode_cache 3 4\ncache-1  5 6\n\
             cache-2 7\ncache-1 8\ndentry 10 11\n"
        );
    }
}
