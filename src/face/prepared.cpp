// SPDX-License-Identifier: MIT
#include "qpmesh/prepared.hpp"

#include <exception>
#include <optional>
#include <string>
#include <utility>
#include <variant>
#include <vector>

#include "calls/argument_checks.hpp"
#include "face/access.hpp"
#include "qpmesh/communicator.hpp"

namespace qpmesh {
namespace calls {

// A layout with lists of its own.
struct OwnLayout {
  explicit OwnLayout(const detail::AnyLayout& layout)
      : counts{layout.counts.begin(), layout.counts.end()},
        displacements{layout.displacements.begin(), layout.displacements.end()},
        view{{counts, displacements}, layout.is_list} {}
  OwnLayout(const OwnLayout&) = delete;
  OwnLayout& operator=(const OwnLayout&) = delete;

  std::vector<std::size_t> counts;
  std::vector<std::size_t> displacements;
  detail::AnyLayout view;
};

// The communicator is one more handle on the same group. What it points to stays where it is.
struct PreparedOperation {
  template <class What>
  PreparedOperation(const Communicator& of, const What& given_call, const CallOptions& given)
      : communicator{detail::Access::communicator(
            detail::held(detail::Access::state(of), "prepare"))},
        algorithm{given.algorithm},
        options{given},
        what{given_call} {
    options.algorithm = algorithm;
    own(std::get<What>(what));
  }
  PreparedOperation(const PreparedOperation&) = delete;
  PreparedOperation& operator=(const PreparedOperation&) = delete;

  Communicator communicator;
  std::string algorithm;
  CallOptions options;
  std::variant<detail::AnyMessage, detail::AnyCollective, detail::AnyVectors> what;
  Request request{};

 private:
  void own(detail::AnyMessage& /*message*/) noexcept {}
  void own(detail::AnyCollective& call) {
    if (call.in_layout != nullptr) call.in_layout = &in_layout_.emplace(*call.in_layout).view;
    if (call.out_layout != nullptr) call.out_layout = &out_layout_.emplace(*call.out_layout).view;
    own(call.reduction);
  }
  void own(detail::AnyVectors& call) {
    vectors_.assign(call.vectors.begin(), call.vectors.end());
    call.vectors = vectors_;
    own(call.reduction);
  }
  void own(detail::AnyReduction& reduction) {
    if (reduction.copy == nullptr) return;
    function_ = reduction.copy(reduction.context);
    reduction.context = function_.get();
  }

  std::optional<OwnLayout> in_layout_{};
  std::optional<OwnLayout> out_layout_{};
  std::vector<detail::Elements> vectors_{};
  std::shared_ptr<const void> function_{};  // a user's reduction
};

}  // namespace calls

Prepared::Prepared(std::unique_ptr<calls::PreparedOperation>&& operation) noexcept
    : operation_{std::move(operation)} {}
Prepared::Prepared(Prepared&&) noexcept = default;
Prepared& Prepared::operator=(Prepared&&) noexcept = default;
Prepared::~Prepared() = default;

void Prepared::start() {
  calls::PreparedOperation& own = *detail::held(operation_, "start");
  if (own.request.is_in_flight()) {
    calls::bad_argument("start", "wait() for it first",
                        "it has been started, and neither wait() nor test() has told its end");
  }
  own.request = std::visit(
      [&](const auto& what) { return detail::Access::start(own.communicator, what, own.options); },
      own.what);
}

bool Prepared::test() { return detail::held(operation_, "test")->request.test(); }
Status Prepared::wait() { return detail::held(operation_, "wait")->request.wait(); }
bool Prepared::cancel() { return detail::held(operation_, "cancel")->request.cancel(); }
Request& Prepared::request() { return detail::held(operation_, "request")->request; }

void start_all(std::span<Prepared> operations) {
  for (Prepared& operation : operations) operation.start();
}

void wait_all(std::span<Prepared> operations) {
  std::exception_ptr first;
  for (Prepared& operation : operations) {
    try {
      operation.wait();
    } catch (...) {
      if (!first) first = std::current_exception();
    }
  }
  if (first) std::rethrow_exception(first);
}

Prepared Communicator::prepare(const detail::AnyMessage& what, const CallOptions& options) const {
  return detail::Access::prepared(std::make_unique<calls::PreparedOperation>(*this, what, options));
}
Prepared Communicator::prepare(const detail::AnyCollective& what,
                               const CallOptions& options) const {
  return detail::Access::prepared(std::make_unique<calls::PreparedOperation>(*this, what, options));
}
Prepared Communicator::prepare(const detail::AnyVectors& what, const CallOptions& options) const {
  return detail::Access::prepared(std::make_unique<calls::PreparedOperation>(*this, what, options));
}

Request Communicator::start_message(const detail::AnyMessage& what, const CallOptions& options) {
  switch (what.kind) {
    case detail::AnyMessage::Kind::send:
      return send_elements_async(what.sent, what.to, what.tags.sent, options);
    case detail::AnyMessage::Kind::receive:
      return receive_elements_async(what.received, what.from, what.tags.received, options);
    case detail::AnyMessage::Kind::sendrecv: break;
  }
  return sendrecv_elements_async(what.sent, what.to, what.received, what.from, what.tags, options);
}

}  // namespace qpmesh
