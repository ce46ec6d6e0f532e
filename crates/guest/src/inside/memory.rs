//! Memory that a load asks the kernel for, and what the standard library has no function for. All `unsafe` of the crate
//! stands here.
#![allow(unsafe_code)]

use std::ffi::{CString, c_void};
use std::io;
use std::path::Path;
use std::ptr::null_mut;

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
    /// Asks for pages, none of which is there before it is touched.
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

/// Swaps to a device or file that has the header of swap.
pub(crate) fn swap_on(path: &Path) -> io::Result<()> {
    let name = CString::new(path.as_os_str().as_encoded_bytes())?;
    // SAFETY: a string with a zero at its end, which the kernel copies.
    match unsafe { libc::swapon(name.as_ptr(), 0) } {
        0 => Ok(()),
        _ => Err(io::Error::last_os_error()),
    }
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
    }
}
