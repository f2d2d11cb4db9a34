// SPDX-License-Identifier: MIT
#include "tools/run/job.hpp"

#include <fmt/format.h>
#include <poll.h>
#include <sys/epoll.h>
#include <sys/signalfd.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <chrono>
#include <optional>
#include <vector>

#include "base/bytes.hpp"
#include "base/owned.hpp"
#include "base/system.hpp"
#include "tools/run/end_notices.hpp"
#include "tools/run/guardian.hpp"
#include "tools/run/prefixed_output.hpp"
#include "tools/run/states.hpp"
#include "tools/run/terminal.hpp"
#include "tools/run/wire.hpp"

namespace qpmesh::run {
namespace {

class Job {
 public:
  explicit Job(JobPlan plan)
      : plan_{std::move(plan)},
        signals_{take_signals(plan_.signal_mask)},
        deaths_{::epoll_create1(EPOLL_CLOEXEC)} {
    if (!deaths_)
      throw RunError{fmt::format("epoll_create1 failed: {}", base::describe_errno(errno)), 1};
  }

  // Whatever happened: nobody is left running, and no zombie.
  ~Job() {
    if (!all_ended() || ending_ != Ending::not_yet) signal_all(SIGKILL);
    guardian_.reset();  // before the zombies that keep the groups' numbers taken
    for (RankProcess& process : ranks_) process.reap();
  }
  Job(const Job&) = delete;
  Job& operator=(const Job&) = delete;

  void start() {
    guardian_.emplace();
    if (plan_.states_s > 0) {
      states_.emplace(plan_.local_size);
      plan_.states_variable = [this](int index) { return states_->variable(index); };
      begin_ = system_.now();
      next_states_ = begin_ + std::chrono::seconds{plan_.states_s};
    }
    for (int i = 0; i < plan_.local_size; ++i) {
      const int rank = plan_.first_rank + i;
      RankProcess& process = ranks_.emplace_back(start_rank(plan_, rank, *guardian_));
      watch(process, i);
      if (!plan_.prefix) continue;
      output_.add(rank, std::move(process.output));
      errors_.add(rank, std::move(process.errors));
    }
  }

  int wait() {
    while (!all_ended()) {
      wait_for_news(next_act());
      take_notice_of_signals();
      output_.step();
      errors_.step();
      notices_.step();
      hear_of_other_hosts();
      look_at_ranks();
      if (states_ && system_.now() >= next_states_) say_states();
      if (ending_ != Ending::not_yet && system_.now() >= next_step_) end_the_rest();
    }
    finish_output();
    return culprit_ == nullptr ? 0 : culprit_->end.code;
  }

 private:
  // What we did about the ranks that are left, after one failed or we were asked to end.
  enum class Ending { not_yet, waiting, asked, forced };

  bool all_ended() const {
    return std::all_of(ranks_.begin(), ranks_.end(),
                       [](const RankProcess& process) { return process.ended; });
  }
  void signal_all(int signal) const {
    for (const RankProcess& process : ranks_) process.signal_group(signal);
  }

  void watch(const RankProcess& process, int index) {
    if (!process.pidfd) return;  // its SIGCHLD has to do
    epoll_event event{.events = EPOLLIN, .data = {.u32 = static_cast<std::uint32_t>(index)}};
    if (::epoll_ctl(deaths_.get(), EPOLL_CTL_ADD, process.pidfd.get(), &event) != 0)
      throw RunError{fmt::format("epoll_ctl failed: {}", base::describe_errno(errno)), 1};
  }

  Deadline next_act() const {
    const bool timed = ending_ == Ending::waiting || ending_ == Ending::asked;
    const Deadline step = timed ? next_step_ : no_deadline;
    return states_ ? std::min(step, next_states_) : step;
  }

  void wait_for_news(Deadline until) {
    polled_.clear();
    polled_.push_back({.fd = signals_.get(), .events = POLLIN, .revents = 0});
    polled_.push_back({.fd = deaths_.get(), .events = POLLIN, .revents = 0});
    output_.ask(polled_);
    errors_.ask(polled_);
    notices_.ask(polled_);
    if (plan_.courier >= 0)
      polled_.push_back({.fd = plan_.courier, .events = POLLIN, .revents = 0});
    const int limit_ms = until == no_deadline ? -1 : base::remaining_ms(system_, until);
    ::poll(polled_.data(), polled_.size(), limit_ms);
  }

  // A reader may take its time, but where we were told to end.
  void finish_output() {
    output_.end_sources();
    errors_.end_sources();
    for (;;) {
      const bool output_goes = output_.step();
      const bool errors_go = errors_.step();
      notices_.step();
      if (output_.is_done() && errors_.is_done()) return;
      const Deadline now = system_.now();
      if (readers_until_ != no_deadline && (output_goes || errors_go))
        readers_until_ = std::max(readers_until_, now + reader_patience);
      if (now >= readers_until_) return;
      wait_for_news(readers_until_);
      take_notice_of_signals();
      hear_of_other_hosts();
    }
  }

  void say_states() {
    std::vector<SeenRank> seen;
    for (std::size_t i = 0; i < ranks_.size(); ++i)
      seen.push_back({ranks_[i].rank, ranks_[i].ended, states_->word(static_cast<int>(i))});
    const Deadline now = system_.now();
    const auto ms = [](auto duration) {
      return std::chrono::duration_cast<std::chrono::milliseconds>(duration).count();
    };
    say(fmt::format("after {:.0f} s: {}", static_cast<double>(ms(now - begin_)) / 1e3,
                    describe(seen, static_cast<std::uint64_t>(ms(now.time_since_epoch())))));
    next_states_ = now + std::chrono::seconds{plan_.states_s};
  }

  void take_notice_of_signals() {
    signalfd_siginfo info{};
    while (::read(signals_.get(), &info, sizeof info) == static_cast<ssize_t>(sizeof info)) {
      const auto signal = static_cast<int>(info.ssi_signo);
      if (signal == SIGCHLD) {
        tell_of_terminal_stops();
      } else if (signal == SIGTSTP) {
        signal_all(SIGTSTP);
        stop();
        signal_all(SIGCONT);
      } else {
        signal_all(signal);
        if (signal != SIGUSR1 && signal != SIGUSR2)
          signal_all(SIGCONT);  // a stopped rank would hear it never
        if (signal == SIGTERM && ending_ <= Ending::waiting) enter(Ending::asked);
        if (signal == SIGTERM)
          readers_until_ =
              std::min(readers_until_, until_readers_are_left(system_, plan_.grace_ms));
      }
    }
  }

  // Rank 0 has our stdin, and any rank may open /dev/tty, but their groups are not the terminal's
  // foreground group: the kernel stops who reads from it, changes its settings or, after
  // stty tostop, writes to it.
  void tell_of_terminal_stops() const {
    siginfo_t info{};
    while (::waitid(P_ALL, 0, &info, WSTOPPED | WNOHANG) == 0 && info.si_pid != 0) {
      const auto process = std::ranges::find(ranks_, info.si_pid, &RankProcess::pid);
      if (process != ranks_.end()) tell_why_it_stopped(*process, info.si_status);
      info.si_pid = 0;
    }
  }

  static void tell_why_it_stopped(const RankProcess& process, int signal) {
    if (signal == SIGTTIN) {
      say(
          fmt::format("rank {} (pid {}) was stopped because it reads from the terminal; give rank "
                      "0 its input through a pipe or file",
                      process.rank, process.pid));
    } else if (signal == SIGTTOU) {
      say(
          fmt::format("rank {} (pid {}) was stopped because it writes to the terminal or changes "
                      "its settings; only who is in its foreground may",
                      process.rank, process.pid));
    }
  }

  // The kernel queues pidfds in the order in which the processes ended.
  void look_at_ranks() {
    std::array<epoll_event, 64> ended{};
    const int count = ::epoll_wait(deaths_.get(), ended.data(), static_cast<int>(ended.size()), 0);
    for (int i = 0; i < count; ++i) look(ranks_[ended[static_cast<std::size_t>(i)].data.u32]);
    for (RankProcess& process : ranks_) {
      if (!process.pidfd) look(process);
    }
  }

  void look(RankProcess& process) {
    if (process.ended) return;
    process.look();
    if (!process.ended) return;
    if (process.pidfd) ::epoll_ctl(deaths_.get(), EPOLL_CTL_DEL, process.pidfd.get(), nullptr);
    const bool suspect = std::erase(suspects_, &process) > 0;
    notices_.tell({.rank = process.end.rank, .pid = process.end.pid, .code = process.end.code});
    if (plan_.courier >= 0)
      send_packet(plan_.courier, {.word = Word::ended, .payload = encode(process.end)});
    if (process.end.code != 0) failed(process, suspect);
    if (suspects_.empty()) name_culprit();
  }

  // Who ends because of a rank that was killed may be gone before that one is. So the first to fail
  // is named when all those have ended that were on their way then.
  void failed(const RankProcess& process, bool suspect) {
    if (plan_.keep_going) say_how_it_ended(process);
    if (culprit_ == nullptr) {
      culprit_ = &process;
      if (!plan_.keep_going) begin_to_end();
    } else if (suspect && process.end.killed && !culprit_->end.killed) {
      culprit_ = &process;
    }
  }

  void begin_to_end() {
    failed_somewhere_ = true;
    for (const RankProcess& other : ranks_) {
      if (!other.ended && other.is_ending()) suspects_.push_back(&other);
    }
    if (ending_ == Ending::not_yet) enter(Ending::waiting);
  }

  void name_culprit() {
    if (!failed_somewhere_ || std::exchange(culprit_named_, true)) return;
    if (culprit_ != nullptr) say_how_it_ended(*culprit_);
    if (plan_.courier < 0) return;
    base::ByteWriter writer;
    writer.put(static_cast<std::int32_t>(culprit_ == nullptr ? -1 : culprit_->end.rank));
    send_packet(plan_.courier, {.word = Word::settled, .payload = std::move(writer).blob()});
  }

  // The launcher says it of a job of several hosts.
  void say_how_it_ended(const RankProcess& process) const {
    if (plan_.courier < 0)
      say(fmt::format("rank {} (pid {}) {}", process.end.rank, process.end.pid,
                      process.end.ending));
  }

  void hear_of_other_hosts() {
    if (plan_.courier < 0) return;
    while (const auto message = receive_packet(plan_.courier)) {
      if (message->word == Word::ended) {
        const RankEnd end = decode_rank_end(message->payload);
        notices_.tell({.rank = end.rank, .pid = end.pid, .code = end.code});
      } else if (message->word == Word::failed && !failed_somewhere_) {
        begin_to_end();
        if (suspects_.empty()) name_culprit();
      }
    }
  }

  void enter(Ending ending) {
    ending_ = ending;
    next_step_ = system_.now() + std::chrono::milliseconds{plan_.grace_ms};
  }

  void end_the_rest() {
    if (ending_ == Ending::forced) return;
    name_culprit();  // from here on ranks end because of us
    const bool ask = ending_ == Ending::waiting;
    signal_all(ask ? SIGTERM : SIGKILL);
    if (ask) signal_all(SIGCONT);  // a stopped rank hears nothing else
    enter(ask ? Ending::asked : Ending::forced);
  }

  std::optional<States> states_;  // if it is asked for
  Deadline begin_{};
  Deadline next_states_{};
  JobPlan plan_;
  base::System system_;
  base::UniqueFd signals_;
  base::UniqueFd deaths_;  // epoll of the pidfds
  std::optional<Guardian> guardian_;
  std::vector<RankProcess> ranks_;
  PrefixedOutput output_{STDOUT_FILENO};
  PrefixedOutput errors_{STDERR_FILENO};
  EndNotices notices_{system_, plan_.job};
  std::vector<pollfd> polled_;
  Ending ending_ = Ending::not_yet;
  Deadline next_step_ = no_deadline;
  Deadline readers_until_ = no_deadline;      // then who does not read what ranks said is left
  const RankProcess* culprit_ = nullptr;      // the first of this host that failed
  std::vector<const RankProcess*> suspects_;  // not ended yet, and on their way before it was
  bool failed_somewhere_ = false;             // here or on another host: the others are ended
  bool culprit_named_ = false;
};

}  // namespace

int run_job(JobPlan plan) {
  Job job{std::move(plan)};
  job.start();
  return job.wait();
}

}  // namespace qpmesh::run
