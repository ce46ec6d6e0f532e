"""A recording on its way to the workers of an engine: as its path, or once to each that may be elsewhere."""

import hashlib
import io
import os
import tarfile
import tempfile
import threading
from concurrent.futures import Executor
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Union

from ._pageblock import Recording

__all__ = ["Sent", "opened", "shared"]


@dataclass(frozen=True)
class Sent:
    """The files of a recording, packed (tar)."""

    name: str
    digest: str
    packed: bytes

    def unpack(self, folder: Path) -> Path:
        """Writes it below a folder, and returns its path."""
        with tarfile.open(fileobj=io.BytesIO(self.packed)) as packed:
            packed.extractall(folder)  # noqa: S202
        return folder / self.name


def _pack(path: Path) -> Sent:
    packed = io.BytesIO()
    with tarfile.open(fileobj=packed, mode="w") as files:
        files.add(path, arcname=path.name)
    data = packed.getvalue()
    return Sent(path.name, hashlib.sha256(data).hexdigest(), data)


def shared(path: "str | os.PathLike[str]", executor: "Executor | None") -> Any:
    """Returns what calls on an executor are given for a recording: its path, or what `opened` finds as `Sent` on the worker."""
    send = getattr(executor, "share", None)
    return os.fspath(path) if send is None else send(_pack(Path(path).resolve()))


# What this process has opened, by path or digest, and the folders of what was sent to it.
_OPENED: "dict[str, Recording]" = {}
_LOCK = threading.Lock()
_FOLDERS: "list[tempfile.TemporaryDirectory[str]]" = []


def opened(given: Union[str, Sent]) -> Recording:
    """Returns a recording, which is opened once in each process."""
    key = given if isinstance(given, str) else given.digest
    with _LOCK:
        if key not in _OPENED:
            if isinstance(given, str):
                path = Path(given)
            else:
                _FOLDERS.append(tempfile.TemporaryDirectory(prefix="pageblock-"))
                path = given.unpack(Path(_FOLDERS[-1].name))
            _OPENED[key] = Recording(path)
        return _OPENED[key]
