# SPDX-License-Identifier: MIT
"""What programs of torch 2 are made of, over this backend and over gloo: the same bits, where two ranks leave no choice of order."""

import datetime
import os
import tempfile
import warnings

import torch
import torch.distributed as dist
import torch.distributed._functional_collectives as functional
import torch.distributed.checkpoint as checkpoint
from torch.distributed.device_mesh import DeviceMesh, init_device_mesh
from torch.distributed.fsdp import FullyShardedDataParallel
from torch.distributed.tensor import DTensor, Partial, Replicate, Shard, distribute_tensor
from torch.distributed.tensor.parallel import ColwiseParallel, RowwiseParallel, parallelize_module
from torch.nn.parallel import DistributedDataParallel

import job

try:
    from torch.distributed.fsdp import fully_shard
except ImportError:
    from torch.distributed._composable.fsdp import fully_shard  # until torch 2.6

ours, gloo = None, None  # groups of all ranks


def seconds(count):
    return datetime.timedelta(seconds=count)


def model():
    torch.manual_seed(0)
    return torch.nn.Sequential(torch.nn.Linear(8, 16), torch.nn.ReLU(), torch.nn.Linear(16, 4))


def trained(module):
    optimizer = torch.optim.SGD(module.parameters(), 0.1)
    torch.manual_seed(job.rank + 5)
    for _ in range(3):
        optimizer.zero_grad()
        module(torch.randn(6, 8)).pow(2).mean().backward()
        optimizer.step()
    return [each.full_tensor() if isinstance(each, DTensor) else each.detach() for each in module.state_dict().values()]


def mesh_of(group):
    return DeviceMesh.from_group(group, "cpu")


def with_ddp(group):
    return trained(DistributedDataParallel(model(), process_group=group))


def with_fsdp_1(group):
    return trained(FullyShardedDataParallel(model(), process_group=group, device_id=torch.device("cpu")))


def with_fsdp_2(group):
    module = model()
    for layer in module:
        if isinstance(layer, torch.nn.Linear):
            fully_shard(layer, mesh=mesh_of(group))
    fully_shard(module, mesh=mesh_of(group))
    return trained(module)


def with_compiled_ddp(group):
    return trained(torch.compile(DistributedDataParallel(model(), process_group=group), backend="aot_eager"))


def with_tensor_parallel(group):
    module = parallelize_module(model(), mesh_of(group), {"0": ColwiseParallel(), "2": RowwiseParallel()})
    return trained(module)


def with_dtensor(group):
    mesh, size = mesh_of(group), job.size
    torch.manual_seed(0)
    a, b = torch.randn(8, 6), torch.randn(6, 4)
    rows, whole = distribute_tensor(a, mesh, [Shard(0)]), distribute_tensor(b, mesh, [Replicate()])
    columns = rows.redistribute(mesh, [Shard(1)])
    partial = DTensor.from_local(a, mesh, [Partial()]).redistribute(mesh, [Shard(0)]).full_tensor()
    assert torch.equal(columns.full_tensor(), a) and torch.equal(partial, a * size)
    return [(rows @ whole).full_tensor(), (columns @ distribute_tensor(b, mesh, [Shard(0)])).full_tensor(), partial]


def with_functional_collectives(group):
    size = job.size
    given = torch.arange(6.0 * size).reshape(2 * size, 3) * (job.rank + 1)
    return [functional.all_reduce(given, "sum", group), functional.all_gather_tensor(given, 0, group),
            functional.reduce_scatter_tensor(given, "sum", 0, group), functional.broadcast(given, 0, group),
            functional.all_to_all_single(given, None, None, group), *functional.all_reduce_coalesced([given, given + 1], "sum", group),
            *functional.all_gather_into_tensor_coalesced([given, given[:1]], group),
            *functional.reduce_scatter_tensor_coalesced([given, given * 2], "sum", [0, 0], group)]


# torch 2.6 has no stream of the host, which FSDP 2 wants, and shows Python less of a backend.
is_old = tuple(map(int, torch.__version__.split(".")[:2])) < (2, 7)


def same_as_gloo():
    for program in (with_ddp, with_fsdp_1, with_fsdp_2, with_compiled_ddp, with_tensor_parallel, with_dtensor, with_functional_collectives):
        try:
            expected = program(gloo)
        except AttributeError as error:
            if not (is_old and program is with_fsdp_2):
                raise
            print(f"{program.__name__} does not run over gloo here: {error}")
            continue
        found = program(ours)
        assert len(found) == len(expected) > 0 and all(map(torch.equal, found, expected)), program.__name__


def device_meshes():
    mesh = init_device_mesh("cpu", (1, job.size), mesh_dim_names=("one", "all"))
    tensor = torch.ones(3)
    dist.all_reduce(tensor, group=mesh.get_group("all"))
    dist.all_reduce(tensor, group=mesh.get_group("one"))
    assert tensor.eq(job.size).all() and dist.get_backend(mesh.get_group("all")) == "qpmesh"


def compiled_collectives():
    def twice_the_sum(tensor):
        dist.all_reduce(tensor)
        return tensor * 2

    assert torch.compile(twice_the_sum, backend="aot_eager", fullgraph=True)(torch.ones(3)).eq(2 * job.size).all()


def checkpoints():
    place = os.path.join(tempfile.gettempdir(), f"qpmesh_torch.{os.environ['QPMESH_JOB']}.checkpoint")
    saved = with_ddp(ours)
    checkpoint.save({"model": {str(i): each for i, each in enumerate(saved)}}, checkpoint_id=place)
    loaded = [torch.zeros_like(each) for each in saved]
    checkpoint.load({"model": {str(i): each for i, each in enumerate(loaded)}}, checkpoint_id=place)
    assert all(map(torch.equal, loaded, saved))


def backend_calls():
    """Of torch 2, each as far as this torch has it."""
    backend = job.backend_of(ours)
    work = backend.allreduce([torch.ones(2)], dist.AllreduceOptions())
    work.wait()
    assert work._get_duration() > 0
    if hasattr(work, "_get_sequence_number"):
        assert work._get_sequence_number() == backend._get_sequence_number_for_group()
    if hasattr(backend, "get_error"):
        assert int(backend.get_error()) == 0, backend.get_error()
    if hasattr(backend, "options"):
        assert backend.options._timeout == seconds(30) and backend.options.backend == "qpmesh"
    # Operations within the manager are one Work.
    tensors = [torch.full((3,), job.rank + 1.0), torch.full((2,), job.rank + 2.0)]
    with dist._coalescing_manager(group=ours, async_ops=True) as works:
        for tensor in tensors:
            dist.all_reduce(tensor, group=ours)
    works.wait()
    assert [each[0].item() for each in tensors] == [3, 5]
    received = torch.zeros(2)
    for request in dist.batch_isend_irecv([dist.P2POp(dist.isend, tensors[1], 1 - job.rank), dist.P2POp(dist.irecv, received, 1 - job.rank)]):
        request.wait()
    assert torch.equal(received, tensors[1])
    outputs = [torch.zeros(2 * job.size), torch.zeros(3 * job.size)]
    with dist._coalescing_manager(group=ours, async_ops=True) as works:
        for output, count in zip(outputs, (2, 3)):
            dist.all_gather_into_tensor(output, torch.full((count,), float(job.rank)), group=ours)
    works.wait()
    assert outputs[0].tolist() == [0, 0, 1, 1] and outputs[1].tolist() == [0, 0, 0, 1, 1, 1]


def split_groups():
    world = ours
    if not hasattr(world, "split_group"):
        assert is_old
        return
    half = world.split_group([0, 1], timeout=seconds(20), group_name="both")
    tensor = torch.ones(2)
    half.allreduce([tensor], dist.AllreduceOptions()).wait()
    assert tensor.eq(2).all() and half.size() == 2
    alone = world.split_group([job.rank], timeout=seconds(20), group_name=f"alone {job.rank}")
    alone.allreduce([tensor], dist.AllreduceOptions()).wait()
    assert tensor.eq(2).all() and alone.size() == 1


def timeouts():
    """A new limit is that of later calls, and what has failed is told."""
    group = dist.new_group([0, 1])
    backend = job.backend_of(group)
    if not hasattr(backend, "set_timeout"):
        assert is_old
        return
    backend.set_timeout(seconds(0.3))
    if job.rank == 0:
        error = job.error_of(dist.barrier, group=group)
        assert error.code == "timeout", str(error)
        assert not hasattr(backend, "get_error") or int(backend.get_error()) == 1, backend.get_error()
    job.require_error(lambda: backend.set_timeout(seconds(-1)), code="bad_argument", cause="a timeout of -1000 ms")


def groups_that_end():
    """shutdown: calls from then on fail on this rank. abort: the world that was met for it, on all ranks."""
    from qpmesh_torch import _library

    for call, code in (("shutdown", "bad_argument"), ("abort", "aborted")):
        world = _library.meet(job.store(call), job.rank, 2, call, seconds(20), [])
        if not hasattr(world, call):
            assert is_old
            return
        world.allreduce([torch.ones(1)], dist.AllreduceOptions()).wait()
        if call == "shutdown" or job.rank == 0:
            getattr(world, call)()
        error = job.error_of(lambda: world.allreduce([torch.ones(1)], dist.AllreduceOptions()).wait())
        assert error.code == code, str(error)


def begin_again(backend, name):
    dist.destroy_process_group()
    dist.init_process_group(backend, store=job.store(name), rank=job.rank, world_size=job.size, timeout=seconds(30))


def several_backends():
    begin_again("cpu:qpmesh,cuda:gloo", "several")
    tensor = torch.ones(2)
    dist.all_reduce(tensor)
    assert tensor.eq(2).all() and job.backend_of(dist.group.WORLD).name() == "qpmesh"


def debug_detail():
    """torch looks at each call before it comes here, and names what differs."""
    os.environ["TORCH_DISTRIBUTED_DEBUG"] = "DETAIL"
    dist.set_debug_level_from_env()
    begin_again("qpmesh", "detail")
    tensor = torch.ones(3)
    dist.all_reduce(tensor)
    assert tensor.eq(2).all()
    group = dist.new_group([0, 1])
    dist.all_reduce(tensor, group=group)
    assert tensor.eq(4).all()
    try:
        dist.all_reduce(torch.ones(3 + job.rank))
        raise AssertionError("different lengths were summed")
    except RuntimeError as error:
        assert "Detected mismatch between collectives on ranks" in str(error), str(error)


def main():
    global ours, gloo
    warnings.simplefilter("ignore")
    job.begin()
    ours, gloo = dist.group.WORLD, dist.new_group(backend="gloo")
    job.meet(same_as_gloo, device_meshes, compiled_collectives, checkpoints, backend_calls, split_groups, timeouts, groups_that_end)
    several_backends()
    debug_detail()
    dist.destroy_process_group()
    if job.rank == 0:
        print("programs of torch 2: the same bits as gloo")


main()
