# SPDX-License-Identifier: MIT
"""Every call with arrays of every kind, against what numpy computes alone."""

import array
import ctypes
import sys

import numpy
import qpmesh

with qpmesh.init() as world:
    rank, size = world.rank, world.size
    ranks = range(size)

    def values(of, dtype):
        return (numpy.arange(12) % 5 + of % 2 + 1).astype(dtype)

    # Reductions, by name, of each type of numpy's that has them.
    by_name = {"sum": numpy.add, "product": numpy.multiply, "min": numpy.minimum, "max": numpy.maximum}
    for dtype in "b h i q B H I Q e f d g F D".split():
        for name, function in by_name.items():
            if dtype in "FD" and name in ("min", "max"):
                continue
            expected = function.reduce([values(of, dtype) for of in ranks], dtype=dtype) if name in (
                "sum", "product") else function.reduce([values(of, dtype) for of in ranks])
            mine = values(rank, dtype)
            out = numpy.empty_like(mine)
            assert world.allreduce(mine, name, out) is out
            assert (out == expected).all(), (dtype, name, out, expected)
            assert (mine == values(rank, dtype)).all()
            assert world.allreduce(mine, name) is mine
            assert (mine == expected).all()
    truth = numpy.array([True, rank == 0, False])
    assert world.allreduce(truth, "logical_and").tolist() == [True, size == 1, False]

    # Functions: in the order of ranks, and in any.
    mine = values(rank, "d")
    assert (world.allreduce(mine.copy(), numpy.maximum) == numpy.maximum.reduce([values(of, "d") for of in ranks])).all()
    first = world.allreduce(values(rank, "q"), lambda left, right: left)
    assert (first == values(0, "q")).all()
    total = world.allreduce(values(rank, "q"), qpmesh.commutative(lambda left, right: left + right))
    assert (total == sum(values(of, "q") for of in ranks)).all()

    # Numbers.
    assert world.allreduce(rank) == sum(ranks)
    assert world.allreduce(0.5) == 0.5 * size and world.allreduce(1j) == 1j * size
    assert world.allreduce(rank == 0, "logical_or") is True
    assert world.allreduce(numpy.ones(3).mean()) == size
    for number in (numpy.float32(1.5), numpy.int16(rank), numpy.uint64(7), numpy.complex64(1 + rank * 1j), numpy.float64(rank),
                   numpy.complex128(1j), numpy.longdouble(0.25)):
        everybody = [numpy.frombuffer(each, number.dtype)[0] for each in world.allgather(number.tobytes())]
        total = world.allreduce(number)
        assert type(total) is type(number) and total == sum(everybody), total
        assert world.broadcast(number, size - 1) == everybody[-1]
        assert len(world.allgather(number)) == size and world.allgather(number)[rank] == number
    assert world.allreduce(numpy.bool_(rank == 0), "logical_or") == numpy.bool_(True)
    assert world.allgather(b"ab").tolist() == [[97, 98]] * size
    assert world.allgather(rank) == list(ranks)
    assert world.broadcast(rank + 7, size - 1) == size + 6
    assert bytes(world.broadcast(b"root" if rank == 0 else bytearray(4))) == b"root"  # the root's is only read
    total = numpy.zeros(4, "u1")
    world.reduce(b"\1\1\1\1", out=total if rank == 0 else None)
    assert (total == (size if rank == 0 else 0)).all()
    assert world.alltoall(b"ab" * size).tolist() == [97, 98] * size
    try:
        with world.duplicate():
            sys.exit(0)  # which is no failure
    except SystemExit:
        pass
    assert world.scan(1) == rank + 1
    assert world.reduce(1.0, root=size - 1) == (size if rank == size - 1 else None)
    assert world.gather(2 * rank) == ([2 * of for of in ranks] if rank == 0 else None)

    # Results of their own arrays.
    everybody = world.allgather(numpy.full((2, 3), rank, "f4"))
    assert everybody.shape == (size, 2, 3) and everybody.dtype == numpy.float32
    assert all((everybody[of] == of).all() for of in ranks)
    assert (world.alltoall(numpy.arange(size) + 10 * rank) == rank + 10 * numpy.arange(size)).all()
    block = world.reduce_scatter(numpy.tile(numpy.arange(size)[:, None], (1, 4)))
    assert (block == rank * size).all() and block.shape == (4,)
    before = numpy.full(3, -1)
    world.exscan(numpy.ones(3, int), out=before)
    assert (before == (rank if rank > 0 else -1)).all()
    part = numpy.empty(3)
    world.scatter(numpy.arange(3.0 * size) if rank == 0 else None, part)
    assert (part == numpy.arange(3) + 3 * rank).all()

    # Blocks of unequal lengths: by counts, and as lists of arrays.
    counts = [of + 1 for of in ranks]
    joined = numpy.empty(sum(counts), "i8")
    world.allgather(numpy.full(rank + 1, rank), joined, counts)
    assert (joined == numpy.repeat(numpy.arange(size), counts)).all()
    assert world.allgather(numpy.full(rank + 1, rank), counts=iter(counts)).tolist() == joined.tolist()
    gathered = world.gather(numpy.full(rank + 1, rank), root=size - 1, counts=counts)
    assert gathered.tolist() == joined.tolist() if rank == size - 1 else gathered is None
    apart = [numpy.empty(count, "i8") for count in counts]
    world.allgather(numpy.full(rank + 1, rank), apart)
    assert all((apart[of] == of).all() for of in ranks)
    world.gather(numpy.full(rank + 1, rank), 0, apart if rank == 0 else [])
    world.scatter(apart if rank == 0 else [], mine_back := numpy.empty(rank + 1, "i8"))
    assert (mine_back == rank).all()
    sent = [numpy.full(of + 1, rank) for of in ranks]
    received = [numpy.empty(rank + 1, "i8") for _ in ranks]
    world.alltoall(sent, received)
    assert all((received[of] == of).all() for of in ranks)
    own = numpy.empty(counts[rank], "i8")
    world.reduce_scatter(numpy.ones(sum(counts), "i8"), "sum", own, counts)
    assert (own == size).all()

    # What is no numpy array: array, bytes, memoryview, ctypes.
    mine = array.array("d", [1.0, rank])
    world.allreduce(mine)
    assert mine.tolist() == [float(size), float(sum(ranks))]
    mine = (ctypes.c_int32 * 3)(*[rank] * 3)
    world.allreduce(mine, "max")
    assert list(mine) == [size - 1] * 3
    data = bytearray(b"abc" if rank == 0 else 3)
    assert world.broadcast(data) is data and data == b"abc"
    if hasattr(numpy, "from_dlpack"):
        class Tensor:  # DLPack alone
            def __init__(self, of):
                self.of = of

            def __dlpack__(self):
                return self.of.__dlpack__()
        mine = numpy.ones(4)
        world.allreduce(Tensor(mine))
        assert (mine == size).all()

    # Messages.
    after, previous = (rank + 1) % size, (rank - 1) % size
    got = numpy.empty(2)
    status = world.sendrecv(numpy.array([rank, 1.0]), after, got, previous)
    assert (status.source, status.tag, status.bytes) == (previous, 0, 16) and got[0] == previous
    started = world.receive_async(got, tag=5)
    world.send(numpy.array([rank, 2.0]), after, tag=5)
    assert started.wait().source == previous and got.tolist() == [previous, 2.0]
    world.barrier()
    assert world.try_probe(tag=1234) is None
    world.send(b"four", after, 9)
    assert world.probe().bytes == 4
    message = world.match(previous, 9)
    assert message.receive(taken := bytearray(4)).bytes == 4 and taken == b"four"

    # A function may write what it is given, and keep it.
    kept = []

    def greedy(left, right):
        left += right
        kept.append((left, right))
        return left

    mine, total = numpy.full(5, rank + 1.0), numpy.empty(5)
    assert (world.allreduce(mine, greedy, out=total) == sum(range(1, size + 1))).all() and (mine == rank + 1).all()
    world.allreduce(numpy.zeros(5), out=total)
    assert all((left > right).all() for left, right in kept)

    # Elements that the library does not know, whatever their fields are called.
    structs = numpy.full(3, rank, dtype=[("Offset", "i4"), ("Other", "f8")])
    assert (world.broadcast(structs, size - 1)["Other"] == size - 1).all()

    # One look at a request, and no more.
    nothing = world.receive_async(got, tag=6)
    try:
        nothing.wait(timeout=0)
        raise AssertionError("nothing was sent")
    except TimeoutError:
        assert nothing.in_flight and nothing.cancel()

    # Groups.
    half = world.split(rank % 2, -rank)
    assert half.size == len(ranks[rank % 2::2]) and half.ranks_in(world)[0] == max(ranks[rank % 2::2])
    assert world.split(qpmesh.no_color) is None
    assert world.duplicate().allreduce(1) == size and world.split_node().size == size
    if rank == 0:
        assert world.subgroup([0]).size == 1
    assert world.self().size == 1
    assert any(each.chosen for each in world.explain("allreduce", 8))
