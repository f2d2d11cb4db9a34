// SPDX-License-Identifier: MIT
// vm_dscp DSCP COMMAND…: runs the command, and captures the RoCE v2 packets that this host sends
// and receives meanwhile. Exit code 0: the command's was, and in each direction there were RDMA
// writes, acknowledgements, requests to read and answers to them, all with this DSCP. Takes
// CAP_NET_RAW.
#include <arpa/inet.h>
#include <linux/if_ether.h>
#include <linux/if_packet.h>
#include <netinet/ip.h>
#include <netinet/udp.h>
#include <poll.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include <array>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <map>
#include <set>
#include <string>

namespace {

constexpr std::uint16_t roce_port = 4791;

// The kinds of packets of a reliable connection, told apart by the opcode in the base transport header.
constexpr std::array<const char*, 4> kinds{"writes", "reads", "answers", "acknowledgements"};
int kind_of(unsigned opcode) {
  if (opcode >= 0x06 && opcode <= 0x0b) return 0;
  if (opcode == 0x0c) return 1;
  if (opcode >= 0x0d && opcode <= 0x10) return 2;
  return opcode == 0x11 ? 3 : -1;
}

struct Seen {
  std::map<unsigned, std::uint64_t> by_dscp;
  std::array<std::uint64_t, kinds.size()> by_kind{};
  std::set<std::uint16_t> source_ports;
};
using Directions = std::array<Seen, 2>;  // received, sent

void look_at(const unsigned char* packet, std::size_t bytes, Seen& seen) {
  iphdr ip{};
  udphdr udp{};
  if (bytes < sizeof ip) return;
  std::memcpy(&ip, packet, sizeof ip);
  const std::size_t ip_bytes = std::size_t{ip.ihl} * 4;
  if (ip.version != 4 || ip.protocol != IPPROTO_UDP || bytes <= ip_bytes + sizeof udp) return;
  std::memcpy(&udp, packet + ip_bytes, sizeof udp);
  const int kind = kind_of(packet[ip_bytes + sizeof udp]);
  if (ntohs(udp.dest) != roce_port || kind < 0) return;
  ++seen.by_dscp[ip.tos >> 2];
  ++seen.by_kind.at(static_cast<std::size_t>(kind));
  seen.source_ports.insert(ntohs(udp.source));
}

// Counts the packets that the socket holds.
void drain(int socket, Directions& directions) {
  std::array<unsigned char, 128> packet{};
  sockaddr_ll from{};
  socklen_t from_bytes = sizeof from;
  ssize_t bytes = 0;
  while ((bytes = ::recvfrom(socket, packet.data(), packet.size(), MSG_DONTWAIT,
                             reinterpret_cast<sockaddr*>(&from), &from_bytes)) > 0)
    look_at(packet.data(), static_cast<std::size_t>(bytes),
            directions.at(from.sll_pkttype == PACKET_OUTGOING ? 1 : 0));
}

// Prints what was seen in this direction. Returns false where a kind is missing or another DSCP
// came.
bool judge(const char* direction, const Seen& seen, unsigned dscp) {
  std::string text;
  for (const auto& [value, count] : seen.by_dscp)
    text += " DSCP " + std::to_string(value) + " in " + std::to_string(count) + " packets,";
  for (std::size_t kind = 0; kind < kinds.size(); ++kind)
    text += " " + std::to_string(seen.by_kind.at(kind)) + " " + kinds.at(kind) + ",";
  std::printf("note: %s:%s %zu source ports\n", direction, text.c_str(), seen.source_ports.size());
  bool is_right = seen.by_dscp.size() == 1 && seen.by_dscp.begin()->first == dscp;
  for (const std::uint64_t count : seen.by_kind) is_right = is_right && count > 0;
  return is_right;
}

int fail(const char* what) {
  std::perror(what);
  return 2;
}

}  // namespace

int main(int argc, char** argv) {
  if (argc < 3) {
    std::fputs("usage: vm_dscp DSCP COMMAND...\n", stderr);
    return 2;
  }
  const auto dscp = static_cast<unsigned>(std::strtoul(argv[1], nullptr, 10));
  // Without link headers; of all protocols, because the kernel hands sent packets to none else.
  const int socket = ::socket(AF_PACKET, SOCK_DGRAM | SOCK_CLOEXEC, htons(ETH_P_ALL));
  if (socket < 0) return fail("socket(AF_PACKET)");
  const int buffer_bytes = 16 << 20;
  ::setsockopt(socket, SOL_SOCKET, SO_RCVBUFFORCE, &buffer_bytes, sizeof buffer_bytes);

  const pid_t child = ::fork();
  if (child < 0) return fail("fork");
  if (child == 0) {
    ::execvp(argv[2], argv + 2);
    std::perror(argv[2]);
    ::_exit(127);
  }
  const int ended = static_cast<int>(::syscall(SYS_pidfd_open, child, 0));
  if (ended < 0) return fail("pidfd_open");
  Directions directions;
  std::array<pollfd, 2> entries{{{socket, POLLIN, 0}, {ended, POLLIN, 0}}};
  while ((entries[1].revents & POLLIN) == 0) {
    if (::poll(entries.data(), entries.size(), -1) < 0 && errno != EINTR) return fail("poll");
    drain(socket, directions);
  }
  int status = 0;
  ::waitpid(child, &status, 0);
  drain(socket, directions);
  tpacket_stats statistics{};
  socklen_t statistics_bytes = sizeof statistics;
  ::getsockopt(socket, SOL_PACKET, PACKET_STATISTICS, &statistics, &statistics_bytes);
  if (statistics.tp_drops > 0) std::printf("%u packets were not captured\n", statistics.tp_drops);

  const bool received = judge("received", directions[0], dscp);
  const bool sent = judge("sent", directions[1], dscp);
  if (!WIFEXITED(status) || WEXITSTATUS(status) != 0) return 1;
  return received && sent ? 0 : 1;
}
