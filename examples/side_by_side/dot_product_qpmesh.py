# SPDX-License-Identifier: MIT
# The inner product of two vectors that lie in parts on the ranks.
import sys

import numpy
import qpmesh

count = 1000  # of each rank
with qpmesh.init() as world:
    x = numpy.arange(world.rank * count, (world.rank + 1) * count, dtype=float)
    product = world.allreduce(float(x @ numpy.full(count, 2.0)))
    n = world.size * count
    right = product == n * (n - 1)
    if world.rank == 0:
        print("dot product:", "right" if right else "wrong")
sys.exit(0 if right else 1)
