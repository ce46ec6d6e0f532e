//! netperf UDP_STREAM: one program sends datagrams over the loopback device, another receives them.
//!
//! As in mmtests (docs/experiments/sources.md#netperf-udp): nine sizes, five iterations of each. Sending a
//! datagram allocates a `struct sk_buff` and a data buffer; receiving it frees both, on another CPU if the
//! scheduler placed the programs apart ([`pageblock_vm::skb`]).

use std::cell::RefCell;
use std::collections::VecDeque;
use std::rc::Rc;

use pageblock::frame::Pfn;
use pageblock::request::{Gfp, Request};
use pageblock_vm::page::Owner;
use pageblock_vm::skb::{self, Buffer};
use pageblock_vm::slab::{CacheId, CacheSpec};

use super::{Head, Outcome, Workload, boot, check};
use crate::error::Error;
use crate::sim::SECOND;
use crate::sim::executor::{Executor, Place, Ran};
use crate::sim::machine_file::MachineSpec;
use crate::sim::progress::Pace;
use crate::sim::sched::TaskId;
use crate::sim::task::{Ctx, Served};
use crate::sim::world::Random;

/// Payloads in bytes (`NETPERF_BUFFER_SIZES`).
pub const SIZES: [u32; 9] = [64, 128, 256, 1024, 2048, 3312, 4096, 8192, 16384];
/// Iterations of each size (`NETPERF_ITERATIONS`).
const ITERATIONS: u64 = 5;
/// Datagrams of an iteration. netperf sends for 3 times 10 s, in which the pattern repeats many times.
const DATAGRAMS: u64 = 20_000;
/// Datagrams before the clock starts, after which slabs and per-CPU lists are in their steady state.
const WARM_UP: u64 = 2_000;
/// The variation of a datagram's time, in thousandths either way. (K)
const JITTER: u64 = 50;

/// netperf UDP_STREAM on the loopback device.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct NetperfUdp;

impl Workload for NetperfUdp {
    fn head(&self) -> Head<'_> {
        Head {
            name: "netperf-udp",
            summary: "datagrams of 64 to 16384 bytes between two programs (high-order per-CPU lists, Jun 2021)",
            machine: "small-4g",
            tables: include_str!("netperf.toml"),
        }
    }

    fn fits(&self, machine: &MachineSpec) -> Result<(), Error> {
        if machine.cpu_nodes.len() < 2 {
            return Err(Error::Workload("netperf-udp needs two CPUs".to_owned()));
        }
        Ok(())
    }

    fn run(&self, executor: &mut Executor<'_>, _machine: &MachineSpec, seed: u64) -> Ran<Outcome> {
        boot::run(executor)?;
        executor.with(|w| {
            w.start_counting();
            let datagrams = SIZES.len() as u64 * ITERATIONS * (DATAGRAMS + WARM_UP);
            w.begin_phase(1.0, Pace::Steps(datagrams));
        });
        let locks = executor.with(|w| w.zone_locks());
        let heads = executor.with(|w| {
            let spec = CacheSpec { name: "skbuff_head_cache", size: skb::HEAD, reclaimable: false };
            w.vm.create_cache(spec)
        });
        let mut dropped = 0;
        for size in SIZES {
            let data = executor.with(|w| match Buffer::of_datagram(size) {
                Buffer::Object(bytes) => {
                    let spec = CacheSpec { name: "kmalloc", size: bytes, reclaimable: false };
                    Data::Cache(w.vm.create_cache(spec))
                }
                Buffer::Block(order) => Data::Blocks(order),
            });
            for iteration in 0..ITERATIONS {
                let random = Random::new(seed, 2 + u64::from(size) * ITERATIONS + iteration);
                let socket = Socket::new(size, heads, data, random);
                let phase = format!("datagrams of {size} bytes");
                dropped += stream(executor, socket, &phase)?;
            }
        }
        check(executor, "after the last datagram")?;
        let locks = executor.with(|w| w.zone_locks()) - locks;
        Ok(Outcome {
            counters: vec![
                ("datagrams_dropped".to_owned(), dropped),
                ("stream_zone_locks".to_owned(), locks),
            ],
            notes: vec![format!(
                "Samples send-N and recv-N are bits a second of simulated time, {DATAGRAMS} datagrams each."
            )],
        })
    }
}

/// Runs one iteration; returns the number of dropped datagrams.
fn stream(executor: &mut Executor<'_>, socket: Socket, phase: &str) -> Ran<u64> {
    let socket = Rc::new(RefCell::new(socket));
    let (sends, receives) = (Rc::clone(&socket), Rc::clone(&socket));
    let cpus = executor.with(|w| w.vm.allocator().cpus());
    let receiver = executor.spawn("netserver", Place::Near(1 % cpus), |ctx| receive(ctx, receives));
    socket.borrow_mut().receiver = Some(receiver);
    let sender = executor.spawn("netperf", Place::Near(0), |ctx| send(ctx, sends));
    executor.run(&[sender, receiver], phase)?;
    let dropped = socket.borrow().dropped;
    Ok(dropped)
}

/// The location of a datagram's data.
#[derive(Clone, Copy, Debug)]
enum Data {
    Cache(CacheId),
    Blocks(u8),
}

/// A datagram in flight: its head's slab object, and its data's slab object or block.
#[derive(Clone, Copy, Debug)]
struct Datagram {
    head: u32,
    data: u32,
}

/// The receiving socket, and the state of the stream that both programs share.
struct Socket {
    size: u32,
    heads: CacheId,
    data: Data,
    queue: VecDeque<Datagram>,
    /// The number of datagrams that fit.
    limit: usize,
    receiver: Option<TaskId>,
    sent_all: bool,
    dropped: u64,
    random: Random,
}

impl Socket {
    fn new(size: u32, heads: CacheId, data: Data, random: Random) -> Self {
        Self {
            size,
            heads,
            data,
            queue: VecDeque::new(),
            limit: skb::queued(size, skb::SOCKET_BUFFER) as usize,
            receiver: None,
            sent_all: false,
            dropped: 0,
            random,
        }
    }

    /// Returns a time with random variation.
    fn about(&mut self, ns: u64) -> u64 {
        ns * (1000 - JITTER + self.random.below(2 * JITTER + 1)) / 1000
    }
}

async fn send(ctx: Ctx<'_>, socket: Rc<RefCell<Socket>>) {
    if send_all(&ctx, &socket).await.is_err() {
        ctx.panic_without_memory();
    }
    let receiver = {
        let mut socket = socket.borrow_mut();
        socket.sent_all = true;
        socket.receiver
    };
    ctx.with(|w| receiver.into_iter().for_each(|task| w.sched.wake(task)));
}

async fn send_all(ctx: &Ctx<'_>, socket: &RefCell<Socket>) -> Served {
    let (size, heads, data) = {
        let socket = socket.borrow();
        (socket.size, socket.heads, socket.data)
    };
    let mut start = 0;
    for n in 0..WARM_UP + DATAGRAMS {
        if n == WARM_UP {
            start = ctx.now();
        }
        let head = ctx.object(heads, Gfp::GFP_KERNEL).await?;
        let data = match data {
            Data::Cache(cache) => ctx.object(cache, Gfp::GFP_KERNEL).await?,
            Data::Blocks(order) => {
                let request = Request::new(order, Gfp::GFP_KERNEL | Gfp::COMP);
                ctx.kernel_block(request, Owner::Driver).await?.0 as u32
            }
        };
        let costs = ctx.with(|w| w.costs);
        let time = costs.send + u64::from(size) * costs.send_kib / 1024;
        ctx.spend(socket.borrow_mut().about(time));
        ctx.with(|w| {
            w.charge_zone_locks(w.sched.cpu_of(ctx.id));
            w.steps += 1;
        });
        // The other CPU must see the effects at the right time.
        ctx.charge_accrued().await;
        let datagram = Datagram { head, data };
        let (full, receiver) = {
            let mut socket = socket.borrow_mut();
            let full = socket.queue.len() >= socket.limit;
            if full {
                socket.dropped += 1;
            } else {
                socket.queue.push_back(datagram);
            }
            (full, socket.receiver)
        };
        if full {
            release(ctx, socket, datagram);
        } else {
            ctx.with(|w| receiver.into_iter().for_each(|task| w.sched.wake(task)));
        }
    }
    let elapsed = (ctx.now() - start).max(1);
    sample(ctx, "send", size, DATAGRAMS, elapsed);
    Ok(())
}

async fn receive(ctx: Ctx<'_>, socket: Rc<RefCell<Socket>>) {
    let size = socket.borrow().size;
    let (mut received, mut start) = (0, 0);
    loop {
        let next = socket.borrow_mut().queue.pop_front();
        let Some(datagram) = next else {
            if socket.borrow().sent_all {
                break;
            }
            ctx.block(None).await;
            continue;
        };
        let costs = ctx.with(|w| w.costs);
        let time = costs.receive + u64::from(size) * costs.receive_kib / 1024;
        ctx.spend(socket.borrow_mut().about(time));
        release(&ctx, &socket, datagram);
        ctx.with(|w| w.charge_zone_locks(w.sched.cpu_of(ctx.id)));
        ctx.charge_accrued().await;
        received += 1;
        if received == WARM_UP {
            start = ctx.now();
        }
    }
    if received > WARM_UP {
        sample(&ctx, "recv", size, received - WARM_UP, (ctx.now() - start).max(1));
    }
}

/// Frees a datagram, on the task's CPU.
fn release(ctx: &Ctx<'_>, socket: &RefCell<Socket>, datagram: Datagram) {
    let cpu = ctx.cpu();
    let data = socket.borrow().data;
    ctx.with(|w| {
        w.pending += w.costs.object;
        w.vm.put_object(cpu, datagram.head);
        match data {
            Data::Cache(_) => {
                w.pending += w.costs.object;
                w.vm.put_object(cpu, datagram.data);
            }
            Data::Blocks(_) => w.vm.disown(cpu, Pfn(datagram.data.into())),
        }
    });
}

/// Samples a rate in bits per second.
fn sample(ctx: &Ctx<'_>, what: &str, size: u32, datagrams: u64, elapsed: u64) {
    let bits = 8 * u64::from(size) * datagrams;
    let rate = u128::from(bits) * u128::from(SECOND) / u128::from(elapsed);
    let name = format!("{what}-{size}");
    ctx.with(|w| w.samples.entry(name).or_default().push(rate as u64));
}
