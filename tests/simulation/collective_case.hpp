// SPDX-License-Identifier: MIT
// Calls of collectives that the simulation makes: the same on every rank, walked through so that
// every row of the registry meets every element type, reduction, count, root and layout.
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "collectives/registry.hpp"
#include "qpmesh/communicator.hpp"
#include "simulator/random.hpp"

namespace qpmesh::test {

struct Element;

enum class Function : std::uint8_t {
  none,
  commutative,
  ordered
};  // a user's, on elements that are none of ours
struct Operator {
  ReductionKind kind = ReductionKind::sum;  // where there is no function
  Function function = Function::none;
};

enum class Layout : std::uint8_t {
  none,
  packed,
  gaps
};  // gaps: blocks backwards, with memory between them

struct CollectiveCase {
  const collectives::Algorithm* row = nullptr;
  const Element* element = nullptr;
  Operator reduction{};
  std::size_t element_count = 0;  // of the vector, or of each block
  int root = 0;
  bool in_place = false;
  Layout layout = Layout::none;
  bool exact = true;  // sums of floats, too: the reference has the same bits
  std::uint64_t seed = 0;
};
std::string describe(const CollectiveCase& one);
// The node of each rank in a case of the row; nothing: all are on one. Of a row for several nodes:
// equally many ranks or not, one node's behind another's or by turns, by the number of ranks.
// in_order: not by turns. Nothing, too, where the row is for no such number of ranks.
std::vector<int> nodes_of(const collectives::Algorithm& row, int size, bool in_order = false);
// The call as an algorithm's row sees it.
collectives::CallShape shape_of(const CollectiveCase& one, int size);
// Is there anything of so many ranks that the row applies to?
bool applies_to_ranks(const collectives::Algorithm& row, int size);
// Is it for ranks that share memory alone?
bool loads_memory(const collectives::Algorithm& row);
// Of some number of ranks.
bool takes_ordered(const collectives::Algorithm& row);
bool takes_even(const collectives::Algorithm& row);
bool takes_uneven(const collectives::Algorithm& row);

// A rank's memory in one call.
struct Ranges {
  std::span<std::byte> in;
  std::span<std::byte> out;
  BlockLayout in_layout{};
  BlockLayout out_layout{};
};

// An element type with its type taken off, so that everything else is compiled once.
struct Element {
  std::string_view name;
  std::size_t bytes;
  bool is_integer;
  bool is_user;  // reduced by functions alone
  // The elements from `first` on of a rank's input.
  void (*fill)(const CollectiveCase& one, int size, int rank, std::size_t first,
               std::span<std::byte> target);
  // left[i] = left[i] op right[i]
  void (*combine)(const CollectiveCase& one, std::span<std::byte> left, const std::byte* right);
  void (*divide)(std::span<std::byte> data, int divisor);
  // As close as the order of so many additions allows.
  bool (*near)(std::span<const std::byte> a, const std::byte* b, int size);
  Request (*start)(Communicator& communicator, const CollectiveCase& one, const Ranges& ranges);
};
std::span<const Element> elements();

constexpr bool reduces(Collective collective) {
  return collective == Collective::reduce || collective == Collective::allreduce ||
         collective == Collective::reduce_scatter || collective == Collective::scan ||
         collective == Collective::exscan;
}
constexpr bool has_blocks(Collective collective) {
  return collective == Collective::allgather || collective == Collective::gather ||
         collective == Collective::scatter || collective == Collective::alltoall ||
         collective == Collective::reduce_scatter;
}
constexpr bool has_root(Collective collective) {
  return collective == Collective::broadcast || collective == Collective::reduce ||
         collective == Collective::gather || collective == Collective::scatter;
}

// Numbers below a limit in random order, each of them once before any of them again.
class Deck {
 public:
  Deck(std::size_t card_count, std::uint64_t seed);
  std::size_t draw();
  bool drawn_whole() const noexcept { return rounds_ > 1 || next_ == cards_.size(); }

 private:
  std::vector<std::size_t> cards_;
  std::size_t next_;
  int rounds_ = 0;
  simulator::Random random_;
};

// Cases of one row, without end.
class Plan {
 public:
  explicit Plan(const collectives::Algorithm& row);

  CollectiveCase draw(int size, std::size_t bytes_max);
  std::vector<CollectiveCase> draw(int size, std::size_t bytes_max, int case_count);
  // An ordered reduction at every root, where the row has them and roots.
  std::vector<CollectiveCase> ordered(int size);
  bool met_everything() const noexcept;  // every value of every axis

 private:
  struct Kind {
    const Element* element;
    Operator reduction;
  };
  std::vector<Layout> layouts() const;

  const collectives::Algorithm* row_;
  std::vector<Kind> kinds_;  // what the row applies to
  std::vector<Layout> layouts_;
  std::uint64_t seed_;
  Deck kind_deck_;
  Deck layout_deck_;
  Deck count_deck_;
  Deck root_deck_;
  Deck place_deck_;
};

}  // namespace qpmesh::test
