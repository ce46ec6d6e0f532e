"""Arguments of the functions that are written in Python: read as those of the extension module, with the same words."""

import os
from collections.abc import Iterable, Mapping, Sized
from typing import Any, SupportsIndex, cast

from ._pageblock import Error, Kernel, Workload, machine_text, own_workload, scale_text, seed_list

__all__ = ["count", "jobs", "listed", "named", "path", "plain_grid", "seeds", "texts", "workload_name", "wrong"]


# As many as no machine has CPUs.
JOBS = 1 << 20


def wrong(name: str, value: object, allowed: str) -> Error:
    """Returns the error of an argument in a line."""
    shown = repr(value)
    if len(shown) > 60 or "\n" in shown or "\r" in shown:
        shown = f"of type {type(value).__name__}"
    return Error(f"{name} {shown}: allowed: {allowed}")


def count(name: str, value: object, least: int = 1, most: "int | None" = None) -> int:
    """Returns a whole number that is at least so large, and at most."""
    index = getattr(type(value), "__index__", None)
    number = None if isinstance(value, bool) or index is None else int(index(value))
    if number is None or number < least or (most is not None and number > most):
        raise wrong(name, value, f"a whole number from {least} {'on' if most is None else f'to {most}'}")
    return number


def jobs(value: object) -> "int | None":
    """Returns how many run at a time; None is one a CPU."""
    return None if value is None else count("jobs", value, most=JOBS)


def seeds(name: str, value: object, first: int = 1) -> "list[int]":
    """Returns which seeds are meant."""
    return seed_list(value, first, name)


def path(name: str, value: object) -> str:
    """Returns a path as text."""
    try:
        text = os.fspath(value)  # type: ignore[call-overload]  # pyright: ignore
    except TypeError:
        text = ""
    if not isinstance(text, str) or not text:
        raise wrong(name, value, "the path of a file or a folder")
    return text


def listed(name: str, value: object, allowed: str) -> "list[Any]":
    """Returns the values of a list or an array, or the single one."""
    if isinstance(value, (bytes, bytearray, memoryview)):
        raise wrong(name, cast(object, value), allowed)
    if isinstance(value, (str, os.PathLike, Kernel)) or not isinstance(value, Iterable):
        return [value]
    if isinstance(value, Mapping):
        raise wrong(name, cast(object, value), allowed)
    return list(cast(Any, value))


def texts(name: str, value: object, allowed: str) -> "list[str]":
    """Returns one text, or several."""
    values = listed(name, value, allowed)
    for one in values:
        if not isinstance(one, str):
            raise wrong(name, one, allowed)
    return values


KERNEL = "a name of kernels() with ,switch=value, the path of a TOML file, or a Kernel"


def kernel_texts(value: object) -> "list[str]":
    """Returns kernels as texts."""
    values = listed("kernels", value, f"{KERNEL}; or several of these")
    for one in values:
        if not isinstance(one, (str, os.PathLike, Kernel)):
            raise wrong("kernels", one, KERNEL)
    return [Kernel(one).text for one in values]


def machine_texts(value: object) -> "list[str]":
    """Returns machines as texts."""
    return [machine_text(one) for one in listed("machines", value, "names of machines(), or paths of TOML files")]


def scale_texts(value: object) -> "list[str]":
    """Returns scales as texts."""
    return [scale_text(one) for one in listed("scales", value, "fractions of at most 1")]


def _mapped(name: str, value: object, allowed: str) -> "Mapping[object, object]":
    """Returns a dict."""
    if not isinstance(value, Mapping):
        raise wrong(name, value, allowed)
    return cast("Mapping[object, object]", value)


def _switches(value: object) -> "dict[str, list[Any]]":
    read: "dict[str, list[Any]]" = {}
    for name, values in _mapped("switches", value, "a dict of lists: {'placement': ['linux', 'packed']}").items():
        if not isinstance(name, str):
            raise wrong("switches", name, "names of switches()")
        read[name] = [_plain(name, one) for one in listed(name, values, "a list of values")]
    return read


def _plain(name: str, value: object) -> object:
    """Returns a value of a switch: text, a whole number, or a truth value."""
    item = getattr(value, "item", None)
    plain: object = item() if callable(item) else value
    if isinstance(plain, (bool, str)):
        return plain
    return count(f"switch {name}", plain, 0)


SINGLE = ("workload", "kernel", "machine", "scale", "seed")


def _single(value: object) -> "dict[str, Any]":
    read: "dict[str, Any]" = {}
    for name, one in _mapped("runs", value, "dicts with workload, kernel, machine, scale, seed").items():
        if not isinstance(name, str) or name not in SINGLE:
            raise Error(f"runs: there is no key {name!r}; there are {', '.join(SINGLE)}")
        if name == "seed":
            read[name] = count("seed", one, 0)
        elif name == "workload":
            read[name] = workload_name(one)
        else:
            read[name] = {"kernel": kernel_texts, "machine": machine_texts, "scale": scale_texts}[name](one)[0]
    return read


def workload_name(value: object) -> str:
    """Returns the name of a workload: that of an own one, too."""
    own = own_workload(value)
    return str(value) if own is None else own.name


def named(of: object) -> "tuple[str, Workload | None]":
    """Returns the name of a workload or the path of a recording, and the workload if it is the user's own."""
    of = os.fspath(of) if isinstance(of, os.PathLike) else of
    is_recording = isinstance(of, str) and not of.endswith(".toml") and os.path.exists(of)
    own = None if is_recording else own_workload(of)
    return (path("of", of) if own is None else own.name), own


KEYS = ("workloads", "kernels", "machines", "scales", "seeds", "switches", "runs")


def plain_grid(grid: "Mapping[str, Any]") -> "dict[str, Any]":
    """Returns a grid in the form of JSON. What it lacks the plan says."""
    read: "dict[str, Any]" = {}
    for name, value in grid.items():
        if name not in KEYS:
            raise Error(f"grid: there is no key {name!r}; there are {', '.join(KEYS)}")
        if name == "seeds":
            # A number of seeds stays one: a grid of too many runs is refused with its number.
            read[name] = count("seeds", value) if isinstance(value, SupportsIndex) and not isinstance(value, Sized) else seed_list(value)
        elif name == "switches":
            read[name] = _switches(value)
        elif name == "runs":
            read[name] = [_single(one) for one in listed("runs", value, "a list of dicts")]
        elif name == "workloads":
            read[name] = [workload_name(one) for one in listed(name, value, "names of workloads(), or Workloads")]
        else:
            read[name] = {"kernels": kernel_texts, "machines": machine_texts, "scales": scale_texts}[name](value)
    return read
