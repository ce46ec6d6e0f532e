"""Calls on an executor, which Ctrl-C ends where no lock of a future is held."""

import contextlib
import functools
import signal
import threading
from collections.abc import Callable, Generator, Iterable, Iterator
from concurrent.futures import CancelledError, Executor, Future, ProcessPoolExecutor
from queue import Empty, SimpleQueue
from types import FrameType
from typing import Any, TypeVar, cast

from ._engines import in_worker
from ._pageblock import Error, stop_all

__all__ = ["completed"]

# So many futures are open at a time: enough for a cluster, few enough for a grid of a million runs.
IN_FLIGHT = 2000
# Whose exceptions are not the user's.
ENGINES = ("concurrent", "distributed", "dask", "ray", "tornado", "asyncio")
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
    if isinstance(executor, ProcessPoolExecutor):
        call = functools.partial(in_worker, call)
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
        try:
            future = executor.submit(call, *arguments)
        except Exception as error:
            raise_of_engine(error)
            words = str(error).partition("\n")[0]
            # A pool that was shut down says so by a RuntimeError.
            raise Error(f"executor: {words}; what is done is kept") from (None if type(error) is RuntimeError else error)
        open_[future] = key
        future.add_done_callback(done.put)


def _result(future: "Future[str]") -> str:
    try:
        return future.result()
    except CancelledError:
        raise Error("a run was cancelled by its executor; the same call goes on after what is done") from None
    except Error as error:
        # A worker's lines are this package's, and say nothing more.
        raise error from None
    except Exception as error:
        raise_of_engine(error)
        raise


def raise_of_engine(error: Exception) -> None:
    """Raises `Error` in place of what an engine raised for itself: a worker died, a client or a pool is closed."""
    if type(error).__module__.partition(".")[0] in ENGINES:
        words = str(error).partition("\n")[0]
        raise Error(f"executor: {type(error).__name__}: {words}; what is done is kept") from None


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
