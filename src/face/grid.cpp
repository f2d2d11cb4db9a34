// SPDX-License-Identifier: MIT
#include "qpmesh/grid.hpp"

#include <algorithm>
#include <cstdint>
#include <functional>
#include <limits>
#include <span>
#include <string>
#include <type_traits>
#include <utility>

#include "calls/argument_checks.hpp"
#include "face/access.hpp"

namespace qpmesh {
namespace {

using calls::bad_argument;
using detail::Access;

std::size_t at(int index) noexcept { return static_cast<std::size_t>(index); }

// Not negative, and at most a little more than an int.
std::int64_t product_of(std::span<const int> lengths) {
  std::int64_t product = 1;
  for (const int length : lengths) {
    product *= length;
    if (product > std::numeric_limits<int>::max()) return product;
  }
  return product;
}

std::string text_of(std::span<const int> lengths) {
  std::string text;
  for (const int length : lengths) text += (text.empty() ? "" : " x ") + std::to_string(length);
  return text.empty() ? "no dimensions" : text;
}

std::vector<Request> begun(Communicator& ranks, std::span<const detail::AnyMessage> messages,
                           const CallOptions& options) {
  std::vector<Request> requests;
  requests.reserve(messages.size());
  for (const detail::AnyMessage& message : messages)
    requests.push_back(Access::start(ranks, message, options));
  return requests;
}

}  // namespace

Grid::Grid(const Communicator& ranks, std::vector<int> lengths, std::vector<bool> periodic)
    : rank_{ranks.rank()}, size_{ranks.size()}, lengths_{lengths}, periodic_{std::move(periodic)} {
  constexpr std::string_view operation = "grid";
  if (size_ == 0) detail::was_moved_from(operation);
  constexpr std::string_view hint =
      "lengths are 1 or more, and their product is the number of ranks; one may be 0: what the "
      "others leave";
  const bool negative = std::ranges::any_of(lengths_, [](int length) { return length < 0; });
  const auto open = std::ranges::count(lengths_, 0);
  if (lengths_.empty() || negative || open > 1)
    bad_argument(operation, hint, "a grid of {}", text_of(lengths_));
  if (!periodic_.empty() && periodic_.size() != lengths_.size()) {
    bad_argument(operation, "say of each dimension whether it is periodic, or of none",
                 "{} dimensions, {} of which are said to be periodic or not", lengths_.size(),
                 periodic_.size());
  }
  periodic_.resize(lengths_.size());
  if (const auto rest = std::ranges::find(lengths_, 0); rest != lengths_.end()) {
    *rest = 1;
    const std::int64_t others = product_of(lengths_);
    *rest = others > size_ || size_ % others != 0 ? 0 : static_cast<int>(size_ / others);
  }
  if (product_of(lengths_) != size_)
    bad_argument(operation, hint, "a grid of {} for {} ranks", text_of(lengths), size_);
}

void Grid::check_dimension(int dimension, const char* operation) const {
  if (dimension >= 0 && at(dimension) < lengths_.size()) return;
  bad_argument(operation, "dimensions are counted from 0", "dimension {} of {}", dimension,
               lengths_.size());
}

bool Grid::is_periodic(int dimension) const {
  check_dimension(dimension, "is_periodic");
  return periodic_[at(dimension)];
}

std::vector<int> Grid::coordinates(int rank) const {
  calls::check_peer(rank, size_, false, "coordinates", "rank");
  std::vector<int> coordinates(lengths_.size());
  for (std::size_t i = lengths_.size(); i-- > 0; rank /= lengths_[i])
    coordinates[i] = rank % lengths_[i];
  return coordinates;
}

int Grid::rank_at(const std::vector<int>& coordinates) const {
  if (coordinates.size() != lengths_.size()) {
    bad_argument("rank_at", "give one for each dimension", "{} coordinates of {} dimensions",
                 coordinates.size(), lengths_.size());
  }
  int rank = 0;
  for (std::size_t i = 0; i < lengths_.size(); ++i) {
    const int length = lengths_[i];
    int coordinate = coordinates[i];
    if (periodic_[i]) coordinate = (coordinate % length + length) % length;
    else if (coordinate < 0 || coordinate >= length) return no_rank;
    rank = rank * length + coordinate;
  }
  return rank;
}

Neighbours Grid::shift(int dimension, int steps) const {
  check_dimension(dimension, "shift");
  const int length = lengths_[at(dimension)];
  // Beyond the grid by more than its length is beyond it.
  const int moved = periodic_[at(dimension)] ? steps % length : std::clamp(steps, -length, length);
  std::vector<int> there = coordinates();
  int& coordinate = there[at(dimension)];
  const int here = coordinate;
  coordinate = here - moved;
  const int from = rank_at(there);
  coordinate = here + moved;
  return {.from = from, .to = rank_at(there)};
}

// ---- the exchange ----

std::vector<detail::AnyMessage> Grid::messages_of(const Communicator& ranks,
                                                  const detail::ConstElements& in,
                                                  const detail::Elements& out,
                                                  std::string_view operation) const {
  detail::held(Access::state(ranks), operation);
  if (ranks.size() != size_ || ranks.rank() != rank_) {
    bad_argument(operation, "exchange over the communicator of the grid, or another of its ranks",
                 "rank {} of {} is rank {} of {} in the grid", ranks.rank(), ranks.size(), rank_,
                 size_);
  }
  calls::check_types(in, out, operation);
  calls::check_disjoint(in, out, operation);
  const std::size_t blocks = 2 * lengths_.size();
  if (in.element_count != out.element_count || in.element_count % blocks != 0) {
    bad_argument(operation, "a block for each of two neighbours of each dimension",
                 "{} elements to {} neighbours, and {} from them", in.element_count, blocks,
                 out.element_count);
  }
  const std::size_t count = in.element_count / blocks;
  const auto block_of = [&](auto range, int block) {
    using Byte = std::conditional_t<std::is_const_v<std::remove_pointer_t<decltype(range.data)>>,
                                    const std::byte, std::byte>;
    range.data = static_cast<Byte*>(range.data) + at(block) * count * range.element_bytes;
    range.element_count = count;
    return range;
  };
  std::vector<detail::AnyMessage> messages;
  messages.reserve(blocks);
  for (int dimension = 0; at(dimension) < lengths_.size(); ++dimension) {
    const auto [before, behind] = shift(dimension);
    const int first = 2 * dimension;
    const auto add = [&](int sent, int to, int received, int from) {
      messages.emplace_back(detail::AnyMessage::Kind::sendrecv, block_of(in, sent), to,
                            block_of(out, received), from, Tags{sent});
    };
    add(first, before, first + 1, behind);
    add(first + 1, behind, first, before);
  }
  return messages;
}

void Grid::exchange_elements(Communicator& ranks, const detail::ConstElements& in,
                             const detail::Elements& out, const CallOptions& options) const {
  std::vector<Request> requests = begun(ranks, messages_of(ranks, in, out, "exchange"), options);
  wait_all(requests);
}

std::vector<Request> Grid::exchange_elements_async(Communicator& ranks,
                                                   const detail::ConstElements& in,
                                                   const detail::Elements& out,
                                                   const CallOptions& options) const {
  return begun(ranks, messages_of(ranks, in, out, "exchange_async"), options);
}

std::vector<Prepared> Grid::prepare_exchange_elements(const Communicator& ranks,
                                                      const detail::ConstElements& in,
                                                      const detail::Elements& out,
                                                      const CallOptions& options) const {
  std::vector<Prepared> prepared;
  for (const detail::AnyMessage& message : messages_of(ranks, in, out, "prepare_exchange"))
    prepared.push_back(Access::prepare(ranks, message, options));
  return prepared;
}

std::vector<int> grid_lengths(int ranks, int dimensions) {
  if (ranks < 1 || dimensions < 1) {
    bad_argument("grid_lengths", "both are 1 or more", "{} ranks in {} dimensions", ranks,
                 dimensions);
  }
  std::vector<int> lengths(at(dimensions), 1);
  // The largest prime factors first, each to the shortest dimension.
  std::vector<int> factors;
  for (int factor = 2; factor <= ranks / factor; ++factor) {
    for (; ranks % factor == 0; ranks /= factor) factors.push_back(factor);
  }
  if (ranks > 1) factors.push_back(ranks);
  for (std::size_t i = factors.size(); i-- > 0;) *std::ranges::min_element(lengths) *= factors[i];
  std::ranges::sort(lengths, std::greater{});
  return lengths;
}

}  // namespace qpmesh
