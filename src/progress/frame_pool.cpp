// SPDX-License-Identifier: MIT
#include "progress/frame_pool.hpp"

#include <algorithm>
#include <bit>
#include <new>

namespace qpmesh::progress {

constinit thread_local FramePool* FramePool::current_ = nullptr;

FramePool::~FramePool() {
  for (Header* block : free_) {
    while (block != nullptr) {
      Header* const next = block->next;
      ::operator delete(block);
      block = next;
    }
  }
}

void* FramePool::allocate_from_heap(std::size_t bytes) {
  auto* const block = static_cast<Header*>(::operator new(sizeof(Header) + bytes));
  block->pool = nullptr;
  return block + 1;
}

void* FramePool::allocate_slowly(std::size_t bytes) {
  // How often the smallest block is doubled until it holds so much.
  const std::size_t beyond = (std::max<std::size_t>(bytes, 1) - 1) / block_bytes_min;
  const auto size_class = static_cast<std::size_t>(std::bit_width(beyond));
  if (size_class >= class_count) return allocate_from_heap(bytes);  // larger than anything kept
  Header* block = free_[size_class];
  if (block != nullptr) free_[size_class] = block->next;
  else block = static_cast<Header*>(allocate_from_heap(block_bytes_min << size_class)) - 1;
  block->pool = this;
  block->size_class = size_class;
  return block + 1;
}

void* FramePool::allocate_frame_slowly(std::size_t bytes) {
  return current_ != nullptr ? current_->allocate(bytes) : allocate_from_heap(bytes);
}

}  // namespace qpmesh::progress
