"""Requests in asyncio: `await world.allreduce_async(values)`. The loop sleeps in its own selector, on the library's
descriptor; nothing is polled, and there is no thread. What is awaited has no limit of its own: asyncio.wait_for sets
one."""

import asyncio
import weakref

from ._library import Error


class _Waiting:
    """The requests of one context that tasks of one event loop wait for."""

    def __init__(self, world, loop):
        self.world = world
        self.loop = loop
        self.requests = {}  # request: the future of who waits
        self.timer = None
        self.descriptor = world.wait_fd()

    def add(self, request):
        future = self.loop.create_future()
        if not self.requests:
            self.loop.add_reader(self.descriptor, self.look)
        self.requests[request] = future
        self.loop.call_soon(self.look)
        return future

    def look(self):
        if self.timer is not None:
            self.timer.cancel()
            self.timer = None
        for request, future in list(self.requests.items()):
            try:
                over = future.done() or request.test()  # a task that was cancelled waits no more
            except Exception:
                over = True  # wait() raises it again, in the task
            if over:
                del self.requests[request]
                if not future.done():
                    future.set_result(None)
        if not self.requests:
            self.loop.remove_reader(self.descriptor)
            return
        sleep_ms = self.world.arm_wait()
        if sleep_ms == 0:
            self.timer = self.loop.call_later(0, self.look)
        else:
            self.timer = self.loop.call_later(sleep_ms / 1000, self.look)


_waiting = weakref.WeakKeyDictionary()  # loop: {descriptor: _Waiting}


async def _end_of(request):
    if not request.test():
        loop = asyncio.get_running_loop()
        world = request.communicator
        try:
            descriptor = world.wait_fd()
        except Error:  # several threads use the context: one more may wait
            return await loop.run_in_executor(None, request.wait)
        contexts = _waiting.setdefault(loop, {})
        if descriptor not in contexts:
            contexts[descriptor] = _Waiting(world, loop)
        try:
            await contexts[descriptor].add(request)
        except asyncio.CancelledError:
            request.cancel()  # a receive is taken back; anything else goes on
            raise
    return request.wait()


def add_to(request, communicator):
    request.__await__ = lambda self: _end_of(self).__await__()
