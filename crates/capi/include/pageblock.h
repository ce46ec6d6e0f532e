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
 * May use half of the min watermark.
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
 * The content should be zeroed, which is up to the caller.
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
 * Only one light round of reclaim.
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
 * For callers that cannot wait: may use part of the reserves.
 */
#define PB_GFP_ATOMIC (PB_GFP_BIT_HIGH | PB_GFP_BIT_KSWAPD_RECLAIM)

/**
 * For the kernel itself; unmovable.
 */
#define PB_GFP_KERNEL (((PB_GFP_BIT_DIRECT_RECLAIM | PB_GFP_BIT_KSWAPD_RECLAIM) | PB_GFP_BIT_IO) | PB_GFP_BIT_FS)

/**
 * Like PB_GFP_KERNEL, without waiting.
 */
#define PB_GFP_NOWAIT PB_GFP_BIT_KSWAPD_RECLAIM

/**
 * Like PB_GFP_KERNEL, without I/O.
 */
#define PB_GFP_NOIO (PB_GFP_BIT_DIRECT_RECLAIM | PB_GFP_BIT_KSWAPD_RECLAIM)

/**
 * Like PB_GFP_KERNEL, without entering file systems.
 */
#define PB_GFP_NOFS ((PB_GFP_BIT_DIRECT_RECLAIM | PB_GFP_BIT_KSWAPD_RECLAIM) | PB_GFP_BIT_IO)

/**
 * For user memory.
 */
#define PB_GFP_USER ((((PB_GFP_BIT_DIRECT_RECLAIM | PB_GFP_BIT_KSWAPD_RECLAIM) | PB_GFP_BIT_IO) | PB_GFP_BIT_FS) | PB_GFP_BIT_HARDWALL)

/**
 * For user memory, also from high memory.
 */
#define PB_GFP_HIGHUSER (((((PB_GFP_BIT_DIRECT_RECLAIM | PB_GFP_BIT_KSWAPD_RECLAIM) | PB_GFP_BIT_IO) | PB_GFP_BIT_FS) | PB_GFP_BIT_HARDWALL) | PB_GFP_BIT_HIGHMEM)

/**
 * For movable user memory, from every zone.
 */
#define PB_GFP_HIGHUSER_MOVABLE ((((((PB_GFP_BIT_DIRECT_RECLAIM | PB_GFP_BIT_KSWAPD_RECLAIM) | PB_GFP_BIT_IO) | PB_GFP_BIT_FS) | PB_GFP_BIT_HARDWALL) | PB_GFP_BIT_HIGHMEM) | PB_GFP_BIT_MOVABLE)

/**
 * For a huge page, if one is available without effort.
 */
#define PB_GFP_TRANSHUGE_LIGHT (((((((PB_GFP_BIT_IO | PB_GFP_BIT_FS) | PB_GFP_BIT_HARDWALL) | PB_GFP_BIT_HIGHMEM) | PB_GFP_BIT_MOVABLE) | PB_GFP_BIT_COMP) | PB_GFP_BIT_NOMEMALLOC) | PB_GFP_BIT_NOWARN)

/**
 * For a huge page, with reclaim and compaction.
 */
#define PB_GFP_TRANSHUGE ((((((((PB_GFP_BIT_IO | PB_GFP_BIT_FS) | PB_GFP_BIT_HARDWALL) | PB_GFP_BIT_HIGHMEM) | PB_GFP_BIT_MOVABLE) | PB_GFP_BIT_COMP) | PB_GFP_BIT_NOMEMALLOC) | PB_GFP_BIT_NOWARN) | PB_GFP_BIT_DIRECT_RECLAIM)

/**
 * The maximum number of zones: five on each of 64 nodes.
 */
#define PB_MAX_ZONES 320

/**
 * The maximum number of CPUs of a setup without `cpu_nodes`.
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
 * Kind of zone: usable by every request. A pool has one zone, of this kind.
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
 * The node of a request: that of the CPU.
 */
#define PB_LOCAL_NODE -1

/**
 * The zone stays above its low watermark, as for ordinary requests.
 */
#define PB_WATERMARK_LOW 0

/**
 * The zone stays above its min watermark, as for requests that have woken kswapd.
 */
#define PB_WATERMARK_MIN 1

/**
 * The zone may be used up to its last frame.
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
 * The result of a function. If it is not `PB_STATUS_OK`, nothing has changed, unless the function's
 * description says otherwise. Numbers are never reused.
 */
typedef enum pb_status {
    /**
     * Success.
     */
    PB_STATUS_OK = 0,
    /**
     * No zone can serve the request now. Not an error of the caller: free memory, drain CPUs, or request less.
     */
    PB_STATUS_NO_MEMORY = 1,
    /**
     * Exclusive access is needed, but a CPU is taken or another thread has exclusive access. Not an error of
     * the caller.
     */
    PB_STATUS_BUSY = 2,
    /**
     * A pointer that must not be NULL is NULL.
     */
    PB_STATUS_NULL = 3,
    /**
     * A number is not one of the parameter's constants.
     */
    PB_STATUS_UNKNOWN = 4,
    /**
     * The caller's buffer or memory is too small.
     */
    PB_STATUS_SPACE = 5,
    /**
     * The text is not a policy; `pb_policy_check` says why.
     */
    PB_STATUS_POLICY = 6,
    /**
     * There are no zones, no CPUs, or too many.
     */
    PB_STATUS_COUNT = 7,
    /**
     * The zones are not in order of node and kind, two overlap, or a node is beyond 63.
     */
    PB_STATUS_ZONE_ORDER = 8,
    /**
     * A CPU is on a node without a zone.
     */
    PB_STATUS_CPU_NODE = 9,
    /**
     * The pageblock order, the largest order or the page size is out of range.
     */
    PB_STATUS_GEOMETRY = 10,
    /**
     * A zone is larger than the supported maximum.
     */
    PB_STATUS_TOO_LARGE = 11,
    /**
     * No such CPU.
     */
    PB_STATUS_NO_SUCH_CPU = 12,
    /**
     * The CPU is already taken.
     */
    PB_STATUS_CPU_TAKEN = 13,
    /**
     * The CPU was given back, and may not be used any more.
     */
    PB_STATUS_CPU_GIVEN = 14,
    /**
     * No such zone.
     */
    PB_STATUS_NO_SUCH_ZONE = 15,
    /**
     * No such node.
     */
    PB_STATUS_NO_SUCH_NODE = 16,
    /**
     * The order is larger than the maximum.
     */
    PB_STATUS_ORDER_TOO_LARGE = 17,
    /**
     * The request is both movable and reclaimable.
     */
    PB_STATUS_CONFLICTING_MOBILITY = 18,
    /**
     * The frame is in no zone, or is a hole.
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
     * The frame is free, but in a CPU's cache, which must be drained first.
     */
    PB_STATUS_ON_CPU_LIST = 24,
    /**
     * The frame was never released to the allocator, or was taken from it.
     */
    PB_STATUS_RESERVED = 25,
    /**
     * The pageblock is isolated by another operation.
     */
    PB_STATUS_ISOLATED = 26,
    /**
     * The request may not use the zone of the frame.
     */
    PB_STATUS_ZONE_NOT_ALLOWED = 27,
    /**
     * The range is empty, or no page is requested.
     */
    PB_STATUS_EMPTY = 28,
    /**
     * The alignment is not a power of two.
     */
    PB_STATUS_ALIGNMENT = 29,
    /**
     * The range is not within one zone.
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
     * There is no free memory to move a block to.
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
     * The function does not apply to the state of some frames of the range.
     */
    PB_STATUS_WRONG_STATE = 36,
    /**
     * No range of this size and alignment is available.
     */
    PB_STATUS_NOT_FOUND = 37,
    /**
     * The state is inconsistent: a defect, or something overwrote the allocator's memory.
     */
    PB_STATUS_VIOLATION = 38,
    /**
     * An error without a number of its own.
     */
    PB_STATUS_OTHER = 39,
    /**
     * The distances are not 10 within a node and more between nodes, or not one for each pair of nodes.
     */
    PB_STATUS_DISTANCES = 40,
} pb_status;

/**
 * An allocator in memory that the caller supplied. Any thread may use it at any time.
 */
typedef struct pb_allocator pb_allocator;

/**
 * A taken CPU: the owner of its caches. One thread at a time may use it, and threads can pass it on.
 */
typedef struct pb_cpu pb_cpu;

/**
 * A zone: a range of frames, whose memory is all reserved until `pb_release`. A frame number is a physical
 * address, or an offset into a pool, divided by the page size; the library never accesses the frames.
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
 * The properties of a new allocator. Unneeded fields are zero.
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
     * The node of each CPU; NULL means that all are on node 0.
     */
    const uint8_t *cpu_nodes;
    /**
     * The number of CPUs.
     */
    size_t cpu_count;
    /**
     * The distances between nodes, row by row; NULL means 10 to the same node, 20 to others.
     */
    const uint8_t *distances;
    /**
     * The number of distances: the number of nodes squared, or 0.
     */
    size_t distance_count;
    /**
     * `NAME,switch=value,...`, such as "linux-6.12"; NULL means "default", which has the smaller tables and keeps
     * only `min_free_kbytes` free ("default,min_free_kbytes=1024"). PB_GFP_ATOMIC may take half of these.
     */
    const char *policy;
    /**
     * The order of a pageblock; 0 means 9, which is 2 MiB in pages of 4 KiB.
     */
    uint32_t pageblock_order;
    /**
     * The largest order of a block; 0 means 10. At most 14.
     */
    uint32_t max_order;
    /**
     * The base-2 logarithm of a page's size in bytes; 0 means 12, which is 4 KiB. From 10 to 30. Watermarks, which
     * policies state in kilobytes, are converted with it.
     */
    uint32_t page_shift;
} pb_setup;

/**
 * The frames from `start` up to, not including, `end`.
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
 * How the contents of blocks in use are moved. In exclusive calls, the functions may not call functions of the
 * same allocator, which return `PB_STATUS_BUSY` meanwhile. In calls by a CPU, they may not use that CPU, and
 * `is_movable` may not use the allocator at all, as a zone's lock is held.
 */
typedef struct pb_migrate {
    /**
     * Returns whether the content of a block can be moved.
     */
    bool (*is_movable)(void *context, uint64_t block, uint32_t order);
    /**
     * Moves the content of a block to another, and redirects all users of the first to the second; the
     * allocator then frees the first. If it returns false, the allocator frees the second.
     */
    bool (*migrate)(void *context, uint64_t from, uint64_t to, uint32_t order);
    /**
     * The first argument of all functions.
     */
    void *context;
    /**
     * Called repeatedly by `pb_cpu_alloc_contig`, `pb_cpu_alloc_contig_range` and `pb_cpu_offline` while a CPU
     * that is taken has not yet returned its frames (which it does at its next call). If it returns false, or
     * is NULL, the wait ends with `PB_STATUS_BUSY`.
     */
    bool (*wait_for)(void *context, size_t cpu);
} pb_migrate;

/**
 * A request with all options. Zero means no preference, except for the node.
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
     * A `PB_WATERMARK_` constant: how many pages stay free.
     */
    uint32_t watermark;
    /**
     * The nodes that may be used, one bit each; 0 means all.
     */
    uint64_t nodes;
} pb_request;

/**
 * A drain request to a CPU; its fields are private to the library.
 */
typedef struct pb_drain {
    size_t cpu;
    uint32_t number;
    uint32_t generation;
} pb_drain;

/**
 * The state of a zone at one instant; all sizes are in pages.
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
     * The min watermark.
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
 * Counts of a zone since the allocator was created.
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
     * Acquisitions of the zone's lock.
     */
    uint64_t locked;
    /**
     * Free lists checked in the search for a block.
     */
    uint64_t list_probes;
} pb_zone_counters;

#ifdef __cplusplus
extern "C" {
#endif // __cplusplus

/**
 * Returns the text of a status, which is static, also for an unknown number. Never NULL.
 */
const char *pb_strerror(int32_t status);

/**
 * Returns the memory that `pb_create` needs, in bytes: half of one for each frame of the zones' spans (nine under policies of Linux), two for each
 * pageblock, and some for each zone and CPU. Uses up to 20 KiB of stack, as does `pb_create`.
 *
 * Promise: The setup's pointers are NULL or point to as many values as it says.
 */
enum pb_status pb_metadata_size(const struct pb_setup *setup,
                                size_t *size);

/**
 * Creates an allocator in memory of the caller's, of any alignment, which must stay in place and belongs to
 * the allocator until `pb_destroy`. The setup is not needed afterwards. All frames are reserved at first; the
 * next step is `pb_release`.
 *
 * Promise: The setup's pointers are NULL or point to as many values as it says; `memory` is NULL or points to
 * `size` bytes that nobody else uses.
 */
enum pb_status pb_create(const struct pb_setup *setup,
                         void *memory,
                         size_t size,
                         struct pb_allocator **allocator);

/**
 * Does the same in memory whose bytes are all initialised, to any values, such as zeroed pages from an
 * operating system (`mmap`, `calloc`). Where a frame has nine bytes, eight are not accessed before the frame is the
 * first of a free block, so their pages need not be mapped. For 64 GiB of frames this takes half the time of
 * `pb_create` if the memory is new to the process.
 *
 * Promise: As for `pb_create`; every byte of the memory is initialised.
 */
enum pb_status pb_create_zeroed(const struct pb_setup *setup,
                                void *memory,
                                size_t size,
                                struct pb_allocator **allocator);

/**
 * Destroys an allocator, whatever is in use: its memory is the caller's again. `PB_STATUS_BUSY` while a CPU is
 * taken; the allocator then stays usable.
 */
enum pb_status pb_destroy(struct pb_allocator *allocator);

/**
 * Checks whether a text is a policy. If it is not, returns `PB_STATUS_POLICY` and writes the reason (with the
 * allowed names) to `text`, terminated by a zero and truncated to `size` bytes. `text` may be NULL if `size`
 * is 0.
 *
 * Promise: `policy` is NULL or ends in a zero; `text` has room for `size` bytes.
 */
enum pb_status pb_policy_check(const char *policy,
                               char *text,
                               size_t size);

/**
 * Checks a setup as `pb_create` does. If it is wrong, returns the status that `pb_create` would return, and writes to
 * `text` which field is wrong, its value and what is allowed, terminated by a zero and truncated to `size` bytes.
 * `text` may be NULL if `size` is 0.
 *
 * Promise: The setup's pointers are NULL or point to as many values as it says; `text` has room for `size` bytes.
 */
enum pb_status pb_setup_check(const struct pb_setup *setup,
                              char *text,
                              size_t size);

/**
 * Releases reserved memory to the allocator, and tunes watermarks and caches for it. At the start release all
 * memory in one call, from low to high, as a kernel does at boot; later calls add memory.
 * `PB_STATUS_WRONG_STATE` for frames that are not reserved.
 *
 * Promise: `ranges` points to `count` ranges.
 */
enum pb_status pb_release(struct pb_allocator *allocator,
                          const struct pb_range *ranges,
                          size_t count);

/**
 * Assigns whole pageblocks of reserved memory to a contiguous memory area (CMA), before they are released: only
 * movable blocks are put there, so that `pb_cpu_alloc_contig_range` can empty it. Release them apart from other memory.
 */
enum pb_status pb_reserve_cma(struct pb_allocator *allocator,
                              uint64_t start,
                              uint64_t end);

/**
 * Takes memory of one zone from the allocator, so that it is reserved. The range consists of whole pageblocks,
 * except at the ends of the zone. Blocks in use are moved by `migrate` (may be NULL) to memory that CPU `cpu`
 * allocates, which must not be taken.
 */
enum pb_status pb_offline(struct pb_allocator *allocator,
                          size_t cpu,
                          uint64_t start,
                          uint64_t end,
                          const struct pb_migrate *migrate);

/**
 * Takes memory away like `pb_offline`, by a CPU, while others work. Frames in their caches are requested from
 * them (`wait_for` of `migrate`), as in `pb_cpu_alloc_contig`.
 */
enum pb_status pb_cpu_offline(struct pb_cpu *cpu,
                              uint64_t start,
                              uint64_t end,
                              const struct pb_migrate *migrate);

/**
 * Releases reserved memory of one zone to the allocator, whether CPUs are taken or not; `PB_STATUS_BUSY` only
 * during an exclusive call. CPUs use the new limits of their caches from their next call on.
 */
enum pb_status pb_online(struct pb_allocator *allocator,
                         uint64_t start,
                         uint64_t end);

/**
 * Marks reserved frames of one zone as holes, which are not (or no longer) memory. Otherwise like `pb_online`.
 */
enum pb_status pb_mark_holes(struct pb_allocator *allocator,
                             uint64_t start,
                             uint64_t end);

/**
 * Marks holes of one zone as memory, which is reserved at first. Otherwise like `pb_online`.
 */
enum pb_status pb_fill_holes(struct pb_allocator *allocator, uint64_t start, uint64_t end);

/**
 * Takes a CPU, whose caches the caller owns until `pb_cpu_give`. `PB_STATUS_CPU_TAKEN` if it is already taken.
 * A thread takes a CPU and keeps it; there may be any number of CPUs, whatever the machine has.
 */
enum pb_status pb_cpu_take(struct pb_allocator *allocator,
                           size_t number,
                           struct pb_cpu **cpu);

/**
 * Gives a CPU back; its caches keep their frames for the next owner. The pointer may no longer be used: until
 * the CPU is taken again, functions return `PB_STATUS_CPU_GIVEN` for it.
 *
 * Promise: `cpu` is NULL or came from `pb_cpu_take`, its allocator lives, and no other thread uses it.
 */
enum pb_status pb_cpu_give(struct pb_cpu *cpu);

/**
 * Allocates 2^order pages; `frame` is the first. `PB_STATUS_NO_MEMORY` if no zone has such a block above its
 * low watermark.
 */
enum pb_status pb_alloc(struct pb_cpu *cpu,
                        uint32_t order,
                        uint32_t gfp,
                        uint64_t *frame);

/**
 * Allocates like `pb_alloc`, with all options of a request.
 */
enum pb_status pb_alloc_request(struct pb_cpu *cpu,
                                const struct pb_request *request,
                                uint64_t *frame);

/**
 * Frees a block that any CPU allocated. An invalid free (double free, wrong order, foreign frame) is an error
 * that changes nothing, unless two threads free the same block at the same instant: see the module `sharing`
 * of the Rust documentation.
 */
enum pb_status pb_free(struct pb_cpu *cpu,
                       uint64_t frame,
                       uint32_t order);

/**
 * Splits a block in use into blocks of order `into`; each is then freed by itself.
 */
enum pb_status pb_split(struct pb_cpu *cpu, uint64_t frame, uint32_t order, uint32_t into);

/**
 * Sets whether the content of a block in use can be moved. A new block counts as movable if its request was.
 */
enum pb_status pb_set_movable(struct pb_cpu *cpu,
                              uint64_t frame,
                              bool movable);

/**
 * Shrinks caches that a burst has filled (kernel 6.7 and later); to be called about once a second.
 */
enum pb_status pb_cpu_tick(struct pb_cpu *cpu);

/**
 * Allocates up to `count` blocks of 2^order pages into `frames`; `got` is their number. Fails only if not even
 * one could be allocated. The remaining entries are 0.
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
 * Frees `count` blocks of one order. Stops at the first error: `freed` (may be NULL) blocks are free then, the
 * others are unchanged.
 *
 * Promise: `frames` points to `count` numbers.
 */
enum pb_status pb_free_bulk(struct pb_cpu *cpu,
                            const uint64_t *frames,
                            size_t count,
                            uint32_t order,
                            size_t *freed);

/**
 * Allocates the block that starts at a frame, if all of it is free and the zone stays above its low watermark.
 * A frame in a CPU's cache does not count as free: drain it first.
 */
enum pb_status pb_alloc_at(struct pb_cpu *cpu,
                           uint64_t frame,
                           uint32_t order,
                           uint32_t gfp);

/**
 * Allocates the lowest free block within the frames from `start` up to, not including, `end`. Takes time
 * linear in the blocks before it.
 */
enum pb_status pb_alloc_within(struct pb_cpu *cpu,
                               uint64_t start,
                               uint64_t end,
                               uint32_t order,
                               uint32_t gfp,
                               uint64_t *frame);

/**
 * Allocates the lowest free block whose frames are all below `limit`, for a device that reaches no more.
 */
enum pb_status pb_alloc_below(struct pb_cpu *cpu,
                              uint64_t limit,
                              uint32_t order,
                              uint32_t gfp,
                              uint64_t *frame);

/**
 * Drains a CPU's own caches to the zones.
 */
enum pb_status pb_cpu_drain(struct pb_cpu *cpu);

/**
 * Handles other threads' requests to a CPU. Every function that allocates or frees with the CPU does so too; a
 * CPU that rarely calls them should call this now and then.
 */
enum pb_status pb_cpu_attend(struct pb_cpu *cpu);

/**
 * Requests that a CPU's caches are drained: those of a CPU that is not taken at once, those of another CPU at
 * its next call, or when it is given back. `pb_is_drained` reports completion.
 */
enum pb_status pb_request_drain(struct pb_allocator *allocator,
                                size_t cpu,
                                struct pb_drain *drain);

/**
 * Returns whether a request is completed.
 */
enum pb_status pb_is_drained(struct pb_allocator *allocator,
                             const struct pb_drain *drain,
                             bool *drained);

/**
 * Requests of all CPUs what `pb_request_drain` requests of one; `waiting` (may be NULL) is the number of taken
 * CPUs that have not completed it.
 */
enum pb_status pb_drain_all(struct pb_allocator *allocator,
                            size_t *waiting);

/**
 * Allocates `pages` contiguous frames that start at a multiple of `align` frames, in a zone that the flags
 * allow, for a CPU that is not taken (whose node is preferred). With `migrate` (may be NULL) blocks in use are
 * moved out of the way. On failure, moved blocks stay moved.
 */
enum pb_status pb_alloc_contig(struct pb_allocator *allocator,
                               size_t cpu,
                               uint64_t pages,
                               uint64_t align,
                               uint32_t gfp,
                               const struct pb_migrate *migrate,
                               uint64_t *start);

/**
 * Allocates the frames from `start` up to, not including, `end`, which must be in one zone. Otherwise like
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
 * Allocates like `pb_alloc_contig`, by a CPU, while others work. Frames in their caches are requested from
 * them (`wait_for` of `migrate`). A block may not be freed while it is being moved; if it was freed before,
 * `migrate` returns false. Concurrent activity of others can make it fail where a retry would succeed.
 */
enum pb_status pb_cpu_alloc_contig(struct pb_cpu *cpu,
                                   uint64_t pages,
                                   uint64_t align,
                                   uint32_t gfp,
                                   const struct pb_migrate *migrate,
                                   uint64_t *start);

/**
 * Allocates the frames from `start` up to, not including, `end`, which must be in one zone. Otherwise like
 * `pb_cpu_alloc_contig`.
 */
enum pb_status pb_cpu_alloc_contig_range(struct pb_cpu *cpu,
                                         uint64_t start,
                                         uint64_t end,
                                         const struct pb_migrate *migrate);

/**
 * Frees a range that one of the functions above returned, to the CPU's caches and to the zone.
 */
enum pb_status pb_cpu_free_contig(struct pb_cpu *cpu, uint64_t start, uint64_t end);

/**
 * Allocates `pages` pages by a CPU: one range where some block holds them all, or else blocks, the largest first.
 * `ranges` has room for `room` of them; the first 256 are used at most. `count` says how many were written. Free each
 * with `pb_cpu_free_contig`.
 * `PB_STATUS_NOT_FOUND` if so many are not free, `PB_STATUS_SPACE` if they are in more ranges than there is room for;
 * nothing is allocated then.
 *
 * Promise: `ranges` points to `room` ranges.
 */
enum pb_status pb_alloc_extents(struct pb_cpu *cpu,
                                uint64_t pages,
                                uint32_t gfp,
                                struct pb_range *ranges,
                                size_t room,
                                size_t *count);

/**
 * Returns the state of a zone, by its index in the setup; exact, at any time.
 */
enum pb_status pb_zone_state(struct pb_allocator *allocator,
                             size_t zone,
                             struct pb_zone_info *state);

/**
 * Returns the free frames of a zone without taking its lock: may lag behind concurrent changes.
 */
enum pb_status pb_free_pages(struct pb_allocator *allocator, size_t zone, uint64_t *pages);

/**
 * Returns the counts of a zone and of all CPUs in it. `PB_STATUS_BUSY` while a CPU is taken.
 */
enum pb_status pb_counters(struct pb_allocator *allocator,
                           size_t zone,
                           struct pb_zone_counters *counters);

/**
 * Verifies everything: that each frame is accounted for once, lists against blocks, counters against lists.
 * Returns `PB_STATUS_VIOLATION` on a contradiction; `text` (may be NULL if `size` is 0) then describes it,
 * terminated by a zero. Takes time linear in the frames. `PB_STATUS_BUSY` while a CPU is taken.
 *
 * Promise: `text` has room for `size` bytes.
 */
enum pb_status pb_check(struct pb_allocator *allocator,
                        char *text,
                        size_t size);

/**
 * Verifies the zones, one after the other, while CPUs work; otherwise like `pb_check`.
 *
 * Promise: `text` has room for `size` bytes.
 */
enum pb_status pb_check_zones(struct pb_allocator *allocator, char *text, size_t size);

/**
 * Verifies a CPU's own caches while others work; otherwise like `pb_check`.
 *
 * Promise: `text` has room for `size` bytes.
 */
enum pb_status pb_cpu_check(struct pb_cpu *cpu, char *text, size_t size);

/**
 * Writes the state in the format of a file of `/proc`, as kernel `major.minor` prints it, terminated by a
 * zero. `length` (may be NULL) is the length of the full text, without the zero. If it does not fit in `size`
 * bytes it is truncated, with `PB_STATUS_SPACE`. `text` may be NULL if `size` is 0. The lists and counts of a CPU
 * that is taken are left out; zones are exact, each at its own instant.
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
 * Sets what a thread calls now and then while it waits for a lock, such as `sched_yield`, for all allocators
 * of the program. NULL, the initial value, means to spin only, as in a kernel.
 */
void pb_set_relax(void (*relax)(void));

#ifdef __cplusplus
}  // extern "C"
#endif  // __cplusplus

#endif  /* PAGEBLOCK_H */
