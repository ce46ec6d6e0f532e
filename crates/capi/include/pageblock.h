/*
 * Pageblock: a page-frame allocator with the mechanisms of Linux's, in memory that the caller supplies.
 *
 *   pb_metadata_size, pb_create   an allocator, in memory of yours; all frames are reserved
 *   pb_release                    hands frames to it
 *   pb_cpu_take                   each thread takes a CPU, and keeps it
 *   pb_alloc, pb_free             blocks of 2^order frames, freed by any CPU
 *   pb_cpu_give, pb_destroy       the end
 *
 * Every function that can fail gives a pb_status. The library does not touch the frames, allocate,
 * print, start threads or end the process; a panic, which only a defect of its own can cause, aborts.
 * What a CPU does is for one thread at a time; the functions of an allocator are for any thread at
 * any time. Those that need the whole say PB_STATUS_BUSY while a CPU is taken.
 *
 * Made by cbindgen from crates/capi/src: do not edit.
 */

#ifndef PAGEBLOCK_H
#define PAGEBLOCK_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/**
 * Memory below 16 MiB (x86).
 */
#define PB_GFP_BIT_DMA (1 << 0)

/**
 * High memory is allowed.
 */
#define PB_GFP_BIT_HIGHMEM (1 << 1)

/**
 * Memory below 4 GiB.
 */
#define PB_GFP_BIT_DMA32 (1 << 2)

/**
 * The content can be moved.
 */
#define PB_GFP_BIT_MOVABLE (1 << 3)

/**
 * The content can be reclaimed by a shrinker.
 */
#define PB_GFP_BIT_RECLAIMABLE (1 << 4)

/**
 * May use half of the minimum watermark.
 */
#define PB_GFP_BIT_HIGH (1 << 5)

/**
 * Reclaim may start I/O.
 */
#define PB_GFP_BIT_IO (1 << 6)

/**
 * Reclaim may enter the file system.
 */
#define PB_GFP_BIT_FS (1 << 7)

/**
 * The content is to be zero; the caller does that.
 */
#define PB_GFP_BIT_ZERO (1 << 8)

/**
 * An allocation that may not sleep and may use reserves (up to 6.2).
 */
#define PB_GFP_BIT_ATOMIC (1 << 9)

/**
 * The caller may reclaim, compact and wait.
 */
#define PB_GFP_BIT_DIRECT_RECLAIM (1 << 10)

/**
 * kswapd may be woken.
 */
#define PB_GFP_BIT_KSWAPD_RECLAIM (1 << 11)

/**
 * The page will be dirtied: spread over nodes by their dirty limits.
 */
#define PB_GFP_BIT_WRITE (1 << 12)

/**
 * No warning on failure.
 */
#define PB_GFP_BIT_NOWARN (1 << 13)

/**
 * Retry hard, without an OOM kill (`__GFP_REPEAT` up to 4.12).
 */
#define PB_GFP_BIT_RETRY_MAYFAIL (1 << 14)

/**
 * Loop until served.
 */
#define PB_GFP_BIT_NOFAIL (1 << 15)

/**
 * One light round of reclaim only.
 */
#define PB_GFP_BIT_NORETRY (1 << 16)

/**
 * All reserves may be used.
 */
#define PB_GFP_BIT_MEMALLOC (1 << 17)

/**
 * A compound page.
 */
#define PB_GFP_BIT_COMP (1 << 18)

/**
 * No reserves.
 */
#define PB_GFP_BIT_NOMEMALLOC (1 << 19)

/**
 * Only the caller's cpuset.
 */
#define PB_GFP_BIT_HARDWALL (1 << 20)

/**
 * Only the given node.
 */
#define PB_GFP_BIT_THISNODE (1 << 21)

/**
 * Charged to the memory cgroup.
 */
#define PB_GFP_BIT_ACCOUNT (1 << 22)

/**
 * Memory tags are zeroed.
 */
#define PB_GFP_BIT_ZEROTAGS (1 << 23)

/**
 * The page is cold in the cache (up to 4.14).
 */
#define PB_GFP_BIT_COLD (1 << 24)

/**
 * May not spin on a lock (6.15 and later, `alloc_pages_nolock`).
 */
#define PB_GFP_BIT_NOLOCK (1 << 25)

/**
 * Memory-tag initialisation and other bits without an effect on placement.
 */
#define PB_GFP_BIT_OTHER 2147483648

/**
 * No flag.
 */
#define PB_GFP_NONE 0

/**
 * Both reclaim bits.
 */
#define PB_GFP_RECLAIM (PB_GFP_BIT_DIRECT_RECLAIM | PB_GFP_BIT_KSWAPD_RECLAIM)

/**
 * For those who cannot wait: some of the reserves.
 */
#define PB_GFP_ATOMIC (PB_GFP_BIT_HIGH | PB_GFP_BIT_KSWAPD_RECLAIM)

/**
 * For the program itself; stays where it is.
 */
#define PB_GFP_KERNEL (((PB_GFP_BIT_DIRECT_RECLAIM | PB_GFP_BIT_KSWAPD_RECLAIM) | PB_GFP_BIT_IO) | PB_GFP_BIT_FS)

/**
 * As PB_GFP_KERNEL, without waiting.
 */
#define PB_GFP_NOWAIT PB_GFP_BIT_KSWAPD_RECLAIM

/**
 * As PB_GFP_KERNEL, without I/O.
 */
#define PB_GFP_NOIO (PB_GFP_BIT_DIRECT_RECLAIM | PB_GFP_BIT_KSWAPD_RECLAIM)

/**
 * As PB_GFP_KERNEL, without the file system.
 */
#define PB_GFP_NOFS ((PB_GFP_BIT_DIRECT_RECLAIM | PB_GFP_BIT_KSWAPD_RECLAIM) | PB_GFP_BIT_IO)

/**
 * For users.
 */
#define PB_GFP_USER ((((PB_GFP_BIT_DIRECT_RECLAIM | PB_GFP_BIT_KSWAPD_RECLAIM) | PB_GFP_BIT_IO) | PB_GFP_BIT_FS) | PB_GFP_BIT_HARDWALL)

/**
 * For users, from high memory too.
 */
#define PB_GFP_HIGHUSER (((((PB_GFP_BIT_DIRECT_RECLAIM | PB_GFP_BIT_KSWAPD_RECLAIM) | PB_GFP_BIT_IO) | PB_GFP_BIT_FS) | PB_GFP_BIT_HARDWALL) | PB_GFP_BIT_HIGHMEM)

/**
 * For users, from every zone; the content can be moved.
 */
#define PB_GFP_HIGHUSER_MOVABLE ((((((PB_GFP_BIT_DIRECT_RECLAIM | PB_GFP_BIT_KSWAPD_RECLAIM) | PB_GFP_BIT_IO) | PB_GFP_BIT_FS) | PB_GFP_BIT_HARDWALL) | PB_GFP_BIT_HIGHMEM) | PB_GFP_BIT_MOVABLE)

/**
 * A huge page, if there is one.
 */
#define PB_GFP_TRANSHUGE_LIGHT (((((((PB_GFP_BIT_IO | PB_GFP_BIT_FS) | PB_GFP_BIT_HARDWALL) | PB_GFP_BIT_HIGHMEM) | PB_GFP_BIT_MOVABLE) | PB_GFP_BIT_COMP) | PB_GFP_BIT_NOMEMALLOC) | PB_GFP_BIT_NOWARN)

/**
 * A huge page, worth some work.
 */
#define PB_GFP_TRANSHUGE ((((((((PB_GFP_BIT_IO | PB_GFP_BIT_FS) | PB_GFP_BIT_HARDWALL) | PB_GFP_BIT_HIGHMEM) | PB_GFP_BIT_MOVABLE) | PB_GFP_BIT_COMP) | PB_GFP_BIT_NOMEMALLOC) | PB_GFP_BIT_NOWARN) | PB_GFP_BIT_DIRECT_RECLAIM)

/**
 * The largest number of zones: five of each of 64 nodes.
 */
#define PB_MAX_ZONES 320

/**
 * The largest number of CPUs of a setup without `cpu_nodes`.
 */
#define PB_MAX_LOCAL_CPUS 1024

/**
 * Kind of zone: for devices with 24 address lines (x86: below 16 MiB).
 */
#define PB_ZONE_DMA 0

/**
 * Kind of zone: for devices with 32 address lines (below 4 GiB).
 */
#define PB_ZONE_DMA32 1

/**
 * Kind of zone: what every request may use. A pool has one zone, of this kind.
 */
#define PB_ZONE_NORMAL 2

/**
 * Kind of zone: for requests with `PB_GFP_BIT_HIGHMEM`.
 */
#define PB_ZONE_HIGHMEM 3

/**
 * Kind of zone: for requests with `PB_GFP_BIT_HIGHMEM` and `PB_GFP_BIT_MOVABLE`.
 */
#define PB_ZONE_MOVABLE 4

/**
 * For the node of a request: that of the CPU.
 */
#define PB_LOCAL_NODE -1

/**
 * The zone stays above its low watermark, as for every ordinary request.
 */
#define PB_WATERMARK_LOW 0

/**
 * The zone stays above its minimum watermark, as when the kernel has woken reclaim.
 */
#define PB_WATERMARK_MIN 1

/**
 * Down to the last frame.
 */
#define PB_WATERMARK_NONE 2

/**
 * The orders that a setup can have: 0 to 14.
 */
#define PB_ORDERS 15

/**
 * `/proc/buddyinfo`: the free blocks of each order.
 */
#define PB_DUMP_BUDDYINFO 0

/**
 * `/proc/pagetypeinfo`: the free blocks of each order and type.
 */
#define PB_DUMP_PAGETYPEINFO 1

/**
 * `/proc/zoneinfo`, as far as an allocator knows it.
 */
#define PB_DUMP_ZONEINFO 2

/**
 * `/proc/vmstat`, as far as an allocator knows it.
 */
#define PB_DUMP_VMSTAT 3

/**
 * What a function gives. Where it is not `PB_STATUS_OK`, nothing has changed, unless the function's
 * description says so. Numbers are never given anew.
 */
typedef enum pb_status {
    /**
     * All went well.
     */
    PB_STATUS_OK = 0,
    /**
     * No zone can serve the request now. Not a mistake: free something, drain CPUs, ask for less.
     */
    PB_STATUS_NO_MEMORY = 1,
    /**
     * The whole is needed, but a CPU is taken or another thread is at work on it. Not a mistake.
     */
    PB_STATUS_BUSY = 2,
    /**
     * A pointer is NULL that may not be.
     */
    PB_STATUS_NULL = 3,
    /**
     * A number is not among the constants that the parameter takes.
     */
    PB_STATUS_UNKNOWN = 4,
    /**
     * The caller's buffer or memory is too small.
     */
    PB_STATUS_SPACE = 5,
    /**
     * The text is no policy; `pb_policy_check` says why.
     */
    PB_STATUS_POLICY = 6,
    /**
     * There are no zones, no CPUs, or too many.
     */
    PB_STATUS_COUNT = 7,
    /**
     * The zones are not in order of node and kind, or two overlap.
     */
    PB_STATUS_ZONE_ORDER = 8,
    /**
     * A CPU is on a node without a zone.
     */
    PB_STATUS_CPU_NODE = 9,
    /**
     * The pageblock order or the largest order is out of range.
     */
    PB_STATUS_GEOMETRY = 10,
    /**
     * A zone is larger than can be numbered.
     */
    PB_STATUS_TOO_LARGE = 11,
    /**
     * There is no such CPU.
     */
    PB_STATUS_NO_SUCH_CPU = 12,
    /**
     * The CPU is taken already.
     */
    PB_STATUS_CPU_TAKEN = 13,
    /**
     * The CPU was given back, and may not be used any more.
     */
    PB_STATUS_CPU_GIVEN = 14,
    /**
     * There is no such zone.
     */
    PB_STATUS_NO_SUCH_ZONE = 15,
    /**
     * There is no such node.
     */
    PB_STATUS_NO_SUCH_NODE = 16,
    /**
     * The order is larger than the largest.
     */
    PB_STATUS_ORDER_TOO_LARGE = 17,
    /**
     * The request is both movable and reclaimable.
     */
    PB_STATUS_CONFLICTING_MOBILITY = 18,
    /**
     * The frame is in no zone, or is no memory.
     */
    PB_STATUS_FOREIGN = 19,
    /**
     * No block of this order can start at the frame.
     */
    PB_STATUS_MISALIGNED = 20,
    /**
     * No block in use starts at the frame: freed twice, or never allocated.
     */
    PB_STATUS_NOT_ALLOCATED = 21,
    /**
     * The block in use has another order.
     */
    PB_STATUS_WRONG_ORDER = 22,
    /**
     * Frames of the block are in use.
     */
    PB_STATUS_NOT_FREE = 23,
    /**
     * The frame is free, but in a CPU's cache, which has to be drained first.
     */
    PB_STATUS_ON_CPU_LIST = 24,
    /**
     * The frame was never released to the allocator, or was taken from it.
     */
    PB_STATUS_RESERVED = 25,
    /**
     * The pageblock is isolated: someone else works there.
     */
    PB_STATUS_ISOLATED = 26,
    /**
     * The request may not use the zone of the frame.
     */
    PB_STATUS_ZONE_NOT_ALLOWED = 27,
    /**
     * The range is empty, or no page is asked for.
     */
    PB_STATUS_EMPTY = 28,
    /**
     * The alignment is no power of two.
     */
    PB_STATUS_ALIGNMENT = 29,
    /**
     * The range is not all in one zone.
     */
    PB_STATUS_SPANS_ZONES = 30,
    /**
     * A pageblock of the range is cut by the end of its zone.
     */
    PB_STATUS_CUT_PAGEBLOCK = 31,
    /**
     * A block in use in the range cannot be moved.
     */
    PB_STATUS_UNMOVABLE = 32,
    /**
     * There is no memory to move a block to.
     */
    PB_STATUS_NO_TARGET = 33,
    /**
     * The caller's function did not move a block that it called movable.
     */
    PB_STATUS_NOT_MOVED = 34,
    /**
     * The range does not consist of whole pageblocks.
     */
    PB_STATUS_NOT_PAGEBLOCKS = 35,
    /**
     * Frames of the range are not in the state that the function changes.
     */
    PB_STATUS_WRONG_STATE = 36,
    /**
     * No range of this size and alignment can be had.
     */
    PB_STATUS_NOT_FOUND = 37,
    /**
     * The state contradicts itself: a defect, or something wrote to the allocator's memory.
     */
    PB_STATUS_VIOLATION = 38,
    /**
     * An error without a number of its own.
     */
    PB_STATUS_OTHER = 39,
} pb_status;

/**
 * An allocator, in memory that the caller supplied. Any thread may use it at any time.
 */
typedef struct pb_allocator pb_allocator;

/**
 * A CPU that was taken: the owner of its caches. One thread at a time may use it, and threads can
 * hand it on.
 */
typedef struct pb_cpu pb_cpu;

/**
 * A zone: a range of frames, whose memory is all reserved until `pb_release`. A frame number is a
 * physical address, or an offset into a pool, divided by the page size; the library never touches
 * the frames.
 */
typedef struct pb_zone {
    /**
     * The first frame.
     */
    uint64_t start;
    /**
     * The frame after the last.
     */
    uint64_t end;
    /**
     * The node, 0 to 63.
     */
    uint32_t node;
    /**
     * A `PB_ZONE_` constant.
     */
    uint32_t kind;
} pb_zone;

/**
 * What an allocator is made for. Zero in what is not needed.
 */
typedef struct pb_setup {
    /**
     * The zones, by node and then by kind.
     */
    const struct pb_zone *zones;
    /**
     * Their number.
     */
    size_t zone_count;
    /**
     * The node of each CPU; NULL: all on node 0.
     */
    const uint8_t *cpu_nodes;
    /**
     * The number of CPUs.
     */
    size_t cpu_count;
    /**
     * The distances between nodes, row by row; NULL: 10 at home, 20 elsewhere.
     */
    const uint8_t *distances;
    /**
     * The number of distances: that of nodes, squared, or 0.
     */
    size_t distance_count;
    /**
     * `NAME,switch=value,...`, such as "linux-6.12,placement=packed".
     */
    const char *policy;
    /**
     * The order of a pageblock; 0: 9, which is 2 MiB in pages of 4 KiB.
     */
    uint32_t pageblock_order;
    /**
     * The largest order of a block; 0: 10. At most 14.
     */
    uint32_t max_order;
} pb_setup;

/**
 * Frames from `start` up to, not including, `end`.
 */
typedef struct pb_range {
    /**
     * The first frame.
     */
    uint64_t start;
    /**
     * The frame after the last.
     */
    uint64_t end;
} pb_range;

/**
 * How the contents of blocks in use are moved. Where the whole is worked on, the functions may not call
 * those of the same allocator, which say `PB_STATUS_BUSY` meanwhile. Where a CPU does the work, they may
 * not use that CPU, and `is_movable` nothing of the allocator: a zone's lock is held.
 */
typedef struct pb_migrate {
    /**
     * Tells whether the content of a block can be moved.
     */
    bool (*is_movable)(void *context, uint64_t block, uint32_t order);
    /**
     * Moves the content of a block to another, and lets everyone who used the first use the second;
     * the first is freed then, by the allocator. Where it gives false, the second is.
     */
    bool (*migrate)(void *context, uint64_t from, uint64_t to, uint32_t order);
    /**
     * What all are given.
     */
    void *context;
    /**
     * Asked for by `pb_cpu_alloc_contig`, `pb_cpu_alloc_contig_range` and `pb_cpu_offline` again and again,
     * while a CPU that others have has not given back its frames yet (which it does at its next call).
     * False, or NULL, ends the waiting: `PB_STATUS_BUSY`.
     */
    bool (*wait_for)(void *context, size_t cpu);
} pb_migrate;

/**
 * A request in full. Zero means no preference, but for the node.
 */
typedef struct pb_request {
    /**
     * The order: 2^order pages.
     */
    uint32_t order;
    /**
     * `PB_GFP_` constants.
     */
    uint32_t gfp;
    /**
     * The node to start from, or `PB_LOCAL_NODE`.
     */
    int32_t node;
    /**
     * A `PB_WATERMARK_` constant: how much is left to others.
     */
    uint32_t watermark;
    /**
     * The nodes that may be used, one bit each; 0: all.
     */
    uint64_t nodes;
} pb_request;

/**
 * A request to a CPU; its fields are the library's.
 */
typedef struct pb_drain {
    size_t cpu;
    uint32_t number;
    uint32_t generation;
} pb_drain;

/**
 * A zone, at one instant; all sizes are in pages.
 */
typedef struct pb_zone_info {
    /**
     * The first frame.
     */
    uint64_t start;
    /**
     * The frame after the last.
     */
    uint64_t end;
    /**
     * Frames that are memory.
     */
    uint64_t present;
    /**
     * Frames that were released to the allocator.
     */
    uint64_t managed;
    /**
     * Free frames, without those in CPUs' caches and in isolated pageblocks.
     */
    uint64_t free;
    /**
     * The minimum watermark.
     */
    uint64_t min;
    /**
     * The low watermark, which ordinary requests leave free.
     */
    uint64_t low;
    /**
     * The high watermark.
     */
    uint64_t high;
    /**
     * The free blocks of each order.
     */
    uint64_t free_blocks[PB_ORDERS];
    /**
     * The node.
     */
    uint32_t node;
    /**
     * A `PB_ZONE_` constant.
     */
    uint32_t kind;
} pb_zone_info;

/**
 * What was counted in a zone since the allocator was made.
 */
typedef struct pb_zone_counters {
    /**
     * Pages allocated.
     */
    uint64_t allocated;
    /**
     * Pages freed.
     */
    uint64_t freed;
    /**
     * How often the zone's lock was taken.
     */
    uint64_t locked;
    /**
     * Free lists looked at in the search for a block.
     */
    uint64_t list_probes;
} pb_zone_counters;

#ifdef __cplusplus
extern "C" {
#endif // __cplusplus

/**
 * The text of a status, which lives for ever; of a number that is none too. Never NULL.
 */
const char *pb_strerror(int32_t status);

/**
 * Says how much memory `pb_create` needs, in bytes: nine for each frame of the zones' spans, one for
 * each pageblock, and some for each zone and CPU. Uses up to 20 KiB of stack, as `pb_create` does.
 *
 * Promise: The setup's pointers are NULL or point to as many values as it says.
 */
enum pb_status pb_metadata_size(const struct pb_setup *setup,
                                size_t *size);

/**
 * Makes an allocator in memory of the caller's, of any alignment, which has to stay where it is and
 * is the allocator's until `pb_destroy`. The setup is not needed afterwards. All frames are reserved
 * at first: go on with `pb_release`.
 *
 * Promise: The setup's pointers are NULL or point to as many values as it says; `memory` is NULL or points to
 * `size` bytes that nobody else uses.
 */
enum pb_status pb_create(const struct pb_setup *setup,
                         void *memory,
                         size_t size,
                         struct pb_allocator **allocator);

/**
 * The same in memory all of whose bytes have values, whichever, as pages have that come zeroed from an
 * operating system (`mmap`, `calloc`): eight of a frame's nine bytes are not touched before the frame is
 * the first of a free block, so that pages of them need not be there. For 64 GiB of frames it takes half
 * the time of `pb_create` where the memory is new to the process.
 *
 * Promise: As for `pb_create`; every byte of the memory has a value.
 */
enum pb_status pb_create_zeroed(const struct pb_setup *setup,
                                void *memory,
                                size_t size,
                                struct pb_allocator **allocator);

/**
 * Ends an allocator, whatever is in use: its memory is the caller's again. `PB_STATUS_BUSY` while a
 * CPU is taken; the allocator goes on then.
 */
enum pb_status pb_destroy(struct pb_allocator *allocator);

/**
 * Tells whether a text is a policy. Where it is not, `PB_STATUS_POLICY`, and the reason (with all
 * names that would do) stands in `text`, with a zero at its end; it is cut where `size` bytes do not
 * hold it. `text` may be NULL if `size` is 0.
 *
 * Promise: `policy` is NULL or ends in a zero; `text` has room for `size` bytes.
 */
enum pb_status pb_policy_check(const char *policy,
                               char *text,
                               size_t size);

/**
 * Hands reserved memory to the allocator, and tunes watermarks and caches for it. At the start give
 * all of it in one call, from low to high, as a kernel does at boot; later calls add memory. For
 * frames that are not reserved, `PB_STATUS_WRONG_STATE`.
 *
 * Promise: `ranges` points to `count` ranges.
 */
enum pb_status pb_release(struct pb_allocator *allocator,
                          const struct pb_range *ranges,
                          size_t count);

/**
 * Takes memory of one zone from the allocator: it is reserved then. The range consists of whole
 * pageblocks, but for the ends of the zone. What is in use there is moved by `migrate` (may be NULL),
 * to memory that CPU `cpu` allocates, which is not taken.
 */
enum pb_status pb_offline(struct pb_allocator *allocator,
                          size_t cpu,
                          uint64_t start,
                          uint64_t end,
                          const struct pb_migrate *migrate);

/**
 * Takes memory away as `pb_offline` does, by a CPU, while others work. Their caches are asked for the
 * frames in them (`wait_for` of `migrate`), as by `pb_cpu_alloc_contig`.
 */
enum pb_status pb_cpu_offline(struct pb_cpu *cpu,
                              uint64_t start,
                              uint64_t end,
                              const struct pb_migrate *migrate);

/**
 * Hands reserved memory of one zone to the allocator, whether CPUs are taken or not; `PB_STATUS_BUSY` only
 * while another works on the whole. CPUs have the new limits of their caches from their next call on.
 */
enum pb_status pb_online(struct pb_allocator *allocator,
                         uint64_t start,
                         uint64_t end);

/**
 * Says that reserved frames of one zone are no memory (any more). Otherwise as `pb_online`.
 */
enum pb_status pb_mark_holes(struct pb_allocator *allocator, uint64_t start, uint64_t end);

/**
 * Says that holes of one zone are memory now, which is reserved at first. Otherwise as `pb_online`.
 */
enum pb_status pb_fill_holes(struct pb_allocator *allocator, uint64_t start, uint64_t end);

/**
 * Takes a CPU, whose caches are its taker's until `pb_cpu_give`. `PB_STATUS_CPU_TAKEN` where somebody
 * has it. A thread takes one and keeps it; there may be as many as wanted, whatever the machine has.
 */
enum pb_status pb_cpu_take(struct pb_allocator *allocator,
                           size_t number,
                           struct pb_cpu **cpu);

/**
 * Gives a CPU back; its caches keep their frames for the next one to take it. The pointer may not be
 * used any more: until somebody takes the CPU again, functions say `PB_STATUS_CPU_GIVEN`.
 *
 * Promise: `cpu` is NULL or came from `pb_cpu_take`, its allocator lives, and no other thread uses it.
 */
enum pb_status pb_cpu_give(struct pb_cpu *cpu);

/**
 * Allocates 2^order pages; `frame` is the first. `PB_STATUS_NO_MEMORY` where no zone has such a block
 * above its low watermark.
 */
enum pb_status pb_alloc(struct pb_cpu *cpu,
                        uint32_t order,
                        uint32_t gfp,
                        uint64_t *frame);

/**
 * Allocates as `pb_alloc` does, with all that a request can say.
 */
enum pb_status pb_alloc_request(struct pb_cpu *cpu,
                                const struct pb_request *request,
                                uint64_t *frame);

/**
 * Frees a block that any CPU allocated. A mistake (freed twice, wrong order, foreign frame) is an
 * error that changes nothing, unless two threads free one block at the same instant: see the module
 * `sharing` of the Rust documentation.
 */
enum pb_status pb_free(struct pb_cpu *cpu, uint64_t frame, uint32_t order);

/**
 * Splits a block in use into blocks of the order `into`, each to be freed by itself.
 */
enum pb_status pb_split(struct pb_cpu *cpu, uint64_t frame, uint32_t order, uint32_t into);

/**
 * Says whether the content of a block in use can be moved. A new block counts as movable if its
 * request was.
 */
enum pb_status pb_set_movable(struct pb_cpu *cpu, uint64_t frame, bool movable);

/**
 * Lets caches shrink that were filled by a burst (kernel 6.7 and later); to be called about once a
 * second.
 */
enum pb_status pb_cpu_tick(struct pb_cpu *cpu);

/**
 * Allocates up to `count` blocks of 2^order pages into `frames`; `got` is how many. An error only
 * where not even one could be had. Entries past those are 0.
 *
 * Promise: `frames` has room for `count` numbers.
 */
enum pb_status pb_alloc_bulk(struct pb_cpu *cpu,
                             uint32_t order,
                             uint32_t gfp,
                             uint64_t *frames,
                             size_t count,
                             size_t *got);

/**
 * Frees `count` blocks of one order. At the first mistake it stops: `freed` (may be NULL) blocks are
 * free then, the others are as they were.
 *
 * Promise: `frames` points to `count` numbers.
 */
enum pb_status pb_free_bulk(struct pb_cpu *cpu,
                            const uint64_t *frames,
                            size_t count,
                            uint32_t order,
                            size_t *freed);

/**
 * Allocates the block that starts at a frame, if all of it is free and the zone stays above its low
 * watermark. A frame in a CPU's cache is not: drain it first.
 */
enum pb_status pb_alloc_at(struct pb_cpu *cpu, uint64_t frame, uint32_t order, uint32_t gfp);

/**
 * Allocates the lowest free block that lies in the frames from `start` up to, not including, `end`.
 * Takes time linear in the blocks before it.
 */
enum pb_status pb_alloc_within(struct pb_cpu *cpu,
                               uint64_t start,
                               uint64_t end,
                               uint32_t order,
                               uint32_t gfp,
                               uint64_t *frame);

/**
 * Gives every frame of a CPU's own caches back to the zones.
 */
enum pb_status pb_cpu_drain(struct pb_cpu *cpu);

/**
 * Does what other threads asked of a CPU. All functions that allocate or free by it do so too; a CPU
 * that does that rarely calls this now and then.
 */
enum pb_status pb_cpu_attend(struct pb_cpu *cpu);

/**
 * Asks for all frames of a CPU's caches: those of a CPU that is not taken come back now, of another
 * at its next call, or when it is given back. `pb_is_drained` tells when.
 */
enum pb_status pb_request_drain(struct pb_allocator *allocator,
                                size_t cpu,
                                struct pb_drain *drain);

/**
 * Tells whether a request was honoured.
 */
enum pb_status pb_is_drained(struct pb_allocator *allocator,
                             const struct pb_drain *drain,
                             bool *drained);

/**
 * Asks all CPUs, as `pb_request_drain` does one; `waiting` (may be NULL) is how many are taken and
 * have not done it yet.
 */
enum pb_status pb_drain_all(struct pb_allocator *allocator, size_t *waiting);

/**
 * Allocates `pages` contiguous frames that start at a multiple of `align` frames, in a zone that the
 * flags allow, for a CPU that is not taken (whose node comes first). With `migrate` (may be NULL) what
 * is in the way is moved. Where it fails, what was moved stays moved.
 */
enum pb_status pb_alloc_contig(struct pb_allocator *allocator,
                               size_t cpu,
                               uint64_t pages,
                               uint64_t align,
                               uint32_t gfp,
                               const struct pb_migrate *migrate,
                               uint64_t *start);

/**
 * Allocates the frames from `start` up to, not including, `end`, which lie in one zone. Otherwise as
 * `pb_alloc_contig`.
 */
enum pb_status pb_alloc_contig_range(struct pb_allocator *allocator,
                                     size_t cpu,
                                     uint64_t start,
                                     uint64_t end,
                                     const struct pb_migrate *migrate);

/**
 * Frees such a range, to the caches of a CPU that is not taken and to the zone.
 */
enum pb_status pb_free_contig(struct pb_allocator *allocator,
                              size_t cpu,
                              uint64_t start,
                              uint64_t end);

/**
 * Allocates as `pb_alloc_contig` does, by a CPU, while others work. Their caches are asked for the frames
 * in them (`wait_for` of `migrate`). Nobody may free a block while it is being moved; of one that was freed
 * before, `migrate` says false. What others do meanwhile can make it fail where it would succeed the
 * next time.
 */
enum pb_status pb_cpu_alloc_contig(struct pb_cpu *cpu,
                                   uint64_t pages,
                                   uint64_t align,
                                   uint32_t gfp,
                                   const struct pb_migrate *migrate,
                                   uint64_t *start);

/**
 * Allocates the frames from `start` up to, not including, `end`, which lie in one zone. Otherwise as
 * `pb_cpu_alloc_contig`.
 */
enum pb_status pb_cpu_alloc_contig_range(struct pb_cpu *cpu,
                                         uint64_t start,
                                         uint64_t end,
                                         const struct pb_migrate *migrate);

/**
 * Frees a range that one of the functions above gave, to the CPU's caches and to the zone.
 */
enum pb_status pb_cpu_free_contig(struct pb_cpu *cpu, uint64_t start, uint64_t end);

/**
 * The state of a zone, by its place in the setup; exact, at any time.
 */
enum pb_status pb_zone_state(struct pb_allocator *allocator,
                             size_t zone,
                             struct pb_zone_info *state);

/**
 * The free frames of a zone, without its lock: they may lag by what a CPU moves just now.
 */
enum pb_status pb_free_pages(struct pb_allocator *allocator, size_t zone, uint64_t *pages);

/**
 * What a zone and all CPUs in it counted. `PB_STATUS_BUSY` while a CPU is taken.
 */
enum pb_status pb_counters(struct pb_allocator *allocator,
                           size_t zone,
                           struct pb_zone_counters *counters);

/**
 * Verifies everything: each frame accounted for once, lists against blocks, counters against lists.
 * `PB_STATUS_VIOLATION` where that fails; `text` (may be NULL if `size` is 0) says where, with a zero
 * at its end. Takes time linear in the frames. `PB_STATUS_BUSY` while a CPU is taken.
 *
 * Promise: `text` has room for `size` bytes.
 */
enum pb_status pb_check(struct pb_allocator *allocator,
                        char *text,
                        size_t size);

/**
 * Verifies the zones, one after the other, while CPUs work; otherwise as `pb_check`.
 *
 * Promise: `text` has room for `size` bytes.
 */
enum pb_status pb_check_zones(struct pb_allocator *allocator, char *text, size_t size);

/**
 * Verifies a CPU's own caches while others work; otherwise as `pb_check`.
 *
 * Promise: `text` has room for `size` bytes.
 */
enum pb_status pb_cpu_check(struct pb_cpu *cpu, char *text, size_t size);

/**
 * Writes the state in the format of a file of `/proc`, as kernel `major.minor` prints it, with a zero
 * at its end. `length` (may be NULL) is that of the whole text, without the zero. Where `size` bytes
 * do not hold it, `PB_STATUS_SPACE`, and the text is cut. `text` may be NULL if `size` is 0.
 * `PB_STATUS_BUSY` while a CPU is taken; `pb_zone_state` has such numbers at any time.
 *
 * Promise: `text` has room for `size` bytes.
 */
enum pb_status pb_dump(struct pb_allocator *allocator,
                       uint32_t what,
                       uint32_t major,
                       uint32_t minor,
                       char *text,
                       size_t size,
                       size_t *length);

/**
 * Says what a thread does now and then while it waits for a lock, such as calling `sched_yield`, for
 * all allocators of the program. NULL, as at the start: it only spins, as a kernel wants it.
 */
void pb_set_relax(void (*relax)(void));

#ifdef __cplusplus
}  // extern "C"
#endif  // __cplusplus

#endif  /* PAGEBLOCK_H */
