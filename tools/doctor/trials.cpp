// SPDX-License-Identifier: MIT
#include "tools/doctor/trials.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cctype>
#include <functional>
#include <optional>
#include <string>

#include "bootstrap/socket.hpp"
#include "qpmesh/qpmesh.hpp"
#include "startup/reach.hpp"
#include "tools/doctor/timings.hpp"
#include "transport/verbs/selection/choice.hpp"
#include "transport/verbs/selection/pairing.hpp"

namespace qpmesh::doctor {
namespace {

namespace selection = transport::verbs::selection;

constexpr std::int64_t link_timeout_ms = 2'000;  // over verbs: by default, and of GIDs at most
constexpr std::int64_t operation_ms_max = 10'000;
constexpr std::size_t gid_pairs_max = 16;        // one that does not work takes seconds
constexpr std::int64_t gids_budget_ms = 60'000;  // then no more begin: all ranks wait for the pair
constexpr std::uint32_t first_gid_step = 100;    // behind those of ways

class Trials {
 public:
  Trials(const Ranks& ranks, Line& line, PairReport& pair)
      : ranks_{ranks}, line_{line}, pair_{pair} {}

  // In the order in which init would take them. The lower rank says which one is next, so that
  // ranks with other options stay together.
  void try_ways(std::int64_t budget_ms) {
    std::vector<std::string> wanted = ways();
    std::uint32_t step = 0;
    for (; pair_.way.empty(); ++step) {
      std::string way = step < wanted.size() ? wanted[step] : "";
      if (ranks_.me == pair_.low) line_.say(way, ranks_.soon());
      else way = line_.hear_text(ranks_.soon());
      if (way.empty()) return;
      const auto refused = try_way(way, step, budget_ms);
      if (refused) pair_.refused.push_back(*refused);
      else pair_.way = way;
    }
    if (pair_.way != "verbs") return;
    try_reads(step, budget_ms);
    if (go_on(wanted.back() == "tcp")) try_tcp_beside(step + 1, budget_ms);
  }

  // Compares the fields of the queue pairs that a job of the two would make, by the ports and GIDs
  // that init would choose.
  void compare_packets() {
    const Options& options = ranks_.facts.options;
    const bool excluded =
        options.transport == TransportChoice::shm || options.transport == TransportChoice::tcp;
    selection::Wishes wishes = ranks_.facts.info.wishes;
    wishes.bootstrap_address =
        selection::parse_address(bootstrap::host_of(line_.socket())).value_or(selection::Gid{});
    const auto [low, high] = exchange_offers(
        excluded ? selection::Offer{}
                 : make_offer(ranks_.facts.info.devices, wishes, ranks_.facts.info.host));
    const auto ports = selection::choose_ports(std::array{low, high}, {});
    const selection::Offer of_low = restrict_to(low, ports.front());
    const selection::Offer of_high = restrict_to(high, ports.back());
    const auto all = selection::pairs(of_low, of_high).pairs;
    if (all.empty()) return;
    pair_.packets_from_low = packets_from(of_low.endpoints[all.front().low]);
    pair_.packets_from_high = packets_from(of_high.endpoints[all.front().high]);
  }

  // Whatever the options wish: a wish may be what is wrong.
  void try_gids(bool every_pair) {
    const bool refused = std::ranges::any_of(pair_.refused, [](const RefusedWay& each) {
      return each.way == "verbs" && !each.by_options;
    });
    selection::Offer mine;
    if (every_pair || refused)
      mine = make_offer(ranks_.facts.info.devices,
                        {.numa_node = ranks_.facts.info.wishes.numa_node}, ranks_.facts.info.host);
    const auto [low, high] = exchange_offers(std::move(mine));
    std::uint32_t step = first_gid_step;
    const Deadline end = base::after_ms(ranks_.system, gids_budget_ms);
    const auto all = selection::pairs(low, high).pairs;
    for (const auto& [of_low, of_high] : all) {
      if (!go_on(pair_.gids.size() < gid_pairs_max && ranks_.system.now() < end)) break;
      const selection::Endpoint& at_low = low.endpoints[of_low];
      const selection::Endpoint& at_high = high.endpoints[of_high];
      GidPair tried{.low = end_of(at_low), .high = end_of(at_high)};
      tried.why = try_gid(end_of(ranks_.me == pair_.low ? at_low : at_high), step++);
      pair_.gids.push_back(std::move(tried));
    }
    pair_.gids_untried = static_cast<int>(all.size() - pair_.gids.size());
  }

 private:
  // Returns the lower rank's offer and the higher rank's.
  std::array<selection::Offer, 2> exchange_offers(selection::Offer mine) const {
    line_.say(encode(mine), ranks_.soon());
    selection::Offer theirs = selection::decode(line_.hear(ranks_.soon()), other());
    if (ranks_.me != pair_.low) std::swap(mine, theirs);
    return {std::move(mine), std::move(theirs)};
  }

  static PacketFields packets_from(const selection::Endpoint& endpoint) {
    return {.device = end_of(endpoint).device,
            .traffic_class = endpoint.traffic_class,
            .service_level = endpoint.service_level,
            .flow_label = static_cast<int>(endpoint.flow_label),
            .pkey_index = endpoint.pkey_index,
            .pkey = endpoint.pkey};
  }

  int other() const { return ranks_.me == pair_.low ? pair_.high : pair_.low; }

  std::vector<std::string> ways() {
    const base::Place& there = ranks_.guest(other()).place;
    switch (ranks_.facts.options.transport) {
      case TransportChoice::shm: return {"shm"};
      case TransportChoice::verbs:
      case TransportChoice::verbs_and_shm: return {"verbs"};
      case TransportChoice::tcp: return {"tcp"};
      case TransportChoice::automatic: break;
    }
    if (there == ranks_.facts.place) return {"shm"};
    if (there.boot_id == ranks_.facts.place.boot_id) {
      pair_.refused.push_back(
          {"shm", "not in one place" + startup::apart(there, ranks_.facts.place), ""});
    }
    const Options& options = ranks_.facts.options;
    const bool rdma_required =
        options.require == Requirement::rdma || !options.device.empty() || options.gid_index >= 0;
    if (options.encrypt && !rdma_required) {
      pair_.refused.push_back({"verbs", "QPMESH_ENCRYPT=yes", "", true});
      return {"tcp"};
    }
    return {"verbs", "tcp"};
  }

  Options options_for(std::string_view way) const {
    Options options = ranks_.facts.options;
    options.transport = way == "shm"     ? TransportChoice::shm
                        : way == "verbs" ? TransportChoice::verbs
                                         : TransportChoice::tcp;
    if (way != "verbs") options.require = Requirement::nothing;
    if (way == "tcp") {  // wishes for a device mean that nothing else will do
      options.device.clear();
      options.gid_index = -1;
    }
    options.algorithms.clear();
    options.init_timeout_ms = std::min(options.init_timeout_ms, init_ms_max);
    options.operation_timeout_ms = operation_ms_max;
    if (options.link_timeout_ms == 0) options.link_timeout_ms = link_timeout_ms;
    if (options.log == Options{}.log) options.log = LogLevel::off;  // the report tells it
    return options;
  }

  // A piece of work that both do. False: at least one could not, and refused says why.
  bool attempt(RefusedWay& refused, const std::function<void()>& work) const {
    try {
      work();
    } catch (const Error& error) {
      refused.why = in_numbers_of_job(error.cause());
      if (error.system_error() != 0)
        refused.why += fmt::format(" ({})", base::describe_errno(error.system_error()));
      refused.hint = in_numbers_of_job(error.hint());
    }
    return agree(refused);
  }

  // A job of the two. Nothing: both have done its work.
  std::optional<RefusedWay> try_job(const std::string& way, const Options& options,
                                    std::uint32_t step,
                                    const std::function<void(Communicator&)>& work) const {
    std::optional<Communicator> world;
    RefusedWay refused{.way = way};
    const bool met = attempt(refused, [&] {
      LineBootstrap bootstrap{line_, ranks_.me == pair_.low ? 0 : 1, step};
      world.emplace(init(bootstrap, options));
    });
    const bool done = met && attempt(refused, [&] {
                        work(*world);
                        world->finish();
                      });
    if (done) return std::nullopt;
    return refused;
  }

  // Nothing: it serves. Over verbs without reads, which are tried by themselves.
  std::optional<RefusedWay> try_way(const std::string& way, std::uint32_t step,
                                    std::int64_t budget_ms) {
    const base::System& system = ranks_.system;
    PairReport found = pair_;
    Options options = options_for(way);
    options.rendezvous = RendezvousChoice::write;
    auto refused = try_job(way, options, step, [&](Communicator& world) {
      const Checked checked = check_bytes(world, system);
      found.checked_bytes = checked.bytes;
      found.wrong_bytes = checked.wrong_bytes;
      const double each_us = part_us(budget_ms);
      found.latency_us = latency_us(world, system, each_us);
      found.bandwidth_mb_s = bandwidth_mb_s(world, system, each_us, Flow::to_low);
      found.back_mb_s = bandwidth_mb_s(world, system, each_us, Flow::to_high);
      found.both_mb_s = bandwidth_mb_s(world, system, each_us, Flow::both);
    });
    if (!refused) pair_ = std::move(found);
    return refused;
  }

  // Long messages are read by the receiver's device, whatever the options wish.
  void try_reads(std::uint32_t step, std::int64_t budget_ms) {
    Options options = options_for("verbs");
    options.rendezvous = RendezvousChoice::read;
    options.register_bytes_min = 0;
    options.eager_bytes_max = Options{}.eager_bytes_max;
    Reads found{.wished = ranks_.facts.options.rendezvous == RendezvousChoice::read};
    const auto refused = try_job("reads", options, step, [&](Communicator& world) {
      const Checked checked = check_bytes(world, ranks_.system);
      found.checked_bytes = checked.bytes;
      found.wrong_bytes = checked.wrong_bytes;
      found.bandwidth_mb_s = bandwidth_mb_s(world, ranks_.system, part_us(budget_ms), Flow::to_low);
    });
    // init reads, too, and verbs has just served without.
    if (refused) found = {.why = refused->why, .wished = found.wished};
    pair_.reads = found;
  }

  void try_tcp_beside(std::uint32_t step, std::int64_t budget_ms) {
    const auto refused = try_job("tcp", options_for("tcp"), step, [&](Communicator& world) {
      pair_.tcp_latency_us = latency_us(world, ranks_.system, part_us(budget_ms));
    });
    if (!refused) return;
    pair_.tcp_latency_us = 0;
    pair_.refused.push_back(*refused);
  }

  // For each measurement: four are made of a way.
  static double part_us(std::int64_t budget_ms) { return 250 * static_cast<double>(budget_ms); }

  // The lower rank's word, so that both do the same.
  bool go_on(bool may) {
    if (ranks_.me == pair_.high) return line_.hear_text(ranks_.soon()) == "on";
    line_.say(may ? "on" : "enough", ranks_.soon());
    return may;
  }

  static GidEnd end_of(const selection::Endpoint& endpoint) {
    return {fmt::format("{}:{}", endpoint.device, endpoint.port), endpoint.gid_index,
            address_text(endpoint.gid)};
  }

  // Why it does not work.
  std::string try_gid(const GidEnd& mine, std::uint32_t step) const {
    Options options = options_for("verbs");
    options.link_timeout_ms = std::min(options.link_timeout_ms, link_timeout_ms);
    options.device = mine.device;
    options.gid_index = mine.index;
    options.netdev.clear();
    options.subnet.clear();
    options.encrypt = false;
    RefusedWay refused;
    attempt(refused, [&] {
      LineBootstrap bootstrap{line_, ranks_.me == pair_.low ? 0 : 1, step};
      Communicator world = init(bootstrap, options);
      world.barrier();
      world.finish();
    });
    return refused.why;
  }

  // Whether both have done it. A rank that only heard that the other one gave up takes its words.
  bool agree(RefusedWay& mine) const {
    const Deadline deadline = base::after_ms(ranks_.system, init_ms_max + operation_ms_max);
    line_.say(mine.why, deadline);
    line_.say(mine.hint, deadline);
    const std::string why = line_.hear_text(deadline);
    const std::string hint = line_.hear_text(deadline);
    if (why.empty() && mine.why.empty()) return true;
    const bool echo = mine.why.empty() || mine.why == "the other rank has given up";
    if (echo && !why.empty()) mine.why = why, mine.hint = hint;
    return false;
  }

  // The two were ranks 0 and 1 of a job of their own.
  std::string in_numbers_of_job(const std::string& text) const {
    constexpr std::string_view word = "rank ";
    std::string said;
    for (std::size_t i = 0; i < text.size(); ++i) {
      said += text[i];
      if (!said.ends_with(word) || i + 1 == text.size()) continue;
      const bool alone = i + 2 == text.size() || std::isdigit(text[i + 2]) == 0;
      if ((text[i + 1] == '0' || text[i + 1] == '1') && alone)
        said += std::to_string(text[++i] == '0' ? pair_.low : pair_.high);
    }
    return said;
  }

  const Ranks& ranks_;
  Line& line_;
  PairReport& pair_;
};

}  // namespace

void compare_packets(const Ranks& ranks, Line& line, PairReport& pair) {
  Trials{ranks, line, pair}.compare_packets();
}

void try_ways(const Ranks& ranks, Line& line, PairReport& pair, std::int64_t budget_ms) {
  Trials{ranks, line, pair}.try_ways(budget_ms);
}

void try_gids(const Ranks& ranks, Line& line, PairReport& pair, bool every) {
  Trials{ranks, line, pair}.try_gids(every);
}

}  // namespace qpmesh::doctor
