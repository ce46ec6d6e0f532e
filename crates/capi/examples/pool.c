/*
 * A pool of buffers in huge pages: memory from mmap, frames from Pageblock.
 *
  * Each thread takes a CPU. It allocates and fills buffers, which the next thread verifies and
  * frees. At the end the program proves that every frame is free exactly once.
 *
 *   cc $(pkg-config --cflags pageblock) pool.c $(pkg-config --libs pageblock) -pthread -o pool
 */
#define _GNU_SOURCE
#include <pageblock.h>
#include <pthread.h>
#include <sched.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>

#define PAGE ((size_t)4096)
#define HUGE_PAGE ((size_t)2 << 20)
#define POOL ((size_t)64 << 20)
#define THREADS 4
#define ROUNDS 20000
#define LARGEST_ORDER 5
#define SLOTS 64

/* Ends the program if a call fails unexpectedly. */
static void must(pb_status status, const char *what)
{
    if (status != PB_STATUS_OK) {
        fprintf(stderr, "%s: %s\n", what, pb_strerror(status));
        exit(1);
    }
}

/* Memory. */

struct pool {
    unsigned char *base;
    void *metadata;
    pb_allocator *frames;
};

/* Zeroed memory that starts at a multiple of a huge page, in huge pages if the system has some. */
static unsigned char *map_memory(void)
{
    int flags = MAP_PRIVATE | MAP_ANONYMOUS;
    unsigned char *memory =
        mmap(NULL, POOL, PROT_READ | PROT_WRITE, flags | MAP_HUGETLB, -1, 0);
    if (memory != MAP_FAILED) {
        puts("memory: huge pages of the system's pool (MAP_HUGETLB)");
        return memory;
    }
    memory = mmap(NULL, POOL + HUGE_PAGE, PROT_READ | PROT_WRITE, flags, -1, 0);
    if (memory == MAP_FAILED) {
        perror("mmap");
        exit(1);
    }
    memory += (HUGE_PAGE - (size_t)memory % HUGE_PAGE) % HUGE_PAGE;
    if (madvise(memory, POOL, MADV_HUGEPAGE) == 0)
        puts("memory: no MAP_HUGETLB here; transparent huge pages asked for (MADV_HUGEPAGE)");
    else
        puts("memory: no MAP_HUGETLB here, nor MADV_HUGEPAGE; ordinary pages");
    return memory;
}

static void make_frames(struct pool *pool)
{
    pb_zone zone = {.start = 0, .end = POOL / PAGE, .kind = PB_ZONE_NORMAL};
    pb_setup setup = {
        .zones = &zone,
        .zone_count = 1,
        .cpu_count = THREADS,
    };
    pb_range all = {.start = zone.start, .end = zone.end};
    size_t size;
    must(pb_metadata_size(&setup, &size), "pb_metadata_size");
    pool->metadata = calloc(1, size);
    must(pb_create_zeroed(&setup, pool->metadata, size, &pool->frames), "pb_create_zeroed");
    must(pb_release(pool->frames, &all, 1), "pb_release");
    printf("pool: %zu MiB in %zu frames, metadata %zu bytes (%.2f a frame)\n", POOL >> 20,
           POOL / PAGE, size, (double)size / (double)(POOL / PAGE));
}

/* Buffers. */

struct buffer {
    uint64_t frame;
    uint32_t order;
    unsigned char mark;
};

static unsigned char *data(const struct pool *pool, const struct buffer *buffer)
{
    return pool->base + buffer->frame * PAGE;
}

static pb_status get(const struct pool *pool, pb_cpu *cpu, struct buffer *buffer)
{
    pb_status status = pb_alloc(cpu, buffer->order, PB_GFP_HIGHUSER_MOVABLE, &buffer->frame);
    if (status == PB_STATUS_OK)
        memset(data(pool, buffer), buffer->mark, PAGE << buffer->order);
    return status;
}

/* If another owner had the same memory, the mark differs. */
static void put(const struct pool *pool, pb_cpu *cpu, const struct buffer *buffer)
{
    const unsigned char *byte = data(pool, buffer);
    for (size_t i = 0; i < PAGE << buffer->order; i += 64) {
        if (byte[i] != buffer->mark) {
            fprintf(stderr, "frame %llu has two owners\n", (unsigned long long)buffer->frame);
            exit(1);
        }
    }
    must(pb_free(cpu, buffer->frame, buffer->order), "pb_free");
}

/* Threads: each sends to the next through its own ring. */

struct worker {
    pthread_t thread;
    const struct pool *pool;
    struct worker *next;
    unsigned number;
    struct buffer ring[SLOTS];
    atomic_uint head, tail;
    unsigned long freed, refused;
};

static int send(struct worker *to, const struct buffer *buffer)
{
    unsigned head = atomic_load_explicit(&to->head, memory_order_relaxed);
    if (head - atomic_load_explicit(&to->tail, memory_order_acquire) == SLOTS)
        return 0;
    to->ring[head % SLOTS] = *buffer;
    atomic_store_explicit(&to->head, head + 1, memory_order_release);
    return 1;
}

static void receive_all(struct worker *self, pb_cpu *cpu)
{
    unsigned tail = atomic_load_explicit(&self->tail, memory_order_relaxed);
    while (tail != atomic_load_explicit(&self->head, memory_order_acquire)) {
        put(self->pool, cpu, &self->ring[tail % SLOTS]);
        self->freed++;
        atomic_store_explicit(&self->tail, ++tail, memory_order_release);
    }
}

static void *work(void *argument)
{
    struct worker *self = argument;
    uint64_t dice = 0x9e3779b97f4a7c15u * (self->number + 1);
    pb_cpu *cpu;
    must(pb_cpu_take(self->pool->frames, self->number, &cpu), "pb_cpu_take");
    for (unsigned round = 0; round < ROUNDS; round++) {
        dice ^= dice << 13, dice ^= dice >> 7, dice ^= dice << 17;
        struct buffer buffer = {.order = dice % (LARGEST_ORDER + 1), .mark = dice >> 32 & 0xff};
        pb_status status = get(self->pool, cpu, &buffer);
        if (status == PB_STATUS_NO_MEMORY)
            self->refused++;
        else
            must(status, "pb_alloc");
        if (status == PB_STATUS_OK && !send(self->next, &buffer)) {
            put(self->pool, cpu, &buffer);
            self->freed++;
        }
        receive_all(self, cpu);
    }
    must(pb_cpu_give(cpu), "pb_cpu_give");
    return NULL;
}

static void run(const struct pool *pool)
{
    static struct worker workers[THREADS];
    unsigned long freed = 0, refused = 0;
    for (unsigned i = 0; i < THREADS; i++) {
        workers[i].pool = pool;
        workers[i].number = i;
        workers[i].next = &workers[(i + 1) % THREADS];
    }
    for (unsigned i = 0; i < THREADS; i++)
        if (pthread_create(&workers[i].thread, NULL, work, &workers[i]) != 0)
            exit(1);
    for (unsigned i = 0; i < THREADS; i++)
        pthread_join(workers[i].thread, NULL);
    /* What was sent to a thread that had ended. */
    for (unsigned i = 0; i < THREADS; i++) {
        pb_cpu *cpu;
        must(pb_cpu_take(pool->frames, i, &cpu), "pb_cpu_take");
        receive_all(&workers[i], cpu);
        must(pb_cpu_give(cpu), "pb_cpu_give");
        freed += workers[i].freed;
        refused += workers[i].refused;
    }
    printf("threads: %d, buffers verified and freed: %lu, refused: %lu\n", THREADS, freed, refused);
}

/* The end. */

static void report(const struct pool *pool)
{
    char text[4096] = "";
    size_t waiting;
    pb_zone_info zone;
    must(pb_drain_all(pool->frames, &waiting), "pb_drain_all");
    if (pb_check(pool->frames, text, sizeof text) != PB_STATUS_OK) {
        fprintf(stderr, "pb_check: %s\n", text);
        exit(1);
    }
    must(pb_dump(pool->frames, PB_DUMP_BUDDYINFO, 6, 12, text, sizeof text, NULL), "pb_dump");
    fputs(text, stdout);
    must(pb_zone_state(pool->frames, 0, &zone), "pb_zone_state");
    if (waiting != 0 || zone.managed != POOL / PAGE || zone.free != zone.managed) {
        fprintf(stderr, "%llu of %zu frames are free\n", (unsigned long long)zone.free,
                POOL / PAGE);
        exit(1);
    }
    printf("every frame is free: %llu of %zu\n", (unsigned long long)zone.free, POOL / PAGE);
}

static void yield(void)
{
    sched_yield();
}

int main(void)
{
    struct pool pool;
    /* Who waits for a lock lets its holder run. */
    pb_set_relax(yield);
    pool.base = map_memory();
    make_frames(&pool);
    run(&pool);
    report(&pool);
    must(pb_destroy(pool.frames), "pb_destroy");
    free(pool.metadata);
    return 0;
}
