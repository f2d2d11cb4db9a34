"""Requests in asyncio: `await world.allreduce_async(values)`. The loop sleeps in its own selector, on the library's
descriptor; nothing is polled, and there is no thread. What is awaited has no limit of its own: asyncio.wait_for sets
one."""

import asyncio
import weakref

from ._library import Error


class _Waiting:
    """The requests of one context that tasks of one event loop wait for."""

    def __init__(self, world):
        self.world = world
        self.requests = {}  # request: the future of who waits
        self.timer = None
        self.descriptor = world.wait_fd()

    def add(self, request):
        loop = asyncio.get_running_loop()
        future = loop.create_future()
        if not self.requests:
            loop.add_reader(self.descriptor, self.look)
        self.requests[request] = future
        loop.call_soon(self.look)
        return future

    def look(self):
        if self.timer is not None:
            self.timer.cancel()
            self.timer = None
        try:
            self.world.progress()
        except Error:
            pass  # each request tells what it ended with
        for request, future in list(self.requests.items()):
            try:
                over = request.test()  # also where its task was cancelled: until then it is kept
            except Exception:
                over = True  # wait() raises it again, in the task
            if over:
                del self.requests[request]
                if not future.done():
                    future.set_result(None)
        loop = asyncio.get_running_loop()
        if not self.requests:
            loop.remove_reader(self.descriptor)
            _waiting[loop].pop(self.descriptor, None)
            return
        self.timer = loop.call_later(self.world.arm_wait() / 1000, self.look)


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
            contexts[descriptor] = _Waiting(world)
        try:
            await contexts[descriptor].add(request)
        except asyncio.CancelledError:
            request.cancel()  # a receive is taken back; anything else goes on
            raise
    return request.wait()


def add_to(request, communicator):
    request.__await__ = lambda self: _end_of(self).__await__()
