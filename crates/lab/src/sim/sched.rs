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

/// Something that happens at a time.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub(crate) enum Happening {
    /// The time that a task charged has passed.
    Resume(TaskId),
    /// A task's wait is over, if it is still the same wait.
    Timer(TaskId, u64),
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
    /// The number of its present wait.
    wait: u64,
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
    events: BinaryHeap<Reverse<(Nanos, u64, Happening)>>,
    /// Tasks on CPUs go on: so few that looking at all is faster than keeping them in order.
    resumes: Vec<(Nanos, u64, TaskId)>,
    cpus: Vec<Cpu>,
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
            events: BinaryHeap::new(),
            resumes: Vec::new(),
            cpus: cpu_nodes.iter().map(cpu).collect(),
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

    pub(crate) fn at(&mut self, time: Nanos, what: Happening) {
        self.seq += 1;
        self.events.push(Reverse((time, self.seq, what)));
    }

    /// The next thing that happens; the clock goes there.
    pub(crate) fn next(&mut self) -> Option<Happening> {
        let first = self.resumes.iter().enumerate().min_by_key(|(_, (time, seq, _))| (*time, *seq));
        let other = self.events.peek().map(|Reverse((time, seq, _))| (*time, *seq));
        let (time, what) = match first {
            Some((at, &(time, seq, task))) if other.is_none_or(|other| (time, seq) < other) => {
                self.resumes.swap_remove(at);
                (time, Happening::Resume(task))
            }
            _ => {
                let Reverse((time, _, what)) = self.events.pop()?;
                (time, what)
            }
        };
        self.now = self.now.max(time);
        Some(what)
    }

    /// A task goes on at a time.
    fn resume_at(&mut self, time: Nanos, task: TaskId) {
        self.seq += 1;
        self.resumes.push((time, self.seq, task));
    }

    /// A new task that is ready to run, at first near a CPU; on one node only if `node` says so.
    pub(crate) fn spawn(&mut self, cpu: usize, node: Option<u8>) -> TaskId {
        self.tasks.push(Task {
            state: State::Blocked,
            cpu,
            node,
            wait: 0,
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
        self.cpus[cpu].queue.push_back(task);
        self.leave(cpu);
        false
    }

    /// The running task waits, for a time at most.
    pub(crate) fn block(&mut self, task: TaskId, timeout: Option<Nanos>) {
        let cpu = self.tasks[task].cpu;
        self.change(task, |task| task.state = State::Blocked);
        self.tasks[task].wait += 1;
        if let Some(ns) = timeout {
            self.at(self.now + ns, Happening::Timer(task, self.tasks[task].wait));
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

    /// A timer of a task ran out.
    pub(crate) fn time_out(&mut self, task: TaskId, wait: u64) {
        if self.tasks[task].wait == wait {
            self.wake(task);
        }
    }

    /// Wakes a task that waits; another is left alone.
    pub(crate) fn wake(&mut self, task: TaskId) {
        if self.tasks[task].state != State::Blocked {
            return;
        }
        self.tasks[task].wait += 1;
        let cpu = self.choose(task);
        self.change(task, |task| {
            task.cpu = cpu;
            task.state = State::Ready;
        });
        if self.cpus[cpu].running.is_none() {
            self.run_on(cpu, task);
        } else {
            self.cpus[cpu].queue.push_back(task);
        }
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
        self.change(task, |task| {
            task.state = State::Running;
            task.cpu = cpu;
        });
        self.cpus[cpu].running = Some(task);
        self.cpus[cpu].slice_end = self.now + SLICE;
        self.resume_at(self.now + self.switch, task);
    }

    /// A CPU has nobody to run: the next of its queue does, or one from the longest other queue.
    fn leave(&mut self, cpu: usize) {
        self.cpus[cpu].running = None;
        let next = self.cpus[cpu].queue.pop_front().or_else(|| {
            let node = self.cpus[cpu].node;
            let from =
                (0..self.cpus.len()).max_by_key(|&c| (self.cpus[c].queue.len(), Reverse(c)))?;
            let may = |t: &TaskId| self.tasks[*t].node.is_none_or(|n| n == node);
            let at = self.cpus[from].queue.iter().position(may)?;
            self.cpus[from].queue.remove(at)
        });
        if let Some(task) = next {
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
        let Some(Happening::Timer(t, wait)) = sched.next() else { panic!("the old timer") };
        sched.time_out(t, wait);
        assert!(!sched.is_running(task));
        let Some(Happening::Timer(t, wait)) = sched.next() else { panic!("the new timer") };
        sched.time_out(t, wait);
        assert!(sched.is_running(task) && sched.now == 100);
    }
}
