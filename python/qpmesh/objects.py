# SPDX-License-Identifier: MIT
"""Objects of Python between ranks, pickled: for what is no array, and not for speed. Only ranks of one job, who
trust each other, meet; what comes is executed as pickle does it."""

import pickle


def _bytes_of(value):
    return pickle.dumps(value, protocol=pickle.HIGHEST_PROTOCOL)


def send_object(world, value, destination, tag=0, *, timeout=None):
    """Sends an object; its receiver calls receive_object()."""
    world.send(_bytes_of(value), destination, tag, timeout=timeout)


def receive_object(world, source=-1, tag=0, *, timeout=None):
    """The next object; from whom it came, probe() tells before."""
    message = world.match(source, tag, timeout=timeout)
    data = bytearray(message.status.bytes)
    message.receive(data)
    return pickle.loads(data)


def broadcast_object(world, value, root=0, *, timeout=None):
    """The root's object, on every rank."""
    data = _bytes_of(value) if world.rank == root else b""
    length = world.broadcast(len(data), root, timeout=timeout)
    if world.rank == root:
        world.broadcast(bytearray(data), root, timeout=timeout)
        return value
    data = bytearray(length)
    world.broadcast(data, root, timeout=timeout)
    return pickle.loads(data)


def allgather_object(world, value, *, timeout=None):
    """Everybody's objects, in the order of ranks."""
    data = _bytes_of(value)
    lengths = world.allgather(len(data), timeout=timeout)
    parts = [bytearray(length) for length in lengths]
    world.allgather(data, parts, timeout=timeout)
    return [pickle.loads(part) for part in parts]


def gather_object(world, value, root=0, *, timeout=None):
    """Everybody's objects at the root, None elsewhere."""
    data = _bytes_of(value)
    lengths = world.gather(len(data), root, timeout=timeout)
    if world.rank != root:
        world.gather(data, root, [], timeout=timeout)
        return None
    parts = [bytearray(length) for length in lengths]
    world.gather(data, root, parts, timeout=timeout)
    return [pickle.loads(part) for part in parts]


def add_to(communicator):
    for function in (send_object, receive_object, broadcast_object, allgather_object, gather_object):
        setattr(communicator, function.__name__, function)
