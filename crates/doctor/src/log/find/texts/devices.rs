//! Messages of drivers about memory that they or their devices lacked.

use super::{Text, number, words};
use crate::log::find::about::About;

/// The largest mapping that bounce buffers can serve: 128 slots of 2 KiB (`IO_TLB_SEGSIZE`).
const MOST_BOUNCED: u64 = 256 << 10;

/// Returns the reason why bounce buffers failed for a request of this many bytes.
const fn swiotlb(bytes: u64) -> About {
    if bytes > MOST_BOUNCED { About::SwiotlbSize(bytes) } else { About::Swiotlb(bytes) }
}

pub(super) static TEXTS: [Text; 21] = [
    ("cma_alloc:", r"cma_alloc: .*alloc failed, req-size: (\d+) pages, ret: (-?\d+)", |found| {
        Some(About::Cma(number(found, 1)?, number(found, 2)?))
    }),
    (
        "alloc_contig_",
        r"alloc_contig_(?:migrate_)?range: \[[0-9a-f]+, [0-9a-f]+\) PFNs busy",
        |_| Some(About::ContigRange),
    ),
    ("Out of puff", r"Out of puff! Can't get (\d+) pages", |found| {
        Some(About::Balloon(number(found, 1)?))
    }),
    ("swiotlb buffer is full", r"swiotlb buffer is full.*, total 0 \(slots\)", |_| {
        Some(About::NoSwiotlb)
    }),
    ("swiotlb buffer is full", r"swiotlb buffer is full(?: \(sz: (\d+) bytes\))?", |found| {
        Some(swiotlb(number(found, 1).unwrap_or(0)))
    }),
    ("Out of SW-IOMMU space", r"Out of SW-IOMMU space for (\d+) bytes", |found| {
        Some(swiotlb(number(found, 1)?))
    }),
    (
        "failed to allocate",
        r"failed to allocate (\d+) KiB .*pool for atomic (?:coherent )?allocation",
        |found| Some(About::AtomicPool(number(found, 1)?)),
    ),
    ("NVRM: ", r"NVRM: .*can't alloc VA space for mapping", |_| Some(About::GpuSpace)),
    ("NVRM: ", r"NVRM: .*(?i:out of memory|failed to allocate|no memory|insufficient)", |found| {
        words(found, 0).map(About::Graphics)
    }),
    (
        "Failed to allocate NVKMS",
        r"Failed to allocate NVKMS (?:video )?memory for GEM object",
        |found| words(found, 0).map(About::Graphics),
    ),
    ("ot enough memory", r"(Not enough memory for command submission)", |found| {
        words(found, 1).map(About::Graphics)
    }),
    (
        "*ERROR*",
        r"\[drm(?::[^\]]*\]?)?\]? ?\*ERROR\* .*(?:\(-12\)|error -12|ENOMEM|out of memory|[Ff]ailed to (?:allocate(?: from CMA)?|get memory))",
        // Memory in one piece has words of its own.
        |found| words(found, 0).filter(|said| !said.ends_with("CMA")).map(About::Graphics),
    ),
    (
        "[TTM] ",
        r"\[TTM\] (?:Unable to allocate|Out of|Failed to allocate|Buffer eviction failed|No memory).*",
        |found| words(found, 0).map(About::Graphics),
    ),
    (
        "allocating memory for compressed page",
        r"zram: .*memory for compressed page: \d+, size=(\d+)",
        |found| Some(About::Zram(number(found, 1)?)),
    ),
    ("Write-error on swap-device", r"Write-error on swap-device \((\d+:\d+)", |found| {
        words(found, 1).map(About::SwapWrite)
    }),
    ("Memory hot add failed", r"Memory hot add failed|hot_add memory failed", |_| {
        Some(About::HotAdd)
    }),
    ("add_memory() failed", r"balloon: reserve_additional_memory: add_memory\(\) failed", |_| {
        Some(About::HotAdd)
    }),
    (
        "crash",
        r"(?i)crashkernel(?: reservation|:.* allocation) failed|(?:cannot|unable to|failed to) (?:allocate|reserve)\b.*crash ?kernel",
        |_| Some(About::CrashKernel),
    ),
    ("crash", r"(?i)no memory reserved for crash kernel", |_| Some(About::CrashKernel)),
    ("reserved mem: ", r"reserved mem: failed to (?:allocate|reserve) memory for node", |_| {
        Some(About::CmaReserve(0))
    }),
    ("cma: Failed to reserve", r"cma: Failed to reserve (\d+) MiB", |found| {
        Some(About::CmaReserve(number(found, 1)?))
    }),
];

#[cfg(test)]
mod tests {
    use super::super::tests::known;

    #[test]
    fn what_drivers_lacked_is_known() {
        known(
            r#"
Balloon(1) | - | virtio_balloon virtio3: Out of puff! Can't get 1 pages
PerCpu(32768) | - | percpu: allocation failed, size=32768 align=8 atomic=0, failed to extend area map
Swiotlb(4000) | - | rtl 0000:05:00.0: swiotlb buffer is full (sz: 4000 bytes), total 32768 (slots), used 32768 (slots)
SwiotlbSize(524288) | - | gpu: swiotlb buffer is full (sz: 524288 bytes), total 32768 (slots), used 4 (slots)
NoSwiotlb | - | ehci: swiotlb buffer is full (sz: 8 bytes), total 0 (slots), used 0 (slots)
PerCpuSize(32792) | - | illegal size (32792) or align (8) for percpu allocation
GpuSpace | - | NVRM: dmaAllocMapping: can't alloc VA space for mapping.
HotAdd | - | hv_balloon: Memory hot add failed
Swiotlb(9100) | - | DMA: Out of SW-IOMMU space for 9100 bytes at device 0000:02:00.0
AtomicPool(256) | - | DMA: failed to allocate 256 KiB GFP_KERNEL|GFP_DMA pool for atomic allocation
Graphics("NVRM: GPU 0: Out of memory") | - | NVRM: GPU 0: Out of memory for mapping
Graphics("Failed to allocate NVKMS memory for GEM object") | - | [drm:nv_ioctl [nvidia_drm]] *ERROR* [nvidia-drm] Failed to allocate NVKMS memory for GEM object
Graphics("Not enough memory for command submission") | - | [drm:amdgpu_cs_ioctl [amdgpu]] *ERROR* Not enough memory for command submission!
Graphics("[TTM] Buffer eviction failed") | - | [TTM] Buffer eviction failed
Zram(2720) | - | zram: Error allocating memory for compressed page: 4233, size=2720
SwapWrite("254:0") | - | Write-error on swap-device (254:0:94208)
Tcp | - | TCP: out of memory -- consider tuning tcp_mem
NoMmu(131072) | nc | nommu: Allocation of length 131072 from process 77 (nc) failed
"#,
        );
    }
}
