# SPDX-License-Identifier: MIT
# Each rank has a part of a line of points, and needs one point more at either end: its neighbours'.
import sys

import numpy
from mpi4py import MPI

count = 100  # of each rank
world = MPI.COMM_WORLD
rank, size = world.Get_rank(), world.Get_size()
left = rank - 1 if rank > 0 else MPI.PROC_NULL
right = rank + 1 if rank < size - 1 else MPI.PROC_NULL
squares = numpy.arange(rank * count - 1, (rank + 1) * count + 1, dtype=float) ** 2
points = squares.copy()
points[0] *= left < 0
points[-1] *= right < 0
world.Sendrecv(points[1:2], left, recvbuf=points[-1:], source=right)
world.Sendrecv(points[-2:-1], right, recvbuf=points[:1], source=left)
good = bool((points[:-2] - 2 * points[1:-1] + points[2:] == 2).all())  # the second difference of squares
good = world.allreduce(good, MPI.LAND)
if rank == 0:
    print("halo exchange:", "right" if good else "wrong")
sys.exit(0 if good else 1)
