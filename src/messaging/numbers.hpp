// Numbers that name operations to a peer: slot and generation, so that a late answer
// to an operation that is gone finds nothing.
#pragma once

#include <cstdint>
#include <vector>

namespace qpmesh::messaging {

template <class T>
class Numbers {
 public:
  // Throws std::bad_alloc; never fails otherwise before 65536 operations are in flight (returns 0 then).
  std::uint32_t add(T& item) {
    if (free_.empty()) {
      if (slots_.size() == slots_max) return 0;
      free_.push_back(static_cast<std::uint32_t>(slots_.size()));
      slots_.push_back({});
    }
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
    slot.generation = static_cast<std::uint16_t>(slot.generation == 0xffff ? 1 : slot.generation + 1);
    free_.push_back(number >> 16);  // has had this capacity before: does not allocate
  }
  template <class F>
  void for_each(F&& f) {
    for (std::size_t i = 0; i < slots_.size(); ++i) {
      if (T* const item = slots_[i].item; item != nullptr) f(*item);
    }
  }

 private:
  static constexpr std::size_t slots_max = 1U << 16;
  struct Slot {
    T* item = nullptr;
    std::uint16_t generation = 1;  // never 0: no number is 0
  };
  std::vector<Slot> slots_;
  std::vector<std::uint32_t> free_;
};

}  // namespace qpmesh::messaging
