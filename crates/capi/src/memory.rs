//! C's memory: pointers become references, and the allocator is placed in memory that the caller supplies.
//!
//! The functions here rely on what `pageblock.h` requires of its callers: that a pointer which is not NULL
//! points to as many values as stated, that supplied memory is not used by others until `pb_destroy`, and that
//! one thread at a time uses a CPU. Exported functions that take raw pointers are `unsafe`, so Rust callers
//! promise it too.
//!
//! # One owner, or many CPUs
//!
//! The allocator is `Owned` or `Shared`, as the last call required. An exclusive call moves it out of its cell
//! meanwhile. Taking a CPU or reading a number *pins* the shared state, which excludes exclusive calls. A short
//! lock protects the pin count and the change of states; nothing else runs under it, so a callback cannot
//! deadlock.

use core::cell::UnsafeCell;
use core::ffi::{CStr, c_char};
use core::mem::{ManuallyDrop, MaybeUninit};
use core::ptr::NonNull;

use lock_api::Mutex;
use pageblock::alloc::Allocator as Whole;
use pageblock::cpu::Cpu as Taken;
use pageblock::frame::Pfn;
use pageblock::ids::CpuId;
use pageblock::memory::{Tables, TablesLayout};
use pageblock::setup::Setup;
use pageblock::sharing::Shared as Sharing;

use crate::lock::{SpinLock, SpinLocks};
use crate::status::Status;

pub(crate) type Shared = Sharing<'static, SpinLocks>;
pub(crate) type Handle = Taken<'static, 'static, SpinLocks, ()>;
type Bytes = &'static mut [MaybeUninit<u8>];

/// An allocator in memory that the caller supplied. Any thread may use it at any time.
pub struct Allocator {
    control: Mutex<SpinLock, Control>,
    /// Changed only under the lock of `control`, and only while the pin count is 0.
    state: UnsafeCell<State>,
    locks: NonNull<[MaybeUninit<u8>]>,
    cpus: NonNull<[Cpu]>,
}

/// A taken CPU: the owner of its caches. One thread at a time may use it, and threads can pass it on.
pub struct Cpu {
    handle: ManuallyDrop<Option<Handle>>,
    allocator: Option<&'static Allocator>,
}

struct Control {
    pins: usize,
    /// How often the allocator has become shared.
    generation: u32,
    /// Whether a drain was requested since then.
    drains: bool,
}

enum State {
    Owned(ManuallyDrop<Whole<'static>>),
    Shared(ManuallyDrop<Shared>),
    /// An exclusive call has it, or it was destroyed.
    Away,
}

fn layout(setup: &Setup<'_>) -> Result<TablesLayout, Status> {
    let tables = setup.metadata_size()?;
    TablesLayout::default()
        .and::<MaybeUninit<u8>>(tables)
        .and_then(|all| all.and::<MaybeUninit<u8>>(setup.sharing_size::<SpinLocks>()))
        .and_then(|all| all.and::<Cpu>(setup.cpu_nodes.len()))
        .and_then(|all| all.and::<Allocator>(1))
        .ok_or(Status::TooLarge)
}

/// Returns the memory that [`place`] needs, in bytes.
pub(crate) fn size(setup: &Setup<'_>) -> Result<usize, Status> {
    layout(setup).map(TablesLayout::size)
}

/// The content of supplied memory, according to the caller.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) enum Content {
    /// Possibly uninitialised.
    Any,
    /// Initialised.
    Written,
}

/// Creates an allocator in `size` bytes starting at `memory`.
pub(crate) fn place(
    memory: *mut u8,
    size: usize,
    content: Content,
    setup: &Setup<'_>,
) -> Result<NonNull<Allocator>, Status> {
    if size < self::size(setup)? {
        return Err(Status::Space);
    }
    let memory: Bytes = many_mut(memory.cast(), size)?;
    let (map, memory) = memory.split_at_mut_checked(setup.metadata_size()?).ok_or(Status::Space)?;
    let whole = match content {
        Content::Any => Whole::new(map, setup)?,
        Content::Written => Whole::new_in_bytes(written(map), setup)?,
    };
    let mut tables = Tables::new(memory);
    let locks = setup.sharing_size::<SpinLocks>();
    let locks = tables.take(locks, |_| MaybeUninit::uninit()).ok_or(Status::Space)?;
    let locks = NonNull::from(locks);
    let mut state = State::Owned(ManuallyDrop::new(whole));
    let vacant = |_| Cpu { handle: ManuallyDrop::new(None), allocator: None };
    let cpus = tables.take(setup.cpu_nodes.len(), vacant).ok_or(Status::Space)?;
    let cpus = NonNull::from(cpus);
    let made = tables.take(1, |_| Allocator {
        control: Mutex::new(Control { pins: 0, generation: 0, drains: false }),
        state: UnsafeCell::new(core::mem::replace(&mut state, State::Away)),
        locks,
        cpus,
    });
    made.map(|made| NonNull::from(made).cast()).ok_or(Status::Space)
}

impl Allocator {
    /// Returns the memory for locks, which no one else uses, as the caller has exclusive access.
    fn lock_memory(&self) -> Bytes {
        // SAFETY: it was carved from the supplied memory for this alone. References to it exist only in a
        // `Shared`, and there is none, as its parts are in the exclusive allocator.
        unsafe { &mut *self.locks.as_ptr() }
    }

    /// Excludes exclusive calls until [`unpin`](Self::unpin). Returns how often the state has become shared.
    fn pin(&self) -> Result<(&'static Shared, u32), Status> {
        let mut control = self.control.lock();
        if control.pins == 0 {
            // SAFETY: the lock is held and the pin count is 0, so no one else has a reference.
            let state = unsafe { &mut *self.state.get() };
            *state = match core::mem::replace(state, State::Away) {
                State::Owned(whole) => {
                    control.generation = control.generation.wrapping_add(1);
                    control.drains = false;
                    let whole = ManuallyDrop::into_inner(whole);
                    State::Shared(ManuallyDrop::new(whole.share(self.lock_memory())?))
                }
                shared_or_away => shared_or_away,
            };
        }
        // SAFETY: nobody changes the state: not while the lock is held, and not after, because of the pin.
        match unsafe { &*self.state.get() } {
            State::Shared(shared) => {
                control.pins += 1;
                Ok((shared, control.generation))
            }
            _ => Err(Status::Busy),
        }
    }

    /// Makes sure that requests to CPUs are completed before the next exclusive call.
    pub(crate) fn expect_drain(&self) {
        self.control.lock().drains = true;
    }

    fn unpin(&self) {
        self.control.lock().pins -= 1;
    }

    /// Calls `act` with the shared state, concurrently with others, and with how often the state has become
    /// shared.
    pub(crate) fn with_shared<T>(
        &self,
        act: impl FnOnce(&Shared, u32) -> Result<T, Status>,
    ) -> Result<T, Status> {
        let (shared, generation) = self.pin()?;
        let done = act(shared, generation);
        self.unpin();
        done
    }

    /// Calls `act` with exclusive access; all others get [`Status::Busy`] meanwhile.
    pub(crate) fn with_whole<T>(
        &self,
        act: impl FnOnce(&mut Whole<'static>) -> Result<T, Status>,
    ) -> Result<T, Status> {
        let mut whole = self.take_whole()?;
        let done = act(&mut whole);
        let _control = self.control.lock();
        // SAFETY: the lock is held, and while the state is `Away` the pin count is 0.
        unsafe { *self.state.get() = State::Owned(ManuallyDrop::new(whole)) };
        done
    }

    fn take_whole(&self) -> Result<Whole<'static>, Status> {
        let control = self.control.lock();
        if control.pins > 0 {
            return Err(Status::Busy);
        }
        // SAFETY: the lock is held and the pin count is 0, so no one else has a reference.
        let state = unsafe { &mut *self.state.get() };
        match core::mem::replace(state, State::Away) {
            State::Owned(whole) => Ok(ManuallyDrop::into_inner(whole)),
            // Every handle holds a pin, so there are none.
            State::Shared(shared) => {
                let shared = ManuallyDrop::into_inner(shared);
                if control.drains {
                    // A CPU may have received a request while it was given back.
                    shared.drain_all();
                }
                Ok(shared.into_owned()?)
            }
            State::Away => Err(Status::Busy),
        }
    }

    /// Ends it: the memory is the caller's again.
    pub(crate) fn end(&self) -> Result<(), Status> {
        self.take_whole().map(|_| ())
    }

    /// Takes a CPU's handle.
    pub(crate) fn take_cpu(&'static self, number: usize) -> Result<NonNull<Cpu>, Status> {
        let (shared, _) = self.pin()?;
        let handle = shared.cpu(CpuId(number)).inspect_err(|_| self.unpin())?;
        // SAFETY: there are as many places as CPUs, and there is such a CPU.
        let place = unsafe { self.cpus.cast::<Cpu>().add(number) };
        let cpu = Cpu { handle: ManuallyDrop::new(Some(handle)), allocator: Some(self) };
        // SAFETY: a CPU's slot is used only by the holder of its handle.
        unsafe { place.write(cpu) };
        Ok(place)
    }
}

impl Cpu {
    /// Returns its handle, as long as it is taken.
    #[inline(always)]
    pub(crate) fn handle(&mut self) -> Result<&mut Handle, Status> {
        self.handle.as_mut().ok_or(Status::CpuGiven)
    }

    /// Gives the handle back. Takes a pointer, as the next taker of the CPU may write to its slot before this
    /// returns.
    pub(crate) fn give(this: NonNull<Self>) -> Result<(), Status> {
        // SAFETY: the caller has the CPU, by its promise, and does not use it meanwhile.
        let (handle, allocator) = unsafe {
            let this = &mut *this.as_ptr();
            (this.handle.take(), this.allocator)
        };
        drop(handle.ok_or(Status::CpuGiven)?);
        if let Some(allocator) = allocator {
            allocator.unpin();
        }
        Ok(())
    }
}

/// Returns `n` values starting at `first`; an empty slice for NULL if `n` is zero.
pub(crate) fn many<'a, T>(first: *const T, n: usize) -> Result<&'a [T], Status> {
    match NonNull::new(first.cast_mut()) {
        None if n == 0 => Ok(&[]),
        None => Err(Status::Null),
        // SAFETY: the caller promises `n` values that nobody changes meanwhile.
        Some(first) => Ok(unsafe { NonNull::slice_from_raw_parts(first, n).as_ref() }),
    }
}

/// Returns room for `n` values starting at `first`; an empty slice for NULL if `n` is zero.
pub(crate) fn many_mut<'a, T>(first: *mut T, n: usize) -> Result<&'a mut [MaybeUninit<T>], Status> {
    match NonNull::new(first) {
        None if n == 0 => Ok(&mut []),
        None => Err(Status::Null),
        // SAFETY: the caller promises room for `n` values that nobody else uses meanwhile.
        Some(first) => Ok(unsafe { NonNull::slice_from_raw_parts(first.cast(), n).as_mut() }),
    }
}

/// Returns memory that is initialised, by the caller's promise.
fn written(memory: Bytes) -> &'static mut [u8] {
    // SAFETY: the same memory; the caller promises that every byte was written.
    unsafe { &mut *(core::ptr::from_mut(memory) as *mut [u8]) }
}

/// Returns room for frame numbers, as the allocator writes them; initially zero.
pub(crate) fn frames_mut<'a>(first: *mut u64, n: usize) -> Result<&'a mut [Pfn], Status> {
    let room = many_mut(first, n)?;
    room.iter_mut().for_each(|frame| *frame = MaybeUninit::new(0));
    // SAFETY: all are initialised, and a `Pfn` is a number.
    Ok(unsafe { NonNull::slice_from_raw_parts(NonNull::from(room).cast(), n).as_mut() })
}

/// Returns frame numbers.
pub(crate) fn frames<'a>(first: *const u64, n: usize) -> Result<&'a [Pfn], Status> {
    many(first.cast(), n)
}

/// Returns the text at a pointer; `None` if it is not UTF-8.
pub(crate) fn text<'a>(first: *const c_char) -> Result<Option<&'a str>, Status> {
    if first.is_null() {
        return Err(Status::Null);
    }
    // SAFETY: the caller promises a terminating zero.
    Ok(unsafe { CStr::from_ptr(first) }.to_str().ok())
}
