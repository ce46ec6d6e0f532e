//! CPUs and the scheduling of tasks: a task keeps its CPU if it can, else takes an idle one, and queues if
//! there is none.

use pageblock::ids::NodeId;
use std::cmp::Reverse;
use std::collections::{BinaryHeap, VecDeque};

use pageblock_kernel::rules::scheduler::Scheduler;

use super::cost::Cpu as Kind;
use super::psi::{Psi, Share};
use super::{MILLISECOND, Nanos};

/// The number of a task.
pub(crate) type TaskId = usize;

/// The time slice of a task while others wait for its CPU.
const SLICE: Nanos = 4 * MILLISECOND;

/// The time of an event and its sequence number, so that simultaneous events happen in the order in which they
/// were queued.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
struct When(u128);

impl When {
    const NEVER: Self = Self(u128::MAX);

    fn new(time: Nanos, seq: u64) -> Self {
        Self(u128::from(time) << 64 | u128::from(seq))
    }

    fn time(self) -> Nanos {
        (self.0 >> 64) as Nanos
    }

    fn seq(self) -> u64 {
        self.0 as u64
    }
}

/// Something that happens at a time.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Event {
    /// The CPU time that a task charged has passed.
    Resume(TaskId),
    /// A task's wait timed out.
    Timer(TaskId),
    /// A write, by its number, completed.
    Written(usize),
}

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum State {
    /// On a CPU.
    Running,
    /// Waiting for a CPU.
    Ready,
    /// Waiting for something else.
    Blocked,
    Done,
}

#[derive(Clone, Debug)]
struct Task {
    state: State,
    cpu: usize,
    /// The only node on which it may run.
    node: Option<u8>,
    /// The timer that ends its wait; 0 if there is none.
    timer: u64,
    /// When it last began to wait.
    blocked_at: Nanos,
    /// The CPU time that it has used.
    used: Nanos,
    /// Whether it waits for memory, or works because memory is short.
    stalled: bool,
}

impl Task {
    fn share(&self) -> Share {
        Share {
            cpu: self.cpu,
            running: matches!(self.state, State::Running | State::Ready),
            stalled: self.stalled && self.state != State::Done,
        }
    }
}

#[derive(Clone, Debug)]
struct Cpu {
    node: u8,
    running: Option<TaskId>,
    queue: VecDeque<TaskId>,
    slice_end: Nanos,
}

/// Pending events, and which task runs on which CPU.
#[derive(Debug)]
pub(crate) struct Sched {
    pub(crate) now: Nanos,
    seq: u64,
    /// Continuations of tasks on CPUs: so few that a linear search is faster than keeping them sorted.
    resumes: Vec<(When, TaskId)>,
    timers: BinaryHeap<Reverse<(When, TaskId)>>,
    /// Timers whose waits already ended.
    stale: usize,
    /// Completions of writes, which are in order.
    writes: VecDeque<(When, usize)>,
    cpus: Vec<Cpu>,
    /// Tasks in the run queues.
    queued: usize,
    tasks: Vec<Task>,
    kind: Kind,
    switch: Nanos,
    scheduler: Scheduler,
    pub(crate) psi: Psi,
}

impl Sched {
    pub(crate) fn new(cpu_nodes: &[NodeId], kind: Kind, scheduler: Scheduler) -> Self {
        let cpu = |&NodeId(node): &NodeId| Cpu {
            node,
            running: None,
            queue: VecDeque::new(),
            slice_end: 0,
        };
        Self {
            now: 0,
            seq: 0,
            resumes: Vec::new(),
            timers: BinaryHeap::new(),
            stale: 0,
            writes: VecDeque::new(),
            cpus: cpu_nodes.iter().map(cpu).collect(),
            queued: 0,
            tasks: Vec::new(),
            kind,
            switch: kind.costs().switch,
            scheduler,
            psi: Psi::new(cpu_nodes.len()),
        }
    }

    /// Changes a task, and updates the pressure with it.
    fn change(&mut self, task: TaskId, change: impl FnOnce(&mut Task)) {
        let before = self.tasks[task].share();
        change(&mut self.tasks[task]);
        self.psi.change(self.now, before, self.tasks[task].share());
    }

    /// Accounts for the pressure since the last call.
    pub(crate) fn collect_pressure(&mut self) {
        self.psi.collect(self.now);
    }

    /// Marks a task as stalled for memory, or not; returns whether it was.
    pub(crate) fn set_stalled(&mut self, task: TaskId, stalled: bool) -> bool {
        let was = self.tasks[task].stalled;
        self.change(task, |task| task.stalled = stalled);
        was
    }

    fn when(&mut self, time: Nanos) -> When {
        self.seq += 1;
        When::new(time, self.seq)
    }

    /// Takes the next event and advances the clock to it.
    pub(crate) fn next(&mut self) -> Option<Event> {
        let timer = self.next_timer();
        let write = self.writes.front().map_or(When::NEVER, |&(when, _)| when);
        let resume = (0..).zip(&self.resumes).min_by_key(|(_, (when, _))| *when);
        let (when, what) = match resume {
            Some((at, &(when, task))) if when < timer.min(write) => {
                self.resumes.swap_remove(at);
                (when, Event::Resume(task))
            }
            _ if write < timer => {
                let (when, write) = self.writes.pop_front()?;
                (when, Event::Written(write))
            }
            _ => {
                let Reverse((when, task)) = self.timers.pop()?;
                (when, Event::Timer(task))
            }
        };
        self.now = self.now.max(when.time());
        Some(what)
    }

    /// Returns the expiry of the next timer whose task still waits; drops stale timers before it.
    fn next_timer(&mut self) -> When {
        while let Some(&Reverse((when, task))) = self.timers.peek() {
            if self.tasks[task].timer == when.seq() {
                return when;
            }
            self.timers.pop();
            self.stale -= 1;
        }
        When::NEVER
    }

    /// Schedules a task to resume at a time.
    fn resume_at(&mut self, time: Nanos, task: TaskId) {
        let when = self.when(time);
        self.resumes.push((when, task));
    }

    /// Schedules the completion of a write, not before that of the previous write.
    pub(crate) fn written_at(&mut self, time: Nanos, write: usize) {
        let when = self.when(time);
        debug_assert!(self.writes.back().is_none_or(|&(last, _)| last < when));
        self.writes.push_back((when, write));
    }

    /// Schedules the end of a task's wait at a time, unless it is woken first.
    fn wait_until(&mut self, time: Nanos, task: TaskId) {
        let when = self.when(time);
        self.timers.push(Reverse((when, task)));
        self.tasks[task].timer = when.seq();
    }

    /// Cancels the task's timer, if it has one. Stale timers are removed when there are too many, as each slows
    /// down all others.
    fn drop_timer(&mut self, task: TaskId) {
        if std::mem::take(&mut self.tasks[task].timer) == 0 {
            return;
        }
        self.stale += 1;
        if self.stale > self.timers.len() / 2 {
            let tasks = &self.tasks;
            self.timers.retain(|&Reverse((when, task))| tasks[task].timer == when.seq());
            self.stale = 0;
        }
    }

    /// Adds a runnable task, at first near a CPU; bound to one node if `node` says so.
    pub(crate) fn spawn(&mut self, cpu: usize, node: Option<u8>) -> TaskId {
        self.tasks.push(Task {
            state: State::Blocked,
            cpu,
            node,
            timer: 0,
            blocked_at: 0,
            used: 0,
            stalled: false,
        });
        let task = self.tasks.len() - 1;
        let cpu = self.ready(task);
        match self.cpus[cpu].running {
            None => self.run_on(cpu, task),
            // A new task waits its turn.
            Some(_) => self.enqueue(cpu, task),
        }
        task
    }

    pub(crate) fn cpu_of(&self, task: TaskId) -> usize {
        self.tasks[task].cpu
    }

    pub(crate) fn node_of(&self, cpu: usize) -> u8 {
        self.cpus[cpu].node
    }

    /// Returns the first CPU of a node.
    pub(crate) fn first_cpu_of(&self, node: u8) -> Option<usize> {
        self.cpus.iter().position(|cpu| cpu.node == node)
    }

    /// Reports whether a task is on its CPU: only then may it be polled.
    pub(crate) fn is_running(&self, task: TaskId) -> bool {
        self.tasks[task].state == State::Running
    }

    /// Charges CPU time to the running task; it yields first if its slice is over. On one thread of a host it takes as many
    /// times as long as CPUs are busy.
    pub(crate) fn charge(&mut self, task: TaskId, ns: Nanos) {
        let ns = match self.kind {
            Kind::Year2018 => ns,
            Kind::Emulated => {
                ns * self.cpus.iter().filter(|cpu| cpu.running.is_some()).count() as u64
            }
        };
        self.tasks[task].used += ns;
        self.resume_at(self.now + ns, task);
    }

    /// Returns the number of tasks so far.
    pub(crate) fn tasks(&self) -> usize {
        self.tasks.len()
    }

    /// Returns the CPU time that the tasks from this one on have used.
    pub(crate) fn used_from(&self, first: TaskId) -> Nanos {
        self.tasks[first..].iter().map(|task| task.used).sum()
    }

    /// Ends the charged time of the running task. Returns whether it continues now, rather than another task.
    pub(crate) fn keeps_cpu(&mut self, task: TaskId) -> bool {
        let cpu = self.tasks[task].cpu;
        if self.cpus[cpu].queue.is_empty() || self.now < self.cpus[cpu].slice_end {
            return true;
        }
        self.tasks[task].state = State::Ready;
        self.enqueue(cpu, task);
        self.leave(cpu);
        false
    }

    /// Blocks the running task, with an optional timeout.
    pub(crate) fn block(&mut self, task: TaskId, timeout: Option<Nanos>) {
        let cpu = self.tasks[task].cpu;
        debug_assert_eq!(self.tasks[task].state, State::Running);
        let now = self.now;
        self.change(task, |task| (task.state, task.blocked_at) = (State::Blocked, now));
        if let Some(ns) = timeout {
            self.wait_until(self.now + ns, task);
        }
        self.leave(cpu);
    }

    pub(crate) fn finish(&mut self, task: TaskId) {
        self.change(task, |task| task.state = State::Done);
        self.leave(self.tasks[task].cpu);
    }

    pub(crate) fn is_done(&self, task: TaskId) -> bool {
        self.tasks[task].state == State::Done
    }

    /// Handles the expiry of a task's timer.
    pub(crate) fn time_out(&mut self, task: TaskId) {
        self.tasks[task].timer = 0;
        self.wake(task);
    }

    /// Wakes a task if it waits.
    pub(crate) fn wake(&mut self, task: TaskId) {
        if self.tasks[task].state != State::Blocked {
            return;
        }
        self.drop_timer(task);
        let cpu = self.ready(task);
        match self.cpus[cpu].running {
            None => self.run_on(cpu, task),
            Some(_) => self.enqueue_woken(cpu, task),
        }
    }

    /// Makes a task ready, and returns its CPU.
    fn ready(&mut self, task: TaskId) -> usize {
        let cpu = self.choose(task);
        self.change(task, |task| {
            task.cpu = cpu;
            task.state = State::Ready;
        });
        cpu
    }

    /// Enqueues a task that was woken. One that waited no longer than a slice has used as much as others, and waits its turn.
    fn enqueue_woken(&mut self, cpu: usize, task: TaskId) {
        let rested = self.now - self.tasks[task].blocked_at >= SLICE;
        let Cpu { queue, slice_end, .. } = &mut self.cpus[cpu];
        let at = match self.scheduler {
            _ if !rested => queue.len(),
            Scheduler::Cfs => {
                // The running task goes on to the end of what it was charged for.
                *slice_end = self.now;
                0
            }
            Scheduler::Eevdf => queue.len() / 2,
        };
        queue.insert(at, task);
        self.queued += 1;
    }

    fn enqueue(&mut self, cpu: usize, task: TaskId) {
        self.cpus[cpu].queue.push_back(task);
        self.queued += 1;
    }

    /// Chooses the task's own CPU if it is idle, else an idle one, preferably of its node, else the one with
    /// the shortest queue.
    fn choose(&self, task: TaskId) -> usize {
        let Task { cpu: own, node, .. } = self.tasks[task];
        let allowed = |cpu: &Cpu| node.is_none_or(|node| cpu.node == node);
        let idle = |cpu: &Cpu| cpu.running.is_none() && allowed(cpu);
        if idle(&self.cpus[own]) {
            return own;
        }
        let home = node.unwrap_or(self.cpus[own].node);
        let near = (0..self.cpus.len()).find(|&c| idle(&self.cpus[c]) && self.cpus[c].node == home);
        let any = || (0..self.cpus.len()).find(|&c| idle(&self.cpus[c]));
        let shortest = || {
            let candidates = (0..self.cpus.len()).filter(|&c| allowed(&self.cpus[c]));
            candidates.min_by_key(|&c| (self.cpus[c].queue.len(), c != own)).unwrap_or(own)
        };
        near.or_else(any).unwrap_or_else(shortest)
    }

    fn run_on(&mut self, cpu: usize, task: TaskId) {
        if self.tasks[task].cpu == cpu {
            // It was runnable there already, so the pressure does not change.
            self.tasks[task].state = State::Running;
        } else {
            self.change(task, |task| {
                task.state = State::Running;
                task.cpu = cpu;
            });
        }
        self.cpus[cpu].running = Some(task);
        self.cpus[cpu].slice_end = self.now + SLICE;
        self.resume_at(self.now + self.switch, task);
    }

    /// Picks the next task for a CPU: from its own queue, else from the longest other queue.
    fn leave(&mut self, cpu: usize) {
        self.cpus[cpu].running = None;
        if self.queued == 0 {
            return;
        }
        let next = self.cpus[cpu].queue.pop_front().or_else(|| {
            let node = self.cpus[cpu].node;
            let from =
                (0..self.cpus.len()).max_by_key(|&c| (self.cpus[c].queue.len(), Reverse(c)))?;
            let may = |t: &TaskId| self.tasks[*t].node.is_none_or(|n| n == node);
            let at = self.cpus[from].queue.iter().position(may)?;
            self.cpus[from].queue.remove(at)
        });
        if let Some(task) = next {
            self.queued -= 1;
            self.run_on(cpu, task);
        }
    }
}

#[cfg(test)]
mod tests;
