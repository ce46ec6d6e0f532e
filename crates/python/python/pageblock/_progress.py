"""How far long work is: a line on the terminal, or the bar of a library such as tqdm."""

import contextlib
import sys
import time
from collections.abc import Callable, Generator
from typing import Any, Protocol, TypeAlias, Union

from ._pageblock import Error

__all__ = ["Bar", "Progress", "Silent", "Stop", "begin", "check", "look", "shown"]

# The shortest time between two lines of progress, seconds.
SAY_EVERY = 1.0


class Bar(Protocol):
    """What tqdm's bars have."""

    def update(self, n: int) -> Any: ...
    def close(self) -> Any: ...


Progress: TypeAlias = Union[bool, None, Callable[..., Any]]


class Stop(Protocol):
    """What `threading.Event` has."""

    def is_set(self) -> bool: ...


class Line:
    """A line on standard error: how far it is, and the time that is left."""

    def __init__(self, total: int, desc: str, unit: str) -> None:
        self.total, self.desc, self.unit, self.done = total, desc, unit, 0
        self.start = self.said = time.monotonic()

    def update(self, n: int) -> None:
        """Says it, if it was not said just before."""
        self.done += n
        now = time.monotonic()
        if now - self.said < SAY_EVERY:
            return
        self.said = now
        left = (self.total - self.done) * (now - self.start) / self.done if self.done else 0.0
        print(f"\r{self.desc}: {self.done} of {self.total} {self.unit}s, {left:.0f} s left   ", end="", file=sys.stderr, flush=True)

    def close(self) -> None:
        """Ends the line."""
        if self.said > self.start:
            print(file=sys.stderr)


class Silent:
    """Shows nothing."""

    def update(self, n: int) -> None:
        """Shows nothing."""

    def close(self) -> None:
        """Shows nothing."""


class Theirs:
    """A bar of the user's. What it raises is the cause of an error that says whose it is."""

    def __init__(self, make: "Callable[..., Any]", total: int, desc: str, unit: str) -> None:
        self.bar = _asked("progress", make, total=total, desc=desc, unit=unit)
        for name in ("update", "close"):
            if not callable(getattr(self.bar, name, None)):
                raise Error(f"progress: what it made is a {type(self.bar).__name__} without {name}; allowed: True, False, None, tqdm")

    def update(self, n: int) -> None:
        """Tells it what is done."""
        _asked("progress: update", self.bar.update, n)

    def close(self) -> None:
        """Ends it."""
        _asked("progress: close", self.bar.close)


def _asked(name: str, call: "Callable[..., Any]", *args: Any, **given: Any) -> Any:
    """Calls what the user gave."""
    try:
        return call(*args, **given)
    except Exception as error:
        words = str(error).partition("\n")[0]
        raise Error(f"{name} raised {type(error).__name__}{': ' if words else ''}{words}") from error


def begin(progress: Progress, total: int, desc: str, unit: str = "run") -> Bar:
    """Begins to show work of so many units: for None a line on a terminal, for True a line, for False nothing; or by calling what was
    given with `total`, `desc` and `unit`, as `tqdm.tqdm` and `tqdm.auto.tqdm` are called.
    """
    if progress is None:
        return Line(total, desc, unit) if sys.stderr.isatty() else Silent()
    if isinstance(progress, bool):
        return Line(total, desc, unit) if progress else Silent()
    return Theirs(progress, total, desc, unit)


@contextlib.contextmanager
def shown(progress: Progress, total: int, desc: str, unit: str = "run") -> "Generator[Bar]":
    """Shows work of so many units while the block runs."""
    bar = begin(progress, total, desc, unit)
    try:
        yield bar
    except BaseException:
        # What failed first is said.
        with contextlib.suppress(Error):
            bar.close()
        raise
    bar.close()


def check(progress: Progress, stop: "Stop | None") -> None:
    """Raises `Error` for what cannot show work, or stop it."""
    if progress is not None and not isinstance(progress, bool) and not callable(progress):
        raise Error(f"progress {progress!r}: allowed: True, False, None, tqdm")
    if stop is not None and not callable(getattr(stop, "is_set", None)):
        raise Error(f"stop {stop!r}: allowed: an event with is_set, None")


def look(stop: "Stop | None") -> None:
    """Raises `Error` if the event is set."""
    if stop is not None and _asked("stop: is_set", stop.is_set):
        raise Error("stopped, as the event that was given as stop was set")
