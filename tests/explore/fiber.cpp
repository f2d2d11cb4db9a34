// SPDX-License-Identifier: MIT
#include "explore/fiber.hpp"

#include <cstdint>
#include <cstdlib>
#include <cstring>
#include <utility>

#if defined(__SANITIZE_ADDRESS__)
#include <sanitizer/asan_interface.h>
#include <sanitizer/common_interface_defs.h>
#endif

// swapcontext asks the system for the signal mask, twice a switch: 5 µs where measured, and an
// exploration makes millions.
extern "C" void qpmesh_explore_switch(void** leave_top, void* enter_top);

#if defined(__x86_64__)
asm(R"(
.text
.type qpmesh_explore_switch, @function
qpmesh_explore_switch:
  pushq %rbp
  pushq %rbx
  pushq %r12
  pushq %r13
  pushq %r14
  pushq %r15
  movq %rsp, (%rdi)
  movq %rsi, %rsp
  popq %r15
  popq %r14
  popq %r13
  popq %r12
  popq %rbx
  popq %rbp
  ret
.size qpmesh_explore_switch, .-qpmesh_explore_switch
)");
#elif defined(__aarch64__)
asm(R"(
.text
.type qpmesh_explore_switch, %function
qpmesh_explore_switch:
  sub sp, sp, #160
  stp x19, x20, [sp, #0]
  stp x21, x22, [sp, #16]
  stp x23, x24, [sp, #32]
  stp x25, x26, [sp, #48]
  stp x27, x28, [sp, #64]
  stp x29, x30, [sp, #80]
  stp d8, d9, [sp, #96]
  stp d10, d11, [sp, #112]
  stp d12, d13, [sp, #128]
  stp d14, d15, [sp, #144]
  mov x9, sp
  str x9, [x0]
  mov sp, x1
  ldp x19, x20, [sp, #0]
  ldp x21, x22, [sp, #16]
  ldp x23, x24, [sp, #32]
  ldp x25, x26, [sp, #48]
  ldp x27, x28, [sp, #64]
  ldp x29, x30, [sp, #80]
  ldp d8, d9, [sp, #96]
  ldp d10, d11, [sp, #112]
  ldp d12, d13, [sp, #128]
  ldp d14, d15, [sp, #144]
  add sp, sp, #160
  ret
.size qpmesh_explore_switch, .-qpmesh_explore_switch
)");
#else
#error "no switch of stacks for this processor"
#endif

namespace qpmesh::explore {
namespace {

constexpr std::size_t stack_bytes = 256 << 10;
Fiber* entered = nullptr;  // whose first resume this is

#if defined(__x86_64__)
constexpr std::size_t registers_kept = 6;  // below the address that the switch returns to
constexpr std::size_t return_place = registers_kept;
constexpr std::size_t words_kept =
    registers_kept + 2;  // one more: a function is entered 8 bytes beside a multiple of 16
#else
constexpr std::size_t return_place = 11;  // x30
constexpr std::size_t words_kept = 20;
#endif

}  // namespace

Fiber::Fiber() : stack_{std::make_unique<std::byte[]>(stack_bytes)} {}
Fiber::~Fiber() { give_up(); }

void Fiber::start(std::function<void()> body) {
  give_up();
  body_ = std::move(body);
  ended_ = false;
#if defined(__SANITIZE_ADDRESS__)
  __asan_unpoison_memory_region(stack_.get(), stack_bytes);  // frames that were given up
#endif
  auto end = reinterpret_cast<std::uintptr_t>(stack_.get() + stack_bytes) & ~std::uintptr_t{15};
  auto* const top = reinterpret_cast<std::uintptr_t*>(end) - words_kept;
  std::memset(top, 0, words_kept * sizeof *top);
  top[return_place] = reinterpret_cast<std::uintptr_t>(&Fiber::enter);
  own_top_ = top;
}

// AddressSanitizer frees a fake stack, which is megabytes, only when its fiber leaves it for ever.
void Fiber::give_up() {
  if (own_fake_stack_ == nullptr) return;
  ended_ = true;
  resume();
}

void Fiber::resume() {
  entered = this;
#if defined(__SANITIZE_ADDRESS__)
  __sanitizer_start_switch_fiber(&others_fake_stack_, stack_.get(), stack_bytes);
#endif
  qpmesh_explore_switch(&others_top_, own_top_);
#if defined(__SANITIZE_ADDRESS__)
  __sanitizer_finish_switch_fiber(others_fake_stack_, nullptr, nullptr);
#endif
}

void Fiber::enter() {
  Fiber& fiber = *entered;
#if defined(__SANITIZE_ADDRESS__)
  __sanitizer_finish_switch_fiber(nullptr, &fiber.others_bottom_, &fiber.others_bytes_);
#endif
  fiber.body_();
  fiber.ended_ = true;
  fiber.leave(true);
  std::abort();  // nobody resumes what has ended
}

void Fiber::yield() {
  leave(false);
  if (ended_) leave(true);
}

void Fiber::leave([[maybe_unused]] bool for_ever) {
#if defined(__SANITIZE_ADDRESS__)
  if (for_ever) own_fake_stack_ = nullptr;
  __sanitizer_start_switch_fiber(for_ever ? nullptr : &own_fake_stack_, others_bottom_,
                                 others_bytes_);
#endif
  qpmesh_explore_switch(&own_top_, others_top_);
#if defined(__SANITIZE_ADDRESS__)
  __sanitizer_finish_switch_fiber(own_fake_stack_, &others_bottom_, &others_bytes_);
#endif
}

}  // namespace qpmesh::explore
