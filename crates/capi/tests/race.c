/*
  * Threads that concurrently take CPUs, give them back, make exclusive calls and read numbers: each call
  * succeeds or returns that another thread is at work, and nothing is lost.
 */
#define _GNU_SOURCE
#include <pageblock.h>
#include <pthread.h>
#include <sched.h>
#include <stdio.h>
#include <stdlib.h>
#include <time.h>

#define FRAMES 4096
#define CPUS 2
#define WORKERS 3
#define TURNS 3000
#define WHOLE_TURNS 300

static pb_allocator *allocator;

static void must(int line, pb_status got, pb_status other)
{
    if (got != PB_STATUS_OK && got != other) {
        printf("line %d: %s\n", line, pb_strerror(got));
        exit(1);
    }
}

#define OK(call) must(__LINE__, call, PB_STATUS_OK)

/* Takes any CPU that is not taken; NULL during an exclusive call. */
static pb_cpu *take(unsigned turn)
{
    pb_cpu *cpu = NULL;
    pb_status status = pb_cpu_take(allocator, turn % CPUS, &cpu);
    if (status != PB_STATUS_BUSY)
        must(__LINE__, status, PB_STATUS_CPU_TAKEN);
    return cpu;
}

static void *work(void *argument)
{
    unsigned long done = 0;
    for (unsigned turn = 0; turn < TURNS; turn++) {
        uint64_t frames[40];
        size_t got;
        pb_cpu *cpu = take(turn);
        if (cpu == NULL) {
            sched_yield();
            continue;
        }
        OK(pb_alloc_bulk(cpu, turn % 4, PB_GFP_KERNEL, frames, 40, &got));
        OK(pb_free_bulk(cpu, frames, got, turn % 4, NULL));
        OK(pb_cpu_give(cpu));
        done++;
        /* Now and then nobody has a CPU. */
        if (turn % 8 == 0)
            nanosleep(&(struct timespec){.tv_nsec = 100000}, NULL);
    }
    *(unsigned long *)argument = done;
    return NULL;
}

/* Continues until it has succeeded often enough, at the latest when the others have ended. */
static void *watch(void *argument)
{
    unsigned long whole = 0;
    pb_zone_info info;
    pb_drain drain;
    bool drained;
    for (unsigned turn = 0; whole < WHOLE_TURNS; turn++) {
        pb_status status = turn % 8 == 0 ? pb_check(allocator, NULL, 0)
                                         : pb_alloc_contig_range(allocator, 0, 100, 101, NULL);
        if (status == PB_STATUS_OK && turn % 8 != 0)
            while ((status = pb_free_contig(allocator, 0, 100, 101)) == PB_STATUS_BUSY)
                sched_yield();
        /* The frame may be in use by a list that was not given back. */
        if (status != PB_STATUS_UNMOVABLE)
            must(__LINE__, status, PB_STATUS_BUSY);
        whole += status == PB_STATUS_OK;
        must(__LINE__, pb_zone_state(allocator, 0, &info), PB_STATUS_BUSY);
        status = pb_request_drain(allocator, turn % CPUS, &drain);
        must(__LINE__, status, PB_STATUS_BUSY);
        if (status == PB_STATUS_OK)
            must(__LINE__, pb_is_drained(allocator, &drain, &drained), PB_STATUS_BUSY);
        sched_yield();
    }
    *(unsigned long *)argument = whole;
    return NULL;
}

static void yield(void)
{
    sched_yield();
}

int main(void)
{
    pb_zone zone = {.start = 0, .end = FRAMES, .kind = PB_ZONE_NORMAL};
    pb_setup setup = {.zones = &zone, .zone_count = 1, .cpu_count = CPUS, .policy = "linux-6.12"};
    pb_range all = {0, FRAMES};
    pthread_t threads[WORKERS + 1];
    unsigned long done[WORKERS + 1], sum = 0;
    uint64_t pages;
    size_t size;
    void *memory;
    pb_set_relax(yield);
    OK(pb_metadata_size(&setup, &size));
    memory = malloc(size);
    OK(pb_create(&setup, memory, size, &allocator));
    OK(pb_release(allocator, &all, 1));
    for (unsigned i = 0; i <= WORKERS; i++)
        if (pthread_create(&threads[i], NULL, i == WORKERS ? watch : work, &done[i]) != 0)
            return 1;
    for (unsigned i = 0; i <= WORKERS; i++)
        pthread_join(threads[i], NULL);
    for (unsigned i = 0; i < WORKERS; i++)
        sum += done[i];
    OK(pb_drain_all(allocator, NULL));
    OK(pb_check(allocator, NULL, 0));
    OK(pb_free_pages(allocator, 0, &pages));
    OK(pb_destroy(allocator));
    free(memory);
    fprintf(stderr, "%lu turns of CPUs, %lu of the whole\n", sum, done[WORKERS]);
    if (pages != FRAMES || sum == 0)
        return 1;
    puts("nothing is lost");
    return 0;
}
