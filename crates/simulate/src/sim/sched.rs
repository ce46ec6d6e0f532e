//! CPUs and the scheduling of tasks: a task keeps its CPU if it can, else takes an idle one, and queues if
//! there is none. The fair class chooses which task of a queue runs.

mod events;
mod fair;

use pageblock::ids::NodeId;
use std::cmp::Reverse;

use pageblock_kernel::rules::scheduler::Scheduler;

use super::Nanos;
use super::cost::Cpu as Kind;
use super::psi::{Psi, Share};
pub(crate) use events::Event;
use events::Events;
use fair::{Entity, Fair, Others, TICK, Virtual};

/// The number of a task.
pub(crate) type TaskId = usize;

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
    /// When it last began to wait.
    blocked_at: Nanos,
    /// The CPU time that it has used.
    used: Nanos,
    /// When what it was charged for ends.
    until: Nanos,
    entity: Entity,
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
    queue: Vec<TaskId>,
    /// `min_vruntime`, which never goes back.
    least: Virtual,
    /// The next tick.
    tick: Nanos,
    /// The running task is preempted unless it is picked again (`TIF_NEED_RESCHED`).
    resched: bool,
}

/// The clock, and which task runs on which CPU.
#[derive(Debug)]
pub(crate) struct Sched {
    pub(crate) now: Nanos,
    events: Events,
    cpus: Vec<Cpu>,
    /// Tasks in the run queues.
    queued: usize,
    tasks: Vec<Task>,
    kind: Kind,
    switch: Nanos,
    fair: Fair,
    pub(crate) psi: Psi,
}

impl Sched {
    pub(crate) fn new(cpu_nodes: &[NodeId], kind: Kind, scheduler: Scheduler) -> Self {
        let cpu = |&NodeId(node): &NodeId| Cpu {
            node,
            running: None,
            queue: Vec::new(),
            least: 0,
            tick: 0,
            resched: false,
        };
        Self {
            now: 0,
            events: Events::default(),
            cpus: cpu_nodes.iter().map(cpu).collect(),
            queued: 0,
            tasks: Vec::new(),
            kind,
            switch: kind.costs().switch,
            fair: Fair::new(scheduler, cpu_nodes.len()),
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

    /// Takes the next event and advances the clock to it.
    pub(crate) fn next(&mut self) -> Option<Event> {
        let (time, event) = self.events.next()?;
        self.now = self.now.max(time);
        Some(event)
    }

    /// Schedules the completion of a write, not before that of the previous write.
    pub(crate) fn written_at(&mut self, time: Nanos, write: usize) {
        self.events.written_at(time, write);
    }

    /// Adds a task that is to start near a CPU; bound to one node if `node` says so.
    pub(crate) fn add(&mut self, cpu: usize, node: Option<u8>) -> TaskId {
        self.events.add_task();
        self.tasks.push(Task {
            state: State::Blocked,
            cpu,
            node,
            blocked_at: 0,
            used: 0,
            until: 0,
            entity: Entity::default(),
            stalled: false,
        });
        self.tasks.len() - 1
    }

    /// Starts a task that was added.
    pub(crate) fn start(&mut self, task: TaskId) {
        debug_assert_eq!((self.tasks[task].state, self.tasks[task].used), (State::Blocked, 0));
        let cpu = self.ready(task);
        let others = self.others(cpu);
        self.fair.place_new(&mut self.tasks[task].entity, others);
        match self.cpus[cpu].running {
            None => self.run_on(cpu, task),
            // A new task waits its turn.
            Some(_) => self.enqueue(cpu, task),
        }
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

    /// Charges CPU time to the running task. On one thread of a host it takes as many
    /// times as long as CPUs are busy.
    pub(crate) fn charge(&mut self, task: TaskId, ns: Nanos) {
        let ns = match self.kind {
            Kind::Year2018 => ns,
            Kind::Emulated => {
                ns * self.cpus.iter().filter(|cpu| cpu.running.is_some()).count() as u64
            }
        };
        let until = self.now + ns;
        let charged = &mut self.tasks[task];
        charged.used += ns;
        charged.until = until;
        charged.entity.charge(ns);
        self.events.resume_at(until, task);
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
        if self.cpus[cpu].queue.is_empty() {
            return true;
        }
        if self.now >= self.cpus[cpu].tick {
            self.tick(cpu, task);
        }
        if !std::mem::take(&mut self.cpus[cpu].resched) {
            return true;
        }
        if self.pick(cpu) == Some(task) {
            self.fair.picked(&mut self.tasks[task].entity);
            return true;
        }
        self.tasks[task].state = State::Ready;
        self.enqueue(cpu, task);
        self.leave(cpu);
        false
    }

    /// Checks at a tick whether the running task of a CPU is preempted (`task_tick_fair`).
    fn tick(&mut self, cpu: usize, task: TaskId) {
        self.cpus[cpu].tick = (self.now / TICK + 1) * TICK;
        let waiting = self.cpus[cpu].queue.iter().map(|&t| self.tasks[t].entity.vruntime);
        let (count, first) = (waiting.len() as Virtual + 1, waiting.min().unwrap_or(Virtual::MAX));
        if self.fair.ticks(&mut self.tasks[task].entity, count, first) {
            self.cpus[cpu].resched = true;
        }
    }

    /// Returns the task that a CPU has to run, of the running and the waiting ones.
    fn pick(&self, cpu: usize) -> Option<TaskId> {
        let Cpu { running, queue, .. } = &self.cpus[cpu];
        let all = || running.iter().chain(queue).copied();
        let at = self.fair.pick(all().map(|task| self.tasks[task].entity))?;
        all().nth(at)
    }

    /// Returns the vruntime of a task now: less than at the end of what it was charged for, if it runs.
    fn vruntime(&self, task: TaskId) -> Virtual {
        let Task { entity, until, .. } = self.tasks[task];
        entity.vruntime - until.saturating_sub(self.now) as Virtual
    }

    /// Returns the runnable tasks of a CPU, and advances its `min_vruntime`.
    fn others(&mut self, cpu: usize) -> Others {
        let Cpu { running, queue, least, .. } = &self.cpus[cpu];
        let times = running.iter().chain(queue).map(|&task| self.vruntime(task));
        let others = Others::of(times, *least);
        self.cpus[cpu].least = others.least;
        others
    }

    /// Blocks the running task, with an optional timeout.
    pub(crate) fn block(&mut self, task: TaskId, timeout: Option<Nanos>) {
        let cpu = self.tasks[task].cpu;
        debug_assert_eq!(self.tasks[task].state, State::Running);
        let (now, Others { average, .. }) = (self.now, self.others(cpu));
        self.fair.leave(&mut self.tasks[task].entity, average);
        self.change(task, |task| (task.state, task.blocked_at) = (State::Blocked, now));
        if let Some(ns) = timeout {
            self.events.wait_until(self.now + ns, task);
        }
        self.leave(cpu);
    }

    pub(crate) fn finish(&mut self, task: TaskId) {
        // `min_vruntime` advances to the task's own.
        self.others(self.tasks[task].cpu);
        self.change(task, |task| task.state = State::Done);
        self.leave(self.tasks[task].cpu);
    }

    pub(crate) fn is_done(&self, task: TaskId) -> bool {
        self.tasks[task].state == State::Done
    }

    /// Handles the expiry of a task's timer.
    pub(crate) fn time_out(&mut self, task: TaskId) {
        self.wake(task);
    }

    /// Wakes a task if it waits.
    pub(crate) fn wake(&mut self, task: TaskId) {
        if self.tasks[task].state != State::Blocked {
            return;
        }
        self.events.drop_timer(task);
        let own = self.tasks[task].cpu;
        let cpu = self.ready(task);
        let slept = self.now - self.tasks[task].blocked_at;
        let others = self.others(cpu);
        if cpu != own {
            let from = self.others(own).least;
            self.fair.place_moved(&mut self.tasks[task].entity, others, from);
        }
        self.fair.place_woken(&mut self.tasks[task].entity, others, slept);
        match self.cpus[cpu].running {
            None => self.run_on(cpu, task),
            Some(running) => {
                self.enqueue(cpu, task);
                self.preempt(cpu, running, task);
            }
        }
    }

    /// Preempts the running task if a woken one runs before it (`check_preempt_wakeup`), at the end of what it was
    /// charged for.
    fn preempt(&mut self, cpu: usize, running: TaskId, woken: TaskId) {
        let now = self.vruntime(running);
        let resched = match self.fair.scheduler {
            Scheduler::Cfs => self.fair.is_far_behind(&self.tasks[woken].entity, now),
            Scheduler::Eevdf | Scheduler::EevdfDelayed => {
                self.fair.slice_is_over(&mut self.tasks[running].entity, now)
                    || now > self.others(cpu).average && self.pick(cpu) == Some(woken)
            }
        };
        self.cpus[cpu].resched |= resched;
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

    fn enqueue(&mut self, cpu: usize, task: TaskId) {
        self.cpus[cpu].queue.push(task);
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
        self.cpus[cpu].tick = (self.now / TICK + 1) * TICK;
        self.cpus[cpu].resched = false;
        self.fair.picked(&mut self.tasks[task].entity);
        self.events.resume_at(self.now + self.switch, task);
    }

    /// Picks the next task for a CPU: from its own queue, else from the longest other queue.
    fn leave(&mut self, cpu: usize) {
        self.cpus[cpu].running = None;
        if self.queued == 0 {
            return;
        }
        let next = match self.pick(cpu) {
            Some(task) => {
                self.cpus[cpu].queue.retain(|&waiting| waiting != task);
                Some(task)
            }
            None => self.pull(cpu),
        };
        if let Some(task) = next {
            self.queued -= 1;
            self.run_on(cpu, task);
        }
    }

    /// Takes a task that may run on an idle CPU from the longest queue.
    fn pull(&mut self, cpu: usize) -> Option<TaskId> {
        let node = self.cpus[cpu].node;
        let from = (0..self.cpus.len()).max_by_key(|&c| (self.cpus[c].queue.len(), Reverse(c)))?;
        let may = |t: &TaskId| self.tasks[*t].node.is_none_or(|n| n == node);
        let at = self.cpus[from].queue.iter().position(may)?;
        let left = self.others(from);
        let task = self.cpus[from].queue.remove(at);
        let others = self.others(cpu);
        let entity = &mut self.tasks[task].entity;
        self.fair.leave(entity, left.average);
        self.fair.place_moved(entity, others, left.least);
        Some(task)
    }
}

#[cfg(test)]
mod tests;
