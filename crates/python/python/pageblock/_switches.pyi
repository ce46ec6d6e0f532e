# Written by crates/python/make_stub.py.
from typing import Literal, TypedDict

class Switches(TypedDict, total=False):
    reserve: Literal["migrate_reserve", "highatomic", "highatomic_rounded", "highatomic_first", "highatomic_below_low", "off"]
    wmark_gap: Literal["quarter", "scale", "none"]
    wmark_check: Literal["halve_per_order", "list_exists", "flags_combine", "free_highatomic"]
    wmark_fast: Literal["off", "cma", "unusable"]
    movable_wmark: Literal["shared", "small"]
    boost: Literal["off", "every_zone", "large_zones", "wake_if_boosted"]
    nofragment: bool | Literal["off", "on", "defrag_mode"]
    fair: Literal["off", "all_zones", "local_node", "fair_pass", "spent_flag"]
    skip_active_node: bool
    below_high: bool
    cma: Literal["in_fallback", "before_fallback", "half_rule", "first"]
    fallback_pick: Literal["largest", "smallest", "largest_then_smallest_m", "claim_then_steal", "hybrid"]
    claim_rule: Literal["rest_taken_event_after", "rest_taken", "rest_stays", "rest_follows", "rest_taken_by_block", "compatible_counts", "types_agree"]
    claim_pred: Literal["reclaimable", "kernel"]
    pcp_orders: Literal["0", "0-3+thp"]
    pcp_empty: Literal["fails", "zone"]
    trace_refill: Literal["request", "list"]
    pcp_thp_lists: Literal["three", "one", "two"]
    pcp_high: Literal["six_batch", "low_wmark", "autotune"]
    pcp_free: Literal["batch", "free_factor", "free_high", "free_high_scaled", "free_count", "free_count_past_min", "free_count_whole_blocks"]
    pcp_type: Literal["cached", "reread"]
    pcp_bulk: Literal["round_robin", "whole_lists"]
    pcp_batch: Literal["k512", "m1"]
    retype: Literal["apart", "together"]
    isolation: Literal["whole_blocks", "split"]
    merge_rule: Literal["free", "freed_isolated", "either_isolated", "mergeable", "retype", "retype_all"]
    move_to: Literal["head", "tail"]
    untouched_to: Literal["head", "tail"]
    capture: Literal["off", "not_movable", "if_movable", "if_movable_reported"]
    split_large: bool
    placement: Literal["linux", "packed"]
    slowpath: Literal["compact_each_round", "priorities", "one_loop"]
    thp_contended: Literal["any", "by_task"]
    thp_waits: bool
    retry_wakes: bool
    oom_reach: Literal["with_fs", "without_progress"]
    oom_without_fs: Literal["kills", "progresses"]
    nofail_reserve: bool
    nofail_kills: bool
    oom_spares_mayfail: bool
    compact_first: Literal["costly", "kernel_blocks"]
    skipped_gives_up: bool
    without_io: Literal["as_others", "no_compaction"]
    compact_try: Literal["when_compacted", "always", "unless_skipped"]
    thisnode_gives_up: bool
    force_unreserve: bool
    oom_reserve: Literal["all", "half"]
    highatomic_high: Literal["all", "with_high"]
    defrag_blocks: bool | Literal["off", "on", "all"]
    defrag_last: Literal["splits", "fails"]
    defrag_retries: Literal["request", "block"]
    hybrid_threshold: int
    min_free_kbytes: int
    min_free_kbytes_max: int
    extra_free_kbytes: int
    watermark_scale_factor: int
    watermark_boost_factor: int
    percpu_pagelist_high_fraction: int
    pcp_batch_scale_max: int
    zone_reclaim_mode: int
    claim_share: int
    claim_order_unmovable: int
    claim_order_movable: int
    claim_order_reclaimable: int
    boost_unmovable: int
    boost_movable: int
    boost_reclaimable: int
    pcp_refill_0: int
    pcp_refill_1: int
    pcp_refill_2: int
    pcp_refill_3: int
    pcp_refill_thp: int
    pcp_high_share: int
    reclaim_retries: int
    compact_retries: int
    swappiness: int
    dirty_ratio: int
    dirty_background_ratio: int
    dirty_expire_centisecs: int
    dirty_writeback_centisecs: int
    vfs_cache_pressure: int
    extfrag_threshold: int
    compaction_proactiveness: int
    migration_scanner: Literal["by_frame", "by_block"]
    free_scanner: Literal["from_highest", "from_last", "below_last", "as_needed"]
    free_scanner_goes_back: bool
    free_scanner_stops: bool
    isolate_mark: Literal["low", "min"]
    meeting: Literal["by_frame", "by_pageblock"]
    restart_after_meeting: bool
    reset_before_read: bool
    finish_mark: Literal["zone_low", "request_low", "request_low_and_block", "off"]
    finish_block: Literal["own_list", "claimable"]
    finish_pageblock: bool
    take_rest: bool
    last_migrated: Literal["moved", "start", "block"]
    after_failure: Literal["go_on", "next_block", "finish_pageblock"]
    keep_target: bool
    without_room: Literal["ends", "ends_unless_met"]
    no_room_counts: bool
    drain_lists: Literal["at_end", "as_it_goes"]
    async_hides: bool
    skip_hints: Literal["nothing_found", "first_frame", "from_start"]
    positions_in_step: bool
    fast_search: bool
    sampling: bool
    searched_block: Literal["skipped", "scanned"]
    middle_must_fit: bool
    around_hint: Literal["short", "at_end"]
    suitability: Literal["zone", "index_first", "request_first", "min_for_cheap"]
    compact_gap: Literal["by_order", "capped"]
    ready_mark: Literal["high", "high_and_distance"]
    deferral: Literal["preferred_zone", "each_zone"]
    direct_end: Literal["low_watermark", "success"]
    stall_count: Literal["on_entry", "when_tried"]
    needs_fs: bool
    sync_light_waits: bool
    async_source: Literal["movable", "own_type", "movable_for_whole"]
    moves_folios: bool
    compact_target: Literal["accept_large", "reject_pageblock", "reject_order"]
    extfrag_index: Literal["all_orders", "costly"]
    compact_counts: Literal["looks", "taken", "pages"]
    compact_batch: int
    fast_search_limit: int
    compact_defer_max: int
    kcompactd: bool
    kcompactd_wake_if_balanced: bool
    proactive: Literal["off", "ten_below", "half_below"]
    kswapd_wake: Literal["zone_low", "zone_balanced", "any_zone"]
    node_balanced: Literal["quarter", "any_zone"]
    balanced_if_compactable: bool
    hopeless_nodes: bool
    kswapd_target: Literal["unbounded", "zone_high", "node_high"]
    kswapd_writes: Literal["low_priority", "dirty_tail", "never"]
    kswapd_waits: Literal["if_congested", "congestion", "pages"]
    congestion_by: Literal["batch", "node"]
    kswapd_order: Literal["single_pages", "as_asked"]
    same_wake_ignored: bool
    hints_forgotten: Literal["after_nap", "before_nap"]
    order_kept: bool
    atomic_boost: bool
    kswapd_retries: int
    lru: Literal["zone", "node", "mglru"]
    file_balance: Literal["half", "by_size"]
    scan_balance: Literal["rotated", "io", "cost", "counters"]
    file_needs_share: bool
    tiny_file_needs_anon: bool
    used_counts_rotated: bool
    anon_counts_twice: bool
    unwritten_activates: bool
    scans_eligible: bool
    writes_are_uses: bool
    anon_start: Literal["active", "inactive"]
    reclaim_until: Literal["gap", "suitable"]
    workingset: Literal["off", "activates", "deactivates"]
    anon_workingset: bool
    refault_counts_anon: bool
    gen_uses: Literal["first", "second"]
    gen_ageing: Literal["by_share", "by_number"]
    gen_type: Literal["oldest", "refaults"]
    gen_batch: Literal["whole", "counted"]
    min_ttl_ms: int
    shrink_pressure: Literal["scanned", "priority"]
    slab_min_scan: bool
    cached_inodes: Literal["freed", "passed_over", "unlisted"]
    cache_folios: Literal["pages", "xfs", "ext4"]
    write_folios: bool
    order_1_folios: bool
    ra_order: Literal["of_folio", "of_stream"]
    anon_dirtyable: bool
    multi_queue: bool
    log_limit: Literal["eighth", "capped"]
    max_sectors_kb: int
    slab_exists: bool
    slab_waits: bool
    slab_wakes: bool
    slab_partial: Literal["objects", "slabs"]
    slab_cpu: Literal["slabs", "sheaves"]
    zsmalloc_movable: bool
    vmap_stack: bool
    page_table_isolation: bool
    zsmalloc_chain: int
    thp_enabled: Literal["always", "madvise", "never"]
    thp_defrag: Literal["always", "defer", "defer+madvise", "madvise", "never"]
    thp_placement: Literal["local", "local_unless_reclaim", "two_steps"]
    khugepaged_defrag: bool
    mthp: bool
    hugepages_16kb: Literal["inherit", "always", "madvise", "never"]
    hugepages_32kb: Literal["inherit", "always", "madvise", "never"]
    hugepages_64kb: Literal["inherit", "always", "madvise", "never"]
    hugepages_128kb: Literal["inherit", "always", "madvise", "never"]
    hugepages_256kb: Literal["inherit", "always", "madvise", "never"]
    hugepages_512kb: Literal["inherit", "always", "madvise", "never"]
    hugepages_1024kb: Literal["inherit", "always", "madvise", "never"]
    hugetlb_movable: bool
    hugetlb_remembers: bool
    khugepaged_pages_to_scan: int
    khugepaged_scan_sleep_ms: int
    khugepaged_alloc_sleep_ms: int
    khugepaged_max_ptes_none: int
    scheduler: Literal["cfs", "eevdf", "eevdf_delayed"]

class SwitchAttributes:
    @property
    def reserve(self) -> Literal["migrate_reserve", "highatomic", "highatomic_rounded", "highatomic_first", "highatomic_below_low", "off"]:
        """What is kept back for requests that must not fail."""
    @property
    def wmark_gap(self) -> Literal["quarter", "scale", "none"]:
        """Distance between the watermarks."""
    @property
    def wmark_check(self) -> Literal["halve_per_order", "list_exists", "flags_combine", "free_highatomic"]:
        """How a watermark check treats orders and reserves."""
    @property
    def wmark_fast(self) -> Literal["off", "cma", "unusable"]:
        """The quick check for order 0."""
    @property
    def movable_wmark(self) -> Literal["shared", "small"]:
        """Whether movable zones share in min_free_kbytes."""
    @property
    def boost(self) -> Literal["off", "every_zone", "large_zones", "wake_if_boosted"]:
        """Watermark boost after a fragmenting fallback."""
    @property
    def nofragment(self) -> Literal["off", "on", "defrag_mode"]:
        """Spreading over zones before fragmenting one."""
    @property
    def fair(self) -> Literal["off", "all_zones", "local_node", "fair_pass", "spent_flag"]:
        """The fair zone allocator."""
    @property
    def skip_active_node(self) -> bool:
        """Passing over nodes whose kswapd runs."""
    @property
    def below_high(self) -> bool:
        """Growth of CPU lists stops under the high watermark."""
    @property
    def cma(self) -> Literal["in_fallback", "before_fallback", "half_rule", "first"]:
        """When movable requests use CMA blocks."""
    @property
    def fallback_pick(self) -> Literal["largest", "smallest", "largest_then_smallest_m", "claim_then_steal", "hybrid"]:
        """Which block of another type a fallback takes."""
    @property
    def claim_rule(self) -> Literal["rest_taken_event_after", "rest_taken", "rest_stays", "rest_follows", "rest_taken_by_block", "compatible_counts", "types_agree"]:
        """What a fallback does with the pageblock and the remainder."""
    @property
    def claim_pred(self) -> Literal["reclaimable", "kernel"]:
        """Which fallbacks try to claim the pageblock."""
    @property
    def pcp_orders(self) -> Literal["0", "0-3+thp"]:
        """Orders that have CPU lists."""
    @property
    def pcp_empty(self) -> Literal["fails", "zone"]:
        """What follows a CPU list that could not be refilled."""
    @property
    def trace_refill(self) -> Literal["request", "list"]:
        """What mm_page_alloc_zone_locked prints."""
    @property
    def pcp_thp_lists(self) -> Literal["three", "one", "two"]:
        """CPU lists for the pageblock order."""
    @property
    def pcp_high(self) -> Literal["six_batch", "low_wmark", "autotune"]:
        """How large CPU lists grow."""
    @property
    def pcp_free(self) -> Literal["batch", "free_factor", "free_high", "free_high_scaled", "free_count", "free_count_past_min", "free_count_whole_blocks"]:
        """How much CPU lists give back at a time."""
    @property
    def pcp_type(self) -> Literal["cached", "reread"]:
        """The type that a drained page is freed to."""
    @property
    def pcp_bulk(self) -> Literal["round_robin", "whole_lists"]:
        """Order in which CPU lists are drained."""
    @property
    def pcp_batch(self) -> Literal["k512", "m1"]:
        """Batch size of CPU lists."""
    @property
    def retype(self) -> Literal["apart", "together"]:
        """Free pages of a pageblock that changes type outside a fallback."""
    @property
    def isolation(self) -> Literal["whole_blocks", "split"]:
        """How a pageblock is isolated."""
    @property
    def merge_rule(self) -> Literal["free", "freed_isolated", "either_isolated", "mergeable", "retype", "retype_all"]:
        """Which blocks merge."""
    @property
    def move_to(self) -> Literal["head", "tail"]:
        """End of the new list for a block that changes type."""
    @property
    def untouched_to(self) -> Literal["head", "tail"]:
        """End of the list for pages that were never used."""
    @property
    def capture(self) -> Literal["off", "not_movable", "if_movable", "if_movable_reported"]:
        """Compaction keeps what it freed."""
    @property
    def split_large(self) -> bool:
        """Blocks over the pageblock order are freed in pieces."""
    @property
    def placement(self) -> Literal["linux", "packed"]:
        """Which free block serves a request."""
    @property
    def slowpath(self) -> Literal["compact_each_round", "priorities", "one_loop"]:
        """Order of attempts in the slow path."""
    @property
    def thp_contended(self) -> Literal["any", "by_task"]:
        """When a huge page is given up after compaction (order of attempts up to 4.7)."""
    @property
    def thp_waits(self) -> bool:
        """Whether a page fault compacts synchronously for a huge page (order of attempts up to 4.7)."""
    @property
    def retry_wakes(self) -> bool:
        """Whether another round wakes kswapd again (order of attempts up to 4.7)."""
    @property
    def oom_reach(self) -> Literal["with_fs", "without_progress"]:
        """Which requests reach the OOM killer (order of attempts up to 4.7)."""
    @property
    def oom_without_fs(self) -> Literal["kills", "progresses"]:
        """What the OOM killer does for requests that may not enter file systems."""
    @property
    def nofail_reserve(self) -> bool:
        """All reserves for requests that may not fail, after the OOM killer."""
    @property
    def nofail_kills(self) -> bool:
        """Requests that may not fail invoke the OOM killer whatever they are."""
    @property
    def oom_spares_mayfail(self) -> bool:
        """__GFP_RETRY_MAYFAIL keeps from the OOM killer."""
    @property
    def compact_first(self) -> Literal["costly", "kernel_blocks"]:
        """Which requests compact before they reclaim (order of attempts from 4.8)."""
    @property
    def skipped_gives_up(self) -> bool:
        """Light retries give up after compaction was skipped (order of attempts from 4.8)."""
    @property
    def without_io(self) -> Literal["as_others", "no_compaction"]:
        """Requests that may not do I/O and so cannot compact (order of attempts from 4.8)."""
    @property
    def compact_try(self) -> Literal["when_compacted", "always", "unless_skipped"]:
        """After which direct compactions a request tries the free lists again, which counts as a stall."""
    @property
    def thisnode_gives_up(self) -> bool:
        """A request for one node gives up after compaction failed (order of attempts from 4.8)."""
    @property
    def force_unreserve(self) -> bool:
        """The last highatomic block is given back before reclaim is given up (order of attempts from 4.8)."""
    @property
    def oom_reserve(self) -> Literal["all", "half"]:
        """The reserves of an OOM victim."""
    @property
    def highatomic_high(self) -> Literal["all", "with_high"]:
        """Which requests may use the highatomic reserve in the slow path."""
    @property
    def defrag_blocks(self) -> Literal["off", "on", "all"]:
        """Whole pageblocks as the aim of reclaim under vm.defrag_mode."""
    @property
    def defrag_last(self) -> Literal["splits", "fails"]:
        """What a request does under vm.defrag_mode that found no whole pageblock."""
    @property
    def defrag_retries(self) -> Literal["request", "block"]:
        """Retries of requests that work for whole pageblocks."""
    @property
    def hybrid_threshold(self) -> int:
        """Largest order for which `hybrid` takes the smallest block."""
    @property
    def min_free_kbytes(self) -> int:
        """vm.min_free_kbytes; 0 computes it from the size of memory."""
    @property
    def min_free_kbytes_max(self) -> int:
        """Largest computed min_free_kbytes."""
    @property
    def extra_free_kbytes(self) -> int:
        """vm.extra_free_kbytes of Android's kernels: how much higher kswapd starts and stops."""
    @property
    def watermark_scale_factor(self) -> int:
        """vm.watermark_scale_factor, in 1/10000 of the zone."""
    @property
    def watermark_boost_factor(self) -> int:
        """vm.watermark_boost_factor, in 1/10000 of the high watermark; 0 is off."""
    @property
    def percpu_pagelist_high_fraction(self) -> int:
        """vm.percpu_pagelist_high_fraction (percpu_pagelist_fraction up to 5.13); 0 is off."""
    @property
    def pcp_batch_scale_max(self) -> int:
        """CONFIG_PCP_BATCH_SCALE_MAX: how often a batch may double."""
    @property
    def zone_reclaim_mode(self) -> int:
        """vm.zone_reclaim_mode: 1 zone, 2 write, 4 unmap."""
    @property
    def claim_share(self) -> int:
        """Share of a pageblock, free or of the request's kind, from which a fallback claims it, in percent."""
    @property
    def claim_order_unmovable(self) -> int:
        """Least order of a block by which an unmovable request claims the pageblock; 15: as `claim_pred` says."""
    @property
    def claim_order_movable(self) -> int:
        """Least order of a block by which a movable request claims the pageblock; 15: as `claim_pred` says."""
    @property
    def claim_order_reclaimable(self) -> int:
        """Least order of a block by which a reclaimable request claims the pageblock; 15: as `claim_pred` says."""
    @property
    def boost_unmovable(self) -> int:
        """Pageblocks by which a fallback of an unmovable request raises the boost; 0 is off."""
    @property
    def boost_movable(self) -> int:
        """Pageblocks by which a fallback of a movable request raises the boost; 0 is off."""
    @property
    def boost_reclaimable(self) -> int:
        """Pageblocks by which a fallback of a reclaimable request raises the boost; 0 is off."""
    @property
    def pcp_refill_0(self) -> int:
        """Blocks that a refill of CPU lists of order 0 takes, in percent of Linux's number."""
    @property
    def pcp_refill_1(self) -> int:
        """Blocks that a refill of CPU lists of order 1 takes, in percent of Linux's number."""
    @property
    def pcp_refill_2(self) -> int:
        """Blocks that a refill of CPU lists of order 2 takes, in percent of Linux's number."""
    @property
    def pcp_refill_3(self) -> int:
        """Blocks that a refill of CPU lists of order 3 takes, in percent of Linux's number."""
    @property
    def pcp_refill_thp(self) -> int:
        """Blocks that a refill of CPU lists of the pageblock order takes, in percent of Linux's number."""
    @property
    def pcp_high_share(self) -> int:
        """Pages that the lists of a CPU may hold, in percent of Linux's number."""
    @property
    def reclaim_retries(self) -> int:
        """Rounds of reclaim without progress before a request gives up (order of attempts from 4.8)."""
    @property
    def compact_retries(self) -> int:
        """Rounds of compaction with progress before a request gives up; a quarter for costly orders."""
    @property
    def swappiness(self) -> int:
        """vm.swappiness."""
    @property
    def dirty_ratio(self) -> int:
        """vm.dirty_ratio, percent of dirtyable memory."""
    @property
    def dirty_background_ratio(self) -> int:
        """vm.dirty_background_ratio, percent of dirtyable memory."""
    @property
    def dirty_expire_centisecs(self) -> int:
        """vm.dirty_expire_centisecs: data that has been dirty for this long is written."""
    @property
    def dirty_writeback_centisecs(self) -> int:
        """vm.dirty_writeback_centisecs: how often the flusher looks for such data; 0 means never."""
    @property
    def vfs_cache_pressure(self) -> int:
        """vm.vfs_cache_pressure, percent."""
    @property
    def extfrag_threshold(self) -> int:
        """vm.extfrag_threshold, thousandths of the fragmentation index."""
    @property
    def compaction_proactiveness(self) -> int:
        """vm.compaction_proactiveness, percent; 0 is off."""
    @property
    def migration_scanner(self) -> Literal["by_frame", "by_block"]:
        """How the migration scanner walks a pageblock."""
    @property
    def free_scanner(self) -> Literal["from_highest", "from_last", "below_last", "as_needed"]:
        """How the free scanner walks pageblocks."""
    @property
    def free_scanner_goes_back(self) -> bool:
        """The free scanner's saved position moves back up to target pages that were not used."""
    @property
    def free_scanner_stops(self) -> bool:
        """The free scanner stops when the watermark prevents it from isolating more."""
    @property
    def isolate_mark(self) -> Literal["low", "min"]:
        """The watermark for isolating a free block."""
    @property
    def meeting(self) -> Literal["by_frame", "by_pageblock"]:
        """When the scanners meet."""
    @property
    def restart_after_meeting(self) -> bool:
        """Scanners that met start at the zone's ends the next time."""
    @property
    def reset_before_read(self) -> bool:
        """When compaction restarts after failures, saved positions are reset before they are read."""
    @property
    def finish_mark(self) -> Literal["zone_low", "request_low", "request_low_and_block", "off"]:
        """The watermark for success."""
    @property
    def finish_block(self) -> Literal["own_list", "claimable"]:
        """The free block for success."""
    @property
    def finish_pageblock(self) -> bool:
        """Compaction stops only between pageblocks."""
    @property
    def take_rest(self) -> bool:
        """On a second visit the whole rest of a pageblock is isolated at once."""
    @property
    def last_migrated(self) -> Literal["moved", "start", "block"]:
        """Which pageblock is recorded with the last batch."""
    @property
    def after_failure(self) -> Literal["go_on", "next_block", "finish_pageblock"]:
        """What happens after a page cannot be migrated."""
    @property
    def keep_target(self) -> bool:
        """The target page of a failed migration is kept for other pages."""
    @property
    def without_room(self) -> Literal["ends", "ends_unless_met"]:
        """What happens when the free scanner finds no target page."""
    @property
    def no_room_counts(self) -> bool:
        """The page for which no target was found counts as failed."""
    @property
    def drain_lists(self) -> Literal["at_end", "as_it_goes"]:
        """When per-CPU lists are drained."""
    @property
    def async_hides(self) -> bool:
        """Asynchronous compaction marks unmovable pageblocks as skipped for synchronous compaction too."""
    @property
    def skip_hints(self) -> Literal["nothing_found", "first_frame", "from_start"]:
        """What skip hints mean."""
    @property
    def positions_in_step(self) -> bool:
        """The migration scanner's asynchronous and synchronous positions advance together over pageblocks"""
    @property
    def fast_search(self) -> bool:
        """Fast search: the free lists are searched for target pages and for nearly empty pageblocks."""
    @property
    def sampling(self) -> bool:
        """The free scanner samples pageblocks after one without free pages."""
    @property
    def searched_block(self) -> Literal["skipped", "scanned"]:
        """What happens to a pageblock that a fast search selected."""
    @property
    def middle_must_fit(self) -> bool:
        """A fast search without result falls back to the middle of the range only if its pageblock is a suitable target."""
    @property
    def around_hint(self) -> Literal["short", "at_end"]:
        """When a pageblock counts as full after a fast search."""
    @property
    def suitability(self) -> Literal["zone", "index_first", "request_first", "min_for_cheap"]:
        """Whether a zone should be compacted."""
    @property
    def compact_gap(self) -> Literal["by_order", "capped"]:
        """The free pages that compaction needs besides the block."""
    @property
    def ready_mark(self) -> Literal["high", "high_and_distance"]:
        """What must be free for direct reclaim to leave a zone to compaction."""
    @property
    def deferral(self) -> Literal["preferred_zone", "each_zone"]:
        """Where failures are recorded."""
    @property
    def direct_end(self) -> Literal["low_watermark", "success"]:
        """When direct compaction ends."""
    @property
    def stall_count(self) -> Literal["on_entry", "when_tried"]:
        """When direct compaction counts as a stall."""
    @property
    def needs_fs(self) -> bool:
        """Direct compaction needs a request with __GFP_FS."""
    @property
    def sync_light_waits(self) -> bool:
        """Light synchronous compaction migrates pages that it has to wait for."""
    @property
    def async_source(self) -> Literal["movable", "own_type", "movable_for_whole"]:
        """Which pageblocks asynchronous direct compaction migrates from."""
    @property
    def moves_folios(self) -> bool:
        """Folios smaller than the wanted order are migrated too; free blocks are split only as far as needed."""
    @property
    def compact_target(self) -> Literal["accept_large", "reject_pageblock", "reject_order"]:
        """Which free blocks compaction does not migrate to."""
    @property
    def extfrag_index(self) -> Literal["all_orders", "costly"]:
        """The orders for which the fragmentation index decides."""
    @property
    def compact_counts(self) -> Literal["looks", "taken", "pages"]:
        """How the scanners' work is counted."""
    @property
    def compact_batch(self) -> int:
        """Pages that compaction isolates at a time (`COMPACT_CLUSTER_MAX`), and the free scanner's largest stride."""
    @property
    def fast_search_limit(self) -> int:
        """Entries of free lists that a fast search looks at, halved after each one without result."""
    @property
    def compact_defer_max(self) -> int:
        """How often the attempts that are skipped after a failure double (`COMPACT_MAX_DEFER_SHIFT`)."""
    @property
    def kcompactd(self) -> bool:
        """Whether there is a kcompactd."""
    @property
    def kcompactd_wake_if_balanced(self) -> bool:
        """kcompactd is woken for an order even if kswapd has nothing to do."""
    @property
    def proactive(self) -> Literal["off", "ten_below", "half_below"]:
        """Proactive compaction."""
    @property
    def kswapd_wake(self) -> Literal["zone_low", "zone_balanced", "any_zone"]:
        """When kswapd is not woken."""
    @property
    def node_balanced(self) -> Literal["quarter", "any_zone"]:
        """When a node is balanced."""
    @property
    def balanced_if_compactable(self) -> bool:
        """A zone is balanced for an order only if compaction could run."""
    @property
    def hopeless_nodes(self) -> bool:
        """kswapd gives up on a node after 16 runs without progress, and on an order by what all of a run reclaimed."""
    @property
    def kswapd_target(self) -> Literal["unbounded", "zone_high", "node_high"]:
        """How much it reclaims at a priority."""
    @property
    def kswapd_writes(self) -> Literal["low_priority", "dirty_tail", "never"]:
        """Which dirty file pages it writes."""
    @property
    def kswapd_waits(self) -> Literal["if_congested", "congestion", "pages"]:
        """What it waits for."""
    @property
    def congestion_by(self) -> Literal["batch", "node"]:
        """After what it decides whether to wait."""
    @property
    def kswapd_order(self) -> Literal["single_pages", "as_asked"]:
        """The order for which it reclaims."""
    @property
    def same_wake_ignored(self) -> bool:
        """A wakeup during balancing is ignored unless its order is larger."""
    @property
    def hints_forgotten(self) -> Literal["after_nap", "before_nap"]:
        """When it resets compaction's skip hints."""
    @property
    def order_kept(self) -> bool:
        """The order asked for is kept apart from the one reclaimed for, and a wakeup during a run is only recorded."""
    @property
    def atomic_boost(self) -> bool:
        """An atomic request of order 0 in the slow path boosts its zones by a thousandth, at most once a second."""
    @property
    def kswapd_retries(self) -> int:
        """Runs in a row without progress after which a node is given up (`MAX_RECLAIM_RETRIES`)."""
    @property
    def lru(self) -> Literal["zone", "node", "mglru"]:
        """Whether LRU lists belong to zones or nodes, or are generations."""
    @property
    def file_balance(self) -> Literal["half", "by_size"]:
        """When the inactive file list is too short."""
    @property
    def scan_balance(self) -> Literal["rotated", "io", "cost", "counters"]:
        """How scanning is balanced between anonymous and file pages."""
    @property
    def file_needs_share(self) -> bool:
        """Reclaim is limited to file pages only if the inactive file list yields pages at this priority."""
    @property
    def tiny_file_needs_anon(self) -> bool:
        """When few file pages are left, anonymous memory is scanned only if its inactive list is long enough."""
    @property
    def used_counts_rotated(self) -> bool:
        """Referenced active pages count as rotated."""
    @property
    def anon_counts_twice(self) -> bool:
        """Scanned anonymous pages count twice towards kswapd's scan count."""
    @property
    def unwritten_activates(self) -> bool:
        """Dirty pages that reclaim does not write at once are activated."""
    @property
    def scans_eligible(self) -> bool:
        """Only pages of eligible zones count for the share of a list that is scanned."""
    @property
    def writes_are_uses(self) -> bool:
        """A write to a file page marks it accessed."""
    @property
    def anon_start(self) -> Literal["active", "inactive"]:
        """Where new anonymous pages start."""
    @property
    def reclaim_until(self) -> Literal["gap", "suitable"]:
        """When reclaim for a block has freed enough for compaction."""
    @property
    def workingset(self) -> Literal["off", "activates", "deactivates"]:
        """What shadow entries do."""
    @property
    def anon_workingset(self) -> bool:
        """Evicted anonymous pages leave shadow entries, too."""
    @property
    def refault_counts_anon(self) -> bool:
        """Anonymous memory counts in the refault distance of files."""
    @property
    def gen_uses(self) -> Literal["first", "second"]:
        """How uses of a page are counted, and where a page begins."""
    @property
    def gen_ageing(self) -> Literal["by_share", "by_number"]:
        """When there is to be a new generation."""
    @property
    def gen_type(self) -> Literal["oldest", "refaults"]:
        """How the kind of pages to evict is chosen."""
    @property
    def gen_batch(self) -> Literal["whole", "counted"]:
        """How far one eviction looks."""
    @property
    def min_ttl_ms(self) -> int:
        """/sys/kernel/mm/lru_gen/min_ttl_ms: a process is killed rather than younger pages evicted; 0 is off."""
    @property
    def shrink_pressure(self) -> Literal["scanned", "priority"]:
        """What a shrinker's scan count depends on."""
    @property
    def slab_min_scan(self) -> bool:
        """A shrinker scans at least a batch of objects, however low the pressure."""
    @property
    def cached_inodes(self) -> Literal["freed", "passed_over", "unlisted"]:
        """What becomes of an unused inode that has pages in the page cache."""
    @property
    def cache_folios(self) -> Literal["pages", "xfs", "ext4"]:
        """File systems whose files may be in memory in blocks of more than a page."""
    @property
    def write_folios(self) -> bool:
        """A write gets a folio of its length."""
    @property
    def order_1_folios(self) -> bool:
        """A folio may have order 1."""
    @property
    def ra_order(self) -> Literal["of_folio", "of_stream"]:
        """The order of the folios that are read ahead."""
    @property
    def anon_dirtyable(self) -> bool:
        """With swap, anonymous memory counts as dirtyable."""
    @property
    def multi_queue(self) -> bool:
        """The disk's queue does not report congestion (blk-mq)."""
    @property
    def log_limit(self) -> Literal["eighth", "capped"]:
        """What limits the size of a checkpoint of XFS's log."""
    @property
    def max_sectors_kb(self) -> int:
        """max_sectors_kb: the largest write, KiB."""
    @property
    def slab_exists(self) -> bool:
        """SLAB exists beside SLUB."""
    @property
    def slab_waits(self) -> bool:
        """The first attempt at a high-order slab may enter direct reclaim."""
    @property
    def slab_wakes(self) -> bool:
        """The first attempt at a high-order slab wakes kswapd."""
    @property
    def slab_partial(self) -> Literal["objects", "slabs"]:
        """What limits the partial slabs that a CPU keeps."""
    @property
    def slab_cpu(self) -> Literal["slabs", "sheaves"]:
        """What a CPU keeps of each SLUB cache."""
    @property
    def zsmalloc_movable(self) -> bool:
        """zsmalloc's pages can be migrated."""
    @property
    def vmap_stack(self) -> bool:
        """Kernel stacks are mapped from single pages (CONFIG_VMAP_STACK)."""
    @property
    def page_table_isolation(self) -> bool:
        """Processes have a top-level page table of order 1: one page for the kernel, one for user mode."""
    @property
    def zsmalloc_chain(self) -> int:
        """The most pages of a zspage: 4, from 6.3 on 8 (CONFIG_ZSMALLOC_CHAIN_SIZE)."""
    @property
    def thp_enabled(self) -> Literal["always", "madvise", "never"]:
        """transparent_hugepage/enabled."""
    @property
    def thp_defrag(self) -> Literal["always", "defer", "defer+madvise", "madvise", "never"]:
        """transparent_hugepage/defrag."""
    @property
    def thp_placement(self) -> Literal["local", "local_unless_reclaim", "two_steps"]:
        """The nodes on which a fault allocates a huge page."""
    @property
    def khugepaged_defrag(self) -> bool:
        """transparent_hugepage/khugepaged/defrag: khugepaged reclaims and compacts."""
    @property
    def mthp(self) -> bool:
        """Sizes between a page and a huge page can be used."""
    @property
    def hugepages_16kb(self) -> Literal["inherit", "always", "madvise", "never"]:
        """hugepages-16kB/enabled."""
    @property
    def hugepages_32kb(self) -> Literal["inherit", "always", "madvise", "never"]:
        """hugepages-32kB/enabled."""
    @property
    def hugepages_64kb(self) -> Literal["inherit", "always", "madvise", "never"]:
        """hugepages-64kB/enabled."""
    @property
    def hugepages_128kb(self) -> Literal["inherit", "always", "madvise", "never"]:
        """hugepages-128kB/enabled."""
    @property
    def hugepages_256kb(self) -> Literal["inherit", "always", "madvise", "never"]:
        """hugepages-256kB/enabled."""
    @property
    def hugepages_512kb(self) -> Literal["inherit", "always", "madvise", "never"]:
        """hugepages-512kB/enabled."""
    @property
    def hugepages_1024kb(self) -> Literal["inherit", "always", "madvise", "never"]:
        """hugepages-1024kB/enabled."""
    @property
    def hugetlb_movable(self) -> bool:
        """hugetlb pages are movable."""
    @property
    def hugetlb_remembers(self) -> bool:
        """After hugetlb failed on a node, the next attempts there do not retry until one succeeds."""
    @property
    def khugepaged_pages_to_scan(self) -> int:
        """transparent_hugepage/khugepaged/pages_to_scan."""
    @property
    def khugepaged_scan_sleep_ms(self) -> int:
        """transparent_hugepage/khugepaged/scan_sleep_millisecs."""
    @property
    def khugepaged_alloc_sleep_ms(self) -> int:
        """transparent_hugepage/khugepaged/alloc_sleep_millisecs."""
    @property
    def khugepaged_max_ptes_none(self) -> int:
        """transparent_hugepage/khugepaged/max_ptes_none."""
    @property
    def scheduler(self) -> Literal["cfs", "eevdf", "eevdf_delayed"]:
        """Which task of a CPU's run queue runs, and for how long."""
