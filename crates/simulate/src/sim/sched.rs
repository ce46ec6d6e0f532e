//! CPUs and who runs on them: a task keeps its CPU where it can, takes an idle one otherwise, and
//! waits its turn where there is none.

use std::cmp::Reverse;
use std::collections::{BinaryHeap, VecDeque};

use super::psi::{Psi, Share};
use super::{MILLISECOND, Nanos};

/// The number of a task.
pub(crate) type TaskId = usize;

/// How long a task runs while others wait for its CPU.
const SLICE: Nanos = 4 * MILLISECOND;

/// When something happens: the time, and how many things were asked for before, so that those of one time follow
/// in that order.
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
pub(crate) enum Happening {
    /// The time that a task charged has passed.
    Resume(TaskId),
    /// A task's wait is over.
    Timer(TaskId),
    /// A write is done: its number.
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
    /// The only node that it may run on.
    node: Option<u8>,
    /// The timer that ends its wait; 0 where there is none.
    timer: u64,
    /// CPU time that it has used.
    used: Nanos,
    /// It waits for memory, or works because there is none.
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

/// What is to happen, and who runs where.
#[derive(Debug)]
pub(crate) struct Sched {
    pub(crate) now: Nanos,
    seq: u64,
    /// Tasks on CPUs go on: so few that looking at all is faster than keeping them in order.
    resumes: Vec<(When, TaskId)>,
    timers: BinaryHeap<Reverse<(When, TaskId)>>,
    /// Timers whose waits ended before.
    stale: usize,
    /// Writes are done one after the other.
    writes: VecDeque<(When, usize)>,
    cpus: Vec<Cpu>,
    /// Tasks that wait for a CPU.
    queued: usize,
    tasks: Vec<Task>,
    switch: Nanos,
    pub(crate) psi: Psi,
}

impl Sched {
    pub(crate) fn new(cpu_nodes: &[u8], switch: Nanos) -> Self {
        let cpu = |&node: &u8| Cpu { node, running: None, queue: VecDeque::new(), slice_end: 0 };
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

    /// Changes a task, and what pressure there is with it.
    fn change(&mut self, task: TaskId, change: impl FnOnce(&mut Task)) {
        let before = self.tasks[task].share();
        change(&mut self.tasks[task]);
        self.psi.change(self.now, before, self.tasks[task].share());
    }

    /// Takes the pressure of the time since the last call into account.
    pub(crate) fn collect_pressure(&mut self) {
        self.psi.collect(self.now);
    }

    /// A task begins or ceases to be stalled for memory; tells whether it was.
    pub(crate) fn set_stalled(&mut self, task: TaskId, stalled: bool) -> bool {
        let was = self.tasks[task].stalled;
        self.change(task, |task| task.stalled = stalled);
        was
    }

    fn when(&mut self, time: Nanos) -> When {
        self.seq += 1;
        When::new(time, self.seq)
    }

    /// The next thing that happens; the clock goes there.
    pub(crate) fn next(&mut self) -> Option<Happening> {
        let timer = self.next_timer();
        let write = self.writes.front().map_or(When::NEVER, |&(when, _)| when);
        let resume = (0..).zip(&self.resumes).min_by_key(|(_, (when, _))| *when);
        let (when, what) = match resume {
            Some((at, &(when, task))) if when < timer.min(write) => {
                self.resumes.swap_remove(at);
                (when, Happening::Resume(task))
            }
            _ if write < timer => {
                let (when, write) = self.writes.pop_front()?;
                (when, Happening::Written(write))
            }
            _ => {
                let Reverse((when, task)) = self.timers.pop()?;
                (when, Happening::Timer(task))
            }
        };
        self.now = self.now.max(when.time());
        Some(what)
    }

    /// When the next timer runs out whose task still waits; those before it are left out.
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

    /// A task goes on at a time.
    fn resume_at(&mut self, time: Nanos, task: TaskId) {
        let when = self.when(time);
        self.resumes.push((when, task));
    }

    /// A write will be done at a time, which is not before that of the one before.
    pub(crate) fn written_at(&mut self, time: Nanos, write: usize) {
        let when = self.when(time);
        debug_assert!(self.writes.back().is_none_or(|&(last, _)| last < when));
        self.writes.push_back((when, write));
    }

    /// A task waits until a time, unless it is woken before.
    fn wait_until(&mut self, time: Nanos, task: TaskId) {
        let when = self.when(time);
        self.timers.push(Reverse((when, task)));
        self.tasks[task].timer = when.seq();
    }

    /// The task's timer, if it has one, is without meaning from now on. Too many of those are left out, as
    /// each makes all others slower.
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

    /// A new task that is ready to run, at first near a CPU; on one node only if `node` says so.
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

    /// The first CPU of a node.
    pub(crate) fn first_cpu_of(&self, node: u8) -> Option<usize> {
        self.cpus.iter().position(|cpu| cpu.node == node)
    }

    /// Whether a task is on its CPU: only then is it to be run.
    pub(crate) fn is_running(&self, task: TaskId) -> bool {
        self.tasks[task].state == State::Running
    }

    /// The running task goes on after some CPU time; it gives way first if its turn is over.
    pub(crate) fn charge(&mut self, task: TaskId, ns: Nanos) {
        self.tasks[task].used += ns;
        self.resume_at(self.now + ns, task);
    }

    /// The number of tasks so far.
    pub(crate) fn tasks(&self) -> usize {
        self.tasks.len()
    }

    /// The CPU time that the tasks from this one on have used.
    pub(crate) fn used_from(&self, first: TaskId) -> Nanos {
        self.tasks[first..].iter().map(|task| task.used).sum()
    }

    /// The running task has used what it charged. Tells whether it goes on now, or another runs.
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

    /// The running task waits, for a time at most.
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

    /// The timer of a task ran out.
    pub(crate) fn time_out(&mut self, task: TaskId) {
        self.tasks[task].timer = 0;
        self.wake(task);
    }

    /// Wakes a task that waits; another is left alone.
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

    /// The task's own CPU if that is idle, else an idle one, of its node if there is one, else the
    /// one with the shortest queue.
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
            // It was ready there, which is no less pressure.
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

    /// A CPU has nobody to run: the next of its queue does, or one from the longest other queue.
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
            Some(Happening::Resume(task)) => (sched.now, task),
            other => panic!("{other:?}"),
        }
    }

    #[test]
    fn two_tasks_share_a_cpu_by_slices() {
        let mut sched = Sched::new(&[0], 0);
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
        let mut sched = Sched::new(&[0, 0, 1], 0);
        let tasks: Vec<_> = (0..3).map(|_| sched.spawn(0, None)).collect();
        assert_eq!(tasks.iter().map(|&t| sched.cpu_of(t)).collect::<Vec<_>>(), [0, 1, 2]);
        let bound = sched.spawn(2, Some(0));
        assert_eq!(sched.cpu_of(bound), 0, "it waits on its own node");
        // Its CPU is idle again: the task that waits in the queue runs there.
        sched.block(tasks[0], Some(5));
        assert!(sched.is_running(bound));
    }

    #[test]
    fn a_late_timer_does_not_end_the_next_wait() {
        let mut sched = Sched::new(&[0], 0);
        let task = sched.spawn(0, None);
        resumed(&mut sched);
        sched.block(task, Some(10));
        sched.wake(task);
        resumed(&mut sched);
        sched.block(task, Some(100));
        let Some(Happening::Timer(task)) = sched.next() else {
            panic!("the timer of the second wait")
        };
        assert_eq!(sched.now, 100);
        sched.time_out(task);
        assert!(sched.is_running(task));
    }

    #[test]
    fn what_is_to_happen_at_one_time_follows_in_the_order_of_asking() {
        let mut sched = Sched::new(&[0], 10);
        let task = sched.spawn(0, None);
        sched.written_at(10, 7);
        assert_eq!(resumed(&mut sched), (10, task));
        sched.block(task, Some(0));
        sched.written_at(10, 8);
        let rest = std::iter::from_fn(|| sched.next());
        use Happening::{Timer, Written};
        assert_eq!(rest.collect::<Vec<_>>(), [Written(7), Timer(task), Written(8)]);
    }

    #[test]
    fn timers_of_waits_that_ended_are_left_out() {
        let mut sched = Sched::new(&[0], 0);
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
