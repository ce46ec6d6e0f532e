/* Every error of a caller has its status, and changes nothing. */
#include <pageblock.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define FRAMES 8192
#define HOLES 512
#define NODES 2
#define CPUS 3

static int failures;

#define EXPECT(call, status) expect(__LINE__, #call, (int)(call), (int)(status))
#define TRUE(what)                                                                                 \
    do {                                                                                           \
        if (!(what)) {                                                                             \
            printf("line %d: not so: %s\n", __LINE__, #what);                                      \
            failures++;                                                                            \
        }                                                                                          \
    } while (0)

static void expect(int line, const char *call, int got, int wanted)
{
    if (got != wanted) {
        printf("line %d: %s: '%s' instead of '%s'\n", line, call, pb_strerror(got),
               pb_strerror(wanted));
        failures++;
    }
}

/* Zones: node 0 has DMA32 and Normal, node 1 Normal; between the two are frames of no zone. */
static const pb_zone zones[] = {
    {.start = 0, .end = 2048, .node = 0, .kind = PB_ZONE_DMA32},
    {.start = 2048, .end = FRAMES, .node = 0, .kind = PB_ZONE_NORMAL},
    {.start = FRAMES * 2, .end = FRAMES * 3, .node = 1, .kind = PB_ZONE_NORMAL},
};
static const uint8_t cpu_nodes[CPUS] = {0, 0, 1};
static const uint8_t distances[NODES * NODES] = {10, 20, 20, 10};

static pb_setup good_setup(void)
{
    pb_setup setup = {
        .zones = zones,
        .zone_count = 3,
        .cpu_nodes = cpu_nodes,
        .cpu_count = CPUS,
        .distances = distances,
        .distance_count = NODES * NODES,
        .policy = "linux-6.12,placement=packed",
    };
    return setup;
}

static void policies(void)
{
    char text[64];
    size_t named, by_default;
    pb_setup setup = good_setup();
    setup.policy = "default,min_free_kbytes=1024";
    EXPECT(pb_metadata_size(&setup, &named), PB_STATUS_OK);
    setup.policy = NULL;
    EXPECT(pb_metadata_size(&setup, &by_default), PB_STATUS_OK);
    TRUE(by_default == named);
    memset(text, 'x', sizeof text);
    EXPECT(pb_policy_check("linux-6.12,placement=packed", text, sizeof text), PB_STATUS_OK);
    TRUE(text[0] == '\0');
    EXPECT(pb_policy_check("linux-2.2", text, sizeof text), PB_STATUS_POLICY);
    TRUE(strcmp(text, "unknown policy 'linux-2.2'; the oldest is linux-3.10") == 0);
    EXPECT(pb_policy_check("linux-2.2", text, 16), PB_STATUS_POLICY);
    TRUE(strcmp(text, "unknown policy ") == 0);
    EXPECT(pb_policy_check("linux-6.12,placement=tight", text, 1), PB_STATUS_POLICY);
    TRUE(text[0] == '\0');
    EXPECT(pb_policy_check("linux-6.12,colour=red", NULL, 0), PB_STATUS_POLICY);
    EXPECT(pb_policy_check("linux-6.12,packed", NULL, 0), PB_STATUS_POLICY);
    EXPECT(pb_policy_check("\xff\xfe", text, sizeof text), PB_STATUS_POLICY);
    EXPECT(pb_policy_check("linux-6.12", NULL, 1), PB_STATUS_NULL);
    EXPECT(pb_policy_check(NULL, text, sizeof text), PB_STATUS_NULL);
}

static void wrong_setup(pb_setup setup, pb_status status, const char *reason, int line)
{
    static unsigned char memory[64];
    pb_allocator *allocator = (pb_allocator *)memory;
    size_t size = 77;
    expect(line, "pb_metadata_size", pb_metadata_size(&setup, &size), status);
    expect(line, "pb_create", pb_create(&setup, memory, sizeof memory, &allocator), status);
    TRUE(size == 77 && allocator == (pb_allocator *)memory);
    char text[200];
    memset(text, 'x', sizeof text);
    expect(line, "pb_setup_check", pb_setup_check(&setup, text, sizeof text), status);
    if (strcmp(text, reason) != 0) {
        fprintf(stderr, "line %d: '%s' is not '%s'\n", line, text, reason);
        failures++;
    }
}

#define WRONG(change, status, reason)                                                                      \
    do {                                                                                           \
        pb_setup setup = good_setup();                                                             \
        change;                                                                                    \
        wrong_setup(setup, status, reason, __LINE__);                                                      \
    } while (0)

static void setups(void)
{
    static const pb_zone overlap[] = {{.start = 0, .end = 10, .kind = PB_ZONE_DMA},
                                      {.start = 9, .end = 20, .kind = PB_ZONE_NORMAL}};
    static const pb_zone falling[] = {{.start = 0, .end = 10, .kind = PB_ZONE_NORMAL},
                                      {.start = 10, .end = 20, .kind = PB_ZONE_DMA}};
    static const pb_zone empty[] = {{.start = 10, .end = 10, .kind = PB_ZONE_NORMAL}};
    static const pb_zone odd_kind[] = {{.start = 0, .end = 10, .kind = 9}};
    static const pb_zone far_node[] = {{.start = 0, .end = 10, .node = 64, .kind = PB_ZONE_NORMAL}};
    static const pb_zone farther[] = {{.start = 0, .end = 10, .node = 256, .kind = PB_ZONE_NORMAL}};
    static const pb_zone huge[] = {{.start = 0, .end = UINT64_MAX, .kind = PB_ZONE_NORMAL}};
    static const pb_zone large[] = {
        {.start = 0, .end = (uint64_t)1 << 40, .kind = PB_ZONE_NORMAL}};
    static const pb_zone reversed[] = {{.start = 9, .end = 0, .kind = PB_ZONE_NORMAL}};
    static const uint8_t nowhere[] = {0, 5};
    static const uint8_t near[] = {10, 10, 10, 10};

    WRONG(setup.zones = NULL, PB_STATUS_NULL,
          "zones: NULL, but their number is not 0");
    WRONG(setup.policy = "linux-2.2", PB_STATUS_POLICY,
          "policy: unknown policy 'linux-2.2'; the oldest is linux-3.10");
    WRONG(setup.policy = "", PB_STATUS_POLICY,
          "policy: unknown policy ''");
    WRONG(setup.distances = NULL, PB_STATUS_NULL,
          "distances: NULL, but their number is not 0");
    WRONG(setup.zone_count = 0, PB_STATUS_COUNT,
          "zones: there are 0; allowed: 1 to 320");
    WRONG(setup.cpu_count = 0, PB_STATUS_COUNT,
          "cpu_nodes: there are 0 CPUs; allowed: 1 to 65535");
    WRONG((setup.cpu_nodes = NULL, setup.cpu_count = PB_MAX_LOCAL_CPUS + 1), PB_STATUS_COUNT,
          "cpu_count: 1025; allowed: at most 1024 if cpu_nodes is NULL");
    WRONG((setup.zones = overlap, setup.zone_count = 2), PB_STATUS_ZONE_ORDER,
          "zones[1].span: shares frames with zones[0]; allowed: spans apart");
    WRONG((setup.zones = falling, setup.zone_count = 2), PB_STATUS_ZONE_ORDER,
          "zones[1]: not after the zone before it; allowed: by node, then by kind, one of each");
    WRONG((setup.zones = empty, setup.zone_count = 1), PB_STATUS_EMPTY,
          "zones[0].span: frames 10 to 10; allowed: an end after the start, at most 2^52");
    WRONG((setup.zones = odd_kind, setup.zone_count = 1), PB_STATUS_UNKNOWN,
          "zones[0].kind: 9; allowed: 0 to 4");
    WRONG((setup.zones = far_node, setup.zone_count = 1), PB_STATUS_ZONE_ORDER,
          "zones[0].node: 64; allowed: 0 to 63");
    WRONG((setup.zones = farther, setup.zone_count = 1), PB_STATUS_ZONE_ORDER,
          "zones[0].node: 255; allowed: 0 to 63");
    WRONG((setup.zones = huge, setup.zone_count = 1), PB_STATUS_TOO_LARGE,
          "zones[0].span: frames 0 to 18446744073709551615; allowed: an end after the start, at most 2^52");
    WRONG((setup.zones = large, setup.zone_count = 1, setup.cpu_count = 1), PB_STATUS_TOO_LARGE,
          "zones[0].span: 1099511627776 frames in whole blocks; allowed: at most 2^32 - 2");
    WRONG((setup.cpu_nodes = nowhere, setup.cpu_count = 2), PB_STATUS_CPU_NODE,
          "cpu_nodes[1]: node 5 has no zone; allowed: the nodes of zones");
    WRONG(setup.max_order = 15, PB_STATUS_GEOMETRY,
          "geometry.max_order: 15; allowed: 1 to 14");
    WRONG(setup.max_order = 256, PB_STATUS_GEOMETRY,
          "geometry.max_order: 255; allowed: 1 to 14");
    WRONG(setup.pageblock_order = 15, PB_STATUS_GEOMETRY,
          "geometry.pageblock_order: 15; allowed: 1 to 14");
    WRONG((setup.zones = reversed, setup.zone_count = 1), PB_STATUS_EMPTY,
          "zones[0].span: frames 9 to 0; allowed: an end after the start, at most 2^52");
    WRONG(setup.page_shift = 9, PB_STATUS_GEOMETRY, "geometry.page_shift: 9; allowed: 10 to 30");
    WRONG(setup.distance_count = 3, PB_STATUS_DISTANCES,
          "distances: there are 3; allowed: none, or one for each pair of nodes");
    WRONG(setup.distances = near, PB_STATUS_DISTANCES,
          "distances: 10 from node 0 to node 1; allowed: 10 within a node, more between nodes");

    pb_setup setup = good_setup();
    char text[200];
    EXPECT(pb_setup_check(&setup, text, sizeof text), PB_STATUS_OK);
    TRUE(text[0] == '\0');
    EXPECT(pb_setup_check(NULL, text, sizeof text), PB_STATUS_NULL);
}

static void creation(void)
{
    pb_setup setup = good_setup();
    pb_allocator *allocator;
    size_t size;
    unsigned char *memory;
    EXPECT(pb_metadata_size(NULL, &size), PB_STATUS_NULL);
    EXPECT(pb_metadata_size(&setup, NULL), PB_STATUS_NULL);
    EXPECT(pb_metadata_size(&setup, &size), PB_STATUS_OK);
    memory = malloc(size + 1);
    EXPECT(pb_create(NULL, memory, size, &allocator), PB_STATUS_NULL);
    EXPECT(pb_create(&setup, NULL, size, &allocator), PB_STATUS_NULL);
    EXPECT(pb_create(&setup, memory, size, NULL), PB_STATUS_NULL);
    EXPECT(pb_create(&setup, memory, size - 1, &allocator), PB_STATUS_SPACE);
    EXPECT(pb_create(&setup, memory, 0, &allocator), PB_STATUS_SPACE);
    EXPECT(pb_create_zeroed(NULL, memory, size, &allocator), PB_STATUS_NULL);
    EXPECT(pb_create_zeroed(&setup, NULL, size, &allocator), PB_STATUS_NULL);
    EXPECT(pb_create_zeroed(&setup, memory, size - 1, &allocator), PB_STATUS_SPACE);
    /* Any alignment will do. */
    EXPECT(pb_create(&setup, memory + 1, size, &allocator), PB_STATUS_OK);
    EXPECT(pb_destroy(allocator), PB_STATUS_OK);
    EXPECT(pb_destroy(NULL), PB_STATUS_NULL);
    free(memory);
}

static uint64_t frees(pb_allocator *allocator)
{
    uint64_t sum = 0, pages = 0;
    for (size_t zone = 0; zone < 3; zone++) {
        EXPECT(pb_free_pages(allocator, zone, &pages), PB_STATUS_OK);
        sum += pages;
    }
    return sum;
}

static void memory_ranges(pb_allocator *allocator)
{
    pb_range all[] = {{0, FRAMES}, {FRAMES * 2, FRAMES * 3 - HOLES}};
    pb_range twice[] = {{0, 1024}, {1023, 2048}};
    pb_range beyond = {FRAMES - 1, FRAMES + 1}, none = {5, 5}, some = {0, 512};
    EXPECT(pb_mark_holes(allocator, FRAMES * 3 - HOLES, FRAMES * 3), PB_STATUS_OK);
    EXPECT(pb_mark_holes(allocator, FRAMES * 3 - HOLES, FRAMES * 3), PB_STATUS_WRONG_STATE);
    EXPECT(pb_fill_holes(allocator, 0, 1), PB_STATUS_WRONG_STATE);
    EXPECT(pb_mark_holes(allocator, 7, 7), PB_STATUS_EMPTY);
    EXPECT(pb_mark_holes(allocator, FRAMES, FRAMES + 1), PB_STATUS_FOREIGN);
    EXPECT(pb_mark_holes(allocator, 2047, 2049), PB_STATUS_SPANS_ZONES);
    EXPECT(pb_release(allocator, NULL, 1), PB_STATUS_NULL);
    EXPECT(pb_release(NULL, all, 2), PB_STATUS_NULL);
    EXPECT(pb_release(allocator, &beyond, 1), PB_STATUS_FOREIGN);
    EXPECT(pb_release(allocator, &none, 1), PB_STATUS_EMPTY);
    EXPECT(pb_release(allocator, twice, 2), PB_STATUS_WRONG_STATE);
    TRUE(frees(allocator) == 0);
    EXPECT(pb_release(allocator, all, 2), PB_STATUS_OK);
    EXPECT(pb_release(allocator, &some, 1), PB_STATUS_WRONG_STATE);
    TRUE(frees(allocator) == FRAMES * 2 - HOLES);
}

static void cpus(pb_allocator *allocator)
{
    pb_cpu *cpu = NULL, *again = NULL;
    char text[64];
    size_t length;
    pb_zone_counters counters;
    pb_range some = {0, 512};
    uint64_t frame;
    EXPECT(pb_cpu_take(NULL, 0, &cpu), PB_STATUS_NULL);
    EXPECT(pb_cpu_take(allocator, 0, NULL), PB_STATUS_NULL);
    EXPECT(pb_cpu_take(allocator, CPUS, &cpu), PB_STATUS_NO_SUCH_CPU);
    EXPECT(pb_cpu_take(allocator, SIZE_MAX, &cpu), PB_STATUS_NO_SUCH_CPU);
    EXPECT(pb_cpu_take(allocator, 0, &cpu), PB_STATUS_OK);
    EXPECT(pb_cpu_take(allocator, 0, &again), PB_STATUS_CPU_TAKEN);
    TRUE(again == NULL);

    /* What needs the whole. */
    EXPECT(pb_check(allocator, text, sizeof text), PB_STATUS_BUSY);
    EXPECT(pb_reserve_cma(allocator, 0, 512), PB_STATUS_BUSY);
    EXPECT(pb_counters(allocator, 0, &counters), PB_STATUS_BUSY);
    EXPECT(pb_release(allocator, &some, 1), PB_STATUS_BUSY);
    EXPECT(pb_offline(allocator, 0, 0, 512, NULL), PB_STATUS_BUSY);
    EXPECT(pb_alloc_contig(allocator, 0, 3, 1, PB_GFP_KERNEL, NULL, &frame), PB_STATUS_BUSY);
    EXPECT(pb_alloc_contig_range(allocator, 0, 0, 3, NULL), PB_STATUS_BUSY);
    EXPECT(pb_free_contig(allocator, 0, 0, 3), PB_STATUS_BUSY);
    EXPECT(pb_destroy(allocator), PB_STATUS_BUSY);

    /* What does not. */
    char all[4096];
    EXPECT(pb_dump(allocator, PB_DUMP_BUDDYINFO, 6, 12, all, sizeof all, &length), PB_STATUS_OK);
    TRUE(length == strlen(all) && length > 0);
    EXPECT(pb_dump(allocator, PB_DUMP_VMSTAT, 6, 12, all, sizeof all, &length), PB_STATUS_OK);
    TRUE(strstr(all, "nr_free_pages ") != NULL && strstr(all, "pgfree") == NULL);
    EXPECT(pb_cpu_offline(NULL, 4096, 4608, NULL), PB_STATUS_NULL);
    EXPECT(pb_cpu_offline(cpu, 4096, 4097, NULL), PB_STATUS_NOT_PAGEBLOCKS);
    EXPECT(pb_online(NULL, 4096, 4608), PB_STATUS_NULL);
    EXPECT(pb_online(allocator, 4096, 4608), PB_STATUS_WRONG_STATE);
    EXPECT(pb_cpu_offline(cpu, 4096, 4608, NULL), PB_STATUS_OK);
    EXPECT(pb_cpu_offline(cpu, 4096, 4608, NULL), PB_STATUS_RESERVED);
    EXPECT(pb_mark_holes(allocator, 4096, 4608), PB_STATUS_OK);
    EXPECT(pb_online(allocator, 4096, 4608), PB_STATUS_WRONG_STATE);
    EXPECT(pb_fill_holes(allocator, 4096, 4608), PB_STATUS_OK);
    EXPECT(pb_online(allocator, 4096, 4608), PB_STATUS_OK);

    EXPECT(pb_cpu_give(cpu), PB_STATUS_OK);
    EXPECT(pb_cpu_give(cpu), PB_STATUS_CPU_GIVEN);
    EXPECT(pb_cpu_give(NULL), PB_STATUS_NULL);
    EXPECT(pb_alloc(cpu, 0, PB_GFP_KERNEL, &frame), PB_STATUS_CPU_GIVEN);
    EXPECT(pb_free(cpu, 0, 0), PB_STATUS_CPU_GIVEN);
    EXPECT(pb_cpu_drain(cpu), PB_STATUS_CPU_GIVEN);
    EXPECT(pb_cpu_tick(NULL), PB_STATUS_NULL);
    EXPECT(pb_cpu_attend(NULL), PB_STATUS_NULL);
    EXPECT(pb_cpu_drain(NULL), PB_STATUS_NULL);
    EXPECT(pb_check(allocator, text, sizeof text), PB_STATUS_OK);
}

static void requests(pb_cpu *cpu)
{
    pb_request request = {.gfp = PB_GFP_KERNEL, .node = PB_LOCAL_NODE};
    uint64_t frame = 7;
    EXPECT(pb_alloc(NULL, 0, PB_GFP_KERNEL, &frame), PB_STATUS_NULL);
    EXPECT(pb_alloc(cpu, 0, PB_GFP_KERNEL, NULL), PB_STATUS_NULL);
    EXPECT(pb_alloc(cpu, 11, PB_GFP_KERNEL, &frame), PB_STATUS_ORDER_TOO_LARGE);
    EXPECT(pb_alloc(cpu, 256, PB_GFP_KERNEL, &frame), PB_STATUS_ORDER_TOO_LARGE);
    EXPECT(pb_alloc(cpu, 0, PB_GFP_BIT_MOVABLE | PB_GFP_BIT_RECLAIMABLE, &frame),
           PB_STATUS_CONFLICTING_MOBILITY);
    EXPECT(pb_alloc_request(cpu, NULL, &frame), PB_STATUS_NULL);
    request.node = 9;
    EXPECT(pb_alloc_request(cpu, &request, &frame), PB_STATUS_NO_SUCH_NODE);
    request.node = -2;
    EXPECT(pb_alloc_request(cpu, &request, &frame), PB_STATUS_NO_SUCH_NODE);
    request.node = 256;
    EXPECT(pb_alloc_request(cpu, &request, &frame), PB_STATUS_NO_SUCH_NODE);
    request.node = PB_LOCAL_NODE;
    request.watermark = 3;
    EXPECT(pb_alloc_request(cpu, &request, &frame), PB_STATUS_UNKNOWN);
    request.watermark = PB_WATERMARK_LOW;
    request.nodes = 1 << 5;
    EXPECT(pb_alloc_request(cpu, &request, &frame), PB_STATUS_NO_MEMORY);
    TRUE(frame == 7);
    request.nodes = 1 << 1;
    EXPECT(pb_alloc_request(cpu, &request, &frame), PB_STATUS_OK);
    TRUE(frame >= FRAMES * 2);
    EXPECT(pb_free(cpu, frame, 0), PB_STATUS_OK);
}

static void wrong_frees(pb_cpu *cpu, pb_cpu *other)
{
    uint64_t frame, single;
    EXPECT(pb_alloc(cpu, 3, PB_GFP_KERNEL, &frame), PB_STATUS_OK);
    EXPECT(pb_free(NULL, frame, 3), PB_STATUS_NULL);
    EXPECT(pb_free(cpu, frame, 2), PB_STATUS_WRONG_ORDER);
    EXPECT(pb_free(cpu, frame, 0), PB_STATUS_WRONG_ORDER);
    EXPECT(pb_free(cpu, frame, 11), PB_STATUS_WRONG_ORDER);
    EXPECT(pb_free(cpu, frame, 256 + 3), PB_STATUS_ORDER_TOO_LARGE);
    EXPECT(pb_free(cpu, frame + 1, 0), PB_STATUS_NOT_ALLOCATED);
    EXPECT(pb_free(cpu, frame + 1, 3), PB_STATUS_NOT_ALLOCATED);
    EXPECT(pb_free(cpu, FRAMES + 5, 0), PB_STATUS_FOREIGN);
    EXPECT(pb_free(cpu, UINT64_MAX, 0), PB_STATUS_FOREIGN);
    EXPECT(pb_free(cpu, FRAMES * 3 - 1, 0), PB_STATUS_FOREIGN);
    EXPECT(pb_free(other, frame, 3), PB_STATUS_OK);
    EXPECT(pb_free(other, frame, 3), PB_STATUS_NOT_ALLOCATED);
    EXPECT(pb_free(cpu, frame, 3), PB_STATUS_NOT_ALLOCATED);

    EXPECT(pb_alloc(cpu, 0, PB_GFP_KERNEL, &single), PB_STATUS_OK);
    EXPECT(pb_split(cpu, single, 0, 1), PB_STATUS_ORDER_TOO_LARGE);
    EXPECT(pb_split(cpu, FRAMES + 1, 0, 0), PB_STATUS_FOREIGN);
    EXPECT(pb_set_movable(cpu, single, true), PB_STATUS_OK);
    EXPECT(pb_set_movable(cpu, FRAMES + 1, true), PB_STATUS_FOREIGN);
    EXPECT(pb_free(cpu, single, 0), PB_STATUS_OK);
    EXPECT(pb_set_movable(cpu, single, true), PB_STATUS_NOT_ALLOCATED);
}

static void bulk_and_places(pb_cpu *cpu)
{
    uint64_t frames[4] = {9, 9, 9, 9}, frame;
    size_t got = 0, freed = 99;
    EXPECT(pb_alloc_bulk(cpu, 1, PB_GFP_KERNEL, NULL, 4, &got), PB_STATUS_NULL);
    EXPECT(pb_alloc_bulk(cpu, 1, PB_GFP_KERNEL, frames, 4, NULL), PB_STATUS_NULL);
    EXPECT(pb_alloc_bulk(cpu, 12, PB_GFP_KERNEL, frames, 4, &got), PB_STATUS_ORDER_TOO_LARGE);
    EXPECT(pb_alloc_bulk(cpu, 1, PB_GFP_KERNEL, NULL, 0, &got), PB_STATUS_OK);
    TRUE(got == 0);
    EXPECT(pb_alloc_bulk(cpu, 1, PB_GFP_KERNEL, frames, 4, &got), PB_STATUS_OK);
    TRUE(got == 4);
    frame = frames[2];
    frames[2] = FRAMES + 2;
    EXPECT(pb_free_bulk(cpu, NULL, 4, 1, &freed), PB_STATUS_NULL);
    EXPECT(pb_free_bulk(cpu, frames, 4, 1, &freed), PB_STATUS_FOREIGN);
    TRUE(freed == 2);
    frames[2] = frame;
    EXPECT(pb_free_bulk(cpu, frames + 2, 2, 1, NULL), PB_STATUS_OK);
    EXPECT(pb_free_bulk(cpu, frames, 4, 1, &freed), PB_STATUS_NOT_ALLOCATED);
    TRUE(freed == 0);

    EXPECT(pb_cpu_drain(cpu), PB_STATUS_OK);
    EXPECT(pb_alloc_at(cpu, 4096, 2, PB_GFP_KERNEL), PB_STATUS_OK);
    EXPECT(pb_alloc_at(cpu, 4096, 2, PB_GFP_KERNEL), PB_STATUS_NOT_FREE);
    EXPECT(pb_alloc_at(cpu, 4097, 2, PB_GFP_KERNEL), PB_STATUS_MISALIGNED);
    EXPECT(pb_alloc_at(cpu, 4096, 2, PB_GFP_BIT_DMA32), PB_STATUS_ZONE_NOT_ALLOWED);
    EXPECT(pb_alloc_at(cpu, FRAMES, 0, PB_GFP_KERNEL), PB_STATUS_FOREIGN);
    EXPECT(pb_free(cpu, 4096, 2), PB_STATUS_OK);
    EXPECT(pb_alloc_at(cpu, 5000, 0, PB_GFP_KERNEL), PB_STATUS_OK);
    EXPECT(pb_free(cpu, 5000, 0), PB_STATUS_OK);
    EXPECT(pb_alloc_at(cpu, 5000, 0, PB_GFP_KERNEL), PB_STATUS_ON_CPU_LIST);
    EXPECT(pb_alloc_within(cpu, 9, 9, 0, PB_GFP_KERNEL, &frame), PB_STATUS_EMPTY);
    EXPECT(pb_alloc_within(cpu, 9, 12, 3, PB_GFP_KERNEL, &frame), PB_STATUS_NO_MEMORY);
    EXPECT(pb_alloc_within(cpu, 9, 12, 0, PB_GFP_KERNEL, NULL), PB_STATUS_NULL);
    EXPECT(pb_alloc_within(cpu, 100, 200, 4, PB_GFP_KERNEL, &frame), PB_STATUS_OK);
    TRUE(frame == 112);
    EXPECT(pb_free(cpu, frame, 4), PB_STATUS_OK);
    EXPECT(pb_alloc_below(cpu, 3, 3, PB_GFP_KERNEL, &frame), PB_STATUS_NO_MEMORY);
    EXPECT(pb_alloc_below(cpu, 0, 0, PB_GFP_KERNEL, &frame), PB_STATUS_EMPTY);
    EXPECT(pb_alloc_below(cpu, 256, 4, PB_GFP_KERNEL, &frame), PB_STATUS_OK);
    TRUE(frame + 16 <= 256);
    EXPECT(pb_free(cpu, frame, 4), PB_STATUS_OK);
    pb_range ranges[4];
    size_t found;
    EXPECT(pb_alloc_extents(cpu, 300, PB_GFP_KERNEL, ranges, 4, &found), PB_STATUS_OK);
    TRUE(found == 1 && ranges[0].end - ranges[0].start == 300);
    EXPECT(pb_cpu_free_contig(cpu, ranges[0].start, ranges[0].end), PB_STATUS_OK);
    EXPECT(pb_alloc_extents(cpu, 0, PB_GFP_KERNEL, ranges, 4, &found), PB_STATUS_EMPTY);
    EXPECT(pb_alloc_extents(cpu, 1, PB_GFP_KERNEL, ranges, 0, &found), PB_STATUS_SPACE);
    EXPECT(pb_alloc_extents(cpu, 1, PB_GFP_KERNEL, NULL, 4, &found), PB_STATUS_NULL);
    EXPECT(pb_alloc_extents(cpu, 1, PB_GFP_KERNEL, ranges, 4, NULL), PB_STATUS_NULL);
    EXPECT(pb_alloc_extents(cpu, 1 << 30, PB_GFP_KERNEL, ranges, 4, &found), PB_STATUS_SPACE);
}

static void drains(pb_allocator *allocator, pb_cpu *cpu)
{
    pb_drain drain, idle;
    bool drained = true;
    size_t waiting = 99;
    uint64_t frame;
    EXPECT(pb_alloc(cpu, 0, PB_GFP_KERNEL, &frame), PB_STATUS_OK);
    EXPECT(pb_free(cpu, frame, 0), PB_STATUS_OK);
    EXPECT(pb_request_drain(allocator, CPUS, &drain), PB_STATUS_NO_SUCH_CPU);
    EXPECT(pb_request_drain(allocator, 0, NULL), PB_STATUS_NULL);
    EXPECT(pb_request_drain(NULL, 0, &drain), PB_STATUS_NULL);
    EXPECT(pb_request_drain(allocator, 2, &idle), PB_STATUS_OK);
    EXPECT(pb_is_drained(allocator, &idle, &drained), PB_STATUS_OK);
    TRUE(drained);
    EXPECT(pb_request_drain(allocator, 0, &drain), PB_STATUS_OK);
    EXPECT(pb_is_drained(allocator, &drain, &drained), PB_STATUS_OK);
    TRUE(!drained);
    EXPECT(pb_cpu_attend(cpu), PB_STATUS_OK);
    EXPECT(pb_is_drained(allocator, &drain, &drained), PB_STATUS_OK);
    TRUE(drained);
    EXPECT(pb_is_drained(allocator, NULL, &drained), PB_STATUS_NULL);
    EXPECT(pb_drain_all(allocator, &waiting), PB_STATUS_OK);
    TRUE(waiting == 2);
    EXPECT(pb_drain_all(NULL, &waiting), PB_STATUS_NULL);
}

/* Uses up every frame, whatever the watermarks. */
static void down_to_the_last_frame(pb_allocator *allocator, pb_cpu *cpu)
{
    static uint64_t frames[FRAMES * 2];
    pb_request request = {.gfp = PB_GFP_KERNEL, .node = PB_LOCAL_NODE};
    size_t got = 0, ordinary;
    while (pb_alloc_request(cpu, &request, &frames[got]) == PB_STATUS_OK)
        got++;
    ordinary = got;
    EXPECT(pb_alloc(cpu, 0, PB_GFP_KERNEL, &frames[got]), PB_STATUS_NO_MEMORY);
    request.watermark = PB_WATERMARK_NONE;
    while (pb_alloc_request(cpu, &request, &frames[got]) == PB_STATUS_OK)
        got++;
    TRUE(ordinary < got && got == FRAMES * 2 - HOLES);
    TRUE(frees(allocator) == 0);
    EXPECT(pb_free_bulk(cpu, frames, got, 0, NULL), PB_STATUS_OK);
}

struct moves {
    uint64_t live[2];
    int asked, moved, refuse, waited;
    /* The whole that is worked on, or a CPU that is to be waited for. */
    pb_allocator *allocator;
    pb_cpu *other;
};

static bool is_movable(void *context, uint64_t block, uint32_t order)
{
    struct moves *moves = context;
    uint64_t pages;
    moves->asked++;
    TRUE(order == 0 && (block == moves->live[0] || block == moves->live[1]));
    if (moves->allocator == NULL)
        return true;
    /* Callbacks may not come back, and are told so. */
    EXPECT(pb_free_pages(moves->allocator, 0, &pages), PB_STATUS_BUSY);
    EXPECT(pb_check(moves->allocator, NULL, 0), PB_STATUS_BUSY);
    return true;
}

static bool migrate(void *context, uint64_t from, uint64_t to, uint32_t order)
{
    struct moves *moves = context;
    (void)order;
    if (moves->refuse)
        return false;
    moves->live[moves->live[1] == from] = to;
    moves->moved++;
    return true;
}

static bool wait_for(void *context, size_t cpu)
{
    struct moves *moves = context;
    TRUE(cpu == 1);
    moves->waited++;
    if (moves->other == NULL)
        return false;
    EXPECT(pb_cpu_attend(moves->other), PB_STATUS_OK);
    return true;
}

/* By a CPU, while another is taken. */
static void contiguous_beside(pb_cpu *cpu, pb_cpu *other)
{
    struct moves moves = {.live = {4100, 4200}};
    pb_migrate functions = {
        .is_movable = is_movable, .migrate = migrate, .context = &moves, .wait_for = wait_for};
    const uint32_t gfp = PB_GFP_KERNEL;
    uint64_t start = 3;
    EXPECT(pb_cpu_alloc_contig(NULL, 3, 1, gfp, NULL, &start), PB_STATUS_NULL);
    EXPECT(pb_cpu_alloc_contig(cpu, 3, 1, gfp, NULL, NULL), PB_STATUS_NULL);
    EXPECT(pb_cpu_alloc_contig(cpu, 0, 1, gfp, NULL, &start), PB_STATUS_EMPTY);
    EXPECT(pb_cpu_alloc_contig(cpu, 3, 3, gfp, NULL, &start), PB_STATUS_ALIGNMENT);
    EXPECT(pb_cpu_alloc_contig(cpu, FRAMES * 9, 1, gfp, NULL, &start), PB_STATUS_NOT_FOUND);
    EXPECT(pb_cpu_alloc_contig_range(NULL, 4096, 4608, NULL), PB_STATUS_NULL);
    EXPECT(pb_cpu_alloc_contig_range(cpu, 2040, 2050, NULL), PB_STATUS_SPANS_ZONES);
    EXPECT(pb_cpu_alloc_contig_range(cpu, FRAMES, FRAMES + 2, NULL), PB_STATUS_FOREIGN);
    EXPECT(pb_cpu_free_contig(NULL, 0, 1), PB_STATUS_NULL);
    TRUE(start == 3);

    /* Two blocks in the way, and a frame in the other's caches. */
    EXPECT(pb_cpu_drain(cpu), PB_STATUS_OK);
    EXPECT(pb_cpu_drain(other), PB_STATUS_OK);
    for (int i = 0; i < 2; i++)
        EXPECT(pb_alloc_at(cpu, moves.live[i], 0, PB_GFP_HIGHUSER_MOVABLE), PB_STATUS_OK);
    EXPECT(pb_alloc_at(other, 4300, 0, PB_GFP_HIGHUSER_MOVABLE), PB_STATUS_OK);
    EXPECT(pb_free(other, 4300, 0), PB_STATUS_OK);
    EXPECT(pb_cpu_alloc_contig_range(cpu, 4096, 4608, NULL), PB_STATUS_UNMOVABLE);
    EXPECT(pb_cpu_alloc_contig_range(cpu, 4096, 4608, &functions), PB_STATUS_BUSY);
    TRUE(moves.waited == 1 && moves.moved == 0);
    moves.other = other;
    moves.refuse = 1;
    EXPECT(pb_cpu_alloc_contig_range(cpu, 4096, 4608, &functions), PB_STATUS_NOT_MOVED);
    moves.refuse = 0;
    EXPECT(pb_cpu_alloc_contig_range(cpu, 4096, 4608, &functions), PB_STATUS_OK);
    TRUE(moves.moved == 2 && moves.asked >= 2);
    EXPECT(pb_cpu_alloc_contig_range(other, 4096, 4608, NULL), PB_STATUS_UNMOVABLE);
    EXPECT(pb_cpu_free_contig(other, 4096, 4608), PB_STATUS_OK);
    EXPECT(pb_cpu_free_contig(cpu, 4096, 4608), PB_STATUS_NOT_ALLOCATED);
    for (int i = 0; i < 2; i++)
        EXPECT(pb_free(cpu, moves.live[i], 0), PB_STATUS_OK);

    EXPECT(pb_cpu_drain(other), PB_STATUS_OK);
    EXPECT(pb_cpu_alloc_contig(cpu, 1500, 1024, gfp, &functions, &start), PB_STATUS_OK);
    TRUE(start % 1024 == 0);
    EXPECT(pb_cpu_free_contig(cpu, start, start + 1500), PB_STATUS_OK);
}

static void contiguous(pb_allocator *allocator)
{
    struct moves moves = {.allocator = allocator};
    pb_migrate functions = {.is_movable = is_movable, .migrate = migrate, .context = &moves};
    const uint32_t gfp = PB_GFP_KERNEL;
    uint64_t start = 3;
    pb_cpu *cpu;
    EXPECT(pb_alloc_contig(allocator, 0, 0, 1, gfp, NULL, &start), PB_STATUS_EMPTY);
    EXPECT(pb_alloc_contig(allocator, 0, 3, 3, gfp, NULL, &start), PB_STATUS_ALIGNMENT);
    EXPECT(pb_alloc_contig(allocator, CPUS, 3, 1, gfp, NULL, &start), PB_STATUS_NO_SUCH_CPU);
    EXPECT(pb_alloc_contig(allocator, 0, FRAMES * 9, 1, gfp, NULL, &start), PB_STATUS_NOT_FOUND);
    EXPECT(pb_alloc_contig(allocator, 0, UINT64_MAX, 1, gfp, NULL, &start), PB_STATUS_NOT_FOUND);
    EXPECT(pb_alloc_contig(allocator, 0, 3, 1, gfp, NULL, NULL), PB_STATUS_NULL);
    EXPECT(pb_alloc_contig_range(allocator, 0, 2040, 2050, NULL), PB_STATUS_SPANS_ZONES);
    EXPECT(pb_alloc_contig_range(allocator, 0, FRAMES, FRAMES + 2, NULL), PB_STATUS_FOREIGN);
    TRUE(start == 3);
    EXPECT(pb_alloc_contig(allocator, 0, 1500, 1024, gfp, NULL, &start), PB_STATUS_OK);
    TRUE(start % 1024 == 0);
    EXPECT(pb_free_contig(allocator, 0, start, start + 1500), PB_STATUS_OK);
    EXPECT(pb_free_contig(allocator, 0, start, start + 1500), PB_STATUS_NOT_ALLOCATED);

    /* Two blocks in the way. */
    EXPECT(pb_cpu_take(allocator, 0, &cpu), PB_STATUS_OK);
    EXPECT(pb_cpu_drain(cpu), PB_STATUS_OK);
    moves.live[0] = 4100, moves.live[1] = 4200;
    for (int i = 0; i < 2; i++)
        EXPECT(pb_alloc_at(cpu, moves.live[i], 0, PB_GFP_HIGHUSER_MOVABLE), PB_STATUS_OK);
    EXPECT(pb_cpu_give(cpu), PB_STATUS_OK);
    EXPECT(pb_alloc_contig_range(allocator, 0, 4096, 4608, NULL), PB_STATUS_UNMOVABLE);
    moves.refuse = 1;
    EXPECT(pb_alloc_contig_range(allocator, 0, 4096, 4608, &functions), PB_STATUS_NOT_MOVED);
    moves.refuse = 0;
    EXPECT(pb_alloc_contig_range(allocator, 0, 4096, 4608, &functions), PB_STATUS_OK);
    TRUE(moves.moved == 2 && moves.asked >= 2);
    EXPECT(pb_free_contig(allocator, 0, 4096, 4608), PB_STATUS_OK);
    EXPECT(pb_cpu_take(allocator, 0, &cpu), PB_STATUS_OK);
    for (int i = 0; i < 2; i++)
        EXPECT(pb_free(cpu, moves.live[i], 0), PB_STATUS_OK);
    EXPECT(pb_cpu_give(cpu), PB_STATUS_OK);

    EXPECT(pb_offline(allocator, 0, 4096, 4097, NULL), PB_STATUS_NOT_PAGEBLOCKS);
    EXPECT(pb_offline(allocator, 0, 4096, 4608, NULL), PB_STATUS_OK);
    EXPECT(pb_alloc_contig_range(allocator, 0, 4096, 4608, NULL), PB_STATUS_RESERVED);
    EXPECT(pb_release(allocator, &(pb_range){4096, 4608}, 1), PB_STATUS_OK);
}

static void dumps(pb_allocator *allocator)
{
    char text[16384];
    char small[8] = "xxxxxxx";
    size_t length = 0;
    pb_zone_info info;
    pb_zone_counters counters;
    EXPECT(pb_dump(allocator, 4, 6, 12, text, sizeof text, &length), PB_STATUS_UNKNOWN);
    EXPECT(pb_dump(NULL, 0, 6, 12, text, sizeof text, &length), PB_STATUS_NULL);
    EXPECT(pb_dump(allocator, 0, 6, 12, NULL, 9, &length), PB_STATUS_NULL);
    for (uint32_t what = 0; what < 4; what++) {
        EXPECT(pb_dump(allocator, what, 6, 12, NULL, 0, &length), PB_STATUS_SPACE);
        TRUE(length > 20 && length < sizeof text);
        EXPECT(pb_dump(allocator, what, 6, 12, text, length, NULL), PB_STATUS_SPACE);
        TRUE(strlen(text) == length - 1);
        EXPECT(pb_dump(allocator, what, 6, 12, text, length + 1, NULL), PB_STATUS_OK);
        TRUE(strlen(text) == length);
        EXPECT(pb_dump(allocator, what, 6, 12, small, sizeof small, &length), PB_STATUS_SPACE);
        TRUE(strlen(small) == 7 && strncmp(small, text, 7) == 0);
    }
    EXPECT(pb_zone_state(allocator, 3, &info), PB_STATUS_NO_SUCH_ZONE);
    EXPECT(pb_zone_state(allocator, 0, NULL), PB_STATUS_NULL);
    EXPECT(pb_zone_state(allocator, 2, &info), PB_STATUS_OK);
    TRUE(info.managed == FRAMES - HOLES && info.present == FRAMES - HOLES);
    TRUE(info.node == 1 && info.kind == PB_ZONE_NORMAL && info.low > 0);
    EXPECT(pb_free_pages(allocator, 3, &info.free), PB_STATUS_NO_SUCH_ZONE);
    EXPECT(pb_counters(allocator, 3, &counters), PB_STATUS_NO_SUCH_ZONE);
    EXPECT(pb_counters(allocator, 1, NULL), PB_STATUS_NULL);
    EXPECT(pb_counters(allocator, 1, &counters), PB_STATUS_OK);
}

/* CPUs count their operations; contiguous ranges are counted only when they are freed, as in Linux. */
static void counted(pb_allocator *allocator)
{
    pb_zone_counters counters = {0};
    for (size_t zone = 0; zone < 3; zone++) {
        EXPECT(pb_counters(allocator, zone, &counters), PB_STATUS_OK);
        TRUE(counters.allocated > 1000 && counters.allocated == counters.freed);
        TRUE(counters.locked > 0 && counters.list_probes > 0);
    }
}

/* Runs everything on one allocator, which is unchanged in the end. */
static void life(void)
{
    pb_setup setup = good_setup();
    pb_allocator *allocator;
    pb_cpu *cpu, *other;
    char text[256] = "";
    size_t size;
    void *memory;
    EXPECT(pb_metadata_size(&setup, &size), PB_STATUS_OK);
    memory = calloc(1, size);
    EXPECT(pb_create_zeroed(&setup, memory, size, &allocator), PB_STATUS_OK);
    memory_ranges(allocator);
    cpus(allocator);
    EXPECT(pb_cpu_take(allocator, 0, &cpu), PB_STATUS_OK);
    EXPECT(pb_cpu_take(allocator, 1, &other), PB_STATUS_OK);
    requests(cpu);
    wrong_frees(cpu, other);
    bulk_and_places(cpu);
    drains(allocator, cpu);
    EXPECT(pb_cpu_drain(other), PB_STATUS_OK);
    down_to_the_last_frame(allocator, cpu);
    EXPECT(pb_cpu_check(cpu, text, sizeof text), PB_STATUS_OK);
    EXPECT(pb_check_zones(allocator, text, sizeof text), PB_STATUS_OK);
    EXPECT(pb_cpu_give(cpu), PB_STATUS_OK);
    EXPECT(pb_cpu_give(other), PB_STATUS_OK);
    counted(allocator);
    EXPECT(pb_cpu_take(allocator, 0, &cpu), PB_STATUS_OK);
    EXPECT(pb_cpu_take(allocator, 1, &other), PB_STATUS_OK);
    contiguous_beside(cpu, other);
    EXPECT(pb_cpu_give(other), PB_STATUS_OK);
    EXPECT(pb_cpu_give(cpu), PB_STATUS_OK);
    contiguous(allocator);
    dumps(allocator);
    EXPECT(pb_drain_all(allocator, NULL), PB_STATUS_OK);
    EXPECT(pb_check(allocator, text, sizeof text), PB_STATUS_OK);
    TRUE(text[0] == '\0');
    TRUE(frees(allocator) == FRAMES * 2 - HOLES);
    EXPECT(pb_destroy(allocator), PB_STATUS_OK);
    free(memory);
}

/* Overwriting the allocator's memory is detected. */
static void damage(void)
{
    const pb_zone zone = {.start = 0, .end = FRAMES, .kind = PB_ZONE_NORMAL};
    pb_setup setup = {
        .zones = &zone, .zone_count = 1, .cpu_count = 1, .policy = "linux-6.12"};
    pb_range all = {0, FRAMES};
    pb_allocator *allocator;
    char text[256] = "";
    size_t size;
    unsigned char *memory;
    EXPECT(pb_metadata_size(&setup, &size), PB_STATUS_OK);
    memory = malloc(size);
    EXPECT(pb_create(&setup, memory, size, &allocator), PB_STATUS_OK);
    EXPECT(pb_release(allocator, &all, 1), PB_STATUS_OK);
    /* The page map is the largest part by far. */
    memset(memory + size / 2, 0, size / 4);
    EXPECT(pb_check(allocator, text, sizeof text), PB_STATUS_VIOLATION);
    TRUE(text[0] != '\0');
    free(memory);
}

int main(void)
{
    policies();
    setups();
    creation();
    life();
    damage();
    TRUE(strcmp(pb_strerror(-1), "no such status") == 0);
    if (failures == 0)
        puts("every mistake has its status");
    return failures != 0;
}
