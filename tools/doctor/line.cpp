// SPDX-License-Identifier: MIT
#include "tools/doctor/line.hpp"

#include <poll.h>

#include <cstring>

#include "base/errors.hpp"
#include "bootstrap/socket.hpp"

namespace qpmesh::doctor {
namespace {

constexpr std::uint32_t frame_bytes_max = 1U << 20;

struct Header {
  Line::Kind kind = Line::Kind::word;
  std::uint32_t step = 0;
  std::uint32_t bytes = 0;
};

[[noreturn]] void fail(int error) {
  const auto code = error == ETIMEDOUT ? ErrorCode::timeout : ErrorCode::link_failed;
  base::throw_error({.code = code, .system_error = error}, "qpmesh-doctor", "",
                    "the connection to the other rank of the pair {}",
                    error == 0 ? "was closed by it" : "failed");
}

}  // namespace

void Line::send(const Frame& frame, Deadline deadline) {
  const Header header{frame.kind, frame.step, static_cast<std::uint32_t>(frame.bytes.size())};
  Blob all(sizeof header);
  std::memcpy(all.data(), &header, sizeof header);
  all.insert(all.end(), frame.bytes.begin(), frame.bytes.end());
  for (BlobView rest{all}; !rest.empty();) {
    const bootstrap::Sent sent = bootstrap::send(system_, socket(), rest);
    rest = rest.subspan(sent.count);
    if (rest.empty() || sent.count > 0) continue;
    if (sent.error != EAGAIN) fail(sent.error);
    if (const int error = bootstrap::await(system_, socket(), POLLOUT, deadline)) fail(error);
  }
}

void Line::receive_bytes(std::span<std::byte> into, Deadline deadline) {
  while (!into.empty()) {
    const bootstrap::Received got = bootstrap::receive(system_, socket(), into);
    into = into.subspan(got.count);
    if (got.count > 0) continue;
    if (got.ended) fail(0);
    if (got.error != EAGAIN) fail(got.error);
    if (const int error = bootstrap::await(system_, socket(), POLLIN, deadline)) fail(error);
  }
}

Line::Frame Line::receive(Deadline deadline) {
  if (early_) {
    Frame frame = *std::move(early_);
    early_.reset();
    return frame;
  }
  Header header;
  receive_bytes(std::as_writable_bytes(std::span{&header, 1}), deadline);
  if (header.bytes > frame_bytes_max) fail(EPROTO);
  Frame frame{.kind = header.kind, .step = header.step, .bytes = Blob(header.bytes)};
  receive_bytes(frame.bytes, deadline);
  return frame;
}

Blob Line::hear(Deadline deadline) {
  for (;;) {
    Frame frame = receive(deadline);
    if (frame.kind == Kind::word) return std::move(frame.bytes);
  }
}

std::string Line::hear_text(Deadline deadline) {
  const Blob bytes = hear(deadline);
  return {reinterpret_cast<const char*>(bytes.data()), bytes.size()};
}

std::vector<Blob> LineBootstrap::all_gather(BlobView mine, Deadline deadline) {
  line_.send({.kind = Line::Kind::gather, .step = step_, .bytes = {mine.begin(), mine.end()}},
             deadline);
  for (;;) {
    Line::Frame frame = line_.receive(deadline);
    if (frame.kind == Line::Kind::word) {
      line_.put_back(std::move(frame));
      base::throw_error({ErrorCode::aborted, 1 - rank_}, "init", "", "the other rank has given up");
    }
    if (frame.step != step_) continue;
    std::vector<Blob> all(2);
    all[static_cast<std::size_t>(rank_)] = {mine.begin(), mine.end()};
    all[static_cast<std::size_t>(1 - rank_)] = std::move(frame.bytes);
    return all;
  }
}

std::string LineBootstrap::local_address() const { return bootstrap::host_of(line_.socket()); }

}  // namespace qpmesh::doctor
