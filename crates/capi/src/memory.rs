//! Memory of C's: pointers become references, and the allocator lives in what the caller supplied.
//!
//! The functions here trust what `pageblock.h` asks of its callers: that a pointer which is not NULL
//! points to as many values as it says, that supplied memory is nobody else's until `pb_destroy`, and
//! that one thread at a time uses a CPU. Exported functions that take bare pointers are `unsafe`, so
//! Rust callers promise it too.
//!
//! # One owner, or many CPUs
//!
//! The allocator is `Owned` or `Shared`, as the last call needed it. Who works on the whole moves it
//! out of its cell meanwhile. Who takes a CPU or reads a number *pins* the shared state, which keeps
//! owners away. A short lock guards the count of pins and the change of states; nothing else runs
//! under it, so no callback can wait for itself.

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

use crate::lock::SpinLock;
use crate::status::Status;

pub(crate) type Shared = Sharing<'static, SpinLock>;
pub(crate) type Handle = Taken<'static, 'static, SpinLock, ()>;
type Bytes = &'static mut [MaybeUninit<u8>];

/// An allocator, in memory that the caller supplied. Any thread may use it at any time.
pub struct Allocator {
    control: Mutex<SpinLock, Control>,
    /// Changed only under the lock of `control`, and only while there is no pin.
    state: UnsafeCell<State>,
    locks: NonNull<[MaybeUninit<u8>]>,
    cpus: NonNull<[Cpu]>,
}

/// A CPU that was taken: the owner of its caches. One thread at a time may use it, and threads can
/// hand it on.
pub struct Cpu {
    handle: ManuallyDrop<Option<Handle>>,
    allocator: Option<&'static Allocator>,
}

struct Control {
    pins: usize,
    /// How often the allocator has become shared.
    generation: u32,
    /// Since then a drain was asked for.
    drains: bool,
}

enum State {
    Owned(ManuallyDrop<Whole<'static>>),
    Shared(ManuallyDrop<Shared>),
    /// An owner has it, or it is no more.
    Away,
}

fn layout(setup: &Setup<'_>) -> Result<TablesLayout, Status> {
    let tables = setup.metadata_size()?;
    TablesLayout::default()
        .and::<MaybeUninit<u8>>(tables)
        .and_then(|all| all.and::<MaybeUninit<u8>>(setup.sharing_size::<SpinLock>()))
        .and_then(|all| all.and::<Cpu>(setup.cpu_nodes.len()))
        .and_then(|all| all.and::<Allocator>(1))
        .ok_or(Status::TooLarge)
}

/// The memory that [`place`] needs, in bytes.
pub(crate) fn size(setup: &Setup<'_>) -> Result<usize, Status> {
    layout(setup).map(TablesLayout::size)
}

/// What the caller says of supplied memory.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) enum Content {
    /// Nothing: it may never have been written.
    Any,
    /// Its bytes have values.
    Written,
}

/// Makes an allocator in `size` bytes from `memory` on.
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
    let locks = setup.sharing_size::<SpinLock>();
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
    /// The memory for locks, which no one else uses: the caller has the whole in its hands.
    fn lock_memory(&self) -> Bytes {
        // SAFETY: it was carved from the supplied memory for this alone. References to it live in a
        // `Shared` only, and there is none, as its parts are in the whole.
        unsafe { &mut *self.locks.as_ptr() }
    }

    /// Keeps owners away until [`unpin`](Self::unpin). Gives how often the state has become shared.
    fn pin(&self) -> Result<(&'static Shared, u32), Status> {
        let mut control = self.control.lock();
        if control.pins == 0 {
            // SAFETY: the lock is held and there is no pin, so no one else has a reference.
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
        // SAFETY: nobody changes the state: while the lock is held, nor after, as there is a pin then.
        match unsafe { &*self.state.get() } {
            State::Shared(shared) => {
                control.pins += 1;
                Ok((shared, control.generation))
            }
            _ => Err(Status::Busy),
        }
    }

    /// Sees to it that requests to CPUs are honoured before the state is the whole again.
    pub(crate) fn expect_drain(&self) {
        self.control.lock().drains = true;
    }

    fn unpin(&self) {
        self.control.lock().pins -= 1;
    }

    /// Works on the shared state, whoever else does so too. `act` is told how often the state has
    /// become shared.
    pub(crate) fn with_shared<T>(
        &self,
        act: impl FnOnce(&Shared, u32) -> Result<T, Status>,
    ) -> Result<T, Status> {
        let (shared, generation) = self.pin()?;
        let done = act(shared, generation);
        self.unpin();
        done
    }

    /// Works on the whole, alone; all others are told [`Status::Busy`] meanwhile.
    pub(crate) fn with_whole<T>(
        &self,
        act: impl FnOnce(&mut Whole<'static>) -> Result<T, Status>,
    ) -> Result<T, Status> {
        let mut whole = self.take_whole()?;
        let done = act(&mut whole);
        let _control = self.control.lock();
        // SAFETY: the lock is held, and while the state is `Away` there is no pin.
        unsafe { *self.state.get() = State::Owned(ManuallyDrop::new(whole)) };
        done
    }

    fn take_whole(&self) -> Result<Whole<'static>, Status> {
        let control = self.control.lock();
        if control.pins > 0 {
            return Err(Status::Busy);
        }
        // SAFETY: the lock is held and there is no pin, so no one else has a reference.
        let state = unsafe { &mut *self.state.get() };
        match core::mem::replace(state, State::Away) {
            State::Owned(whole) => Ok(ManuallyDrop::into_inner(whole)),
            // Every handle has a pin, so none is out.
            State::Shared(shared) => {
                let shared = ManuallyDrop::into_inner(shared);
                if control.drains {
                    // A CPU may have been asked while it was given back.
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
        // SAFETY: the place of a CPU is used by whoever has its handle.
        unsafe { place.write(cpu) };
        Ok(place)
    }
}

impl Cpu {
    /// Its handle, as long as it is taken.
    #[inline(always)]
    pub(crate) fn handle(&mut self) -> Result<&mut Handle, Status> {
        self.handle.as_mut().ok_or(Status::CpuGiven)
    }

    /// Gives the handle back. By pointer, as the next to take the CPU may write to its place before
    /// this returns.
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

/// `n` values from `first` on; none from NULL where `n` is zero.
pub(crate) fn many<'a, T>(first: *const T, n: usize) -> Result<&'a [T], Status> {
    match NonNull::new(first.cast_mut()) {
        None if n == 0 => Ok(&[]),
        None => Err(Status::Null),
        // SAFETY: the caller promises `n` values that nobody changes meanwhile.
        Some(first) => Ok(unsafe { NonNull::slice_from_raw_parts(first, n).as_ref() }),
    }
}

/// Room for `n` values from `first` on; none from NULL where `n` is zero.
pub(crate) fn many_mut<'a, T>(first: *mut T, n: usize) -> Result<&'a mut [MaybeUninit<T>], Status> {
    match NonNull::new(first) {
        None if n == 0 => Ok(&mut []),
        None => Err(Status::Null),
        // SAFETY: the caller promises room for `n` values that nobody else uses meanwhile.
        Some(first) => Ok(unsafe { NonNull::slice_from_raw_parts(first.cast(), n).as_mut() }),
    }
}

/// Memory whose bytes have values, by the caller's promise.
fn written(memory: Bytes) -> &'static mut [u8] {
    // SAFETY: the same memory; the caller promises that every byte was written.
    unsafe { &mut *(core::ptr::from_mut(memory) as *mut [u8]) }
}

/// Room for frame numbers, as the allocator writes them; zero at first.
pub(crate) fn frames_mut<'a>(first: *mut u64, n: usize) -> Result<&'a mut [Pfn], Status> {
    let room = many_mut(first, n)?;
    room.iter_mut().for_each(|frame| *frame = MaybeUninit::new(0));
    // SAFETY: all are written, and a `Pfn` is a number.
    Ok(unsafe { NonNull::slice_from_raw_parts(NonNull::from(room).cast(), n).as_mut() })
}

/// Frame numbers.
pub(crate) fn frames<'a>(first: *const u64, n: usize) -> Result<&'a [Pfn], Status> {
    many(first.cast(), n)
}

/// The text at a pointer; `None` where it is not UTF-8.
pub(crate) fn text<'a>(first: *const c_char) -> Result<Option<&'a str>, Status> {
    if first.is_null() {
        return Err(Status::Null);
    }
    // SAFETY: the caller promises a zero at the end.
    Ok(unsafe { CStr::from_ptr(first) }.to_str().ok())
}
