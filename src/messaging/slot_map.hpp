// SPDX-License-Identifier: MIT
// Operations under the numbers that name them to a peer: slot and generation, so that a late answer
// to an operation that is gone finds nothing.
#pragma once

#include <cstddef>
#include <cstdint>
#include <new>
#include <utility>
#include <vector>

namespace qpmesh::messaging {

template <class T>
class SlotMap {
 public:
  // 0: none is left, because 65536 operations are in flight or memory is missing.
  std::uint32_t add(T& item) noexcept {
    if (first_free_ == slots_.size() && !grow()) return 0;
    const std::uint32_t slot = first_free_;
    first_free_ = slots_[slot].next_free;
    slots_[slot].item = &item;
    return slot << 16 | slots_[slot].generation;
  }
  T* find(std::uint32_t number) const noexcept {
    const std::uint32_t slot = number >> 16;
    if (slot >= slots_.size() || slots_[slot].generation != (number & 0xffffU)) return nullptr;
    return slots_[slot].item;
  }
  void remove(std::uint32_t number) noexcept {
    Slot& slot = slots_[number >> 16];
    slot.item = nullptr;
    slot.generation =
        static_cast<std::uint16_t>(slot.generation == 0xffff ? 1 : slot.generation + 1);
    slot.next_free = std::exchange(first_free_, number >> 16);
  }
  template <class F>
  void for_each(F&& f) {
    for (std::size_t i = 0; i < slots_.size(); ++i) {  // f may remove, and add
      if (T* const item = slots_[i].item; item != nullptr) f(*item);
    }
  }

 private:
  bool grow() noexcept {
    constexpr std::size_t slots_max = 1U << 16;
    if (slots_.size() == slots_max) return false;
    try {
      slots_.push_back({.next_free = static_cast<std::uint32_t>(slots_.size() + 1)});
    } catch (const std::bad_alloc&) {
      return false;
    }
    return true;
  }

  struct Slot {
    T* item = nullptr;
    std::uint32_t next_free = 0;
    std::uint16_t generation = 1;  // never 0: no number is 0
  };
  std::vector<Slot> slots_;
  std::uint32_t first_free_ = 0;  // as many as there are slots: none is free
};

}  // namespace qpmesh::messaging
