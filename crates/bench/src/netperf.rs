//! `pageblock bench netperf`: the memory management of netperf's UDP_STREAM on real threads.
//!
//! A thread sends datagrams: for each it allocates a `struct sk_buff` and a data buffer as Linux 5.13 does.
//! Another thread, on another CPU, receives them and frees both. In between they wait in a queue as long as the
//! socket's buffer. The bytes themselves are not copied, and no protocol runs: only memory management is timed.
//! If the queue is full the sender waits; the kernel would drop the datagram.

use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Instant;

use pageblock::cpu::Cpu;
use pageblock::frame::{Order, Pfn};
use pageblock::ids::ZoneIndex;
use pageblock::request::{Gfp, Request};
use pageblock_measure::paired::{self, PairedResult, bootstrap_median};
use pageblock_measure::stats::median;
use pageblock_vm::skb::{self, Buffer};
use serde::Serialize;

use crate::noise::Noise;
use crate::slub::{Slub, SlubCpu};
use crate::subject::{PageblockCpu, ParkingLot};
use crate::threads::wait_until;

/// The payloads of mmtests' configuration, in bytes.
pub const SIZES: [u32; 9] = [64, 128, 256, 1024, 2048, 3312, 4096, 8192, 16384];
/// Memory in frames: 256 MiB, far more than is ever in use.
const FRAMES: u64 = 1 << 16;

/// What is run.
#[derive(Clone, PartialEq, Debug)]
pub struct Plan {
    /// The policies, the baseline first.
    pub policies: Vec<String>,
    /// Payloads in bytes.
    pub sizes: Vec<u32>,
    /// The number of CPUs of the machine for which slabs are sized.
    pub slab_cpus: u32,
    /// Samples of each policy and size.
    pub rounds: usize,
    /// Datagrams of a sample.
    pub messages: u64,
}

/// The measurements of one size under one policy.
#[derive(Clone, PartialEq, Debug, Serialize)]
pub struct NetperfRow {
    /// The payload in bytes.
    pub size: u32,
    /// The policy.
    pub policy: String,
    /// The median time of a datagram in nanoseconds.
    pub ns_median: f64,
    /// The lower end of the 95 % interval of the median.
    pub ns_low: f64,
    /// The upper end.
    pub ns_high: f64,
    /// Acquisitions of zone locks per datagram; the median.
    pub locks_per_message: f64,
    /// Blocks taken from the page allocator per datagram; the median.
    pub blocks_per_message: f64,
    /// The ratio of times to the baseline's, round by round; `None` in the baseline itself.
    pub ratio: Option<Ratio>,
}

/// A ratio of times, with its interval.
#[derive(Clone, Copy, PartialEq, Debug, Serialize)]
pub struct Ratio {
    /// The median of the ratios: below 1 if the policy is faster than the baseline.
    pub median: f64,
    /// The lower end of its 95 % interval.
    pub low: f64,
    /// The upper end.
    pub high: f64,
    /// The p of the exact Wilcoxon test.
    pub wilcoxon_p: f64,
}

impl From<PairedResult> for Ratio {
    fn from(result: PairedResult) -> Self {
        let PairedResult { median_ratio, interval, wilcoxon_p, .. } = result;
        Self { median: median_ratio, low: interval.0, high: interval.1, wilcoxon_p }
    }
}

/// Pages of the allocator under test, through a CPU's handle.
pub struct Pages {
    cpu: Cpu<'static, 'static, ParkingLot, ()>,
    /// Blocks taken.
    taken: u64,
}

impl Pages {
    /// Allocates a block for the kernel.
    pub fn alloc(&mut self, order: Order) -> Option<u32> {
        let gfp = Gfp::GFP_KERNEL | Gfp::NOWARN | Gfp::NORETRY | Gfp::COMP;
        let pfn = self.cpu.alloc(&Request::new(order, gfp), &mut ()).ok()?;
        self.taken += 1;
        Some(pfn.0 as u32)
    }

    /// Frees a block.
    ///
    /// # Panics
    /// If it is not in use: a defect of this benchmark.
    pub fn free(&mut self, frame: u32, order: Order) {
        self.cpu.free(Pfn(frame.into()), order, &mut ()).expect("the block is in use");
    }
}

/// One CPU: its pages, and its parts of both caches.
struct Side {
    pages: Pages,
    heads: SlubCpu,
    data: SlubCpu,
}

/// One policy with one size.
struct Stream {
    sides: [Side; 2],
    buffer: Buffer,
    heads: Slub,
    data: Option<Slub>,
    queue: Vec<AtomicU64>,
}

/// The results of a sample.
#[derive(Clone, Copy, Debug)]
struct Sample {
    ns: f64,
    locks: f64,
    blocks: f64,
}

impl Stream {
    fn new(policy: &str, size: u32, slab_cpus: u32) -> Self {
        let side = |cpu: PageblockCpu| Side {
            pages: Pages { cpu: cpu.into_cpu(), taken: 0 },
            heads: SlubCpu::default(),
            data: SlubCpu::default(),
        };
        let mut cpus = PageblockCpu::with_policy(FRAMES, policy, 2).into_iter().map(side);
        let buffer = Buffer::of_datagram(size);
        let data = match buffer {
            Buffer::Object(size) => Some(Slub::new(size, slab_cpus, FRAMES)),
            Buffer::Block(_) => None,
        };
        let waiting = skb::queued(size, skb::SOCKET_BUFFER);
        Self {
            sides: std::array::from_fn(|_| cpus.next().expect("two CPUs")),
            buffer,
            heads: Slub::new(skb::HEAD, slab_cpus, FRAMES),
            data,
            // 0 means an empty slot.
            queue: (0..waiting).map(|_| AtomicU64::new(0)).collect(),
        }
    }

    fn locks(&self) -> u64 {
        let shared = self.sides[0].pages.cpu.shared();
        let of_zone = |zone| shared.with_zone(zone, |zone| zone.counters().lock_acquired);
        ZoneIndex::up_to(shared.zones()).filter_map(of_zone).sum()
    }

    fn run(&mut self, messages: u64) -> Sample {
        let (locks, taken) = (self.locks(), self.taken());
        let start = Instant::now();
        let Self { sides: [sender, receiver], buffer, heads, data, queue } = self;
        let (heads, data, buffer) = (&*heads, data.as_ref(), *buffer);
        let slot = |n: u64| &queue[(n % queue.len() as u64) as usize];
        std::thread::scope(|scope| {
            scope.spawn(|| {
                for n in 0..messages {
                    let head = or_wait(|| heads.alloc(&mut sender.heads, &mut sender.pages));
                    let bytes = or_wait(|| match (data, buffer) {
                        (Some(data), _) => data.alloc(&mut sender.data, &mut sender.pages),
                        (None, Buffer::Block(order)) => sender.pages.alloc(order),
                        (None, Buffer::Object(_)) => None,
                    });
                    wait_until(|| slot(n).load(Ordering::Acquire) == 0);
                    let datagram = (u64::from(head) << 32) | (u64::from(bytes) + 1);
                    slot(n).store(datagram, Ordering::Release);
                }
            });
            scope.spawn(|| {
                for n in 0..messages {
                    wait_until(|| slot(n).load(Ordering::Acquire) != 0);
                    let datagram = slot(n).swap(0, Ordering::AcqRel);
                    let (head, bytes) = ((datagram >> 32) as u32, datagram as u32 - 1);
                    match (data, buffer) {
                        (Some(data), _) => {
                            data.free(&mut receiver.data, bytes, &mut receiver.pages);
                        }
                        (None, Buffer::Block(order)) => receiver.pages.free(bytes, order),
                        (None, Buffer::Object(_)) => {}
                    }
                    heads.free(&mut receiver.heads, head, &mut receiver.pages);
                }
            });
        });
        let ns = start.elapsed().as_nanos() as f64;
        let per = |count: u64| count as f64 / messages as f64;
        Sample {
            ns: ns / messages as f64,
            locks: per(self.locks() - locks),
            blocks: per(self.taken() - taken),
        }
    }

    fn taken(&self) -> u64 {
        self.sides.iter().map(|side| side.pages.taken).sum()
    }

    /// Frees the slabs, and verifies that every frame is free.
    fn end(mut self) {
        let [sender, receiver] = &mut self.sides;
        for (slub, of) in [(Some(&self.heads), 0), (self.data.as_ref(), 1)] {
            let Some(slub) = slub else { continue };
            let take = |side: &mut Side| {
                std::mem::take(if of == 0 { &mut side.heads } else { &mut side.data })
            };
            slub.destroy(&mut [take(sender), take(receiver)], &mut receiver.pages);
        }
        for side in &mut self.sides {
            side.pages.cpu.drain(&mut ());
        }
        let shared = self.sides[0].pages.cpu.shared();
        let free: u64 =
            (0..shared.zones()).filter_map(|zone| shared.free_pages(ZoneIndex::new(zone))).sum();
        assert_eq!(free, FRAMES, "every frame is free at the end");
    }
}

/// Waits for frames in the receiver's per-CPU lists, which come back in time.
fn or_wait(mut take: impl FnMut() -> Option<u32>) -> u32 {
    loop {
        match take() {
            Some(taken) => return taken,
            None => std::thread::yield_now(),
        }
    }
}

/// Runs a plan; `progress` is called with each next step. Samples of the policies alternate, so that a
/// disturbance of the machine affects all of them.
///
/// # Errors
/// If paired statistics cannot be computed.
pub fn run(
    plan: &Plan,
    progress: &mut dyn FnMut(&str),
) -> Result<(Vec<NetperfRow>, Noise), pageblock_measure::Error> {
    let mut noise = Noise::default();
    let mut rows = Vec::new();
    for &size in &plan.sizes {
        progress(&format!("datagrams of {size} bytes"));
        let new = |policy: &String| Stream::new(policy, size, plan.slab_cpus);
        let mut streams: Vec<Stream> = plan.policies.iter().map(new).collect();
        let mut samples: Vec<Vec<Sample>> = vec![Vec::new(); streams.len()];
        for _ in 0..plan.rounds {
            for (stream, samples) in streams.iter_mut().zip(&mut samples) {
                stream.run(plan.messages / 4);
                noise.sample();
                samples.push(stream.run(plan.messages));
            }
        }
        streams.into_iter().for_each(Stream::end);
        let times = |at: usize| samples[at].iter().map(|s| s.ns).collect::<Vec<_>>();
        for (at, policy) in plan.policies.iter().enumerate() {
            let ns = times(at);
            let (ns_low, ns_high) = bootstrap_median(&ns);
            let middle =
                |of: fn(&Sample) -> f64| median(&samples[at].iter().map(of).collect::<Vec<_>>());
            let ratio = match at {
                0 => None,
                _ => Some(paired::compare(&times(0), &ns)?.into()),
            };
            rows.push(NetperfRow {
                size,
                policy: policy.clone(),
                ns_median: median(&ns),
                ns_low,
                ns_high,
                locks_per_message: middle(|s| s.locks),
                blocks_per_message: middle(|s| s.blocks),
                ratio,
            });
        }
    }
    Ok((rows, noise))
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Every frame comes back with every kind of buffer, and high-order per-CPU lists avoid the lock.
    #[test]
    fn datagrams_are_sent_and_freed() {
        let plan = Plan {
            policies: vec!["linux-5.13".into(), "linux-5.13,pcp_orders=0-3+thp".into()],
            sizes: vec![64, 4096, 16384],
            slab_cpus: 8,
            rounds: 2,
            messages: 20_000,
        };
        let (rows, _) = run(&plan, &mut |_| {}).unwrap();
        assert_eq!(rows.len(), 6);
        let large = &rows[4..];
        assert!(large[0].blocks_per_message >= 1.0, "a block for each: {:?}", large[0]);
        assert!(large[0].locks_per_message >= 2.0, "no list has order 3: {:?}", large[0]);
        assert!(large[1].locks_per_message < 1.0, "a list has order 3: {:?}", large[1]);
        assert!(rows[0].blocks_per_message < 0.5, "slabs have many objects: {:?}", rows[0]);
    }
}
