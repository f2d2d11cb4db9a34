# SPDX-License-Identifier: MIT
"""The interpreter ends while daemon threads are inside the module: in calls, in a reduction in Python, in a receive that nothing comes for."""

import threading
import time

import numpy
import qpmesh

world = qpmesh.init(threads="several")
of_functions, of_receives = world.duplicate(), world.duplicate()


def add(left, right):
    time.sleep(0.0001)
    return left + right


def sum_again_and_again(group, operation):
    while True:
        group.allreduce(numpy.ones(20), operation)


for work, *arguments in (
    (sum_again_and_again, world, "sum"),
    (sum_again_and_again, of_functions, add),
    (of_receives.receive, numpy.empty(1), world.rank, 5),
):
    threading.Thread(target=work, args=arguments, daemon=True).start()
time.sleep(0.1)  # they are under way: nothing tells where
