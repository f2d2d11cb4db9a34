// SPDX-License-Identifier: MIT
#include "progress/wait.hpp"

#include <fmt/core.h>
#include <poll.h>
#include <sched.h>
#include <sys/epoll.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <exception>
#include <functional>
#include <thread>
#include <utility>
#include <vector>

#include "base/cpu.hpp"
#include "base/errors.hpp"
#include "base/interrupt.hpp"

namespace qpmesh::progress {
namespace {

// Waiter::was_interrupted. Each thread's own: several may wait in one context.
thread_local bool vain_end_was_interruption = false;
// It was found interrupted, and no question since was answered by a no.
thread_local bool asks_at_once = false;

// A poll of a few rings and a pause: about 50 ns; only the order matters.
constexpr std::uint32_t spins_per_us = 20;
// A pause costs up to 40 ns, for which a message that is nearly here would wait.
constexpr std::uint32_t pauseless_spins = 2'000;
// Who wants to spin for long has limits all the same: while nothing comes the clock is read every
// few ms.
constexpr std::uint32_t spins_per_look = 1U << 15;
static_assert(spins_per_look > 1'000 * spins_per_us, "none on a core of its own");
// A lost wake-up would be a bug; it costs a second, not a hang.
constexpr std::chrono::seconds sleep_max{1};
// So long requests of several contexts are not looked at, where several threads use one of them:
// who ends them may be any of those.
constexpr auto sleep_across_contexts = std::chrono::microseconds{200};
// A death is found by progress() at once, however seldom a program calls it.
constexpr auto slow_look_interval = std::chrono::milliseconds{1};
// What ends in the caller's own look needs no sleeper: to wake it costs more than to look on.
constexpr int looks_before_ring = 16;
// A thread that calls at shorter intervals is served by itself.
constexpr auto stands_in_after = std::chrono::microseconds{200};
// A yield that took longer met a neighbour that computes.
constexpr auto slice_lost = std::chrono::microseconds{500};
constexpr std::uint32_t sleeps_for_yield_max = 64;

[[noreturn]] void fail(const char* call) {
  const int error = errno;
  base::throw_error({.code = ErrorCode::no_resource, .system_error = error}, "init",
                    base::hint_for_descriptors(error), "{} failed", call);
}

}  // namespace

WaitPolicy WaitPolicy::own_core() {
  return {.spins_max = 1'000 * spins_per_us,
          .spins_max_beside_neighbour = 20 * spins_per_us,
          .yields_max = 1'000,
          .polls_per_yield = 4};
}
WaitPolicy WaitPolicy::shared_core() {
  return {.spins_max = 8, .spins_max_beside_neighbour = 8, .yields_max = 200, .polls_per_yield = 1};
}
// Spins longer than a packet's way through the protocol, and short enough to let it work. It gets
// the core with every yield; a sleep would miss the end of a message of several packets by more.
WaitPolicy WaitPolicy::beside_protocol() {
  return {.spins_max = 20 * spins_per_us,
          .spins_max_beside_neighbour = 20 * spins_per_us,
          .yields_max = 1'000,
          .polls_per_yield = 1};
}
WaitPolicy WaitPolicy::spin_for(std::int64_t spin_us) {
  const auto spins = static_cast<std::uint32_t>(spin_us) * spins_per_us;
  return {.spins_max = spins,
          .spins_max_beside_neighbour = spins,
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

Waiter::Passed Waiter::pass_time(std::uint32_t idle, WaitLimit& limit, Others others,
                                 WaitingThread* self) {
  const bool looks_on = self == nullptr || !self->stands_in;
  const std::uint32_t spins = spins_max();
  if (looks_on && idle <= spins) {
    if (idle > pauseless_spins) base::cpu_pause();
    if (idle % spins_per_look != 0) return Passed::on;  // short: the clock is not worth reading
    return look_at_clock(limit, system_.now());
  }
  idle -= std::min(idle, spins);
  const bool yields_left =
      looks_on && idle <= policy_.yields_max * policy_.polls_per_yield && sleeps_left_ == 0;
  if (yields_left && idle % policy_.polls_per_yield != 0) return Passed::on;
  const Deadline now = system_.now();
  const Passed passed = look_at_clock(limit, now);
  if (passed != Passed::on) return passed;  // a warning is given before the next sleep
  if (yields_left) {
    yield_core(self);
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
    if (self != nullptr) sleep_among_threads(limit, *self);
    else sleep(limit, others);
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
    // Behind a wait that was interrupted the next one asks at once: of many, all end.
    if (limit.asks == Asks::yes) limit.ask_at = asks_at_once ? now : now + base::ask_interval;
  }
  if (now >= limit.deadline) return Passed::expired;
  if (now >= limit.ask_at) {
    limit.ask_at = now + base::ask_interval;
    asks_at_once = base::is_interrupted();
    if (asks_at_once) return Passed::interrupted;
  }
  return now < limit.stall_at ? Passed::on : Passed::stalled;
}

bool Waiter::was_interrupted() noexcept { return vain_end_was_interruption; }
void Waiter::note_vain_end(bool was_interrupted) noexcept {
  vain_end_was_interruption = was_interrupted;
}

// A signal need not end the sleep: another thread may have taken it.
Deadline Waiter::sleep_end(const WaitLimit& limit) noexcept {
  const Deadline end = std::min(limit.deadline, limit.stall_at);
  return base::may_be_interrupted() ? std::min(end, limit.ask_at) : end;
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
bool Waiter::block(std::chrono::microseconds length, Others others) const {
  if (others.empty() && length >= std::chrono::milliseconds{1}) {
    epoll_event event{};
    const auto length_ms = std::chrono::ceil<std::chrono::milliseconds>(length).count();
    const int count = ::epoll_wait(epoll_.get(), &event, 1, static_cast<int>(length_ms));
    return count >= 0 || errno == EINTR;
  }
  const auto seconds = std::chrono::floor<std::chrono::seconds>(length);
  const timespec time{.tv_sec = seconds.count(),
                      .tv_nsec = std::chrono::nanoseconds{length - seconds}.count()};
  std::vector<pollfd> all{{.fd = epoll_.get(), .events = POLLIN, .revents = 0}};
  for (const Waiter* const other : others)
    all.push_back({.fd = other->epoll_.get(), .events = POLLIN, .revents = 0});
  ::ppoll(all.data(), all.size(), &time, nullptr);
  // Another one sees its own when it waits.
  return (all.front().revents & POLLNVAL) == 0;
}

void Waiter::sleep(const WaitLimit& limit, Others others) {
  if (shares_turns(others)) {
    give_turns_up(others);
    std::this_thread::sleep_for(sleep_across_contexts);
    take_turns(others);
    return poll_slow(others);
  }
  std::chrono::microseconds length = std::min<std::chrono::microseconds>(fall_asleep(), sleep_max);
  for (Waiter* const other : others) length = std::min(length, other->fall_asleep());
  const bool news = step(others);
  if (!news) {
    const std::chrono::milliseconds left{base::remaining_ms(system_, sleep_end(limit))};
    length = std::min<std::chrono::microseconds>(length, left);
    if (!block(length, others)) descriptor_lost_ = true;
  }
  wake_up(!news);
  for (Waiter* const other : others) other->wake_up(!news);
  if (!news) poll_slow(others);
}

std::chrono::milliseconds Waiter::arm() {
  armed_ = true;
  const std::chrono::microseconds length =
      std::min<std::chrono::microseconds>(fall_asleep(), sleep_max);
  if (engine_.step()) return std::chrono::milliseconds{0};
  return std::chrono::ceil<std::chrono::milliseconds>(length);
}

void Waiter::disarm() {
  const Deadline now = system_.now();
  if (std::exchange(armed_, false)) wake_up(true);
  else if (now < slow_look_at_) return;
  engine_.poll_slow();
  slow_look_at_ = now + slow_look_interval;
}

// ---- several threads ----

void Waiter::admit_threads() {
  auto threads = std::make_unique<WaitingThreads>(system_);
  watch(threads->descriptor());
  threads_ = std::move(threads);
}

// Who looks needs no ring. What nobody rings for, such as a socket, may wake the sleeper: then it
// is parked.
void Waiter::begin_looking() noexcept {
  threads_->begin_looking();
  if (!threads_->has_sleeper() || threads_->others_look()) return;
  if (doorbell_.asleep != nullptr) doorbell_.asleep->clear();
  engine_.end_notification();
}

// As the sleeper would do it before it sleeps: what the caller has begun may need other news than
// what was there before.
bool Waiter::arm_sleeper() {
  threads_->sleep_at_most(fall_asleep());
  for (int looks = 0; looks < looks_before_ring; ++looks) {
    if (!engine_.step()) return false;
    threads_->wake_done();
  }
  return true;
}

void Waiter::pass_looking_on() noexcept {
  WaitingThreads& threads = *threads_;
  threads.wake_done();
  threads.count_call();
  if (threads.anybody_looks()) return;
  if (!threads.has_sleeper()) return threads.wake_one();
  try {
    if (arm_sleeper()) threads.ring();
  } catch (const std::exception&) {  // such as bad_alloc: the sleeper meets it, too
    threads.ring();
  }
}

void Waiter::sleep_among_threads(const WaitLimit& limit, WaitingThread& self) {
  WaitingThreads& threads = *threads_;
  const Deadline now = system_.now();
  const Deadline until = std::min(sleep_end(limit), now + sleep_max);
  if (threads.has_sleeper() || threads.others_look()) {
    if (!threads.others_look() && arm_sleeper()) return;
    threads.park(self, until);
    return;
  }
  const auto length =
      std::min(fall_asleep(), std::chrono::ceil<std::chrono::microseconds>(until - now));
  threads.end_looking();
  threads.begin_sleep(self, length);
  const bool news = engine_.step();
  if (!news) {
    threads.turn().give_up();
    const bool well = block(length, {});
    threads.turn().take();
    if (!well) descriptor_lost_ = true;
  }
  threads.end_sleep();
  threads.begin_looking();
  wake_up(!news);
  if (!news) engine_.poll_slow();
  threads.wake_done();
}

bool Waiter::shares_turns(Others others) const noexcept {
  return threads_ != nullptr || std::ranges::any_of(others, [](const Waiter* other) {
           return other->threads_ != nullptr;
         });
}

// In the order of their addresses, which all threads keep: none waits for a turn that another one
// has which waits for one of its own.
void Waiter::take_turns(Others others) {
  std::vector<Waiter*> all{others.begin(), others.end()};
  all.push_back(this);
  std::ranges::sort(all, std::less{});
  for (Waiter* const each : all) {
    if (each->threads_ != nullptr) each->begin_turn();
  }
}

void Waiter::give_turns_up(Others others) {
  if (threads_ != nullptr) end_turn();
  for (Waiter* const other : others) {
    if (other->threads_ != nullptr) other->end_turn();
  }
}

void Waiter::give_way(Others others, bool news, WaitingThread* self) {
  if (self != nullptr) {
    if (news) threads_->wake_done();
    if (self->stands_in && threads_->take_calls() && !threads_->has_sleeper()) {
      self->naps = true;
      threads_->park(*self, system_.now() + stands_in_after);
      self->naps = false;
      return;
    }
    if (!threads_->turn().is_wanted()) return;
    threads_->turn().give_up();
    return threads_->turn().take();
  }
  const auto is_wanted = [](const Waiter* waiter) {
    return waiter->threads_ != nullptr && waiter->threads_->turn().is_wanted();
  };
  if (!is_wanted(this) && std::ranges::none_of(others, is_wanted)) return;
  give_turns_up(others);
  take_turns(others);
}

void Waiter::yield_core(WaitingThread* self) noexcept {
  if (self != nullptr) threads_->turn().give_up();
  ::sched_yield();
  if (self != nullptr) threads_->turn().take();
}

}  // namespace qpmesh::progress
