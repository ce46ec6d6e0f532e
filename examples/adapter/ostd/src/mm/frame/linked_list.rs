//! Lists of frames, linked through their metadata.

use core::marker::PhantomData;
use core::ops::{Deref, DerefMut};
use core::sync::atomic::{AtomicU64, Ordering};

use super::{PAGE_SIZE, Paddr, UniqueFrame, slot};
use crate::mm::HasPaddr;

const NONE: u64 = u64::MAX;

/// Metadata of a frame on a list.
#[derive(Debug)]
pub struct Link<M>(M);

impl<M> Link<M> {
    /// Returns metadata of a frame that is on no list.
    pub const fn new(meta: M) -> Self {
        Self(meta)
    }
}

impl<M> Deref for Link<M> {
    type Target = M;
    fn deref(&self) -> &M {
        &self.0
    }
}

impl<M> DerefMut for Link<M> {
    fn deref_mut(&mut self) -> &mut M {
        &mut self.0
    }
}

/// A list.
pub struct LinkedList<M> {
    /// Its number, once it was needed.
    id: u64,
    front: u64,
    meta: PhantomData<M>,
}

impl<M> LinkedList<M> {
    /// Returns an empty list.
    pub const fn new() -> Self {
        Self { id: 0, front: NONE, meta: PhantomData }
    }

    /// Returns whether it is empty.
    pub fn is_empty(&self) -> bool {
        self.front == NONE
    }

    fn id(&mut self) -> u64 {
        static NEXT: AtomicU64 = AtomicU64::new(1);
        if self.id == 0 {
            self.id = NEXT.fetch_add(1, Ordering::Relaxed);
        }
        self.id
    }

    /// Adds a frame.
    pub fn push_front(&mut self, frame: UniqueFrame<Link<M>>) {
        let (paddr, id) = (frame.paddr() as u64, self.id());
        let of = slot(frame.paddr());
        of.next.store(self.front, Ordering::Relaxed);
        of.previous.store(NONE, Ordering::Relaxed);
        of.list.store(id, Ordering::Relaxed);
        if self.front != NONE {
            slot(self.front as Paddr).previous.store(paddr, Ordering::Relaxed);
        }
        self.front = paddr;
    }

    /// Takes the first frame.
    pub fn pop_front(&mut self) -> Option<UniqueFrame<Link<M>>> {
        (!self.is_empty()).then(|| self.take(self.front))
    }

    /// Takes a frame that is on this list.
    fn take(&mut self, paddr: u64) -> UniqueFrame<Link<M>> {
        let of = slot(paddr as Paddr);
        let (next, previous) =
            (of.next.load(Ordering::Relaxed), of.previous.load(Ordering::Relaxed));
        if next != NONE {
            slot(next as Paddr).previous.store(previous, Ordering::Relaxed);
        }
        match previous {
            NONE => self.front = next,
            _ => slot(previous as Paddr).next.store(next, Ordering::Relaxed),
        }
        of.list.store(0, Ordering::Relaxed);
        UniqueFrame(paddr as Paddr, PhantomData)
    }

    /// Returns the place of a frame, if it is on this list.
    pub fn cursor_mut_at(&mut self, frame: Paddr) -> Option<CursorMut<'_, M>> {
        let known = super::SLOTS.get().is_some_and(|slots| frame / PAGE_SIZE < slots.len());
        let here = known && self.id != 0 && slot(frame).list.load(Ordering::Relaxed) == self.id;
        here.then_some(CursorMut { list: self, at: frame as u64 })
    }
}

impl<M> Default for LinkedList<M> {
    fn default() -> Self {
        Self::new()
    }
}

/// A place on a list.
pub struct CursorMut<'l, M> {
    list: &'l mut LinkedList<M>,
    at: u64,
}

impl<M> CursorMut<'_, M> {
    /// Takes the frame of this place.
    pub fn take_current(&mut self) -> Option<UniqueFrame<Link<M>>> {
        let next = slot(self.at as Paddr).next.load(Ordering::Relaxed);
        let taken = self.list.take(self.at);
        self.at = next;
        Some(taken)
    }
}
