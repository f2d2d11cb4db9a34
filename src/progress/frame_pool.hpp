// SPDX-License-Identifier: MIT
// Memory for coroutine frames and scratch: freed blocks are kept by size, so that an operation like
// the last one allocates nothing. One pool per context; not thread-safe, like its context.
#pragma once

#include <array>
#include <cstddef>
#include <new>
#include <vector>

namespace qpmesh::progress {

class FramePool {
 public:
  FramePool() = default;
  ~FramePool();
  FramePool(const FramePool&) = delete;
  FramePool& operator=(const FramePool&) = delete;

  // 16-byte aligned. Throws std::bad_alloc.
  void* allocate(std::size_t bytes) {
    return bytes <= block_bytes_min && free_[0] != nullptr ? take_small() : allocate_slowly(bytes);
  }
  static void free(void* memory) noexcept {  // of any pool: the block knows its own
    Header* const block = static_cast<Header*>(memory) - 1;
    FramePool* const pool = block->pool;
    if (pool == nullptr) return ::operator delete(block);
    const std::size_t size_class = block->size_class;
    block->next = pool->free_[size_class];
    pool->free_[size_class] = block;
  }

  // The pool that `operator new` of coroutine frames takes from: a frame is allocated before its
  // promise exists, so nothing can be passed to it (gcc 12 warns about placement forms). Set for
  // the length of a Scope, per thread; without one frames come from the heap.
  class Scope {
   public:
    explicit Scope(FramePool& pool) noexcept : previous_{current_} { current_ = &pool; }
    ~Scope() { current_ = previous_; }
    Scope(const Scope&) = delete;
    Scope& operator=(const Scope&) = delete;

   private:
    FramePool* previous_;
  };
  static void* allocate_frame(std::size_t bytes) {
    FramePool* const pool = current_;
    // The usual frame.
    if (pool != nullptr && bytes <= block_bytes_min && pool->free_[0] != nullptr)
      return pool->take_small();
    return allocate_frame_slowly(bytes);
  }

 private:
  // In front of every block. 16 bytes, so that what follows keeps the alignment of operator new.
  struct alignas(16) Header {
    FramePool* pool;  // nullptr: from the heap, returns there
    union {
      std::size_t size_class;
      Header* next;  // while free; its class is the list it hangs in
    };
  };
  // Holds the frame of any algorithm for small vectors.
  static constexpr std::size_t block_bytes_min = 1024;
  static constexpr std::size_t class_count = 22;  // 1 KiB … 2 GiB in powers of two

  void* take_small() noexcept {  // there is one
    Header* const block = free_[0];
    free_[0] = block->next;
    block->size_class = 0;
    return block + 1;
  }
  void* allocate_slowly(std::size_t bytes);
  static void* allocate_from_heap(std::size_t bytes);
  static void* allocate_frame_slowly(std::size_t bytes);

  std::array<Header*, class_count> free_{};

  // constinit: read without a call to an initialiser. initial-exec: without one of the dynamic
  // linker's either, which a shared library's variable costs at each use; for one word a process
  // has room, however late it loads the library.
  [[gnu::tls_model("initial-exec")]] static constinit thread_local FramePool* current_;
};

// For containers: of the pool whose Scope they grow in.
template <class T>
struct PoolAllocator {
  using value_type = T;

  PoolAllocator() noexcept = default;
  template <class Other>
  PoolAllocator(const PoolAllocator<Other>& /*other*/) noexcept {}

  T* allocate(std::size_t count) {
    return static_cast<T*>(FramePool::allocate_frame(count * sizeof(T)));
  }
  void deallocate(T* memory, std::size_t /*count*/) noexcept { FramePool::free(memory); }
  bool operator==(const PoolAllocator&) const noexcept = default;
};
template <class T>
using PoolVector = std::vector<T, PoolAllocator<T>>;

}  // namespace qpmesh::progress
