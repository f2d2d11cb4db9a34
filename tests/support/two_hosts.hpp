// SPDX-License-Identifier: MIT
// Two network namespaces joined by a cable: two hosts, as far as sockets can tell. The network
// namespace is a thread's own, so that ranks of both can be threads of one process.
#pragma once

#include <fcntl.h>
#include <net/if.h>
#include <sched.h>
#include <spawn.h>
#include <sys/ioctl.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#include <array>
#include <cerrno>
#include <chrono>
#include <initializer_list>
#include <string>
#include <thread>
#include <vector>

#include "base/owned.hpp"
#include "base/system.hpp"

namespace qpmesh::test {

class TwoHosts {
 public:
  // Hosts 0 and 1 have these addresses, on interfaces called "cable".
  static constexpr std::array<const char*, 2> addresses{"10.77.0.1", "10.77.0.2"};

  TwoHosts() {
    for (base::UniqueFd& host : hosts_) {
      std::thread{[&] {
        if (::unshare(CLONE_NEWNET) != 0) {
          problem_ = "network namespaces: " + base::describe_errno(errno);
          return;
        }
        host.reset(::open("/proc/thread-self/ns/net", O_RDONLY | O_CLOEXEC));
      }}.join();
      if (!problem_.empty()) return;
    }
    for (const int host : {0, 1}) ip(host, {"link", "set", "lo", "up"});
    lay("cable", addresses);
  }

  // One more cable, between interfaces of this name with these addresses, each in a network of /24.
  void lay(const std::string& name, const std::array<const char*, 2>& ends) {
    const std::string other =
        "/proc/" + std::to_string(::getpid()) + "/fd/" + std::to_string(hosts_[1].get());
    ip(0, {"link", "add", name, "type", "veth", "peer", "name", name, "netns", other});
    for (const int host : {0, 1}) {
      ip(host,
         {"addr", "add", ends[static_cast<std::size_t>(host)] + std::string{"/24"}, "dev", name});
      ip(host, {"link", "set", name, "up"});
    }
    for (const int host : {0, 1}) await_carrier(host, name);
  }

  // Why there are no two hosts, for GTEST_SKIP; empty: there are.
  const std::string& problem() const { return problem_; }

  // The calling thread is on this host from now on.
  void enter(int host) const {
    if (::setns(hosts_[static_cast<std::size_t>(host)].get(), CLONE_NEWNET) != 0) ::abort();
  }

  // Packets get no further than the other end of the cable: nobody is told.
  void cut() { ip(1, {"link", "set", "cable", "down"}); }

  // Runs ip(8) or tc(8) on a host.
  void ip(int host, std::initializer_list<std::string> words) { run(host, "ip", words); }
  void tc(int host, std::initializer_list<std::string> words) { run(host, "tc", words); }

 private:
  // The kernel looks at its links up to a second after they came up, and drops all packets until
  // then.
  void await_carrier(int host, const std::string& name) {
    if (!problem_.empty()) return;
    std::thread{[&] {
      enter(host);
      const base::UniqueFd socket{::socket(AF_INET, SOCK_DGRAM | SOCK_CLOEXEC, 0)};
      ifreq request{};
      name.copy(request.ifr_name, sizeof request.ifr_name - 1);
      for (int looks = 0; looks < 5'000; ++looks) {
        if (::ioctl(socket.get(), SIOCGIFFLAGS, &request) == 0 &&
            (request.ifr_flags & IFF_RUNNING) != 0)
          return;
        std::this_thread::sleep_for(std::chrono::milliseconds{1});
      }
      problem_ = name + " has no carrier";
    }}.join();
  }

  void run(int host, const std::string& program, std::initializer_list<std::string> words) {
    if (!problem_.empty()) return;
    std::vector<std::string> texts{program};
    texts.insert(texts.end(), words);
    std::vector<char*> arguments;
    arguments.reserve(texts.size() + 1);
    for (std::string& text : texts) arguments.push_back(text.data());
    arguments.push_back(nullptr);
    std::thread{[&] {
      enter(host);
      pid_t pid = 0;
      int status = 0;
      const int error =
          ::posix_spawnp(&pid, program.c_str(), nullptr, nullptr, arguments.data(), environ);
      if (error != 0) {
        problem_ = "starting " + program + ": " + base::describe_errno(error);
      } else if (::waitpid(pid, &status, 0) != pid || status != 0) {
        problem_ = "failed:";
        for (const std::string& text : texts) problem_ += " " + text;
      }
    }}.join();
  }

  std::array<base::UniqueFd, 2> hosts_;
  std::string problem_;
};

}  // namespace qpmesh::test
