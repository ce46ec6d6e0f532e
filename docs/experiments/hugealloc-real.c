// What crates/simulate/src/workload/hugealloc does at --scale 1/4, for a real kernel: hugealloc-real.sh starts it in
// /mnt as "hugealloc run BUILDS JOBS CACHE_PERCENT PACE TREE [demand]". Prints what each build counted.
#define _GNU_SOURCE
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <arpa/inet.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

enum { PAGE = 4096, CPUS = 8, HEADERS = 1250, HEADERS_READ = 75, HEADER_PAGES = 3, SOURCE_PAGES = 10,
    OBJECT_PAGES = 16, LEAST = 1775, MOST = 5150, TOUCHES = 64, FRAGMENTS = 8, BUFFERS = 8, BUFFERED = 64 };
static const unsigned long HUGE_SIZE = 2ul << 20;
static volatile struct { unsigned next, done; } *progress;
static char page[PAGE];
static unsigned long long state;

static void die(const char *what) { printf("%s: %s\n", what, strerror(errno)); exit(1); }

static unsigned long below(unsigned long n) {
    state += 0x9e3779b97f4a7c15ull;
    unsigned long long z = state;
    z = (z ^ (z >> 30)) * 0xbf58476d1ce4e5b9ull;
    z = (z ^ (z >> 27)) * 0x94d049bb133111ebull;
    return (z ^ (z >> 31)) % n;
}

static void *memory(unsigned long size) {
    void *at = mmap(0, size, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    if (at == MAP_FAILED) die("mmap");
    return at;
}

// The simulation has no readahead here.
static void read_file(const char *kind, unsigned n, unsigned pages) {
    char name[32];
    snprintf(name, sizeof name, "%s/%u", kind, n);
    int fd = open(name, O_RDONLY);
    if (fd < 0) die(name);
    posix_fadvise(fd, 0, 0, POSIX_FADV_RANDOM);
    for (unsigned i = 0; i < pages; i++)
        if (read(fd, page, PAGE) != PAGE) die(name);
    close(fd);
}

static void write_file(const char *kind, unsigned n, unsigned pages) {
    char name[32];
    snprintf(name, sizeof name, "%s/%u", kind, n);
    int fd = open(name, O_WRONLY | O_CREAT | O_TRUNC, 0644);
    if (fd < 0) die(name);
    for (unsigned i = 0; i < pages; i++)
        if (write(fd, page, PAGE) != PAGE) die(name);
    close(fd);
}

static pid_t start(void) {
    fflush(stdout);
    pid_t child = fork();
    if (child < 0) die("fork");
    if (!child) prctl(PR_SET_PDEATHSIG, 9);
    return child;
}

static void finish(pid_t child, const char *what) {
    int status;
    waitpid(child, &status, 0);
    if (status) printf("%s ended with %#x\n", what, status);
}

static void rest(double ms) {
    struct timespec t = {ms / 1000, (long)(ms * 1e6) % 1000000000};
    nanosleep(&t, 0);
}

// The memory cache: popular pages are touched most; each turn sends 32 KiB, from a block of order 3
// (page_frag), and eight buffers of 1 KiB (a skb's head), and keeps some of both in flight.
static void cache(unsigned long pages, double turn_ms) {
    char *items = memory(pages * PAGE), big[32768] = {0}, small[640] = {0};
    int local[2], size = 4 << 20, listener = socket(AF_INET, SOCK_STREAM, 0), out = socket(AF_INET, SOCK_STREAM, 0);
    struct sockaddr_in at = {AF_INET, htons(11211), {htonl(INADDR_LOOPBACK)}};
    if (bind(listener, (void *)&at, sizeof at) || listen(listener, 1) || connect(out, (void *)&at, sizeof at)) die("tcp");
    int in = accept(listener, 0, 0), fragments = 0, buffers = 0;
    setsockopt(out, SOL_SOCKET, SO_SNDBUFFORCE, &size, sizeof size);
    setsockopt(in, SOL_SOCKET, SO_RCVBUFFORCE, &size, sizeof size);
    if (socketpair(AF_UNIX, SOCK_STREAM, 0, local)) die("socketpair");
    setsockopt(local[0], SOL_SOCKET, SO_SNDBUFFORCE, &size, sizeof size);
    for (unsigned long i = 0; i < pages; i++) items[i * PAGE] = 1;
    progress->done = 1;
    for (;;) {
        if (send(out, big, sizeof big, 0) != sizeof big) die("send");
        if (++fragments > FRAGMENTS && recv(in, big, sizeof big, MSG_WAITALL) > 0) fragments--;
        for (int i = 0; i < BUFFERS; i++)
            if (send(local[0], small, sizeof small, 0) == sizeof small) buffers++;
        for (; buffers > BUFFERED; buffers--)
            if (recv(local[1], small, sizeof small, MSG_WAITALL) < 0) die("recv");
        for (int i = 0; i < TOUCHES; i++) {
            unsigned long item = below(pages) * below(pages) / pages;
            items[item * PAGE]++;
        }
        rest(turn_ms);
    }
}

// A job's compiler, a process of its own.
static void compile(unsigned job, unsigned build) {
    state = build * 1000003ull + job;
    read_file("src", job, SOURCE_PAGES);
    for (int i = 0; i < HEADERS_READ; i++) read_file("inc", below(HEADERS), HEADER_PAGES);
    unsigned pages = LEAST + below(MOST - LEAST + 1);
    char *at = memory((unsigned long)pages * PAGE);
    for (unsigned i = 0; i < pages; i++) at[(unsigned long)i * PAGE] = 1;
    write_file("obj", job, OBJECT_PAGES);
}

static void worker(unsigned jobs, unsigned build) {
    unsigned job;
    while ((job = __sync_fetch_and_add(&progress->next, 1)) < jobs) {
        pid_t child = start();
        if (!child) {
            char a[16], b[16];
            snprintf(a, sizeof a, "%u", job);
            snprintf(b, sizeof b, "%u", build);
            execl("/hugealloc", "hugealloc", "cc1", a, b, NULL);
            die("exec");
        }
        finish(child, "cc1");
        __sync_fetch_and_add(&progress->done, 1);
    }
}

static void batches(unsigned jobs, unsigned number, unsigned regions) {
    for (unsigned i = 0; i < number; i++) {
        while (progress->done * number < i * jobs) rest(5);
        char *map = memory((regions + 1) * HUGE_SIZE);
        char *at = (char *)(((unsigned long)map + HUGE_SIZE - 1) & ~(HUGE_SIZE - 1));
        madvise(at, regions * HUGE_SIZE, MADV_HUGEPAGE);
        for (unsigned r = 0; r < regions; r++) at[r * HUGE_SIZE] = 1;
        munmap(map, (regions + 1) * HUGE_SIZE);
    }
}

static void clean(void) {
    DIR *dir = opendir("obj");
    struct dirent *entry;
    while ((entry = readdir(dir)))
        if (entry->d_name[0] != '.') unlinkat(dirfd(dir), entry->d_name, 0);
    closedir(dir);
}

// The rest of the tree: files that each build looks up, in directories of 32.
static const char *other(unsigned n) {
    static char name[32];
    snprintf(name, sizeof name, "tree/%u/%u", n / 32, n);
    return name;
}

// Files that are read lie scattered among the rest of the tree.
static void plant(unsigned jobs, unsigned tree) {
    const char *dirs[] = {"src", "inc", "obj", "tree"};
    char name[32];
    for (int i = 0; i < 4; i++) mkdir(dirs[i], 0755);
    unsigned all = jobs + HEADERS, planted = 0;
    for (unsigned i = 0; i < all; i++) {
        if (i % 3 == 0 && i / 3 < jobs) write_file("src", i / 3, SOURCE_PAGES);
        else write_file("inc", i / 3 < jobs ? i - i / 3 - 1 : i - jobs, HEADER_PAGES);
        for (; planted < (unsigned long)tree * (i + 1) / all; planted++) {
            if (planted % 32 == 0) { snprintf(name, sizeof name, "tree/%u", planted / 32); mkdir(name, 0755); }
            int fd = open(other(planted), O_WRONLY | O_CREAT, 0644);
            if (fd < 0) die("tree");
            close(fd);
        }
    }
}

static void build(unsigned number, unsigned jobs, unsigned tree, unsigned attempts, unsigned regions) {
    pid_t children[CPUS + 1];
    clean();
    for (unsigned i = 0; i < jobs; i++) read_file("src", i, 0);
    for (unsigned i = 0; i < HEADERS; i++) read_file("inc", i, 0);
    struct stat look;
    for (unsigned i = 0; i < tree; i++)
        if (stat(other(i), &look)) die("stat");
    progress->next = progress->done = 0;
    for (int i = 0; i <= CPUS; i++)
        if (!(children[i] = start())) {
            i < CPUS ? worker(jobs, number) : batches(jobs, attempts, regions);
            exit(0);
        }
    for (int i = 0; i <= CPUS; i++) finish(children[i], "a worker");
    pid_t link = start();
    if (!link) {
        for (unsigned i = 0; i < jobs; i++) read_file("obj", i, OBJECT_PAGES);
        for (unsigned i = 0; i < 2; i++) write_file("obj", jobs + i, jobs * OBJECT_PAGES);
        exit(0);
    }
    finish(link, "the link");
}

static const char *const COUNTED[] = {"thp_fault_alloc", "thp_fault_fallback", "pgfault", "allocstall_dma",
    "allocstall_normal", "allocstall_movable", "compact_stall", "compact_daemon_migrate_scanned",
    "compact_daemon_free_scanned", "compact_migrate_scanned", "compact_free_scanned", "pgscan_kswapd", "pgsteal_kswapd",
    "pgscan_direct", "pgsteal_direct", "pswpout", "pswpin", "workingset_refault_file", "workingset_refault_anon",
    "slabs_scanned", "kswapd_inodesteal", "pginodesteal", "pgmigrate_success", "nr_slab_reclaimable",
    "nr_slab_unreclaimable"};
enum { COUNTERS = sizeof COUNTED / sizeof *COUNTED };
// By requested type, type of the list, order of the block that was found; and the order that was asked for.
struct counts { long vmstat[COUNTERS], event[4][4][12], owned[4][4], wanted[12]; };

static struct counts count(void) {
    struct counts c = {0};
    char line[512], name[64];
    FILE *f = fopen("/proc/vmstat", "r");
    long value;
    while (fgets(line, sizeof line, f))
        for (int i = 0; i < COUNTERS; i++)
            if (sscanf(line, "%63s %ld", name, &value) == 2 && !strcmp(name, COUNTED[i])) c.vmstat[i] = value;
    fclose(f);
    if (!(f = fopen("/sys/kernel/tracing/events/kmem/mm_page_alloc_extfrag/hist", "r"))) die("hist");
    while (fgets(line, sizeof line, f)) {
        unsigned asked, found, order;
        if (sscanf(line, "{ alloc_migratetype: %u, fallback_migratetype: %u, fallback_order: %u } hitcount: %ld", &asked, &found, &order, &value) == 4)
            c.event[asked & 3][found & 3][order] = value;
        if (sscanf(line, "{ alloc_migratetype: %u, fallback_migratetype: %u, change_ownership: 1 } hitcount: %ld", &asked, &found, &value) == 3)
            c.owned[asked & 3][found & 3] = value;
        if (sscanf(line, "{ alloc_order: %u } hitcount: %ld", &order, &value) == 2) c.wanted[order] = value;
    }
    fclose(f);
    return c;
}

static void events(const struct counts *a, const struct counts *b, const char *name, unsigned first, unsigned last) {
    long total = 0;
    char text[512] = "", *at = text;
    for (int asked = 0; asked < 4; asked++)
        for (int found = 0; found < 4; found++) {
            long n = 0;
            for (unsigned o = first; o <= last; o++) n += b->event[asked][found][o] - a->event[asked][found][o];
            if (n) at += sprintf(at, " %c>%c %ld", "UMRH"[asked], "UMRH"[found], n);
            total += n;
        }
    printf("  events %s %ld:%s\n", name, total, text);
}

static void report(unsigned number, long seconds, const struct counts *a, const struct counts *b) {
    char line[512];
    long blocks[4] = {0}, n[4];
    printf("build %u: %ld s\n", number, seconds);
    events(a, b, "below-9", 0, 8);
    events(a, b, "9-and-10", 9, 11);
    printf("  asked-order");
    for (int o = 0; o < 12; o++)
        if (b->wanted[o] > a->wanted[o]) printf(" %d: %ld", o, b->wanted[o] - a->wanted[o]);
    printf("\n  found");
    for (int asked = 0; asked < 4; asked++)
        for (int found = 0; found < 4; found++) {
            for (int o = 0; o < 11; o++) {
                long n = b->event[asked][found][o] - a->event[asked][found][o];
                if (n) printf(" %c>%c@%d %ld", "UMRH"[asked], "UMRH"[found], o, n);
            }
            long n = b->owned[asked][found] - a->owned[asked][found];
            if (n) printf(" %c>%c-claimed %ld", "UMRH"[asked], "UMRH"[found], n);
        }
    printf("\n  vmstat");
    for (int i = 0; i < COUNTERS; i++)
        printf(" %s %ld", COUNTED[i], b->vmstat[i] - (strncmp(COUNTED[i], "nr_", 3) ? a->vmstat[i] : 0));
    FILE *f = fopen("/proc/pagetypeinfo", "r");
    while (fgets(line, sizeof line, f))
        if (sscanf(line, "Node 0, zone %*s %ld %ld %ld %ld", n, n + 1, n + 2, n + 3) == 4)
            for (int t = 0; t < 4; t++) blocks[t] += n[t];
    fclose(f);
    printf("\n  blocks U %ld M %ld R %ld H %ld\n", blocks[0], blocks[1], blocks[2], blocks[3]);
    fflush(stdout);
}

// Requests that are not movable, by order, since boot, where they are counted.
static void demand(void) {
    char line[512];
    unsigned order, type;
    long n;
    FILE *f = fopen("/sys/kernel/tracing/events/kmem/mm_page_alloc/hist", "r");
    if (!f) die("demand");
    printf("  demand");
    while (fgets(line, sizeof line, f))
        if (sscanf(line, "{ order: %u, migratetype: %u } hitcount: %ld", &order, &type, &n) == 3 && type != 1)
            printf(" %c%u %ld", "UMRH"[type & 3], order, n);
    printf("\n");
    fflush(stdout);
    fclose(f);
}

static long meminfo(const char *name) {
    char line[128], key[64];
    long value;
    FILE *f = fopen("/proc/meminfo", "r");
    while (fgets(line, sizeof line, f))
        if (sscanf(line, "%63[^:]: %ld", key, &value) == 2 && !strcmp(key, name)) { fclose(f); return value; }
    die(name);
    return 0;
}

int main(int argc, char **argv) {
    if (argc > 3 && !strcmp(argv[1], "cc1")) { compile(atoi(argv[2]), atoi(argv[3])); return 0; }
    if (argc < 7) return 2;
    unsigned builds = atoi(argv[2]), jobs = atoi(argv[3]), percent = atoi(argv[4]), tree = atoi(argv[6]);
    double turn_ms = 10 * atof(argv[5]);
    plant(jobs, tree);
    sync();
    int fd = open("/proc/sys/vm/drop_caches", O_WRONLY);
    if (write(fd, "3", 1) != 1) die("drop_caches");
    long total = meminfo("MemTotal"), free = meminfo("MemFree");
    unsigned regions = free / 2048 / 8;
    unsigned long pages = free / 4 * percent / 100;
    printf("MemTotal %ld KiB, free before %ld KiB; cache %lu pages, %u batches of %u\n", total, free, pages, jobs / 4, regions);
    progress = mmap(0, PAGE, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    if (!start()) { cache(pages, turn_ms); }
    while (!progress->done) rest(100);
    for (unsigned i = 1; i <= builds; i++) {
        struct counts before = count();
        long began = time(0);
        build(i, jobs, tree, jobs / 4, regions);
        struct counts after = count();
        report(i, time(0) - began, &before, &after);
        if (argc > 7) demand();
    }
    return 0;
}
