//! Doubly linked lists through the entries of a flat table, by index (`struct list_head`).
//!
//! New entries are added at the head.

/// No entry.
pub(crate) const NIL: u32 = u32::MAX;

/// The links of an entry, which is on at most one list.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct Links {
    next: u32,
    prev: u32,
}

impl Links {
    /// The links of an entry that is on no list.
    pub(crate) const NONE: Self = Self { next: NIL, prev: NIL };
}

/// A table entry that can be on a list.
pub(crate) trait Linked {
    fn links(&self) -> &Links;
    fn links_mut(&mut self) -> &mut Links;
}

/// The ends of a list, and its length in entries.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct List {
    head: u32,
    tail: u32,
    len: u32,
}

impl Default for List {
    fn default() -> Self {
        Self { head: NIL, tail: NIL, len: 0 }
    }
}

impl List {
    /// Returns the number of entries.
    pub(crate) const fn len(&self) -> u32 {
        self.len
    }

    /// Returns the oldest entry.
    pub(crate) fn tail(&self) -> Option<u32> {
        (self.tail != NIL).then_some(self.tail)
    }

    /// Returns the newest entry.
    pub(crate) fn head(&self) -> Option<u32> {
        (self.head != NIL).then_some(self.head)
    }

    /// Adds an entry at the head.
    pub(crate) fn push_head<T: Linked>(&mut self, table: &mut [T], at: u32) {
        debug_assert_eq!(*table[at as usize].links(), Links::NONE, "entry {at} is on a list");
        *table[at as usize].links_mut() = Links { next: self.head, prev: NIL };
        match self.head {
            NIL => self.tail = at,
            head => table[head as usize].links_mut().prev = at,
        }
        self.head = at;
        self.len += 1;
    }

    /// Adds an entry at the tail.
    pub(crate) fn push_tail<T: Linked>(&mut self, table: &mut [T], at: u32) {
        debug_assert_eq!(*table[at as usize].links(), Links::NONE, "entry {at} is on a list");
        *table[at as usize].links_mut() = Links { next: NIL, prev: self.tail };
        match self.tail {
            NIL => self.head = at,
            tail => table[tail as usize].links_mut().next = at,
        }
        self.tail = at;
        self.len += 1;
    }

    /// Removes an entry that is on this list.
    pub(crate) fn remove<T: Linked>(&mut self, table: &mut [T], at: u32) {
        let Links { next, prev } = *table[at as usize].links();
        debug_assert!(
            (prev != NIL || self.head == at) && (next != NIL || self.tail == at),
            "entry {at} is on another list"
        );
        match prev {
            NIL => self.head = next,
            prev => table[prev as usize].links_mut().next = next,
        }
        match next {
            NIL => self.tail = prev,
            next => table[next as usize].links_mut().prev = prev,
        }
        *table[at as usize].links_mut() = Links::NONE;
        self.len -= 1;
    }

    /// Moves the entry at the tail to the head.
    pub(crate) fn rotate<T: Linked>(&mut self, table: &mut [T]) {
        if self.head == self.tail {
            return;
        }
        let (head, tail) = (self.head, self.tail);
        let links = table[tail as usize].links_mut();
        let prev = links.prev;
        *links = Links { next: head, prev: NIL };
        table[head as usize].links_mut().prev = tail;
        table[prev as usize].links_mut().next = NIL;
        (self.head, self.tail) = (tail, prev);
    }

    /// Iterates over the entries from the head.
    pub(crate) fn iter<'t, T: Linked>(&self, table: &'t [T]) -> impl Iterator<Item = u32> + 't {
        let mut at = self.head;
        std::iter::from_fn(move || {
            let this = (at != NIL).then_some(at)?;
            at = table[this as usize].links().next;
            Some(this)
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    struct Entry(Links);

    impl Linked for Entry {
        fn links(&self) -> &Links {
            &self.0
        }
        fn links_mut(&mut self) -> &mut Links {
            &mut self.0
        }
    }

    #[test]
    fn entries_are_in_the_order_of_the_kernels_lists() {
        let mut table: Vec<Entry> = (0..5).map(|_| Entry(Links::NONE)).collect();
        let mut list = List::default();
        for at in 0..3 {
            list.push_head(&mut table, at);
        }
        list.push_tail(&mut table, 4);
        assert_eq!(list.iter(&table).collect::<Vec<_>>(), [2, 1, 0, 4]);
        list.rotate(&mut table);
        assert_eq!(list.iter(&table).collect::<Vec<_>>(), [4, 2, 1, 0]);
        for _ in 0..3 {
            list.rotate(&mut table);
        }
        assert_eq!(list.iter(&table).collect::<Vec<_>>(), [2, 1, 0, 4]);
        list.remove(&mut table, 1);
        list.remove(&mut table, 4);
        assert_eq!(list.iter(&table).collect::<Vec<_>>(), [2, 0]);
        assert_eq!((list.head(), list.tail(), list.len()), (Some(2), Some(0), 2));
        list.remove(&mut table, 2);
        list.rotate(&mut table);
        list.remove(&mut table, 0);
        list.rotate(&mut table);
        assert_eq!(list, List::default());
        list.push_tail(&mut table, 1);
        assert_eq!(
            list.iter(&table).collect::<Vec<_>>(),
            [1],
            "an entry that left a list may join one"
        );
    }
}
