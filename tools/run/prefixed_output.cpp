// SPDX-License-Identifier: MIT
#include "tools/run/prefixed_output.hpp"

#include <fcntl.h>
#include <fmt/format.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <utility>

#include "tools/run/child.hpp"

namespace qpmesh::run {

void PrefixedOutput::add(int rank, base::UniqueFd pipe) {
  ::fcntl(pipe.get(), F_SETFL, O_NONBLOCK);
  sources_.push_back({.pipe = std::move(pipe), .prefix = fmt::format("[{}] ", rank), .begun = {}});
}

void PrefixedOutput::ask(std::vector<pollfd>& polled) const {
  outlet_.ask(polled);
  if (outlet_.is_full()) return;
  for (const Source& source : sources_) {
    if (source.pipe) polled.push_back({.fd = source.pipe.get(), .events = POLLIN, .revents = 0});
  }
}

bool PrefixedOutput::step() {
  for (Source& source : sources_) {
    if (source.pipe && !outlet_.is_full()) read(source);
  }
  return outlet_.step();
}

void PrefixedOutput::end_sources() {
  for (Source& source : sources_) {
    source.left_bytes = bytes_in(source.pipe);
    if (source.pipe && source.left_bytes == 0) end(source);
  }
}

bool PrefixedOutput::is_done() const {
  return outlet_.is_empty() &&
         std::ranges::none_of(sources_, [](const Source& each) { return bool{each.pipe}; });
}

void PrefixedOutput::read(Source& source) {
  std::array<char, turn_bytes_max> text;
  const ssize_t count =
      ::read(source.pipe.get(), text.data(), std::min(source.left_bytes, text.size()));
  if (count < 0 && (errno == EAGAIN || errno == EINTR)) return;
  if (count > 0) {
    const auto bytes = static_cast<std::size_t>(count);
    take(source, {text.data(), bytes});
    source.left_bytes -= bytes;
  }
  if (count <= 0 || source.left_bytes == 0) end(source);
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
  outlet_.put(source.prefix);
  outlet_.put(source.begun);
  outlet_.put("\n");
  source.begun.clear();
}

void PrefixedOutput::end(Source& source) {
  if (!source.begun.empty()) end_line(source);
  source.pipe.reset();
}

}  // namespace qpmesh::run
