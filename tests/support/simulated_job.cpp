// SPDX-License-Identifier: MIT
#include "support/simulated_job.hpp"

#include <fmt/format.h>

#include <utility>

#include "base/bytes.hpp"
#include "context/communicator_state.hpp"
#include "transport/rails.hpp"

namespace qpmesh::test {
namespace {

constexpr std::size_t user_bytes = std::size_t{128} << 20;  // address space only

std::size_t arena_bytes(const messaging::RingLayout& layout, int size) {
  const std::size_t staging = layout.staging_bytes() * static_cast<std::size_t>(size);
  const std::size_t mirrors = layout.slab_bytes(size);
  return base::round_up(layout.slab_bytes(size) + staging + mirrors + user_bytes, 4096);
}

int node_of(const NetworkConfig& config, int rank) {
  return config.nodes.empty() ? 0 : config.nodes[static_cast<std::size_t>(rank)];
}

std::vector<int> everybody(int size) {
  std::vector<int> members(static_cast<std::size_t>(size));
  for (int i = 0; i < size; ++i) members[static_cast<std::size_t>(i)] = i;
  return members;
}

}  // namespace

Options small_rings() {
  Options options;
  options.payload_ring_bytes = 4096;
  options.eager_bytes_max = 1024;
  options.register_bytes_min = 0;
  options.log = LogLevel::off;
  return options;
}

namespace {

// As queue pairs have: as many receive requests as credits need.
NetworkConfig with_receives(NetworkConfig config, const Options& options) {
  config.receives = context::ring_layout(options).immediates_max(config.small, config.medium);
  return config;
}

}  // namespace

SimulatedJob::SimulatedJob(const NetworkConfig& config, const Options& options)
    : network_{with_receives(config, options)},
      options_{options},
      ranks_(static_cast<std::size_t>(config.rank_count)) {
  if (config.rendezvous_reads) options_.rendezvous = RendezvousChoice::read;
  const messaging::RingLayout layout = context::ring_layout(options_);
  const int size = config.rank_count;
  const std::uint64_t epoch = base::mix64(config.seed);
  std::vector<context::ContextParts> parts(ranks_.size());
  const std::size_t staging_bytes = layout.staging_bytes();
  std::vector<transport::RemoteAddress> arenas;
  std::vector<std::vector<simulator::Transport*>> transports;  // by rank, one for each rail
  for (int rank = 0; rank < size; ++rank) {
    context::ContextParts& mine = parts[static_cast<std::size_t>(rank)];
    base::System& system = network_.system(rank);
    mine.rank = rank;
    mine.options = options_;
    mine.log = base::Log{base::LogLevel::off};
    mine.system = {std::shared_ptr<void>{}, &system};  // the network owns it
    mine.epoch = epoch;
    for (int peer = 0; peer < size; ++peer)
      mine.identities.push_back({.host = "simulated",
                                 .pid = 1000 + peer,
                                 .place = {},
                                 .node = node_of(config, peer),
                                 .reads_neighbours = true,
                                 .facts = {}});
    mine.arena = std::make_unique<transport::Arena>(
        transport::Arena::create_private(system, arena_bytes(layout, size)));
    const std::uint64_t slab_offset = mine.arena->allocate(layout.slab_bytes(size)).value();
    mine.transports.push_back(make_transport(rank, mine.log, transports.emplace_back()));
    neighbours_.emplace_back(network_, rank, *mine.arena);
    arenas.push_back(mine.transports[0]->register_memory({mine.arena->data(), mine.arena->bytes()},
                                                         transport::RegionKind::lasting));
    mine.control = network_.make_control_channel(rank);
    mine.wait_policy = progress::WaitPolicy::own_core();
    rank_at(rank).slab_offset = slab_offset;
  }
  // All addresses before the first connection, as a bootstrap gathers them.
  std::vector<Blob> addresses;
  for (int rank = 0; rank < size; ++rank) {
    for (int peer = 0; peer < size; ++peer) {
      for (simulator::Transport* const rail : transports[static_cast<std::size_t>(rank)])
        addresses.push_back(rail->address_for(peer));
    }
  }
  for (int rank = 0; rank < size; ++rank) {
    context::ContextParts& mine = parts[static_cast<std::size_t>(rank)];
    for (int peer = 0; peer < size; ++peer) {
      const auto& rails = transports[static_cast<std::size_t>(rank)];
      const transport::RemoteAddress arena = arenas[static_cast<std::size_t>(peer)];
      const auto connect = [&](std::size_t rail) {
        const auto pair = static_cast<std::size_t>(peer) * parts.size();
        const auto of_rail = (pair + static_cast<std::size_t>(rank)) * rails.size() + rail;
        return rails[rail]->connect(peer, addresses[of_rail]);
      };
      const std::uint64_t slot = rank_at(rank).slab_offset + layout.slot_offset(peer);
      const std::uint64_t remote_slot = rank_at(peer).slab_offset + layout.slot_offset(rank);
      auto connection = connect(0);
      if (rails.size() > 1) {
        connection =
            std::make_unique<transport::RailedConnection>(transport::RailedConnection::Parts{
                .transport =
                    static_cast<transport::RailedTransport*>(mine.transports.front().get()),
                .peer = peer,
                .first = std::move(connection),
                .second = connect(1),
                .names = {"the first rail", "the second rail"},
                .notice = mine.arena->data() + slot + messaging::RingLayout::rail_notice_offset,
                .peer_notice = arena + (remote_slot + messaging::RingLayout::rail_notice_offset),
                .mirror = {mine.arena->data() + mine.arena->allocate(layout.slot_bytes()).value(),
                           layout.slot_bytes()},
                .places = arena + remote_slot,
                .messages_max = layout.messages_max()});
      }
      std::span<std::byte> staging;
      if (connection->capabilities().inline_bytes_max < staging_bytes)
        staging = {mine.arena->data() + mine.arena->allocate(staging_bytes).value(), staging_bytes};
      mine.links.push_back(
          {.connection = std::move(connection),
           .places = {.transport = mine.transports[0].get(),
                      .neighbour = config.copies_private_memory
                                       ? &neighbours_[static_cast<std::size_t>(peer)]
                                       : nullptr,
                      .layout = layout,
                      .slot = mine.arena->data() + slot,
                      .remote_slot = arena + remote_slot,
                      .remote_revocations = arena + offsetof(transport::ArenaHeader, revocations),
                      .staging = staging}});
    }
  }
  if (config.one_node || !config.nodes.empty()) share_memory(parts);
  for (int rank = 0; rank < size; ++rank) {
    rank_at(rank).context =
        context::Context::make(std::move(parts[static_cast<std::size_t>(rank)]));
  }
  for (int rank = 0; rank < size; ++rank) {
    rank_at(rank).world = std::make_unique<Communicator>(
        communicator(rank, context::world_id(epoch), everybody(size)));
    network_.set_step(rank, [this, rank] { return step(rank_at(rank)); });
  }
}

std::unique_ptr<transport::Transport> SimulatedJob::make_transport(
    int rank, const base::Log& log, std::vector<simulator::Transport*>& rails) {
  auto first = network_.make_transport(rank);
  rails.push_back(first.get());
  if (network_.config().rails == 1) return first;
  auto second = network_.make_transport(rank);
  rails.push_back(second.get());
  return std::make_unique<transport::RailedTransport>(network_.system(rank), log, std::move(first),
                                                      std::move(second));
}

// One process holds all ranks: an arena is mapped where it lies.
void SimulatedJob::share_memory(std::vector<context::ContextParts>& parts) {
  for (context::ContextParts& part : parts) {
    const auto node_of = [&](int rank) {
      return part.identities[static_cast<std::size_t>(rank)].node;
    };
    for (int peer = 0; peer < size(); ++peer) {
      const bool shares = node_of(peer) == node_of(part.rank);
      part.neighbours.push_back(shares ? &neighbours_[static_cast<std::size_t>(peer)] : nullptr);
    }
    part.own_core = part.epoch % 2 == 0;  // or the ranks share cores
  }
}

// As a split exchanges them; every member's end of the communicator is made with the same list.
const std::vector<context::NodeSlabs>& SimulatedJob::node_slabs(std::uint64_t id,
                                                                const std::vector<int>& members) {
  const auto [slabs, is_new] = node_slabs_.try_emplace(id);
  if (is_new) {
    for (const int member : members) slabs->second.push_back(context(member).make_node_slabs(id));
  }
  return slabs->second;
}

// Operations end before the frames that own them, and what peers still need leaves before the
// contexts: a context that has to wait would wait in real time.
std::string SimulatedJob::close() {
  if (std::exchange(closed_, true)) return wrong_;
  const bool clean = all_ended() && wrong_.empty();
  for (int rank = 0; rank < size(); ++rank) {
    network_.thaw(rank);
    if (clean && network_.alive(rank)) continue;
    context(rank).abort("the simulation is over");
    context(rank).engine().poll_slow();
  }
  for (Rank& rank : ranks_) rank.scripts.clear();
  const auto flushed = [this] {
    bool all = true;
    for (std::size_t i = 0; i < ranks_.size(); ++i) {
      const int rank = static_cast<int>(i);
      messaging::Messaging& messaging = ranks_[i].context->messaging();
      all &= messaging.flush();
      all &= !network_.alive(rank) || messaging.delivered([=](int peer) { return peer != rank; });
    }
    return all;
  };
  if (network_.run_until(flushed, network_.after_ms(1'000))) return wrong_;
  // Only a broken library comes here. Its contexts would wait two real seconds each, of which none
  // would pass.
  if (wrong_.empty()) wrong_ = "what the peers still need never left";
  for (Rank& rank : ranks_) new std::shared_ptr<context::Context>{rank.context};
  return wrong_;
}

SimulatedJob::~SimulatedJob() { close(); }

Communicator SimulatedJob::communicator(int rank, std::uint64_t id,
                                        const std::vector<int>& members) {
  return Access::communicator(std::make_shared<context::CommunicatorState>(
      rank_at(rank).context, id, members, node_slabs(id, members)));
}

std::byte* SimulatedJob::arena_memory(int rank, std::size_t bytes) {
  transport::Arena& arena = context(rank).arena();
  const auto offset = arena.allocate(bytes);
  return offset ? arena.data() + *offset : nullptr;
}

std::byte* SimulatedJob::slot(int to, int from) {
  return context(to).arena().data() + rank_at(to).slab_offset +
         context::ring_layout(options_).slot_offset(from);
}

void SimulatedJob::start(int rank, Script script) {
  rank_at(rank).scripts.push_back(std::move(script));
  ++rank_at(rank).running;
}

Condition SimulatedJob::until_after(int rank, std::int64_t duration_ns) {
  const Deadline time = network_.now() + std::chrono::nanoseconds{duration_ns};
  network_.wake_at(rank, time);
  constexpr auto holds = [](const void* subject, std::int64_t at_ns) {
    const auto* const network = static_cast<const simulator::Network*>(subject);
    return std::chrono::nanoseconds{network->now().time_since_epoch()}.count() >= at_ns;
  };
  return {holds, &network_, std::chrono::nanoseconds{time.time_since_epoch()}.count()};
}

// As a waiting rank does: the rings, and the control channel when they are silent.
bool SimulatedJob::step(Rank& rank) {
  bool worked = rank.context->engine().step();
  if (!worked) rank.context->engine().poll_slow();
  if (rank.running == 0) return worked;
  for (std::size_t i = 0; i < rank.scripts.size(); ++i) {
    const Script& script = rank.scripts[i];
    if (script.done() || !script.ready()) continue;
    script.resume();
    worked = true;
    if (!script.done()) continue;
    --rank.running;
    if (!script.error() || !wrong_.empty()) continue;
    try {
      std::rethrow_exception(script.error());
    } catch (const std::exception& error) {
      wrong_ = fmt::format("rank {}: {}", rank.context->rank(), error.what());
    }
  }
  return worked;
}

bool SimulatedJob::all_ended() const {
  for (std::size_t rank = 0; rank < ranks_.size(); ++rank) {
    if (ranks_[rank].running > 0 && network_.alive(static_cast<int>(rank))) return false;
  }
  return true;
}

std::string SimulatedJob::run(std::int64_t timeout_ms) {
  const auto over = [this] { return all_ended() || !wrong_.empty(); };
  if (!network_.run_until(over, network_.after_ms(timeout_ms)) && wrong_.empty()) {
    wrong_ = fmt::format("no progress\n{}", network_.describe());
    for (int rank = 0; rank < size(); ++rank) {
      if (rank_at(rank).running > 0) {
        wrong_ += fmt::format("  rank {} waits; its last operations: {}\n", rank,
                              context(rank).operations().describe());
      }
    }
  }
  return wrong_;
}

messaging::Counters SimulatedJob::counters() {
  messaging::Counters sum;
  for (Rank& rank : ranks_) {
    const auto mine = rank.context->messaging().counters();
    sum.records_sent += mine.records_sent;
    sum.segments_sent += mine.segments_sent;
    sum.zero_copy_sends += mine.zero_copy_sends;
    sum.pulls += mine.pulls;
    sum.helped_pulls += mine.helped_pulls;
    sum.reads += mine.reads;
    sum.preposted_receives += mine.preposted_receives;
    sum.preposted_sends += mine.preposted_sends;
    sum.credit_writes += mine.credit_writes;
    sum.control_waits += mine.control_waits;
    sum.degraded += mine.degraded;
    sum.stale_answers += mine.stale_answers;
    sum.partial_records += mine.partial_records;
  }
  return sum;
}

EndsOperations::~EndsOperations() {
  if (std::uncaught_exceptions() == exceptions_) return;
  context_.abort("a script has thrown");
  context_.engine().poll_slow();
}

}  // namespace qpmesh::test
