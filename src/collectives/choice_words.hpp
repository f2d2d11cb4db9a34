// SPDX-License-Identifier: MIT
// The words by which the members of a node agree which row runs the calls of a class, and the order
// in which they are written and read. Templates over their atomics: tests/explore runs them in
// every interleaving.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <span>

#include "base/atomics.hpp"
#include "collectives/trials.hpp"

namespace qpmesh::collectives {

// One member's part of a class. Only its owner writes it; rounds are numbered from 0.
template <class Atomics>
struct alignas(128) ChoiceWords {
  // By rank 0 alone: the round that `decision` is for. Stored last, released; read by all. Written
  // again when every member has read the one before.
  std::uint64_t decided;
  Decision decision;
  // The last round whose decision this member has read. Released behind that; read by rank 0.
  alignas(128) std::uint64_t read;
  // The round that `stamps` are of, and in the lower half a bit for each that is there. Released
  // behind them; read by rank 0 when it judges the round, and written for the next round behind
  // the decision that follows from that.
  std::uint64_t stamped;
  std::array<Span, stamps_max> stamps;  // when this member called, and when it was done

  // Rank 0's. Every member has_read() the decision before.
  void decide(std::uint64_t round, const Decision& next) noexcept {
    Atomics::copy(reinterpret_cast<std::byte*>(&decision),
                  reinterpret_cast<const std::byte*>(&next), sizeof next);
    Atomics::store_release(&decided, round);
  }
  bool has_decided(std::uint64_t round) const noexcept {
    return Atomics::load_acquire(&decided) >= round;
  }
  // It has been decided.
  Decision decision_read() const noexcept {
    Decision copy;
    Atomics::copy(reinterpret_cast<std::byte*>(&copy),
                  reinterpret_cast<const std::byte*>(&decision), sizeof copy);
    return copy;
  }

  // The owner's: it has read the decision of that round.
  void acknowledge(std::uint64_t round) noexcept { Atomics::store_release(&read, round); }
  bool has_read(std::uint64_t round) const noexcept {
    return Atomics::load_acquire(&read) >= round;
  }

  // The owner's. those_before: the bits of the stamps of that round which are there already.
  void put_stamp(std::uint64_t round, std::uint32_t those_before, int stamp,
                 const Span& span) noexcept {
    Atomics::store_plain(&stamps[static_cast<std::size_t>(stamp)], span);
    Atomics::store_release(&stamped, round << 32 | those_before | bit(stamp));
  }
  // Rank 0's, when this member has read the decision of that round: adds the stamps that it has, of
  // those wanted, and returns which these are.
  std::uint32_t add_stamps(std::uint64_t round, std::uint32_t wanted,
                           std::span<Span, stamps_max> spans) const noexcept {
    const std::uint64_t there = Atomics::load_acquire(&stamped);
    if (there >> 32 != static_cast<std::uint32_t>(round)) return 0;
    wanted &= static_cast<std::uint32_t>(there);
    for (std::size_t i = 0; i < stamps_max; ++i) {
      if ((wanted & bit(static_cast<int>(i))) == 0) continue;
      spans[i].add(Atomics::load_plain(&stamps[i]));
    }
    return wanted;
  }
  static constexpr std::uint32_t bit(int stamp) noexcept { return 1U << stamp; }
};

// Rank 0's, as above, of the words that words_of(rank) names. Of a stamp that one member lacks,
// nothing: who only gives has run ahead of those that take, and its own time is not the call's.
template <class WordsOf>
std::array<Span, stamps_max> spans_of_all(int member_count, std::uint64_t round,
                                          WordsOf&& words_of) noexcept {
  std::array<Span, stamps_max> spans{};
  std::uint32_t there = ~std::uint32_t{0};
  for (int rank = 0; rank < member_count; ++rank)
    there = words_of(rank).add_stamps(round, there, spans);
  for (std::size_t i = 0; i < stamps_max; ++i) {
    if ((there >> i & 1) == 0) spans[i] = {};
  }
  return spans;
}

}  // namespace qpmesh::collectives
