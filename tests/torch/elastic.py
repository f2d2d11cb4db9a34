"""torchrun: a worker that is killed is an error with its number on all others, within a second, and the job starts again and ends well.

Without arguments it is the test: it runs torchrun over itself.
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

workers, victim = 3, 1


def work(folder):
    import torch
    import torch.distributed as dist

    import job
    import qpmesh_torch

    attempt = int(os.environ["TORCHELASTIC_RESTART_COUNT"])
    job.begin()
    tensor = torch.ones(1000)
    try:
        for step in range(20):
            if attempt == 0 and step == 10 and job.rank == victim:
                (folder / "killed_at").write_text(str(time.time()))
                os.kill(os.getpid(), signal.SIGKILL)
            dist.all_reduce(tensor, dist.ReduceOp.AVG)
    except qpmesh_torch.Error as error:
        said = {"seconds": time.time(), "code": error.code, "peer": error.peer, "text": str(error)}
        (folder / f"{attempt}.{job.rank}.part").write_text(json.dumps(said))
        (folder / f"{attempt}.{job.rank}.part").rename(folder / f"{attempt}.{job.rank}")
        # Who leaves now may be taken for the first to fail. torchrun ends it when all have told.
        while len(list(folder.glob("0.?"))) < workers - 1:
            time.sleep(0.01)
        raise
    (folder / f"{attempt}.{job.rank}").write_text(json.dumps({"value": tensor[0].item()}))
    dist.destroy_process_group()


def test():
    with socket.socket() as free, tempfile.TemporaryDirectory() as folder:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
        free.close()
        folder = pathlib.Path(folder)
        done = subprocess.run([sys.executable, "-m", "torch.distributed.run", "--nnodes", "1", "--nproc_per_node", str(workers), "--max_restarts", "1",
                               "--monitor_interval", "0.1", "--rdzv_backend", "c10d", "--rdzv_endpoint", f"127.0.0.1:{port}",
                               # Their defaults are lost with torch 1.13 under Python 3.11.
                               "--redirects", "1", "--tee", "2", "--log_dir", folder / "logs", __file__, folder],
                              capture_output=True, text=True, timeout=60, check=False, env={**os.environ, "OMP_NUM_THREADS": "1"})
        assert done.returncode == 0, done.stdout + done.stderr
        killed_at = float((folder / "killed_at").read_text())
        for rank in range(workers):
            if rank != victim:
                said = json.loads((folder / f"0.{rank}").read_text())
                assert said["code"] == "peer_dead" and said["peer"] == victim, said
                assert said["text"].startswith("allreduce (number 11 of group "), said
                assert said["seconds"] - killed_at < 1, said
                print(f"rank {rank}, {1e3 * (said['seconds'] - killed_at):.0f} ms behind: {said['text']}")
            assert json.loads((folder / f"1.{rank}").read_text()) == {"value": 1}


if len(sys.argv) > 1:
    work(pathlib.Path(sys.argv[1]))
else:
    test()
