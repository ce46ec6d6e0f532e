//! LLFree's test suite on CPUs' handles in place of LLFree: what it means by `llfree` and `llfree_eval` is this file.

use std::fmt;
use std::mem::MaybeUninit;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Mutex, PoisonError};

use pageblock::FrameState;
use pageblock::alloc::AllocError;
use pageblock::locks::Std;
use pageblock::prelude::{Cpu, CpuId, FrameRange, OneZone, Order, Pfn, Shared, ZoneIndex};
use pageblock::zone::Geometry;

extern crate llfree as original;
extern crate self as llfree;
extern crate self as llfree_eval;

pub use original::*;

#[allow(warnings, clippy::all)]
mod suite {
    include!(concat!(env!("OUT_DIR"), "/suite.rs"));
}
pub use suite::mmap;

/// Threads, which stay where the system puts them.
pub mod thread {
    pub use original::util::parallel;

    pub fn pin(_core: usize) {}
}

/// The allocator, with a CPU for each of LLFree's cores, under LLFree's name.
pub struct LLFree<'a> {
    shared: &'a Shared<'a, Std>,
    cpus: Vec<Mutex<Cpu<'a, 'a, Std, ()>>>,
    frames: usize,
    used: AtomicUsize,
    /// The tables, and what sharing needs.
    memory: [(*mut u8, usize); 3],
}

// SAFETY: the pointers are used by `metadata` only, which has the allocator alone.
unsafe impl Send for LLFree<'_> {}
// SAFETY: as above.
unsafe impl Sync for LLFree<'_> {}

impl fmt::Debug for LLFree<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (used, frames) = (self.used.load(Ordering::Relaxed), self.frames);
        write!(f, "{used} of {frames} frames in use")
    }
}

fn zone(cores: usize, frames: usize) -> OneZone {
    let geometry = Geometry { max_order: TREE_ORDER as Order, ..Geometry::default() };
    OneZone { geometry, ..OneZone::new(FrameRange::new(0, frames as u64)).cpus(cores) }
}

fn cores(classing: &Classing) -> usize {
    classing.classes().iter().map(|(_, cores)| *cores).max().unwrap_or(1)
}

/// Bytes as memory for tables.
fn tables(bytes: &mut [u8]) -> &mut [MaybeUninit<u8>] {
    // SAFETY: nobody reads them as bytes before the allocator is gone.
    unsafe { std::slice::from_raw_parts_mut(bytes.as_mut_ptr().cast(), bytes.len()) }
}

fn order(request: &Request) -> Result<Order> {
    request.order.try_into().map_err(|_| Error::Argument)
}

fn request(request: &Request) -> Result<pageblock::request::Request> {
    Ok(pageblock::request::Request::movable(order(request)?))
}

impl<'a> LLFree<'a> {
    fn with_cpu<T>(&self, cpu: usize, work: impl FnOnce(&mut Cpu<'a, 'a, Std, ()>) -> T) -> T {
        let cpu = &self.cpus[cpu % self.cpus.len()];
        work(&mut cpu.lock().unwrap_or_else(PoisonError::into_inner))
    }

    /// Frees what lies on the CPUs' lists.
    fn drain_all(&self) {
        (0..self.cpus.len()).for_each(|cpu| self.with_cpu(cpu, |cpu| cpu.drain(&mut ())));
    }

    fn free_blocks(&self, least: usize) -> usize {
        self.drain_all();
        let blocks = self.shared.with_zone(ZoneIndex(0), |zone| {
            (least..=TREE_ORDER).map(|k| (zone.nr_free(k as Order) as usize) << (k - least)).sum()
        });
        blocks.expect("the only zone")
    }

    fn take(&self, frame: Option<FrameId>, flags: &Request) -> Result<Pfn> {
        let request = request(flags)?;
        self.with_cpu(flags.local.unwrap_or(0), |cpu| match frame {
            Some(frame) => {
                let pfn = Pfn(frame.0 as u64);
                cpu.alloc_at(pfn, &request, &mut ()).map(|_| pfn).map_err(|_| Error::Memory)
            }
            None => cpu.alloc(&request, &mut ()).map_err(|error| match error {
                AllocError::NoMemory => Error::Memory,
                _ => Error::Argument,
            }),
        })
    }
}

impl<'a> Alloc<'a> for LLFree<'a> {
    fn name() -> &'static str {
        "pageblock"
    }

    fn new(frames: usize, init: Init, classing: &Classing, meta: MetaData<'a>) -> Result<Self> {
        let MetaData { local, trees, lower } = meta;
        let memory = [&mut *local, &mut *trees, &mut *lower].map(|m| (m.as_mut_ptr(), m.len()));
        let cores = cores(classing);
        let allocator = zone(cores, frames).build(tables(lower));
        let mut allocator = allocator.map_err(|_| Error::Initialization)?;
        match init {
            Init::FreeAll => {}
            Init::AllocAll => {
                let request = pageblock::request::Request::movable(HUGE_ORDER as Order);
                while allocator.alloc(CpuId(0), &request, &mut ()).is_ok() {}
            }
            // Tables in persistent memory are LLFree's alone.
            Init::Recover | Init::None => return Err(Error::Initialization),
        }
        let used = frames - allocator.zones()[0].free_pages() as usize;
        let shared =
            allocator.share::<Std, ()>(tables(trees)).map_err(|_| Error::Initialization)?;
        let shared: &'a Shared<'a, Std> = Box::leak(Box::new(shared));
        let cpus = (0..cores)
            .map(|cpu| Ok(Mutex::new(shared.cpu(CpuId(cpu)).map_err(|_| Error::Initialization)?)));
        let cpus = cpus.collect::<Result<Vec<_>>>()?;
        Ok(Self { shared, cpus, frames, used: AtomicUsize::new(used), memory })
    }

    fn metadata_size(classing: &Classing, frames: usize) -> MetaSize {
        let zone = zone(cores(classing), frames);
        let lower = zone.metadata_size().expect("a zone");
        let mut memory = vec![MaybeUninit::uninit(); lower];
        let trees = zone.build(&mut memory).expect("a zone").sharing_size::<Std>();
        MetaSize { local: 64, trees, lower }
    }

    unsafe fn metadata(&mut self) -> MetaData<'a> {
        self.cpus.clear();
        let [local, trees, lower] = self.memory.map(|(start, len)| {
            // SAFETY: these are what `new` got, and the caller uses them once the allocator is gone.
            unsafe { std::slice::from_raw_parts_mut(start, len) }
        });
        MetaData { local, trees, lower }
    }

    fn get(&self, frame: Option<FrameId>, flags: Request) -> Result<(FrameId, Class)> {
        // A CPU sees what is on its own lists only.
        let taken = self.take(frame, &flags).or_else(|error| match error {
            Error::Memory => {
                self.drain_all();
                self.take(frame, &flags)
            }
            error => Err(error),
        })?;
        self.used.fetch_add(1 << flags.order, Ordering::Relaxed);
        Ok((FrameId(taken.0 as usize), flags.class))
    }

    fn put(&self, frame: FrameId, flags: Request) -> Result<()> {
        let order = order(&flags)?;
        let pfn = Pfn(frame.0 as u64);
        self.with_cpu(flags.local.unwrap_or(0), |cpu| cpu.free(pfn, order, &mut ()))
            .map_err(|_| Error::Argument)?;
        self.used.fetch_sub(1 << order, Ordering::Relaxed);
        Ok(())
    }

    fn frames(&self) -> usize {
        self.frames
    }

    fn tree_stats(&self) -> TreeStats {
        let free_frames = self.frames - self.used.load(Ordering::Relaxed);
        TreeStats { free_frames, ..TreeStats::default() }
    }

    fn stats(&self) -> Stats {
        let [free_frames, free_huge, free_trees] =
            [0, HUGE_ORDER, TREE_ORDER].map(|order| self.free_blocks(order));
        Stats { free_frames, free_huge, free_trees }
    }

    fn stats_at(&self, frame: FrameId, order: usize) -> Stats {
        self.drain_all();
        let frames = frame.0 as u64..frame.0 as u64 + (1 << order);
        let count = |least: usize| {
            let starts = frames.clone().step_by(1 << least);
            let free = self.shared.with_zone(ZoneIndex(0), |zone| {
                let covered = |at: u64| {
                    (least as Order..=TREE_ORDER as Order).any(|order| {
                        let state = zone.state(Pfn(at).align_down(order));
                        matches!(state, Some(FrameState::Free { order: free, .. }) if free >= order)
                    })
                };
                starts.filter(|&at| covered(at)).count()
            });
            free.expect("the only zone")
        };
        let free_huge = if order < HUGE_ORDER { 0 } else { count(HUGE_ORDER) };
        Stats { free_frames: count(0), free_huge, free_trees: 0 }
    }

    fn drain(&self) {
        self.drain_all();
    }

    fn validate(&self) {
        self.shared.check_zones().expect("sound tables");
    }
}

/// What is said of each huge page adds up to what is said of all.
#[test]
fn counts_of_parts_add_up() {
    let frames = 1 << 14;
    let (classing, request) = Classing::simple(1);
    let meta = MetaData::alloc(&LLFree::metadata_size(&classing, frames));
    let llfree = LLFree::new(frames, Init::FreeAll, &classing, meta).unwrap();
    let page = request(0, 0);
    let taken: Vec<_> = (0..700).map(|_| llfree.get(None, page).unwrap().0).collect();
    taken.iter().step_by(3).for_each(|&frame| llfree.put(frame, page).unwrap());
    let (mut free_frames, mut free_huge) = (0, 0);
    for first in (0..frames).step_by(1 << HUGE_ORDER) {
        let of_one = llfree.stats_at(FrameId(first), HUGE_ORDER);
        free_frames += of_one.free_frames;
        free_huge += of_one.free_huge;
    }
    let all = llfree.stats();
    assert_eq!((free_frames, free_huge), (all.free_frames, all.free_huge));
    assert_eq!(free_frames, frames - taken.len() + taken.len().div_ceil(3));
}
