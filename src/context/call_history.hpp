// SPDX-License-Identifier: MIT
// What this rank has called: its last operations, for the message that says why one did not end,
// and the collectives of a communicator, by which two ranks see that they called different ones.
//
// The signature of a call stands for it and for all calls before it. So a difference that nobody
// saw at once, because neither side had to wait, shows in every later call, and the first one of
// the remembered signatures that differs is where it began.
#pragma once

#include <array>
#include <cstdint>
#include <new>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "base/bytes.hpp"
#include "collectives/registry.hpp"
#include "context/trace.hpp"
#include "qpmesh/communicator.hpp"

namespace qpmesh::context {

// A collective's name, hashed when it is compiled.
struct CollectiveName {
  consteval CollectiveName(const char* literal)
      : text{literal}, hash{base::mix64(std::string_view{literal})} {}
  explicit CollectiveName(Collective collective) noexcept
      : text{collectives::collective_name(collective)},
        hash{static_cast<std::uint64_t>(collective) + 1} {}
  std::string_view text;
  std::uint64_t hash;
};

// "float32", "elements of 12 bytes".
std::string describe_elements(ElementType type, std::size_t element_bytes);

// What every rank must say alike when it calls a collective.
struct CollectiveCall {
  static constexpr std::uint8_t no_reduction = 255;
  static constexpr std::uint8_t ordered_function = 254;
  static constexpr std::uint8_t commutative_function = 253;

  CollectiveName operation{"none"};
  std::uint64_t element_count = 0;
  std::uint32_t element_bytes = 0;
  ElementType type = ElementType::none;
  std::uint8_t reduction = no_reduction;  // one of the above, or else a ReductionKind
  bool has_layout = false;
  bool lies_apart = false;           // of a reduce_scatter with a layout, which says it in its hash
  bool algorithm_asked_for = false;  // by the call
  int root = -1;
  std::uint64_t layout_hash = 0;  // where every rank knows every length
  const collectives::Algorithm* algorithm = nullptr;

  std::uint32_t signature() const noexcept;
  std::string describe() const;  // "allreduce(1024 float32, sum)"
};

// The last operations of a context. A few stores each.
class OperationLog {
 public:
  // operation: a literal. peer: a rank in the communicator, or -1, and so is the tag.
  void add(std::string_view operation, std::uint64_t bytes, int peer = -1, int tag = -1) noexcept {
    entries_[count_++ % entries_.size()] = {operation, bytes, peer, tag};
    if (trace_ != nullptr) [[unlikely]]
      trace_->note({.bytes = bytes, .peer = peer, .tag = tag});
  }
  void add_collective(std::string_view operation, std::uint64_t bytes, std::uint64_t communicator,
                      std::uint32_t number) noexcept {
    entries_[count_++ % entries_.size()] = {operation, bytes, -1, -1};
    if (trace_ != nullptr) [[unlikely]] {
      trace_->note(
          {.bytes = bytes, .is_collective = true, .communicator = communicator, .number = number});
    }
  }
  void trace_to(Trace* trace) noexcept { trace_ = trace; }

  // With their numbers in this context, the newest last: "#41 send 8 bytes with 1 tag 0, #42
  // barrier".
  std::string describe() const;

 private:
  struct Entry {
    std::string_view operation;
    std::uint64_t bytes = 0;
    int peer = -1;
    int tag = -1;
  };
  std::array<Entry, 4> entries_{};
  std::uint64_t count_ = 0;
  Trace* trace_ = nullptr;
};

inline std::uint32_t CollectiveCall::signature() const noexcept {
  const std::uint64_t kinds = std::uint64_t{element_bytes} << 24 |
                              static_cast<std::uint64_t>(type) << 16 |
                              std::uint64_t{has_layout} << 8 | reduction;
  const std::uint64_t by = algorithm == nullptr ? ~std::uint64_t{0} : algorithm->hash;
  const std::uint64_t who = by << 32 ^ static_cast<std::uint32_t>(root);
  // A sum of products, which do not wait for each other, and one more, whose upper half depends on
  // every bit. The factors are odd and otherwise arbitrary.
  const std::uint64_t sum = operation.hash * 0x9fb21c651e98df25U +
                            element_count * 0xd6e8feb86659fd93U + kinds * 0xa0761d6478bd642fU +
                            who * 0xe7037ed1a0b428dbU + layout_hash;
  return static_cast<std::uint32_t>((sum ^ (sum >> 32)) * 0x94d049bb133111ebU >> 32);
}

class CallHistory {
 public:
  static constexpr std::size_t remembered_max = 128;

  // A collective begins. signature: of the call alone.
  struct Begun {
    std::uint32_t operation;  // its number
    std::uint32_t signature;  // of it and all before it
  };
  Begun begin(const CollectiveCall& call, std::uint32_t signature) noexcept {
    // Neither step loses anything, for the factor is odd: once different, signatures stay so while
    // the calls are the same.
    signature_ = (signature_ ^ signature) * 0x9e3779b1U;
    const std::uint64_t repeated = std::uint64_t{call.algorithm_asked_for} << 32 | signature;
    if (repeated_ != repeated) {
      repeated_ = repeated;
      ::new (&calls_[++last_call_ % remembered_max]) CollectiveCall{call};
    }
    remembered(next_operation_) = {next_operation_, signature_, last_call_};
    return {next_operation_++, signature_};
  }
  std::optional<Begun> last() const noexcept {
    if (next_operation_ == 0) return std::nullopt;
    return Begun{next_operation_ - 1, signature_};
  }

  // What a peer compares with its own: the signatures of the last calls, one after the other.
  struct Signatures {
    std::uint32_t first_operation = 0;
    std::vector<std::uint32_t> values{};
  };
  Signatures signatures() const;
  // The first call that a peer has called differently, of those that both have begun and still
  // remember. peer_saw_one: where there is no such call, what the peer says counts.
  std::optional<std::uint32_t> first_difference(const Signatures& peers,
                                                bool peer_saw_one = false) const noexcept;

  // Does a peer's signature of a collective agree with our call? True also when we have
  // not come to it, or no longer remember it.
  bool agrees(std::uint32_t operation, std::uint32_t signature) const noexcept {
    return !remembers(operation) || remembered(operation).signature == signature;
  }
  // Our call of it, or that we have not made it yet, or made it long ago.
  std::string describe(std::uint32_t operation) const;

 private:
  struct Remembered {
    std::uint32_t operation = 0;
    std::uint32_t signature = 0;
    std::uint32_t call = 0;  // in calls_
  };

  Remembered& remembered(std::uint32_t operation) noexcept {
    return remembered_[operation % remembered_max];
  }
  const Remembered& remembered(std::uint32_t operation) const noexcept {
    return remembered_[operation % remembered_max];
  }
  bool has_begun(std::uint32_t operation) const noexcept {
    return static_cast<std::int32_t>(next_operation_ - operation) > 0;
  }
  bool remembers(std::uint32_t operation) const noexcept {
    return has_begun(operation) && remembered(operation).operation == operation;
  }

  std::uint32_t next_operation_ = 0;
  std::uint32_t signature_ = 0;  // of the last call
  std::array<Remembered, remembered_max> remembered_{};
  // A call that is made again and again stands here once: a copy of each takes longer than all else
  // that is noted of it.
  std::array<CollectiveCall, remembered_max> calls_{};
  std::uint32_t last_call_ = 0;
  std::uint64_t repeated_ = ~std::uint64_t{0};  // which that is; at first none
};

}  // namespace qpmesh::context
