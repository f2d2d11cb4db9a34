// SPDX-License-Identifier: MIT
// What simulated jobs are made to do, with a verdict in words: the tests expect none, and a damaged
// library must earn one.
#pragma once

#include <cstdint>
#include <ostream>
#include <string>
#include <string_view>
#include <vector>

#include "support/simulated_job.hpp"

namespace qpmesh::test {

// The kinds of network that messaging promises to work on.
struct Flavour {
  std::string_view name;
  NetworkConfig (*config)(int rank_count, std::uint64_t seed);
};
const std::vector<Flavour>& flavours();
inline void PrintTo(const Flavour& flavour, std::ostream* out) {
  *out << flavour.name;
}  // by GoogleTest, into CTest's names

NetworkConfig ordered_bytes_network(int rank_count,
                                    std::uint64_t seed);  // polled, records proved by their tails
NetworkConfig mixed_network(int rank_count,
                            std::uint64_t seed);  // small polled, medium by immediate: rxe
NetworkConfig pipelined_network(int rank_count, std::uint64_t seed);  // polled, user memory closed
NetworkConfig reading_network(
    int rank_count,
    std::uint64_t seed);  // as immediate_network, and receivers read large messages
NetworkConfig two_rails_network(int rank_count, std::uint64_t seed);  // as mixed_network
// The kinds of network of which two may join a pair, here two each.
const std::vector<Flavour>& flavours_of_rails();

struct Outcome {
  std::string wrong;  // empty: all is well
  messaging::Counters counters{};
  std::uint64_t trace = 0;
};

// An end of a rail fails, and not yet the other one.
struct RailFailure {
  int rail;
  int from;
  int to;
  std::int64_t after_ns;
};

struct Traffic {
  NetworkConfig network;
  int messages_per_rank = 40;
  std::int64_t receive_after_ns = 0;   // so long everybody sends and nobody receives
  std::int64_t send_pause_max_ns = 0;  // between two sends of a rank
  std::size_t bytes_max = 20'000;
  std::vector<RailFailure> rail_failures{};
  int stops = 20;  // of a rank at a time: what came meanwhile is seen at once
};
// Random messages among all ranks, to themselves too, in four communicators: their receives name
// source and tag, source, tag, or nothing. Each must get the message that the order per pair
// demands, whole, and nothing behind it.
Outcome random_traffic(const Traffic& traffic);

// Payload bytes that look like the records that are due later in the same lines, at every line
// offset.
std::string imitated_records(NetworkConfig network);
// A peer stands still while data fills its ring: an answer to its rendezvous still leaves at once.
std::string control_while_data_fills_the_ring(NetworkConfig network);
// A rank that sends many long messages answers an offer before most of them are through.
std::string answer_among_long_messages(NetworkConfig network);
// Small messages go one way only, to a rank that stops now and then, over a connection that is busy
// half of the time: credits return by nothing but their own writes.
std::string one_way_to_a_stopped_rank(NetworkConfig network);
// Unmatched payload fills the payload ring, then a message larger than the ring comes through it.
std::string large_message_behind_unmatched_ones(NetworkConfig network, Outcome& outcome);

// A communicator fails in the middle of a large message: what is back at its owner is neither
// written nor read any more. rail_fails: and the first rail, which is one of two, fails about then.
std::string memory_taken_back(NetworkConfig network, bool rail_fails = false);

// A communicator fails in the middle of a large message to a rank that stands still. The memory
// goes back to its owner nevertheless, and the link between the two lives on.
std::string memory_closed_to_a_rank_that_stands_still(NetworkConfig network);

// The first of two rails fails, at many times, while small messages go one way only: what it loses
// are messages, or nothing but the counts that return credits.
std::string first_rail_lost_one_way(NetworkConfig network);

}  // namespace qpmesh::test
