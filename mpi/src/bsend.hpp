// SPDX-License-Identifier: MIT
// Buffered sends: the memory that a program attaches, and what of it is in use.
#pragma once

#include <cstddef>
#include <list>
#include <memory>
#include <mutex>

#include "communicator.hpp"
#include "mpi.h"
#include "qpmesh/qpmesh.h"

namespace qpmesh::mpi {

// An attached buffer. Messages lie in it until they have left; with MPI_BUFFER_AUTOMATIC each has
// memory of its own.
class BsendBuffer {
 public:
  BsendBuffer(void* attached, std::size_t bytes) noexcept : memory_{attached}, size_{bytes} {}
  BsendBuffer(const BsendBuffer&) = delete;
  BsendBuffer& operator=(const BsendBuffer&) = delete;

  void send(Communicator& communicator, const void* data, std::size_t bytes, int destination,
            int tag);
  // Until all messages have left. Other threads may send meanwhile.
  void flush();
  // Those that have left are gone: are all?
  bool collect();

  void* memory() const noexcept { return memory_; }
  std::size_t size() const noexcept { return size_; }

 private:
  struct Piece {
    std::size_t offset;
    std::size_t bytes;
    qpmesh_request* request;
    std::unique_ptr<std::byte[]> own;
    Reference<Communicator> communicator;  // the program may free it
  };
  using Pieces = std::list<Piece>;

  bool is_automatic() const noexcept { return memory_ == MPI_BUFFER_AUTOMATIC; }
  void drop_ended();
  static bool has_ended(const Piece& piece) noexcept;  // then its request is gone
  void wait_for_first();
  // Behind all pieces.
  bool find_room_behind(std::size_t bytes, std::size_t& offset) const noexcept;
  // In front of which piece there is room, and from which offset on.
  bool find_room(std::size_t bytes, Pieces::iterator& before, std::size_t& offset);

  std::mutex mutex_;
  void* memory_;
  std::size_t size_;
  Pieces pieces_;  // in order of their offsets; some of them may have ended
  // When there are so many, all of them are asked whether they have ended. The number doubles, so
  // that each piece is asked about twice.
  std::size_t looked_at_ = looked_at_min;
  static constexpr std::size_t looked_at_min = 16;
};

// A message of packed bytes: copied, and on its way. Failure{MPI_ERR_BUFFER} where it has no room.
void buffered_send(Communicator& communicator, const void* data, std::size_t bytes, int destination,
                   int tag);
// Until all messages have left that went through any buffer.
void flush_buffers();
// What has left is gone, in all buffers.
void collect_buffers();
// Until all messages have left that went through the communicator's own buffer.
void flush_buffer(const Communicator& communicator);
// Of a communicator that goes.
void forget_buffer(const Communicator& communicator) noexcept;

}  // namespace qpmesh::mpi
