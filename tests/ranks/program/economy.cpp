// SPDX-License-Identifier: MIT
// What messages cost in packets and credits. For one guest, whose device counts the packets of both
// ranks.
#include <fstream>

#include "program/scenario.hpp"

namespace qpmesh::ranks {
namespace {

std::uint64_t counter(const std::string& path) {
  std::ifstream file{path};
  std::uint64_t value = 0;
  check(static_cast<bool>(file >> value), "no counter " + path);
  return value;
}

// COUNT, then the file of a counter of sent packets. A message is one data packet and one
// acknowledgement; a barrier's few packets before and after are counted too.
void ping_pongs_cost_two_packets_a_message(Communicator& world, Arguments arguments) {
  const int count = std::stoi(arguments[0]);
  std::vector<std::int64_t> data(1);
  world.barrier();
  const std::uint64_t before = counter(arguments[1]);
  for (int i = 0; i < count; ++i) {
    if (world.rank() == 0) world.send(std::vector<std::int64_t>{i}, 1);
    world.receive(data, 1 - world.rank());
    check_equal(data[0], i);
    if (world.rank() == 1) world.send(data, 0);
  }
  world.barrier();
  if (world.rank() != 0) return;
  const double messages = 2.0 * count;
  const double packets = static_cast<double>(counter(arguments[1]) - before) / messages;
  say("note: " + std::to_string(packets) + " packets a message of 8 bytes");
  check(packets <= 2.05, "more than 2.05 packets a message");
  check(packets >= 1, "the counter counts something else");
}

// COUNT messages of 8 bytes one way. The log's last line tells records and credit writes.
void one_way_stream(Communicator& world, Arguments arguments) {
  const int count = std::stoi(arguments[0]);
  std::vector<std::int64_t> data(1);
  for (int i = 0; i < count; ++i) {
    if (world.rank() == 0) world.send(std::vector<std::int64_t>{i}, 1);
    if (world.rank() != 1) continue;
    world.receive(data, 0);
    check_equal(data[0], i);
  }
}

}  // namespace

std::vector<Scenario> economy_scenarios() {
  return {in_world("ping_pongs_cost_two_packets_a_message", ping_pongs_cost_two_packets_a_message),
          in_world("one_way_stream", one_way_stream)};
}

}  // namespace qpmesh::ranks
