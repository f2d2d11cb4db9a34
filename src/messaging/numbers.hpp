// Numbers that name operations to a peer: slot and generation, so that a late answer
// to an operation that is gone finds nothing.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <new>
#include <vector>

namespace qpmesh::messaging {

template <class T>
class Numbers {
 public:
  // 0: none is left, because 65536 operations are in flight or memory is missing.
  std::uint32_t add(T& item) noexcept {
    if (free_.empty() && !grow()) return 0;
    const std::uint32_t slot = free_.back();
    free_.pop_back();
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
    free_.push_back(number >> 16);  // has room for every slot: does not allocate
  }
  template <class F>
  void for_each(F&& f) {
    for (std::size_t i = 0; i < slots_.size(); ++i) {
      if (T* const item = slots_[i].item; item != nullptr) f(*item);
    }
  }

 private:
  bool grow() noexcept {
    constexpr std::size_t room_min = 16;
    if (slots_.size() == slots_max) return false;
    try {
      if (free_.capacity() == slots_.size()) free_.reserve(std::max(room_min, 2 * slots_.size()));
      slots_.push_back({});
    } catch (const std::bad_alloc&) {
      return false;
    }
    free_.push_back(static_cast<std::uint32_t>(slots_.size() - 1));
    return true;
  }

  static constexpr std::size_t slots_max = 1U << 16;
  struct Slot {
    T* item = nullptr;
    std::uint16_t generation = 1;  // never 0: no number is 0
  };
  std::vector<Slot> slots_;
  std::vector<std::uint32_t> free_;
};

}  // namespace qpmesh::messaging
