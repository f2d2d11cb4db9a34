// SPDX-License-Identifier: MIT
#include "bench/scale/simulator.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <deque>
#include <map>
#include <memory>
#include <numeric>
#include <queue>
#include <stdexcept>
#include <vector>

#include "collectives/hierarchy.hpp"
#include "qpmesh/collective.hpp"

namespace qpmesh::bench {
namespace {

using collectives::Arguments;
using collectives::Blocks;
using collectives::CostModel;
using messaging::ReceiveOperation;
using messaging::SendOperation;

// Addresses that nobody follows; each rank has the same. Far enough apart for any vector.
std::byte* address(std::size_t place) { return reinterpret_cast<std::byte*>(place << 44); }
std::byte* input() { return address(1); }
std::byte* output() { return address(2); }
std::byte* scratch() { return address(3); }

struct Message {
  int source = -1;
  int target = -1;
  bool departs = false;  // to the link of its node; otherwise it arrives
  std::uint64_t key = 0;
  std::size_t bytes = 0;
  double arrived_s = 0;  // its first byte
};

class Rank;

struct Event {
  double at_s;
  std::uint64_t number;  // events of one moment happen in the order they were made
  Rank* rank;
  progress::Operation*
      ended;  // a round, by its last operation; nullptr: the message departs, or is there
  Message message;
};
struct Later {
  bool operator()(const Event& a, const Event& b) const noexcept {
    return a.at_s != b.at_s ? a.at_s > b.at_s : a.number > b.number;
  }
};

// A node's to the others: its ranks' bytes pass one after another.
struct Link {
  double out_free_s = 0;  // from then on
  double in_free_s = 0;
};

// What all ranks share.
struct World {
  World(const collectives::CallShape& shape, const collectives::TopologyParams& topology)
      : far{topology.model({.size = shape.size})},
        near{collectives::inside(topology).model({.size = shape.levels.node_ranks_max})},
        node_ranks{shape.levels.nodes > 0 ? shape.levels.node_ranks_max : 1},
        links(static_cast<std::size_t>(shape.size / node_ranks)) {}

  CostModel far;   // between nodes
  CostModel near;  // inside them
  int node_ranks;
  std::vector<Link> links;
  progress::Engine engine{};
  std::deque<Rank> ranks{};
  std::priority_queue<Event, std::vector<Event>, Later> events{};
  std::uint64_t event_count = 0;

  void add(double at_s, Rank& rank, progress::Operation* ended, const Message& message) {
    events.push({at_s, event_count++, &rank, ended, message});
  }
};

// One rank's CPU and ports. A task runs ahead of the events: what it does costs time on its CPU's
// clock, and it waits for a whole round, so that an operation whose end is known counts as ended at
// once, and only the last one of a round is an event. A call in pieces has several rounds at a
// time.
class Rank final : public collectives::Machine {
 public:
  Rank(World& world, int rank) noexcept : world_{world}, rank_{rank} {}

  void start(SendOperation& send) noexcept override {
    const CostModel& model = model_to(send.target);
    const double leaves_s = std::max(cpu_s_, out_free_s_);
    out_free_s_ = leaves_s + model.port_s(static_cast<double>(send.bytes));
    ++messages_;
    bytes_ += static_cast<double>(send.bytes);
    const Message message{.source = rank_,
                          .target = send.target,
                          .departs = uses_link(send.target),
                          .key = send.key,
                          .bytes = send.bytes};
    if (message.departs) world_.add(leaves_s, *this, nullptr, message);
    else world_.add(leaves_s + model.latency_s, target_of(message), nullptr, message);
    ends(send, leaves_s + transfer_s(model, send.bytes));
  }

  void start(ReceiveOperation& receive) noexcept override {
    const auto message =
        std::ranges::find_if(early_, [&](const Message& early) { return is_for(receive, early); });
    if (message == early_.end()) return posted_.push_back(receive);
    take(receive, *message);
    early_.erase(message);
  }

  std::byte* allocate(std::size_t bytes) override {
    ++allocation_count_;
    return std::exchange(free_address_, free_address_ + (bytes + 15) / 16 * 16);
  }
  void free(std::byte* /*memory*/) noexcept override {
    if (--allocation_count_ == 0) free_address_ = scratch();
  }
  void copy(std::byte* target, const std::byte* source, std::size_t bytes) override {
    if (target != source) cpu_s_ += static_cast<double>(bytes) * world_.far.copied_byte_s;
  }
  void reduce(const collectives::Reducer& /*reducer*/, std::byte* /*target*/,
              std::span<const std::byte* const> sources, std::size_t bytes) override {
    cpu_s_ += static_cast<double>((sources.size() - 1) * bytes) * world_.far.reduced_byte_s;
  }

  // It has left this rank. Links are shared: what is posted for later must not be before what
  // leaves now.
  void departs(Message message, double now_s) {
    Link& link = own_link();
    const double leaves_s = std::max(now_s, link.out_free_s);
    link.out_free_s = leaves_s + transfer_s(world_.far, message.bytes);
    message.departs = false;
    world_.add(leaves_s + world_.far.latency_s, target_of(message), nullptr, message);
  }
  // Its first byte.
  void arrives(Message message, double now_s) noexcept {
    message.arrived_s = now_s;
    if (uses_link(message.source)) {
      Link& link = own_link();
      message.arrived_s = std::max(now_s, link.in_free_s);
      link.in_free_s = message.arrived_s + transfer_s(world_.far, message.bytes);
    }
    ReceiveOperation* receive = posted_.first();
    while (receive != nullptr && !is_for(*receive, message)) receive = receive->next;
    if (receive == nullptr) {
      early_.push_back(message);
      return;
    }
    posted_.remove(*receive);
    take(*receive, message);
  }
  void resumes(progress::Operation& ended, double now_s) noexcept {
    cpu_s_ = std::max(cpu_s_, now_s);
    world_.engine.complete(ended);
    world_.engine.run_ready();
  }

  double cpu_s() const noexcept { return cpu_s_; }
  double messages() const noexcept { return messages_; }
  double bytes() const noexcept { return bytes_; }

 private:
  static double transfer_s(const CostModel& model, std::size_t bytes) noexcept {
    return static_cast<double>(bytes) * model.byte_s;
  }
  bool on_own_node(int peer) const noexcept {
    return peer / world_.node_ranks == rank_ / world_.node_ranks;
  }
  const CostModel& model_to(int peer) const noexcept {
    return world_.node_ranks > 1 && on_own_node(peer) ? world_.near : world_.far;
  }
  bool uses_link(int peer) const noexcept { return world_.node_ranks > 1 && !on_own_node(peer); }
  Rank& target_of(const Message& message) const noexcept {
    return world_.ranks[static_cast<std::size_t>(message.target)];
  }
  Link& own_link() const noexcept {
    return world_.links[static_cast<std::size_t>(rank_ / world_.node_ranks)];
  }
  static bool is_for(const ReceiveOperation& receive, const Message& message) noexcept {
    return receive.source == message.source && receive.key == message.key;
  }

  void take(ReceiveOperation& receive, const Message& message) noexcept {
    const CostModel& model = model_to(message.source);
    const double enters_s = std::max({message.arrived_s, cpu_s_, in_free_s_});
    in_free_s_ = enters_s + model.port_s(static_cast<double>(message.bytes));
    double end_s = enters_s + transfer_s(model, message.bytes);
    if (receive.combine != nullptr) {
      const std::size_t segment_bytes = std::min(message.bytes, model.segment_bytes);
      const double begin_s = std::max(combined_s_, enters_s + transfer_s(model, segment_bytes));
      end_s = std::max(begin_s + static_cast<double>(message.bytes) * model.reduced_byte_s,
                       end_s + static_cast<double>(segment_bytes) * model.reduced_byte_s);
      combined_s_ = end_s;
    }
    receive.message_source = message.source;
    receive.message_key = message.key;
    receive.message_bytes = message.bytes;
    ends(receive, end_s);
  }

  void ends(progress::Operation& operation, double at_s) {
    double& round_ends_s = round_ends_s_[operation.join];
    round_ends_s = std::max(round_ends_s, at_s);
    if (operation.join->outstanding > 1) return world_.engine.complete(operation);
    world_.add(round_ends_s, *this, &operation, {});
    round_ends_s_.erase(operation.join);
  }

  World& world_;
  int rank_;
  double cpu_s_ = 0;       // until then the task has used the CPU, and it posts what it posts then
  double combined_s_ = 0;  // until then the CPU combines what came meanwhile
  double out_free_s_ = 0;  // from then on
  double in_free_s_ = 0;
  std::map<const progress::Join*, double> round_ends_s_;  // of rounds whose ends are not all known
  double messages_ = 0;
  double bytes_ = 0;
  std::byte* free_address_ = scratch();
  int allocation_count_ = 0;
  messaging::List<ReceiveOperation> posted_;
  std::deque<Message> early_;  // no receive asks for them yet
};

void never_called(std::byte* /*target*/, const std::byte* const* /*sources*/, int /*source_count*/,
                  std::size_t /*element_count*/) {
  std::terminate();
}

Arguments arguments_of(Collective collective, const collectives::CallShape& shape, int rank) {
  const Blocks blocks = collectives::even_blocks(shape.bytes, shape.size);
  Arguments arguments{};
  arguments.in = input();
  arguments.out = output();
  arguments.element_count = shape.bytes;
  arguments.element_bytes = 1;
  arguments.reducer = {.kernel = never_called, .element_bytes = 1, .commutative = !shape.ordered};
  switch (collective) {
    case Collective::barrier:
    case Collective::broadcast:
    case Collective::reduce:
    case Collective::allreduce:
    case Collective::scan:
    case Collective::exscan: return arguments;
    case Collective::allgather:
    case Collective::gather: arguments.out_blocks = blocks; break;
    case Collective::scatter:
    case Collective::reduce_scatter: arguments.in_blocks = blocks; break;
    case Collective::alltoall: arguments.in_blocks = arguments.out_blocks = blocks; break;
  }
  arguments.element_count = blocks.length(rank);
  return arguments;
}

}  // namespace

Prediction simulate(const collectives::Algorithm& algorithm, const collectives::CallShape& shape,
                    const collectives::TopologyParams& topology) {
  World world{shape, topology};
  const auto size = static_cast<std::size_t>(shape.size);
  for (int rank = 0; rank < shape.size; ++rank) world.ranks.emplace_back(world, rank);
  std::vector<int> context_ranks(size);
  std::iota(context_ranks.begin(), context_ranks.end(), 0);
  std::vector<progress::TaskOperation> tasks(size);
  std::vector<Arguments> arguments(size);
  std::vector<collectives::Group::Members> members(size);
  std::vector<int> nodes(size);
  for (std::size_t i = 0; i < size; ++i) nodes[i] = static_cast<int>(i) / world.node_ranks;
  const collectives::Placement placement{nodes};
  std::deque<collectives::Hierarchy> hierarchies;
  for (std::size_t i = 0; i < size; ++i) {
    const int rank = static_cast<int>(i);
    members[i] = {.machine = &world.ranks[i],
                  .context_ranks = context_ranks.data(),
                  .size = shape.size,
                  .rank = rank,
                  .communicator = 0};
    if (shape.levels.nodes > 0) {
      members[i].hierarchy = &hierarchies.emplace_back(
          members[i], collectives::Hierarchy::Setup{
                          .placement = placement, .topology = topology, .engine = &world.engine});
    }
    const collectives::Group group{members[i], 1, 0};
    arguments[i] = arguments_of(algorithm.collective, shape, rank);
    world.engine.start(tasks[i], [&] { return algorithm.run(group, arguments[i]); });
  }
  while (!world.events.empty()) {
    const Event event = world.events.top();
    world.events.pop();
    if (event.ended != nullptr) {
      event.rank->resumes(*event.ended, event.at_s);
    } else if (event.message.departs) {
      event.rank->departs(event.message, event.at_s);
    } else {
      event.rank->arrives(event.message, event.at_s);
    }
  }

  Prediction prediction;
  for (std::size_t i = 0; i < size; ++i) {
    if (!tasks[i].done)
      throw std::logic_error{fmt::format("{}: rank {} waits for ever", algorithm.name, i)};
    if (tasks[i].error) std::rethrow_exception(tasks[i].error);
    const Rank& rank = world.ranks[i];
    collectives::Cost& cost = prediction.cost;
    cost.time_s = std::max(cost.time_s, rank.cpu_s());
    cost.messages = std::max(cost.messages, rank.messages());
    cost.bytes = std::max(cost.bytes, rank.bytes());
    prediction.total_messages += rank.messages();
  }
  return prediction;
}

}  // namespace qpmesh::bench
