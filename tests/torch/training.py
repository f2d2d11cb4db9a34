# SPDX-License-Identifier: MIT
"""What torch trains with: the same bits as with gloo, where two ranks leave no choice of order."""

import atexit
import functools
import os
import threading
import time

import torch
import torch.distributed as dist
from torch.distributed.algorithms.ddp_comm_hooks import default_hooks
from torch.distributed.optim import ZeroRedundancyOptimizer
from torch.nn.parallel import DistributedDataParallel

import job
import qpmesh_torch

steps = 4
dist._DEFAULT_FIRST_BUCKET_BYTES = 4096  # DistributedDataParallel gives the first one 1 MiB, whatever the others get


def model():
    torch.manual_seed(1)
    return torch.nn.Sequential(torch.nn.Linear(16, 64), torch.nn.ReLU(), torch.nn.BatchNorm1d(64), torch.nn.Linear(64, 32), torch.nn.ReLU(),
                               torch.nn.Linear(32, 4))


def train(module, optimizer):
    torch.manual_seed(100 + job.rank)
    losses = []
    for _ in range(steps):
        optimizer.zero_grad()
        inputs = torch.randn(8, 16)
        loss = torch.nn.functional.mse_loss(module(inputs), inputs[:, :4].tanh())
        loss.backward()
        optimizer.step()
        losses.append(loss.detach())
    return losses


def adam(module):
    return torch.optim.Adam(module.parameters(), 0.01)


def ddp(group, hook=None, optimizer=adam, look=None, **options):
    # Buckets of a few KiB: several allreduces are under way while the rest is computed.
    module = DistributedDataParallel(model(), process_group=group, bucket_cap_mb=0.004, **options)
    if hook is not None:
        module.register_comm_hook(group, hook)
    losses = train(module, optimizer(module))
    if look is not None:
        look(module)
    return losses + list(module.parameters())


def ddp_in_shared_memory(group):
    if group is not job.ours:
        return ddp(group, gradient_as_bucket_view=True)

    def buckets_are_shared(module):
        gradients = [parameter.grad for parameter in module.parameters()]  # views of buckets
        assert len({grad.storage().data_ptr() for grad in gradients}) > 1  # of several
        for grad in gradients:
            assert is_shared(grad) == is_shared(qpmesh_torch.empty(1 << 16, group=group)), mapping_of(grad)

    with qpmesh_torch.shared_memory(group, bytes_min=64):
        return ddp(group, look=buckets_are_shared, gradient_as_bucket_view=True)


def zero(group):
    return ddp(group, optimizer=lambda module: ZeroRedundancyOptimizer(
        module.parameters(), torch.optim.Adam, process_group=group, lr=0.01))


def without_sync(group):
    """Gradients of two passes in one allreduce."""
    module = DistributedDataParallel(model(), process_group=group)
    torch.manual_seed(7 + job.rank)
    with module.no_sync():
        module(torch.randn(8, 16)).sum().backward()
    module(torch.randn(8, 16)).sum().backward()
    return [parameter.grad for parameter in module.parameters()]


def accumulated_scalars(group):
    """Losses, counts and flags, as a program's metrics are combined."""
    totals = [torch.tensor(1.5 * job.rank), torch.tensor([job.rank, 3])]
    for tensor in totals:
        dist.all_reduce(tensor, group=group)
    return totals


def same_with_gloo():
    half = [functools.partial(ddp, hook=default_hooks.fp16_compress_hook)] if job.has_half(job.gloo) else []
    for way in (ddp, functools.partial(ddp, hook=default_hooks.allreduce_hook), *half,
                functools.partial(ddp, find_unused_parameters=True), ddp_in_shared_memory, zero, without_sync, accumulated_scalars):
        of_gloo, of_ours = way(job.gloo), way(job.ours)
        assert all(map(torch.equal, of_ours, of_gloo)), way
        # All ranks have the same parameters; what comes before them are losses of each rank's own data.
        for tensor in (tensor.detach() for tensor in of_ours if tensor.dim() > 0):
            least, most = tensor.clone(), tensor.clone()
            dist.all_reduce(least, dist.ReduceOp.MIN, group=job.ours)
            dist.all_reduce(most, dist.ReduceOp.MAX, group=job.ours)
            assert torch.equal(least, most), way


def callbacks_that_wait():
    """As powerSGD_hook has them: what hangs on a future waits for others, begun there and before."""
    one, two, three = (torch.ones(3) for _ in range(3))
    if job.rank == 1:
        time.sleep(0.05)  # the other rank's futures are told by the background
    futures = [dist.all_reduce(tensor, group=job.ours, async_op=True).get_future() for tensor in (one, two)]

    def then(_future):
        if job.rank == 1:
            time.sleep(0.05)
        return dist.all_reduce(three, group=job.ours, async_op=True).get_future().wait()[0] + futures[1].wait()[0]

    assert futures[0].then(then).wait().eq(4).all()


def future_of_what_a_thread_waits_for():
    found = torch.zeros(3)
    if job.rank == 1:
        dist.recv(torch.zeros(1), 0, group=job.ours)
        dist.send(torch.ones(3), 0, group=job.ours)
        return
    work = dist.irecv(found, 1, group=job.ours)
    thread = threading.Thread(target=work.wait)
    thread.start()
    time.sleep(0.05)  # it is most likely inside by now
    future = work.get_future()  # returns, or the message that lets the thread go on is never sent
    dist.send(torch.ones(1), 1, group=job.ours)
    future.wait()
    thread.join()
    assert found.eq(1).all()


def kept_tensors_that_python_made():
    """The last to have one takes Python's lock, while Python drops the Work."""
    for i in range(60):
        outputs = [torch.zeros(1000) for _ in range(2)]
        dist.barrier(group=job.ours)
        begin = time.monotonic()
        if job.rank == 1:
            time.sleep(0.015)
        work = dist.all_gather(outputs, torch.ones(1000), group=job.ours, async_op=True)
        future = work.get_future()
        while job.rank == 0 and time.monotonic() < begin + 0.0155 + i * 1e-4:
            pass
        del work
        future.wait()


def mapping_of(tensor):
    """The line of the kernel's list that tells where it lies."""
    with open("/proc/self/maps") as lines:
        for line in lines:
            begin, end = (int(edge, 16) for edge in line.split()[0].split("-"))
            if begin <= tensor.data_ptr() < end:
                return line
    raise AssertionError("it lies nowhere")


def is_shared(tensor):
    return mapping_of(tensor).split()[1][3] == "s"


def shared_memory():
    piece = qpmesh_torch.empty(1 << 16, group=job.ours)
    with qpmesh_torch.shared_memory(job.ours):
        with qpmesh_torch.shared_memory(job.ours, bytes_min=64):
            pass
        tensor = torch.empty(1 << 20)
        assert is_shared(tensor) == is_shared(piece), mapping_of(tensor)
        # torch packs its weights into raw memory.
        linear = torch.ao.nn.quantized.dynamic.Linear(256, 256)
        linear(torch.ones(2, 256))
    assert not is_shared(torch.empty(1 << 20))
    torch.ao.nn.quantized.dynamic.Linear(8, 8)(torch.ones(2, 8))
    del linear


class Squares(torch.utils.data.Dataset):
    def __len__(self):
        return 32

    def __getitem__(self, index):
        return torch.tensor([float(index * index)])


def workers_that_load_data():
    """They are forked off, end while the ranks go on, and say nothing in their name."""
    loader = torch.utils.data.DataLoader(Squares(), batch_size=4, num_workers=2, multiprocessing_context="fork")
    with qpmesh_torch.shared_memory(job.ours, bytes_min=64):
        total = torch.zeros(1000)
    for _ in range(2):  # epochs, each with workers of its own
        for batch in loader:
            total += batch.sum()
            work = dist.all_reduce(total, dist.ReduceOp.AVG, group=job.ours, async_op=True)
            work.get_future().wait()
    assert total.eq(2 * sum(i * i for i in range(32))).all()


def child_that_ends():
    """With what Python does at its end, which is not the rank's."""
    child = os.fork()
    if child == 0:
        atexit._run_exitfuncs()
        os._exit(7)
    assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 7
    tensor = torch.ones(1000)
    for _ in range(3):
        dist.all_reduce(tensor, group=job.ours)
    assert tensor.eq(8).all()


def main():
    job.begin()
    job.ours = dist.group.WORLD
    job.gloo = dist.new_group(backend="gloo")
    same_with_gloo()
    if job.rank == 0:
        print("same bits as gloo")
    job.meet(callbacks_that_wait, future_of_what_a_thread_waits_for, kept_tensors_that_python_made, shared_memory, workers_that_load_data, child_that_ends)
    dist.destroy_process_group()


main()
