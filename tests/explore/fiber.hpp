// SPDX-License-Identifier: MIT
// A function with a stack of its own, which stops in the middle of any call and goes on from there
// later.
#pragma once

#include <cstddef>
#include <functional>
#include <memory>

namespace qpmesh::explore {

// Everything happens on one thread of the system: who resumes waits until the fiber yields or ends.
// A fiber that is given up is only forgotten: what lies on its stack is not destroyed.
class Fiber {
 public:
  Fiber();
  ~Fiber();
  Fiber(const Fiber&) = delete;
  Fiber& operator=(const Fiber&) = delete;

  // From its beginning at the next resume, whatever it did before.
  void start(std::function<void()> body);
  void resume();
  void yield();  // on the fiber itself
  bool has_ended() const noexcept { return ended_; }

 private:
  [[noreturn]] static void enter();
  void give_up();
  void leave(bool for_ever);

  std::unique_ptr<std::byte[]> stack_;
  std::function<void()> body_;
  void* own_top_ = nullptr;
  void* others_top_ = nullptr;
  // For AddressSanitizer, which follows stacks.
  void* own_fake_stack_ = nullptr;
  [[maybe_unused]] void* others_fake_stack_ = nullptr;
  [[maybe_unused]] const void* others_bottom_ = nullptr;
  [[maybe_unused]] std::size_t others_bytes_ = 0;
  bool ended_ = true;
};

}  // namespace qpmesh::explore
