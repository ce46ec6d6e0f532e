//! Memory of virtual machines (crate `vm-memory` of rust-vmm) out of one mapping that all of them share: in gigabytes
//! where those are free, else in smaller blocks down to 2 MiB, each a region of the guest.
//!
//! A guest gives pages of 2 MiB back while it runs ([`Host::deflate`]), as a balloon does: the gigabyte around
//! such a page is split in place.

extern crate std;

use std::mem::MaybeUninit;
use std::sync::Arc;
use std::vec;
use std::vec::Vec;

use pageblock::alloc::AllocError;
use pageblock::contig::ContigError;
use pageblock::policy::Policy;
use pageblock::prelude::{Allocator, CpuId, FrameRange, OneZone, Order, Pfn, Request};
use pageblock::zone::{FrameError, Geometry};
use rustix::mm::{Advice, madvise};
use vm_memory::mmap::{FromRangesError, MmapRegion, MmapRegionError};
use vm_memory::{GuestAddress, GuestMemoryMmap, GuestRegionMmap};

/// The base-2 logarithm of the bytes of a frame: 2 MiB.
pub const FRAME_SHIFT: u8 = 21;
/// The order of a gigabyte.
pub const GIGABYTE: Order = 9;
/// The most blocks of a guest when it starts.
const MOST_BLOCKS: usize = 4096;

/// Why a guest gets no memory, or cannot give it back.
#[derive(Debug)]
pub enum Error {
    /// The size is 0, or no multiple of 2 MiB.
    Size(u64),
    /// So much memory is not free, or it is in too many pieces.
    Memory(ContigError),
    /// The allocator does not know the block.
    Frame(FrameError),
    /// The address is not that of a page of the guest.
    Address(GuestAddress),
    /// The mapping cannot be used.
    Region(MmapRegionError),
    /// The regions do not form a guest's memory.
    Guest(FromRangesError),
    /// The system does not take the pages back.
    System(std::io::Error),
}

impl std::fmt::Display for Error {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Self::Size(bytes) => write!(f, "{bytes} bytes; allowed: multiples of 2 MiB"),
            Self::Memory(error) => write!(f, "{error}"),
            Self::Frame(error) => write!(f, "{error}"),
            Self::Address(at) => write!(f, "{:#x} is no page of 2 MiB of the guest", at.0),
            Self::Region(error) => write!(f, "{error}"),
            Self::Guest(error) => write!(f, "{error}"),
            Self::System(error) => write!(f, "{error}"),
        }
    }
}

impl std::error::Error for Error {}

/// The setup of a pool of `bytes` bytes: frames of 2 MiB, pageblocks of 1 GiB.
#[must_use]
pub fn pool(bytes: u64) -> OneZone {
    let span = FrameRange::new(0, bytes >> FRAME_SHIFT);
    let geometry =
        Geometry { pageblock_order: GIGABYTE, max_order: GIGABYTE, page_shift: FRAME_SHIFT };
    OneZone { geometry, ..OneZone::new(span).policy(Policy::default()) }
}

/// The memory that guests share.
pub struct Host<'m> {
    memory: Arc<MmapRegion>,
    allocator: Allocator<'m>,
}

/// A guest's memory. It keeps the mapping alive, and returns to the host by [`Host::give_back`].
pub struct Guest {
    /// What a virtual machine monitor works with.
    pub memory: GuestMemoryMmap,
    /// Where each block is in the guest, and the block.
    blocks: Vec<(GuestAddress, Pfn, Order)>,
    _host: Arc<MmapRegion>,
}

impl Guest {
    /// Returns the number of blocks of an order that the guest has.
    #[must_use]
    pub fn blocks_of(&self, order: Order) -> usize {
        self.blocks.iter().filter(|(.., of)| *of == order).count()
    }
}

fn bytes(order: Order) -> usize {
    1 << (u32::from(FRAME_SHIFT) + u32::from(order))
}

impl<'m> Host<'m> {
    /// Maps `bytes` bytes, which no guest has yet. `tables` gets the allocator's memory.
    ///
    /// # Errors
    /// [`Error::Size`] and [`Error::Region`].
    pub fn new(bytes: u64, tables: &'m mut Vec<MaybeUninit<u8>>) -> Result<Self, Error> {
        let zone = pool(bytes);
        let size = zone.metadata_size().map_err(|_| Error::Size(bytes))?;
        *tables = vec![MaybeUninit::uninit(); size];
        let allocator = zone.build(tables).map_err(|_| Error::Size(bytes))?;
        let memory = MmapRegion::new(bytes as usize).map_err(Error::Region)?;
        Ok(Self { memory: Arc::new(memory), allocator })
    }

    /// Returns the gigabytes that are wholly free.
    pub fn free_gigabytes(&mut self) -> u64 {
        // What was freed last lies on the CPU's lists.
        self.allocator.drain_all(&mut ());
        self.allocator.zones()[0].nr_free(GIGABYTE)
    }

    /// Takes memory for a guest, in as few regions as there are blocks, from guest address 0 on.
    ///
    /// # Errors
    /// [`Error`]; nothing is taken then.
    pub fn guest(&mut self, bytes_asked: u64) -> Result<Guest, Error> {
        let frames = bytes_asked >> FRAME_SHIFT;
        if frames == 0 || frames << FRAME_SHIFT != bytes_asked {
            return Err(Error::Size(bytes_asked));
        }
        let mut extents = vec![FrameRange::new(0, 0); MOST_BLOCKS];
        let request = Request::movable(0);
        let taken = self.allocator.alloc_extents(CpuId(0), frames, &request, &mut extents, &mut ());
        extents.truncate(taken.map_err(Error::Memory)?);
        let guest = self.map(&extents);
        if guest.is_err() {
            for extent in extents {
                self.allocator.free_contig(CpuId(0), extent, &mut ()).map_err(Error::Memory)?;
            }
        }
        guest
    }

    fn map(&self, extents: &[FrameRange]) -> Result<Guest, Error> {
        let (mut regions, mut blocks, mut at) = (Vec::new(), Vec::new(), GuestAddress(0));
        for extent in extents {
            let size = (extent.len() as usize) << FRAME_SHIFT;
            let start = self.address(extent.start);
            let (protection, flags) = (self.memory.prot(), self.memory.flags());
            // SAFETY: the part of the mapping is in one block that is this guest's alone, and the guest keeps the
            // mapping alive.
            let region = unsafe { MmapRegion::build_raw(start, size, protection, flags) };
            let region = region.map_err(Error::Region)?;
            regions.extend(GuestRegionMmap::new(region, at));
            for (pfn, order) in extent.blocks(GIGABYTE) {
                blocks.push((at, pfn, order));
                at.0 += bytes(order) as u64;
            }
        }
        let memory = GuestMemoryMmap::from_regions(regions);
        let memory = memory.map_err(|error| Error::Guest(error.into()))?;
        Ok(Guest { memory, blocks, _host: Arc::clone(&self.memory) })
    }

    fn address(&self, pfn: Pfn) -> *mut u8 {
        let offset = (pfn.0 as usize) << FRAME_SHIFT;
        assert!(offset < self.memory.size(), "frame {pfn} is beyond the mapping");
        // SAFETY: it is within the mapping.
        unsafe { self.memory.as_ptr().add(offset) }
    }

    /// Takes a page of 2 MiB back from a guest that runs; its content is lost. The block around it is split.
    ///
    /// # Errors
    /// [`Error::Address`] for what is no page of the guest, or was taken back already.
    pub fn deflate(&mut self, guest: &mut Guest, at: GuestAddress) -> Result<(), Error> {
        let holds = |&(start, _, order): &(GuestAddress, Pfn, Order)| {
            (start.0..start.0 + bytes(order) as u64).contains(&at.0)
        };
        let found = guest.blocks.iter().position(holds).ok_or(Error::Address(at))?;
        let (start, pfn, order) = guest.blocks[found];
        if !(at.0 - start.0).is_multiple_of(bytes(0) as u64) {
            return Err(Error::Address(at));
        }
        let page = pfn.plus((at.0 - start.0) >> FRAME_SHIFT);
        self.allocator.split_allocated(pfn, order, 0).map_err(Error::Frame)?;
        guest.blocks.swap_remove(found);
        for n in 0..1 << order {
            let (each, address) = (pfn.plus(n), GuestAddress(start.0 + (n << FRAME_SHIFT)));
            if each != page {
                guest.blocks.push((address, each, 0));
            }
        }
        self.free(page, 0)
    }

    /// Takes all memory of a guest back.
    ///
    /// # Errors
    /// [`Error::System`] where the system does not take pages back.
    pub fn give_back(&mut self, guest: Guest) -> Result<(), Error> {
        guest.blocks.iter().try_for_each(|&(_, pfn, order)| self.free(pfn, order))
    }

    /// Frees a block, whose pages go back to the system: the next guest finds zeros.
    fn free(&mut self, pfn: Pfn, order: Order) -> Result<(), Error> {
        let start = self.address(pfn);
        // SAFETY: the block is in the mapping, and its guest gave it up.
        let given = unsafe { madvise(start.cast(), bytes(order), Advice::LinuxDontNeed) };
        given.map_err(|error| Error::System(error.into()))?;
        self.allocator.free(CpuId(0), pfn, order, &mut ()).map_err(Error::Frame)
    }
}

impl From<AllocError> for Error {
    fn from(error: AllocError) -> Self {
        Self::Memory(ContigError::Request(error))
    }
}
