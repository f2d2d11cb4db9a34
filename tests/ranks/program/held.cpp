// SPDX-License-Identifier: MIT
// A rank that is held in the middle of copying into another one's buffer.
#include <linux/filter.h>
#include <linux/seccomp.h>
#include <signal.h>
#include <sys/ioctl.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <atomic>
#include <cstddef>
#include <thread>

#include "program/scenario.hpp"

namespace qpmesh::ranks {
namespace {

// Holds this thread at the entry of its first process_vm_writev(2) for so long, then lets it go or
// ends the process.
class Holder {
 public:
  Holder(std::chrono::milliseconds length, bool dies)
      : supervisor_{[=, this] { supervise(length, dies); }} {
    std::array filter{
        sock_filter{BPF_LD | BPF_W | BPF_ABS, 0, 0, offsetof(seccomp_data, nr)},
        sock_filter{BPF_JMP | BPF_JEQ | BPF_K, 0, 1, SYS_process_vm_writev},
        sock_filter{BPF_RET | BPF_K, 0, 0, SECCOMP_RET_USER_NOTIF},
        sock_filter{BPF_RET | BPF_K, 0, 0, SECCOMP_RET_ALLOW},
    };
    const sock_fprog program{filter.size(), filter.data()};
    check_equal(::prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0), 0);
    const auto listener =
        ::syscall(SYS_seccomp, SECCOMP_SET_MODE_FILTER, SECCOMP_FILTER_FLAG_NEW_LISTENER, &program);
    check(listener >= 0, "seccomp gives a listener");
    listener_ = static_cast<int>(listener);
  }
  // The supervisor lives as long as calls may come to it.
  ~Holder() { supervisor_.detach(); }
  bool has_held() const { return held_; }

 private:
  void supervise(std::chrono::milliseconds length, bool dies) {
    while (listener_ < 0) std::this_thread::yield();
    for (;;) {
      seccomp_notif call{};
      if (::ioctl(listener_, SECCOMP_IOCTL_NOTIF_RECV, &call) != 0) return;
      if (!held_.exchange(true)) {
        std::this_thread::sleep_for(length);
        if (dies) ::kill(::getpid(), SIGKILL);
      }
      seccomp_notif_resp go_on{
          .id = call.id, .val = 0, .error = 0, .flags = SECCOMP_USER_NOTIF_FLAG_CONTINUE};
      ::ioctl(listener_, SECCOMP_IOCTL_NOTIF_SEND, &go_on);
    }
  }

  std::atomic<int> listener_{-1};
  std::atomic<bool> held_{false};
  std::thread supervisor_;
};

// arguments: "message" or "broadcast"; for how many ms; "goes_on" or "dies". The second rank of two
// is held.
void a_neighbour_is_held(Arguments arguments) {
  using Clock = std::chrono::steady_clock;
  const bool by_message = arguments[0] == "message";
  const std::chrono::milliseconds length{std::stoi(arguments[1])};
  const bool dies = arguments[2] == "dies";
  constexpr std::size_t count = std::size_t{8} << 20;
  constexpr int attempts_max = 500;  // who comes too late to fill is not held
  // Longer than a busy machine keeps a rank waiting, and shorter than this one is held.
  constexpr auto timeout_of_owner = 1'500ms;
  Communicator world = init();
  Communicator group = world.duplicate();
  Bytes data(count);
  const auto move = [&](std::chrono::milliseconds timeout) {
    if (!by_message) group.broadcast(data, 1, {.timeout = timeout, .algorithm = "cma"});
    else if (world.rank() == 1) group.send(data, 0, 0, {.timeout = timeout});
    else group.receive(data, 1, any_tag, {.timeout = timeout});
  };
  if (world.rank() == 1) {
    auto* const holder = new Holder{length, dies};  // its thread outlives this call
    try {
      for (int i = 0; i < attempts_max; ++i) move(60s);
    } catch (const Error&) {}
    check(holder->has_held(), "the copy was held");
    world.barrier();
    return;
  }
  bool failed = false;
  for (int i = 0; i < attempts_max && !failed; ++i) {
    const auto begin = Clock::now();
    try {
      move(timeout_of_owner);
    } catch (const Error& error) {
      failed = true;
      const auto waited = Clock::now() - begin;
      check_equal(to_string(error.code()), to_string(ErrorCode::timeout));
      check_equal(error.peer(), 1);
      check(waited >= length - std::chrono::milliseconds{100},
            "the buffer was kept while it was written");
      check(waited < length + std::chrono::seconds{5}, "and no longer");
    }
  }
  check(failed, "one copy was held");
  std::ranges::fill(data, std::uint8_t{99});
  if (!dies) world.barrier();
  std::this_thread::sleep_for(std::chrono::milliseconds{200});
  check(std::ranges::all_of(data, [](std::uint8_t byte) { return byte == 99; }),
        "nobody writes it any more");
}

}  // namespace

std::vector<Scenario> held_scenarios() { return {{"a_neighbour_is_held", a_neighbour_is_held}}; }

}  // namespace qpmesh::ranks
