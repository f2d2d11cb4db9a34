// SPDX-License-Identifier: MIT
#include "tools/run/across_hosts.hpp"

#include <fmt/format.h>
#include <poll.h>
#include <sys/signalfd.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <deque>
#include <optional>
#include <utility>

#include "base/system.hpp"
#include "bootstrap/launcher.hpp"
#include "bootstrap/listener.hpp"
#include "bootstrap/socket.hpp"
#include "tools/run/host_plan.hpp"
#include "tools/run/outlet.hpp"
#include "tools/run/terminal.hpp"

namespace qpmesh::run {
namespace {

constexpr int lost_code = 255;  // as ssh has it

// The variable's value, or nothing.
std::string variable(std::string_view name) {
  return bootstrap::process_environment()(name).value_or("");
}

// Lines of somebody else in one of ours.
std::string in_one_line(std::string text) {
  std::erase(text, '\r');
  std::replace(text.begin(), text.end(), '\n', ' ');
  while (text.ends_with(' ')) text.pop_back();
  return text;
}

struct Host {
  Host(std::string its_name, Remote its_remote)
      : name{std::move(its_name)}, remote{std::move(its_remote)} {}

  std::string name;
  Remote remote;
  std::optional<HostHere> here{};
  std::vector<RankEnd> failures{};  // of its ranks, in their order
  std::string output_begun{};       // lines without their ends
  std::string errors_begun{};
  bool settled = false;  // it has said who failed first there
  bool over = false;     // done, or lost
};

class Job {
 public:
  explicit Job(HostsPlan plan)
      : plan_{std::move(plan)}, signals_{take_signals(plan_.job.signal_mask)} {
    ::signal(SIGPIPE, SIG_IGN);  // a wire that ends is read to its end
  }

  // Nobody is left running that was not told to end: a host ends its ranks when its wire does. Who
  // is not there yet may never read that.
  ~Job() {
    for (Host& host : hosts_) {
      host.remote.wire().close();
      if (!host.here) host.remote.give_up();
    }
  }
  Job(const Job&) = delete;
  Job& operator=(const Job&) = delete;

  // Nothing runs before all hosts are there.
  void start() {
    HostPlan plan{.job = plan_.job,
                  .directory = plan_.directory,
                  .environment = environment_for_hosts(::environ),
                  .ports = variable("QPMESH_PORTS")};
    plan.job.first_rank = 0;
    for (const HostSlots& slots : plan_.hosts) {
      Host& host = hosts_.emplace_back(
          slots.name, Remote{remote_command(plan_.shell, slots.name), plan_.job.signal_mask});
      plan.job.local_size = slots.slots;
      host.remote.wire().send(Word::plan, encode(plan));
      plan.job.first_rank += slots.slots;
    }
    const Deadline deadline = base::after_ms(system_, plan_.answer_ms_max);
    while (!std::ranges::all_of(hosts_, [](const Host& host) { return host.here.has_value(); })) {
      if (system_.now() >= deadline) fail_silent();
      poll(base::remaining_ms(system_, deadline));
      end_at_a_signal();
      for (Host& host : hosts_) greet(host);
    }
    const std::string root = meeting_place();
    for (Host& host : hosts_) host.remote.wire().send_text(Word::start, root);
    input_wanted_ = true;
  }

  int wait() {
    while (!std::ranges::all_of(hosts_, &Host::over)) {
      poll(readers_left_ms());
      pass_on_signals();
      pass_on_input();
      for (Host& host : hosts_) hear(host);
      name_culprit();
      write();
      if (output_.is_broken() || errors_.is_broken()) end_as_others_do();
    }
    name_culprit();
    while (!output_.is_empty() || !errors_.is_empty()) {
      poll(readers_left_ms());
      pass_on_signals();
      write();
    }
    if (refusal_) throw RunError{*refusal_};
    if (culprit_) return culprit_->code;
    return lost_ ? lost_code : 0;
  }

 private:
  // ---- before the ranks start ----

  void greet(Host& host) {
    Wire& wire = host.remote.wire();
    wire.flush();
    host.remote.listen();
    while (const auto message = wire.receive()) {
      if (message->word == Word::here) host.here = decode_here(message->payload);
      else if (message->word == Word::refused) throw refusal_of(host, message->payload);
    }
    if (wire.ended()) throw loss_of(host);
  }

  void end_at_a_signal() {
    signalfd_siginfo info{};
    while (::read(signals_.get(), &info, sizeof info) == static_cast<ssize_t>(sizeof info)) {
      const auto signal = static_cast<int>(info.ssi_signo);
      if (signal == SIGINT || signal == SIGTERM || signal == SIGHUP)
        throw RunError{"ended before all hosts were there", 128 + signal};
    }
  }

  [[noreturn]] void fail_silent() {
    std::string names;
    std::string said;
    for (Host& host : hosts_) {
      if (host.here) continue;
      names += (names.empty() ? "" : ", ") + host.name;
      said += host.remote.said();
    }
    throw RunError{fmt::format("no answer within {} ms from {}{}{}", plan_.answer_ms_max, names,
                               said.empty() ? "" : ": ", in_one_line(said)),
                   lost_code};
  }

  RunError loss_of(Host& host) {
    Wire& wire = host.remote.wire();
    const std::string stray = wire.stray();
    const int code = host.remote.wait();
    const std::string said = in_one_line(host.remote.said() + stray);
    const std::string remedy = remedy_for(plan_.shell, host.name, code, said);
    return {fmt::format("{} cannot be reached: {} ended with code {}{}{}{}{}", host.name,
                        host.remote.program(), code, said.empty() ? "" : ": ", said,
                        remedy.empty() ? "" : "; ", remedy),
            code == 126 || code == 127 ? code : lost_code};
  }

  static RunError refusal_of(const Host& host, BlobView payload) {
    base::ByteReader reader{payload};
    const auto code = reader.get<std::int32_t>();
    return {fmt::format("{}: {}", host.name, reader.get_text()), code};
  }

  // Where rank 0 listens for the others: at the first host, by an address that means something to
  // the others, at a port that was free there.
  std::string meeting_place() const {
    if (hosts_.size() == 1) return {};
    if (std::string root = variable("QPMESH_ROOT"); !root.empty()) return root;
    const Host& first = hosts_.front();
    std::string address = first.here->address;
    if (is_this_host(first.name)) {
      // Others know best how they see us, unless something between them and us has its own address.
      const auto own = bootstrap::interface_addresses(system_);
      for (const Host& host : hosts_) {
        if (std::ranges::find(own, host.here->seen_from) == own.end()) continue;
        address = host.here->seen_from;
        break;
      }
    }
    return bootstrap::to_string(bootstrap::HostPort{address, first.here->port});
  }

  // ---- while they run ----

  void poll(int timeout_ms) {
    polled_.clear();
    polled_.push_back({.fd = signals_.get(), .events = POLLIN, .revents = 0});
    const bool room = has_room();
    for (Host& host : hosts_) {
      if (host.over) continue;
      host.remote.wire().ask(polled_, room);
      host.remote.ask(polled_);
    }
    output_.ask(polled_);
    errors_.ask(polled_);
    if (may_read_input()) polled_.push_back({.fd = STDIN_FILENO, .events = POLLIN, .revents = 0});
    ::poll(polled_.data(), polled_.size(), timeout_ms);
  }

  // While the user's terminal does not take what it has, hosts are not heard, and so ranks wait.
  bool has_room() const { return !output_.is_full() && !errors_.is_full(); }

  // A terminal stops who reads it from the background.
  bool may_read_input() const {
    return input_wanted_ &&
           (::isatty(STDIN_FILENO) == 0 || ::tcgetpgrp(STDIN_FILENO) == ::getpgrp());
  }

  void pass_on_input() {
    if (!may_read_input()) return;
    pollfd polled{.fd = STDIN_FILENO, .events = POLLIN, .revents = 0};
    if (::poll(&polled, 1, 0) <= 0) return;
    std::array<std::byte, 16 * 1024> bytes;
    const ssize_t count = ::read(STDIN_FILENO, bytes.data(), bytes.size());
    if (count < 0 && (errno == EINTR || errno == EAGAIN)) return;
    input_wanted_ = false;  // until rank 0 has taken it, and never again after its end
    hosts_.front().remote.wire().send(
        Word::input, BlobView{bytes}.first(static_cast<std::size_t>(std::max<ssize_t>(count, 0))));
  }

  void tell_all(Word word, BlobView payload, const Host* but = nullptr) {
    for (Host& host : hosts_) {
      if (host.over || &host == but) continue;
      host.remote.wire().send(word, payload);
      host.remote.wire().flush();
    }
  }

  void tell_all_signal(int signal) {
    base::ByteWriter writer;
    writer.put(static_cast<std::int32_t>(signal));
    tell_all(Word::signal, writer.blob());
  }

  void pass_on_signals() {
    signalfd_siginfo info{};
    while (::read(signals_.get(), &info, sizeof info) == static_cast<ssize_t>(sizeof info)) {
      const auto signal = static_cast<int>(info.ssi_signo);
      if (signal != SIGCHLD) tell_all_signal(signal);
      if (signal == SIGTSTP) {
        stop();
        tell_all_signal(SIGCONT);
      }
      if (signal == SIGTERM)
        readers_until_ =
            std::min(readers_until_, until_readers_are_left(system_, plan_.job.grace_ms));
    }
  }

  int readers_left_ms() const {
    const bool has_output = !output_.is_empty() || !errors_.is_empty();
    if (readers_until_ == no_deadline || !has_output) return -1;
    return base::remaining_ms(system_, readers_until_);
  }

  // A reader may take its time, but where we were told to end.
  void write() {
    for (Outlet* const outlet : {&output_, &errors_}) {
      const bool goes = outlet->step();
      const Deadline now = system_.now();
      if (readers_until_ != no_deadline && goes)
        readers_until_ = std::max(readers_until_, now + reader_patience);
      if (!outlet->is_empty() && now >= readers_until_) outlet->give_up();
    }
  }

  void hear(Host& host) {
    if (host.over) return;
    Wire& wire = host.remote.wire();
    wire.flush();
    host.remote.listen();
    while (has_room()) {
      const auto message = wire.receive();
      if (!message) break;
      take(host, *message);
      if (host.over) return;
    }
    if (has_room() && wire.ended()) lose(host);
  }

  void take(Host& host, const Message& message) {
    switch (message.word) {
      case Word::output: put(output_, host.output_begun, text_of(message.payload)); break;
      case Word::errors: put(errors_, host.errors_begun, text_of(message.payload)); break;
      case Word::input_taken: input_wanted_ = true; break;
      case Word::ended:
        tell_all(Word::ended, message.payload, &host);
        if (RankEnd end = decode_rank_end(message.payload); end.code != 0)
          fail(host, std::move(end));
        break;
      case Word::settled:
        settle(host, base::ByteReader{message.payload}.get<std::int32_t>());
        break;
      case Word::refused:
        if (!refusal_) refusal_ = refusal_of(host, message.payload);
        tell_all_signal(SIGKILL);
        break;
      case Word::done:
        end(host);
        host.remote.wire().close();
        break;
      default: break;  // alive
    }
  }

  // Lines with prefixes stay whole, however frames cut them. Without prefixes ranks write as on one
  // host: what they write goes as it comes.
  void put(Outlet& outlet, std::string& begun, std::string_view text) const {
    if (!plan_.job.prefix) return outlet.put(text);
    const auto line_end = text.rfind('\n');
    if (line_end == text.npos) {
      begun += text;
      return;
    }
    outlet.put(std::exchange(begun, std::string{text.substr(line_end + 1)}));
    outlet.put(text.substr(0, line_end + 1));
  }

  void end(Host& host) {
    host.over = true;
    output_.put(std::exchange(host.output_begun, {}));
    errors_.put(std::exchange(host.errors_begun, {}));
  }

  void fail(Host& host, RankEnd end) {
    if (plan_.job.keep_going) {
      say_how_it_ended(host, end);
      if (!culprit_) culprit_ = std::move(end);
      return;
    }
    host.failures.push_back(std::move(end));
    end_the_others(host);
  }

  void end_the_others(const Host& host) {
    if (!std::exchange(failing_, true)) tell_all(Word::failed, {}, &host);
  }

  void settle(Host& host, int rank) {
    host.settled = true;
    const auto end = std::ranges::find(host.failures, rank, &RankEnd::rank);
    if (end == host.failures.end() || culprit_named_) return;
    if (culprit_ && (culprit_->killed || !end->killed)) return;
    culprit_ = *end;
    culprit_host_ = &host;
  }

  void name_culprit() {
    if (!culprit_ || culprit_named_ || plan_.job.keep_going) return;
    if (!std::ranges::all_of(hosts_, [](const Host& host) { return host.settled || host.over; }))
      return;
    culprit_named_ = true;
    say_how_it_ended(*culprit_host_, *culprit_);
  }

  void say_how_it_ended(const Host& host, const RankEnd& end) {
    errors_.put(fmt::format("qpmesh-run: rank {} (pid {}) on {} {}\n", end.rank, end.pid, host.name,
                            end.ending));
  }

  // Without it its ranks are ended there, by its own qpmesh-run.
  void lose(Host& host) {
    end(host);
    lost_ = true;
    const int code = host.remote.wait();
    const std::string said = in_one_line(host.remote.said());
    errors_.put(fmt::format("qpmesh-run: {} is lost: {} ended with code {}{}{}\n", host.name,
                            host.remote.program(), code, said.empty() ? "" : ": ", said));
    if (!plan_.job.keep_going) end_the_others(host);
  }

  // Who writes to a pipe that nobody reads ends.
  [[noreturn]] static void end_as_others_do() {
    ::signal(SIGPIPE, SIG_DFL);
    ::raise(SIGPIPE);
    ::_exit(128 + SIGPIPE);
  }

  HostsPlan plan_;
  base::System system_;
  base::UniqueFd signals_;
  std::deque<Host> hosts_;  // in the order of their ranks
  Outlet output_{STDOUT_FILENO};
  Outlet errors_{STDERR_FILENO};
  bool input_wanted_ = false;             // by rank 0
  bool failing_ = false;                  // hosts were told to end what does not end by itself
  bool lost_ = false;                     // a host
  Deadline readers_until_ = no_deadline;  // then who does not read what ranks said is left
  std::optional<RankEnd> culprit_;
  const Host* culprit_host_ = nullptr;
  bool culprit_named_ = false;
  std::optional<RunError> refusal_;
  std::vector<pollfd> polled_;
};

}  // namespace

int run_across_hosts(HostsPlan plan) {
  Job job{std::move(plan)};
  job.start();
  return job.wait();
}

}  // namespace qpmesh::run
