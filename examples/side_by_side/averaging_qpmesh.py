# SPDX-License-Identifier: MIT
# The average of what the ranks have in a vector, such as gradients.
import sys

import numpy
import qpmesh

with qpmesh.init() as world:
    gradient = numpy.arange(1000, dtype=numpy.float32) + 2 * world.rank
    world.allreduce(gradient, "average")
    right = bool((gradient == numpy.arange(1000) + world.size - 1).all())
    if world.rank == 0:
        print("averaging:", "right" if right else "wrong")
sys.exit(0 if right else 1)
