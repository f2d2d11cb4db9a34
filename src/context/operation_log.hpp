// The last operations of a rank, for the message that explains why one did not
// end. A few stores per operation.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>

namespace qpmesh::context {

class OperationLog {
 public:
  struct Entry {
    std::uint64_t number = 0;    // counts the operations of this context from 1
    std::string_view operation;  // a literal
    std::uint64_t bytes = 0;
    int peer = -1;  // rank in the communicator, or -1
    int tag = -1;
  };

  void add(std::string_view operation, std::uint64_t bytes, int peer = -1, int tag = -1) noexcept {
    entries_[next_++ % entries_.size()] = {next_, operation, bytes, peer, tag};
  }

  // The newest last: "#41 send 8 bytes to/from 1 tag 0, #42 barrier".
  std::string describe(std::size_t count_max) const;

 private:
  std::array<Entry, 64> entries_{};
  std::uint64_t next_ = 0;
};

}  // namespace qpmesh::context
