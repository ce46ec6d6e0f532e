//! What the boot protocol says of memory (Xen's `arch-x86/hvm/start_info.h`).

use pageblock::frame::FrameRange;

use crate::memory::{MAPPED, PAGE_SIZE};
use crate::ranges::Ranges;

const MAGIC: u32 = 0x336e_c578;
const USABLE: u32 = 1;

/// `struct hvm_start_info`, from version 1 on.
#[repr(C)]
pub struct StartInfo {
    magic: u32,
    version: u32,
    flags: u32,
    modules: u32,
    module_list: u64,
    command_line: u64,
    rsdp: u64,
    memory_map: u64,
    memory_map_entries: u32,
    reserved: u32,
}

/// `struct hvm_memmap_table_entry`.
#[repr(C)]
struct Entry {
    start: u64,
    size: u64,
    kind: u32,
    reserved: u32,
}

/// The memory that may be used: whole frames, and as far as addresses are mapped. It is a copy, as the
/// table itself may lie there.
pub fn usable(info: &StartInfo) -> Ranges {
    assert!(info.magic == MAGIC && info.version >= 1, "no memory map at {info:p}");
    let table = core::ptr::with_exposed_provenance::<Entry>(info.memory_map as usize);
    // SAFETY: the protocol places so many entries there, aligned, in memory that is mapped and that no
    // one writes before this function is done.
    let entries = unsafe { core::slice::from_raw_parts(table, info.memory_map_entries as usize) };
    let mut usable = Ranges::new();
    for entry in entries.iter().filter(|entry| entry.kind == USABLE) {
        let end = entry.start.saturating_add(entry.size).min(MAPPED);
        usable.push(FrameRange::new(entry.start.div_ceil(PAGE_SIZE), end / PAGE_SIZE));
    }
    usable
}
