// SPDX-License-Identifier: MIT
// A call that is made again and again.
#pragma once

#include <span>

#include "qpmesh/detail/standard.hpp"
#include "qpmesh/export.h"
#include "qpmesh/request.hpp"

namespace qpmesh {

namespace calls {
struct PreparedOperation;
}

// What Communicator::prepare_… makes: the call with its arguments, not made yet. start() makes it
// as its _async form would, with what its memory holds then; wait() ends it, and it can be started
// again. Collectives match in the order in which they are started, on every rank. The memory is the
// caller's, and stays where it is; counts of blocks, the name of an algorithm and a reduction are
// copied. Move-only. Its destructor is that of its Request.
class [[nodiscard]] QPMESH_API Prepared {
 public:
  // What was moved from can only be assigned to and destroyed; Error{bad_argument}.
  Prepared(Prepared&& other) noexcept;
  Prepared& operator=(Prepared&& other) noexcept;
  ~Prepared();

  // Throws what the _async form throws, and Error{bad_argument} while it is in flight.
  void start();
  // As those of Request; never started: done.
  bool test();
  Status wait();
  bool cancel();
  // The one in flight, or the last one: for wait_any and its like it can be moved out, and then it
  // is theirs.
  Request& request();

 private:
  friend struct detail::Access;

  explicit Prepared(std::unique_ptr<calls::PreparedOperation>&& operation) noexcept;

  std::unique_ptr<calls::PreparedOperation> operation_;
};

// Throws the first error; those before it are started.
QPMESH_API void start_all(std::span<Prepared> operations);
// All of them, then the first error in the order of the span.
QPMESH_API void wait_all(std::span<Prepared> operations);

}  // namespace qpmesh
