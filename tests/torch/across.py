# SPDX-License-Identifier: MIT
"""The program named, by ranks of several hosts: they meet in a store of TCP at QPMESH_ROOT's host."""

import datetime
import os
import runpy
import sys

import torch.distributed as dist

import job

host, port = os.environ["QPMESH_ROOT"].rsplit(":", 1)
meeting = dist.TCPStore(host, int(port), job.size, job.rank == 0, timeout=datetime.timedelta(seconds=120))
job.store = lambda name="store": dist.PrefixStore(name, meeting)
runpy.run_path(os.path.join(os.path.dirname(__file__), sys.argv[1]), run_name="__main__")
