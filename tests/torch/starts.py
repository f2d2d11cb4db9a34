# SPDX-License-Identifier: MIT
"""Rank 0, which serves the store, ends as soon as init_process_group has returned: the other ranks get through their own."""

import datetime
import os
import socket
import sys

import torch.distributed as dist

import qpmesh_torch  # noqa: F401


def start(rank, size, port):
    os.environ.update(MASTER_ADDR="127.0.0.1", MASTER_PORT=str(port), WORLD_SIZE=str(size), RANK=str(rank))
    pid = os.fork()
    if pid != 0:
        return pid
    try:
        dist.init_process_group("qpmesh", timeout=datetime.timedelta(seconds=60))
        os._exit(0)
    except BaseException as error:
        print(f"rank {rank}: {error}", file=sys.stderr, flush=True)
        os._exit(1)


try:
    dist.TCPStore("127.0.0.1", 0, None, True)
except RuntimeError:
    os.environ["USE_LIBUV"] = "0"  # Debian's torch was built without it
starts = int(sys.argv[1])
for i in range(starts):
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    ranks = [start(rank, 2, port) for rank in range(2)]
    codes = [os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1]) for pid in ranks]
    assert codes == [0, 0], f"start {i}: exit codes {codes}"
print(f"{starts} of {starts} starts in which rank 0 ends at once")
