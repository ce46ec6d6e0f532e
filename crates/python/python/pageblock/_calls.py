"""Calls on an executor, which Ctrl-C ends where no lock of a future is held."""

import contextlib
import signal
import threading
from collections.abc import Callable, Generator, Iterable, Iterator
from concurrent.futures import CancelledError, Executor, Future
from queue import Empty, SimpleQueue
from types import FrameType
from typing import Any, TypeVar, cast

from ._pageblock import Error, stop_all

__all__ = ["completed"]

# So many futures are open at a time: enough for a cluster, few enough for a grid of a million runs.
IN_FLIGHT = 2000
# The time between two looks for Ctrl-C, seconds.
LOOK_EVERY = 0.2

Key = TypeVar("Key")


def completed(
    executor: Executor, call: "Callable[..., str]", arguments: "Iterable[tuple[Key, tuple[Any, ...]]]", look: "Callable[[], None]"
) -> "Iterator[tuple[Key, str]]":
    """Calls a function with each of many arguments, a window at a time, and yields the results as they are done, by their keys.

    `look` is called after each result, and now and then. After an error, and after Ctrl-C, what is open is cancelled, and what runs
    in this process is stopped.
    """
    to_do = iter(arguments)
    done: "SimpleQueue[Future[str]]" = SimpleQueue()
    open_: "dict[Future[str], Key]" = {}
    with _deferred_interrupt() as check:
        try:
            while True:
                _submit(executor, call, to_do, open_, done, check)
                if not open_:
                    return
                with contextlib.suppress(Empty):
                    future = done.get(timeout=LOOK_EVERY)
                    yield open_.pop(future), _result(future)
                look()
                check()
        except BaseException:
            for future in open_:
                future.cancel()
            stop_all()
            # Worker processes may have ended of the same Ctrl-C.
            check()
            raise


def _submit(
    executor: Executor,
    call: "Callable[..., str]",
    to_do: "Iterator[tuple[Key, tuple[Any, ...]]]",
    open_: "dict[Future[str], Key]",
    done: "SimpleQueue[Future[str]]",
    check: "Callable[[], None]",
) -> None:
    while len(open_) < IN_FLIGHT:
        check()
        following = next(to_do, None)
        if following is None:
            return
        key, arguments = following
        future = executor.submit(call, *arguments)
        open_[future] = key
        future.add_done_callback(done.put)


def _result(future: "Future[str]") -> str:
    try:
        return future.result()
    except CancelledError as error:
        raise Error("a run was cancelled by its executor; the same call goes on after what is done") from error


@contextlib.contextmanager
def _deferred_interrupt() -> "Generator[Callable[[], None]]":
    """Keeps the first Ctrl-C until the function that it yields is called; the second is raised at once.

    An exception out of a signal may come between the steps of a future that hold its lock, which nobody would release.
    """
    before = signal.getsignal(signal.SIGINT)
    if threading.current_thread() is not threading.main_thread() or before is not signal.default_int_handler:
        yield lambda: None
        return
    pressed = False

    def press(number: int, frame: "FrameType | None") -> None:
        nonlocal pressed
        if pressed:
            cast("Callable[..., None]", before)(number, frame)
        pressed = True

    def check() -> None:
        if pressed:
            raise KeyboardInterrupt

    signal.signal(signal.SIGINT, press)
    try:
        yield check
    finally:
        signal.signal(signal.SIGINT, before)
    check()
