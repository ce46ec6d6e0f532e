"""Tuning: a search for the settings under which a workload, or a recorded machine, does best."""

import functools
import importlib
import json
import os
import tempfile
import warnings
from collections.abc import Iterable, Mapping, Sequence
from fractions import Fraction
from pathlib import Path
from typing import Any

from . import _progress
from ._answer import Trial, Tuned, disagreements
from ._arguments import count, named, path, texts
from ._arguments import jobs as jobs_of
from ._arguments import seeds as seeds_of
from ._engines import Engine, engine
from ._knobs import DEFAULT, MIN_FREE_PART, Knob, space, with_switches
from ._objectives import FEW, MEASURES, Change, Measure, changes, measures
from ._pageblock import Error, Kernel, Sweep, Workload, build, machine_text, memory_kib, scale_text, workloads, write_text
from ._progress import Progress, Stop
from ._recordings import opened
from ._trials import Replays, Runner, Simulations, recorded_kernel

__all__ = ["tune"]

HEAD = "tune.json"
# So many trials are drawn at random before the sampler learns from them.
STARTUP = 16
# The share of its gain that a trial may lose when a setting is taken back.
SLACK = 0.05
# So many trials are the most.
MOST = 100_000
# The share of the trials that count as the best when knobs are weighed.
BEST = 0.25


def tune(
    of: "str | os.PathLike[str] | Workload",
    kernel: "Kernel | str | None" = None,
    objectives: "str | Sequence[str]" = "huge-pages",
    *,
    out: "str | os.PathLike[str]",
    over: str = "sysctls",
    knobs: "Sequence[str] | None" = None,
    machine: "str | os.PathLike[str] | None" = None,
    scale: "str | float | Fraction" = "1",
    trials: int = 64,
    batch: int = 8,
    seeds: "int | Iterable[int]" = 8,
    held_out: "int | Iterable[int]" = 16,
    seed: int = 1,
    pick: "int | None" = None,
    executor: "Engine | None" = None,
    jobs: "int | None" = None,
    progress: Progress = None,
    stop: "Stop | None" = None,
) -> Tuned:
    """Searches for the settings of a kernel under which a workload does best, and returns what it found.

    `of` is a name of `workloads()`, a `Workload` of your own, `module:name` of one, a workload file, or the path of a recording, which is replayed; `kernel`
    the kernel, for a recording by default the recorded one; `objectives` one or several of `huge-pages`, `stalls`, `work`, `spread`,
    `unmovable`, `small-blocks`: with several the answer is from the Pareto front, the best in the first objective that is not worse than
    the default in another, or trial `pick`.

    `over` is `"sysctls"` (those that exist on this kernel, and the settings of huge pages) or `"switches"` (of the allocator's policy);
    `knobs` names those to change instead. `trials` settings are proposed, `batch` at a time, by Optuna's TPE with this `seed`: the same
    history gives the same proposals, whatever the executor and the number of workers; the last batch is a whole one. Each is simulated with the seeds 1 to `seeds`; what
    can be taken back at no more than 5 % of the gain is left out of the answer, which `held_out` other seeds then judge. An objective is
    refused if every trial of the first batch counts fewer than 20 of its events, and so is an answer that rests on fewer: nothing could be told.

    `machine`, `seeds` and `scale` are those of `run`, `executor`, `jobs`, `progress` and `stop` those of `sweep`. `out` is a folder: what is
    done is there at once, and the same call goes on after it, with more `trials` too. `study` of what is returned is Optuna's.
    """
    folder = Path(path("out", out))
    optuna = _optuna()
    wanted = measures(texts("objectives", objectives, "names of objectives"))
    trials, batch = count("trials", trials, most=MOST), count("batch", batch, most=MOST)
    seed, at_a_time = count("seed", seed, 0, 2**32 - 1), jobs_of(jobs)
    search, judges = _two_sets(seeds, held_out)
    pick = None if pick is None else count("pick", pick, 0)
    _progress.check(progress, stop)
    of, own, replayed = _subject(of)
    knobs = None if knobs is None else texts("knobs", knobs, "names of knobs")
    if kernel is None and not replayed:
        raise Error("a kernel is missing: linux-6.12, for example")
    base = recorded_kernel(of) if kernel is None else Kernel(kernel)
    cell = {"workload": of, "scale": scale_text(scale)}
    if machine is not None:
        cell["machine"] = machine_text(machine)
    chosen = space(base, over, knobs, replayed)
    if not replayed:
        _check({**cell, "kernel": base.text}, own)
        chosen = [_possible(knob, base, cell, own) for knob in chosen]
    if not chosen:
        raise Error(f"{base.name} has no knob to change")
    head = {
        "of": of, "kernel": base.text, "objectives": [one.name for one in wanted], "over": over, "seeds": _said(search, 1),
        "knobs": [knob.name for knob in chosen], "machine": cell.get("machine"), "scale": cell["scale"], "batch": batch, "seed": seed,
        "optuna": optuna.__version__, "program": build(),
    }  # fmt: skip
    if replayed:
        # What was replayed of one recording answers for no other under the same path.
        head["content"] = opened(of).key
    with engine(executor, at_a_time) as found:
        _open(folder, head)
        if replayed:
            runner: Runner = Replays(of, folder, found, at_a_time, stop)
        else:
            runner = Simulations(cell, folder, (search, judges), found, at_a_time, own, stop)
        searched = _Search(optuna, runner, base, chosen, wanted, seed)
        searched.run(trials, batch, progress)
        tuned = searched.answer(pick)
    drawn = {} if replayed else {"seeds": len(search), "held_out": len(judges)}
    tuned.request = {**cell, **drawn, "kernel": base.text, "trials": trials, "over": over}
    tuned.save(folder)
    return tuned


class _Search:
    """The trials of a search, and what comes of them."""

    def __init__(
        self, optuna: Any, runner: Runner, kernel: Kernel, knobs: "list[Knob]", wanted: "list[Measure]", seed: int
    ) -> None:
        self.optuna, self.runner, self.kernel, self.knobs, self.measures = optuna, runner, kernel, knobs, wanted
        optuna.logging.set_verbosity(optuna.logging.WARNING)
        directions = ["maximize" if one.more_is_better else "minimize" for one in wanted]
        sampler = optuna.samplers.TPESampler(seed=seed, n_startup_trials=STARTUP)
        self.study = optuna.create_study(directions=directions, sampler=sampler)
        # The kernel as it is comes first: it is what the others are compared with, and where the search begins.
        self.study.enqueue_trial({knob.name: knob.default(kernel) for knob in knobs})
        self.trials: "list[Trial]" = []

    def run(self, count: int, batch: int, progress: Progress) -> None:
        """Asks for batches of proposals and tells what they gave, in the order of their numbers."""
        with _progress.shown(progress, count, "tune", "trial") as bar:
            self._run(count, batch, bar)

    def _run(self, count: int, batch: int, bar: _progress.Bar) -> None:
        while len(self.trials) < count:
            asked = [self.study.ask() for _ in range(batch)]
            values = [{knob.name: knob.suggest(trial) for knob in self.knobs} for trial in asked]
            settings = [self._set(each) for each in values]
            rows = self.runner.run([self._name(each) for each in settings], self.runner.search_seeds)
            for trial, each in zip(asked, settings):
                self._tell(trial, each, rows[self._name(each)])
            if len(self.trials) == batch:
                self._refuse([rows[self._name(each)] for each in settings])
            bar.update(batch)

    def _refuse(self, first: "list[Sequence[Mapping[str, Any]]]") -> None:
        """Raises `Error` if the first batch has too few events of an objective in every trial."""
        for measure in self.measures:
            counted = [measure.counted(rows) for rows in first]
            most = max((one for one in counted if one is not None), default=FEW)
            if most < FEW:
                raise Error(
                    f"{measure.text}: at most {most} {measure.events} in the {len(first[0])} runs of a trial, fewer than {FEW}: nothing can be told "
                    "of it; name a larger scale, more seeds or another objective"
                )

    def _tell(self, trial: Any, settings: "dict[str, str | int]", rows: "Sequence[Mapping[str, Any]]") -> None:
        found: "list[float]" = []
        # A run that did not finish has done less of everything: it is no success.
        lost = sum(row.get("ended") is not None for row in rows)
        for measure in self.measures:
            values = [value for value in map(measure.of, rows) if value is not None]
            lost += len(rows) - len(values)
            found.append(_mean(values))
        trial.set_constraint("runs without a result", float(lost))
        self.study.tell(trial, found)
        self.trials.append(Trial(trial.number, settings, dict(zip((one.name for one in self.measures), found)), lost))

    def _set(self, values: "Mapping[str, str | int]") -> "dict[str, str | int]":
        """Returns the values that differ from the kernel as it is."""
        return {knob.name: values[knob.name] for knob in self.knobs if values[knob.name] != knob.default(self.kernel)}

    def _name(self, settings: "Mapping[str, str | int]") -> str:
        switched = {knob.switch: knob.switched(settings[knob.name]) for knob in self.knobs if knob.name in settings}
        return with_switches(self.kernel, switched)

    def front(self) -> "list[Trial]":
        """Returns the trials that no other one is better than in every objective."""
        if not any(trial.lost == 0 for trial in self.trials):
            raise Error(f"{self.runner.subject} under {self.kernel.name}: no trial has a result in {self.measures[0].text}")
        return [self.trials[trial.number] for trial in self.study.best_trials]

    def answer(self, pick: "int | None") -> Tuned:
        """Chooses from the front, leaves out what does nothing, and lets the held-out seeds judge."""
        front = self.front()
        one = self._chosen(front, pick)
        importance = self._importance()
        settings = self._simplified(one, importance)
        names = [self.kernel.text, self._name(settings)]
        rows = self.runner.run(names, self.runner.held_out)
        judged = changes(_all(self.measures), rows[names[0]], rows[names[1]])
        ended = sum(row.get("ended") is not None for row in rows[names[1]])
        without = self._without(settings)
        refused = {}
        if any(not change.told for change in judged if change.measure == self.measures[0]):
            refused, settings, without = settings, {}, {}
        return Tuned(
            self.runner.subject, self.kernel, names[1] if settings else self.kernel.text, settings, self.measures, front, one.number, importance,
            without, judged, ended, refused=refused, disagreements=disagreements(one.settings, importance, without), study=self.study,
        )  # fmt: skip

    def _chosen(self, front: "list[Trial]", pick: "int | None") -> Trial:
        if pick is not None:
            for one in front:
                if one.number == pick:
                    return one
            raise Error(f"pick {pick}: on the front are the trials {', '.join(str(one.number) for one in front)}")
        sign = {one.name: -1 if one.more_is_better else 1 for one in self.measures}
        default = self.trials[0].values
        harmless = [one for one in front if all(sign[name] * one.values[name] <= sign[name] * default[name] for name in sign)]
        first = self.measures[0].name
        return min(harmless or front, key=lambda one: (sign[first] * one.values[first], one.number))

    def _simplified(self, one: Trial, importance: "Mapping[str, Mapping[str, float]]") -> "dict[str, str | int]":
        """Takes back one setting after the other, the least important first, while what is left keeps the trial's gain in every objective.

        Nothing is claimed here: whether what is left is better than the default the held-out seeds say.
        """
        weight = {name: max(of.get(name, 0.0) for of in importance.values()) for name in one.settings}
        gain, settings = self._gain(one.settings), dict(one.settings)
        for name in sorted(one.settings, key=lambda name: (weight[name], name)):
            without = {other: value for other, value in settings.items() if other != name}
            left = self._gain(without)
            if all(now >= whole - abs(whole) * SLACK for now, whole in zip(left, gain)):
                settings = without
        return settings

    def _gain(self, settings: "Mapping[str, str | int]") -> "list[float]":
        """Returns by how much settings are better than the default in each objective, on average over the seeds of the search; runs that
        did not finish gain nothing."""
        names = [self.kernel.text, self._name(settings)]
        rows = self.runner.run(names, self.runner.search_seeds)
        if any(row.get("ended") is not None for row in rows[names[1]]):
            return [float("-inf")] * len(self.measures)
        gains: "list[float]" = []
        for measure in self.measures:
            means = [_mean([value for value in map(measure.of, rows[name]) if value is not None]) for name in names]
            gains.append((means[1] - means[0]) * (1 if measure.more_is_better else -1))
        return gains

    def _without(self, settings: "dict[str, str | int]") -> "dict[str, list[Change]]":
        """Returns what becomes of the objectives when one setting of the answer is taken back."""
        others = {name: self._name({other: value for other, value in settings.items() if other != name}) for name in settings}
        whole = self._name(settings)
        rows = self.runner.run([whole, *others.values()], self.runner.search_seeds)
        return {name: changes(self.measures, rows[whole], rows[other]) for name, other in others.items()}

    def _importance(self) -> "dict[str, dict[str, float]]":
        """Returns the share of each knob in what tells the best trials from the others, for each objective."""
        found: "dict[str, dict[str, float]]" = {}
        for at, measure in enumerate(self.measures):
            target = functools.partial(_loss, at=at, sign=-1.0 if measure.more_is_better else 1.0)
            with warnings.catch_warnings():
                warnings.simplefilter("ignore")
                shares = self.optuna.importance.get_param_importances(
                    self.study,
                    evaluator=self.optuna.importance.PedAnovaImportanceEvaluator(target_quantile=BEST),
                    target=target,
                )
            found[measure.name] = {str(name): float(share) for name, share in shares.items()}
        return found


def _all(first: "list[Measure]") -> "list[Measure]":
    """Returns every measure, the objectives first: what was not looked for can have got worse."""
    return first + [one for one in MEASURES if one not in first]


def _mean(values: "Sequence[float]") -> float:
    return sum(values) / len(values) if values else 0.0


def _loss(trial: Any, at: int, sign: float) -> float:
    return sign * float(trial.values[at])


def _optuna() -> Any:
    try:
        return importlib.import_module("optuna")
    except ImportError as error:
        raise Error("tuning needs Optuna: pip install 'pageblock[tune]'") from None


def _two_sets(seeds: "int | Iterable[int]", held_out: "int | Iterable[int]") -> "tuple[list[int], list[int]]":
    """Returns the seeds of the search, and those that judge its answer."""
    search = seeds_of("seeds", seeds)
    judges = seeds_of("held_out", held_out, max(search) + 1)
    both = [one for one in judges if one in search]
    if both:
        raise Error(f"held_out: seed {both[0]} is one of the search; those that judge take no part in it")
    return search, judges


def _subject(of: "str | os.PathLike[str] | Workload") -> "tuple[str, Workload | None, bool]":
    """Returns the name of a workload or the path of a recording, the workload if it is the user's own, and whether it is a recording."""
    name, own = named(of)
    if own is not None:
        return name, own, False
    names = [str(row["workload"]) for row in workloads().to_dicts()]
    if name not in names and not Path(name).exists():
        raise Error(f"there is no workload and no recording '{name}'; there are {', '.join(names)}")
    return name, None, name not in names


def _said(seeds: "list[int]", first: int) -> "int | list[int]":
    """Returns seeds as they are said: how many, or which."""
    return len(seeds) if seeds == list(range(first, first + len(seeds))) else seeds


def _check(cell: "Mapping[str, str]", own: "Workload | None") -> None:
    """Raises `Error` if it cannot be run."""
    grid = {"workloads": [cell["workload"]], "kernels": [cell["kernel"]], "scales": [cell["scale"]]}
    with tempfile.TemporaryDirectory() as folder:
        Sweep(json.dumps(grid | ({"machines": [cell["machine"]]} if "machine" in cell else {})), folder, [own] if own is not None else [])


def _possible(knob: Knob, kernel: Kernel, cell: "Mapping[str, str]", own: "Workload | None") -> Knob:
    """Returns a knob without the values that this machine cannot have, and with the one that the kernel has."""
    if isinstance(knob.values, range):
        usual = int(knob.default(kernel))
        low, high = min(knob.values.start, usual), max(knob.values.stop, usual)
        return knob.with_values(range(low, high, knob.values.step), knob.log and low > 0)
    values: "list[str | int]" = []
    machine = own.machine if own is not None else _machine_of(cell["workload"])
    most = memory_kib(cell.get("machine", machine)) // MIN_FREE_PART
    for value in knob.values:
        if knob.switch == "min_free_kbytes" and value != DEFAULT and int(value) > most:
            continue
        try:
            if value != DEFAULT:
                _check({**cell, "kernel": with_switches(kernel, {knob.switch: knob.switched(value)})}, own)
            values.append(value)
        except Error:
            continue
    return knob.with_values(tuple(values), log=False)


def _machine_of(workload: str) -> str:
    """Returns the machine that a workload was published for; nothing for one's own."""
    return next((str(row["machine"]) for row in workloads().to_dicts() if row["workload"] == workload), "")


def _open(folder: Path, head: "dict[str, Any]") -> None:
    """Makes the folder, or checks that it has the same search."""
    path = folder / HEAD
    if not path.exists():
        folder.mkdir(parents=True, exist_ok=True)
        write_text(path, json.dumps(head, indent=1) + "\n")
        return
    try:
        before = json.loads(path.read_text(encoding="utf-8"))
    except ValueError:
        raise Error(f"{path}: it is no file of a search; name another folder") from None
    for name, value in head.items():
        if before.get(name) != value:
            raise Error(f"{path}: the folder has another search: {name} is {before.get(name)}, not {value}; name another folder")
