# SPDX-License-Identifier: MIT
# C = A B, all three cut into a block for each rank of a grid (SUMMA): for each k, column k of A goes
# along the rows of the grid, row k of B down its columns, and each rank adds their product.
import sys

import numpy
import qpmesh

n = 48
with qpmesh.init() as world:
    rank, size = world.rank, world.size
    rows = 2 if size % 2 == 0 else 1
    height, width = n // rows, n // (size // rows)  # of a block
    top, left = rank // (size // rows) * height, rank % (size // rows) * width
    row, column = world.split(top), world.split(left)
    i, j = numpy.arange(top, top + height, dtype=float), numpy.arange(left, left + width, dtype=float)
    c = numpy.zeros((height, width))
    for k in range(n):
        a_column = i + k if k // width == left // width else numpy.empty(height)  # A: i + k
        b_row = k - j if k // height == top // height else numpy.empty(width)  # B: k - j
        row.broadcast(a_column, k // width)
        column.broadcast(b_row, k // height)
        c += numpy.outer(a_column, b_row)
    whole = numpy.subtract.outer(i, j) * n * (n - 1) / 2 - n * numpy.outer(i, j) + (n - 1) * n * (2 * n - 1) / 6
    right = world.allreduce(bool((c == whole).all()), "logical_and")
    if rank == 0:
        print("SUMMA:", "right" if right else "wrong")
sys.exit(0 if right else 1)
