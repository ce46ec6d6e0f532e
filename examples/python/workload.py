"""A workload of one's own: a server that holds the pages of its clients, under two kernels and another placement.

Clients come at random times, each with a connection (a slab object and a block of order 2), write a few pages of a shared mapping and
read a file; a tenth of them stay. Then the free memory is what they left.

    python examples/python/workload.py
"""

from collections.abc import Iterator
from typing import Any

import numpy

import pageblock

CLIENTS = 20_000
SECONDS = 20
FILE, MEMORY, FIRST = 0, 1, 2
OBJECT, ALLOC, TOUCH, READ, FREE = (pageblock.operations().index(op) for op in ("object", "alloc", "touch", "read", "free"))


def clients(seed: int, task: int) -> Iterator[dict[str, Any]]:
    """Yields the requests of all clients, a second of virtual time in each batch."""
    rng = numpy.random.default_rng([seed, task])
    yield {"time_ns": [0, 0], "op": ["file", "map"], "id": [FILE, MEMORY], "amount": [50_000, 50_000]}
    start = numpy.sort(rng.integers(0, SECONDS * 10**9, CLIENTS))
    end = start + rng.exponential(2e9, CLIENTS).astype(numpy.int64) + 2
    stays = rng.random(CLIENTS) < 0.1
    number = numpy.arange(CLIENTS)
    # A client's object and block; where it is in the mapping and in the file.
    object_id, block_id = FIRST + 2 * number, FIRST + 2 * number + 1
    at = rng.integers(0, 50_000 - 8, CLIENTS)
    zero = numpy.zeros(CLIENTS, dtype=numpy.int64)
    columns = [
        (start, OBJECT, object_id, zero + 640, zero),
        (start, ALLOC, block_id, zero + 2, zero),
        (start + 1, TOUCH, zero + MEMORY, zero + 8, at),
        (start + 1, READ, zero + FILE, zero + 4, at),
        (end[~stays], FREE, object_id[~stays], zero[~stays], zero[~stays]),
        (end[~stays], FREE, block_id[~stays], zero[~stays], zero[~stays]),
    ]
    time_ns = numpy.concatenate([column[0] for column in columns])
    op = numpy.concatenate([numpy.full(len(column[0]), column[1]) for column in columns])
    rest = [numpy.concatenate([column[part] for column in columns]) for part in (2, 3, 4)]
    by_time = numpy.argsort(time_ns, kind="stable")
    for second in numpy.array_split(by_time, SECONDS):
        yield {
            "time_ns": time_ns[second],
            "op": op[second],
            **{name: column[second] for name, column in zip(("id", "amount", "offset"), rest, strict=True)},
        }


def main() -> None:
    """Runs it on a machine of 640 MiB and prints how the kernels differ."""
    workload = pageblock.Workload("clients", clients, machine="guest-640m")
    runs = pageblock.run(workload, ["linux-5.0", "linux-6.12", "linux-6.12,placement=packed"], seeds=8)
    print(str(runs.compare()).split("Duration")[0].strip())


if __name__ == "__main__":
    main()
