// SPDX-License-Identifier: MIT
// A message that was matched, and is received later.
#pragma once

#include <cstddef>
#include <vector>

#include "qpmesh/detail/standard.hpp"
#include "qpmesh/detail/untyped.hpp"
#include "qpmesh/element.hpp"
#include "qpmesh/export.h"
#include "qpmesh/request.hpp"

namespace qpmesh {

namespace calls {
struct MatchedMessage;
}

// What Communicator::match took out of the line: it is nobody else's, whatever receives there are.
// Move-only. What was not received when it goes is in line again where it was, or goes to a receive
// that waits for it.
class [[nodiscard]] QPMESH_API Message {
 public:
  // What was moved from can only be assigned to and destroyed; Error{bad_argument}.
  Message(Message&& other) noexcept;
  Message& operator=(Message&& other) noexcept;
  // Puts back what was not received.
  ~Message();

  // What a probe tells of it.
  const Status& status() const noexcept;

  // Once. Error{truncated}, Error{mismatch}: nothing was received, and it can be received into
  // something else. Error{bad_argument}: it was received.
  template <Target T>
  Status receive(T&& data, const CallOptions& options = {}) {
    return receive_elements(detail::elements(data), options);
  }
  // All of it.
  template <class T>
    requires detail::ElementRange<std::vector<T>>
  std::vector<T> receive(const CallOptions& options = {}) {
    std::vector<T> data(count_of(sizeof(T)));
    receive(data, options);
    return data;
  }
  // What does not fit is told by the call, as above.
  template <Target T>
  Request receive_async(T&& data, const CallOptions& options = {}) {
    return receive_elements_async(detail::elements(data), options);
  }

 private:
  friend struct detail::Access;

  explicit Message(std::unique_ptr<calls::MatchedMessage>&& message) noexcept;

  std::size_t count_of(std::size_t element_bytes) const;
  Status receive_elements(const detail::Elements& data, const CallOptions& options);
  Request receive_elements_async(const detail::Elements& data, const CallOptions& options);

  std::unique_ptr<calls::MatchedMessage> message_;
};

}  // namespace qpmesh
