// SPDX-License-Identifier: MIT
#include "tools/doctor/datagrams.hpp"

#include <netinet/in.h>

#include <algorithm>
#include <cerrno>
#include <chrono>
#include <cstring>
#include <thread>

#include "base/bytes.hpp"
#include "bootstrap/socket.hpp"

namespace qpmesh::doctor {
namespace {

using base::UniqueFd;
using bootstrap::HostPort;
using std::chrono::milliseconds;

constexpr std::int64_t drain_ms = 30;  // for datagrams that are under way
constexpr std::uint16_t roce_port = 4791;
constexpr int ip_bytes_max = 65'535;

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

// Begins with the pair's token; the rest is air. False: it is longer than the interface takes. What
// else keeps it here, a firewall or a route, loses it for the other rank as one on the way does.
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
  return ::sendto(socket.get(), bytes.data(), bytes.size(), MSG_NOSIGNAL, to.generic(), to.bytes) >=
             0 ||
         errno != EMSGSIZE;
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

Datagrams send_all(const Ranks& ranks, Line& line, int peer) {
  const Guest& there = ranks.guest(peer);
  HostPort target = host_port(bootstrap::remote_address(line.socket()));
  const HostPort here = host_port(bootstrap::local_address(line.socket()));
  const Interface* const interface = interface_of(ranks.facts.interfaces, here.host);
  // An address of loopback is one for all interfaces: by which of them packets leave is not
  // known.
  const bool known = interface != nullptr && !interface->loopback;
  Datagrams seen{.netdev = known ? interface->name : ""};
  const int mtu = known ? interface->mtu_bytes : ip_bytes_max;
  target.port = there.datagram_port;
  if (const auto address = bootstrap::numeric(target); address && there.datagram_port != 0) {
    for (const int bytes : {576, 1280, 1400, 1420, 1450, 1480, 1492, 1500, 4200, 8950, 9000, mtu}) {
      if (bytes > mtu) continue;
      for (int copy = 0; copy < 2; ++copy) {
        if (send_datagram(*address, datagram_token(ranks, ranks.me, peer), bytes, false))
          seen.sent_bytes_max = std::max(seen.sent_bytes_max, bytes);
      }
    }
  }
  target.port = roce_port;
  if (const auto address = bootstrap::numeric(target); address && there.has_roce_port) {
    for (int copy = 0; copy < 3; ++copy)
      send_datagram(*address, datagram_token(ranks, ranks.me, peer), 576, true);
    seen.roce = Arrival::lost;
  }
  base::ByteWriter sent;
  sent.put(std::int32_t{seen.sent_bytes_max}).put(seen.roce).put_text(seen.netdev);
  line.say(sent.blob(), ranks.soon());
  const Blob answer = line.hear(ranks.soon());
  base::ByteReader arrived{answer};
  arrived.get_fields(seen.arrived_bytes_max, seen.roce);
  return seen;
}

}  // namespace

DatagramPorts::DatagramPorts() : any_{datagram_socket(0)}, roce_{datagram_socket(roce_port)} {}

void DatagramPorts::tell(Guest& mine) const {
  if (any_) mine.datagram_port = host_port(bootstrap::local_address(any_.get())).port;
  mine.has_roce_port = static_cast<bool>(roce_);
}

void DatagramPorts::try_both_ways(const Ranks& ranks, Line& line, PairReport& pair) const {
  const int peer = ranks.me == pair.low ? pair.high : pair.low;
  for (const bool from_high : {true, false}) {
    Datagrams seen = (ranks.me == pair.high) == from_high ? send_all(ranks, line, peer)
                                                          : receive(ranks, line, peer);
    (from_high ? pair.from_high : pair.from_low) = std::move(seen);
  }
}

Datagrams DatagramPorts::receive(const Ranks& ranks, Line& line, int peer) const {
  const Blob told = line.hear(ranks.soon());
  std::this_thread::sleep_for(milliseconds{drain_ms});
  const Token token = datagram_token(ranks, peer, ranks.me);
  Datagrams seen;
  base::ByteReader sent{told};
  sent.get_fields(seen.sent_bytes_max, seen.roce);
  seen.netdev = sent.get_text();
  if (any_) seen.arrived_bytes_max = longest_datagram(any_.get(), token);
  const bool arrived = roce_ && longest_datagram(roce_.get(), token) > 0;
  if (seen.roce != Arrival::untried) seen.roce = arrived ? Arrival::arrived : Arrival::lost;
  base::ByteWriter answer;
  answer.put(std::int32_t{seen.arrived_bytes_max}).put(seen.roce);
  line.say(answer.blob(), ranks.soon());
  return seen;
}

}  // namespace qpmesh::doctor
