// Fragments the memory of a guest on purpose, and stays.
#define _GNU_SOURCE
#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>
static long available(const char *what) {
  FILE *f = fopen("/proc/meminfo", "r"); char line[200]; long kb = 0;
  while (fgets(line, sizeof line, f)) if (!strncmp(line, what, strlen(what))) kb = atol(line + strlen(what));
  fclose(f); return kb / 4;
}
static unsigned long seed = 20; // a linear congruential generator
static unsigned next(void) { seed = seed * 6364136223846793005UL + 1442695040888963407UL; return seed >> 40; }
static char *touch(long pages) {
  char *p = mmap(0, pages * 4096, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
  madvise(p, pages * 4096, MADV_NOHUGEPAGE);
  return p;
}
static void done(void) { puts("fragmented"); fflush(stdout); FILE *f = fopen("/tmp/ready", "w"); fclose(f); for (;;) pause(); }
int main(int n, char **a) {
  const char *mode = a[1]; long percent = atol(a[2]);
  if (!strcmp(mode, "regular") || !strcmp(mode, "random")) { // half of the pages of movable memory are free
    long pages = available("MemAvailable:") * percent / 100; char *p = touch(pages);
    for (long i = 0; i < pages; i++) p[i * 4096] = 1;
    for (long i = 0; i < pages; i++) if (mode[1] == 'e' ? i % 2 : next() % 2) madvise(p + i * 4096, 4096, MADV_DONTNEED);
    done();
  }
  if (!strcmp(mode, "held")) {             // pipe pages, which do not move, in the gaps of movable memory
    long pages = available("MemAvailable:") * percent / 100, every = atol(a[3]); char *p = touch(pages);
    for (long i = 0; i < pages; i++) p[i * 4096] = 1;
    static char page[4096]; int fd[2], slots = 0;
    for (long i = 0; i < pages; i++) {
      if (next() % every) continue;
      madvise(p + i * 4096, 4096, MADV_DONTNEED);
      if (!slots) { if (pipe(fd)) { perror("pipe"); return 1; } slots = fcntl(fd[1], F_SETPIPE_SZ, 1 << 20) >> 12; if (slots <= 0) slots = 16; fcntl(fd[1], F_SETFL, O_NONBLOCK); }
      if (write(fd[1], page, 4096) != 4096) { perror("write"); return 1; }
      slots--;
    }
    for (long i = 0; i < pages; i++) if (next() % 2) madvise(p + i * 4096, 4096, MADV_DONTNEED);
    done();
  }
  if (!strcmp(mode, "dust")) {             // memory is filled; pipe pages take single free pages in every pageblock
    static char page[4096]; int fd[2], slots = 0; long every = atol(a[3]), pages = available("MemTotal:"), used = 0, gaps = 0;
    char *p = touch(pages);
    while (used < pages && available("MemFree:") > percent * 256) for (int i = 0; i < 64; i++) p[used++ * 4096] = 1;
    for (long i = 0; i < used; i++) if (next() % every == 0) { madvise(p + i * 4096, 4096, MADV_DONTNEED); gaps++; }
    for (; gaps > 0; gaps--) {
      if (!slots) { if (pipe(fd)) { perror("pipe"); return 1; } slots = fcntl(fd[1], F_SETPIPE_SZ, 1 << 20) >> 12; if (slots <= 0) slots = 16; fcntl(fd[1], F_SETFL, O_NONBLOCK); }
      if (write(fd[1], page, 4096) != 4096) { perror("write"); return 1; }
      slots--;
    }
    for (long i = 0; i < used; i++) if (next() % 2) madvise(p + i * 4096, 4096, MADV_DONTNEED);
    done();
  }
  if (!strcmp(mode, "cache")) {            // pages of the page cache beside pages of anonymous memory
    long pages = available("MemAvailable:") * percent / 100 / 2; char *p = touch(pages);
    int fd = open("/mnt/data", O_RDONLY); static char page[4096];
    posix_fadvise(fd, 0, 0, POSIX_FADV_RANDOM);
    for (long i = 0; i < pages; i++) { p[i * 4096] = 1; if (pread(fd, page, 4096, i * 4096) != 4096) { perror("read"); return 1; } }
    done();
  }
  if (!strcmp(mode, "huge")) {             // page faults that ask for huge pages, for some seconds
    long bytes = atol(a[2]) << 20;
    for (int round = 0; round < 1000; round++) {
      char *p = mmap(0, bytes + (2 << 20), PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
      madvise(p, bytes, MADV_HUGEPAGE);
      for (long at = 0; at < bytes; at += 2 << 20) p[at] = 1;
      munmap(p, bytes + (2 << 20));
    }
  }
  return 0;
}
