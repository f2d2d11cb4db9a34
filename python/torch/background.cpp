// SPDX-License-Identifier: MIT
#include "background.hpp"

#include <poll.h>
#include <signal.h>
#include <sys/eventfd.h>
#include <unistd.h>

#include <algorithm>
#include <system_error>

#include "flight.hpp"

namespace qpmesh_torch {
namespace {

using std::chrono::milliseconds;

// Between two looks while operations come. A look takes a few microseconds of a core.
constexpr int tick_ms = 1;
// After so many looks at nothing it sleeps until it is woken, which costs who does it.
constexpr int idle_ticks_max = 20;
// Between two looks whether somebody waits by now, while operations are carried on.
constexpr int alone_look_ms = 20;

}  // namespace

Background& Background::of_process() {
  static std::mutex mutex;
  static Background* background = nullptr;
  static ::pid_t owner = 0;
  const std::lock_guard lock{mutex};
  if (owner != ::getpid()) {  // a parent's thread is not here
    background = new Background;
    owner = ::getpid();
  }
  return *background;
}

Background::Background() : bell_{::eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK)} {
  if (bell_ < 0) {
    throw_error({"init", 0, nullptr}, QPMESH_NO_RESOURCE, "eventfd failed",
                "raise the limit of open files (ulimit -n)");
  }
}

void Background::wake() noexcept {
  if (is_parked_.exchange(false)) ::eventfd_write(bell_, 1);
}

void Background::add(const std::shared_ptr<Group>& group) {
  const std::lock_guard lock{mutex_};
  members_.push_back({group});
  if (threads_.empty() && !stops_) start_thread();
}

void Background::start_thread() {
  // It takes no signal: those are the program's.
  sigset_t all;
  sigset_t before;
  ::sigfillset(&all);
  ::pthread_sigmask(SIG_SETMASK, &all, &before);
  try {
    threads_.emplace_back([this] { run(); });
  } catch (...) {
    ::pthread_sigmask(SIG_SETMASK, &before, nullptr);
    throw;
  }
  ::pthread_sigmask(SIG_SETMASK, &before, nullptr);
  ++idle_;
}

void Background::watch(std::shared_ptr<Flight> flight, Clock::time_point deadline) {
  const std::lock_guard lock{mutex_};
  if (stops_ && settling_ == 0) return;
  watched_.push_back({std::move(flight), deadline});
  ::eventfd_write(bell_, 1);
}

void Background::ended(std::shared_ptr<Flight> flight) {
  const std::lock_guard lock{mutex_};
  ended_.push_back(std::move(flight));
  ::eventfd_write(bell_, 1);
}

void Background::stop() {
  std::vector<std::thread> threads;
  {
    std::unique_lock lock{mutex_};
    stops_ = true;
    ::eventfd_write(bell_, 1);
    // A callback that waits for another flight is told of that first.
    loop_is_free_.wait(lock, [this] { return threads_.empty() || has_ended_; });
    threads.swap(threads_);
  }
  loop_is_free_.notify_all();
  for (std::thread& thread : threads) thread.join();
  for (const Member& member : members_)
    if (const auto group = member.group.lock()) group->leave();
}

bool Background::settle(std::unique_lock<std::mutex>& lock, Due due) {
  ++settling_;
  if (idle_ == 0) {
    try {
      start_thread();
    } catch (const std::system_error&) {
      // There are no more threads: this one keeps the loop, which rests meanwhile.
    }
  }
  const bool keeps_loop = idle_ == 0;
  if (!keeps_loop) {
    has_loop_ = false;
    loop_is_free_.notify_all();
  }
  lock.unlock();
  // Whoever waits in the library is told that the time is over.
  if (due.is_late) due.flight->settle();
  else due.flight->go_on();
  due.flight.reset();
  lock.lock();
  --settling_;
  if (stops_) ::eventfd_write(bell_, 1);
  if (keeps_loop) return true;
  ++idle_;
  return take_loop(lock);
}

bool Background::take_loop(std::unique_lock<std::mutex>& lock) {
  loop_is_free_.wait(lock, [this] { return !has_loop_ || has_ended_; });
  --idle_;
  has_loop_ = true;
  return !has_ended_;
}

Background::Due Background::next_due() {
  std::shared_ptr<Flight> next;
  if (!ended_.empty()) {
    next = std::move(ended_.front());
    ended_.pop_front();
    std::erase_if(watched_, [&](const Watched& each) { return each.flight == next; });
    return {.flight = std::move(next)};
  }
  const auto late = std::ranges::find_if(
      watched_, [now = Clock::now()](const Watched& each) { return each.deadline <= now; });
  if (late == watched_.end()) return {};
  next = std::move(late->flight);
  watched_.erase(late);
  return {.flight = std::move(next), .is_late = true};
}

int Background::ms_to_deadline() const {
  if (watched_.empty()) return -1;
  const auto first = std::ranges::min_element(watched_, {}, &Watched::deadline)->deadline;
  const auto left = std::chrono::ceil<milliseconds>(first - Clock::now()).count();
  return static_cast<int>(std::clamp<std::int64_t>(left, 0, 60'000));
}

Background::Groups Background::groups() {
  std::erase_if(members_, [](const Member& each) { return each.group.expired(); });
  Groups found;
  for (const Member& member : members_) found.push_back(member.group.lock());
  return found;
}

Background::Groups Background::left_alone(const Groups& groups) {
  Groups found;
  for (std::size_t i = 0; i < groups.size(); ++i) {
    if (groups[i] == nullptr) continue;
    const bool now = groups[i]->is_left_alone();
    const bool before = std::exchange(members_[i].was_left_alone, now);
    const bool is_watched = std::ranges::any_of(
        watched_, [&](const Watched& each) { return &each.flight->group() == groups[i].get(); });
    if (now && (before || is_watched)) found.push_back(groups[i]);
  }
  return found;
}

void Background::carry_on(const Groups& groups, int limit_ms) {
  std::vector<::pollfd> descriptors{{.fd = bell_, .events = POLLIN, .revents = 0}};
  for (const auto& group : groups) {
    int fd = -1;
    int ms = 0;
    qpmesh_communicator* const communicator = group->handle();
    // What fails here is told to whoever waits.
    if (qpmesh_progress(communicator) != QPMESH_OK ||
        qpmesh_wait_fd(communicator, &fd) != QPMESH_OK ||
        qpmesh_arm_wait(communicator, &ms) != QPMESH_OK)
      ms = tick_ms;
    else descriptors.push_back({.fd = fd, .events = POLLIN, .revents = 0});
    if (ms >= 0) limit_ms = limit_ms < 0 ? ms : std::min(limit_ms, ms);
  }
  ::poll(descriptors.data(), descriptors.size(), limit_ms);
  ::eventfd_t rung = 0;
  ::eventfd_read(bell_, &rung);
}

void Background::run() {
  ::pthread_setname_np(::pthread_self(), "qpmesh-torch");
  std::uint64_t begun_before = 0;
  int idle_ticks = 0;
  std::unique_lock lock{mutex_};
  if (!take_loop(lock)) return;
  for (;;) {
    if (Due due = next_due(); due.flight != nullptr) {
      if (!settle(lock, std::move(due))) return;
      continue;
    }
    if (stops_ && settling_ == 0) {
      has_ended_ = true;
      lock.unlock();
      loop_is_free_.notify_all();
      return;
    }
    Groups all = groups();
    Groups alone = left_alone(all);
    const auto in_flight = [&] {
      return std::ranges::any_of(
          all, [](const auto& group) { return group != nullptr && group->is_busy(); });
    };
    std::uint64_t begun = 0;
    for (const auto& group : all) begun += group == nullptr ? 0 : group->begun();
    const bool is_idle = begun == begun_before && !in_flight();
    begun_before = begun;
    idle_ticks = is_idle ? idle_ticks + 1 : 0;
    // Whatever began before it is parked is seen here, and what begins from then on rings.
    if (idle_ticks >= idle_ticks_max) is_parked_.store(true);
    const bool parks = idle_ticks >= idle_ticks_max && !in_flight();
    const int look_ms = parks ? -1 : alone.empty() ? tick_ms : alone_look_ms;
    const int deadline_ms = ms_to_deadline();
    lock.unlock();
    carry_on(alone, look_ms < 0       ? deadline_ms
                    : deadline_ms < 0 ? look_ms
                                      : std::min(look_ms, deadline_ms));
    all.clear();
    alone.clear();
    lock.lock();
    if (is_parked_.exchange(false)) idle_ticks = 0;
  }
}

}  // namespace qpmesh_torch
