#include "progress/frame_pool.hpp"

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

FramePool::Header* FramePool::new_block(std::size_t bytes) {
  return static_cast<Header*>(::operator new(sizeof(Header) + bytes));
}

void* FramePool::allocate(std::size_t bytes) {
  constexpr auto min_log2 = static_cast<std::size_t>(std::countr_zero(block_bytes_min));
  const std::size_t log2 =
      bytes <= block_bytes_min ? min_log2 : static_cast<std::size_t>(std::bit_width(bytes - 1));
  const std::size_t size_class = log2 - min_log2;
  Header* block = nullptr;
  if (size_class >= class_count) {  // larger than anything kept
    block = new_block(bytes);
    block->pool = nullptr;
    return block + 1;
  }
  if (free_[size_class] != nullptr) {
    block = free_[size_class];
    free_[size_class] = block->next;
  } else {
    block = new_block(std::size_t{1} << log2);
  }
  block->pool = this;
  block->size_class = size_class;
  return block + 1;
}

void* FramePool::allocate_frame_slowly(std::size_t bytes) {
  if (current_ != nullptr) return current_->allocate(bytes);
  Header* const block = new_block(bytes);
  block->pool = nullptr;
  return block + 1;
}

}  // namespace qpmesh::progress
