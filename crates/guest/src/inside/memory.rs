//! Memory that a load asks the kernel for, and what the standard library has no function for. All `unsafe` of the crate
//! stands here.
#![allow(unsafe_code)]

use std::ffi::{CString, c_void};
use std::fs::File;
use std::io;
use std::os::fd::{AsRawFd, FromRawFd, OwnedFd};
use std::path::Path;
use std::ptr::null_mut;

use rustix::io_uring::{IoringRegisterOp, io_uring_params, io_uring_register, io_uring_setup};
use rustix::mm::{Advice, MapFlags, ProtFlags, madvise, mmap_anonymous, munmap};

/// The bytes of a page and of a huge page.
pub(crate) const PAGE: usize = 4096;
pub(crate) const HUGE: usize = 2 << 20;

/// Private anonymous memory that starts at a multiple of a huge page.
pub(crate) struct Mapping {
    map: *mut c_void,
    map_len: usize,
    /// The first byte that is aligned, within the map.
    start: *mut u8,
    len: usize,
}

impl Mapping {
    /// Maps memory. The kernel allocates each page when it is first touched.
    pub(crate) fn new(pages: usize) -> io::Result<Self> {
        let len = pages.max(1) * PAGE;
        let map_len = len + HUGE;
        let flags = MapFlags::PRIVATE | MapFlags::NORESERVE;
        // SAFETY: the kernel chooses an address that nothing else uses.
        let map = unsafe {
            mmap_anonymous(null_mut(), map_len, ProtFlags::READ | ProtFlags::WRITE, flags)
        }?;
        let start = map.cast::<u8>();
        // At most HUGE - 1, so that `len` bytes from there on are in the map.
        let start = start.wrapping_add(start.align_offset(HUGE));
        Ok(Self { map, map_len, start, len })
    }

    /// Returns the number of pages.
    pub(crate) fn pages(&self) -> usize {
        self.len / PAGE
    }

    fn at(&self, page: usize) -> *mut u8 {
        assert!(page < self.pages(), "page {page} of {}", self.pages());
        self.start.wrapping_add(page * PAGE)
    }

    /// Writes a byte of a page.
    pub(crate) fn touch(&mut self, page: usize) {
        // SAFETY: the address is in the map, which this value alone has; the write must happen though nobody reads it.
        unsafe { self.at(page).write_volatile(1) };
    }

    /// Reads a byte of a page.
    pub(crate) fn look(&self, page: usize) {
        // SAFETY: the address is in the map; what is read is a byte, and must be though nobody uses it.
        let _ = unsafe { self.at(page).read_volatile() };
    }

    /// Writes all bytes of some pages.
    pub(crate) fn fill(&mut self, page: usize, pages: usize) {
        assert!(page + pages <= self.pages());
        // SAFETY: all of it is in the map, which this value alone has.
        unsafe { self.at(page).write_bytes(1, pages * PAGE) };
    }

    /// Advises the kernel about some pages.
    fn advise(&self, page: usize, pages: usize, advice: Advice) -> io::Result<()> {
        assert!(page + pages <= self.pages());
        // SAFETY: all of it is in the map; no reference to its bytes exists, and none of them is relied on.
        Ok(unsafe { madvise(self.at(page).cast(), pages * PAGE, advice) }?)
    }

    /// Asks for huge pages (`MADV_HUGEPAGE`).
    pub(crate) fn want_huge(&self) -> io::Result<()> {
        self.advise(0, self.pages(), Advice::LinuxHugepage)
    }

    /// Asks for no huge pages (`MADV_NOHUGEPAGE`).
    pub(crate) fn want_small(&self) -> io::Result<()> {
        self.advise(0, self.pages(), Advice::LinuxNoHugepage)
    }

    /// Asks for no huge pages in a part.
    pub(crate) fn want_small_at(&self, page: usize, pages: usize) -> io::Result<()> {
        self.advise(page, pages, Advice::LinuxNoHugepage)
    }

    /// Makes small pages of the huge page that starts at a page, where they are: advice about a part of a huge page splits it
    /// (`madvise_cold_or_pageout_pte_range`, 5.4 and later).
    pub(crate) fn split(&self, page: usize) -> io::Result<()> {
        self.advise(page, 1, Advice::LinuxCold)
    }

    /// Returns the address of the first page.
    pub(crate) fn address(&self) -> u64 {
        self.start as u64
    }

    /// Writes the first bytes of a page.
    pub(crate) fn write(&mut self, page: usize, bytes: &[u8]) {
        assert!(bytes.len() <= PAGE);
        // SAFETY: at most a page's bytes, in the map, which this value alone has.
        unsafe { self.at(page).copy_from_nonoverlapping(bytes.as_ptr(), bytes.len()) };
    }

    /// Gives pages back; they are zeros when they are touched again.
    pub(crate) fn give_back(&self, page: usize, pages: usize) -> io::Result<()> {
        self.advise(page, pages, Advice::LinuxDontNeed)
    }

    /// Reports whether a page is there (`mincore`).
    pub(crate) fn is_there(&self, page: usize) -> io::Result<bool> {
        let mut there = 0_u8;
        // SAFETY: one page in the map, and one byte for it.
        match unsafe { libc::mincore(self.at(page).cast(), PAGE, &raw mut there) } {
            0 => Ok(there & 1 == 1),
            _ => Err(io::Error::last_os_error()),
        }
    }
}

impl Drop for Mapping {
    fn drop(&mut self) {
        // SAFETY: nothing else has an address of this map. A failure leaves it mapped.
        let _ = unsafe { munmap(self.map, self.map_len) };
    }
}

/// Pages that stay where they are, as buffers of an `io_uring` (5.1 and later), until this goes.
pub(crate) struct Pins {
    _ring: OwnedFd,
}

impl Pins {
    /// Pins pages of a mapping.
    pub(crate) fn new(map: &Mapping, pages: &[usize]) -> io::Result<Self> {
        let buffer = |&page: &usize| libc::iovec { iov_base: map.at(page).cast(), iov_len: PAGE };
        let buffers: Vec<libc::iovec> = pages.iter().map(buffer).collect();
        let mut parameters = io_uring_params::default();
        // SAFETY: the parameters are all zeros, which asks for nothing but a ring; no memory of it is mapped.
        let ring = unsafe { io_uring_setup(1, &mut parameters) }?;
        let (first, count) = (buffers.as_ptr().cast(), buffers.len() as u32);
        // SAFETY: the buffers are whole pages of the map, and no request ever reads or writes them. The kernel holds the
        // pages themselves: they may be unmapped while it does.
        unsafe { io_uring_register(&ring, IoringRegisterOp::RegisterBuffers, first, count) }?;
        Ok(Self { _ring: ring })
    }
}

/// Swaps to a device or file that has the header of swap.
pub(crate) fn swap_on(path: &Path) -> io::Result<()> {
    let name = CString::new(path.as_os_str().as_encoded_bytes())?;
    // SAFETY: a string with a zero at its end, which the kernel copies.
    match unsafe { libc::swapon(name.as_ptr(), 0) } {
        0 => Ok(()),
        _ => Err(io::Error::last_os_error()),
    }
}

/// Asks the kernel to page out memory of another process (`process_madvise`).
pub(crate) fn page_out(process: &OwnedFd, address: u64, bytes: u64) -> io::Result<()> {
    let range = libc::iovec { iov_base: address as *mut c_void, iov_len: bytes as usize };
    // SAFETY: the range is of another process and is not read here; paging out changes no content.
    let done = unsafe {
        libc::syscall(
            libc::SYS_process_madvise,
            process.as_raw_fd(),
            &raw const range,
            1_usize,
            libc::MADV_PAGEOUT,
            0_u32,
        )
    };
    if done < 0 { Err(io::Error::last_os_error()) } else { Ok(()) }
}

/// The request of a buffer from a heap of DMA-BUF (`struct dma_heap_allocation_data`).
#[repr(C)]
struct DmaHeapRequest {
    len: u64,
    fd: u32,
    fd_flags: u32,
    heap_flags: u64,
}

/// Takes a buffer from the system's heap of DMA-BUF.
pub(crate) fn dma_buffer(bytes: u64) -> io::Result<OwnedFd> {
    // `_IOWR('H', 0, struct dma_heap_allocation_data)`.
    const ALLOCATE: libc::Ioctl = 0xc018_4800_u32 as libc::Ioctl;
    let heap = File::options().read(true).write(true).open("/dev/dma_heap/system")?;
    let flags = (libc::O_RDWR | libc::O_CLOEXEC) as u32;
    let mut request = DmaHeapRequest { len: bytes, fd: 0, fd_flags: flags, heap_flags: 0 };
    // SAFETY: the kernel reads and writes the request, which lives until it returns.
    if unsafe { libc::ioctl(heap.as_raw_fd(), ALLOCATE, &raw mut request) } < 0 {
        return Err(io::Error::last_os_error());
    }
    // SAFETY: the kernel opened it for this process, and nothing else knows it.
    Ok(unsafe { OwnedFd::from_raw_fd(request.fd as i32) })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn pages_are_there_once_they_are_touched() {
        let mut mapping = Mapping::new(2000).unwrap();
        mapping.want_small().unwrap();
        assert_eq!(mapping.start.align_offset(HUGE), 0);
        assert!(!mapping.is_there(1999).unwrap());
        mapping.touch(1999);
        mapping.fill(10, 3);
        assert!(mapping.is_there(1999).unwrap() && mapping.is_there(12).unwrap());
        assert!(!mapping.is_there(13).unwrap());
        mapping.write(20, b"abc");
        mapping.give_back(11, 1).unwrap();
        assert!(!mapping.is_there(11).unwrap() && mapping.is_there(20).unwrap());
    }
}
