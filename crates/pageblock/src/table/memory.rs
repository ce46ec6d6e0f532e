//! Typed tables in memory that the caller supplies: the crate's only `unsafe` code.
//!
//! ```
//! use std::mem::MaybeUninit;
//! use pageblock::memory::{Tables, TablesLayout};
//!
//! // A table of bytes and one of words, in one piece of memory.
//! let layout = TablesLayout::default().and::<u8>(3).and_then(|all| all.and::<u64>(2)).unwrap();
//! let mut memory = vec![MaybeUninit::uninit(); layout.size()];
//! let mut tables = Tables::new(&mut memory);
//! let bytes = tables.take(3, |at| at as u8).unwrap();
//! let words = tables.take(2, |at| at as u64 * 100).unwrap();
//! assert_eq!((&*bytes, &*words), (&[0, 1, 2][..], &[0, 100][..]));
//! assert!(tables.take(9, |_| 0u64).is_none(), "the memory is used up");
//! ```
#![allow(unsafe_code)]

use core::alloc::Layout;
use core::marker::PhantomData;
use core::mem::MaybeUninit;
use core::ptr::NonNull;

use crate::base::sync::AtomicU32;
use crate::table::bits::cell::Cell;

/// The size and alignment of a run of tables, to be supplied as one piece of memory.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct TablesLayout {
    layout: Layout,
}

impl Default for TablesLayout {
    fn default() -> Self {
        Self { layout: Layout::new::<()>() }
    }
}

impl TablesLayout {
    /// Returns the layout with room for `n` more values of type `T`; `None` if the size overflows.
    #[must_use]
    pub fn and<T>(self, n: usize) -> Option<Self> {
        let array = Layout::array::<T>(n).ok()?;
        let (layout, _) = self.layout.extend(array).ok()?;
        Some(Self { layout })
    }

    /// Returns the size and alignment. Memory of this alignment is used up exactly.
    #[must_use]
    pub fn layout(self) -> Layout {
        self.layout
    }

    /// Returns the size in bytes, including the worst-case padding in memory of any alignment.
    #[must_use]
    pub fn size(self) -> usize {
        self.layout.size() + self.layout.align()
    }
}

/// Hands out tables, one after the other, from memory that the caller supplied.
pub struct Tables<'m> {
    at: NonNull<u8>,
    left: usize,
    /// Every byte of the memory has a value.
    written: bool,
    memory: PhantomData<&'m mut [MaybeUninit<u8>]>,
}

impl<'m> Tables<'m> {
    /// Starts at the beginning of `memory`, which stays borrowed as long as any table lives.
    #[must_use]
    pub fn new(memory: &'m mut [MaybeUninit<u8>]) -> Self {
        let left = memory.len();
        let at = NonNull::from(memory).cast();
        Self { at, left, written: false, memory: PhantomData }
    }

    /// [`new`](Self::new) for memory in which every byte has a value.
    #[must_use]
    pub fn in_bytes(memory: &'m mut [u8]) -> Self {
        let left = memory.len();
        let at = NonNull::from(memory).cast();
        Self { at, left, written: true, memory: PhantomData }
    }

    /// Returns the memory of the next `n` values; `None` if too little is left.
    fn place<T>(&mut self, n: usize) -> Option<NonNull<T>> {
        // The atomics of a model checker are leaked.
        const { assert!(cfg!(any(loom, shuttle)) || !core::mem::needs_drop::<T>()) };
        let pad = self.at.align_offset(align_of::<T>());
        let size = n.checked_mul(size_of::<T>())?;
        let used = pad.checked_add(size)?;
        self.left = self.left.checked_sub(used)?;
        // SAFETY: `used` bytes from `at` on lie in the supplied memory (checked above).
        unsafe {
            let start = self.at.add(pad).cast();
            self.at = self.at.add(used);
            Some(start)
        }
    }

    /// Returns a table of `n` values, value `i` made by `init(i)`; `None` if too little memory is left.
    ///
    /// Values are never dropped; `T` may not need it.
    pub fn take<T>(&mut self, n: usize, mut init: impl FnMut(usize) -> T) -> Option<&'m mut [T]> {
        let start = self.place::<T>(n)?;
        // SAFETY: room for `n` values at `start` lies in the supplied memory, aligned, which is borrowed
        // for 'm and is handed out once; every element is written before the slice exists.
        unsafe {
            for i in 0..n {
                start.add(i).write(init(i));
            }
            Some(NonNull::slice_from_raw_parts(start, n).as_mut())
        }
    }

    /// Returns a table of `n` pairs of numbers with any content. Memory whose bytes have a value is not touched.
    pub(crate) fn take_pairs(&mut self, n: usize) -> Option<&'m mut [[AtomicU32; 2]]> {
        // SAFETY: any bytes are a pair of numbers.
        unsafe { self.take_any(n, |_| [AtomicU32::new(0), AtomicU32::new(0)]) }
    }

    /// Returns a table of `n` cells with any content, as [`take_pairs`](Self::take_pairs) does.
    pub(crate) fn take_cells(&mut self, n: usize) -> Option<&'m mut [Cell]> {
        // SAFETY: any bytes are three numbers, between which there are none.
        unsafe { self.take_any(n, |_| Cell::new()) }
    }

    /// Returns a table of `n` values: the memory's content if all bytes have a value, otherwise made by `init`.
    ///
    /// # Safety
    /// Any bytes are a `T`.
    unsafe fn take_any<T>(
        &mut self,
        n: usize,
        init: impl FnMut(usize) -> T,
    ) -> Option<&'m mut [T]> {
        if !self.written || cfg!(any(loom, shuttle)) {
            return self.take(n, init);
        }
        let start = self.place::<T>(n)?;
        // SAFETY: as above; every byte has a value, and any bytes are a `T`.
        unsafe { Some(NonNull::slice_from_raw_parts(start, n).as_mut()) }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn tables_fit_their_layout_at_any_address() {
        let layout = TablesLayout::default().and::<u8>(3).unwrap().and::<u64>(5).unwrap();
        for shift in 0..8 {
            let mut memory = [MaybeUninit::uninit(); 128];
            let mut tables = Tables::new(&mut memory[shift..shift + layout.size()]);
            let bytes = tables.take::<u8>(3, |i| i as u8).unwrap();
            let words = tables.take::<u64>(5, |i| i as u64 * 7).unwrap();
            assert_eq!(bytes, [0, 1, 2]);
            assert_eq!(words, [0, 7, 14, 21, 28]);
        }
    }

    #[test]
    fn exhausted_memory_is_none() {
        let mut memory = [MaybeUninit::uninit(); 16];
        let mut tables = Tables::new(&mut memory);
        assert!(tables.take::<u64>(3, |_| 0).is_none());
    }
}
