// SPDX-License-Identifier: MIT
// By what two ranks talk while they are tried: frames over a stream, with deadlines, and over them
// the bootstrap of a job of the two.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "base/owned.hpp"
#include "base/system.hpp"
#include "qpmesh/bootstrap.hpp"

namespace qpmesh::doctor {

class Line {
 public:
  enum class Kind : std::uint8_t { word, gather };
  struct Frame {
    Kind kind = Kind::word;
    std::uint32_t step = 0;  // gather: of which job
    Blob bytes{};
  };

  Line(base::UniqueFd socket, const base::System& system)
      : socket_{std::move(socket)}, system_{system} {}

  int socket() const noexcept { return socket_.get(); }
  // Both throw Error{link_failed}, or Error{timeout} at the deadline.
  void send(const Frame& frame, Deadline deadline);
  Frame receive(Deadline deadline);

  // Words: what the two say to each other by turns. What is left of a job that ended is dropped.
  void say(BlobView bytes, Deadline deadline) {
    send({.bytes = {bytes.begin(), bytes.end()}}, deadline);
  }
  void say(std::string_view text, Deadline deadline) {
    say(std::as_bytes(std::span{text}), deadline);
  }
  Blob hear(Deadline deadline);
  std::string hear_text(Deadline deadline);
  // A word that came while a gather was awaited: the other one has given that job up.
  void put_back(Frame word) { early_ = std::move(word); }

 private:
  void receive_bytes(std::span<std::byte> into, Deadline deadline);

  base::UniqueFd socket_;
  const base::System& system_;
  std::optional<Frame> early_;
};

// A job of two over a line: rank 0 is the lower one of the pair.
class LineBootstrap final : public Bootstrap {
 public:
  LineBootstrap(Line& line, int rank, std::uint32_t step) : line_{line}, rank_{rank}, step_{step} {}
  int rank() const override { return rank_; }
  int size() const override { return 2; }
  std::vector<Blob> all_gather(BlobView mine, Deadline deadline) override;
  std::string local_address() const override;

 private:
  Line& line_;
  int rank_;
  std::uint32_t step_;
};

}  // namespace qpmesh::doctor
