#!/bin/bash
# hugealloc, as simulated at --scale 1/4, on a real kernel in QEMU. docs/experiments/hugealloc.md, "Beside real kernels".
#
#   [FS=ext4|xfs] [TREE=FILES] [MIN_FREE=KB] [DEMAND=1] hugealloc-real.sh KERNEL MEMORY_MIB CACHE_PERCENT BUILDS [JOBS [PACE]]
#
# KERNEL is a directory that packages were unpacked to (dpkg-deb -x). JOBS are those of a build (600), PACE is
# by how much the guest is slower than the simulated machine: the cache's turns are as much longer.
# TREE is how many files more each build looks up; DEMAND counts the requests that are not movable too, MIN_FREE
# is vm.min_free_kbytes.
# Needs qemu-system-x86, busybox-static, e2fsprogs, xfsprogs, gcc, zstd; prints to standard output.
set -euo pipefail
[ $# -ge 4 ] || { sed -n '2,11s/^# \{0,1\}//p' "$0" >&2; exit 2; }
here=$(dirname "$(realpath "$0")") kernel=$(realpath "$1") memory=$2 cache=$3 builds=$4 jobs=${5:-600} pace=${6:-5} fs=${FS:-ext4}
work=$(mktemp -d) && trap 'rm -rf "$work"' EXIT && cd "$work"

mkdir -p root/{bin,mod,proc,sys,dev,mnt,tmp}
cp "$(command -v busybox)" root/bin/
for m in virtio virtio_ring virtio_pci_modern_dev virtio_pci_legacy_dev virtio_pci virtio_blk crc32c_generic \
    crc32c-cryptoapi libcrc32c crc16 mbcache jbd2 ext4 xfs; do
    case $fs-$m in ext4-xfs) continue;; esac
    find -L "$kernel" -name "$m.ko*" -exec cp {} root/mod/ \;
    [ ! -e "root/mod/$m.ko.xz" ] || unxz "root/mod/$m.ko.xz"
    [ ! -e "root/mod/$m.ko.zst" ] || unzstd -q --rm "root/mod/$m.ko.zst"
    echo "insmod /mod/$m.ko 2>/dev/null"
done > root/modules.sh
gcc -O2 -static -o root/hugealloc "$here/hugealloc-real.c"

cat > root/init <<'I'
#!/bin/busybox sh
/bin/busybox --install -s /bin
export PATH=/bin
mount -t proc p /proc; mount -t sysfs s /sys; mount -t devtmpfs d /dev; mount -t tracefs t /sys/kernel/tracing
# Twice: which of virtio's needs which differs by version.
. /modules.sh; . /modules.sh; rm -r /mod
until [ -b /dev/vda ] && [ -b /dev/vdb ]; do sleep 1; done
sleep 1
for x in $(cat /proc/cmdline); do case $x in fs=*|builds=*|jobs=*|cache=*|pace=*|tree=*|min_free=*|demand=*) eval "$x";; esac; done
mount -t $fs /dev/vda /mnt && swapon /dev/vdb || poweroff -f
ifconfig lo 127.0.0.1 up
H=/sys/kernel/mm/transparent_hugepage
echo madvise > $H/enabled; echo defer > $H/defrag
# The simulation has no multi-generational LRU, and khugepaged has nothing to do there.
echo 0 > /sys/kernel/mm/lru_gen/enabled; echo 4000000000 > $H/khugepaged/scan_sleep_millisecs
[ -z "$min_free" ] || echo "$min_free" > /proc/sys/vm/min_free_kbytes
for h in alloc_migratetype,fallback_migratetype,fallback_order alloc_order \
    alloc_migratetype,fallback_migratetype,change_ownership; do
    echo "hist:keys=$h" >> /sys/kernel/tracing/events/kmem/mm_page_alloc_extfrag/trigger
done
[ -z "$demand" ] || echo "hist:keys=order,migratetype" > /sys/kernel/tracing/events/kmem/mm_page_alloc/trigger
echo "$(uname -r), min_free_kbytes $(cat /proc/sys/vm/min_free_kbytes)"
awk '/^Node/ { z = $4 } /^ +(min|low|high|managed) / { s = s " " z " " $1 " " $2 } END { print "zones" s }' /proc/zoneinfo
cd /mnt && /hugealloc run $builds $jobs $cache $pace $tree ${demand:+demand}
poweroff -f
I
chmod +x root/init
(cd root && find . | busybox cpio -o -H newc 2>/dev/null | gzip -1) > initrd
truncate -s 1G data.img swap.img && mkswap -q swap.img
case $fs in
    ext4) mkfs.ext4 -q data.img;;
    xfs) mkfs.xfs -q -m crc=1,finobt=1,reflink=0,rmapbt=0,bigtime=0,inobtcount=0 -i sparse=0,nrext64=0 data.img;;
esac
# One thread: CPUs of a guest that wait for each other's locks would cost it several times as long.
qemu-system-x86_64 -accel tcg,thread=single -cpu max -m "$memory" -smp 8 -nographic -no-reboot \
    -kernel "$(echo "$kernel"/boot/vmlinuz-*)" -initrd initrd \
    -append "console=ttyS0 quiet panic=-1 mitigations=off fs=$fs builds=$builds jobs=$jobs cache=$cache pace=$pace tree=${TREE:-0} min_free=${MIN_FREE:-} demand=${DEMAND:-}" \
    -drive file=data.img,if=virtio,format=raw,cache=unsafe \
    -drive file=swap.img,if=virtio,format=raw,cache=unsafe 2>/dev/null
