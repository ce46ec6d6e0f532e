#!/bin/bash
# parallelio on a real kernel in QEMU, with a program that uses memory as memcachetest and dd do: swap, reclaim and zones
# as it goes. docs/experiments/parallelio.md, "Beside a real kernel".
#
#   parallelio-real.sh BZIMAGE MEMORY_MIB SECONDS DISK_MIB_S READS_S OPERATION_US FILE_MIB...
#
# The kernel needs NUMA, AHCI, ext4, swap and a serial console built in. Needs qemu-system-x86, busybox-static, e2fsprogs,
# gcc, python3; prints to standard output.
set -euo pipefail
[ $# -ge 7 ] || { sed -n '2,9s/^# \{0,1\}//p' "$0" >&2; exit 2; }
kernel=$(realpath "$1") memory=$2 seconds=$3 rate=$4 reads=$5 us=$6 && shift 6
work=$(mktemp -d) && trap 'rm -rf "$work"' EXIT && cd "$work"
mkdir -p root/{bin,proc,sys,dev,mnt}
cp "$(command -v busybox)" root/bin/
cat > load.c <<'E'
#define _GNU_SOURCE
#include <fcntl.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <time.h>
#include <unistd.h>
static const long item = 17654; // 4.31 pages
static long items, file_mib;
static volatile long ops;
static volatile int over;
static double start;
static double now(void) { struct timespec t; clock_gettime(CLOCK_MONOTONIC, &t); return t.tv_sec + t.tv_nsec / 1e9; }
static long number(const char *file, const char *name) {
    char line[256], key[128]; long value, sum = 0;
    FILE *f = fopen(file, "r");
    while (f && fgets(line, sizeof line, f))
        if (sscanf(line, "%127s %ld", key, &value) == 2 && !strncmp(key, name, strlen(name))) sum += value;
    fclose(f);
    return sum;
}
static void sample(const char *tag) {
    static const char *names[] = {"pswpin", "pswpout", "pgmajfault", "pgscan_kswapd", "pgsteal_kswapd", "nr_vmscan_write",
        "nr_anon_pages", "nr_file_pages", 0};
    char line[256], zone[16]; int node; long value;
    printf("%s %.0f s, ops %ld", tag, now() - start, ops);
    for (int i = 0; names[i]; i++) printf(", %s %ld", names[i], number("/proc/vmstat", names[i]));
    printf(", dirty %ld kB", number("/proc/meminfo", "Dirty:"));
    FILE *f = fopen("/proc/zoneinfo", "r");
    while (f && fgets(line, sizeof line, f)) {
        static const char *want[] = {"low", "high", "nr_inactive_anon", "nr_inactive_file", 0};
        char key[128];
        if (sscanf(line, "Node %d, zone %15s", &node, zone) == 2) printf("\n  node %d %s:", node, zone);
        if (sscanf(line, " pages free %ld", &value) == 1) printf(" free %ld", value);
        if (sscanf(line, "%127s %ld", key, &value) == 2)
            for (int i = 0; want[i]; i++) if (!strcmp(key, want[i])) printf(" %s %ld", key, value);
    }
    fclose(f);
    printf("\n");
    fflush(stdout);
}
static void *monitor(void *unused) { while (!over) { sample("tick"); sleep(10); } return unused; }
static void *dd(void *unused) {
    char *zeros = calloc(1, 1 << 20);
    long total = number("/proc/meminfo", "MemTotal:");
    if (!file_mib) return unused;
    while (!over && (total - number("/proc/meminfo", "MemFree:")) * 100 < total * 64) sleep(2);
    sleep(5);
    double begin = now();
    int fd = open("/mnt/largefile", O_CREAT | O_TRUNC | O_WRONLY, 0644);
    for (long i = 0; i < file_mib; i++) if (write(fd, zeros, 1 << 20) != 1 << 20) perror("write");
    fdatasync(fd);
    close(fd);
    printf("dd of %ld MiB: %.1f s\n", file_mib, now() - begin);
    return unused;
}
static void operate(char *pool, long number, int set, long us) {
    static double due;
    static volatile char seen;
    char *p = pool + number * item, *end = p + item;
    for (; p < end; p = (char *)(((long)p & ~4095l) + 4096)) if (set) *p = 1; else seen = *p;
    ops++;
    double t = now();
    if (due < t - 0.004) due = t;
    due += us / 1e6;
    if (due > t + 0.004) usleep((due - t) * 1e6 - 1000);
}
int main(int argc, char **argv) {
    long seconds = atol(argv[1]), us = atol(argv[2]);
    unsigned long random = 88172645463325252ul;
    file_mib = atol(argv[3]);
    items = number("/proc/meminfo", "MemTotal:") * 1024 / 10 * 8 / 20480;
    start = now();
    char *pool = mmap(0, (items + 1) * item, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    madvise(pool, (items + 1) * item, MADV_NOHUGEPAGE);
    pthread_t threads[2];
    pthread_create(&threads[0], 0, monitor, 0);
    pthread_create(&threads[1], 0, dd, 0);
    for (long i = 0; i < items; i++) operate(pool, i, 1, 100);
    double begin = now();
    long before = ops;
    while (now() - begin < seconds) {
        random ^= random << 13, random ^= random >> 7, random ^= random << 17;
        operate(pool, random % items, random / items % 100 < 33, us);
    }
    over = 1;
    printf("operations: %.0f a second\n", (ops - before) / (now() - begin));
    sample("end");
    pthread_join(threads[1], 0);
    _exit(0);
}
E
gcc -O2 -static -pthread -o root/bin/load load.c
cat > root/init <<'E'
#!/bin/busybox sh
/bin/busybox --install -s /bin
export PATH=/bin
mount -t proc p /proc; mount -t sysfs s /sys; mount -t devtmpfs d /dev
for x in $(cat /proc/cmdline); do case $x in min_free=*|seconds=*|us=*|files=*) eval "$x";; esac; done
echo 1 > /sys/block/sda/queue/rotational
echo 512 > /sys/block/sda/queue/max_sectors_kb
echo "$min_free" > /proc/sys/vm/min_free_kbytes
mount -t ext4 /dev/sda1 /mnt && swapon /dev/sda2
for file in $(echo "$files" | tr , ' '); do
    echo "file of $file MiB"
    load "$seconds" "$us" "$file"
    rm -f /mnt/largefile; sync
done
poweroff -f
E
chmod +x root/init
(cd root && find . | busybox cpio -o -H newc 2>/dev/null | gzip -1) > initrd
data=$((memory * 8 / 10 + 300)) swap=$((memory * 6 / 10))
truncate -s $((data + swap + 2))M disk.img
mkfs.ext4 -q -F -O ^64bit,^metadata_csum,^orphan_file -E offset=1048576,lazy_itable_init=0 disk.img ${data}M
python3 - disk.img "$data" "$swap" <<'E'
import os, struct, sys
data, swap = (int(a) << 11 for a in sys.argv[2:])
part = lambda kind, start, size: struct.pack("<B3sB3sII", 0, b"\xfe\xff\xff", kind, b"\xfe\xff\xff", start, size)
header = bytearray(4096)
struct.pack_into("<III", header, 1024, 1, swap // 8 - 1, 0)
header[1036:1052], header[4086:] = os.urandom(16), b"SWAPSPACE2"
with open(sys.argv[1], "r+b") as disk:
    disk.seek(446)
    disk.write(part(0x83, 2048, data) + part(0x82, 2048 + data, swap) + bytes(32) + b"\x55\xaa")
    disk.seek((2048 + data) * 512)
    disk.write(header)
E
# What khugepaged asks for on the whole machine, 135,168 KiB of 7,920 MiB, for six zones.
files=$(IFS=,; echo "$*") min_free=$((memory * 135168 / 7920)) nodes=()
for node in 0 1 2 3; do
    nodes+=(-object "memory-backend-ram,id=m$node,size=$((memory / 4))M" -numa "node,nodeid=$node,memdev=m$node,cpus=$node")
done
qemu-system-x86_64 -accel tcg,thread=multi -cpu qemu64 -machine "pc,max-ram-below-4g=$((memory * 39 / 100))M" -m "${memory}M" \
    -smp 4,sockets=4 "${nodes[@]}" -nographic -no-reboot -kernel "$kernel" -initrd initrd \
    -append "console=ttyS0 quiet panic=-1 numa_balancing=disable min_free=$min_free seconds=$seconds us=$us files=$files" \
    -drive "file=disk.img,if=none,id=d,format=raw,cache=unsafe,detect-zeroes=unmap,discard=unmap,throttling.bps-total=$((rate << 20)),throttling.iops-read=$reads" \
    -device ahci,id=ahci -device ide-hd,drive=d,bus=ahci.0 2>/dev/null
