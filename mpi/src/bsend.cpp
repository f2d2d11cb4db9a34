// SPDX-License-Identifier: MIT
// Buffered sends.
#include "bsend.hpp"

#include <algorithm>
#include <cstring>
#include <mutex>
#include <thread>
#include <vector>

#include "entry.hpp"
#include "environment.hpp"

namespace qpmesh::mpi {
namespace {

using Place = std::shared_ptr<BsendBuffer>;

// Of the places and the list. No buffer's own mutex is taken under it.
std::mutex mutex;
Place process_buffer;
std::vector<Place> buffers;  // all, also of communicators that are freed and have messages left

Place buffer_in(const Place& place) {
  const std::lock_guard lock{mutex};
  return place;
}
std::vector<Place> all_buffers() {
  const std::lock_guard lock{mutex};
  return buffers;
}

void attach(Place& place, void* memory, MPI_Count size) {
  require(size >= 0, MPI_ERR_ARG, "a buffer of ", size, " bytes");
  require(memory != nullptr || size == 0, MPI_ERR_BUFFER, "the buffer is null");
  const std::lock_guard lock{mutex};
  require(place == nullptr, MPI_ERR_BUFFER, "a buffer is attached: detach it first");
  place = std::make_shared<BsendBuffer>(memory, static_cast<std::size_t>(size));
  buffers.push_back(place);
}

template <class Count>
void detach(Place& place, void* address, Count* size) {
  check_addresses(address, size);
  void* memory = nullptr;
  std::size_t bytes = 0;
  if (const Place buffer = buffer_in(place); buffer != nullptr) {
    buffer->flush();
    memory = buffer->memory();
    bytes = buffer->size();
    const std::lock_guard lock{mutex};
    std::erase(buffers, buffer);
    place.reset();
  }
  std::memcpy(address, &memory, sizeof memory);
  *size = static_cast<Count>(bytes);
}

void flush(const Place& place) {
  if (const Place buffer = buffer_in(place); buffer != nullptr) buffer->flush();
}

}  // namespace

void BsendBuffer::send(Communicator& communicator, const void* data, std::size_t bytes,
                       int destination, int tag) {
  const std::lock_guard lock{mutex_};
  while (!pieces_.empty() && has_ended(pieces_.front())) pieces_.pop_front();
  auto before = pieces_.end();
  Piece piece{0, bytes, nullptr, nullptr, Reference<Communicator>{&communicator}};
  std::byte* room = nullptr;
  if (is_automatic()) {
    piece.own.reset(new std::byte[bytes]);
    room = piece.own.get();
  } else {
    bool has_room = find_room_behind(bytes, piece.offset);
    if (!has_room) {
      drop_ended();
      has_room = find_room(bytes, before, piece.offset);
    }
    require(has_room, MPI_ERR_BUFFER, "a message of ", bytes,
            " bytes does not fit into the attached buffer of ", size_, " with ", pieces_.size(),
            " messages in it");
    room = static_cast<std::byte*>(memory_) + piece.offset;
  }
  if (bytes > 0) std::memcpy(room, data, bytes);
  check(qpmesh_send_async(communicator.mesh, room, bytes, QPMESH_BYTE, destination, tag, nullptr,
                          &piece.request));
  if (has_ended(piece)) return;  // as most have at once
  pieces_.insert(before, std::move(piece));
  if (pieces_.size() >= looked_at_) {
    drop_ended();
    looked_at_ = std::max(looked_at_min, 2 * pieces_.size());
  }
}

void BsendBuffer::flush() {
  // Others may send through it meanwhile. Where there are no others the library waits, which has a
  // deadline, warns of a stall, and sleeps.
  const bool others = threads_at_once;
  while (!collect()) {
    if (others) std::this_thread::yield();
    else wait_for_first();
  }
}

void BsendBuffer::wait_for_first() {
  const std::lock_guard lock{mutex_};
  if (!pieces_.empty()) check(qpmesh_wait(pieces_.front().request, nullptr));
}

bool BsendBuffer::collect() {
  const std::lock_guard lock{mutex_};
  drop_ended();
  return pieces_.empty();
}

void BsendBuffer::drop_ended() {
  for (auto piece = pieces_.begin(); piece != pieces_.end();) {
    if (has_ended(*piece)) piece = pieces_.erase(piece);
    else ++piece;
  }
}

bool BsendBuffer::has_ended(const Piece& piece) noexcept {
  int done = 1;  // stays where it failed: its receiver is gone, and nobody waits for it
  qpmesh_test(piece.request, &done, nullptr);
  if (done != 0) qpmesh_request_free(piece.request);
  return done != 0;
}

bool BsendBuffer::find_room_behind(std::size_t bytes, std::size_t& offset) const noexcept {
  offset = pieces_.empty() ? 0 : pieces_.back().offset + pieces_.back().bytes;
  return size_ - offset >= bytes;
}

bool BsendBuffer::find_room(std::size_t bytes, Pieces::iterator& before, std::size_t& offset) {
  offset = 0;
  for (before = pieces_.begin(); before != pieces_.end(); ++before) {
    if (before->offset - offset >= bytes) return true;
    offset = before->offset + before->bytes;
  }
  return size_ - offset >= bytes;
}

void buffered_send(Communicator& communicator, const void* data, std::size_t bytes, int destination,
                   int tag) {
  if (destination == QPMESH_NO_RANK) return;
  Place buffer = buffer_in(communicator.buffer);
  if (buffer == nullptr) buffer = buffer_in(process_buffer);
  require(buffer != nullptr, MPI_ERR_BUFFER, "no buffer is attached: MPI_Buffer_attach");
  buffer->send(communicator, data, bytes, destination, tag);
}

void flush_buffers() {
  for (const Place& buffer : all_buffers()) buffer->flush();
}

void collect_buffers() {
  for (const Place& buffer : all_buffers()) buffer->collect();
}

void flush_buffer(const Communicator& communicator) { flush(communicator.buffer); }

void forget_buffer(const Communicator& communicator) noexcept {
  if (communicator.buffer == nullptr) return;
  const std::lock_guard lock{mutex};
  std::erase(buffers, communicator.buffer);
}

}  // namespace qpmesh::mpi

using namespace qpmesh::mpi;

QPMESH_MPI_ENTRY(Buffer_flush, (void)) {
  return while_running("MPI_Buffer_flush", [] { flush(process_buffer); });
}
QPMESH_MPI_ENTRY(Comm_flush_buffer, (MPI_Comm comm)) {
  return on_communicator("MPI_Comm_flush_buffer", comm,
                         [](Communicator& own) { flush(own.buffer); });
}

#define QPMESH_MPI_ENTRIES "bsend.inc"
#include "counted_entries.inc"
