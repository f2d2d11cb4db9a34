# SPDX-License-Identifier: MIT
"""A backend of torch.distributed: import qpmesh_torch, then init_process_group("qpmesh").

Error has code (as "peer_dead"), peer, operation, cause, system_error and hint. docs/torch.md says the rest.
"""

import atexit
import contextlib

try:
    import torch
    import torch.distributed as distributed
except ImportError as error:
    raise ImportError(f"qpmesh_torch needs torch 2.6 or later, which was not found: install it for this Python ({error})") from error
if not distributed.is_available():
    raise ImportError("this torch was built without torch.distributed: install one that has it")

from . import build  # noqa: E402  what the library is linked with is in torch

_library = build.library()
Error = _library.Error
__version__ = _library.__version__

_memory = (None, 0)  # what set_memory() was last given


def _group(group):
    if group is None:
        if not distributed.is_initialized():
            raise RuntimeError("qpmesh_torch: there is no process group yet; call init_process_group(\"qpmesh\") first")
        group = distributed.distributed_c10d._get_default_group()
    backend = group._get_backend(torch.device("cpu")) if hasattr(group, "_get_backend") else group
    return getattr(backend, "wrapped_pg", backend)  # TORCH_DISTRIBUTED_DEBUG=DETAIL wraps it


def _make(options, pg_options=None):
    """One process group of torch's. A group of ranks of a world that is ours is made from that, and meets nobody anew."""
    ranks = list(options.global_ranks_in_group)
    world = _group(None) if ranks and distributed.is_initialized() else None
    if world is not None and _library.is_ours(world):
        if pg_options:
            raise ValueError(f"qpmesh_torch: new_group with pg_options {pg_options}: options are the world's; give them to init_process_group")
        return _library.subgroup(world, ranks, options.group_id, options.timeout)
    if not isinstance(pg_options or {}, dict):
        raise TypeError(f"qpmesh_torch: pg_options is a dict of options and values, not {pg_options!r}")
    if any(name.lower() == "timeout_ms" for name in pg_options or {}):
        raise ValueError("qpmesh_torch: the limit of calls is init_process_group's `timeout`, not timeout_ms of pg_options")
    settings = [f"QPMESH_{name.upper()}={_text(value)}" for name, value in (pg_options or {}).items()]
    return _library.meet(options.store, options.group_rank, options.group_size, options.group_id, options.timeout, settings)


def _text(value):
    return {True: "yes", False: "no"}.get(value, str(value)) if isinstance(value, bool) else str(value)


def empty(*shape, dtype=None, group=None):
    """A tensor, all zero, in memory that the other ranks of the host reach without a copy. For this rank alone, at any time."""
    shape = shape[0] if len(shape) == 1 and not isinstance(shape[0], int) else shape
    dtype = dtype or torch.get_default_dtype()
    like = torch.empty(0, dtype=dtype)
    count = 1
    for length in shape:
        count *= length
    if count == 0:
        return torch.empty(shape, dtype=dtype)
    return _library.empty_bytes(_group(group), count * like.element_size()).view(dtype).view(shape)


@contextlib.contextmanager
def shared_memory(group=None, bytes_min=16 * 1024):
    """Tensors of the host that torch makes meanwhile lie in such memory, too: parameters, gradients, buckets."""
    global _memory
    before, _memory = _memory, (_group(group), bytes_min)
    _library.set_memory(*_memory)
    try:
        yield
    finally:
        _memory = before
        _library.set_memory(*_memory)


def abort(reason, group=None):
    """Operations in flight, and all later ones, fail on every rank of the group."""
    _library.abort(_group(group), reason)


@atexit.register
def _leave():
    _library.stop()


distributed.Backend.register_backend("qpmesh", _make, extended_api=True, devices=["cpu"])
