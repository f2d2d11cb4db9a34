// SPDX-License-Identifier: MIT
#include "context/trace.hpp"

#include <fcntl.h>
#include <fmt/format.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <atomic>
#include <cerrno>
#include <chrono>
#include <iterator>
#include <memory>
#include <new>
#include <utility>

namespace qpmesh::context {
namespace {

constexpr std::size_t records_max = 8192;
constexpr std::uint64_t second_ns = 1'000'000'000;

// The calls that this thread is in: one, or one of each context that it waits for.
struct Calls {
  struct One {
    const Trace* of;
    TracedCall call;
    TracedCall* request;
  };
  static constexpr std::size_t max = 8;  // of more contexts at once the rest is not recorded

  std::array<One, max> calls{};
  std::size_t count = 0;

  One* of(const Trace* trace) noexcept {
    for (std::size_t i = count; i-- > 0;)
      if (calls[i].of == trace) return &calls[i];
    return nullptr;
  }
};
// Not in the thread's own block: what a library that is loaded late has there must fit what the
// system keeps free for all such libraries together.
thread_local std::unique_ptr<Calls> calls_of_thread;

Calls::One* call_of(const Trace* trace) noexcept {
  return calls_of_thread != nullptr ? calls_of_thread->of(trace) : nullptr;
}

long thread_number() noexcept {
  thread_local const long number = ::gettid();
  return number;
}

// Microseconds, with what is left.
std::string us(std::uint64_t ns) { return fmt::format("{}.{:03}", ns / 1000, ns % 1000); }

void append_details(std::string& text, const TracedCall& call) {
  auto out = std::back_inserter(text);
  fmt::format_to(out, R"("args":{{"bytes":{})", call.bytes);
  if (call.peer >= 0) fmt::format_to(out, R"(,"peer":{})", call.peer);
  if (call.tag >= 0) fmt::format_to(out, R"(,"tag":{})", call.tag);
  if (call.is_collective) {
    fmt::format_to(out, R"(,"communicator":"{:x}","number":{})", call.communicator, call.number);
    if (!call.algorithm.empty()) fmt::format_to(out, R"(,"algorithm":"{}")", call.algorithm);
  }
  text += "}}";
}

base::UniqueFd create(const std::string& path, int rank, const base::System& system,
                      const base::Log& log) {
  static std::atomic<int> made = 0;
  const int ordinal = made.fetch_add(1, std::memory_order_relaxed) + 1;
  const std::string name = ordinal == 1 ? fmt::format("{}.{}.json", path, rank)
                                        : fmt::format("{}.{}.{}.json", path, rank, ordinal);
  base::UniqueFd file{static_cast<int>(system.call("open", [&] {
    return ::open(name.c_str(), O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0666);
  }))};
  if (!file) {
    log.warning("no trace: {} (QPMESH_TRACE) cannot be written: {}", name,
                base::describe_errno(errno));
  }
  return file;
}

}  // namespace

std::unique_ptr<Trace> Trace::open(const std::string& path, const std::string& state_place,
                                   int rank, const base::System& system, const base::Log& log) {
  base::OwnRankState state{state_place};
  base::UniqueFd file = path.empty() ? base::UniqueFd{} : create(path, rank, system, log);
  if (!file && !state) return nullptr;
  std::unique_ptr<Trace> trace{new Trace{std::move(file), std::move(state), rank, system, log}};
  if (trace->file_) trace->write_header();
  trace->tell({.begin_ns = trace->now_ns()});
  return trace;
}

void Trace::write_header() noexcept {
  std::array<char, 256> host{};
  ::gethostname(host.data(), host.size() - 1);
  const bool is_plain = std::ranges::all_of(
      std::string_view{host.data()}, [](char c) { return c >= ' ' && c != '"' && c != '\\'; });
  write_all(fmt::format(
      "[\n"
      R"({{"name":"process_name","ph":"M","pid":{0},"args":{{"name":"rank {0}","host":"{1}","process":{2}}}}})",
      rank_, is_plain ? host.data() : "unknown", ::getpid()));
}

Trace::Trace(base::UniqueFd file, base::OwnRankState state, int rank, const base::System& system,
             const base::Log& log)
    : file_{std::move(file)}, state_{std::move(state)}, rank_{rank}, system_{system}, log_{log} {
  if (file_) records_.reserve(records_max);
  written_ns_ = now_ns();
}

Trace::~Trace() {
  if (!file_) return;
  write_out();
  write_all("\n]\n");
}

std::uint64_t Trace::now_ns() const noexcept {
  return static_cast<std::uint64_t>(
      std::chrono::duration_cast<std::chrono::nanoseconds>(system_.now().time_since_epoch())
          .count());
}

void Trace::begin(std::string_view operation, std::uint64_t begin_ns) noexcept {
  if (calls_of_thread == nullptr) calls_of_thread.reset(new (std::nothrow) Calls);
  if (calls_of_thread == nullptr || calls_of_thread->count == Calls::max) return;
  Calls& own = *calls_of_thread;
  own.calls[own.count++] = {this, {.begin_ns = begin_ns, .operation = operation}, nullptr};
  tell(own.calls[own.count - 1].call);
}

void Trace::tell(const TracedCall& call) const noexcept {
  state_.tell({.call = call.operation, .peer = call.peer, .since_ms = call.begin_ns / 1'000'000});
}

void Trace::end() noexcept {
  Calls::One* const call = call_of(this);
  if (call == nullptr) return;
  Calls& own = *calls_of_thread;
  // What looks at a request goes by the name of what began it.
  if (!call->call.noted && call->call.operation.ends_with("_async")) call->call.operation = "wait";
  const std::uint64_t end_ns = now_ns();
  add({call->call, end_ns, thread_number()});
  tell({.begin_ns = end_ns});
  std::move(call + 1, own.calls.data() + own.count, call);
  --own.count;
}

void Trace::note(const TracedCall& noted) noexcept {
  Calls::One* const call = call_of(this);
  if (call == nullptr) return;
  for (TracedCall* const into : {&call->call, call->request}) {
    if (into == nullptr) continue;
    const std::uint64_t begin_ns = into->begin_ns;
    const std::string_view operation = into->operation;
    *into = noted;
    into->begin_ns = begin_ns;
    into->operation = operation;
    into->noted = true;
  }
  if (noted.peer >= 0) tell(call->call);
}

void Trace::note_algorithm(std::string_view name) noexcept {
  Calls::One* const call = call_of(this);
  if (call == nullptr) return;
  call->call.algorithm = name;
  if (call->request != nullptr) call->request->algorithm = name;
}

void Trace::begin_request(TracedCall& request) noexcept {
  Calls::One* const call = call_of(this);
  if (call == nullptr) return;
  request.begin_ns = call->call.begin_ns;
  request.operation = call->call.operation;
  call->request = &request;
}

void Trace::end_request(const TracedCall& request) noexcept {
  Calls::One* const call = call_of(this);
  if (call != nullptr && call->request == &request) call->request = nullptr;
  if (request.begin_ns != 0) add({request, now_ns(), 0});
}

void Trace::add(const Record& record) noexcept {
  if (!file_) return;
  records_.push_back(record);  // there is room: it was reserved
  if (records_.size() == records_max || record.end_ns - written_ns_ > second_ns) write_out();
}

void Trace::write_out() noexcept {
  try {
    std::string text;
    auto out = std::back_inserter(text);
    for (const auto& [call, end_ns, thread] : records_) {
      if (thread != 0) {
        text += ",\n";
        fmt::format_to(out, R"({{"name":"{}","ph":"X","pid":{},"tid":{},"ts":{},"dur":{},)",
                       call.operation, rank_, thread, us(call.begin_ns),
                       us(end_ns - call.begin_ns));
        append_details(text, call);
        continue;
      }
      ++requests_;
      text += ",\n";
      fmt::format_to(out, R"({{"name":"{}","cat":"request","ph":"b","pid":{},"id":{},"ts":{},)",
                     call.operation, rank_, requests_, us(call.begin_ns));
      append_details(text, call);
      text += ",\n";
      fmt::format_to(out, R"({{"name":"{}","cat":"request","ph":"e","pid":{},"id":{},"ts":{}}})",
                     call.operation, rank_, requests_, us(end_ns));
    }
    write_all(text);
  } catch (const std::bad_alloc&) {
    log_.warning("the trace lacks {} calls: there is no memory to write them", records_.size());
  }
  records_.clear();
  written_ns_ = now_ns();
}

void Trace::write_all(std::string_view text) noexcept {
  while (file_ && !text.empty()) {
    const auto count =
        system_.call("write", [&] { return ::write(file_.get(), text.data(), text.size()); });
    if (count < 0 && errno == EINTR) continue;
    if (count < 0) {
      log_.warning("the trace ends here: it cannot be written: {}", base::describe_errno(errno));
      file_ = {};
      return;
    }
    text.remove_prefix(static_cast<std::size_t>(count));
  }
}

}  // namespace qpmesh::context
