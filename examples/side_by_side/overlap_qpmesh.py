# SPDX-License-Identifier: MIT
# A sum over the ranks is under way while each rank computes something else.
import sys

import numpy
import qpmesh

count = 1 << 16
with qpmesh.init() as world:
    values = numpy.full(count, world.rank + 1.0)
    summing = world.allreduce_async(values)
    computed = 0
    for i in range(count):
        computed += i
        if i % (1 << 12) == 0:
            summing.test()  # goes on
    summing.wait()
    right = computed == count * (count - 1) // 2 and bool((values == world.size * (world.size + 1) / 2).all())
    if world.rank == 0:
        print("overlap:", "right" if right else "wrong")
sys.exit(0 if right else 1)
