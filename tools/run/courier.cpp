// SPDX-License-Identifier: MIT
#include "tools/run/courier.hpp"

#include <arpa/inet.h>
#include <fcntl.h>
#include <fmt/format.h>
#include <netinet/in.h>
#include <signal.h>
#include <stdlib.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <deque>
#include <sstream>

#include "base/system.hpp"
#include "bootstrap/launcher.hpp"
#include "bootstrap/listener.hpp"
#include "bootstrap/socket.hpp"
#include "qpmesh/error.hpp"
#include "tools/run/child.hpp"
#include "tools/run/host_plan.hpp"
#include "tools/run/job.hpp"
#include "tools/run/wire.hpp"

namespace qpmesh::run {
namespace {

constexpr int alive_ms = 5'000;                                  // between two signs of life
constexpr std::size_t unsent_bytes_max = std::size_t{64} << 10;  // then ranks wait to be heard
constexpr std::size_t turn_bytes_max = std::size_t{16} << 10;    // of a pipe, in one read

// ---- where others reach this host ----

bool means_something_elsewhere(const std::string& host) {
  const auto address = bootstrap::numeric({.host = host, .port = 0});
  return address && bootstrap::scope_of(*address) == bootstrap::Scope::any;
}

// The address at which ssh came is one that reaches us. It says nothing where it came through a
// tunnel, or to a name that stands for loopback in /etc/hosts, and other commands than ssh tell
// none: then the first address of our interfaces has to do.
HostHere look_around() {
  const base::System system;
  HostHere here;
  std::istringstream words{bootstrap::process_environment()("SSH_CONNECTION").value_or("")};
  std::string port;
  words >> here.seen_from >> port >> here.address;
  if (!means_something_elsewhere(here.seen_from)) here.seen_from.clear();
  if (!means_something_elsewhere(here.address)) {
    const auto all = bootstrap::interface_addresses(system);
    const auto first = std::ranges::find_if(all, means_something_elsewhere);
    here.address = first == all.end() ? "127.0.0.1" : *first;
  }
  return here;
}

// A port at which rank 0 can listen, of those that are allowed. Bound, but not listening, the
// socket keeps it from everybody who does not ask for this very port: rank 0 binds beside it
// (SO_REUSEADDR).
base::UniqueFd reserve_port(const std::string& allowed, std::uint16_t& port) {
  const bootstrap::PortRange ports = bootstrap::parse_port_range(allowed);
  int error = 0;
  for (int candidate = ports.first; candidate <= ports.last; ++candidate) {
    for (const int family : {AF_INET6, AF_INET}) {
      base::UniqueFd socket{::socket(family, SOCK_STREAM | SOCK_CLOEXEC, 0)};
      const int yes = 1;
      sockaddr_in6 six{};
      six.sin6_family = AF_INET6;
      six.sin6_port = htons(static_cast<std::uint16_t>(candidate));
      sockaddr_in four{};
      four.sin_family = AF_INET;
      four.sin_port = six.sin6_port;
      const auto* const address = family == AF_INET6 ? reinterpret_cast<const sockaddr*>(&six)
                                                     : reinterpret_cast<const sockaddr*>(&four);
      if (socket && ::setsockopt(socket.get(), SOL_SOCKET, SO_REUSEADDR, &yes, sizeof yes) == 0 &&
          ::bind(socket.get(), address, family == AF_INET6 ? sizeof six : sizeof four) == 0) {
        port = bootstrap::host_port(bootstrap::local_address(socket.get())).port;
        return socket;
      }
      error = errno;
      if (error == EADDRINUSE || error == EACCES) break;  // only a host without IPv6 tries IPv4
    }
  }
  throw RunError{fmt::format("none of the ports QPMESH_PORTS={} can be listened at: {}",
                             allowed.empty() ? "(any)" : allowed, base::describe_errno(error)),
                 1};
}

// ---- the job ----

Blob encode_refusal(int code, const std::string& text) {
  base::ByteWriter writer;
  writer.put(static_cast<std::int32_t>(code)).put_text(text.substr(0, 2000));
  return std::move(writer).blob();
}

// The process that the ranks' qpmesh-run would be without a launcher.
[[noreturn]] void be_job(HostPlan& plan, pid_t courier, Pipe input, Pipe output, Pipe errors,
                         int packets) {
  ::prctl(PR_SET_PDEATHSIG, SIGKILL);  // its guardian then ends the ranks
  if (::getppid() != courier) ::_exit(1);
  ::signal(SIGPIPE, SIG_DFL);
  if (::dup2(input.reading.get(), 0) < 0 || ::dup2(output.writing.get(), 1) < 0 ||
      ::dup2(errors.writing.get(), 2) < 0)
    ::_exit(1);
  // An end of ours would keep rank 0 from the end of its input.
  for (Pipe* const pipe : {&input, &output, &errors}) *pipe = {};
  for (std::string& entry : plan.environment) {
    const auto equals = entry.find('=');
    if (equals == std::string::npos) continue;
    // NOLINTNEXTLINE(concurrency-mt-unsafe): one thread
    ::setenv(entry.substr(0, equals).c_str(), entry.c_str() + equals + 1, 1);
  }
  ::setenv("PWD", plan.directory.c_str(), 1);  // NOLINT(concurrency-mt-unsafe): one thread
  plan.job.courier = packets;
  try {
    run_job(std::move(plan.job));
  } catch (const RunError& error) {
    send_packet(packets, {.word = Word::refused,
                          .payload = encode_refusal(error.exit_code(), error.what())});
  } catch (const std::exception& error) {
    send_packet(packets, {.word = Word::refused, .payload = encode_refusal(1, error.what())});
  }
  ::_exit(0);
}

class Courier {
 public:
  explicit Courier(Wire wire) : wire_{std::move(wire)} {}

  void serve() {
    wire_.announce();
    const auto plan = await(Word::plan);
    if (!plan) return;
    plan_ = decode_plan(plan->payload);
    if (::chdir(plan_.directory.c_str()) != 0) {
      throw RunError{fmt::format("the directory {} cannot be entered: {}", plan_.directory,
                                 base::describe_errno(errno)),
                     1};
    }
    HostHere here = look_around();
    const base::UniqueFd port = reserve_port(plan_.ports, here.port);
    wire_.send(Word::here, encode(here));
    const auto start = await(Word::start);
    if (!start) return;
    plan_.job.root = text_of(start->payload);
    start_job();
    while (job_) {
      hear_launcher();  // before a wait: what came with the start is read already
      hear_job();
      tell_job();
      give_input();
      take_output();
      wire_.flush();
      if (job_) wait_for_news();
    }
    tell_of_its_end();
  }

  void refuse(int code, const std::string& text) {
    wire_.send(Word::refused, encode_refusal(code, text));
    wire_.finish();
  }

 private:
  // Nothing: the launcher is gone.
  std::optional<Message> await(Word word) {
    for (;;) {
      wire_.flush();
      if (auto message = wire_.receive()) {
        if (message->word == word) return message;
        continue;
      }
      if (wire_.ended()) return std::nullopt;
      polled_.clear();
      wire_.ask(polled_, true);
      ::poll(polled_.data(), polled_.size(), -1);
    }
  }

  void start_job() {
    Pipe input = make_pipe();
    Pipe output = make_pipe();
    Pipe errors = make_pipe();
    std::array<int, 2> ends{};
    if (::socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, ends.data()) != 0)
      fail("socketpair");
    job_.reset(ends[0]);
    const base::UniqueFd packets{ends[1]};
    const pid_t courier = ::getpid();
    pid_ = ::fork();
    if (pid_ < 0) fail("fork");
    if (pid_ == 0) {
      wire_.close();
      job_.reset();
      be_job(plan_, courier, std::move(input), std::move(output), std::move(errors), packets.get());
    }
    input_ = std::move(input.writing);
    sources_[0] = {.pipe = std::move(output.reading), .word = Word::output};
    sources_[1] = {.pipe = std::move(errors.reading), .word = Word::errors};
    for (const int fd : {input_.get(), sources_[0].pipe.get(), sources_[1].pipe.get()})
      ::fcntl(fd, F_SETFL, O_NONBLOCK);
  }

  bool has_room() const { return wire_.ended() || wire_.unsent_bytes() < unsent_bytes_max; }

  void wait_for_news() {
    polled_.clear();
    wire_.ask(polled_, true);
    const int job_events = untold_.empty() ? POLLIN : POLLIN | POLLOUT;
    polled_.push_back({.fd = job_.get(), .events = static_cast<short>(job_events), .revents = 0});
    for (const Source& source : sources_) {
      if (source.pipe && has_room())
        polled_.push_back({.fd = source.pipe.get(), .events = POLLIN, .revents = 0});
    }
    if (!unread_.empty()) polled_.push_back({.fd = input_.get(), .events = POLLOUT, .revents = 0});
    if (::poll(polled_.data(), polled_.size(), alive_ms) == 0 && !wire_.ended() &&
        wire_.unsent_bytes() == 0)
      wire_.send(Word::alive);
  }

  void hear_launcher() {
    while (auto message = wire_.receive()) {
      base::ByteReader reader{message->payload};
      switch (message->word) {
        case Word::signal: ::kill(pid_, reader.get<std::int32_t>()); break;
        case Word::input:
          unread_ = text_of(message->payload);
          if (unread_.empty()) input_.reset();
          break;
        default: untold_.push_back(*std::move(message));
      }
    }
    // Nobody is left who would tell the ranks to end. The job kills those that do not listen.
    if (wire_.ended() && !std::exchange(abandoned_, true)) {
      ::kill(pid_, SIGTERM);
      input_.reset();
      unread_.clear();
    }
  }

  void hear_job() {
    std::array<pollfd, 1> polled{{{.fd = job_.get(), .events = POLLIN, .revents = 0}}};
    while (::poll(polled.data(), 1, 0) > 0) {
      const auto message = receive_packet(job_.get());
      if (!message) {  // it is gone, and so is its guardian
        job_.reset();
        return;
      }
      wire_.send(message->word, message->payload);
    }
  }

  // Never waits: the job may, until hear_job() takes what it says.
  void tell_job() {
    while (!untold_.empty() && send_packet_now(job_.get(), untold_.front())) untold_.pop_front();
  }

  void give_input() {
    if (unread_.empty()) return;
    const ssize_t count = ::write(input_.get(), unread_.data(), unread_.size());
    if (count < 0 && (errno == EAGAIN || errno == EINTR)) return;
    unread_.erase(0, count < 0 ? unread_.size() : static_cast<std::size_t>(count));
    if (count < 0) input_.reset();  // nobody reads: no more is asked for
    else if (unread_.empty()) wire_.send(Word::input_taken);
  }

  void take_output() {
    for (Source& source : sources_) {
      while (has_room() && read(source, turn_bytes_max) > 0) {}
    }
  }

  struct Source {
    base::UniqueFd pipe;
    Word word = Word::output;
  };

  // 0: nothing there now.
  std::size_t read(Source& source, std::size_t bytes_max) {
    if (!source.pipe || bytes_max == 0) return 0;
    std::array<std::byte, turn_bytes_max> bytes;
    const ssize_t count =
        ::read(source.pipe.get(), bytes.data(), std::min(bytes_max, bytes.size()));
    if (count < 0 && (errno == EAGAIN || errno == EINTR)) return 0;
    if (count <= 0) {
      source.pipe.reset();
      return 0;
    }
    if (!wire_.ended())
      wire_.send(source.word, BlobView{bytes}.first(static_cast<std::size_t>(count)));
    return static_cast<std::size_t>(count);
  }

  void tell_of_its_end() {
    const int status = reap(pid_);
    for (Source& source : sources_) {
      std::size_t left = bytes_in(source.pipe);
      while (const std::size_t count = read(source, left)) {
        left -= count;
        if (!has_room()) wire_.finish();
      }
    }
    if (WIFSIGNALED(status)) {
      const int signal = WTERMSIG(status);
      wire_.send(
          Word::refused,
          encode_refusal(128 + signal, fmt::format("qpmesh-run was killed by signal {}", signal)));
    }
    wire_.send(Word::done);
    wire_.finish();
  }

  Wire wire_;
  HostPlan plan_;
  pid_t pid_ = 0;
  base::UniqueFd job_;          // packets to and from it
  std::deque<Message> untold_;  // packets that are still to go to it
  base::UniqueFd input_;        // what rank 0 reads
  std::string unread_;          // of it
  std::array<Source, 2> sources_;
  bool abandoned_ = false;
  std::vector<pollfd> polled_;
};

// The wire must not have the numbers of standard streams: the job's are put there.
base::UniqueFd moved_away(int stream) {
  base::UniqueFd moved{::fcntl(stream, F_DUPFD_CLOEXEC, 3)};
  if (!moved) fail("fcntl");
  const base::UniqueFd nothing{::open("/dev/null", O_RDWR | O_CLOEXEC)};
  ::dup2(nothing.get(), stream);
  return moved;
}

}  // namespace

int serve_launcher() {
  ::signal(SIGPIPE, SIG_IGN);
  base::UniqueFd in = moved_away(STDIN_FILENO);
  base::UniqueFd out = moved_away(STDOUT_FILENO);
  Courier courier{Wire{std::move(in), std::move(out)}};
  try {
    courier.serve();
  } catch (const RunError& error) {
    courier.refuse(error.exit_code(), error.what());
  } catch (const Error& error) {  // of a port range
    courier.refuse(usage_code, error.what());
  }
  return 0;
}

}  // namespace qpmesh::run
