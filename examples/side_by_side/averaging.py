# SPDX-License-Identifier: MIT
# The average of what the ranks have in a vector, such as gradients.
import sys

import numpy
from mpi4py import MPI

world = MPI.COMM_WORLD
rank, size = world.Get_rank(), world.Get_size()
gradient = numpy.arange(1000, dtype=numpy.float32) + 2 * rank
world.Allreduce(MPI.IN_PLACE, gradient)
gradient /= size
right = bool((gradient == numpy.arange(1000) + size - 1).all())
if rank == 0:
    print("averaging:", "right" if right else "wrong")
sys.exit(0 if right else 1)
