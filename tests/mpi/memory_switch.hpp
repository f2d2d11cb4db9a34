// SPDX-License-Identifier: MIT
// The memory of C++, which a test takes away and gives back. In one source of a program.
#pragma once

#include <cstddef>
#include <cstdlib>
#include <new>

inline bool memory_is_there = true;

void* operator new(std::size_t bytes) {
  void* const got = memory_is_there ? std::malloc(bytes) : nullptr;
  if (got == nullptr) throw std::bad_alloc{};
  return got;
}
void operator delete(void* got) noexcept { std::free(got); }
void operator delete(void* got, std::size_t) noexcept { std::free(got); }
