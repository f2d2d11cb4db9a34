# SPDX-License-Identifier: MIT
# A sum over the ranks is under way while each rank computes something else.
import sys

import numpy
from mpi4py import MPI

count = 1 << 16
world = MPI.COMM_WORLD
rank, size = world.Get_rank(), world.Get_size()
values = numpy.full(count, rank + 1.0)
summing = world.Iallreduce(MPI.IN_PLACE, values)
computed = 0
for i in range(count):
    computed += i
    if i % (1 << 12) == 0:
        summing.Test()  # goes on
summing.Wait()
right = computed == count * (count - 1) // 2 and bool((values == size * (size + 1) / 2).all())
if rank == 0:
    print("overlap:", "right" if right else "wrong")
sys.exit(0 if right else 1)
