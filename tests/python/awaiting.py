# SPDX-License-Identifier: MIT
"""Requests in asyncio: several at once, beside tasks of the program, and taken back."""

import asyncio
import time

import numpy
import qpmesh
from qpmesh.awaiting import _waiting


async def main(world, one_thread):
    rank, size = world.rank, world.size
    ticks = 0

    async def tick():
        nonlocal ticks
        while True:
            ticks += 1
            await asyncio.sleep(0)

    ticking = asyncio.create_task(tick())
    long, short = numpy.ones(1 << 18), numpy.ones(3)

    async def of(request):
        return await request

    first, second = await asyncio.gather(of(world.allreduce_async(long)), of(world.allreduce_async(short)))
    assert first is long and (long == size).all() and (second == size).all()
    got = numpy.empty(1)
    receiving = asyncio.create_task(of(world.receive_async(got, (rank - 1) % size)))
    await asyncio.sleep(0.02 * rank)  # the others wait meanwhile, and their loops turn
    await world.send_async(numpy.full(1, float(rank)), (rank + 1) % size)
    status = await receiving
    assert status.source == (rank - 1) % size and got[0] == status.source
    assert ticks > 3
    ticking.cancel()
    nothing = world.receive_async(got, tag=77)
    assert not nothing.cancelled and nothing.cancel() and nothing.cancelled
    assert await nothing is not None
    twice = world.receive_async(got, (rank - 1) % size, 79)
    both = asyncio.gather(of(twice), of(twice))
    await asyncio.sleep(0)
    await world.send_async(got.copy(), (rank + 1) % size, 79)
    assert [each.source for each in await both] == 2 * [(rank - 1) % size]
    if one_thread:
        late = world.receive_async(got, tag=78)
        try:
            await asyncio.wait_for(of(late), 0.05)
            raise AssertionError("nothing was received")
        except asyncio.TimeoutError:
            assert late.cancelled and not late.in_flight
    count = 200 if size > 1 else 0  # of messages, each of which comes though limits pass while they do
    if rank == 0:
        taken = []
        end = time.monotonic() + 30
        while len(taken) < count and time.monotonic() < end:
            receiving = world.receive_async(got, 1, 80)
            try:
                await asyncio.wait_for(receiving, 0.001)
            except asyncio.TimeoutError:
                if receiving.cancelled:
                    continue
                receiving.wait()  # the message came as the limit passed
            taken.append(got[0])
        assert taken == list(range(count)), taken
    elif rank == 1:
        for value in range(count):
            time.sleep(0.0011)
            world.send(float(value), 0, 80)


for threads in ("one", "several"):
    with qpmesh.init(threads=threads) as world:
        asyncio.run(main(world, threads == "one"))
        assert not _waiting  # for a loop that is over nothing is kept
