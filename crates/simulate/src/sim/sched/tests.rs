//! Who runs when, on which CPU.

use super::super::MILLISECOND;
use super::*;

fn sched(cpu_nodes: &[NodeId]) -> Sched {
    Sched { switch: 0, ..Sched::new(cpu_nodes, Kind::Year2018, Scheduler::Cfs) }
}

fn spawn(sched: &mut Sched, cpu: usize, node: Option<u8>) -> TaskId {
    let task = sched.add(cpu, node);
    sched.start(task);
    task
}

fn resumed(sched: &mut Sched) -> (Nanos, TaskId) {
    match sched.next() {
        Some(Event::Resume(task)) => (sched.now, task),
        other => panic!("{other:?}"),
    }
}

/// Runs tasks that want the CPU for good, a piece of `piece` at a time, until `until`; returns who ran, with the time of each turn.
fn turns(sched: &mut Sched, piece: Nanos, until: Nanos) -> Vec<(TaskId, Nanos)> {
    let mut turns: Vec<(TaskId, Nanos)> = Vec::new();
    while sched.now < until {
        let (_, task) = resumed(sched);
        if !sched.keeps_cpu(task) {
            continue;
        }
        match turns.last_mut() {
            Some((last, ran)) if *last == task => *ran += piece,
            _ => turns.push((task, piece)),
        }
        sched.charge(task, piece);
    }
    turns
}

#[test]
fn tasks_share_a_cpu_by_ticks() {
    for scheduler in [Scheduler::Cfs, Scheduler::Eevdf, Scheduler::EevdfDelayed] {
        let mut sched = Sched { fair: Fair::new(scheduler, 1), ..sched(&[NodeId(0)]) };
        let tasks = [spawn(&mut sched, 0, None), spawn(&mut sched, 0, None)];
        let turns = turns(&mut sched, MILLISECOND, 80 * MILLISECOND);
        assert!(turns[1..turns.len() - 1].iter().all(|(_, ran)| ran % TICK == 0), "{turns:?}");
        let ran = tasks.map(|task| sched.tasks[task].used);
        assert!(ran[0].abs_diff(ran[1]) <= 2 * TICK, "{scheduler:?}: {ran:?}");
    }
}

#[test]
fn a_sleeper_is_half_a_period_ahead_with_cfs_and_queues_with_eevdf() {
    let first = |scheduler| {
        let mut sched = Sched { fair: Fair::new(scheduler, 1), ..sched(&[NodeId(0)]) };
        let sleeper = spawn(&mut sched, 0, None);
        resumed(&mut sched);
        sched.block(sleeper, None);
        for _ in 0..4 {
            spawn(&mut sched, 0, None);
        }
        turns(&mut sched, MILLISECOND / 4, 61 * MILLISECOND);
        sched.wake(sleeper);
        let turns = turns(&mut sched, MILLISECOND / 4, 161 * MILLISECOND);
        let at = turns.iter().position(|&(task, _)| task == sleeper).expect("it runs");
        (turns[..at].iter().map(|(_, ran)| ran).sum::<Nanos>(), turns[at].1)
    };
    let (waited, ran) = first(Scheduler::Cfs);
    assert_eq!(waited, 0, "it takes the CPU at the end of the piece");
    assert!(ran > TICK, "its credit is 3 ms, and what the others are ahead: {ran}");
    for scheduler in [Scheduler::Eevdf, Scheduler::EevdfDelayed] {
        let (waited, ran) = first(scheduler);
        assert!((1..=4 * TICK).contains(&waited), "who is behind the mean goes first: {waited}");
        assert!(ran <= TICK, "a slice ends with the next tick: {ran}");
    }
}

#[test]
fn who_sleeps_when_ahead_stays_ahead_unless_the_others_catch_up() {
    let lag = |scheduler| {
        let mut sched = Sched { fair: Fair::new(scheduler, 1), ..sched(&[NodeId(0)]) };
        let (greedy, other) = (spawn(&mut sched, 0, None), spawn(&mut sched, 0, None));
        resumed(&mut sched);
        sched.charge(greedy, 3 * MILLISECOND);
        resumed(&mut sched);
        sched.block(greedy, None);
        assert_eq!(resumed(&mut sched).1, other);
        sched.charge(other, 60 * MILLISECOND);
        resumed(&mut sched);
        sched.wake(greedy);
        sched.vruntime(greedy) - sched.vruntime(other)
    };
    assert!(lag(Scheduler::Eevdf) > 0);
    assert_eq!(lag(Scheduler::EevdfDelayed), 0);
}

#[test]
fn emulated_cpus_wait_for_each_other() {
    let mut sched = Sched { kind: Kind::Emulated, ..sched(&[NodeId(0), NodeId(0)]) };
    let (a, b) = (spawn(&mut sched, 0, None), spawn(&mut sched, 1, None));
    resumed(&mut sched);
    sched.charge(a, 10);
    assert_eq!(resumed(&mut sched), (0, b));
    sched.block(b, None);
    assert_eq!(resumed(&mut sched), (20, a));
    sched.charge(a, 10);
    assert_eq!(resumed(&mut sched), (30, a));
}

#[test]
fn a_woken_task_takes_an_idle_cpu_of_its_node_first() {
    let mut sched = sched(&[NodeId(0), NodeId(0), NodeId(1)]);
    let tasks: Vec<_> = (0..3).map(|_| spawn(&mut sched, 0, None)).collect();
    assert_eq!(tasks.iter().map(|&t| sched.cpu_of(t)).collect::<Vec<_>>(), [0, 1, 2]);
    let bound = spawn(&mut sched, 2, Some(0));
    assert_eq!(sched.cpu_of(bound), 0, "it waits on its own node");
    // Its CPU is idle again: the queued task runs there.
    sched.block(tasks[0], Some(5));
    assert!(sched.is_running(bound));
}

#[test]
fn a_late_timer_does_not_end_the_next_wait() {
    let mut sched = sched(&[NodeId(0)]);
    let task = spawn(&mut sched, 0, None);
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
    let mut sched = Sched { switch: 10, ..sched(&[NodeId(0)]) };
    let task = spawn(&mut sched, 0, None);
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
    let mut sched = sched(&[NodeId(0)]);
    let task = spawn(&mut sched, 0, None);
    for _ in 0..100 {
        resumed(&mut sched);
        sched.block(task, Some(1000));
        sched.wake(task);
    }
    assert!(sched.events.timers() <= 2, "{:?}", sched.events);
    resumed(&mut sched);
    assert_eq!((sched.next(), sched.now), (None, 0));
}
