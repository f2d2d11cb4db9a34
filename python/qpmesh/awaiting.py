# SPDX-License-Identifier: MIT
"""Requests in asyncio: `await world.allreduce_async(values)`. The loop sleeps in its own selector, on the library's
descriptor, and there is no thread. What is awaited has no limit of its own: asyncio.wait_for sets one."""

import asyncio

from ._library import Error


# Another task's call may end what is awaited here, and rings nobody.
_LOOKS_APART_S = 0.02


class _Waiting:
    """The requests of one context that tasks of one event loop wait for."""

    def __init__(self, world, loop):
        self.world = world
        self.loop = loop
        self.requests = {}  # request: the futures of who waits
        self.timer = None
        self.descriptor = world.wait_fd()
        loop.add_reader(self.descriptor, self.look)

    def add(self, request):
        future = self.loop.create_future()
        self.requests.setdefault(request, []).append(future)
        self.loop.call_soon(self.look)
        return future

    def take_back(self, request, future):
        """Of a task that waits no more. A receive is taken back with the last of them, unless its message has come or
        is on its way; anything else goes on. True: it is over, or another task waits for it. False: it stays."""
        futures = self.requests.get(request, [])
        if future in futures:
            futures.remove(future)
        if any(not other.done() for other in futures):
            return True
        is_taken_back = request.cancel()
        if is_taken_back:
            self.requests.pop(request, None)
        if not self.requests:
            self.leave()
        return is_taken_back

    def look(self):
        if _waiting.get(self.loop, {}).get(self.descriptor) is not self:
            return  # it has left, and the descriptor may be another one's
        if self.timer is not None:
            self.timer.cancel()
            self.timer = None
        try:
            self.world.progress()
        except Error:
            pass  # each request tells what it ended with
        for request, futures in list(self.requests.items()):
            try:
                over = request.test()  # also where its task was cancelled: until then it is kept
            except Exception:
                over = True  # wait() raises it again, in the task
            if over:
                del self.requests[request]
                for future in futures:
                    if not future.done():
                        future.set_result(None)
        if self.requests:
            self.timer = self.loop.call_later(min(self.world.arm_wait() / 1000, _LOOKS_APART_S), self.look)
        else:
            self.leave()

    def leave(self):
        if self.timer is not None:
            self.timer.cancel()
        contexts = _waiting.get(self.loop, {})
        if contexts.get(self.descriptor) is self:
            del contexts[self.descriptor]
            self.loop.remove_reader(self.descriptor)
        if not contexts:
            _waiting.pop(self.loop, None)


_waiting = {}  # loop: {descriptor: _Waiting}; of a loop in which somebody waits


def _waiting_for(request):
    loop = asyncio.get_running_loop()
    for each in [each for each in _waiting if each.is_closed()]:  # with requests that nobody could take back
        del _waiting[each]
    world = request.communicator
    descriptor = world.wait_fd()
    contexts = _waiting.setdefault(loop, {})
    if descriptor not in contexts:
        contexts[descriptor] = _Waiting(world, loop)
    return contexts[descriptor]


def _is_all_of_its_task():
    """Does the task end with the request, as that of gather does, and until Python 3.11 that of asyncio.wait_for? Where
    its message has come such a task ends with it though it was cancelled: nobody else gets it."""
    return getattr(asyncio.current_task().get_coro(), "__name__", "") == "_wrap_awaitable"


async def _end_in_a_thread(request):
    is_receive = request.receives
    waited = asyncio.get_running_loop().run_in_executor(None, request.wait)
    try:
        return await asyncio.shield(waited)
    except asyncio.CancelledError:
        if not request.cancel() and is_receive and _is_all_of_its_task():
            await asyncio.wait([waited], timeout=_LOOKS_APART_S)  # the thread has its end, and the loop soon hears of it
            if waited.done():
                return waited.result()
        waited.cancel()
        raise


async def _end_of(request):
    is_receive = request.receives
    while not request.test():
        try:
            waiting = _waiting_for(request)
        except Error:  # several threads use the context: one more may wait
            return await _end_in_a_thread(request)
        future = waiting.add(request)
        try:
            await future
        except asyncio.CancelledError:
            is_taken_back = waiting.take_back(request, future)
            if is_taken_back or not (is_receive and _is_all_of_its_task() and request.test()):
                raise
    return request.wait()


def add_to(request, communicator):
    request.__await__ = lambda self: _end_of(self).__await__()
