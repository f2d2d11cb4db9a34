# SPDX-License-Identifier: MIT
"""What gloo takes besides plain tensors, one at a time: the same results over this backend."""

import copy
import datetime
import time

import torch
import torch.distributed as dist
from torch.nn.parallel import DistributedDataParallel

import job
from job import require_error

Op = dist.ReduceOp
ours, gloo = None, None  # groups of all ranks


def sparse(indices, values, *shape):
    """indices: a list of elements' places; values: one for each, numbers or rows."""
    places = torch.tensor(indices, dtype=torch.int64).reshape(len(indices), -1 if indices else 1).t()
    return torch.sparse_coo_tensor(places, values, shape)


def same(found, expected, what):
    assert found.layout == expected.layout and found.dtype == expected.dtype and found.shape == expected.shape, what
    if found.layout == torch.sparse_coo:
        assert found.is_coalesced() == expected.is_coalesced(), what
        assert torch.equal(found._indices(), expected._indices()), (what, found, expected)
        found, expected = found._values(), expected._values()
    assert torch.equal(found, expected), (what, found, expected)


def random_sparse(elements, rows, columns, dtype=torch.float32):
    values = torch.randn(elements, columns).to(dtype) if dtype.is_floating_point else torch.randint(9, (elements, columns), dtype=dtype)
    return torch.sparse_coo_tensor(torch.randint(rows, (1, elements)), values, (rows, columns))


def sparse_tensors():
    rank = job.rank
    torch.manual_seed(rank)
    nothing = torch.sparse_coo_tensor(size=(5, 2))
    for what, tensors in {
        "different places": [sparse([0, 1 + rank], torch.tensor([1.0, 2.0]), 5)],
        "one place twice": [sparse([3, 3], torch.tensor([1.0, 2.0 + rank]), 5)],
        "nothing on some ranks": [sparse([0, 2], torch.tensor([1.0, 2.0]), 5) if rank == 1 else sparse([], torch.zeros(0), 5)],
        "nothing on any rank": [nothing],
        "rows that are dense": [random_sparse(7 + rank, 5, 3)],
        "two sparse dimensions": [sparse([[0, rank], [1, 1]], torch.tensor([1.0, 2.0]), 3, 4)],
        "a number": [torch.sparse_coo_tensor(torch.zeros(0, 1, dtype=torch.int64), torch.tensor([1.5 + rank]), ())],
        "no columns": [torch.sparse_coo_tensor(torch.tensor([[1, 2]]), torch.zeros(2, 0), (5, 0))],
        "float64": [random_sparse(9, 5, 3, torch.float64)],
        "int64": [random_sparse(9, 5, 3, torch.int64)],
        "uint8": [random_sparse(9, 5, 3, torch.uint8)],
        "long messages": [random_sparse(20_000 + 100 * rank, 30_000, 32)],
        "values that lie at a stride": [torch.sparse_coo_tensor(torch.tensor([[0, 3]]), torch.randn(3, 2).t(), (5, 3))],
        "several of a rank": [random_sparse(4, 5, 2), random_sparse(rank, 5, 2), random_sparse(3, 5, 2).coalesce()],
    }.items():
        of_gloo, of_ours = copy.deepcopy(tensors), copy.deepcopy(tensors)
        gloo.allreduce(of_gloo).wait()
        work = ours.allreduce(of_ours)
        work.wait()
        for found, expected in zip(of_ours, of_gloo):
            same(found, expected, what)
            assert found.is_coalesced(), what
        same(work.result()[0], of_gloo[0], what)
        same(work.get_future().wait()[0], of_gloo[0], what)
    # gloo has no complex numbers in torch 2.6.
    tensor = sparse([1, 2 + rank], torch.tensor([1j, 1.0]), 8)
    ours.allreduce([tensor]).wait()
    same(tensor.to_dense(), torch.tensor([0, job.size * 1j, *[1.0] * job.size, *[0.0] * (6 - job.size)]), "complex64")
    tensor = random_sparse(3, 5, 2).requires_grad_()
    dist.all_reduce(tensor, group=ours)
    assert tensor.requires_grad and tensor.is_leaf


def sparse_tensors_in_flight():
    """Between other operations, and ended in any order."""
    rank, size = job.rank, job.size
    store = job.store("in_flight")
    one = sparse([0], torch.tensor([1.0]), 2)
    # The second step is begun where nobody waits in the library: this rank waits for the others' word.
    tensor = one.clone()
    work = dist.all_reduce(tensor, group=ours, async_op=True)
    if rank == 0:
        store.wait([f"ended {other}" for other in range(1, size)])
        del work
    else:
        work.wait()
        store.set(f"ended {rank}", "")
    dist.barrier(group=ours)
    # The call returns before the others have come: they come when they have heard of that.
    tensor = one.clone()
    if rank == 0:
        work = dist.all_reduce(tensor, group=ours, async_op=True)
        for other in range(1, size):
            dist.send(torch.ones(1), other, group=ours)
        while not work.is_completed():
            pass
    else:
        dist.recv(torch.ones(1), 0, group=ours)
        work = dist.all_reduce(tensor, group=ours, async_op=True)
        assert work.get_future().then(lambda future: future.value()[0].to_dense() * 2).wait().tolist() == [2 * size, 0]
    assert work.wait() and tensor.to_dense().tolist() == [size, 0]
    tensors = [random_sparse(10 * i, 50, 4) for i in range(6)]
    expected = [tensor.clone() for tensor in tensors]
    works, plain = [], torch.ones(1000)
    for i, tensor in enumerate(tensors):
        works.append(dist.all_reduce(tensor, group=ours, async_op=True))
        if i % 2 == 1:
            works.append(dist.all_reduce(plain, group=ours, async_op=True))
            works.pop().wait()
    for work in works if rank % 2 == 0 else reversed(works):
        work.wait()
    for found, tensor in zip(tensors, expected):
        dist.all_reduce(tensor, group=gloo)
        same(found, tensor, "in flight")


def wrong_sparse_tensors():
    rank = job.rank
    vector = sparse([1], torch.ones(1), 4)
    for op, name in ((Op.MAX, "MAX"), (Op.AVG, "AVG"), (Op.PRODUCT, "PRODUCT")):
        require_error(lambda: dist.all_reduce(vector, op, group=ours), code="bad_argument", cause=f"there is no {name} of sparse tensors")
    require_error(lambda: ours.allreduce([vector, torch.ones(4)]), code="bad_argument", cause="tensors that are sparse (COO) and others")
    require_error(lambda: ours.allreduce([vector, sparse([1], torch.ones(1), 5)]), code="bad_argument",
                  cause="tensors of different shapes or types")
    require_error(lambda: job.backend_of(ours).allreduce([torch.eye(3).to_sparse_csr()]), code="bad_argument", cause="the tensor is sparse")
    require_error(lambda: job.backend_of(ours).broadcast([vector], root_of(0)), code="bad_argument", cause="the tensor is sparse")
    require_error(lambda: ours.allreduce([torch.sparse_coo_tensor(size=(1,) * 61)]), code="bad_argument", cause="the tensor has 61 dimensions")
    for dtype, name in ((torch.bool, "Bool"), (torch.float16, "Half"), (torch.bfloat16, "BFloat16"), (torch.complex32, "ComplexHalf")):
        require_error(lambda: ours.allreduce([vector.to(dtype)]), code="bad_argument", cause=f"there is no SUM of sparse {name}")
    for tag in (0x7fff0000, 0x7fffffff):
        require_error(lambda: dist.send(torch.ones(1), (rank + 1) % job.size, group=ours, tag=tag), code="bad_argument",
                      cause=f"tag {tag} is one of the backend's own", hint="those of the program are below 2147418112")
    # Ranks that differ are told so, all of them, and the group goes on.
    last = rank == job.size - 1
    number = job.size - 1
    for given, cause in (
        (sparse([1], torch.ones(1), 5 if last else 4), f"rank 0 gives a tensor of Float [4] with 1 sparse dimensions, rank {number} one of Float [5] with 1"),
        (vector.double() if last else vector, f"rank 0 gives a tensor of Float [4] with 1 sparse dimensions, rank {number} one of Double [4] with 1"),
        (torch.eye(3).to_sparse(1 if last else 2), f"rank 0 gives a tensor of Float [3, 3] with 2 sparse dimensions, rank {number} one of Float [3, 3] with 1"),
    ):
        require_error(lambda: dist.all_reduce(given, group=ours), code="mismatch", cause=cause + " sparse dimensions",
                      hint="give all ranks' tensors one shape and type")
    dist.all_reduce(vector, group=ours)
    assert vector.to_dense()[1] == job.size
    # What is sparse on one rank alone is another call.
    group = dist.new_group()
    error = job.error_of(dist.all_reduce, vector if rank == 0 else torch.ones(4), group=group)
    assert error.code == "mismatch", str(error)


def root_of(rank, tensor=0):
    options = dist.BroadcastOptions()
    options.rootRank, options.rootTensor = rank, tensor
    return options


def several_tensors():
    """Each as if it were of a rank of its own."""
    rank, size = job.rank, job.size
    torch.manual_seed(rank)

    def both(what, given, call):
        """call changes the tensors of given, which lie in lists, or lists of lists."""
        of_gloo, of_ours = copy.deepcopy(given), copy.deepcopy(given)
        call(gloo, of_gloo).wait()
        work = call(ours, of_ours)
        work.wait()
        for found, expected in zip(flat(of_ours), flat(of_gloo)):
            same(found, expected, what)
        return work

    def flat(tensors):
        return [each for item in tensors for each in (item if isinstance(item, list) else [item])]

    def reduced(op):
        options = dist.AllreduceOptions()
        options.reduceOp = op
        return lambda group, tensors: group.allreduce(tensors, options)

    for dtype in (torch.float32, torch.float64, torch.int64, torch.uint8, *([torch.float16] if job.has_half(gloo) else [])):
        for op, name in ((Op.SUM, "SUM"), (Op.PRODUCT, "PRODUCT"), (Op.MIN, "MIN"), (Op.MAX, "MAX")):
            for lengths in ((5,), (0,), (30, 1000), ()):
                # Small whole numbers: the order of three ranks' sums is gloo's own.
                tensors = [torch.randint(1, 4, lengths).to(dtype) for _ in range(3)]
                both((name, dtype, lengths), tensors, reduced(op))
    at_a_stride = [torch.randint(9, (4, 3)).float().t() for _ in range(2)]
    both("at a stride", at_a_stride, reduced(Op.SUM))
    twice = torch.randint(9, (4,)).float()
    both("one tensor twice", [twice, twice], reduced(Op.SUM))
    work = both("results", [torch.ones(2), torch.ones(2)], reduced(Op.SUM))
    assert [each.tolist() for each in work.result()] == [[2.0 * size] * 2] * 2
    for op, values in ((Op.BAND, (7, 5)), (Op.BXOR, (6, 5)), (Op.BOR, (4, rank))):
        both(op, [torch.full((3,), value + 8 * rank) for value in values], reduced(op))
    # gloo has none of these in torch 2.6.
    tensors = [torch.full((2,), value) for value in (1j, 2 + 0j)]
    reduced(Op.PRODUCT)(ours, tensors).wait()
    assert all(each.tolist() == [2j ** size] * 2 for each in tensors)
    tensors = [torch.ones(2), torch.ones(2)]
    reduced(dist._make_nccl_premul_sum(3.0))(ours, tensors).wait()
    assert all(each.tolist() == [6.0 * size] * 2 for each in tensors)

    for root in range(size):
        for tensor in range(2):
            given = [torch.randn(3, 4), torch.randn(4, 3).t()]
            work = both(("broadcast", root, tensor), given, lambda group, tensors: group.broadcast(tensors, root_of(root, tensor)))
            assert len(work.result()) == 2 and torch.equal(*work.result())

    for count in (1, 2, 3):
        given = [[torch.zeros(4, 3) for _ in range(count * size)] for _ in range(count)]
        inputs = [torch.randn(4, 3) for _ in range(count)]
        work = both(("allgather", count), given, lambda group, tensors: group.allgather(tensors, inputs))
        assert len(work.result()) == count * count * size
    rows = [[torch.zeros(3, 4).t() for _ in range(2 * size)] for _ in range(2)]
    ours.allgather(rows, [torch.full((4, 3), float(2 * rank + i)) for i in range(2)]).wait()
    assert all(each.eq(i).all() for row in rows for i, each in enumerate(row))


def wrong_lists():
    """What gloo refuses, too; nothing was sent, and the group goes on."""
    ours, two = job.backend_of(dist.group.WORLD), [torch.ones(2), torch.ones(2)]  # torch has no word for an empty list
    alike = "the tensors of the list differ in shape or type"
    options = dist.AllreduceOptions()
    for tensors in ([torch.ones(2), torch.ones(3)], [torch.ones(2, 2), torch.ones(4)], [torch.ones(2), torch.ones(2).double()]):
        require_error(lambda: ours.allreduce(tensors, options), code="bad_argument", cause=alike)
        require_error(lambda: ours.broadcast(tensors, root_of(0)), code="bad_argument", cause=alike)
        require_error(lambda: ours.allgather([[torch.ones(2)] * 2 * job.size] * 2, tensors), code="bad_argument", cause=alike)
    for call in (lambda: ours.allreduce([], options), lambda: ours.broadcast([], root_of(0)), lambda: ours.allgather([], [])):
        require_error(call, code="bad_argument", cause="the list of tensors is empty")
    require_error(lambda: ours.allreduce([torch.ones(2), torch.eye(2).to_sparse()], options), code="bad_argument", cause="the tensor is sparse")
    require_error(lambda: ours.broadcast(two, root_of(0, 2)), code="bad_argument", cause="root tensor 2 of 2")
    require_error(lambda: ours.broadcast(two, root_of(0, -1)), code="bad_argument", cause="root tensor -1 of 2")
    require_error(lambda: ours.allreduce([torch.ones(2), torch.ones(1).expand(2)], options), code="bad_argument",
                  cause="several elements of the tensor lie in one place")
    average = dist.AllreduceOptions()
    average.reduceOp = Op.AVG
    require_error(lambda: ours.allreduce(two, average), code="bad_argument", cause="there is no AVG of several tensors of a rank")
    rows = [torch.ones(2) for _ in range(2 * job.size)]
    require_error(lambda: ours.allgather([rows], two), code="bad_argument", cause="there are 1 output lists and 2 inputs")
    require_error(lambda: ours.allgather([rows, rows[1:]], two), code="bad_argument", cause="the output lists differ in length")
    require_error(lambda: ours.allgather([rows, [torch.ones(1, 2), *rows[1:]]], two), code="bad_argument",
                  cause="tensors of the output lists differ in shape")
    for call in (lambda: ours.reduce(two, dist.ReduceOptions()), lambda: ours.gather([], two, dist.GatherOptions()),
                 lambda: ours.scatter(two, [], dist.ScatterOptions()), lambda: ours.send(two, 0, 0), lambda: ours.recv(two, 0, 0)):
        require_error(call, code="bad_argument", cause="the list has 2 tensors", hint="give one tensor; allreduce, broadcast and allgather take several")
    assert two[0].eq(1).all() and two[1].eq(1).all()
    ours.allreduce(two, options).wait()
    assert two[0].eq(2 * job.size).all()


def missing_ranks():
    """All are named, to all who came, where that was asked for; else one of them is."""
    rank, size = job.rank, job.size
    limit = datetime.timedelta(seconds=2)
    ours.monitored_barrier(wait_all_ranks=True)
    for present in range(1, size):
        group = dist.new_group()
        dist.barrier(group=gloo)  # of another backend: all come at one time to what is limited
        if rank < present:
            error = job.error_of(group.monitored_barrier, limit, True)
            missing = ", ".join(map(str, range(present, size)))
            assert (error.code, error.cause) == ("timeout", f"of the {size} ranks these have not come: {missing}"), str(error)
            assert str(error).startswith("monitored_barrier (number 1 of group '"), str(error)
        # The group goes on, in step.
        tensor = sparse([rank], torch.ones(1), size)
        dist.all_reduce(tensor, group=group)
        assert tensor.to_dense().tolist() == [1.0] * size
        assert job.backend_of(group)._get_sequence_number_for_group() == 1
        # Nor does it keep anything of who comes late.
        if rank >= present:
            assert job.error_of(group.monitored_barrier, datetime.timedelta(seconds=0.2), True).peer == 0
        group.monitored_barrier(wait_all_ranks=True)
    # Who speaks to rank 0 alone knows of rank 0 alone.
    group = dist.new_group()
    limit = datetime.timedelta(seconds=0.5)
    if rank > 0:
        begin = time.monotonic()
        error = job.error_of(group.monitored_barrier, limit, True)
        assert (error.code, error.peer, error.cause) == ("timeout", 0, "rank 0, whom all tell that they are there, has not come"), str(error)
        assert time.monotonic() - begin >= 2 * limit.total_seconds()
    tensor = sparse([rank], torch.ones(1), size)
    dist.all_reduce(tensor, group=group)
    assert tensor.to_dense().tolist() == [1.0] * size
    group = dist.new_group()
    dist.barrier(group=gloo)
    if rank == 0:
        error = job.error_of(group.monitored_barrier, limit)
        assert error.code == "timeout" and 0 < error.peer < size, str(error)
    dist.barrier(group=gloo)


class Words(torch.nn.Module):
    """Rows of a table, of which a step uses few, and a layer whose gradient is dense."""

    def __init__(self):
        super().__init__()
        torch.manual_seed(1)
        self.table = torch.nn.Embedding(200, 8, sparse=True)
        self.layer = torch.nn.Linear(8, 3)

    def forward(self, words):
        return self.layer(self.table(words).mean(1))


def embeddings_in_ddp():
    """With two ranks all parameters; with more, gloo adds what is dense in an order of its own, which the next step would see."""
    def train(group):
        module = DistributedDataParallel(Words(), process_group=group)
        optimizer = torch.optim.SGD(module.parameters(), 0.5)
        torch.manual_seed(50 + job.rank)
        for _ in range(4 if job.size == 2 else 1):
            optimizer.zero_grad()
            module(torch.randint(200, (6, 5))).tanh().pow(2).sum().backward()
            assert module.module.table.weight.grad.is_sparse
            optimizer.step()
        return module.module

    of_gloo, of_ours = train(gloo), train(ours)
    assert not torch.equal(of_ours.table.weight, Words().table.weight)
    assert torch.equal(of_ours.table.weight, of_gloo.table.weight)
    assert job.size > 2 or all(map(torch.equal, of_ours.parameters(), of_gloo.parameters()))


def main():
    global ours, gloo
    job.begin()
    ours = dist.group.WORLD
    gloo = dist.new_group(backend="gloo")
    job.meet(sparse_tensors, sparse_tensors_in_flight, wrong_sparse_tensors, embeddings_in_ddp, several_tensors, wrong_lists, missing_ranks)
    dist.destroy_process_group()


main()
