//! Creating and destroying an allocator.

use core::ffi::{c_char, c_void};
use core::fmt::{self, Write};
use core::mem::MaybeUninit;
use core::ptr::NonNull;

use pageblock::frame::FrameRange;
use pageblock::ids::NodeId;
use pageblock::layout::{ZoneKind, ZoneSpec};
use pageblock::policy::{Policy, PolicyError};
use pageblock::setup::SetupError;
use pageblock::zone::Geometry;
use pageblock::zonelist::MAX_ZONES_PER_ZONELIST;

use crate::dump::Text;
use crate::memory::{self, Allocator, Content};
use crate::status::{Status, answer};

/// The maximum number of zones: five on each of 64 nodes.
pub const PB_MAX_ZONES: usize = 320;
/// The maximum number of CPUs of a setup without `cpu_nodes`.
pub const PB_MAX_LOCAL_CPUS: usize = 1024;
/// Kind of zone: for devices with 24 address lines (x86: below 16 MiB).
pub const PB_ZONE_DMA: u32 = 0;
/// Kind of zone: for devices with 32 address lines (below 4 GiB).
pub const PB_ZONE_DMA32: u32 = 1;
/// Kind of zone: usable by every request. A pool has one zone, of this kind.
pub const PB_ZONE_NORMAL: u32 = 2;
/// Kind of zone: for requests with `PB_GFP_BIT_HIGHMEM`.
pub const PB_ZONE_HIGHMEM: u32 = 3;
/// Kind of zone: for requests with `PB_GFP_BIT_HIGHMEM` and `PB_GFP_BIT_MOVABLE`.
pub const PB_ZONE_MOVABLE: u32 = 4;

const _: () = {
    assert!(PB_MAX_ZONES == MAX_ZONES_PER_ZONELIST);
    assert!(PB_ZONE_DMA == ZoneKind::Dma as u32);
    assert!(PB_ZONE_DMA32 == ZoneKind::Dma32 as u32);
    assert!(PB_ZONE_NORMAL == ZoneKind::Normal as u32);
    assert!(PB_ZONE_HIGHMEM == ZoneKind::HighMem as u32);
    assert!(PB_ZONE_MOVABLE == ZoneKind::Movable as u32);
};

static LOCAL: [NodeId; PB_MAX_LOCAL_CPUS] = [NodeId(0); PB_MAX_LOCAL_CPUS];

/// A zone: a range of frames, whose memory is all reserved until `pb_release`. A frame number is a physical
/// address, or an offset into a pool, divided by the page size; the library never accesses the frames.
#[repr(C)]
#[derive(Clone, Copy)]
pub struct Zone {
    /// The first frame.
    start: u64,
    /// The frame after the last.
    end: u64,
    /// The node, 0 to 63.
    node: u32,
    /// A `PB_ZONE_` constant.
    kind: u32,
}

/// The properties of a new allocator. Unneeded fields are zero.
#[repr(C)]
pub struct Setup {
    /// The zones, by node and then by kind.
    zones: *const Zone,
    /// Their number.
    zone_count: usize,
    /// The node of each CPU; NULL means that all are on node 0.
    cpu_nodes: *const u8,
    /// The number of CPUs.
    cpu_count: usize,
    /// The distances between nodes, row by row; NULL means 10 to the same node, 20 to others.
    distances: *const u8,
    /// The number of distances: the number of nodes squared, or 0.
    distance_count: usize,
    /// `NAME,switch=value,...`, such as "linux-6.12"; NULL means "default", which has the smaller tables and keeps
    /// only `min_free_kbytes` free ("default,min_free_kbytes=1024"). PB_GFP_ATOMIC may take half of these.
    policy: *const c_char,
    /// The order of a pageblock; 0 means 9, which is 2 MiB in pages of 4 KiB.
    pageblock_order: u32,
    /// The largest order of a block; 0 means 10. At most 14.
    max_order: u32,
    /// The base-2 logarithm of a page's size in bytes; 0 means 12, which is 4 KiB. From 10 to 30. Watermarks, which
    /// policies state in kilobytes, are converted with it.
    page_shift: u32,
}

impl Setup {
    fn geometry(&self) -> Geometry {
        // What is beyond a byte is beyond every range.
        let or = |given, default| match given {
            0 => default,
            _ => u8::try_from(given).unwrap_or(u8::MAX),
        };
        let Geometry { pageblock_order, max_order, page_shift } = Geometry::default();
        Geometry {
            pageblock_order: or(self.pageblock_order, pageblock_order),
            max_order: or(self.max_order, max_order),
            page_shift: or(self.page_shift, page_shift),
        }
    }

    fn cpu_nodes(&self) -> Result<&[NodeId], Wrong<'static>> {
        if self.cpu_nodes.is_null() {
            return LOCAL.get(..self.cpu_count).ok_or(Wrong::LocalCpus(self.cpu_count));
        }
        // A node's id is transparent.
        memory::many(self.cpu_nodes.cast(), self.cpu_count).map_err(|_| Wrong::Null("cpu_nodes"))
    }

    /// Calls `act` with the setup in the library's form.
    fn with<'s, T>(
        &'s self,
        act: impl FnOnce(&pageblock::setup::Setup<'_>) -> Result<T, Wrong<'s>>,
    ) -> Result<T, Wrong<'s>> {
        let given = memory::many(self.zones, self.zone_count).map_err(|_| Wrong::Null("zones"))?;
        let none = FrameRange::new(0, 0);
        let none = ZoneSpec {
            node: NodeId(0),
            kind: ZoneKind::Normal,
            span: none,
            present: 0,
            managed: 0,
        };
        let mut zones = [none; PB_MAX_ZONES];
        let too_many = SetupError::ZoneCount(given.len());
        let zones = zones.get_mut(..given.len()).ok_or(too_many)?;
        for (at, (spec, zone)) in zones.iter_mut().zip(given).enumerate() {
            *spec = zone_spec(at, zone)?;
        }
        let policy = if self.policy.is_null() { Policy::default() } else { parse(self.policy)? };
        act(&pageblock::setup::Setup {
            policy,
            geometry: self.geometry(),
            zones,
            cpu_nodes: self.cpu_nodes()?,
            distances: memory::many(self.distances, self.distance_count)
                .map_err(|_| Wrong::Null("distances"))?,
        })
    }
}

fn zone_spec(at: usize, zone: &Zone) -> Result<ZoneSpec, Wrong<'static>> {
    let kind = ZoneKind::from_index(zone.kind as usize).ok_or(Wrong::Kind(at, zone.kind))?;
    // What is beyond a byte is beyond the range.
    let node = NodeId(u8::try_from(zone.node).unwrap_or(u8::MAX));
    let span = FrameRange::new(zone.start, zone.end);
    Ok(ZoneSpec { node, kind, span, present: span.len(), managed: 0 })
}

fn parse<'a>(text: *const c_char) -> Result<Policy, Wrong<'a>> {
    match memory::text(text) {
        Err(_) => Err(Wrong::Null("policy")),
        Ok(None) => Err(Wrong::NotUtf8),
        Ok(Some(text)) => Policy::parse(text).map_err(Wrong::Policy),
    }
}

/// What is wrong with a setup.
enum Wrong<'a> {
    /// The pointer of a field.
    Null(&'static str),
    /// The kind of a zone.
    Kind(usize, u32),
    /// The number of CPUs without nodes.
    LocalCpus(usize),
    NotUtf8,
    Policy(PolicyError<'a>),
    Setup(SetupError),
    /// Something else, while the allocator was created.
    Other(Status),
}

impl From<SetupError> for Wrong<'_> {
    fn from(error: SetupError) -> Self {
        Self::Setup(error)
    }
}

impl From<Status> for Wrong<'_> {
    fn from(status: Status) -> Self {
        Self::Other(status)
    }
}

impl From<Wrong<'_>> for Status {
    fn from(wrong: Wrong<'_>) -> Self {
        match wrong {
            Wrong::Null(_) => Self::Null,
            Wrong::Kind(..) => Self::Unknown,
            Wrong::LocalCpus(_) => Self::Count,
            Wrong::NotUtf8 | Wrong::Policy(_) => Self::Policy,
            Wrong::Setup(error) => error.into(),
            Wrong::Other(status) => status,
        }
    }
}

impl fmt::Display for Wrong<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Null(field) => write!(f, "{field}: NULL, but their number is not 0"),
            Self::Kind(at, kind) => {
                write!(f, "zones[{at}].kind: {kind}; allowed: 0 to {PB_ZONE_MOVABLE}")
            }
            Self::LocalCpus(n) => write!(
                f,
                "cpu_count: {n}; allowed: at most {PB_MAX_LOCAL_CPUS} if cpu_nodes is NULL"
            ),
            Self::NotUtf8 => f.write_str("policy: the text is not UTF-8"),
            Self::Policy(error) => write!(f, "policy: {error}"),
            Self::Setup(error) => error.fmt(f),
            Self::Other(status) => f.write_str(status.text().to_str().unwrap_or_default()),
        }
    }
}

/// Returns the memory that `pb_create` needs, in bytes: half of one for each frame of the zones' spans (nine under policies of Linux), two for each
/// pageblock, and some for each zone and CPU. Uses up to 20 KiB of stack, as does `pb_create`.
///
/// # Safety
/// The setup's pointers are NULL or point to as many values as it says.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn pb_metadata_size(
    setup: Option<&Setup>,
    size: Option<&mut MaybeUninit<usize>>,
) -> Status {
    answer(|| {
        let (setup, size) = (setup.ok_or(Status::Null)?, size.ok_or(Status::Null)?);
        size.write(setup.with(|setup| Ok(memory::size(setup)?))?);
        Ok(())
    })
}

/// Creates an allocator in memory of the caller's, of any alignment, which must stay in place and belongs to
/// the allocator until `pb_destroy`. The setup is not needed afterwards. All frames are reserved at first; the
/// next step is `pb_release`.
///
/// # Safety
/// The setup's pointers are NULL or point to as many values as it says; `memory` is NULL or points to
/// `size` bytes that nobody else uses.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn pb_create(
    setup: Option<&Setup>,
    memory: *mut c_void,
    size: usize,
    allocator: Option<&mut MaybeUninit<NonNull<Allocator>>>,
) -> Status {
    create(setup, memory, size, Content::Any, allocator).into()
}

/// Does the same in memory whose bytes are all initialised, to any values, such as zeroed pages from an
/// operating system (`mmap`, `calloc`). Where a frame has nine bytes, eight are not accessed before the frame is the
/// first of a free block, so their pages need not be mapped. For 64 GiB of frames this takes half the time of
/// `pb_create` if the memory is new to the process.
///
/// # Safety
/// As for `pb_create`; every byte of the memory is initialised.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn pb_create_zeroed(
    setup: Option<&Setup>,
    memory: *mut c_void,
    size: usize,
    allocator: Option<&mut MaybeUninit<NonNull<Allocator>>>,
) -> Status {
    create(setup, memory, size, Content::Written, allocator).into()
}

fn create(
    setup: Option<&Setup>,
    memory: *mut c_void,
    size: usize,
    content: Content,
    allocator: Option<&mut MaybeUninit<NonNull<Allocator>>>,
) -> Result<(), Status> {
    let (setup, allocator) = (setup.ok_or(Status::Null)?, allocator.ok_or(Status::Null)?);
    if memory.is_null() {
        return Err(Status::Null);
    }
    allocator.write(setup.with(|setup| Ok(memory::place(memory.cast(), size, content, setup)?))?);
    Ok(())
}

/// Destroys an allocator, whatever is in use: its memory is the caller's again. `PB_STATUS_BUSY` while a CPU is
/// taken; the allocator then stays usable.
#[unsafe(no_mangle)]
pub extern "C" fn pb_destroy(allocator: Option<&Allocator>) -> Status {
    allocator.ok_or(Status::Null).and_then(Allocator::end).into()
}

/// Checks whether a text is a policy. If it is not, returns `PB_STATUS_POLICY` and writes the reason (with the
/// allowed names) to `text`, terminated by a zero and truncated to `size` bytes. `text` may be NULL if `size`
/// is 0.
///
/// # Safety
/// `policy` is NULL or ends in a zero; `text` has room for `size` bytes.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn pb_policy_check(
    policy: *const c_char,
    text: *mut c_char,
    size: usize,
) -> Status {
    answer(|| {
        let mut text = Text::new(memory::many_mut(text, size)?);
        parse(policy).map(|_| ()).map_err(|wrong| {
            let _ = match &wrong {
                Wrong::Policy(error) => write!(text, "{error}"),
                other => write!(text, "{other}"),
            };
            wrong.into()
        })
    })
}

/// Checks a setup as `pb_create` does. If it is wrong, returns the status that `pb_create` would return, and writes to
/// `text` which field is wrong, its value and what is allowed, terminated by a zero and truncated to `size` bytes.
/// `text` may be NULL if `size` is 0.
///
/// # Safety
/// The setup's pointers are NULL or point to as many values as it says; `text` has room for `size` bytes.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn pb_setup_check(
    setup: Option<&Setup>,
    text: *mut c_char,
    size: usize,
) -> Status {
    answer(|| {
        let mut text = Text::new(memory::many_mut(text, size)?);
        let checked = setup.ok_or(Status::Null)?.with(|setup| Ok(setup.metadata_size()?));
        checked.map(|_| ()).map_err(|wrong| {
            let _ = write!(text, "{wrong}");
            wrong.into()
        })
    })
}

#[cfg(test)]
mod tests {
    use std::string::{String, ToString};
    use std::{vec, vec::Vec};

    use pageblock::alloc::Allocator as Whole;
    use pageblock::proc::{KernelFormat, ZoneInfo};

    use super::*;
    use crate::extent::{Range, pb_release};

    const FRAMES: u64 = 1 << 15;
    const KERNEL: KernelFormat = KernelFormat::new(6, 12);

    fn zone(start: u64, end: u64, kind: u32) -> Zone {
        Zone { start, end, node: 0, kind }
    }

    fn zoneinfo(allocator: &Whole<'_>) -> String {
        ZoneInfo { allocator, kernel: KERNEL }.to_string()
    }

    /// Creates it through C's functions, in memory that is uninitialised or zero.
    fn by_c(setup: &Setup, zeroed: bool) -> String {
        let mut size = MaybeUninit::uninit();
        let mut memory: Vec<MaybeUninit<u8>>;
        let mut made = MaybeUninit::uninit();
        let all = Range::of(0, FRAMES);
        // SAFETY: the setup's pointers point to what it states, as do the others; outputs are written if the
        // status is `Ok`.
        unsafe {
            assert_eq!(pb_metadata_size(Some(setup), Some(&mut size)), Status::Ok);
            let size = size.assume_init();
            memory = vec![if zeroed { MaybeUninit::new(0) } else { MaybeUninit::uninit() }; size];
            let start = memory.as_mut_ptr().cast();
            let create = if zeroed { pb_create_zeroed } else { pb_create };
            assert_eq!(create(Some(setup), start, size, Some(&mut made)), Status::Ok);
            let allocator = made.assume_init().as_ref();
            assert_eq!(pb_release(Some(allocator), &all, 1), Status::Ok);
            allocator.with_whole(|whole| Ok(zoneinfo(whole))).unwrap()
        }
    }

    #[test]
    fn released_memory_is_tuned_as_at_boot() {
        for policy in [c"linux-3.10", c"linux-4.20", c"linux-6.12,placement=packed"] {
            let zones = [zone(0, 4096, PB_ZONE_DMA32), zone(4096, FRAMES, PB_ZONE_NORMAL)];
            let setup = Setup {
                zones: zones.as_ptr(),
                zone_count: zones.len(),
                cpu_nodes: core::ptr::null(),
                cpu_count: 2,
                distances: core::ptr::null(),
                distance_count: 0,
                policy: policy.as_ptr(),
                pageblock_order: 0,
                max_order: 0,
                page_shift: 0,
            };
            let specs = zones.map(|zone| {
                let spec = zone_spec(0, &zone).ok().unwrap();
                ZoneSpec { managed: spec.present, ..spec }
            });
            let setup_here = pageblock::setup::Setup::new(
                Policy::parse(policy.to_str().unwrap()).unwrap(),
                &specs,
                &[NodeId(0), NodeId(0)],
            );
            let mut memory = vec![MaybeUninit::uninit(); setup_here.metadata_size().unwrap()];
            let mut whole = Whole::new(&mut memory, &setup_here).unwrap();
            whole.release(FrameRange::new(0, FRAMES)).unwrap();
            whole.retune();
            assert_eq!(by_c(&setup, false), zoneinfo(&whole));
            assert_eq!(by_c(&setup, true), zoneinfo(&whole));
        }
    }
}
