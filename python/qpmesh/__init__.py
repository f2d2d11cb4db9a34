# SPDX-License-Identifier: MIT
"""Collectives and messages between processes: shared memory on a host, RDMA or TCP between hosts.

    import numpy, qpmesh
    with qpmesh.init() as world:
        values = numpy.ones(1000)
        world.allreduce(values)              # in place
        everybody = world.allgather(world.rank)

Start it by `python -m qpmesh.run -n 4 program.py`, mpirun or srun. Arrays are what numpy, array.array and
memoryview have (the buffer protocol), and tensors in the memory of the host (DLPack); they lie row by row.
Reductions are names ("sum", "product", "min", "max", "average", "bit_and", "bit_or", "bit_xor",
"logical_and", "logical_or", "logical_xor") or functions of two arrays, as numpy.maximum. Each call has a form
that ends in _async and returns a Request, which can be awaited.
"""

from ._library import (Candidate, Communicator, Error, Memory, Message, Request, Status, __version__, any_source, any_tag,
                       init_with, no_color, no_rank)
from . import awaiting, objects

__all__ = ["Candidate", "Communicator", "Error", "Message", "Request", "Status", "any_source", "any_tag", "commutative", "init",
           "no_color", "no_rank", "view_of"]


def init(**options):
    """Joins the job that the launcher's environment describes; alone, a world of one.

    Options are those of docs/options.md, as init(timeout_ms=1000, transport="tcp"), and win over the environment.
    """
    def text(value):
        return ("no", "yes")[value] if isinstance(value, bool) else str(value)
    return init_with([f"QPMESH_{name.upper()}={text(value)}" for name, value in options.items()])


def commutative(function):
    """Marks a reduction whose operands may come in any order: otherwise they come in the order of ranks."""
    if not callable(function):
        raise TypeError("commutative() marks a function; what a name stands for is known")
    try:
        function.commutative = True
        return function
    except AttributeError:  # of a method, or of numpy's functions
        marked = lambda left, right: function(left, right)  # noqa: E731
        marked.commutative = True
        return marked


def _array(memory, shape, dtype):
    import numpy
    return numpy.frombuffer(memory, dtype=dtype, count=_count(shape)).reshape(shape)


def _count(shape):
    import math
    import numpy
    lengths = [int(length) for length in numpy.atleast_1d(numpy.asarray(shape, dtype=object))]
    if any(length < 0 for length in lengths):
        raise ValueError(f"an array has no length below 0: {shape}")
    count = math.prod(lengths)
    if count >= 1 << 48:
        raise ValueError(f"no memory has so many elements: {shape}")
    return count


def _allocate(make, shape, dtype):
    import numpy
    dtype = numpy.dtype(dtype)
    return _array(make(max(1, _count(shape) * dtype.itemsize)), shape, dtype)


def _allocate_for_all(world, shape, dtype="float64", *, timeout=None):
    """A zeroed array that peers reach without a copy. Every rank calls it."""
    return _allocate(lambda size: world.allocate_bytes(size, timeout=timeout), shape, dtype)


def _allocate_here(world, shape, dtype="float64"):
    """The same for this rank alone, at any time."""
    return _allocate(world.allocate_bytes_here, shape, dtype)


def view_of(array, rank):
    """What a rank of this host has in its own array of the same allocate(), to be read."""
    owner = array
    while owner is not None and not isinstance(owner, Memory):
        owner = owner.obj if isinstance(owner, memoryview) else getattr(owner, "base", None)
    if owner is None:
        raise TypeError("the array was not made by allocate()")
    import numpy
    array = numpy.asarray(array)
    if not array.flags.c_contiguous:
        raise ValueError("the array does not lie row by row")
    whole = numpy.frombuffer(owner, dtype="uint8")
    first = array.__array_interface__["data"][0] - whole.__array_interface__["data"][0]
    seen = numpy.frombuffer(owner.view_of(rank), dtype=array.dtype, count=array.size, offset=first)
    return seen.reshape(array.shape)


def _enter(world):
    return world


def _exit(world, kind, error, trace):
    """Goodbye; after an exception, which other ranks do not have, their calls end with its text. To leave the
    program with success is none."""
    if kind is None or (issubclass(kind, SystemExit) and error.code in (None, 0)):
        world.finish()
    else:
        world.abort(f"{kind.__name__}: {error}")


Communicator.allocate = _allocate_for_all
Communicator.allocate_here = _allocate_here
Communicator.__enter__ = _enter
Communicator.__exit__ = _exit
Communicator.__repr__ = lambda world: f"<qpmesh.Communicator: rank {world.rank} of {world.size}>"
Status.__repr__ = lambda status: f"<qpmesh.Status: {status.bytes} bytes from {status.source}, tag {status.tag}>"
awaiting.add_to(Request, Communicator)
objects.add_to(Communicator)
