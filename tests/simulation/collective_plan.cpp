// SPDX-License-Identifier: MIT
// Which cases a row of the registry gets.
#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <numeric>

#include "base/bytes.hpp"
#include "collectives/hierarchy.hpp"
#include "simulation/collective_case.hpp"
#include "support/reference_reduction.hpp"

namespace qpmesh::test {
namespace {

constexpr std::array kind_names{"sum",         "product",    "min",        "max",
                                "average",     "bit_and",    "bit_or",     "bit_xor",
                                "logical_and", "logical_or", "logical_xor"};
constexpr std::size_t kind_count = kind_names.size();
constexpr std::array functions{"", "a commutative function", "an ordered function"};
constexpr std::array layout_names{"", ", packed blocks", ", blocks with gaps"};

// Around the edges of blocks, of eager messages (1 KiB here), of payload rings (4 KiB) and of a
// pipeline's segments (64 KiB).
constexpr std::size_t count_cards = 20;
std::size_t element_count(std::size_t card, std::size_t size, std::size_t element_bytes) {
  const std::size_t eager = 1024 / element_bytes;
  const std::size_t ring = 4096 / element_bytes;
  const std::size_t segment = 65'536 / element_bytes;
  const std::array<std::size_t, count_cards> counts{
      0,           1,         2,    7,        17,       size - 1, size,  size + 1,    2 * size + 1,
      eager - 1,   eager + 0, ring, ring - 1, ring + 1, 1'000,    3'001, segment - 1, segment,
      segment + 1, eager + 1};
  return counts[card];
}

collectives::Levels levels_of(const std::vector<int>& nodes) {
  return collectives::Placement{nodes}.levels();
}
bool takes_place_in_order(const CollectiveCase& one) {
  return one.reduction.function == Function::ordered;
}

}  // namespace

std::vector<int> nodes_of(const collectives::Algorithm& row, int size, bool in_order) {
  const auto make = [&](auto&& node_of) {
    std::vector<int> nodes(static_cast<std::size_t>(size));
    for (int rank = 0; rank < size; ++rank) nodes[static_cast<std::size_t>(rank)] = node_of(rank);
    return nodes;
  };
  const auto applies = [&](const std::vector<int>& nodes) {
    const collectives::Levels levels = levels_of(nodes);
    return row.applies({.size = size, .bytes = 64, .levels = levels}) ||
           row.applies({.size = size, .bytes = 64, .uneven = true, .levels = levels});
  };
  if (row.applies({.size = size, .bytes = 64}) || size < 3) return {};
  const int half = (size + 1) / 2;
  const int third = (size + 2) / 3;
  const std::array<std::vector<int>, 7> all{
      make([&](int rank) { return rank % half; }),
      make([&](int rank) { return rank / third; }),
      make([&](int rank) { return rank / 2; }),
      make([&](int rank) { return rank % 2; }),
      make([&](int rank) { return rank < 2 ? 7 : 3; }),
      make([&](int rank) { return rank / half; }),
      make([&](int rank) { return 5 - rank * rank % 4; }),
  };
  for (std::size_t i = 0; i < all.size(); ++i) {
    const std::vector<int>& nodes = all[(i + static_cast<std::size_t>(size)) % all.size()];
    if (applies(nodes) && (!in_order || levels_of(nodes).in_order)) return nodes;
  }
  return {};
}

std::string describe(const CollectiveCase& one) {
  const Operator& reduction = one.reduction;
  const std::string with =
      !reduces(one.row->collective) ? ""
      : reduction.function == Function::none
          ? std::string{", "} + kind_names[static_cast<std::size_t>(reduction.kind)]
          : std::string{", "} + functions[static_cast<std::size_t>(reduction.function)];
  return fmt::format("{} by {} of {} {}{}, root {}{}{}, seed {}", name_of(one.row->collective),
                     one.row->name, one.element_count, one.element->name, with, one.root,
                     one.in_place ? ", in place" : "",
                     layout_names[static_cast<std::size_t>(one.layout)], one.seed);
}

collectives::CallShape shape_of(const CollectiveCase& one, int size) {
  const Collective collective = one.row->collective;
  const std::size_t blocks = has_blocks(collective) ? static_cast<std::size_t>(size) : 1;
  const bool known_to_all =
      collective == Collective::allgather || collective == Collective::reduce_scatter;
  return {.size = size,
          .bytes = one.element_count * blocks * one.element->bytes,
          .ordered = one.reduction.function == Function::ordered,
          .uneven = one.layout != Layout::none && !known_to_all,
          .one_node = true,
          .cma = true,
          .element_bytes = reduces(collective) ? one.element->bytes : 1,
          .levels = levels_of(nodes_of(*one.row, size, takes_place_in_order(one)))};
}

namespace {

constexpr std::size_t some_bytes =
    64;  // no row is for shorter vectors only, or for longer ones only
constexpr std::array some_sizes{2, 4, 64};  // of 4: two nodes of two ranks

bool applies_to_some(const collectives::Algorithm& row, collectives::CallShape shape,
                     bool one_node = true) {
  shape.bytes = some_bytes;
  shape.one_node = shape.cma = one_node;
  return std::ranges::any_of(some_sizes, [&](int size) {
    shape.size = size;
    if (size > 2) {
      shape.levels = {
          .nodes = 2, .node_ranks_min = size / 2, .node_ranks_max = size / 2, .in_order = true};
    }
    return row.applies(shape);
  });
}

}  // namespace

bool applies_to_ranks(const collectives::Algorithm& row, int size) {
  const auto applies = [&](bool uneven) {
    return row.applies({.size = size,
                        .bytes = some_bytes,
                        .uneven = uneven,
                        .one_node = true,
                        .cma = true,
                        .levels = levels_of(nodes_of(row, size))});
  };
  return applies(false) || applies(true);
}
bool loads_memory(const collectives::Algorithm& row) {
  return !applies_to_some(row, {}, false) && !applies_to_some(row, {.uneven = true}, false);
}
bool takes_ordered(const collectives::Algorithm& row) {
  return reduces(row.collective) && applies_to_some(row, {.ordered = true});
}
bool takes_even(const collectives::Algorithm& row) { return applies_to_some(row, {}); }
bool takes_uneven(const collectives::Algorithm& row) {
  return applies_to_some(row, {.uneven = true});
}

Deck::Deck(std::size_t card_count, std::uint64_t seed)
    : cards_(card_count), next_{card_count}, random_{seed} {
  std::iota(cards_.begin(), cards_.end(), std::size_t{0});
}

std::size_t Deck::draw() {
  if (next_ == cards_.size()) {
    random_.shuffle(std::span{cards_});
    next_ = 0;
    ++rounds_;
  }
  return cards_[next_++];
}

std::vector<Layout> Plan::layouts() const {
  std::vector<Layout> all;
  if (takes_even(*row_)) all.push_back(Layout::none);
  if (!has_blocks(row_->collective) || !takes_uneven(*row_)) return all;
  all.push_back(Layout::packed);
  if (row_->collective != Collective::reduce_scatter) all.push_back(Layout::gaps);
  return all;
}

Plan::Plan(const collectives::Algorithm& row)
    : row_{&row},
      layouts_{layouts()},
      seed_{base::mix64(row.hash ^ static_cast<std::uint64_t>(row.collective))},
      kind_deck_{0, 0},
      layout_deck_{layouts_.size(), seed_ ^ 1},
      count_deck_{count_cards, seed_ ^ 2},
      root_deck_{4, seed_ ^ 3},
      place_deck_{2, seed_ ^ 4} {
  const bool is_prefix = row.collective == Collective::scan || row.collective == Collective::exscan;
  for (const Element& element : elements()) {
    if (!reduces(row.collective)) {
      kinds_.push_back({&element, {}});
    } else if (element.is_user) {
      kinds_.push_back({&element, {.function = Function::commutative}});
      if (takes_ordered(row)) kinds_.push_back({&element, {.function = Function::ordered}});
    } else {
      for (std::size_t i = 0; i < kind_count; ++i) {
        const auto kind = static_cast<ReductionKind>(i);
        if (is_bitwise(kind) && !element.is_integer) continue;
        if (kind == ReductionKind::average && is_prefix) continue;
        kinds_.push_back({&element, {.kind = kind}});
      }
    }
  }
  kind_deck_ = Deck{kinds_.size(), seed_ ^ 5};
}

CollectiveCase Plan::draw(int size, std::size_t bytes_max) {
  const Kind& kind = kinds_[kind_deck_.draw()];
  const auto ranks = static_cast<std::size_t>(size);
  const std::array<int, 4> roots{0, size - 1, size / 2,
                                 static_cast<int>(base::mix64(seed_) % ranks)};
  CollectiveCase one{
      .row = row_,
      .element = kind.element,
      .reduction = kind.reduction,
      .root = has_root(row_->collective) ? roots[root_deck_.draw()] : 0,
      .in_place = place_deck_.draw() == 1 && row_->collective != Collective::alltoall,
      .layout = layouts_[layout_deck_.draw()],
      .seed = ++seed_};
  const std::size_t count = element_count(count_deck_.draw(), ranks, kind.element->bytes);
  one.element_count = std::min(count, bytes_max / kind.element->bytes);
  if (has_blocks(row_->collective) && one.element_count > 40) one.element_count /= ranks;
  // A row may be for vectors that fit somewhere, or for none that are empty.
  while (!row_->applies(shape_of(one, size)) && one.element_count > 1) one.element_count /= 2;
  if (!row_->applies(shape_of(one, size))) one.element_count = 1;
  // Only where ranks of a node follow one another is their order kept.
  if (one.reduction.function == Function::ordered &&
      nodes_of(*row_, size) != nodes_of(*row_, size, true))
    one.reduction.function = Function::commutative;
  const bool rounds =
      kind.reduction.kind == ReductionKind::sum || kind.reduction.kind == ReductionKind::average;
  one.exact = !rounds || kind.element->is_integer || kind.element->is_user || (seed_ & 1) == 0;
  return one;
}

std::vector<CollectiveCase> Plan::draw(int size, std::size_t bytes_max, int case_count) {
  std::vector<CollectiveCase> cases(static_cast<std::size_t>(case_count));
  for (CollectiveCase& one : cases) one = draw(size, bytes_max);
  return cases;
}

std::vector<CollectiveCase> Plan::ordered(int size) {
  std::vector<CollectiveCase> cases;
  for (const Kind& kind : kinds_) {
    if (kind.reduction.function != Function::ordered) continue;
    const int roots = has_root(row_->collective) ? size : 1;
    for (int root = 0; root < roots; ++root) {
      cases.push_back({.row = row_,
                       .element = kind.element,
                       .reduction = kind.reduction,
                       .element_count = 3,
                       .root = root,
                       .in_place = root % 2 == 1,
                       .seed = ++seed_});
    }
  }
  return cases;
}

bool Plan::met_everything() const noexcept {
  return kind_deck_.drawn_whole() && layout_deck_.drawn_whole() && count_deck_.drawn_whole() &&
         (root_deck_.drawn_whole() || !has_root(row_->collective)) && place_deck_.drawn_whole();
}

}  // namespace qpmesh::test
