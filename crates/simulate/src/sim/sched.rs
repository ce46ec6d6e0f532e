//! CPUs and the scheduling of tasks: a task keeps its CPU if it can, else takes an idle one, and queues if
//! there is none.

use pageblock::ids::NodeId;
use std::cmp::Reverse;
use std::collections::{BinaryHeap, VecDeque};

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
    switch: Nanos,
    pub(crate) psi: Psi,
}

impl Sched {
    pub(crate) fn new(cpu_nodes: &[NodeId], switch: Nanos) -> Self {
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
            switch,
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
            used: 0,
            stalled: false,
        });
        let task = self.tasks.len() - 1;
        self.wake(task);
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

    /// Charges CPU time to the running task; it yields first if its slice is over.
    pub(crate) fn charge(&mut self, task: TaskId, ns: Nanos) {
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
        self.change(task, |task| task.state = State::Blocked);
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
        let cpu = self.choose(task);
        self.change(task, |task| {
            task.cpu = cpu;
            task.state = State::Ready;
        });
        if self.cpus[cpu].running.is_none() {
            self.run_on(cpu, task);
        } else {
            self.enqueue(cpu, task);
        }
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
mod tests {
    use super::*;

    fn resumed(sched: &mut Sched) -> (Nanos, TaskId) {
        match sched.next() {
            Some(Event::Resume(task)) => (sched.now, task),
            other => panic!("{other:?}"),
        }
    }

    #[test]
    fn two_tasks_share_a_cpu_by_slices() {
        let mut sched = Sched::new(&[NodeId(0)], 0);
        let (a, b) = (sched.spawn(0, None), sched.spawn(0, None));
        let mut ran = Vec::new();
        while ran.len() < 6 {
            let (_, task) = resumed(&mut sched);
            if sched.keeps_cpu(task) {
                ran.push(task);
                sched.charge(task, 3 * MILLISECOND);
            }
        }
        assert_eq!(ran, [a, a, b, b, a, a]);
    }

    #[test]
    fn a_woken_task_takes_an_idle_cpu_of_its_node_first() {
        let mut sched = Sched::new(&[NodeId(0), NodeId(0), NodeId(1)], 0);
        let tasks: Vec<_> = (0..3).map(|_| sched.spawn(0, None)).collect();
        assert_eq!(tasks.iter().map(|&t| sched.cpu_of(t)).collect::<Vec<_>>(), [0, 1, 2]);
        let bound = sched.spawn(2, Some(0));
        assert_eq!(sched.cpu_of(bound), 0, "it waits on its own node");
        // Its CPU is idle again: the queued task runs there.
        sched.block(tasks[0], Some(5));
        assert!(sched.is_running(bound));
    }

    #[test]
    fn a_late_timer_does_not_end_the_next_wait() {
        let mut sched = Sched::new(&[NodeId(0)], 0);
        let task = sched.spawn(0, None);
        resumed(&mut sched);
        sched.block(task, Some(10));
        sched.wake(task);
        resumed(&mut sched);
        sched.block(task, Some(100));
        let Some(Event::Timer(task)) = sched.next() else { panic!("the timer of the second wait") };
        assert_eq!(sched.now, 100);
        sched.time_out(task);
        assert!(sched.is_running(task));
    }

    #[test]
    fn what_is_to_happen_at_one_time_follows_in_the_order_of_asking() {
        let mut sched = Sched::new(&[NodeId(0)], 10);
        let task = sched.spawn(0, None);
        sched.written_at(10, 7);
        assert_eq!(resumed(&mut sched), (10, task));
        sched.block(task, Some(0));
        sched.written_at(10, 8);
        let rest = std::iter::from_fn(|| sched.next());
        use Event::{Timer, Written};
        assert_eq!(rest.collect::<Vec<_>>(), [Written(7), Timer(task), Written(8)]);
    }

    #[test]
    fn timers_of_waits_that_ended_are_left_out() {
        let mut sched = Sched::new(&[NodeId(0)], 0);
        let task = sched.spawn(0, None);
        for _ in 0..100 {
            resumed(&mut sched);
            sched.block(task, Some(1000));
            sched.wake(task);
        }
        assert!(sched.timers.len() <= 2, "{:?}", sched.timers);
        resumed(&mut sched);
        assert_eq!((sched.next(), sched.now), (None, 0));
    }
}
