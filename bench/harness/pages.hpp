// SPDX-License-Identifier: MIT
// Memory of one process alone, page-aligned as in the peers' own benchmarks.
#pragma once

#include <cstddef>
#include <cstdlib>
#include <memory>
#include <new>

namespace qpmesh::bench {

struct FreePages {
  void operator()(void* memory) const noexcept { std::free(memory); }
};
template <class T>
using Pages = std::unique_ptr<T[], FreePages>;

template <class T>
Pages<T> make_pages(std::size_t count) {
  constexpr std::size_t page_bytes = 4096;
  const std::size_t whole_pages = (count * sizeof(T) + page_bytes - 1) / page_bytes * page_bytes;
  Pages<T> pages{static_cast<T*>(std::aligned_alloc(page_bytes, whole_pages))};
  if (whole_pages > 0 && !pages) throw std::bad_alloc{};
  return pages;
}

}  // namespace qpmesh::bench
