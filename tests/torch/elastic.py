# SPDX-License-Identifier: MIT
"""torchrun: a worker that is killed is an error with its number on all others, within a second, and the job starts again and ends well.

Without arguments it is the test: it runs torchrun over itself. Started as rank QPMESH_RANK of QPMESH_SIZE, which meet at QPMESH_ROOT, it is one host of several: the first
has two workers, one of whom is killed, and the others one.
"""

import json
import os
import pathlib
import signal
import socket
import subprocess
import sys
import tempfile
import time


def work(folder, survivors, victim):
    """survivors: how many workers of this host are not killed; victim: who is, by its local rank, or nobody."""
    import torch
    import torch.distributed as dist

    import job
    import qpmesh_torch

    job.begin()
    tensor = torch.ones(1000)
    try:
        for step in range(20):
            if step == 10 and os.environ["LOCAL_RANK"] == victim and not (folder / "killed").exists():
                (folder / "killed").write_text(str(job.rank))
                os.kill(os.getpid(), signal.SIGKILL)
            begun = time.monotonic()
            dist.all_reduce(tensor, dist.ReduceOp.AVG)
    except qpmesh_torch.Error as error:
        said = {"seconds": time.monotonic() - begun, "code": error.code, "peer": error.peer, "text": str(error)}
        (folder / f"told.{job.rank}.part").write_text(json.dumps(said))
        (folder / f"told.{job.rank}.part").rename(folder / f"told.{job.rank}")
        # Who leaves now may be taken for the first to fail. torchrun ends it when all have told.
        while len(list(folder.glob("told.?"))) < survivors:
            time.sleep(0.01)
        raise
    (folder / f"value.{job.rank}").write_text(json.dumps(tensor[0].item()))
    dist.destroy_process_group()


def store_of(endpoint, folder):
    """torchrun's own store is one of libuv's, which Debian's torch was built without: then a file is the store, and the ranks have one of TCP."""
    import torch.distributed as dist

    try:
        dist.TCPStore("127.0.0.1", 0, None, True)
        return endpoint, "", {}
    except RuntimeError:
        return str(folder / "store"), ",store_type=file", {"USE_LIBUV": "0", "TORCH_DISABLE_SHARE_RDZV_TCP_STORE": "1"}


def test(hosts, host, endpoint, workers, victim):
    survivors = workers - (victim >= 0)
    with tempfile.TemporaryDirectory() as folder:
        folder = pathlib.Path(folder)
        endpoint, kind, environment = store_of(endpoint, folder)
        done = subprocess.run([sys.executable, "-W", "ignore", "-m", "torch.distributed.run", "--nnodes", str(hosts), "--nproc_per_node", str(workers),
                               "--max_restarts", "1", "--monitor_interval", "0.1", "--rdzv_id", "elastic", "--rdzv_backend", "c10d", "--rdzv_endpoint", endpoint,
                               "--rdzv_conf", f"is_host={host == 0}{kind}", "--log_dir", folder / "logs", __file__, folder, str(survivors), str(victim)],
                              capture_output=True, text=True, timeout=300, check=False, env={**os.environ, "OMP_NUM_THREADS": "1", **environment})
        assert done.returncode == 0, done.stdout + done.stderr
        told = list(folder.glob("told.?"))
        assert len(told) == survivors and len(list(folder.glob("value.?"))) == workers, list(folder.iterdir())
        for name in told:
            said = json.loads(name.read_text())
            assert said["code"] == "peer_dead" and said["text"].startswith("allreduce (number 11 of group "), said
            assert said["seconds"] < 1, said
            assert victim < 0 or said["peer"] == int((folder / "killed").read_text()), said
            print(f"note: {name.name}: {1e3 * said['seconds']:.0f} ms in the call: {said['text']}")
        for name in folder.glob("value.?"):
            assert json.loads(name.read_text()) == 1, name


if len(sys.argv) > 1:
    work(pathlib.Path(sys.argv[1]), int(sys.argv[2]), sys.argv[3])
elif "QPMESH_ROOT" in os.environ:
    here = int(os.environ["QPMESH_RANK"])
    test(int(os.environ["QPMESH_SIZE"]), here, os.environ["QPMESH_ROOT"], 2 if here == 0 else 1, 1 if here == 0 else -1)
else:
    for ranks in (2, 4):
        with socket.socket() as free:
            free.bind(("127.0.0.1", 0))
            port = free.getsockname()[1]
        test(1, 0, f"127.0.0.1:{port}", ranks, 1)
