# SPDX-License-Identifier: MIT
"""What the programs here share: ranks of qpmesh-run, or of torchrun, as a process group."""

import datetime
import os
import tempfile
import time

import torch
import torch.distributed as dist

import qpmesh_torch

under_torchrun = "TORCHELASTIC_RUN_ID" in os.environ
rank = int(os.environ["RANK" if under_torchrun else "QPMESH_RANK"])
size = int(os.environ["WORLD_SIZE" if under_torchrun else "QPMESH_SIZE"])
torch.set_num_threads(1)


def store(name="store"):
    """One that was not used before: a file of the job's."""
    return dist.FileStore(os.path.join(tempfile.gettempdir(), f"qpmesh_torch.{os.environ['QPMESH_JOB']}.{name}"), size)


def begin(backend="qpmesh", seconds=30, **more):
    if under_torchrun:
        dist.init_process_group(backend, timeout=datetime.timedelta(seconds=seconds), **more)
    else:
        dist.init_process_group(backend, store=store(), rank=rank, world_size=size, timeout=datetime.timedelta(seconds=seconds), **more)


def has_half(gloo):
    """gloo of Debian's torch 2.14 was built without float16."""
    try:
        dist.all_reduce(torch.ones(1, dtype=torch.float16), group=gloo)
        return True
    except RuntimeError:
        return False


def backend_of(group):
    """What torch calls when it lets a tensor through: without its dispatcher, which takes some by itself and refuses others."""
    return group._get_backend(torch.device("cpu"))


def meet(*situations):
    """One after the other, all ranks in the same; rank 0 says which are over and how long they took."""
    for situation in situations:
        begin = time.monotonic()
        situation()
        dist.barrier()
        if rank == 0:
            print(f"{situation.__name__}: {time.monotonic() - begin:.2f} s")


def error_of(call, *arguments, **more):
    """The Error that the call raises."""
    try:
        call(*arguments, **more)
    except qpmesh_torch.Error as error:
        return error
    raise AssertionError(f"{call} did not fail")


def require_error(call, *, code, cause, hint=None, **parts):
    """It raises this one: code and cause, and what else is named, are compared whole."""
    error = error_of(call)
    found = {"code": error.code, "cause": error.cause, **{part: getattr(error, part) for part in parts}}
    assert found == {"code": code, "cause": cause, **parts}, (found, str(error))
    assert hint is None or error.hint == hint, error.hint
    return error
