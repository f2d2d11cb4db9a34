// The entry of a call.
#pragma once

#include <string_view>

#include "calls/argument_checks.hpp"
#include "context/communicator_state.hpp"

namespace qpmesh::calls {

// As long as a call runs: no other one is inside the context. Throws what a call that begins now
// must throw, in this order: another thread is inside, the communicator has failed or finished, the
// options make no sense.
class CallScope {
 public:
  CallScope(context::CommunicatorState& communicator, std::string_view operation,
            const CallOptions& options)
      : entry_{communicator.context(), operation} {
    communicator.require_usable(operation);
    check_options(options, operation);
  }

 private:
  context::Context::Entry entry_;
};

}  // namespace qpmesh::calls
