//! A memfd, mapped.

use std::fs::File;
use std::io;
use std::os::unix::fs::FileExt;
use std::ptr::{NonNull, null_mut};

use rustix::fs::{MemfdFlags, memfd_create};
use rustix::mm::{MapFlags, ProtFlags, mmap, munmap};

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
        let huge = MemfdFlags::HUGETLB | MemfdFlags::HUGE_2MB;
        Self::map(len, huge).inspect(|_| println!("the pool is in huge pages")).or_else(|error| {
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
        // SAFETY: the mapping of `map`, of which nobody borrows any more. It can only fail for a range that
        // is none.
        let _ = unsafe { munmap(self.start.as_ptr().cast(), self.len) };
    }
}
