// SPDX-License-Identifier: MIT
// What the shared library shows: it is compiled with -fvisibility=hidden, and everything without
// this mark stays inside.
#pragma once

// Stands before a function, and between class and its name.
#ifdef __cplusplus
#define QPMESH_API [[gnu::visibility("default")]]
#else
#define QPMESH_API __attribute__((visibility("default")))
#endif

// Debug containers and old strings have another layout than those that the library was built with.
// A program that uses them looks for init() under a name that says so, and does not link.
#ifdef __cplusplus
#if defined(_GLIBCXX_DEBUG)
#define QPMESH_SAME_STANDARD_LIBRARY [[gnu::abi_tag("program_was_compiled_with_GLIBCXX_DEBUG")]]
#elif defined(_GLIBCXX_USE_CXX11_ABI) && !_GLIBCXX_USE_CXX11_ABI
#define QPMESH_SAME_STANDARD_LIBRARY [[gnu::abi_tag("program_was_compiled_with_old_strings")]]
#else
#define QPMESH_SAME_STANDARD_LIBRARY
#endif
#endif
