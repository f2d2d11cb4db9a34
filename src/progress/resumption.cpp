// SPDX-License-Identifier: MIT
#include "progress/resumption.hpp"

#include <coroutine>
#include <exception>

namespace qpmesh::progress {
namespace {

// nullptr: this thread resumes nothing.
thread_local constinit ResumptionLine* resumed_here = nullptr;

void resume_one(void* coroutine, const base::Log& log) noexcept {
  try {
    std::coroutine_handle<>::from_address(coroutine).resume();
  } catch (const std::exception& error) {
    log.warning("a coroutine that waited for a request threw: {}", error.what());
  } catch (...) {
    log.warning("a coroutine that waited for a request threw what is no std::exception");
  }
}

}  // namespace

void ResumptionLine::push(std::shared_ptr<Resumption> one) noexcept {
  Resumption* const last = one.get();
  (empty() ? first_ : last_->next) = std::move(one);
  last_ = last;
}

void ResumptionLine::append(ResumptionLine&& others) noexcept {
  if (others.empty()) return;
  (empty() ? first_ : last_->next) = std::move(others.first_);
  last_ = std::exchange(others.last_, nullptr);
}

std::shared_ptr<Resumption> ResumptionLine::pop() noexcept {
  std::shared_ptr<Resumption> one = std::move(first_);
  first_ = std::move(one->next);
  if (first_ == nullptr) last_ = nullptr;
  return one;
}

void resume(ResumptionLine line, const base::Log& log) noexcept {
  if (resumed_here != nullptr) return resumed_here->append(std::move(line));
  resumed_here = &line;
  while (!line.empty()) {
    if (void* const coroutine = line.pop()->take(); coroutine != nullptr)
      resume_one(coroutine, log);
  }
  resumed_here = nullptr;
}

HeldResumptions::HeldResumptions(const base::Log& log) noexcept
    : log_{log}, outermost_{resumed_here == nullptr} {
  if (outermost_) resumed_here = &line_;
}

HeldResumptions::~HeldResumptions() {
  if (!outermost_) return;
  resumed_here = nullptr;
  resume(std::move(line_), log_);
}

}  // namespace qpmesh::progress
