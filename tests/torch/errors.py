# SPDX-License-Identifier: MIT
"""What two ranks do wrong is told by name, soon, and by all whom it concerns."""

import datetime
import os
import resource
import signal
import subprocess
import sys
import tempfile
import time

import torch
import torch.distributed as dist
from torch.distributed import ReduceOp as Op

import job
import qpmesh_torch
from job import require_error
from qpmesh_torch import _library

other = 1 - job.rank


def seconds(count):
    return datetime.timedelta(seconds=count)


def wrong_tensors():
    """Nothing was sent: the group goes on."""
    group = dist.group.WORLD
    backend = job.backend_of(group)
    require_error(lambda: backend._allgather_base(torch.ones(2, device="meta"), torch.ones(1, device="meta")), code="bad_argument",
                  cause="the tensor is on the device meta", hint="move it by .cpu(): only memory of the host is used")
    sparse = torch.eye(3).to_sparse()
    require_error(lambda: backend.broadcast([sparse], root_of(0)), code="bad_argument", cause="the tensor is sparse")
    quantized = torch.quantize_per_tensor(torch.ones(4), 0.1, 0, torch.qint8)
    require_error(lambda: backend._allgather_base(quantized, quantized), code="bad_argument", cause="the tensor is of QInt8")
    require_error(lambda: dist.all_reduce(torch.ones(3), Op.BAND), code="bad_argument", cause="there is no BAND of Float",
                  hint="bits of integers and bools are combined")
    require_error(lambda: dist.all_reduce(torch.ones(3, dtype=torch.bool), Op.AVG), code="bad_argument", cause="there is no AVG of Bool")
    require_error(lambda: dist.reduce(torch.ones(3, dtype=torch.complex64), 0, Op.MAX), code="bad_argument",
                  cause="there is no MAX of ComplexFloat", hint="complex numbers have no order")
    require_error(lambda: dist.all_reduce(torch.ones(1).expand(3)), code="bad_argument", cause="several elements of the tensor lie in one place")
    require_error(lambda: dist.all_gather([torch.ones(3)] * 3, torch.ones(3)), code="bad_argument", cause="the list has 3 tensors",
                  hint="give one for each of the 2 ranks of the group")
    require_error(lambda: group._allgather_base(torch.ones(5), torch.ones(2)), code="bad_argument",
                  cause="one tensor has 5 elements, the other 2")
    require_error(lambda: group._allgather_base(torch.ones(2), torch.ones(1, dtype=torch.int32)), code="bad_argument",
                  cause="tensors of Int and Float")
    require_error(lambda: dist.all_to_all_single(torch.ones(4), torch.ones(4), [1, 2], [2, 2]), code="bad_argument",
                  cause="the split sizes do not part the 4 rows of the tensor among 2 ranks")
    require_error(lambda: dist.all_to_all_single(torch.ones(3), torch.ones(3)), code="bad_argument",
                  cause="the input has 3 elements, the output 3")
    require_error(lambda: group.broadcast([torch.ones(1)], root_of(7)), code="bad_argument", operation="broadcast_async",
                  cause="root 7 is not a rank of this communicator")
    # On one rank alone, and the first of several tensors is right.
    number = job.backend_of(group)._get_sequence_number_for_group()
    if job.rank == 0:
        require_error(lambda: dist.all_reduce_coalesced([torch.ones(100_000), torch.ones(1).expand(100_000)]), code="bad_argument",
                      cause="several elements of the tensor lie in one place")
        shared = torch.ones(100_000)
        require_error(lambda: dist.all_reduce_coalesced([shared, torch.ones(2), shared[-1:]]), code="bad_argument",
                      cause="vectors 0 and 2 overlap")
        rows = [[torch.zeros(3), torch.zeros(3)] for _ in range(2)]
        require_error(lambda: group.allgather_coalesced(rows, [torch.ones(3), torch.ones(3, dtype=torch.int32)]), code="bad_argument",
                      cause="tensors of Int and Float")
    assert job.backend_of(group)._get_sequence_number_for_group() == number
    tensor = torch.ones(2)
    dist.all_reduce(tensor)
    assert tensor[0] == 2
    try:
        dist.new_group([0, 1], pg_options={"transport": "tcp"})
        raise AssertionError("options of a group were taken")
    except ValueError as error:
        assert "options are the world's" in str(error), str(error)


def root_of(rank):
    options = dist.BroadcastOptions()
    options.rootRank = rank
    return options


def ranks_disagree():
    group = dist.new_group([0, 1])
    error = job.error_of(dist.all_reduce, torch.ones(3 + job.rank), group=group)
    assert error.code == "mismatch" and "allreduce (number 1 of group '" in str(error), str(error)
    # It is broken, and says why; the world is not.
    assert job.error_of(dist.all_reduce, torch.ones(3), group=group).code == "mismatch"
    assert job.error_of(dist.barrier, group=group).code == "mismatch"
    tensors = [torch.ones(3), torch.ones(3)]
    assert job.error_of(lambda: group.allreduce(tensors, dist.AllreduceOptions()).wait()).code == "mismatch"
    assert all(each.eq(1).all() for each in tensors)


def messages():
    if job.rank == 0:
        dist.send(torch.ones(2), 1)
        dist.send(torch.ones(5), 1)
        dist.send(torch.ones(2), 1)
    else:
        require_error(lambda: dist.recv(torch.ones(3), 0), code="mismatch", cause="the message from rank 0 has 8 bytes, the tensor 12",
                      hint="receive into a tensor of the shape that was sent")
        require_error(lambda: dist.recv(torch.ones(3), 0), code="truncated", peer=0, cause="the message has 20 bytes, the buffer 12")
        dist.recv(torch.ones(5), 0)  # it has stayed in line
        assert job.error_of(dist.recv, torch.ones(2, dtype=torch.int32), 0).code == "mismatch"  # of another type
        dist.recv(torch.ones(2), 0)
    # As over gloo; -1 is the library's word for any.
    group, tensors = dist.group.WORLD, [torch.ones(2)]
    for tag in (-1, -5):
        for call in (lambda: group.send(tensors, other, tag), lambda: group.recv(tensors, other, tag), lambda: group.recv_anysource(tensors, tag)):
            require_error(call, code="bad_argument", cause=f"tag {tag} is negative", hint="give 0 or more")


def time_passes():
    group = dist.new_group([0, 1], timeout=seconds(0.4))
    futures = dist.new_group([0, 1], timeout=seconds(0.4))
    tensor = torch.zeros(1)
    work = dist.irecv(tensor, other)
    error = job.error_of(work.wait, seconds(0.1))
    assert error.code == "timeout" and error.cause == "it has not ended after 100 ms of wait", str(error)
    dist.barrier()
    dist.send(torch.ones(1), other)
    work.wait()
    assert tensor[0] == 1
    if job.rank == 0:
        begin = time.monotonic()
        error = job.error_of(dist.barrier, group=group)
        assert error.code == "timeout" and error.peer == 1 and "barrier (number 1 of group" in str(error), str(error)
        # Nobody waits but who has the future.
        future = dist.all_reduce(tensor, group=futures, async_op=True).get_future()
        try:
            future.wait()
            raise AssertionError("a future of what never ended")
        except RuntimeError as error:
            assert "timeout in allreduce" in str(error), str(error)
        assert time.monotonic() - begin < 5
    dist.barrier()


def someone_gives_up():
    """In a context of its own: all groups that were made from one world end together."""
    world = _library.meet(job.store("aborted"), job.rank, 2, "aborted", seconds(10), [])
    world.barrier(dist.BarrierOptions()).wait()
    group = _library.subgroup(world, [0, 1], "of the aborted", seconds(10))
    if job.rank == 0:
        qpmesh_torch.abort("no more", world)
    for each in (world, group):
        error = job.error_of(lambda: each.allreduce([torch.ones(3)], dist.AllreduceOptions()).wait())
        assert error.code == "aborted" and error.cause == "no more", str(error)


def someone_gives_up_his_work():
    """As torch's C++ does, in a context of its own: with what he gives up ends the world that it was in, for all."""
    world = _library.meet(job.store("given up"), job.rank, 2, "given up", seconds(20), [])
    world.barrier(dist.BarrierOptions()).wait()
    given_up = "allreduce (number 2 of group 'given up')"
    begin = time.monotonic()
    if job.rank == 0:
        work = world.allreduce([torch.ones(3)], dist.AllreduceOptions())
        _library.abort_work(work)
        first = work.wait
    else:
        first = world.recv([torch.ones(3)], 0, 7).wait
    for call in (first, lambda: world.barrier(dist.BarrierOptions()).wait()):
        error = job.error_of(call)
        assert error.code == "aborted" and error.cause == given_up, str(error)
    assert time.monotonic() - begin < 10


def no_memory_for_what_another_rank_gives():
    """In a context of its own, which ends. Known when the sizes were gathered, and to one rank alone."""
    world = _library.meet(job.store("no memory"), job.rank, 2, "no memory", seconds(20), [])
    world.barrier(dist.BarrierOptions()).wait()
    elements = torch.zeros(job.rank, 16 << 20)
    tensor = torch.sparse_coo_tensor(torch.zeros(1, job.rank, dtype=torch.int64), elements, (2, 16 << 20))
    begin = time.monotonic()
    if job.rank == 0:
        before = resource.getrlimit(resource.RLIMIT_AS)
        with open("/proc/self/statm") as file:
            used = int(file.read().split()[0]) * resource.getpagesize()
        resource.setrlimit(resource.RLIMIT_AS, (used + (32 << 20), before[1]))
        try:
            world.allreduce([tensor], dist.AllreduceOptions()).wait()
            raise AssertionError("there was memory")
        except RuntimeError as error:
            assert "allocate memory" in str(error), str(error)
        finally:
            resource.setrlimit(resource.RLIMIT_AS, before)
    else:
        error = job.error_of(lambda: world.allreduce([tensor], dist.AllreduceOptions()).wait())
        assert error.code == "aborted" and "allreduce (number 2 of group 'no memory')" in error.cause, str(error)
    assert time.monotonic() - begin < 10


class Closed(dist.Store):
    def set(self, _key, _value):
        raise RuntimeError("Broken pipe")


def store_goes_while_a_rank_waits():
    """Of TCP, and of torch itself. Rank 0 serves it until the other one has given its part, and so asks for that of who never comes."""
    ports = job.store("ports")
    for rank, given in ((1, f"qpmesh/{16 * '0'}/0/1"), (0, "qpmesh/nonce")):
        if job.rank == 0:
            server = dist.TCPStore("127.0.0.1", 0, None, True, use_libuv=False)
            if rank == 1:
                server.set("qpmesh/nonce", 16 * "0")  # as if rank 0 had come
            ports.set(f"port {rank}", str(server.port))
            server.wait([given])
            del server
        else:
            client = dist.TCPStore("127.0.0.1", int(ports.get(f"port {rank}")), None, False, use_libuv=False)
            begin = time.monotonic()
            error = job.error_of(_library.meet, client, rank, 2, "left", seconds(30), [])
            assert error.code == "internal" and error.cause.startswith("the store failed: "), str(error)
            assert error.hint.startswith("the process that serves it (rank 0, or torchrun's agent) must live"), error.hint
            assert time.monotonic() - begin < 5


def meeting_goes_wrong():
    meet = _library.meet
    store = job.store("meetings")

    def named(name):
        return dist.PrefixStore(name, store)

    begin = time.monotonic()
    for sizes in ((2, 3), (3, 2), (1, 2)):
        cause = f"the world has {sizes[0]} ranks for rank 0, and {sizes[1]} for rank 1"
        if sizes[job.rank] == 1:
            meet(named(str(sizes)), 0, 1, "sizes", seconds(10), [])
        else:
            # An answer that was there before it came may be of an earlier attempt: it looks for another one until its time is over.
            limit = seconds(1 if 1 in sizes else 10)
            require_error(lambda: meet(named(str(sizes)), job.rank, sizes[job.rank], "sizes", limit, []), code="mismatch", cause=cause,
                          hint="give all ranks the same world_size (WORLD_SIZE)")
    assert time.monotonic() - begin < 5
    require_error(lambda: meet(store, 2, 2, "places", seconds(1), []), code="bad_argument", cause="rank 2 of 2")
    require_error(lambda: meet(store, 0, 2, "places", seconds(-1), []), code="bad_argument", cause="a timeout of -1000 ms")
    require_error(lambda: meet(named("options"), job.rank, 2, "options", seconds(5), ["QPMESH_TRANSPORT=pigeon"]), code="bad_config",
                  cause="QPMESH_TRANSPORT='pigeon', allowed: automatic, shm, verbs, verbs+shm, tcp")
    dist.barrier()
    # Rank 2 does not come. Who is told so by rank 0 says the same.
    cause = {0: "rank 2 of 3 has not come to the store", 1: "rank 0 of 3 has not answered in the store"}
    error = job.error_of(meet, named("alone"), job.rank, 3, "alone", seconds(0.6), [])
    assert error.code == "timeout" and error.cause in (cause[0], cause[job.rank]), str(error)
    # Both say that they are rank 0.
    error = job.error_of(meet, named("twice"), 0, 2, "twice", seconds(0.3), [])
    assert (error.code, error.cause) in (("bad_config", "rank 0 was there already in this store"),
                                         ("timeout", "rank 1 of 2 has not come to the store")), str(error)
    # The store of an attempt that ended: rank 1 comes first, under its nonce, and rank 0 anew.
    used = named("used")
    for attempt in range(3):
        if attempt > 0 and job.rank == 0:
            time.sleep(0.3)
        again = meet(used, job.rank, 2, "used", seconds(10), [])
        tensor = torch.full((1,), float(attempt))
        again.allreduce([tensor], dist.AllreduceOptions()).wait()
        assert tensor == 2 * attempt
    # Rank 1 is there twice: one of the two is told so, now or when its time is over.
    if job.rank == 0:
        meet(named("second"), 0, 2, "second", seconds(10), [])
    else:
        meet(named("second"), 1, 2, "second", seconds(10), [])
        require_error(lambda: meet(named("second"), 1, 2, "second", seconds(0.4), []), code="bad_config",
                      cause="rank 1 was there already in this store")
    # The other one has gloo.
    for rank in (0, 1):
        mixed = job.store(f"mixed {rank}")
        if job.rank == rank:
            begin = time.monotonic()
            require_error(lambda: meet(mixed, rank, 2, "mixed", seconds(10), []), code="mismatch",
                          cause=f"rank {other} is in this group with the backend gloo", hint="give all ranks of a group the same backend")
            assert time.monotonic() - begin < 5
        else:
            mixed.set_timeout(seconds(2))  # what gloo's rank 1 goes by
            try:
                dist.ProcessGroupGloo(mixed, job.rank, 2, seconds(2))
            except RuntimeError:
                pass
    # A store that nobody serves any more.
    error = job.error_of(meet, Closed(), 0, 2, "closed", seconds(10), [])
    assert error.code == "internal" and error.cause == "the store failed: RuntimeError: Broken pipe", str(error)
    require_error(lambda: _library.empty_bytes(dist.ProcessGroupGloo(job.store(f"gloo{job.rank}"), 0, 1), 8), code="bad_argument",
                  cause="the process group has another backend")
    dist.barrier()


def other_torches():
    """What is imported beside a torch that cannot be used says why."""
    with tempfile.TemporaryDirectory() as folder:
        os.mkdir(os.path.join(folder, "torch"))
        tools = "a C++20 compiler, c++ (Debian, Ubuntu: g++; Fedora: gcc-c++; Arch: gcc)"
        for text, *expected in (
                ("raise ImportError('nothing here')", "qpmesh_torch needs torch 2.6 or later, which was not found"),
                ("__version__ = '2.5.1'", "qpmesh_torch needs torch 2.6 or later, and torch 2.5.1 is installed"),
                ("__version__ = '9.9'", "was tested with torch 2.6, 2.13, 2.14, and not with 9.9", "torch 9.9, and this is missing: " + tools)):
            with open(os.path.join(folder, "torch", "__init__.py"), "w") as file:
                file.write(text)
            with open(os.path.join(folder, "torch", "distributed.py"), "w") as file:
                file.write("def is_available(): return True\n")
            done = subprocess.run([sys.executable, "-c", "import qpmesh_torch"], capture_output=True, text=True, check=False,
                                  env={**os.environ, "PYTHONPATH": folder + os.pathsep + os.environ["PYTHONPATH"], "PATH": folder,
                                       "TORCH_EXTENSIONS_DIR": folder})
            assert done.returncode != 0 and all(each in done.stderr for each in expected), done.stderr


def before_there_is_a_group():
    try:
        qpmesh_torch.empty(4)
        raise AssertionError("memory of nobody")
    except RuntimeError as error:
        assert "init_process_group" in str(error)


def main():
    before_there_is_a_group()
    job.begin()
    job.meet(wrong_tensors, ranks_disagree, messages, time_passes, someone_gives_up, someone_gives_up_his_work, no_memory_for_what_another_rank_gives, meeting_goes_wrong, store_goes_while_a_rank_waits)
    if job.rank == 0:
        other_torches()
    dist.barrier()
    # The world's end, of which all its groups are told.
    group = dist.new_group([0, 1])
    if job.rank == 0:
        qpmesh_torch.abort("that was all")
    for each in (group, None):
        error = job.error_of(dist.all_reduce, torch.ones(3), group=each)
        assert error.code == "aborted" and error.cause == "that was all", str(error)
    dist.destroy_process_group()


main()
