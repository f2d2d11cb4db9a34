# SPDX-License-Identifier: MIT
"""Objects between ranks, and arrays that peers reach."""

import numpy
import qpmesh

with qpmesh.init(timeout_ms=30000, log="warning") as world:
    rank, size = world.rank, world.size
    value = {"rank": rank, "text": "x" * rank, "list": [None, 1.5]}
    assert world.allgather_object(value)[rank] == value
    assert [each["rank"] for each in world.allgather_object(value)] == list(range(size))
    assert world.broadcast_object(value if rank == size - 1 else None, size - 1)["rank"] == size - 1
    gathered = world.gather_object("a" * rank, size - 1)
    assert gathered == (["a" * of for of in range(size)] if rank == size - 1 else None)
    world.send_object(value, (rank + 1) % size, 3)
    assert world.receive_object(tag=3)["rank"] == (rank - 1) % size

    mine = world.allocate((3, 5), "f4")
    assert mine.shape == (3, 5) and not mine.any()
    mine[:] = rank
    world.barrier()
    seen = qpmesh.view_of(mine[1:], (rank + 1) % size)
    assert (qpmesh.view_of(mine[0], rank) == rank).all()
    assert seen.shape == (2, 5) and (seen == (rank + 1) % size).all() and not seen.flags.writeable
    world.barrier()
    assert (world.allreduce(mine) == sum(range(size))).all()
    alone = world.allocate_here(7, int)
    alone[:] = 1
    assert (world.allreduce(alone) == size).all()
    try:
        qpmesh.view_of(numpy.zeros(3), 0)
        raise AssertionError("an array of numpy's own was looked into")
    except TypeError:
        pass
# Memory outlives what it was allocated by.
assert (mine == sum(range(size))).all()
