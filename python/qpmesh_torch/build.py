# SPDX-License-Identifier: MIT
"""Loads the backend's library for the torch that is imported here. Compiles it first if there is none: no binary can serve two versions of torch."""

import contextlib
import fcntl
import glob
import hashlib
import importlib.util
import os
import platform
import re
import shutil
import subprocess
import sys
import sysconfig
import types
import warnings

import torch

tested = ("2.6", "2.13", "2.14")
here = os.path.dirname(os.path.abspath(__file__))
# CMake's build tree says in built_for.py which torch _library is for, and where the sources are.
built_for = types.SimpleNamespace(torch=None)
if os.path.exists(os.path.join(here, "built_for.py")):
    from . import built_for  # noqa: F811


def library():
    """The module _library for this torch."""
    version = torch.__version__
    if tuple(map(int, re.match(r"(\d+)\.(\d+)", version).groups())) < (2, 6):
        raise ImportError(f"qpmesh_torch needs torch 2.6 or later, and torch {version} is installed")
    if built_for.torch == version:
        from . import _library
        return _library
    if not version.startswith(tuple(each + "." for each in tested)):
        warnings.warn(f"qpmesh_torch was tested with torch {', '.join(tested)}, and not with {version}: it is compiled for it all the same",
                      stacklevel=4)
    package = os.path.join(os.path.dirname(here), "qpmesh")
    sources = getattr(built_for, "sources", os.path.join(here, "src"))
    includes = getattr(built_for, "includes", [sources, os.path.join(package, "include")])
    libqpmesh = getattr(built_for, "library", None) or next(iter(glob.glob(os.path.join(package, "lib", "libqpmesh.so*"))), None)
    if libqpmesh is None:
        raise ImportError(f"qpmesh_torch needs libqpmesh.so in {os.path.join(package, 'lib')}: install the package qpmesh again")
    # One folder for each torch, qpmesh, set of sources and place of libqpmesh: what is in it never changes.
    digest = hashlib.sha256(repr((version, sys.implementation.cache_tag, platform.machine(), sources, includes, libqpmesh)).encode())
    for name in sorted(glob.glob(os.path.join(sources, "*.[ch]pp")) + glob.glob(os.path.join(includes[-1], "qpmesh", "*.h"))):
        with open(name, "rb") as file:
            digest.update(file.read())
    with open(os.path.join(includes[-1], "qpmesh", "version.h"), encoding="utf-8") as file:
        own_version = re.search(r'QPMESH_VERSION "(.*)"', file.read())[1]
    name = re.sub(r"\W", "_", f"qpmesh_torch_{own_version}_for_torch_{version}_{digest.hexdigest()[:8]}")
    folder = os.path.join(_cache(), name)
    proof, path = os.path.join(folder, "proved"), os.path.join(folder, name + ".so")
    if os.path.exists(proof):
        return _module(name, path)
    try:
        os.makedirs(folder, exist_ok=True)
        lock = open(os.path.join(folder, "built.lock"), "w", encoding="utf-8")
    except OSError as error:
        raise ImportError(f"qpmesh_torch is compiled into {folder}, which cannot be written ({error}): set TORCH_EXTENSIONS_DIR") from error
    with lock:
        fcntl.flock(lock, fcntl.LOCK_EX)  # the other ranks of this host wait; a rank that is killed holds nothing up
        if os.path.exists(proof):
            return _module(name, path)
        made = _compile(name, folder, sources, includes, libqpmesh)
        _prove(made)
        open(proof, "w", encoding="utf-8").close()
        return made


def _cache():
    """The folder of torch's own extensions."""
    root = os.environ.get("TORCH_EXTENSIONS_DIR")
    if root is None:
        base = os.environ.get("XDG_CACHE_HOME") or os.path.join(os.path.expanduser("~"), ".cache")
        root = os.path.join(base, "torch_extensions", f"py{sys.version_info.major}{sys.version_info.minor}{getattr(sys, 'abiflags', '')}_cpu")
    return root


def _module(name, path):
    spec = importlib.util.spec_from_file_location(name, path)
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def _compile(name, folder, sources, includes, libqpmesh):
    _require_tools()
    try:
        from torch.utils import cpp_extension
    except ImportError as error:
        raise ImportError(f"qpmesh_torch is compiled by torch.utils.cpp_extension, which cannot be imported: {error}") from error
    with contextlib.suppress(FileNotFoundError):  # of a process that was killed: torch would wait for it without end
        os.remove(os.path.join(folder, "lock"))
    print(f"qpmesh_torch: compiling for torch {torch.__version__} in {folder} (once, about half a minute)", file=sys.stderr, flush=True)
    place = os.path.dirname(libqpmesh)
    if not shutil.which("ninja"):  # torch runs it by name, and its package may lie in an environment that is not active
        import ninja
        os.environ["PATH"] = os.pathsep.join([ninja.BIN_DIR, os.environ.get("PATH", os.defpath)])
    try:
        return cpp_extension.load(name, [os.path.join(sources, "all.cpp")], build_directory=folder, extra_include_paths=includes,
                                  extra_cflags=["-std=c++20", "-O2", "-fvisibility=hidden"], extra_ldflags=[libqpmesh, f"-Wl,-rpath,{place}"])
    except (RuntimeError, OSError, subprocess.SubprocessError) as error:
        raise ImportError(f"qpmesh_torch could not be compiled for torch {torch.__version__} in {folder}: {error}") from error


def _require_tools():
    """ImportError: names all that is missing, and the packages that have it."""
    def has_header(header):
        folders = [os.path.join(os.path.dirname(torch.__file__), "include"), "/usr/include", "/usr/local/include", sysconfig.get_paths()["include"]]
        return any(os.path.exists(os.path.join(folder, header)) for folder in folders)
    compiler = os.environ.get("CXX", "c++").split()[0]
    missing = [f"{what} ({packages})" for found, what, packages in (
        (shutil.which(compiler), f"a C++20 compiler, {compiler}", "Debian, Ubuntu: g++; Fedora: gcc-c++; Arch: gcc"),
        (shutil.which("ninja") or importlib.util.find_spec("ninja"), "ninja", "pip: ninja; Debian, Ubuntu, Fedora: ninja-build"),
        (has_header("Python.h"), "Python's headers", "Debian, Ubuntu: python3-dev; Fedora: python3-devel"),
        (has_header("torch/csrc/distributed/c10d/Backend.hpp"), "torch's headers", "Debian: libtorch-dev; pip: part of torch"),
        (has_header("pybind11/pybind11.h"), "pybind11's headers", "Debian: pybind11-dev; pip: part of torch")) if not found]
    if missing:
        raise ImportError(f"qpmesh_torch is compiled when it is first imported beside torch {torch.__version__}, and this is missing: "
                          + "; ".join(missing))


def _prove(made):
    """One call on one rank. ImportError: the library does not work beside this torch."""
    import datetime

    import torch.distributed as distributed
    try:
        alone = made.meet(distributed.HashStore(), 0, 1, "proof", datetime.timedelta(seconds=60), ["QPMESH_TRANSPORT=automatic"])
        tensor = torch.full((3,), 2.0)
        alone.allreduce([tensor], distributed.AllreduceOptions()).wait()
    except Exception as error:
        raise ImportError(f"qpmesh_torch was compiled for torch {torch.__version__}, and its first call failed: {error}") from error
    if tensor.tolist() != [2.0] * 3:
        raise ImportError(f"qpmesh_torch was compiled for torch {torch.__version__}, and its first sum is wrong: {tensor.tolist()}")
