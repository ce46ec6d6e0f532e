//! The shrinkers of a node, run after its lists were scanned (`shrink_slab`).

use pageblock::event::Observer;

use crate::base::shrink::{Pressure, ShrinkControl};
use crate::vm::Vm;

impl<O: Observer> Vm<'_, O> {
    /// Runs the shrinkers of a node: dentries and inodes, metadata buffers, and index nodes of shadow entries.
    pub(super) fn shrink_slab(&mut self, node: usize, pressure: Pressure, by: ShrinkControl) {
        self.shrink_inodes(node, pressure, by);
        self.shrink_buffers(node, pressure, by);
        self.shrink_shadows(pressure, by);
    }
}
