#!/bin/bash
# apppressure on a real kernel in QEMU: its apps at a scale, with zram and process_madvise(MADV_PAGEOUT), and what
# the kernel counts of the rounds after the first. docs/experiments/apppressure.md, "Beside real kernels".
#
#   [BELOW=MIB] [BOOST=FACTOR] apppressure-real.sh KERNEL MEMORY_MIB SCALE ROUNDS SEED
#
# KERNEL is a directory that packages were unpacked to (dpkg-deb -x) and has virtio_blk, ext4, zsmalloc and
# DMA-BUF's system heap built in, as Ubuntu's; zram is in linux-modules-extra. SCALE is a divisor: 8 for 1/8.
# BELOW is what lies below 4 GiB (all, if left out); BOOST is vm.watermark_boost_factor.
# Needs qemu-system-x86, busybox-static, e2fsprogs, gcc, zstd; prints to standard output.
set -euo pipefail
[ $# -eq 5 ] || { sed -n '2,11s/^# \{0,1\}//p' "$0" >&2; exit 2; }
here=$(dirname "$(realpath "$0")") kernel=$(realpath "$1") memory=$2 scale=$3 rounds=$4 seed=$5
work=$(mktemp -d) && trap 'rm -rf "$work"' EXIT && cd "$work"

mkdir -p root/{bin,mod,proc,sys,dev,mnt,tmp} data/{own,shared/0,media}
cp "$(command -v busybox)" root/bin/
find -L "$kernel" -name 'zram.ko*' -exec cp {} root/mod/ \;
for m in root/mod/*.zst; do unzstd -q --rm "$m"; done
[ -e root/mod/zram.ko ] || { echo "apppressure-real.sh: $kernel has no zram.ko (linux-modules-extra)" >&2; exit 2; }

# Files of real data: 10 to 30 thousand pages of 18 apps, 40 thousand that all use, 20 thousand of 32 pages, by scale.
RANDOM=$seed
file() { head -c "$1" /dev/urandom > "$2"; }
for a in {0..17}; do
    mkdir data/own/$a
    for ((i = 0, n = (10000 + (RANDOM * 20001 >> 15)) / scale / 256; i <= n; i++)); do file 1M data/own/$a/$i; done
done
shared=$((40000 / scale / 256 + 1)) media=$((20000 / scale))
for ((i = 0; i < shared; i++)); do file 1M data/shared/0/$i; done
for ((i = 0; i < 64; i++)); do mkdir data/media/$i; done
for ((i = 0; i < media; i++)); do file 128K data/media/$((i % 64))/$((i / 64)); done
truncate -s $((1200 + 8000 / scale))M data.img && mkfs.ext4 -q -d data data.img && rm -r data


gcc -O2 -static -pthread -o root/phone "$here/apppressure-real.c"

cat > root/init <<'EOF'
#!/bin/busybox sh
/bin/busybox --install -s /bin
export PATH=/bin
mount -t proc p /proc; mount -t sysfs s /sys; mount -t devtmpfs d /dev; mount -t tracefs t /sys/kernel/tracing
for x in $(cat /proc/cmdline); do case $x in phone_*) eval "${x#phone_}";; esac; done
insmod /mod/zram.ko
until [ -b /dev/vda ] && [ -b /dev/zram0 ]; do sleep 1; done
mount -t ext4 -o ro /dev/vda /mnt
echo $((4096 / scale))M > /sys/block/zram0/disksize
mkswap /dev/zram0 > /dev/null && swapon /dev/zram0
cd /proc/sys/vm
echo 100 > swappiness; echo 0 > page-cluster; echo 108 > watermark_scale_factor
[ -z "$boost" ] || echo "$boost" > watermark_boost_factor
echo 1048576 > /proc/sys/kernel/msgmnb; echo 1048576 > /proc/sys/fs/pipe-max-size
# The simulation has no multi-generational LRU.
[ ! -e /sys/kernel/mm/lru_gen/enabled ] || echo 0 > /sys/kernel/mm/lru_gen/enabled
cd /
E=/sys/kernel/tracing/events/kmem/mm_page_alloc_extfrag
echo 'hist:keys=alloc_migratetype,fallback_migratetype,change_ownership' > $E/trigger
uname -r; grep -E 'MemTotal|MemAvailable' /proc/meminfo; awk '/^Node/ { z = $4 } $1 ~ /^(managed|min|low|high)$/ { print z, $1, $2 }' /proc/zoneinfo; cat /proc/sys/vm/min_free_kbytes
/phone $scale $rounds $seed $shared $media
grep -E 'MemAvailable|Swap|Slab|SRecl|SUnre|KernelStack|PageTables' /proc/meminfo
sed -n '/Free pages/,$p' /proc/pagetypeinfo
cat /sys/block/zram0/mm_stat
poweroff -f
EOF
cat > root/counters <<'EOF'
#!/bin/busybox sh
export PATH=/bin
E=/sys/kernel/tracing/events/kmem/mm_page_alloc_extfrag
read_all() {
    cat /proc/vmstat
    awk '/total/ { sub("total=", "", $5); print "psi_" $1 "_us", $5 }' /proc/pressure/memory
    # Requested type > type of the list: 0 unmovable, 1 movable, 2 reclaimable.
    awk '/hitcount:/ && !/trigger/ { gsub(/[{},:]/, " "); print "fallbacks_" $2 ">" $4 ($6 ? "c" : ""), $NF }' $E/hist
    awk '{ print "uptime_ms", $1 * 1000 }' /proc/uptime
}
read_all > /tmp/$1
if [ $1 = begin ]; then
    # The boost of all zones, in pages, once a second.
    (while sleep 1; do awk '$1 == "boost" { b += $2 } END { print b }' /proc/zoneinfo; done >> /tmp/boost) &
    exit 0
fi
awk 'NR == FNR { before[$1] = $2; next }
    /^(psi_|fallbacks_|uptime_ms|workingset_refault|pg(steal|scan)_(kswapd|direct) |allocstall_|compact_(stall|daemon_wake|migrate_scanned|free_scanned)|pswp|kswapd_|pageoutrun|slabs_scanned|oom_kill|pgmajfault|pgpgin|pgskip)/ {
        if ($2 != before[$1]) print $1, $2 - before[$1] }' /tmp/begin /tmp/end
awk '{ n++; s += $1; most = $1 > most ? $1 : most; up += $1 > 0 } END { if (n) printf "boost mean %.0f pages, most %d, above none in %.0f %% of seconds\n", s / n, most, 100 * up / n }' /tmp/boost
EOF
chmod +x root/init root/counters
(cd root && find . | busybox cpio -o -H newc 2>/dev/null | gzip -1) > initrd
# The guest's clock counts instructions, a nanosecond each, so that a busy host does not show in its times.
qemu-system-x86_64 -accel tcg,thread=single -icount shift=0 -cpu max -machine "pc${BELOW:+,max-ram-below-4g=${BELOW}M}" -m "$memory" -smp 8 -nographic -no-reboot \
    -kernel "$(echo "$kernel"/boot/vmlinuz-*)" -initrd initrd \
    -append "console=ttyS0 quiet panic=-1 mitigations=off transparent_hugepage=never phone_scale=$scale phone_rounds=$rounds phone_seed=$seed phone_shared=$shared phone_media=$media phone_boost=${BOOST:-}" \
    -drive "file=data.img,if=virtio,format=raw,cache=unsafe,readonly=on" 2>/dev/null
