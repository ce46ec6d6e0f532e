/* apppressure on a real kernel: apps that are brought to the front in turn, used, and paged out to zram. */
#define _GNU_SOURCE
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <linux/dma-heap.h>
#include <pthread.h>
#include <signal.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/ipc.h>
#include <sys/mman.h>
#include <sys/msg.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <sys/uio.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

enum { APPS = 18, PAGE = 4096, PARTS = 64, TURNS = 5, HUGE = 2 << 20 };
typedef struct { unsigned long least, most; } Range;
static const Range ANON = {30000, 80000}, THREADS = {20, 60}, TABLES = {200, 800}, BUFFERS = {10, 30}, BUFFER_PAGES = {25, 1000},
    BINDER = {20, 100}, AREAS = {1000, 2000}, SMALL = {1000, 3000};
static unsigned long scale, media_files, shared_files, state;

static unsigned long draw(void) {
    state += 0x9e3779b97f4a7c15ul;
    unsigned long z = (state ^ state >> 30) * 0xbf58476d1ce4e5b9ul;
    return (z ^ z >> 27) * 0x94d049bb133111ebul >> 11;
}
static unsigned long below(unsigned long n) { return draw() % n; }
static unsigned long part(unsigned long n) { return n / scale ? n / scale : 1; }
static unsigned long of(Range r) { return part(r.least + below(r.most - r.least + 1)); }
static void die(const char *what) { fprintf(stderr, "phone: %s: %s\n", what, strerror(errno)); exit(1); }
static double now(void) { struct timespec t; clock_gettime(CLOCK_MONOTONIC, &t); return t.tv_sec + t.tv_nsec * 1e-9; }
static void rest(double s) { struct timespec t = {(long)s, (s - (long)s) * 1e9}; nanosleep(&t, 0); }

/* 8 % of pages hold one value, 2 % can't be compressed, the others have 200 to 2,600 bytes of content. */
static void fill(char *page) {
    unsigned long kind = below(100), bytes = kind < 8 ? 0 : kind < 10 ? PAGE : 200 + below(2401);
    *page = 0;
    for (unsigned long i = 0; i + 8 <= bytes; i += 8) *(uint64_t *)(page + i) = draw() << 11 ^ draw();
}
static void *map(unsigned long pages) {
    void *at = mmap(0, pages * PAGE, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
    if (at == MAP_FAILED) die("mmap");
    return at;
}
static void read_file(const char *kind, unsigned long a, unsigned long b, long most) {
    static char buffer[128 << 10];
    char name[64];
    snprintf(name, sizeof name, "/mnt/%s/%lu/%lu", kind, a, b);
    int fd = open(name, O_RDONLY);
    if (fd < 0) die(name);
    for (long n; most > 0 && (n = read(fd, buffer, most < (long)sizeof buffer ? most : (long)sizeof buffer)) > 0;) most -= n;
    close(fd);
}
static void read_media(long most) { unsigned long n = below(media_files); read_file("media", n % 64, n / 64, most); }

/* ---- an app */
static int heap, queue, buffers[64], pipes[2];
static unsigned long number, own_files, anon_pages, count_buffers;
static char *anon;

static int buffer(void) {
    struct dma_heap_allocation_data a = {.len = of(BUFFER_PAGES) * PAGE, .fd_flags = O_RDWR | O_CLOEXEC};
    return ioctl(heap, DMA_HEAP_IOCTL_ALLOC, &a) < 0 ? -1 : (int)a.fd;
}
static void *idle(void *unused) { for (;;) pause(); return unused; }
static void small(void) {
    static struct { long type; char text[80]; } message = {.type = 1};
    if (msgsnd(queue, &message, sizeof message.text, IPC_NOWAIT)) die("msgsnd");
}

static void grow(int at, unsigned long threads, unsigned long tables, unsigned long areas, unsigned long count_small, unsigned long binder) {
#define EACH(n) for (unsigned long i = at * (n) / PARTS; i < (at + 1) * (n) / PARTS; i++)
    EACH(threads) {
        pthread_attr_t small_stack;
        pthread_t id;
        pthread_attr_init(&small_stack);
        pthread_attr_setstacksize(&small_stack, 32 << 10);
        if (pthread_create(&id, &small_stack, idle, 0)) die("pthread_create");
    }
    EACH(areas) mmap(0, PAGE, i & 1 ? PROT_READ : PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    EACH(count_small) small();
    EACH(tables) {
        char *region = mmap(0, HUGE, PROT_READ, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
        (void)*(volatile char *)region;
    }
    EACH(binder) { static char page[PAGE]; if (write(pipes[1], page, PAGE) < 0) die("pipe"); }
    EACH(count_buffers) buffers[i] = buffer();
    EACH(anon_pages) fill(anon + i * PAGE);
}

static void launch(int warm, unsigned long *plan) {
    unsigned long first = below(2);
    for (int at = 0; at < PARTS; at++) {
        rest((warm ? 0.150 : 0.500) / scale / PARTS);
        if (warm) EACH(anon_pages / 2) anon[(2 * i + first) * PAGE + 8]++;
        else grow(at, plan[0], plan[1], plan[2], plan[3], plan[4]);
        EACH(own_files) if (i % (warm ? 4 : 1) == 0) read_file("own", number, i, 1l << 30);
        EACH(shared_files / 2) read_file("shared", 0, 2 * i + below(2), 1l << 30);
    }
}
static void replace(void) {
    unsigned long i = below(count_buffers);
    if (buffers[i] >= 0) close(buffers[i]);
    buffers[i] = buffer();
}
static void be_used(double turn) {
    for (int t = 0; t < TURNS; t++) {
        for (unsigned long i = 0; i < part(500); i++) {
            madvise(anon + below(anon_pages) * PAGE, PAGE, MADV_DONTNEED);
            fill(anon + below(anon_pages) * PAGE);
        }
        for (unsigned long pages = 0; pages < part(200); pages += 32) read_media(1l << 30);
        replace();
        rest(turn);
    }
}
static void app(int in, int out, double turn) {
    prctl(PR_SET_PDEATHSIG, SIGKILL);
    heap = open("/dev/dma_heap/system", O_RDWR | O_CLOEXEC);
    if (heap < 0) die("/dev/dma_heap/system");
    char name[64];
    snprintf(name, sizeof name, "/mnt/own/%lu", number);
    DIR *dir = opendir(name);
    for (struct dirent *e; (e = readdir(dir));) own_files += *e->d_name != '.';
    closedir(dir);
    anon_pages = of(ANON);
    anon = map(anon_pages);
    count_buffers = of(BUFFERS);
    unsigned long plan[] = {of(THREADS), of(TABLES), of(AREAS), of(SMALL), of(BINDER)};
    if ((queue = msgget(IPC_PRIVATE, 0600)) < 0 || pipe(pipes) || fcntl(pipes[1], F_SETPIPE_SZ, 256 * PAGE) < 0) die("app");
    printf("app %lu: %lu anonymous pages at %p\n", number, anon_pages, anon);
    int warm = 0;
    char c;
    unsigned long where[2] = {(unsigned long)anon, anon_pages};
    if (write(out, where, sizeof where) < 0) die("app");
    while (read(in, &c, 1) == 1) {
        if (c == 'l') { launch(warm, plan); warm = 1; replace(); } else be_used(turn);
        if (write(out, &c, 1) < 0) break;
    }
    msgctl(queue, IPC_RMID, 0);
    _exit(0);
}

/* ---- what goes on beside it */
static unsigned long system_pages;
static void *system_work(void *unused) {
    static unsigned long turn;
    char *memory = map(system_pages);
    for (unsigned long i = 0; i < system_pages; i++) fill(memory + i * PAGE);
    for (unsigned long i = 0; i < part(1000); i++) {
        pthread_attr_t a;
        pthread_t id;
        pthread_attr_init(&a);
        pthread_attr_setstacksize(&a, 32 << 10);
        pthread_create(&id, &a, idle, 0);
    }
    if ((queue = msgget(IPC_PRIVATE, 0600)) < 0) die("msgget");
    for (;; turn++) {
        rest(0.01 + below(20000) * 1e-6);
        for (unsigned long i = 0; i < part(40); i++) memory[below(system_pages) * below(system_pages) / system_pages * PAGE + 8]++;
        for (unsigned long i = 0; i < part(20); i++) small();
        if (turn >= 100) for (unsigned long i = 0; i < part(20); i++) {
            static struct { long type; char text[80]; } gone;
            msgrcv(queue, &gone, sizeof gone.text, 0, IPC_NOWAIT);
        }
        read_file("shared", 0, below(shared_files), 8 * PAGE);
    }
    return unused;
}
static void *brief(void *s) { rest(1 + (unsigned long)s % 20); return 0; }
static void *threads(void *unused) {
    for (;;) {
        pthread_t id;
        rest(scale / 10.0);
        if (!pthread_create(&id, 0, brief, (void *)below(20))) pthread_detach(id);
    }
    return unused;
}
/* Sixteen packets in flight, of up to 28 KiB each. */
static void *network(void *unused) {
    static char packet[28 << 10];
    int ends[2];
    if (socketpair(AF_UNIX, SOCK_DGRAM, 0, ends)) die("socketpair");
    for (unsigned long sent = 0;; sent++) {
        rest(scale / 200.0);
        if (send(ends[0], packet, (PAGE << below(3)) - 1024, MSG_DONTWAIT) < 0 || sent >= 16) recv(ends[1], packet, sizeof packet, MSG_DONTWAIT);
    }
    return unused;
}
static void *lookups(void *unused) { for (;;) { rest(scale / 40.0); read_media(PAGE); } return unused; }

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static struct { double due; int app; } due[4 * APPS];
static unsigned long head, tail, paged_out;
static struct { int to, from, pidfd, front; pid_t pid; unsigned long where[2]; } apps[APPS];
static void *page_out(void *unused) {
    for (;;) {
        rest(0.1);
        pthread_mutex_lock(&lock);
        int a = head < tail && due[head % (4 * APPS)].due <= now() ? due[head++ % (4 * APPS)].app : -1;
        pthread_mutex_unlock(&lock);
        if (a < 0) continue;
        for (unsigned long at = 0; at < apps[a].where[1] && !apps[a].front; at += 64) {
            unsigned long pages = apps[a].where[1] - at < 64 ? apps[a].where[1] - at : 64;
            struct iovec v = {(char *)apps[a].where[0] + at * PAGE, pages * PAGE};
            if (syscall(SYS_process_madvise, apps[a].pidfd, &v, 1, MADV_PAGEOUT, 0) >= 0) paged_out += pages;
        }
    }
    return unused;
}

static int order(const void *a, const void *b) { double d = *(double *)a - *(double *)b; return (d > 0) - (d < 0); }
static double rounds_of(int from, int to, int seconds) {
    static double took[10000];
    int n = 0;
    double sum = 0;
    for (int round = from; round < to; round++) for (int a = 0; a < APPS; a++) {
        char c = 'l';
        apps[a].front = 1;
        double start = now();
        if (write(apps[a].to, &c, 1) < 0 || read(apps[a].from, &c, 1) != 1) { printf("app %d is gone\n", a); continue; }
        sum += took[n++] = now() - start;
        c = 'u';
        if (write(apps[a].to, &c, 1) < 0 || read(apps[a].from, &c, 1) != 1) { printf("app %d is gone\n", a); continue; }
        pthread_mutex_lock(&lock);
        due[tail % (4 * APPS)].due = now() + seconds;
        due[tail++ % (4 * APPS)].app = a;
        pthread_mutex_unlock(&lock);
        apps[a].front = 0;
    }
    qsort(took, n, sizeof *took, order);
    printf("launches %d: mean %.1f ms, median %.1f ms, p99 %.1f ms; pages told to go %lu\n", n, sum / n * 1e3, took[n / 2] * 1e3,
           took[n * 99 / 100] * 1e3, paged_out);
    fflush(stdout);
    return sum;
}

/* phone SCALE ROUNDS SEED SHARED_FILES MEDIA_FILES; runs "/counters NAME" before and after what is counted. */
int main(int argc, char **argv) {
    if (argc < 6) return 2;
    scale = strtoul(argv[1], 0, 10);
    int rounds = atoi(argv[2]);
    shared_files = strtoul(argv[4], 0, 10);
    media_files = strtoul(argv[5], 0, 10);
    system_pages = part(130000);
    setvbuf(stdout, 0, _IOLBF, 0);
    for (int a = 0; a < APPS; a++) {
        int to[2], from[2];
        if (pipe2(to, O_CLOEXEC) || pipe2(from, O_CLOEXEC)) die("pipe");
        state = strtoul(argv[3], 0, 10) * 1000 + a;
        number = a;
        if (!(apps[a].pid = fork())) { for (int b = 0; b < a; b++) { close(apps[b].to); close(apps[b].from); } close(to[1]); app(to[0], from[1], 0.2); }
        close(to[0]);
        close(from[1]);
        apps[a].to = to[1];
        apps[a].from = from[0];
        apps[a].pidfd = syscall(SYS_pidfd_open, apps[a].pid, 0);
        if (apps[a].pidfd < 0 || read(from[0], apps[a].where, sizeof apps[a].where) != sizeof apps[a].where) die("an app");
    }
    state = strtoul(argv[3], 0, 10);
    void *(*beside[])(void *) = {system_work, threads, network, lookups, page_out};
    for (unsigned i = 0; i < sizeof beside / sizeof *beside; i++) { pthread_t id; if (pthread_create(&id, 0, beside[i], 0)) die("thread"); }
    rest(2);
    rounds_of(0, 1, 2);
    if (system("/counters begin")) return 1;
    rounds_of(1, rounds, 2);
    return system("/counters end") != 0;
}
