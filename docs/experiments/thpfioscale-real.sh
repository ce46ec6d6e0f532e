#!/bin/bash
# thpfioscale on a real kernel in QEMU, with mmtests' own fio jobs (413542d3): free pages by type, slabs and
# fallbacks as it goes. docs/experiments/thpfioscale.md, "Beside real kernels".
#
#   [BELOW=MIB] [MIN_FREE=KB] [BOOST=FACTOR] [READS=N] thpfioscale-real.sh KERNEL MEMORY_MIB FILES_A_JOB [madvise]
#
# KERNEL is a Debian package, a directory that packages were unpacked to (dpkg-deb -x), or an image that has
# virtio, ext4 and xfs built in. BELOW is what lies below 4 GiB (all, if left out); MIN_FREE is
# vm.min_free_kbytes, BOOST vm.watermark_boost_factor, READS the most reads a second of the disk.
# Needs qemu-system-x86, busybox-static, fio, xfsprogs, e2fsprogs, gcc, zstd; prints to standard output.
set -euo pipefail
[ $# -ge 3 ] || { sed -n '2,12s/^# \{0,1\}//p' "$0" >&2; exit 2; }
image=$(realpath "$1") memory=$2 files=$3 madvise=${4:-}
work=$(mktemp -d) && trap 'rm -rf "$work"' EXIT && cd "$work"

mkdir kernel
[ ! -d "$image" ] || { rmdir kernel; ln -s "$image" kernel; }
[[ $image != *.deb ]] || dpkg-deb -x "$image" kernel
[ ! -e kernel/boot ] || image=$(echo kernel/boot/vmlinuz-*)
mkdir -p root/{bin,mod,proc,sys,dev,mnt,tools,tmp} tools/lib
cp "$(command -v busybox)" root/bin/
for m in virtio virtio_ring virtio_pci_modern_dev virtio_pci_legacy_dev virtio_pci virtio_blk crc32c_generic \
    crc32c-cryptoapi libcrc32c crc16 mbcache jbd2 ext4 xfs; do
    find -L kernel -name "$m.ko*" -exec cp {} root/mod/ \;
    [ ! -e "root/mod/$m.ko.xz" ] || unxz "root/mod/$m.ko.xz"
    [ ! -e "root/mod/$m.ko.zst" ] || unzstd -q --rm "root/mod/$m.ko.zst"
    echo "insmod /mod/$m.ko 2>/dev/null"
done > root/modules.sh
cp "$(command -v fio)" tools/
ldd tools/fio | grep -o '/[^ ]*' | xargs -I{} cp -L {} tools/lib/

# mmtests' thpfioscale with one thread: 3/4 of memory, half of it faulted.
cat > thp.c <<'E'
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/time.h>
int main(int argc, char **argv) {
    const unsigned long huge_size = 2ul << 20;
    unsigned long size = (strtoul(argv[1], 0, 10) << 20) * 3 / 4, count[2] = {0, 0};
    double us[2] = {0, 0};
    char *map = mmap(0, size + huge_size, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    char *start = (char *)(((unsigned long)map + huge_size - 1) & ~(huge_size - 1));
    if (argc > 2) madvise(start, size, MADV_HUGEPAGE);
    for (unsigned long i = 0; i < size / huge_size / 2; i++) {
        struct timeval a, b;
        unsigned char there;
        char *region = start + i * huge_size;
        gettimeofday(&a, 0);
        region[0] = 1;
        mincore(region + 64 * 4096, 4096, &there);
        memset(region, 1, huge_size);
        gettimeofday(&b, 0);
        count[there & 1]++;
        us[there & 1] += (b.tv_sec - a.tv_sec) * 1e6 + b.tv_usec - a.tv_usec;
    }
    for (int huge = 0; huge < 2; huge++)
        printf("fault-%s %lu, mean %.1f us\n", huge ? "huge" : "base", count[huge],
               count[huge] ? us[huge] / count[huge] : 0);
}
E
gcc -O2 -static -o tools/thp thp.c

cat > root/init <<'E'
#!/bin/busybox sh
/bin/busybox --install -s /bin
export PATH=/bin
mount -t proc p /proc; mount -t sysfs s /sys; mount -t devtmpfs d /dev; mount -t tracefs t /sys/kernel/tracing
# Twice: which of virtio's needs which differs by version.
. /modules.sh; . /modules.sh
until [ -b /dev/vda ] && [ -b /dev/vdb ]; do sleep 1; done
sleep 1
mount -t ext4 -o ro /dev/vdb /tools && mount -t xfs /dev/vda /mnt && . /run.sh
poweroff -f
E
cat > root/run.sh <<'E'
for x in $(cat /proc/cmdline); do case $x in files=*|memory=*|form=*|min_free=*|boost=*) eval "$x";; esac; done
T=/sys/kernel/tracing
# The simulation has no multi-generational LRU.
[ ! -e /sys/kernel/mm/lru_gen/enabled ] || echo 0 > /sys/kernel/mm/lru_gen/enabled
[ -z "$boost" ] || echo "$boost" > /proc/sys/vm/watermark_boost_factor
[ -z "$min_free" ] || echo "$min_free" > /proc/sys/vm/min_free_kbytes
E=$T/events/kmem/mm_page_alloc_extfrag
# Requested type > type of the list: 0 unmovable, 1 movable, 2 reclaimable. Debian's kernels have no histograms.
if [ -e $E/hist ]; then
    echo 'hist:keys=alloc_migratetype,fallback_migratetype if fallback_order < 9' > $E/trigger
    events() {
        awk '/hitcount:/ && !/trigger/ { gsub(/[{},:]/, " "); n += $NF; s = s "  " $2 ">" $4 ": " $NF } END { print "events " n + 0 s }' $E/hist
    }
else
    echo 1024 > $T/buffer_size_kb
    echo 1 > $E/enable
    awk '/extfrag/ { for (i = 1; i <= NF; i++) { split($i, a, "="); v[a[1]] = a[2] }
            if (v["fallback_order"] + 0 < 9) { total++; n[v["alloc_migratetype"] ">" v["fallback_migratetype"]]++ } }
         /MARK/ { s = "events " total + 0; for (k in n) s = s "  " k ": " n[k]; print s > "/dev/console" }
        ' $T/trace_pipe &
    events() { echo MARK > $T/trace_marker; }
fi
sample() {
    awk -v s="free $(cut -d' ' -f1 /proc/uptime) s, $1:" '/^Node.*type/ { pages = 0; m = 1
            for (i = 7; i <= NF; i++) { sub(">", "", $i); pages += $i * m; m += m }
            if (pages) s = s " " $4 " " $6 " " pages ";" } END { print s }' /proc/pagetypeinfo
    awk '/^(pgpgin|nr_inactive_file|nr_active_file|nr_slab_|pgsteal_kswapd|pgsteal_direct|slabs_scanned)/ { s = s " " $1 " " $2 }
        END { print "vmstat" s }' /proc/vmstat
    awk 'NR > 2 { print $6 * $(NF - 1), $1, $2 }' /proc/slabinfo | sort -rn | head -n 12 |
        awk '{ s = s " " $2 " " $1 " pages, " $3 ";" } END { print "slabs" s }'
    events
}
(while true; do sample tick; sleep 40; done) &
fio() { LD_LIBRARY_PATH=/tools/lib /tools/lib/ld-linux-x86-64.so.2 /tools/fio --directory=/mnt --alloc-size=$((files / 4)) --minimal "$1"; }
job() { printf '[global]\ndirect=0\nioengine=sync\nblocksize=4096\ninvalidate=0\n%s\n[job]\nnrfiles=%s\nfilesize=65536\nnumjobs=4\nfilename_format=thpfilescale/$jobnum/workfile.$filenum\n%s\n' "$1" "$files" "$2"; }
for i in 0 1 2 3; do mkdir -p /mnt/thpfilescale/$i; done
ulimit -n $((files + 1024))
job "$(printf 'fallocate=none\ncreate_on_open=1')" readwrite=write > /tmp/write
job "$(printf 'runtime=36000\ntime_based')" "$(printf 'readwrite=randread\nfile_service_type=random:16')" > /tmp/read
begin=$(date +%s)
fio /tmp/write > /tmp/log 2>&1 || tail -n 3 /tmp/log
init=$(($(date +%s) - begin))
echo "init $init s"
sync; sample sync
fio /tmp/read > /tmp/log 2>&1 &
sleep $init
sample read
(while true; do sample fault; sleep 5; done) &
/tools/thp "$memory" $form
sample faults; sleep 2
E
chmod +x root/init
(cd root && find . | busybox cpio -o -H newc 2>/dev/null | gzip -1) > initrd
truncate -s 200M tools.img && mkfs.ext4 -q -d tools tools.img
truncate -s $((files * 4 / 8 + 1024))M data.img && mkfs.xfs -q -m crc=1,finobt=1,reflink=0,rmapbt=0,bigtime=0,inobtcount=0 -i sparse=0,nrext64=0 -d agcount=8 data.img
# One thread: CPUs of a guest that wait for each other's locks would cost it several times as long.
qemu-system-x86_64 -accel tcg,thread=single -cpu max -machine "pc${BELOW:+,max-ram-below-4g=${BELOW}M}" -m "$memory" -smp 8 -nographic -no-reboot \
    -kernel "$image" -initrd initrd \
    -append "console=ttyS0 quiet panic=-1 mitigations=off files=$files memory=$memory min_free=${MIN_FREE:-} boost=${BOOST:-} ${madvise:+form=madvise}" \
    -drive "file=data.img,if=virtio,format=raw,cache=unsafe${READS:+,throttling.iops-read=$READS}" \
    -drive file=tools.img,if=virtio,format=raw,readonly=on 2>/dev/null
