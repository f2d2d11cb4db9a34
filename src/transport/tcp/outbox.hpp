// SPDX-License-Identifier: MIT
// Bytes of one connection that its socket has not taken yet, in order: copies of what may be
// reused at once, and references to what stays until it has left. Allocates nothing once it is
// made.
#pragma once

#include <sys/uio.h>

#include <algorithm>
#include <array>
#include <cassert>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <memory>
#include <span>

namespace qpmesh::transport::tcp {

class Outbox {
 public:
  // copy_bytes: of copies, together.
  explicit Outbox(std::size_t copy_bytes)
      : copies_{std::make_unique_for_overwrite<std::byte[]>(copy_bytes)}, copy_bytes_{copy_bytes} {}

  bool empty() const noexcept { return count_ == 0; }
  // For so many copies and references.
  bool has_room(std::size_t copies, std::size_t bytes_of_copies,
                std::size_t references) const noexcept {
    // A copy takes two pieces where the ring wraps.
    return count_ + 2 * copies + references <= pieces_.size() &&
           copied_ - released_ + bytes_of_copies <= copy_bytes_;
  }

  void copy(std::span<const std::byte> bytes) noexcept {
    while (!bytes.empty()) {
      const std::size_t at = copied_ % copy_bytes_;
      const std::size_t here = std::min(bytes.size(), copy_bytes_ - at);
      std::memcpy(copies_.get() + at, bytes.data(), here);
      copied_ += here;
      Piece* const before = last();
      if (before != nullptr && before->copied && before->data + before->bytes == copies_.get() + at)
        before->bytes += here;
      else append({.data = copies_.get() + at, .bytes = here, .copied = true});
      bytes = bytes.subspan(here);
    }
  }
  void refer(std::span<const std::byte> bytes) noexcept {
    if (!bytes.empty()) append({.data = bytes.data(), .bytes = bytes.size()});
  }
  // When everything up to here has left, told() is this number. Behind a copy or a reference.
  void tell(std::uint64_t number) noexcept {
    assert(!empty());
    last()->tells = number;
  }
  std::uint64_t told() const noexcept { return told_; }
  // Of what left without waiting here.
  void has_told(std::uint64_t number) noexcept { told_ = number; }

  // What the socket is to take next; how many of the parts are used.
  std::size_t gather(std::span<iovec> parts) const noexcept {
    const std::size_t used = std::min(parts.size(), count_);
    for (std::size_t i = 0; i < used; ++i) {
      const Piece& piece = pieces_[(first_ + i) % pieces_.size()];
      parts[i] = {.iov_base = const_cast<std::byte*>(piece.data), .iov_len = piece.bytes};
    }
    return used;
  }
  // It took so many bytes.
  void left(std::size_t bytes) noexcept {
    while (bytes > 0) {
      Piece& piece = pieces_[first_];
      const std::size_t of_piece = std::min(bytes, piece.bytes);
      piece.data += of_piece;
      piece.bytes -= of_piece;
      if (piece.copied) released_ += of_piece;
      bytes -= of_piece;
      if (piece.bytes > 0) return;
      if (piece.tells > 0) told_ = piece.tells;
      first_ = (first_ + 1) % pieces_.size();
      --count_;
    }
  }
  void clear() noexcept {
    count_ = 0;
    released_ = copied_;
  }

 private:
  struct Piece {
    const std::byte* data = nullptr;
    std::size_t bytes = 0;
    bool copied = false;
    std::uint64_t tells = 0;  // 0: nothing
  };

  Piece* last() noexcept {
    return count_ == 0 ? nullptr : &pieces_[(first_ + count_ - 1) % pieces_.size()];
  }
  void append(Piece piece) noexcept {
    assert(count_ < pieces_.size());
    pieces_[(first_ + count_++) % pieces_.size()] = piece;
  }

  std::unique_ptr<std::byte[]> copies_;  // a ring; pages that are never used are never touched
  std::size_t copy_bytes_;
  std::uint64_t copied_ = 0;    // cumulative
  std::uint64_t released_ = 0;  // cumulative
  std::array<Piece, 256> pieces_{};
  std::size_t first_ = 0;
  std::size_t count_ = 0;
  std::uint64_t told_ = 0;
};

}  // namespace qpmesh::transport::tcp
