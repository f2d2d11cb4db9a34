# SPDX-License-Identifier: MIT
"""What is wrong is an exception that says so, and disturbs nobody."""

import asyncio
import os

import numpy
import qpmesh


def raises(kind, text, call):
    try:
        call()
    except kind as error:
        assert text in str(error), (text, str(error))
        return error
    raise AssertionError(f"no {kind.__name__}: {text}")


raises(qpmesh.Error, "did you mean QPMESH_TIMEOUT_MS", lambda: qpmesh.init(timeout_mss=1))

world = qpmesh.init()
rank, size = world.rank, world.size
vector = numpy.ones(4)
raises(ValueError, "there is no reduction 'summ'", lambda: world.allreduce(vector, "summ"))
raises(TypeError, "a name, as 'sum', or a function", lambda: world.allreduce(vector, 3))
raises(TypeError, "a number cannot take", lambda: world.allreduce(1.5, out=0.0))
raises(TypeError, "a number cannot take", lambda: world.allgather(1.5, out=[0.0] * size))
raises(TypeError, "wrong kind or out of range", lambda: world.allreduce(vector, algorithm=3))
raises(TypeError, "wrong kind or out of range", lambda: world.duplicate(timeout="1"))
raises(TypeError, "wrong kind or out of range", lambda: world.allreduce(vector, timeout="1"))
raises(TypeError, "wrong kind or out of range", lambda: world.allgather(vector, vector.copy(), counts=[-1] * size))
raises(TypeError, "neither an array", lambda: world.allreduce({1: 2}))
raises(TypeError, "NoneType is neither an array", lambda: world.broadcast(None))
raises(TypeError, "NoneType is neither an array", lambda: world.send(None, rank))
raises(ValueError, "not a number of seconds", lambda: world.barrier(timeout=numpy.nan))
raises(ValueError, "no length below 0", lambda: world.allocate_here(-1))
raises(ValueError, "so many elements", lambda: world.allocate_here((1 << 32, 1 << 32)))
raises(TypeError, "marks a function", lambda: qpmesh.commutative("sum"))
raises(TypeError, "another process", lambda: world.allreduce(numpy.array([object()])))
raises(TypeError, "other byte order", lambda: world.allreduce(numpy.ones(3, ">f8")))
raises((BufferError, ValueError), "contiguous", lambda: world.allreduce(numpy.ones((4, 4))[:, 1]))
raises(OverflowError, "", lambda: world.allreduce(1 << 70))
raises((BufferError, ValueError, TypeError), "", lambda: world.allreduce(b"constant"))
raises(TypeError, "'data' is missing", lambda: world.allreduce())
raises(TypeError, "'outt' is no argument", lambda: world.allreduce(vector, outt=vector))
raises(TypeError, "'data' is given twice", lambda: world.allreduce(vector, data=vector))
raises(TypeError, "at most 3 arguments", lambda: world.allreduce(vector, "sum", None, 1))
raises(TypeError, "elements of one type", lambda: world.allreduce(vector, out=numpy.empty(4, "f4")))
raises(TypeError, "elements of one type", lambda: world.allgather(numpy.ones(1, "i1"), [numpy.empty(1)] * size))
raises(TypeError, "elements of one type", lambda: world.alltoall([vector] * size, [numpy.empty(4, "f4")] * size))
raises(ValueError, "a row for each rank", lambda: world.reduce_scatter(numpy.ones((size + 1, 2))))
error = raises(qpmesh.Error, "root", lambda: world.broadcast(vector, size))
assert error.code == "bad_argument" and error.operation == "broadcast" and error.hint and error.system_error == 0
assert error.peer == size  # who is not there
error = raises(qpmesh.Error, "timeout", lambda: world.allreduce(vector, timeout=-1))
error = raises(qpmesh.Error, "", lambda: world.allreduce(vector, "bit_and"))
assert error.peer is None  # nobody else is to blame
raises(qpmesh.Error, "", lambda: world.allreduce(vector, out=numpy.ones(5)))
raises(qpmesh.Error, "", lambda: world.allreduce(vector, algorithm="nonsense"))

started = world.receive_async(vector, tag=4)
raises(TimeoutError, "has not ended", lambda: started.wait(timeout=0.01))
assert started.in_flight and started.cancel() and not started.in_flight

child = os.fork()
if child == 0:
    try:
        raises(qpmesh.Error, "forked child", lambda: world.allreduce(vector))
    except BaseException:
        os._exit(1)
    os._exit(0)
assert os.waitpid(child, 0)[1] == 0

# Who is to blame.
after, before = (rank + 1) % size, (rank - 1) % size
world.send(numpy.ones(3), after, 6)
error = raises(qpmesh.Error, "truncated", lambda: world.receive(numpy.ones(2), before, 6))
assert error.code == "truncated" and error.peer == before, (error, error.peer)
room = bytearray(16)
failed = world.receive_async(room, before, 6)
raises(qpmesh.Error, "truncated", failed.wait)
room += b"more"  # it is not in use any more
raises(qpmesh.Error, "truncated", failed.wait)
world.receive(numpy.ones(3), before, 6)
assert (world.allreduce(numpy.ones(4)) == size).all()  # nobody was disturbed


class Broken(Exception):
    pass


def fails(left, right):
    raise Broken("by the program")


async def awaited(request):
    await request


def looked_at(request):
    while not request.test():
        pass


def asked_twice(request):
    try:
        looked_at(request)
    except Broken:
        pass
    request.wait()


if size > 1:
    for call in (lambda group: group.allreduce(numpy.ones(100), fails),
                 lambda group: group.allreduce_async(numpy.ones(100), fails).wait(),
                 lambda group: looked_at(group.allreduce_async(numpy.ones(100), fails)),
                 lambda group: asked_twice(group.allreduce_async(numpy.ones(100), fails)),
                 lambda group: asyncio.run(awaited(group.allreduce_async(numpy.ones(100), fails)))):
        group = world.duplicate()
        was_raised = False
        try:
            call(group)
            raise AssertionError("the function was not called")
        except Broken as error:
            was_raised = str(error) == "by the program"
        except qpmesh.Error as error:  # of a rank whose own function was not called
            assert error.code == "aborted", error
        raises((qpmesh.Error, Broken), "", lambda: group.barrier())
        assert world.allreduce(was_raised, "logical_or")

# A reduction that forgets to return.
if size > 1:
    group = world.duplicate()
    error = None
    try:
        group.allreduce(numpy.ones(3), lambda left, right: None)
    except (TypeError, qpmesh.Error) as raised:  # the latter of a rank whose own function was not called
        error = raised
    assert world.allreduce("returned None" in str(error) and isinstance(error, TypeError), "logical_or")

# A request that goes while a call of its context is under way cannot be waited for: its array stays.
requests = [world.receive_async(numpy.zeros(1 << 16), (rank + 1) % size, 77)]


def let_go(left, right):
    requests.clear()
    return left + right


world.allreduce(vector, let_go)
others = numpy.full(1 << 16, 3.0)
world.send(numpy.ones(1 << 16), (rank - 1) % size, 77)
requests.clear()
world.barrier()
assert (others == 3).all()
assert world.allreduce(vector, qpmesh.commutative(numpy.maximum))[0] == vector[0]

world.barrier()
world.finish()
raises(qpmesh.Error, "", lambda: world.barrier())

# An exception on one rank ends the calls of all.
try:
    with qpmesh.init() as world:
        if world.rank == 0:
            raise Broken("rank 0 gives up")
        world.barrier()
        raise AssertionError("the barrier was passed without rank 0")
except Broken:
    pass
except qpmesh.Error as error:
    assert error.code == "aborted" and "rank 0 gives up" in error.cause and error.peer == 0, (error, error.peer)
