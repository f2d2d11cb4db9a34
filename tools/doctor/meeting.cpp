// SPDX-License-Identifier: MIT
#include "tools/doctor/meeting.hpp"

#include <fmt/format.h>
#include <poll.h>

#include <algorithm>
#include <cerrno>
#include <chrono>
#include <cstring>
#include <thread>

#include "bootstrap/listener.hpp"
#include "bootstrap/socket.hpp"
#include "qpmesh/error.hpp"
#include "transport/verbs/selection/choice.hpp"

namespace qpmesh::doctor {
namespace {

namespace selection = transport::verbs::selection;
using base::UniqueFd;
using std::chrono::milliseconds;

constexpr std::int64_t connect_ms_max = 2'000;
constexpr std::int64_t head_start_ms = 50;  // of an address before the next one

bool loops(const std::string& host) {
  const auto address = bootstrap::numeric({host, 0});
  return address && scope_of(*address) == bootstrap::Scope::loopback;
}

// So few bytes come at once.
bool hears(const base::System& system, int socket, const Greeting& expected) {
  Greeting heard{};
  const auto got = bootstrap::receive(system, socket, std::as_writable_bytes(std::span{&heard, 1}));
  return got.count == sizeof heard && std::memcmp(&heard, &expected, sizeof heard) == 0;
}

// The first that answers is the line. Each is greeted a little after the one before: what is
// connected need not be the other rank, for its address may be one of this host, too, or of a
// third one.
UniqueFd greet(const Ranks& ranks, std::vector<UniqueFd> sockets, int low, PairReport& pair) {
  const Greeting hello = greeting(ranks, ranks.me, low);
  const Greeting expected = greeting(ranks, low, ranks.me);
  const Deadline deadline = ranks.soon();
  std::size_t greeted = 0;
  const auto give_up = [&](std::size_t i, int error) {
    sockets[i].reset();
    if (i < pair.calls.size()) pair.calls[i].error = error;
  };
  const auto is_open = [](const UniqueFd& each) { return static_cast<bool>(each); };
  while (std::ranges::any_of(sockets, is_open) && ranks.system.now() < deadline) {
    while (greeted < sockets.size() && !sockets[greeted]) ++greeted;
    if (greeted < sockets.size()) {
      const auto bytes = std::as_bytes(std::span{&hello, 1});
      if (bootstrap::send(ranks.system, sockets[greeted].get(), bytes).count != bytes.size())
        give_up(greeted, ECONNRESET);
      ++greeted;
    }
    std::vector<pollfd> polled;
    for (std::size_t i = 0; i < greeted; ++i) polled.push_back({sockets[i].get(), POLLIN, 0});
    const bool more = greeted < sockets.size();
    ::poll(polled.data(), polled.size(),
           base::remaining_ms(ranks.system,
                              more ? base::after_ms(ranks.system, head_start_ms) : deadline));
    for (std::size_t i = 0; i < greeted; ++i) {
      if (polled[i].revents == 0 || !sockets[i]) continue;
      if (hears(ranks.system, sockets[i].get(), expected)) {
        for (std::size_t silent = 0; silent < i; ++silent)
          if (sockets[silent]) give_up(silent, ETIMEDOUT);
        return std::move(sockets[i]);
      }
      give_up(i, ECONNRESET);
    }
  }
  for (std::size_t i = 0; i < sockets.size(); ++i)
    if (sockets[i]) give_up(i, ETIMEDOUT);
  if (pair.calls.empty()) pair.failure = "the other rank did not answer";
  return {};
}

}  // namespace

std::vector<UniqueFd> listen(Guest& mine, const Bootstrap& world, const HostFacts& facts,
                             const base::System& system, const base::Log& log) {
  std::vector<UniqueFd> listeners;
  std::string name =
      fmt::format("qpmesh-doctor-{:016x}{:016x}", system.random_u64(), system.random_u64());
  bootstrap::Opened local = listen_at(system, bootstrap::unix_address(name));
  if (local.socket) {
    mine.unix_name = std::move(name);
    listeners.push_back(std::move(local.socket));
  }
  const auto ports = bootstrap::parse_port_range(facts.options.ports);
  // Those that a job would use, in its order: first the one that the ranks met by.
  const auto subnet = selection::wishes_of(facts.options).subnet;
  auto all = bootstrap::interfaces(system);
  std::stable_partition(all.begin(), all.end(), [met_by = world.local_address()](const auto& each) {
    return each.host == met_by;
  });
  for (const auto& [netdev, host, prefix_bits] : all) {
    const auto address = selection::parse_address(host);
    if (loops(host) || (subnet && !(address && contains(*subnet, *address)))) continue;
    if (!facts.options.netdev.empty() && facts.options.netdev != netdev) continue;
    try {
      auto opened =
          bootstrap::listen_at_hosts({host}, ports, world.rank(), facts.info.host, system, log);
      for (UniqueFd& listener : opened) {
        mine.listeners.push_back(host_port(bootstrap::local_address(listener.get())));
        mine.netdevs.push_back(netdev);
        listeners.push_back(std::move(listener));
      }
    } catch (const Error&) {
      continue;  // an address at which nobody can listen is told by the checks of the host
    }
  }
  return listeners;
}

// All addresses at once; the first one in order that answers a greeting is the line.
UniqueFd call(const Ranks& ranks, int low, PairReport& pair) {
  const Guest& there = ranks.guest(low);
  const Deadline deadline = base::after_ms(ranks.system, connect_ms_max);
  if (base::same_network(there.place, ranks.facts.place) && !there.unix_name.empty()) {
    bootstrap::Opened opened;
    do {
      opened = connect_to(ranks.system, bootstrap::unix_address(there.unix_name));
      if (opened.error == EAGAIN) std::this_thread::sleep_for(milliseconds{1});
    } while (opened.error == EAGAIN && ranks.system.now() < deadline);
    if (!opened.socket) {
      pair.calls.push_back({"@" + there.unix_name, "", opened.error});
      return {};
    }
    std::vector<UniqueFd> socket;
    socket.push_back(std::move(opened.socket));
    return greet(ranks, std::move(socket), low, pair);
  }
  std::vector<UniqueFd> sockets;
  for (std::size_t i = 0; i < there.listeners.size(); ++i) {
    const auto address = bootstrap::numeric(there.listeners[i]);
    bootstrap::Opened opened = connect_to(ranks.system, address.value_or(bootstrap::Address{}));
    pair.calls.push_back({to_string(there.listeners[i]), there.netdevs[i],
                          opened.socket ? EINPROGRESS : opened.error});
    sockets.push_back(std::move(opened.socket));
  }
  for (std::size_t i = 0; i < sockets.size(); ++i) {
    Call& call = pair.calls[i];
    if (!sockets[i]) continue;
    call.error = bootstrap::await(ranks.system, sockets[i].get(), POLLOUT, deadline);
    if (call.error == 0) call.error = bootstrap::finish_connecting(ranks.system, sockets[i].get());
    if (call.error != 0) sockets[i].reset();
  }
  return greet(ranks, std::move(sockets), low, pair);
}

// The caller may find no address: then nobody comes.
UniqueFd answer(const Ranks& ranks, std::span<const UniqueFd> listeners, int high) {
  const Greeting expected = greeting(ranks, high, ranks.me);
  const Deadline deadline = base::after_ms(ranks.system, connect_ms_max + connect_ms_max / 2);
  std::vector<UniqueFd> callers;
  while (ranks.system.now() < deadline) {
    std::vector<pollfd> all;
    for (const UniqueFd& each : listeners) all.push_back({each.get(), POLLIN, 0});
    for (const UniqueFd& each : callers) all.push_back({each.get(), POLLIN, 0});
    ::poll(all.data(), all.size(), base::remaining_ms(ranks.system, deadline));
    for (std::size_t i = listeners.size(); i < all.size(); ++i) {
      if (all[i].revents == 0) continue;
      UniqueFd& caller = callers[i - listeners.size()];
      const Greeting hello = greeting(ranks, ranks.me, high);
      const auto bytes = std::as_bytes(std::span{&hello, 1});
      if (hears(ranks.system, caller.get(), expected) &&
          bootstrap::send(ranks.system, caller.get(), bytes).count == bytes.size())
        return std::move(caller);
      caller.reset();  // a port scan, or an address that was tried
    }
    std::erase_if(callers, [](const UniqueFd& each) { return !each; });
    for (std::size_t i = 0; i < listeners.size(); ++i) {
      if ((all[i].revents & POLLIN) == 0) continue;
      UniqueFd caller{
          ::accept4(listeners[i].get(), nullptr, nullptr, SOCK_CLOEXEC | SOCK_NONBLOCK)};
      if (!caller) continue;
      if (bootstrap::local_address(caller.get()).family() != AF_UNIX)
        bootstrap::set_up(ranks.system, caller.get());
      callers.push_back(std::move(caller));
    }
  }
  return {};
}

}  // namespace qpmesh::doctor
