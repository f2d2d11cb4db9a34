#include "tools/run/prefixed_output.hpp"

#include <fcntl.h>
#include <fmt/format.h>
#include <limits.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <utility>

namespace qpmesh::run {
namespace {

bool is_ready(int descriptor, short events) {
  pollfd polled{.fd = descriptor, .events = events, .revents = 0};
  return ::poll(&polled, 1, 0) == 1;
}

}  // namespace

void PrefixedOutput::add(int rank, base::UniqueFd pipe) {
  ::fcntl(pipe.get(), F_SETFL, O_NONBLOCK);
  sources_.push_back({.pipe = std::move(pipe), .prefix = fmt::format("[{}] ", rank), .begun = {}});
}

void PrefixedOutput::ask(std::vector<pollfd>& polled) const {
  if (!pending_.empty()) polled.push_back({.fd = stream_, .events = POLLOUT, .revents = 0});
  if (is_full()) return;
  for (const Source& source : sources_) {
    if (source.pipe) polled.push_back({.fd = source.pipe.get(), .events = POLLIN, .revents = 0});
  }
}

void PrefixedOutput::step() {
  for (Source& source : sources_) {
    if (!is_full()) read(source);
  }
  while (!pending_.empty() && is_ready(stream_, POLLOUT)) write_some();
}

void PrefixedOutput::finish() {
  for (Source& source : sources_) {
    while (read(source)) {
      while (is_full()) write_some();
    }
    if (!source.begun.empty()) end_line(source);
  }
  while (!pending_.empty()) write_some();
}

bool PrefixedOutput::read(Source& source) {
  if (!source.pipe) return false;
  std::array<char, 16 * 1024> text;
  const ssize_t count = ::read(source.pipe.get(), text.data(), text.size());
  if (count > 0) {
    take(source, {text.data(), static_cast<std::size_t>(count)});
    return true;
  }
  if (count < 0 && (errno == EAGAIN || errno == EINTR)) return false;
  if (!source.begun.empty()) end_line(source);
  source.pipe.reset();
  return false;
}

void PrefixedOutput::take(Source& source, std::string_view text) {
  while (!text.empty()) {
    const std::size_t line_end = text.find('\n');
    const std::size_t room = line_bytes_max - source.begun.size();
    const std::size_t part = std::min({line_end, room, text.size()});
    source.begun += text.substr(0, part);
    const bool whole = part == line_end;
    text.remove_prefix(part + (whole ? 1 : 0));
    if (whole || part == room) end_line(source);
  }
}

void PrefixedOutput::end_line(Source& source) {
  pending_ += source.prefix;
  pending_ += source.begun;
  pending_ += '\n';
  source.begun.clear();
}

// A pipe that is ready takes PIPE_BUF bytes without waiting.
void PrefixedOutput::write_some() {
  const ssize_t count =
      ::write(stream_, pending_.data(), std::min<std::size_t>(pending_.size(), PIPE_BUF));
  if (count >= 0) {
    pending_.erase(0, static_cast<std::size_t>(count));
  } else if (errno == EAGAIN) {  // our own stream was made non-blocking by somebody who shares it
    pollfd polled{.fd = stream_, .events = POLLOUT, .revents = 0};
    ::poll(&polled, 1, -1);
  } else if (errno != EINTR) {
    pending_.clear();  // a full disk must not end the job
  }
}

}  // namespace qpmesh::run
