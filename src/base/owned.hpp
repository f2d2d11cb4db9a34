// SPDX-License-Identifier: MIT
// Handles that own: a descriptor is closed, a mapping unmapped, when its owner goes.
#pragma once

#include <cerrno>
#include <cstddef>
#include <utility>

namespace qpmesh::base {

class UniqueFd {
 public:
  UniqueFd() noexcept = default;
  explicit UniqueFd(int fd) noexcept : fd_{fd} {}
  UniqueFd(UniqueFd&& other) noexcept : fd_{std::exchange(other.fd_, -1)} {}
  UniqueFd& operator=(UniqueFd&& other) noexcept {
    if (this != &other) reset(std::exchange(other.fd_, -1));
    return *this;
  }
  ~UniqueFd() { reset(); }

  int get() const noexcept { return fd_; }
  explicit operator bool() const noexcept { return fd_ >= 0; }
  int release() noexcept { return std::exchange(fd_, -1); }
  void reset(int fd = -1) noexcept;

 private:
  int fd_ = -1;
};

// Whether the errno of a call on a descriptor of ours says that it is not ours any more: the
// application closed it, and the number stands for nothing or for something else.
constexpr bool descriptor_lost(int error) noexcept { return error == EBADF || error == ENOTSOCK; }

// A range of mmap'ed address space.
class Mapping {
 public:
  Mapping() noexcept = default;
  Mapping(void* address, std::size_t bytes) noexcept
      : data_{static_cast<std::byte*>(address)}, bytes_{bytes} {}
  Mapping(Mapping&& other) noexcept
      : data_{std::exchange(other.data_, nullptr)}, bytes_{std::exchange(other.bytes_, 0)} {}
  Mapping& operator=(Mapping&& other) noexcept {
    if (this != &other) {
      reset();
      data_ = std::exchange(other.data_, nullptr);
      bytes_ = std::exchange(other.bytes_, 0);
    }
    return *this;
  }
  ~Mapping() { reset(); }

  std::byte* data() const noexcept { return data_; }
  std::size_t bytes() const noexcept { return bytes_; }
  explicit operator bool() const noexcept { return data_ != nullptr; }

 private:
  void reset() noexcept;

  std::byte* data_ = nullptr;
  std::size_t bytes_ = 0;
};

}  // namespace qpmesh::base
