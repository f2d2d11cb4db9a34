#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""allreduce of numpy arrays: the module qpmesh beside mpi4py over Open MPI, whole jobs in turn.

    python3 bench/consumers/python_beside_mpi4py.py [--build build/release] [--ranks 2,4] [--turns 5]

Each figure is the median of the turns' medians in us, of rank 0, with the least and the largest; ratio is mpi4py's over ours, of
each pair of jobs, so above 1 we are faster. Both write into an array that is there: world.allreduce(a, out=b), comm.Allreduce(a, b).
With --ranks 1 nothing is waited for, and a call of 8 bytes takes what a call costs.
"""

import argparse
import os
import statistics
import subprocess
import sys
import time
from pathlib import Path

LENGTHS = (8, 32 << 10, 1 << 20)  # bytes
BATCHES = 31


def measure(allreduce, barrier, ranks):
    """Median us of a call, for each length: of batches that take about as long."""
    import numpy
    for length in LENGTHS:
        mine = numpy.ones(length // 4, dtype=numpy.float32)
        out = numpy.empty_like(mine)
        calls = 2000 if length <= 8 else 200 if length <= 65536 else 20
        batches = []
        for _ in range(BATCHES + 2):
            barrier()
            begin = time.perf_counter()
            for _ in range(calls):
                allreduce(mine, out)
            batches.append(1e6 * (time.perf_counter() - begin) / calls)
        assert (out == ranks).all()
        yield statistics.median(batches[2:])  # the first ones find out which algorithm is best


def run_as(library):
    if library == "qpmesh":
        import qpmesh
        world = qpmesh.init()
        rank = world.rank
        times = list(measure(lambda mine, out: world.allreduce(mine, out=out), world.barrier, world.size))
    else:
        from mpi4py import MPI
        world = MPI.COMM_WORLD
        rank = world.rank
        times = list(measure(world.Allreduce, world.Barrier, world.size))
    if rank == 0:
        print("us", *times)


def job(library, ranks, build):
    program = [sys.executable, __file__, "--as", library]
    environment = dict(os.environ, PYTHONPATH=str(build / "python"), OMPI_ALLOW_RUN_AS_ROOT="1",
                       OMPI_ALLOW_RUN_AS_ROOT_CONFIRM="1")
    launcher = ([str(build / "bin/qpmesh-run"), "-np", str(ranks)] if library == "qpmesh"
                else ["mpirun.openmpi", "--oversubscribe", "-np", str(ranks)])
    done = subprocess.run(launcher + program, env=environment, stdout=subprocess.PIPE, text=True, timeout=120, check=True)
    line = next(line for line in done.stdout.splitlines() if line.startswith("us "))
    return [float(number) for number in line.split()[1:]]


def text(values):
    return f"{statistics.median(values):.2f} [{min(values):.2f} {max(values):.2f}]"


def main():
    arguments = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    arguments.add_argument("--build", type=Path, default=Path("build/release"))
    arguments.add_argument("--ranks", default="2,4")
    arguments.add_argument("--turns", type=int, default=5)
    arguments.add_argument("--as", dest="library", choices=("qpmesh", "mpi4py"), help=argparse.SUPPRESS)
    options = arguments.parse_args()
    if options.library:
        return run_as(options.library)
    print("| ranks | bytes | ours us | mpi4py us | ratio |\n|---|---|---|---|---|")
    for ranks in map(int, options.ranks.split(",")):
        turns = [(job("qpmesh", ranks, options.build), job("mpi4py", ranks, options.build)) for _ in range(options.turns)]
        for i, length in enumerate(LENGTHS):
            ours, theirs = [turn[0][i] for turn in turns], [turn[1][i] for turn in turns]
            ratios = [t / o for o, t in zip(ours, theirs)]
            print(f"| {ranks} | {length} | {text(ours)} | {text(theirs)} | {text(ratios)} |")


if __name__ == "__main__":
    main()
