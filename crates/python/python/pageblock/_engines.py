"""Executors: those of `concurrent.futures`, clients of Dask, Ray, and their names."""

import contextlib
import functools
import importlib
import multiprocessing
import os
import threading
import time
from collections.abc import Callable, Generator
from concurrent.futures import Executor, Future, ProcessPoolExecutor
from types import ModuleType
from typing import Any, Protocol, TypeAlias, Union

from ._pageblock import Error, stop_all

__all__ = ["Engine", "engine", "in_worker"]

# A run that is repeated after its worker died gives the same bytes.
RETRIES = 3


class Client(Protocol):
    """What a Dask client has."""

    @property
    def get_executor(self) -> "Callable[..., Executor]": ...
    @property
    def scatter(self) -> "Callable[..., Any]": ...


Engine: TypeAlias = Union[Executor, Client, ModuleType, str]


@contextlib.contextmanager
def engine(given: "Engine | None", jobs: "int | None") -> "Generator[Executor | None]":
    """Yields the executor that is meant; None are the threads of this process. What was started for it is stopped."""
    with contextlib.ExitStack() as stack:
        yield _found(given, jobs, stack)


def _found(given: "Engine | None", jobs: "int | None", stack: contextlib.ExitStack) -> "Executor | None":
    if given is None or given == "threads":
        return None
    if given == "processes":
        return stack.enter_context(_processes(jobs))
    if given == "ray":
        return Ray(_module("ray", "ray"))
    if isinstance(given, str) and (given == "dask" or "://" in given):
        distributed = _module("distributed", "dask")
        options: "dict[str, Any]" = {"n_workers": jobs, "threads_per_worker": 1, "dashboard_address": None}
        try:
            client = distributed.Client(**options) if given == "dask" else distributed.Client(given)
        except (OSError, ValueError) as error:
            raise Error(f"executor '{given}': {error}") from None
        given = stack.enter_context(client)
    if isinstance(given, Executor):
        return given
    if isinstance(given, ModuleType) and given.__name__ == "ray":
        return Ray(given)
    if hasattr(given, "get_executor"):
        if getattr(given, "status", "running") == "closed":
            raise Error("executor: the Dask client is closed")
        return Dask(given)
    what = f"'{given}'" if isinstance(given, str) else f"a {type(given).__name__}"
    raise Error(
        f"executor: {what} is no executor of concurrent.futures, no Dask client (pip install 'pageblock[dask]'), not the module ray (pip install "
        "'pageblock[ray]'), and none of 'threads', 'processes', 'dask', 'ray' and the address of a Dask scheduler"
    )


@contextlib.contextmanager
def _processes(jobs: "int | None") -> "Generator[Executor]":
    """Yields worker processes, which stop what they run where an exception leaves the block: Ctrl-C may have reached this process alone."""
    context = multiprocessing.get_context()
    end = context.Event()
    with ProcessPoolExecutor(jobs, mp_context=context, initializer=_stop_after, initargs=(end,)) as executor:
        try:
            yield executor
        except BaseException:
            end.set()
            raise


def _stop_after(end: Any) -> None:
    threading.Thread(target=_stop, args=(end,), daemon=True).start()
    _end_with_parent()


@functools.cache
def _end_with_parent() -> None:
    """Ends this worker when the process that started it is gone: killed, it cannot say so."""
    parent = multiprocessing.parent_process()

    def wait(parent: Any) -> None:
        parent.join()
        os._exit(1)

    if parent is not None:
        threading.Thread(target=wait, args=(parent,), daemon=True).start()


def in_worker(call: "Callable[..., str]", *arguments: Any) -> str:
    """Calls a function in a worker process of a pool of the user's."""
    _end_with_parent()
    return call(*arguments)


def _stop(end: Any) -> None:
    end.wait()
    # Calls that are queued in the process begin one after the other.
    while True:
        stop_all()
        time.sleep(0.05)


def _module(name: str, extra: str) -> Any:
    try:
        return importlib.import_module(name)
    except ImportError:
        raise Error(f"executor: {name} is not installed: pip install 'pageblock[{extra}]'") from None


class Dask(Executor):
    """A Dask client as an executor: each call is a task, which is repeated where its worker dies."""

    def __init__(self, client: Any) -> None:
        self.client, self.executor = client, client.get_executor(pure=False, retries=RETRIES)

    def submit(self, fn: Any, /, *args: Any, **kwargs: Any) -> "Future[Any]":
        """Starts a task."""
        future: "Future[Any]" = self.executor.submit(fn, *args, **kwargs)
        return future

    def share(self, value: object) -> Any:
        """Sends a value to every worker, and returns what calls are given in its place."""
        return self.client.scatter(value, broadcast=True)


class Ray(Executor):
    """Ray as an executor: each call is a task, which is repeated where its worker dies."""

    def __init__(self, ray: Any) -> None:
        self.ray = ray
        if not ray.is_initialized():
            ray.init(log_to_driver=False)

    def submit(self, fn: Any, /, *args: Any, **kwargs: Any) -> "Future[Any]":
        """Starts a task."""
        # Ray takes functions of Python only.
        future: "Future[Any]" = self.ray.remote(_call).options(max_retries=RETRIES).remote(fn, kwargs, *args).future()
        return future

    def share(self, value: object) -> Any:
        """Puts a value into Ray's store, once for each node, and returns what calls are given in its place."""
        return self.ray.put(value)


def _call(fn: "Callable[..., Any]", kwargs: "dict[str, Any]", *args: Any) -> Any:
    # Ray replaces what was shared by its value only where it is an argument of its own.
    return fn(*args, **kwargs)
