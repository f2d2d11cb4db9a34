#include "tools/doctor/pairs.hpp"

#include <fmt/format.h>
#include <netinet/in.h>
#include <poll.h>

#include <algorithm>
#include <array>
#include <chrono>
#include <cstring>
#include <functional>
#include <optional>
#include <thread>

#include "base/bytes.hpp"
#include "base/errors.hpp"
#include "base/owned.hpp"
#include "bootstrap/handshake.hpp"
#include "bootstrap/listener.hpp"
#include "bootstrap/socket.hpp"
#include "qpmesh/qpmesh.hpp"
#include "startup/reach.hpp"
#include "tools/doctor/line.hpp"
#include "tools/doctor/timings.hpp"
#include "topology/cores.hpp"
#include "transport/verbs/selection/choice.hpp"
#include "transport/verbs/selection/pairing.hpp"

namespace qpmesh::doctor {
namespace {

namespace selection = transport::verbs::selection;
using base::UniqueFd;
using bootstrap::HostPort;
using Token = std::array<std::byte, 16>;
using std::chrono::milliseconds;

constexpr std::int64_t connect_ms_max = 2'000;
constexpr std::int64_t head_start_ms = 50;       // of an address before the next one
constexpr std::int64_t talk_ms_max = 5'000;      // for the answer to a word
constexpr std::int64_t drain_ms = 30;            // for datagrams that are under way
constexpr std::int64_t init_ms_max = 15'000;     // of a pair
constexpr std::int64_t link_timeout_ms = 2'000;  // over verbs: by default, and of GIDs at most
constexpr std::int64_t all_budget_ms = 20'000;   // for the measurements of all rounds
constexpr std::int64_t operation_ms_max = 10'000;
constexpr std::size_t gather_bytes_max = 60'000;  // a bootstrap carries 64 KiB
constexpr std::uint16_t roce_port = 4791;
constexpr int ip_bytes_max = 65'535;
constexpr std::size_t gid_pairs_max = 16;        // one that does not work takes seconds
constexpr std::int64_t gids_budget_ms = 60'000;  // then no more begin: all ranks wait in for_all()
constexpr std::uint32_t first_gid_step = 100;    // behind those of ways

std::size_t at(int rank) { return static_cast<std::size_t>(rank); }

// What every rank tells every other before the first round.
struct Guest {
  Token token{};            // a caller proves that it is of this job
  std::string unix_name{};  // empty: none
  std::vector<HostPort> listeners{};
  std::vector<std::string> netdevs{};  // of the listeners
  std::uint16_t datagram_port = 0;
  bool has_roce_port = false;  // it could be bound: no device has it
  std::int32_t cores = 1;
  base::Place place{};
};

Blob encode(const Guest& guest) {
  base::ByteWriter out;
  out.put(guest.token).put_text(guest.unix_name);
  out.put(static_cast<std::uint32_t>(guest.listeners.size()));
  for (std::size_t i = 0; i < guest.listeners.size(); ++i)
    out.put_text(guest.listeners[i].host).put(guest.listeners[i].port).put_text(guest.netdevs[i]);
  out.put(guest.datagram_port).put(std::uint8_t{guest.has_roce_port}).put(guest.cores);
  const base::Place& place = guest.place;
  out.put_fields(place.boot_id, place.uid, place.pid_namespace, place.net_namespace,
                 place.user_namespace);
  return std::move(out).blob();
}

Guest decode(BlobView bytes, int rank) {
  base::ByteReader in{bytes};
  Guest guest;
  guest.token = in.get<Token>();
  guest.unix_name = in.get_text();
  const auto count = in.get<std::uint32_t>();
  for (std::uint32_t i = 0; i < count && in.ok(); ++i) {
    HostPort address;
    address.host = in.get_text();
    address.port = in.get<std::uint16_t>();
    guest.listeners.push_back(std::move(address));
    guest.netdevs.emplace_back(in.get_text());
  }
  guest.datagram_port = in.get<std::uint16_t>();
  guest.has_roce_port = in.get<std::uint8_t>() != 0;
  guest.cores = in.get<std::int32_t>();
  base::Place& place = guest.place;
  in.get_fields(place.boot_id, place.uid, place.pid_namespace, place.net_namespace,
                place.user_namespace);
  if (!in.finished() || guest.unix_name.size() > 100) {
    base::throw_error({ErrorCode::corrupt, rank}, "qpmesh-doctor",
                      "start the same qpmesh-doctor on every host",
                      "what rank {} says of itself cannot be read", rank);
  }
  return guest;
}

bool loops(const std::string& host) {
  const auto address = bootstrap::numeric({host, 0});
  return address && scope_of(*address) == bootstrap::Scope::loopback;
}

// A text of any length from every rank.
std::vector<std::string> gather_texts(Bootstrap& world, const std::string& mine,
                                      Deadline deadline) {
  base::ByteWriter length;
  length.put(std::uint64_t{mine.size()});
  std::uint64_t longest = 0;
  for (const Blob& blob : world.all_gather(length.blob(), deadline))
    longest = std::max(longest, base::ByteReader{blob}.get<std::uint64_t>());
  std::vector<std::string> texts(at(world.size()));
  for (std::size_t begin = 0; begin < longest; begin += gather_bytes_max) {
    const auto part = std::string_view{mine}.substr(std::min(begin, mine.size()), gather_bytes_max);
    const auto parts = world.all_gather(std::as_bytes(std::span{part}), deadline);
    for (std::size_t rank = 0; rank < parts.size(); ++rank)
      texts[rank].append(reinterpret_cast<const char*>(parts[rank].data()), parts[rank].size());
  }
  return texts;
}

// ---- datagrams ----

// For IPv4 and IPv6 alike. Nothing where the port is taken.
UniqueFd datagram_socket(std::uint16_t port) {
  UniqueFd socket{::socket(AF_INET6, SOCK_DGRAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0)};
  if (socket) {
    const int no = 0;
    ::setsockopt(socket.get(), IPPROTO_IPV6, IPV6_V6ONLY, &no, sizeof no);
    sockaddr_in6 any{};
    any.sin6_family = AF_INET6;
    any.sin6_port = htons(port);
    if (::bind(socket.get(), reinterpret_cast<const sockaddr*>(&any), sizeof any) == 0)
      return socket;
    return {};
  }
  socket.reset(::socket(AF_INET, SOCK_DGRAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0));
  sockaddr_in any{};
  any.sin_family = AF_INET;
  any.sin_port = htons(port);
  if (!socket || ::bind(socket.get(), reinterpret_cast<const sockaddr*>(&any), sizeof any) != 0)
    return {};
  return socket;
}

// Begins with the pair's token; the rest is air. False: it did not leave, as where it is longer
// than the interface takes.
bool send_datagram(const bootstrap::Address& to, const Token& token, int ip_bytes, bool roce) {
  const bool v4 = to.family() == AF_INET;
  const UniqueFd socket{::socket(to.family(), SOCK_DGRAM | SOCK_CLOEXEC, 0)};
  // As long as it is and whole, whatever the kernel believes of the path.
  static_assert(IP_PMTUDISC_PROBE == IPV6_PMTUDISC_PROBE);
  const int probe = IP_PMTUDISC_PROBE;
  ::setsockopt(socket.get(), v4 ? int{IPPROTO_IP} : int{IPPROTO_IPV6},
               v4 ? IP_MTU_DISCOVER : IPV6_MTU_DISCOVER, &probe, sizeof probe);
  const int headers = v4 ? 28 : 48;
  Blob bytes(static_cast<std::size_t>(std::max(ip_bytes - headers, 32)));
  std::memcpy(bytes.data(), token.data(), token.size());
  const auto size = static_cast<std::uint32_t>(ip_bytes);
  std::memcpy(bytes.data() + token.size(), &size, sizeof size);
  bytes[token.size() + sizeof size] = static_cast<std::byte>(roce);
  return ::sendto(socket.get(), bytes.data(), bytes.size(), MSG_NOSIGNAL, to.generic(), to.bytes) ==
         static_cast<ssize_t>(bytes.size());
}

// Those of the token, of all that have come to the socket: the longest one.
int longest_datagram(int socket, const Token& token) {
  int longest = 0;
  Blob bytes(1 << 16);
  for (int i = 0; i < 10'000; ++i) {
    const ssize_t count = ::recv(socket, bytes.data(), bytes.size(), MSG_DONTWAIT);
    if (count < 0) break;
    std::uint32_t size = 0;
    if (static_cast<std::size_t>(count) < token.size() + sizeof size ||
        std::memcmp(bytes.data(), token.data(), token.size()) != 0)
      continue;
    std::memcpy(&size, bytes.data() + token.size(), sizeof size);
    longest = std::max(longest, static_cast<int>(size));
  }
  return longest;
}

const Interface* interface_of(const std::vector<Interface>& all, const std::string& host) {
  for (const Interface& each : all)
    if (std::ranges::find(each.addresses, host, &HostAddress::host) != each.addresses.end())
      return &each;
  return nullptr;
}

// ---- one rank ----

class Examination {
 public:
  Examination(Bootstrap& world, const HostFacts& facts, bool every_gid_pair,
              const base::System& system, const base::Log& log)
      : world_{world}, facts_{facts}, every_gid_pair_{every_gid_pair}, system_{system}, log_{log} {}

  std::vector<PairReport> run() {
    gather_guests();
    std::vector<PairReport> mine;
    const auto all = schedule(seats());
    budget_ms_ = std::clamp(all_budget_ms / static_cast<std::int64_t>(all.size()), std::int64_t{10},
                            std::int64_t{300});
    for (const std::vector<Pair>& round : all) {
      // All begin together: who calls finds the other one listening.
      world_.all_gather({}, for_all());
      const auto found = std::ranges::find_if(
          round, [&](const Pair& each) { return each.low == me() || each.high == me(); });
      if (found == round.end()) continue;
      PairReport pair = meet(found->low == me() ? found->high : found->low);
      if (me() == pair.high) mine.push_back(std::move(pair));
    }
    return mine;
  }
  // For a gather: as long as the slowest pair may take.
  Deadline for_all() const { return base::after_ms(system_, 10 * init_ms_max); }

 private:
  int me() const { return world_.rank(); }
  Deadline soon() const { return base::after_ms(system_, talk_ms_max); }

  std::vector<Seat> seats() const {
    std::vector<Seat> all;
    for (const Guest& each : guests_) all.push_back({each.place.boot_id, each.cores});
    return all;
  }

  void gather_guests() {
    world_.all_gather({}, for_all());  // from here on the world knows by what address it met
    Guest mine{.cores = topology::usable_core_count(std::span{&facts_.info.cores, 1}),
               .place = facts_.place};
    system_.random(mine.token);
    listen(mine);
    datagrams_ = datagram_socket(0);
    if (datagrams_) mine.datagram_port = host_port(bootstrap::local_address(datagrams_.get())).port;
    roce_ = datagram_socket(roce_port);
    mine.has_roce_port = static_cast<bool>(roce_);
    const auto blobs = world_.all_gather(encode(mine), for_all());
    for (int rank = 0; rank < world_.size(); ++rank)
      guests_.push_back(decode(blobs[at(rank)], rank));
  }

  void listen(Guest& mine) {
    std::string name =
        fmt::format("qpmesh-doctor-{:016x}{:016x}", system_.random_u64(), system_.random_u64());
    bootstrap::Opened local = listen_at(system_, bootstrap::unix_address(name));
    if (local.socket) {
      mine.unix_name = std::move(name);
      listeners_.push_back(std::move(local.socket));
    }
    const auto ports = bootstrap::parse_port_range(facts_.options.ports);
    // Those that a job would use, in its order: first the one that the ranks met by.
    const auto subnet = selection::wishes_of(facts_.options).subnet;
    auto all = bootstrap::interfaces(system_);
    std::stable_partition(
        all.begin(), all.end(),
        [met_by = world_.local_address()](const auto& each) { return each.host == met_by; });
    for (const auto& [netdev, host] : all) {
      const auto address = selection::parse_address(host);
      if (loops(host) || (subnet && !(address && contains(*subnet, *address)))) continue;
      if (!facts_.options.netdev.empty() && facts_.options.netdev != netdev) continue;
      try {
        auto opened =
            bootstrap::listen_at_hosts({host}, ports, me(), facts_.info.host, system_, log_);
        for (UniqueFd& listener : opened) {
          mine.listeners.push_back(host_port(bootstrap::local_address(listener.get())));
          mine.netdevs.push_back(netdev);
          listeners_.push_back(std::move(listener));
        }
      } catch (const Error&) {
        continue;  // an address at which nobody can listen is told by the checks of the host
      }
    }
  }

  // What a caller begins with: nobody else could have made it.
  struct Greeting {
    std::int32_t rank = 0;
    Token proof{};
  };
  Greeting greeting(int from, int to) const {
    base::ByteWriter all;
    all.put(std::int32_t{from}).put(guests_[at(from)].token).put(guests_[at(to)].token);
    return {from, bootstrap::hash<sizeof(Token)>(all.blob(), "qpmesh-doctor")};
  }
  // In the datagrams of a pair.
  Token token_of(int from, int to) const {
    base::ByteWriter all;
    all.put(std::int32_t{to}).put(guests_[at(from)].token).put(guests_[at(to)].token);
    return bootstrap::hash<sizeof(Token)>(all.blob(), "qpmesh-doctor datagram");
  }

  PairReport meet(int peer) {
    const int low = std::min(me(), peer);
    const int high = std::max(me(), peer);
    PairReport pair{.low = low, .high = high};
    try {
      auto socket = me() == high ? call(low, pair) : answer(high);
      if (!socket) return pair;
      pair.line = describe_line(socket->get());
      Line line{*std::move(socket), system_};
      compare_clocks(line, pair);
      if (bootstrap::local_address(line.socket()).family() != AF_UNIX) try_datagrams(line, pair);
      try_ways(line, pair);
      try_gids(line, pair);
    } catch (const Error& error) {
      pair.failure = error.what();
    }
    return pair;
  }

  int other(const PairReport& pair) const { return me() == pair.low ? pair.high : pair.low; }

  static std::string describe_line(int socket) {
    const auto there = bootstrap::remote_address(socket);
    return there.family() == AF_UNIX ? "a Unix socket" : host_port(there).host;
  }

  // ---- meeting ----

  // All addresses at once; the first one in order that answers a greeting is the line.
  std::optional<UniqueFd> call(int low, PairReport& pair) {
    const Guest& there = guests_[at(low)];
    const Deadline deadline = base::after_ms(system_, connect_ms_max);
    if (base::same_network(there.place, facts_.place) && !there.unix_name.empty()) {
      bootstrap::Opened opened;
      do {
        opened = connect_to(system_, bootstrap::unix_address(there.unix_name));
        if (opened.error == EAGAIN) std::this_thread::sleep_for(milliseconds{1});
      } while (opened.error == EAGAIN && system_.now() < deadline);
      if (!opened.socket) {
        pair.calls.push_back({"@" + there.unix_name, "", opened.error});
        return std::nullopt;
      }
      std::vector<UniqueFd> socket;
      socket.push_back(std::move(opened.socket));
      return greet(std::move(socket), low, pair);
    }
    std::vector<UniqueFd> sockets;
    for (std::size_t i = 0; i < there.listeners.size(); ++i) {
      const auto address = bootstrap::numeric(there.listeners[i]);
      bootstrap::Opened opened = connect_to(system_, address.value_or(bootstrap::Address{}));
      pair.calls.push_back({to_string(there.listeners[i]), there.netdevs[i],
                            opened.socket ? EINPROGRESS : opened.error});
      sockets.push_back(std::move(opened.socket));
    }
    for (std::size_t i = 0; i < sockets.size(); ++i) {
      Call& call = pair.calls[i];
      if (!sockets[i]) continue;
      call.error = bootstrap::await(system_, sockets[i].get(), POLLOUT, deadline);
      if (call.error == 0) call.error = bootstrap::finish_connecting(system_, sockets[i].get());
      if (call.error != 0) sockets[i].reset();
    }
    return greet(std::move(sockets), low, pair);
  }

  // The first that answers is the line. Each is greeted a little after the one before: what is
  // connected need not be the other rank, for its address may be one of this host, too, or of a
  // third one.
  std::optional<UniqueFd> greet(std::vector<UniqueFd> sockets, int low, PairReport& pair) {
    const Greeting hello = greeting(me(), low);
    const Greeting expected = greeting(low, me());
    const Deadline deadline = soon();
    std::size_t greeted = 0;
    const auto give_up = [&](std::size_t i, int error) {
      sockets[i].reset();
      if (i < pair.calls.size()) pair.calls[i].error = error;
    };
    const auto is_open = [](const UniqueFd& each) { return static_cast<bool>(each); };
    while (std::ranges::any_of(sockets, is_open) && system_.now() < deadline) {
      while (greeted < sockets.size() && !sockets[greeted]) ++greeted;
      if (greeted < sockets.size()) {
        const auto bytes = std::as_bytes(std::span{&hello, 1});
        if (bootstrap::send(system_, sockets[greeted].get(), bytes).count != bytes.size())
          give_up(greeted, ECONNRESET);
        ++greeted;
      }
      std::vector<pollfd> polled;
      for (std::size_t i = 0; i < greeted; ++i) polled.push_back({sockets[i].get(), POLLIN, 0});
      const bool more = greeted < sockets.size();
      ::poll(polled.data(), polled.size(),
             base::remaining_ms(system_, more ? base::after_ms(system_, head_start_ms) : deadline));
      for (std::size_t i = 0; i < greeted; ++i) {
        if (polled[i].revents == 0 || !sockets[i]) continue;
        if (hears(sockets[i].get(), expected)) {
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
    return std::nullopt;
  }

  // So few bytes come at once.
  bool hears(int socket, const Greeting& expected) const {
    Greeting heard{};
    const auto got =
        bootstrap::receive(system_, socket, std::as_writable_bytes(std::span{&heard, 1}));
    return got.count == sizeof heard && std::memcmp(&heard, &expected, sizeof heard) == 0;
  }

  // The caller may find no address: then nobody comes.
  std::optional<UniqueFd> answer(int high) {
    const Greeting expected = greeting(high, me());
    const Deadline deadline = base::after_ms(system_, connect_ms_max + connect_ms_max / 2);
    std::vector<UniqueFd> callers;
    while (system_.now() < deadline) {
      std::vector<pollfd> all;
      for (const UniqueFd& each : listeners_) all.push_back({each.get(), POLLIN, 0});
      for (const UniqueFd& each : callers) all.push_back({each.get(), POLLIN, 0});
      ::poll(all.data(), all.size(), base::remaining_ms(system_, deadline));
      for (std::size_t i = listeners_.size(); i < all.size(); ++i) {
        if (all[i].revents == 0) continue;
        UniqueFd& caller = callers[i - listeners_.size()];
        const Greeting hello = greeting(me(), high);
        const auto bytes = std::as_bytes(std::span{&hello, 1});
        if (hears(caller.get(), expected) &&
            bootstrap::send(system_, caller.get(), bytes).count == bytes.size())
          return std::move(caller);
        caller.reset();  // a port scan, or an address that was tried
      }
      std::erase_if(callers, [](const UniqueFd& each) { return !each; });
      for (std::size_t i = 0; i < listeners_.size(); ++i) {
        if ((all[i].revents & POLLIN) == 0) continue;
        UniqueFd caller{
            ::accept4(listeners_[i].get(), nullptr, nullptr, SOCK_CLOEXEC | SOCK_NONBLOCK)};
        if (!caller) continue;
        if (bootstrap::local_address(caller.get()).family() != AF_UNIX)
          bootstrap::set_up(system_, caller.get());
        callers.push_back(std::move(caller));
      }
    }
    return std::nullopt;
  }

  // ---- clocks ----

  static double wall_ms() {
    using std::chrono::system_clock;
    return std::chrono::duration<double, std::milli>(system_clock::now().time_since_epoch())
        .count();
  }

  // The shortest of some round trips, in the middle of which the other one looked at its clock.
  void compare_clocks(Line& line, PairReport& pair) {
    constexpr int trips = 5;
    double shortest = 1e18;
    for (int i = 0; i < trips; ++i) {
      if (me() == pair.low) {
        line.hear(soon());
        line.say(fmt::format("{}", wall_ms()), soon());
        continue;
      }
      const double sent = wall_ms();
      line.say("time", soon());
      const std::string answer = line.hear_text(soon());
      const double heard = wall_ms();
      if (heard - sent >= shortest) continue;
      shortest = heard - sent;
      pair.clock_offset_ms = std::strtod(answer.c_str(), nullptr) - (sent + heard) / 2;
    }
  }

  // ---- datagrams ----

  void try_datagrams(Line& line, PairReport& pair) {
    for (const bool from_high : {true, false}) {
      Datagrams seen = (me() == pair.high) == from_high ? send_datagrams(line, other(pair))
                                                        : receive_datagrams(line, other(pair));
      (from_high ? pair.from_high : pair.from_low) = std::move(seen);
    }
  }

  Datagrams send_datagrams(Line& line, int peer) {
    const Guest& there = guests_[at(peer)];
    HostPort target = host_port(bootstrap::remote_address(line.socket()));
    const HostPort here = host_port(bootstrap::local_address(line.socket()));
    const Interface* const interface = interface_of(facts_.interfaces, here.host);
    // An address of loopback is one for all interfaces: by which of them packets leave is not
    // known.
    const bool known = interface != nullptr && !interface->loopback;
    Datagrams seen{.netdev = known ? interface->name : ""};
    const int mtu = known ? interface->mtu_bytes : ip_bytes_max;
    target.port = there.datagram_port;
    if (const auto address = bootstrap::numeric(target); address && there.datagram_port != 0) {
      for (const int bytes :
           {576, 1280, 1400, 1420, 1450, 1480, 1492, 1500, 4200, 8950, 9000, mtu}) {
        if (bytes > mtu) continue;
        for (int copy = 0; copy < 2; ++copy) {
          if (send_datagram(*address, token_of(me(), peer), bytes, false))
            seen.sent_bytes_max = std::max(seen.sent_bytes_max, bytes);
        }
      }
    }
    target.port = roce_port;
    if (const auto address = bootstrap::numeric(target); address && there.has_roce_port) {
      for (int copy = 0; copy < 3; ++copy) send_datagram(*address, token_of(me(), peer), 576, true);
      seen.roce = Arrival::lost;
    }
    base::ByteWriter sent;
    sent.put(std::int32_t{seen.sent_bytes_max}).put(seen.roce).put_text(seen.netdev);
    line.say(sent.blob(), soon());
    const Blob answer = line.hear(soon());
    base::ByteReader arrived{answer};
    arrived.get_fields(seen.arrived_bytes_max, seen.roce);
    return seen;
  }

  Datagrams receive_datagrams(Line& line, int peer) {
    const Blob told = line.hear(soon());
    std::this_thread::sleep_for(milliseconds{drain_ms});
    const Token token = token_of(peer, me());
    Datagrams seen;
    base::ByteReader sent{told};
    sent.get_fields(seen.sent_bytes_max, seen.roce);
    seen.netdev = sent.get_text();
    if (datagrams_) seen.arrived_bytes_max = longest_datagram(datagrams_.get(), token);
    const bool arrived = roce_ && longest_datagram(roce_.get(), token) > 0;
    if (seen.roce != Arrival::untried) seen.roce = arrived ? Arrival::arrived : Arrival::lost;
    base::ByteWriter answer;
    answer.put(std::int32_t{seen.arrived_bytes_max}).put(seen.roce);
    line.say(answer.blob(), soon());
    return seen;
  }

  // ---- ways ----

  // In the order in which init would take them. The lower rank says which one is next, so that
  // ranks with other options stay together.
  void try_ways(Line& line, PairReport& pair) {
    std::vector<std::string> wanted = ways(other(pair), pair);
    for (std::uint32_t step = 0; pair.way.empty(); ++step) {
      std::string way = step < wanted.size() ? wanted[step] : "";
      if (me() == pair.low) line.say(way, soon());
      else way = line.hear_text(soon());
      if (way.empty()) return;
      const auto refused = try_way(line, pair, way, step);
      if (refused) pair.refused.push_back(*refused);
      else pair.way = way;
    }
  }

  std::vector<std::string> ways(int peer, PairReport& pair) const {
    const base::Place& there = guests_[at(peer)].place;
    switch (facts_.options.transport) {
      case TransportChoice::shm: return {"shm"};
      case TransportChoice::verbs:
      case TransportChoice::verbs_and_shm: return {"verbs"};
      case TransportChoice::tcp: return {"tcp"};
      case TransportChoice::automatic: break;
    }
    if (there == facts_.place) return {"shm"};
    if (there.boot_id == facts_.place.boot_id) {
      pair.refused.push_back({"shm", "not in one place" + startup::apart(there, facts_.place), ""});
    }
    const Options& options = facts_.options;
    const bool rdma_required =
        options.require == Requirement::rdma || !options.device.empty() || options.gid_index >= 0;
    if (options.encrypt && !rdma_required) {
      pair.refused.push_back({"verbs", "QPMESH_ENCRYPT=yes", "", true});
      return {"tcp"};
    }
    return {"verbs", "tcp"};
  }

  Options options_for(std::string_view way) const {
    Options options = facts_.options;
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
  bool attempt(Line& line, const PairReport& pair, RefusedWay& refused,
               const std::function<void()>& work) const {
    try {
      work();
    } catch (const Error& error) {
      refused.why = in_numbers_of_job(error.cause(), pair);
      if (error.system_error() != 0)
        refused.why += fmt::format(" ({})", base::describe_errno(error.system_error()));
      refused.hint = in_numbers_of_job(error.hint(), pair);
    }
    return agree(line, refused);
  }

  // Nothing: it serves.
  std::optional<RefusedWay> try_way(Line& line, PairReport& pair, const std::string& way,
                                    std::uint32_t step) {
    std::optional<Communicator> world;
    RefusedWay refused{.way = way};
    const bool met = attempt(line, pair, refused, [&] {
      LineBootstrap bootstrap{line, me() == pair.low ? 0 : 1, step};
      world.emplace(init(bootstrap, options_for(way)));
    });
    if (!met) return refused;
    Timings timings;
    const bool measured = attempt(line, pair, refused, [&] {
      timings = measure(*world, system_, budget_ms_);
      world->finish();
    });
    if (!measured) return refused;
    pair.checked_bytes = timings.checked_bytes;
    pair.wrong_bytes = timings.wrong_bytes;
    pair.latency_us = timings.latency_us;
    pair.bandwidth_mb_s = timings.bandwidth_mb_s;
    return std::nullopt;
  }

  // ---- GIDs ----

  // Whatever the options wish: a wish may be what is wrong.
  void try_gids(Line& line, PairReport& pair) {
    const bool refused = std::ranges::any_of(pair.refused, [](const RefusedWay& each) {
      return each.way == "verbs" && !each.by_options;
    });
    selection::Offer mine;
    if (every_gid_pair_ || refused)
      mine = make_offer(facts_.info.devices, {.numa_node = facts_.info.wishes.numa_node},
                        facts_.info.host);
    line.say(encode(mine), soon());
    const selection::Offer theirs = selection::decode(line.hear(soon()), other(pair));
    const selection::Offer& low = me() == pair.low ? mine : theirs;
    const selection::Offer& high = me() == pair.low ? theirs : mine;
    std::uint32_t step = first_gid_step;
    const Deadline end = base::after_ms(system_, gids_budget_ms);
    const auto all = selection::pairs(low, high).pairs;
    for (const auto& [of_low, of_high] : all) {
      if (!go_on(line, pair, pair.gids.size() < gid_pairs_max && system_.now() < end)) break;
      const selection::Endpoint& at_low = low.endpoints[of_low];
      const selection::Endpoint& at_high = high.endpoints[of_high];
      GidPair tried{.low = end_of(at_low), .high = end_of(at_high)};
      tried.why = try_gid(line, pair, end_of(me() == pair.low ? at_low : at_high), step++);
      pair.gids.push_back(std::move(tried));
    }
    pair.gids_untried = static_cast<int>(all.size() - pair.gids.size());
  }

  // The lower rank's word, so that both do the same.
  bool go_on(Line& line, const PairReport& pair, bool may) {
    if (me() == pair.high) return line.hear_text(soon()) == "on";
    line.say(may ? "on" : "enough", soon());
    return may;
  }

  static GidEnd end_of(const selection::Endpoint& endpoint) {
    return {fmt::format("{}:{}", endpoint.device, endpoint.port), endpoint.gid_index,
            address_text(endpoint.gid)};
  }

  // Why it does not work.
  std::string try_gid(Line& line, const PairReport& pair, const GidEnd& mine,
                      std::uint32_t step) const {
    Options options = options_for("verbs");
    options.link_timeout_ms = std::min(options.link_timeout_ms, link_timeout_ms);
    options.device = mine.device;
    options.gid_index = mine.index;
    options.netdev.clear();
    options.subnet.clear();
    options.encrypt = false;
    RefusedWay refused;
    attempt(line, pair, refused, [&] {
      LineBootstrap bootstrap{line, me() == pair.low ? 0 : 1, step};
      Communicator world = init(bootstrap, options);
      world.barrier();
      world.finish();
    });
    return refused.why;
  }

  // Whether both have done it. A rank that only heard that the other one gave up takes its words.
  bool agree(Line& line, RefusedWay& mine) const {
    const Deadline deadline = base::after_ms(system_, init_ms_max + operation_ms_max);
    line.say(mine.why, deadline);
    line.say(mine.hint, deadline);
    const std::string why = line.hear_text(deadline);
    const std::string hint = line.hear_text(deadline);
    if (why.empty() && mine.why.empty()) return true;
    const bool echo = mine.why.empty() || mine.why == "the other rank has given up";
    if (echo && !why.empty()) mine.why = why, mine.hint = hint;
    return false;
  }

  // The two were ranks 0 and 1 of a job of their own.
  static std::string in_numbers_of_job(const std::string& text, const PairReport& pair) {
    constexpr std::string_view word = "rank ";
    std::string said;
    for (std::size_t i = 0; i < text.size(); ++i) {
      said += text[i];
      if (!said.ends_with(word) || i + 1 == text.size()) continue;
      const bool alone = i + 2 == text.size() || std::isdigit(text[i + 2]) == 0;
      if ((text[i + 1] == '0' || text[i + 1] == '1') && alone)
        said += std::to_string(text[++i] == '0' ? pair.low : pair.high);
    }
    return said;
  }

  Bootstrap& world_;
  const HostFacts& facts_;
  bool every_gid_pair_;
  const base::System& system_;
  const base::Log& log_;
  std::vector<UniqueFd> listeners_;
  UniqueFd datagrams_;
  UniqueFd roce_;
  std::vector<Guest> guests_;   // by rank
  std::int64_t budget_ms_ = 0;  // for the measurements of a pair
};

}  // namespace

Report examine_pairs(Bootstrap& world, const HostFacts& facts, const RankReport& mine,
                     bool every_gid_pair, const base::System& system, const base::Log& log) {
  Examination examination{world, facts, every_gid_pair, system, log};
  const auto my_pairs = examination.run();
  Report report;
  const auto ranks = gather_texts(world, pack(mine), examination.for_all());
  const auto pairs = gather_texts(world, pack(my_pairs), examination.for_all());
  for (int rank = 0; rank < world.size(); ++rank) {
    report.ranks.push_back(unpack_rank(ranks[at(rank)], rank));
    for (PairReport& pair : unpack_pairs(pairs[at(rank)], rank))
      report.pairs.push_back(std::move(pair));
  }
  std::ranges::sort(report.pairs, {}, [](const PairReport& each) {
    return std::pair{each.low, each.high};
  });
  report.findings = examine(pair_checks(), report);
  return report;
}

}  // namespace qpmesh::doctor
