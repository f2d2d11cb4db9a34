// What an algorithm's time is predicted from.
#pragma once

#include <algorithm>
#include <cmath>
#include <cstddef>

namespace qpmesh::collectives {

// A call as every rank knows it alike: what may decide which algorithm runs.
struct Shape {
  int size = 1;           // ranks
  std::size_t bytes = 0;  // of the whole vector, all blocks together; 0 where only the root knows
  bool ordered = false;   // operands must be combined in rank order
  bool uneven = false;    // a v-form whose block lengths only the ranks concerned know

  double ranks() const noexcept { return size; }
  double vector_bytes() const noexcept { return static_cast<double>(bytes); }
  double block_bytes() const noexcept { return vector_bytes() / ranks(); }
};

// LogGP of one link and one rank, in seconds (A. Alexandrov, M. Ionescu, K. Schauser, C. Scheiman, "LogGP", 1995), with the cost of
// reducing and copying beside it. A rank's outgoing bytes pass one port, one after the other.
struct Model {
  double latency_s;       // from the post of a small message to its receiver's next step
  double overhead_s;      // of each further message posted in the same round
  double byte_s;          // of a message
  double reduced_byte_s;  // of an operand that is combined with another
  double copied_byte_s;

  // One rank's k messages of so many bytes each, to k ranks, while as many come in: until the last has come.
  double round_s(int messages, double bytes_each) const noexcept {
    return latency_s + (messages - 1) * std::max(overhead_s, bytes_each * byte_s) + bytes_each * byte_s;
  }
};

// Of one call: the time until the last rank has its result, and what the rank that sends most sends.
struct Cost {
  double time_s = 0;
  double messages = 0;
  double bytes = 0;

  // One round of so many messages each, the same on every rank.
  Cost& add_round(const Model& model, int count, double bytes_each) noexcept {
    if (count == 0) return *this;
    time_s += model.round_s(count, bytes_each);
    messages += count;
    bytes += count * bytes_each;
    return *this;
  }
  Cost& operator+=(const Cost& other) noexcept {
    time_s += other.time_s;
    messages += other.messages;
    bytes += other.bytes;
    return *this;
  }
};

// Sends that an exchange among all ranks has in flight at once.
inline constexpr int exchange_window = 16;

// Every rank sends so many bytes to each other one, exchange_window of them at a time.
inline Cost exchange_cost(int size, double bytes_each, const Model& model) noexcept {
  Cost cost;
  int left = size - 1;
  for (; left > exchange_window; left -= exchange_window) cost.add_round(model, exchange_window, bytes_each);
  return cost.add_round(model, left, bytes_each);
}

}  // namespace qpmesh::collectives
