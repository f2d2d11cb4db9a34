# SPDX-License-Identifier: MIT
"""Prints, as a list of CMake's, torch's version, its folder, and 1 where its strings are of the new ABI."""

import os

import torch

print(torch.__version__, os.path.dirname(torch.__file__), int(torch._C._GLIBCXX_USE_CXX11_ABI), sep=";")
