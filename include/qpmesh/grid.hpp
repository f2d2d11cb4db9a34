// SPDX-License-Identifier: MIT
// The ranks of a communicator as points of a grid: who is whose neighbour.
#pragma once

#include <string_view>
#include <vector>

#include "qpmesh/communicator.hpp"
#include "qpmesh/export.h"

namespace qpmesh {

// Of a step along one dimension: from whom something comes, and to whom something goes, when
// everybody passes on to the next one. no_rank beyond an open border, which all messages take.
struct Neighbours {
  int from = no_rank;  // sends to this rank
  int to = no_rank;    // receives from it
};

// The last coordinate runs fastest: rank 1 is at (0, …, 0, 1), as MPI_Cart_create (MPI 4.1, section
// 8.5) numbers them, and as an array in C lies. A value: it sends nothing, and all ranks have the
// same.
class QPMESH_API Grid {
 public:
  // lengths: of each dimension, at least 1; their product is the number of ranks, and one of them
  // may be 0: what the others leave. periodic: of each dimension, whether its ends are neighbours;
  // empty: none. Error{bad_argument}.
  Grid(const Communicator& ranks, std::vector<int> lengths, std::vector<bool> periodic = {});

  // Below, ranks and dimensions that there are not, and more or fewer coordinates than dimensions,
  // are Error{bad_argument}.

  // Of each dimension.
  const std::vector<int>& lengths() const noexcept { return lengths_; }
  bool is_periodic(int dimension) const;  // are its ends neighbours?
  // Of this rank, or of that one.
  std::vector<int> coordinates() const { return coordinates(rank_); }
  std::vector<int> coordinates(int rank) const;
  // Who is there. Beyond the end of a periodic dimension it goes on at the other; of another one it
  // is no_rank.
  int rank_at(const std::vector<int>& coordinates) const;
  // Of this rank: whoever is so many steps before it along the dimension, and behind it.
  Neighbours shift(int dimension, int steps = 1) const;

  // Of each dimension one equal block goes to either neighbour, and one comes from it: block 2 d of
  // both belongs to the one before this rank along dimension d, block 2 d + 1 to the one behind it.
  // What comes from beyond a border stays as it is. All ranks call it on communicators of one
  // group, whose messages with tags 0 to 2 * dimensions - 1 are its own until it returns.
  // Error{bad_argument}: in and out do not have equally many elements, or not so many blocks, or
  // have some in common; a communicator of another size, or where this rank has another number.
  template <Source S, Target T>
    requires SameElements<S, T>
  void exchange(Communicator& ranks, const S& in, T&& out, const CallOptions& options = {}) const {
    exchange_elements(ranks, detail::const_elements(in), detail::elements(out), options);
  }
  // One request for each block that goes, in their order.
  template <LastingSource S, Target T>
    requires SameElements<S, T>
  std::vector<Request> exchange_async(Communicator& ranks, S&& in, T&& out,
                                      const CallOptions& options = {}) const {
    return exchange_elements_async(ranks, detail::const_elements(in), detail::elements(out),
                                   options);
  }
  // The same, for start_all() and wait_all().
  template <LastingSource S, Target T>
    requires SameElements<S, T>
  std::vector<Prepared> prepare_exchange(const Communicator& ranks, S&& in, T&& out,
                                         const CallOptions& options = {}) const {
    return prepare_exchange_elements(ranks, detail::const_elements(in), detail::elements(out),
                                     options);
  }

 private:
  friend struct detail::Access;

  void exchange_elements(Communicator& ranks, const detail::ConstElements& in,
                         const detail::Elements& out, const CallOptions& options) const;
  std::vector<Request> exchange_elements_async(Communicator& ranks, const detail::ConstElements& in,
                                               const detail::Elements& out,
                                               const CallOptions& options) const;
  std::vector<Prepared> prepare_exchange_elements(const Communicator& ranks,
                                                  const detail::ConstElements& in,
                                                  const detail::Elements& out,
                                                  const CallOptions& options) const;
  std::vector<detail::AnyMessage> messages_of(const Communicator& ranks,
                                              const detail::ConstElements& in,
                                              const detail::Elements& out,
                                              std::string_view operation) const;
  void check_dimension(int dimension, const char* operation) const;

  int rank_;
  int size_;
  std::vector<int> lengths_;
  std::vector<bool> periodic_;
};

// Lengths of so many dimensions, as equal as they can be, whose product is the number of ranks; the
// longest comes first. Error{bad_argument}: fewer than one of either.
QPMESH_API std::vector<int> grid_lengths(int ranks, int dimensions);

}  // namespace qpmesh
