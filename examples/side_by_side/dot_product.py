# SPDX-License-Identifier: MIT
# The inner product of two vectors that lie in parts on the ranks.
import sys

import numpy
from mpi4py import MPI

count = 1000  # of each rank
world = MPI.COMM_WORLD
rank, size = world.Get_rank(), world.Get_size()
x = numpy.arange(rank * count, (rank + 1) * count, dtype=float)
product = world.allreduce(float(x @ numpy.full(count, 2.0)))
n = size * count
right = product == n * (n - 1)
if rank == 0:
    print("dot product:", "right" if right else "wrong")
sys.exit(0 if right else 1)
