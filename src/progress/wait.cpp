#include "progress/wait.hpp"

#include <fmt/core.h>
#include <poll.h>
#include <sched.h>
#include <sys/epoll.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <vector>

#include "base/cpu.hpp"
#include "base/errors.hpp"

namespace qpmesh::progress {
namespace {

// A poll of a few rings and a pause: about 50 ns; only the order matters.
constexpr std::uint32_t spins_per_us = 20;
// A pause costs up to 40 ns, for which a message that is nearly here would wait.
constexpr std::uint32_t pauseless_spins = 2'000;
// A lost wake-up would be a bug; it costs a second, not a hang.
constexpr std::chrono::seconds sleep_max{1};
// A yield that took longer met a neighbour that computes.
constexpr auto slice_lost = std::chrono::microseconds{500};
constexpr std::uint32_t sleeps_for_yield_max = 64;

[[noreturn]] void fail(const char* call) {
  base::throw_error({.code = ErrorCode::no_resource, .system_error = errno}, "init", "",
                    "{} failed", call);
}

}  // namespace

WaitPolicy WaitPolicy::own_core() {
  return {.spins_max = 1'000 * spins_per_us, .yields_max = 1'000, .polls_per_yield = 4};
}
WaitPolicy WaitPolicy::shared_core() {
  return {.spins_max = 8, .yields_max = 200, .polls_per_yield = 1};
}
WaitPolicy WaitPolicy::spin_for(std::int64_t spin_us) {
  return {.spins_max = static_cast<std::uint32_t>(spin_us) * spins_per_us,
          .yields_max = 200,
          .polls_per_yield = 1};
}

Waiter::Waiter(Engine& engine, const base::System& system, WaitPolicy policy, Doorbell doorbell)
    : engine_{engine}, system_{system}, policy_{policy}, doorbell_{doorbell} {
  epoll_.reset(system.call("epoll_create1", [] { return ::epoll_create1(EPOLL_CLOEXEC); }));
  if (!epoll_) fail("epoll_create1");
  if (doorbell_.eventfd >= 0) watch(doorbell_.eventfd);
}

void Waiter::watch(int descriptor) {
  epoll_event event{.events = EPOLLIN, .data = {.fd = descriptor}};
  if (system_.call("epoll_ctl", [&] {
        return ::epoll_ctl(epoll_.get(), EPOLL_CTL_ADD, descriptor, &event);
      }) != 0)
    fail("epoll_ctl");
}

Waiter::Passed Waiter::pass_time(std::uint32_t idle, WaitLimit& limit, Others others) {
  if (idle <= policy_.spins_max) {
    if (idle > pauseless_spins) base::cpu_pause();
    return Passed::on;  // short: the clock is not worth reading
  }
  idle -= policy_.spins_max;
  const bool yields_left =
      idle <= policy_.yields_max * policy_.polls_per_yield && sleeps_left_ == 0;
  if (yields_left && idle % policy_.polls_per_yield != 0) return Passed::on;
  const Deadline now = system_.now();
  const Passed passed = look_at_clock(limit, now);
  if (passed != Passed::on) return passed;  // a warning is given before the next sleep
  if (yields_left) {
    ::sched_yield();
    // A neighbour that stays costs each yield a slice, and soon most waits sleep. One that was
    // there by chance must not: sleeps of ranks whose cores are idle cost a multiple of yields.
    if (system_.now() - now > slice_lost) {
      sleeps_left_ = sleeps_for_yield_;
      sleeps_for_yield_ = std::min(4 * sleeps_for_yield_, sleeps_for_yield_max);
    } else if (sleeps_for_yield_ > 1) {
      --sleeps_for_yield_;
    }
  } else {
    if (sleeps_left_ > 0) --sleeps_left_;
    sleep(limit, others);
  }
  return passed;
}

void Waiter::pass_core_on() noexcept {
  if (misses_ < policy_.spins_max + policy_.polls_per_yield) return;
  misses_ = policy_.spins_max;
  ::sched_yield();
}

Waiter::Passed Waiter::look_at_clock(WaitLimit& limit, Deadline now) {
  if (!limit.started) {
    limit.started = true;
    limit.begin = now;
    if (limit.timeout_ms != 0) limit.deadline = now + std::chrono::milliseconds{limit.timeout_ms};
    limit.stall_after(limit.stall_ms);
  }
  if (now >= limit.deadline) return Passed::expired;
  return now < limit.stall_at ? Passed::on : Passed::stalled;
}

// Before the last look: who publishes behind it rings.
std::chrono::microseconds Waiter::fall_asleep() noexcept {
  if (doorbell_.asleep != nullptr) doorbell_.asleep->set();
  return engine_.request_notification();
}

void Waiter::wake_up(bool rung) noexcept {
  engine_.end_notification();
  if (doorbell_.asleep == nullptr) return;
  doorbell_.asleep->clear();
  if (!rung) return;
  std::uint64_t rings = 0;
  const auto drained = ::read(doorbell_.eventfd, &rings, sizeof rings);  // non-blocking
  if (drained < 0 && base::descriptor_lost(errno)) descriptor_lost_ = true;
}

// epoll_wait counts in milliseconds. For ppoll an epoll is as readable as what is in it.
void Waiter::block(std::chrono::microseconds length, Others others) {
  if (others.empty() && length >= std::chrono::milliseconds{1}) {
    epoll_event event{};
    const auto length_ms = std::chrono::ceil<std::chrono::milliseconds>(length).count();
    const int count = ::epoll_wait(epoll_.get(), &event, 1, static_cast<int>(length_ms));
    if (count < 0 && errno != EINTR) descriptor_lost_ = true;
    return;
  }
  const auto seconds = std::chrono::floor<std::chrono::seconds>(length);
  const timespec time{.tv_sec = seconds.count(),
                      .tv_nsec = std::chrono::nanoseconds{length - seconds}.count()};
  std::vector<pollfd> all{{.fd = epoll_.get(), .events = POLLIN, .revents = 0}};
  for (const Waiter* const other : others)
    all.push_back({.fd = other->epoll_.get(), .events = POLLIN, .revents = 0});
  ::ppoll(all.data(), all.size(), &time, nullptr);
  // Another one sees its own when it waits.
  descriptor_lost_ |= (all.front().revents & POLLNVAL) != 0;
}

void Waiter::sleep(const WaitLimit& limit, Others others) {
  std::chrono::microseconds length = std::min<std::chrono::microseconds>(fall_asleep(), sleep_max);
  for (Waiter* const other : others) length = std::min(length, other->fall_asleep());
  const bool news = step(others);
  if (!news) {
    const std::chrono::milliseconds left{
        base::remaining_ms(system_, std::min(limit.deadline, limit.stall_at))};
    length = std::min<std::chrono::microseconds>(length, left);
    block(length, others);
  }
  wake_up(!news);
  for (Waiter* const other : others) other->wake_up(!news);
  if (!news) poll_slow(others);
}

}  // namespace qpmesh::progress
