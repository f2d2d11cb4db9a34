// SPDX-License-Identifier: MIT
// From a bootstrap to a communicator of everybody.
#include <sys/eventfd.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <numeric>

#include "base/bytes.hpp"
#include "base/errors.hpp"
#include "base/options_table.hpp"
#include "bootstrap/agreement.hpp"
#include "bootstrap/launcher.hpp"
#include "bootstrap/listener.hpp"
#include "bootstrap/meeting.hpp"
#include "collectives/registry.hpp"
#include "context/communicator_state.hpp"
#include "messaging/rings/layout.hpp"
#include "startup/init.hpp"
#include "startup/network_times.hpp"
#include "startup/reach.hpp"
#include "startup/tcp_bring_up.hpp"
#include "startup/verbs_bring_up.hpp"
#include "topology/cores.hpp"
#include "transport/shm/transport.hpp"
#include "transport/verbs/selection/choice.hpp"

namespace qpmesh::startup {
namespace {

using bootstrap::Meeting;

constexpr std::size_t at(int rank) noexcept { return static_cast<std::size_t>(rank); }

// What every rank tells every other before the first message; compared or used by all alike.
struct Facts {
  Blob options;
  topology::UsableCores cores;
  std::uint64_t slab_offset = 0;
  context::NodeSlabs node_slabs{};
};

// coder: puts or gets what it is given.
void code(Facts& facts, auto&& coder) {
  coder(facts.options, facts.cores.quota, facts.cores.cores, facts.slab_offset, facts.node_slabs[0],
        facts.node_slabs[1]);
}

Blob encode(Facts& facts) {
  base::ByteWriter out;
  code(facts, [&](const auto&... fields) { out.put_fields(fields...); });
  return std::move(out).blob();
}

Facts decode(BlobView bytes, int peer) {
  base::ByteReader in{bytes};
  Facts facts;
  code(facts, [&](auto&... fields) { in.get_fields(fields...); });
  if (in.finished()) return facts;
  base::throw_error({ErrorCode::corrupt, peer}, "init", "",
                    "facts that no rank of this version sends");
}

// Names that nothing reads are usually typing errors: say so once, on one rank.
void warn_unknown_variables(const base::Log& log) {
  for (const std::string& sentence : base::unknown_variables(base::environment_names()))
    log.warning("{}", sentence);
}

// How many ranks of a node run on its busiest core.
int ranks_per_core(const std::vector<base::RankIdentity>& ranks, const std::vector<Facts>& facts,
                   int node) {
  std::vector<topology::UsableCores> node_cores;
  for (std::size_t i = 0; i < facts.size(); ++i) {
    if (ranks[i].node == node) node_cores.push_back(facts[i].cores);
  }
  const int cores = std::max(1, topology::usable_core_count(node_cores));
  return (static_cast<int>(node_cores.size()) + cores - 1) / cores;
}

// From what all ranks know alike, so that all choose the same algorithms: nodes are not told apart.
collectives::TopologyParams near_topology(const std::vector<base::RankIdentity>& ranks,
                                          const std::vector<Facts>& facts, const Reach& reach) {
  collectives::TopologyParams near{.shares_memory = !reach.uses_network_on_node()};
  const int size = static_cast<int>(ranks.size());
  for (int rank = 0, node = 0; rank < size; ++rank) {
    if (ranks[at(rank)].node != node) continue;  // not the first rank of the next node
    near.ranks_per_core = std::max(near.ranks_per_core, ranks_per_core(ranks, facts, node++));
  }
  return near;
}

// busy_neighbour: a device whose protocol runs on our processors, which it needs to answer us.
progress::WaitPolicy wait_policy(const Options& options, bool own_core, bool busy_neighbour) {
  if (options.spin_us >= 0) return progress::WaitPolicy::spin_for(options.spin_us);
  if (!own_core) return progress::WaitPolicy::shared_core();
  return busy_neighbour ? progress::WaitPolicy::beside_protocol()
                        : progress::WaitPolicy::own_core();
}

// How a rank waits, and what it expects of its node.
void set_policies(context::ContextParts& parts, const std::vector<Facts>& facts, const Reach& reach,
                  bool busy_neighbour) {
  const int node = parts.identities[at(parts.rank)].node;
  parts.own_core = ranks_per_core(parts.identities, facts, node) == 1;
  parts.spins_max = parts.own_core ? progress::spins_on_own_core : 0;
  parts.wait_policy = wait_policy(parts.options, parts.own_core, busy_neighbour);
  parts.near = near_topology(parts.identities, facts, reach);
}

// A peer's rings must lie in its arena: we are going to write there.
void require_slab(const transport::Neighbour& neighbour, int peer, std::uint64_t offset,
                  std::size_t slab_bytes) {
  if (neighbour.at(offset, slab_bytes) != nullptr && offset % transport::Arena::alignment == 0)
    return;
  base::throw_error({ErrorCode::corrupt, peer}, "init", "",
                    "its rings of {} bytes at {} do not lie in its arena of {} bytes", slab_bytes,
                    offset, neighbour.arena_bytes());
}

base::UniqueFd make_doorbell(const base::System& system) {
  base::UniqueFd doorbell{
      system.call("eventfd", [] { return ::eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK); })};
  if (doorbell) return doorbell;
  const int error = errno;
  base::throw_error({.code = ErrorCode::no_resource, .system_error = error}, "init",
                    base::hint_for_descriptors(error), "eventfd failed");
}

// What a rank makes before it meets the others.
struct Own {
  std::unique_ptr<transport::Arena> arena;
  std::unique_ptr<const std::uint64_t> private_nonce;
  base::UniqueFd doorbell;
  Facts facts;
};

// The arena has room for the slab.
Own make_own(const Options& options, const base::System& system, std::size_t slab_bytes) {
  Own own{.arena = std::make_unique<transport::Arena>(transport::Arena::create_shared(
              system, static_cast<std::size_t>(options.arena_bytes_max))),
          .private_nonce = {},
          .doorbell = make_doorbell(system),
          .facts = {.options = base::agreed_options(options),
                    .cores = topology::usable_cores(),
                    .slab_offset = 0}};
  own.arena->header().nonce = system.random_u64();
  own.private_nonce = std::make_unique<const std::uint64_t>(own.arena->header().nonce);
  own.facts.slab_offset = own.arena->allocate(slab_bytes).value();
  for (std::uint64_t& slab : own.facts.node_slabs)
    slab = own.arena->allocate(sizeof(collectives::NodeSlab)).value_or(0);
  return own;
}

// The first lap of messages through a ring would take its pages one by one, in both processes, and
// be two to four times as slow. Of few ranks they are little memory: 57 MiB of eight.
constexpr auto populated_ranks_max = 8;

// Of the ring that a peer writes here, and of the one that we write there.
void populate_rings(std::byte* slot, const context::PeerLink& link, std::size_t slot_bytes) {
  transport::populate(slot, slot_bytes);
  if (const std::byte* const remote = link.connection->load(link.places.remote_slot, slot_bytes))
    // Shared memory, and ours to write.
    transport::populate(const_cast<std::byte*>(remote), slot_bytes);
}

// How this rank reaches the others.
struct Links {
  Reach reach;  // reads the identities of the parts
  std::vector<bootstrap::LocalPeer> local_peers;
  NetworkLinks verbs;
  NetworkLinks tcp;
};

// What a rank makes for itself alone, once it has met the others. parts and links are used up.
std::shared_ptr<context::Context> make_context(context::ContextParts& parts, Links& links,
                                               const std::vector<Facts>& facts,
                                               const messaging::RingLayout& layout) {
  const int rank = parts.rank;
  const int size = static_cast<int>(parts.identities.size());
  const std::vector<base::RankIdentity>& ranks = parts.identities;
  // A transport is destroyed after its connections, also where this fails.
  auto& shm = static_cast<transport::shm::ShmTransport&>(*parts.transports.emplace_back(
      std::make_unique<transport::shm::ShmTransport>(rank, *parts.arena, parts.doorbell.get())));
  for (bootstrap::LocalPeer& peer : links.local_peers) {
    const bool both_read =
        ranks[at(rank)].reads_neighbours && ranks[at(peer.rank)].reads_neighbours;
    shm.add_peer(peer.rank,
                 {*parts.system, peer.arena.get(), peer.arena_bytes, std::move(peer.doorbell),
                  both_read ? peer.private_memory : base::ProcessMemory{}});
    require_slab(shm.neighbour(peer.rank), peer.rank, facts[at(peer.rank)].slab_offset,
                 layout.slab_bytes(size));
  }
  for (NetworkLinks* const network : {&links.verbs, &links.tcp}) {
    if (network->transport) parts.transports.push_back(std::move(network->transport));
  }
  const int node = ranks[at(rank)].node;
  const bool populates =
      std::ranges::count(ranks, node, &base::RankIdentity::node) <= populated_ranks_max;
  for (int peer = 0; peer < size; ++peer) {
    const Way way = links.reach.way(rank, peer);
    parts.neighbours.push_back(way == Way::shm ? &shm.neighbour(peer) : nullptr);
    if (way != Way::shm) {
      parts.links.push_back(
          std::move((way == Way::verbs ? links.verbs : links.tcp).links[at(peer)]));
      continue;
    }
    std::byte* const slot =
        parts.arena->data() + facts[at(rank)].slab_offset + layout.slot_offset(peer);
    parts.links.push_back(
        {.connection = shm.connect(peer),
         .places = {
             .transport = &shm,
             .connection = nullptr,
             .neighbour = &shm.neighbour(peer),
             .layout = layout,
             .slot = slot,
             .remote_slot = {.region = 0,
                             .offset = facts[at(peer)].slab_offset + layout.slot_offset(rank)},
             .remote_revocations = {.region = 0,
                                    .offset = offsetof(transport::ArenaHeader, revocations)},
             .staging = {}}});
    if (populates) populate_rings(slot, parts.links.back(), layout.slot_bytes());
  }
  // Communicators of a rank that shares its memory with nobody keep no slab for it.
  if (size > 1 && std::ranges::count(parts.neighbours, nullptr) == size - 1)
    parts.neighbours.clear();
  return context::Context::make(std::move(parts));
}

void know_network(context::Context& context,
                  const std::optional<collectives::NetworkTimes>& measured, const base::Log& log) {
  if (!measured) {
    return log.info(
        "what messages between nodes take was not found: ranks waited for their cores all the "
        "time; algorithms are chosen as for a fast network");
  }
  context.know_network(*measured);
  log.info(
      "between nodes a small message takes {:.1f} µs, each further one {:.2f} µs, a byte {:.3f} ns "
      "(measured, to half powers of two)",
      measured->latency_s * 1e6, measured->overhead_s * 1e6, measured->byte_s * 1e9);
}

}  // namespace

void check(const Options& options) {
  base::validate(options);
  collectives::parse_forced(options.algorithms);
  bootstrap::parse_port_range(options.ports);
  transport::verbs::selection::wishes_of(options);
}

std::shared_ptr<context::CommunicatorState> init_over(Bootstrap& bootstrap,
                                                      const Options& options) {
  check(options);
  const int rank = bootstrap.rank();
  const int size = bootstrap.size();
  bootstrap::check_place(rank, size);  // before anything is made for so many
  auto system = std::make_shared<base::System>();
  const base::Log log{options.log, rank};
  const Deadline deadline = base::after_ms(*system, options.init_timeout_ms);

  const messaging::RingLayout layout = context::ring_layout(options);
  const std::size_t arena_bytes = static_cast<std::size_t>(options.arena_bytes_max);
  if (!transport::Arena::has_room(arena_bytes, layout.slab_bytes(size))) {
    base::throw_error({ErrorCode::no_resource}, "init",
                      "raise QPMESH_ARENA_BYTES_MAX or lower QPMESH_PAYLOAD_RING_BYTES",
                      "the rings of {} ranks need {} bytes, the arena has {}", size,
                      layout.slab_bytes(size), arena_bytes);
  }
  Own own;
  // What goes wrong here is told to all. So are options of this rank that exclude each other, which
  // Reach finds.
  const auto prepare = [&]() -> bootstrap::Brought {
    const std::vector<base::RankIdentity> nobody;
    [[maybe_unused]] const Reach allowed{options, nobody};
    own = make_own(options, *system, layout.slab_bytes(size));
    return {
        .offer = {.arena_fd = own.arena->descriptor(),
                  .arena_bytes = own.arena->bytes(),
                  .nonce = own.arena->header().nonce,
                  .doorbell_fd = own.doorbell.get(),
                  .private_nonce_address =
                      options.cma ? reinterpret_cast<std::uintptr_t>(own.private_nonce.get()) : 0},
        .facts = encode(own.facts)};
  };
  Meeting meeting = bootstrap::meet(bootstrap, options, *system, log, prepare, deadline);
  std::vector<Facts> facts;
  for (int peer = 0; peer < size; ++peer) {
    facts.push_back(decode(meeting.ranks[at(peer)].facts, peer));
    base::require_same_options(own.facts.options, facts.back().options, peer);
  }

  context::ContextParts parts{.rank = rank,
                              .options = options,
                              .log = log,
                              .system = system,
                              .epoch = meeting.epoch,
                              .identities = std::move(meeting.ranks),
                              .arena = std::move(own.arena),
                              .private_nonce = std::move(own.private_nonce),
                              .transports = {},
                              .links = {},
                              .control = std::move(meeting.control),
                              .doorbell = std::move(own.doorbell),
                              .wait_policy = {}};
  parts.state_place = bootstrap::process_environment()("QPMESH_STATES").value_or("");
  Links links{.reach = {options, parts.identities},
              .local_peers = std::move(meeting.local_peers),
              .verbs = {},
              .tcp = {}};
  links.verbs = link_verbs(bootstrap, links.reach, parts, deadline);
  links.tcp = link_tcp(bootstrap, links.reach, parts, deadline);
  log.info("{}", links.reach.describe(rank));
  set_policies(parts, facts, links.reach, links.verbs.busy_neighbour);
  const bool shares_cores = parts.near.ranks_per_core > 1 || links.verbs.busy_neighbour;
  const bool has_network = links.reach.any(Way::verbs) || links.reach.any(Way::tcp);
  const bool measures = has_network && options.choice == ChoiceBy::measured;
  const std::uint64_t id = context::world_id(parts.epoch);
  std::shared_ptr<context::Context> context;
  bootstrap::agree(bootstrap, deadline, [&] {
    context = make_context(parts, links, facts, layout);
    if (!measures) context->admit_calls();
    return Blob{};
  });

  std::vector<int> everybody(at(size));
  std::iota(everybody.begin(), everybody.end(), 0);
  std::vector<context::NodeSlabs> node_slabs(at(size));
  std::ranges::transform(facts, node_slabs.begin(), &Facts::node_slabs);
  if (measures) {
    know_network(*context,
                 measure_network(bootstrap, context, base::mix64(id), shares_cores, deadline), log);
    // No other thread and no trace has part in what is measured.
    bootstrap::agree(bootstrap, deadline, [&] {
      context->admit_calls();
      return Blob{};
    });
  }
  const progress::HeldTurn turn{context->turn()};  // a progress thread may run
  return std::make_shared<context::CommunicatorState>(context, id, std::move(everybody),
                                                      node_slabs);
}

std::shared_ptr<context::CommunicatorState> init_from_environment(const Options& options) {
  // Of the process: a second init of the same job must not meet the sockets of the first.
  static std::atomic<int> ordinal{0};
  const int call = ordinal++;  // also one that fails: the other ranks' calls fail, too
  const base::System system;
  const bootstrap::Identity identity = bootstrap::identify(bootstrap::process_environment());
  const base::Log log{options.log, identity.rank};
  if (identity.rank == 0) warn_unknown_variables(log);
  const auto bootstrap = bootstrap::make_bootstrap(identity, call, options, system, log);
  return init_over(*bootstrap, options);
}

}  // namespace qpmesh::startup
