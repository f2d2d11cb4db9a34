# SPDX-License-Identifier: MIT
# Mean and variance of samples that lie on the ranks, in one pass: parts are merged by a function.
import sys
from functools import reduce

from mpi4py import MPI


def merge(a, b):  # count, mean, squares of the distances from it
    count, distance = a[0] + b[0], b[1] - a[1]
    return count, a[1] + distance * b[0] / count, a[2] + b[2] + distance**2 * a[0] * b[0] / count


samples = 1000  # of each rank: 0, 1, 2, … over all ranks
world = MPI.COMM_WORLD
rank, size = world.Get_rank(), world.Get_size()
mine = reduce(merge, [(1, float(rank * samples + i), 0.0) for i in range(samples)])
count, _, squares = world.allreduce(mine, merge)
n = size * samples
right = count == n and abs(squares / n / ((n**2 - 1) / 12) - 1) < 1e-9
if rank == 0:
    print("user reduction:", "right" if right else "wrong")
sys.exit(0 if right else 1)
