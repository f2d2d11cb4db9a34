#include "base/interrupt.hpp"

#include <atomic>

#include "qpmesh/interrupt.hpp"

namespace qpmesh {
namespace {

std::atomic<InterruptCheck> check_of_process{nullptr};  // one function: it publishes nothing else

}  // namespace

void set_interrupt_check(InterruptCheck check) noexcept {
  check_of_process.store(check, std::memory_order_relaxed);
}

bool base::may_be_interrupted() noexcept {
  return check_of_process.load(std::memory_order_relaxed) != nullptr;
}

bool base::is_interrupted() noexcept {
  const InterruptCheck check = check_of_process.load(std::memory_order_relaxed);
  return check != nullptr && check();
}

}  // namespace qpmesh
