//! A memfd, mapped.

use std::fs::File;
use std::io;
use std::os::unix::fs::FileExt;
use std::ptr::{NonNull, null_mut};

use rustix::fs::{MemfdFlags, memfd_create};
use rustix::mm::{MapFlags, ProtFlags, mmap, munmap};

const HUGE: MemfdFlags = MemfdFlags::HUGETLB.union(MemfdFlags::HUGE_2MB);

/// Memory that can be mapped by whoever has the file.
pub(crate) struct Memory {
    file: File,
    start: NonNull<u8>,
    len: usize,
}

// SAFETY: a mapping belongs to the process, and the methods give out nothing but addresses.
unsafe impl Send for Memory {}
// SAFETY: as above.
unsafe impl Sync for Memory {}

impl Memory {
    /// So many bytes in huge pages of 2 MiB; in small ones, and it says so, where the system has not
    /// enough of them (`vm.nr_hugepages`).
    pub(crate) fn new(len: usize) -> io::Result<Self> {
        Self::map(len, HUGE).inspect(|_| println!("the pool is in huge pages")).or_else(|error| {
            println!("the pool is in small pages, as huge ones cannot be had: {error}");
            Self::map(len, MemfdFlags::empty())
        })
    }

    fn map(len: usize, flags: MemfdFlags) -> io::Result<Self> {
        let file = File::from(memfd_create("pageblock-pool", flags | MemfdFlags::CLOEXEC)?);
        file.set_len(len as u64)?;
        let access = ProtFlags::READ | ProtFlags::WRITE;
        // SAFETY: a new mapping, at an address that the kernel chooses. Huge pages are set aside for it
        // here, so that using it cannot fail later.
        let start = unsafe { mmap(null_mut(), len, access, MapFlags::SHARED, &file, 0)? };
        let start = NonNull::new(start.cast()).ok_or(io::ErrorKind::OutOfMemory)?;
        Ok(Self { file, start, len })
    }

    /// Reads from the file, as another process that has it would.
    pub(crate) fn read(&self, at: u64, into: &mut [u8]) -> io::Result<()> {
        self.file.read_exact_at(into, at)
    }

    /// The address of the first byte.
    pub(crate) fn start(&self) -> NonNull<u8> {
        self.start
    }
}

impl Drop for Memory {
    fn drop(&mut self) {
        // SAFETY: the mapping of `map`, which nobody borrows any more. It can only fail for an invalid
        // range.
        let _ = unsafe { munmap(self.start.as_ptr().cast(), self.len) };
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn memory_is_in_huge_pages_where_the_system_has_some() {
        let meminfo = std::fs::read_to_string("/proc/meminfo").unwrap();
        let free = meminfo.lines().find_map(|line| line.strip_prefix("HugePages_Free:"));
        // The pool's own test may have half of them meanwhile.
        if free.and_then(|n| n.trim().parse().ok()).unwrap_or(0) < 64u64 {
            eprintln!("skipped: fewer than 64 huge pages are free (vm.nr_hugepages)");
            return;
        }
        let memory = Memory::map(4 << 20, HUGE).unwrap();
        // SAFETY: the mapping's own bytes, which nobody borrows.
        unsafe { memory.start().add(3 << 20).write(7) };
        let mut read = [0; 2];
        memory.read(3 << 20, &mut read).unwrap();
        assert_eq!(read, [7, 0]);
    }
}
