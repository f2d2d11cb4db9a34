// Buffered sends.
#include "bsend.hpp"

#include <cstring>
#include <mutex>

#include "communicator.hpp"
#include "entry.hpp"
#include "environment.hpp"

namespace qpmesh::mpi {
namespace {

std::mutex mutex;  // of all buffers: a send through one is a copy and a call
std::unique_ptr<BsendBuffer> process_buffer;

void attach(std::unique_ptr<BsendBuffer>& place, void* memory, MPI_Count size) {
  require(size >= 0, MPI_ERR_ARG, "a buffer of ", size, " bytes");
  require(memory != nullptr || size == 0, MPI_ERR_BUFFER, "the buffer is null");
  const std::lock_guard lock{mutex};
  require(place == nullptr, MPI_ERR_BUFFER, "a buffer is attached: detach it first");
  place = std::make_unique<BsendBuffer>(memory, static_cast<std::size_t>(size));
}

template <class Count>
void detach(std::unique_ptr<BsendBuffer>& place, void* address, Count* size) {
  const std::lock_guard lock{mutex};
  void* memory = nullptr;
  std::size_t bytes = 0;
  if (place != nullptr) {
    place->flush();
    memory = place->memory();
    bytes = place->size();
    place.reset();
  }
  std::memcpy(address, &memory, sizeof memory);
  *size = static_cast<Count>(bytes);
}

void flush(const std::unique_ptr<BsendBuffer>& place) {
  const std::lock_guard lock{mutex};
  if (place != nullptr) place->flush();
}

}  // namespace

void BsendBuffer::send(Communicator& communicator, const void* data, std::size_t bytes,
                       int destination, int tag) {
  collect();
  auto before = pieces_.end();
  Piece piece{0, bytes, nullptr, nullptr};
  std::byte* room = nullptr;
  if (is_automatic()) {
    piece.own.reset(new std::byte[bytes]);
    room = piece.own.get();
  } else {
    require(find_room(bytes, before, piece.offset), MPI_ERR_BUFFER, "a message of ", bytes,
            " bytes does not fit into the attached buffer of ", size_, " with ", pieces_.size(),
            " messages in it");
    room = static_cast<std::byte*>(memory_) + piece.offset;
  }
  if (bytes > 0) std::memcpy(room, data, bytes);
  check(qpmesh_send_async(communicator.mesh, room, bytes, QPMESH_BYTE, destination, tag, nullptr,
                          &piece.request));
  pieces_.insert(before, std::move(piece));
  collect();
}

void BsendBuffer::flush() {
  for (const Piece& piece : pieces_) {
    const int ended = qpmesh_wait(piece.request, nullptr);
    qpmesh_request_free(piece.request);
    if (ended != QPMESH_OK) last_failure();  // its receiver is gone: nobody waits for it
  }
  pieces_.clear();
}

void BsendBuffer::collect() {
  for (auto piece = pieces_.begin(); piece != pieces_.end();) {
    int done = 1;
    qpmesh_test(piece->request, &done, nullptr);
    if (done != 0) {
      qpmesh_request_free(piece->request);
      piece = pieces_.erase(piece);
    } else {
      ++piece;
    }
  }
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
  const std::lock_guard lock{mutex};
  BsendBuffer* const buffer =
      communicator.buffer != nullptr ? communicator.buffer.get() : process_buffer.get();
  require(buffer != nullptr, MPI_ERR_BUFFER, "no buffer is attached: MPI_Buffer_attach");
  buffer->send(communicator, data, bytes, destination, tag);
}

void flush_buffers() { flush(process_buffer); }

}  // namespace qpmesh::mpi

using namespace qpmesh::mpi;

QPMESH_MPI_ENTRY(Buffer_flush, (void)) {
  return guarded("MPI_Buffer_flush", [] { flush(process_buffer); });
}
QPMESH_MPI_ENTRY(Comm_flush_buffer, (MPI_Comm comm)) {
  return on_communicator("MPI_Comm_flush_buffer", comm,
                         [](Communicator& own) { flush(own.buffer); });
}

#define QPMESH_MPI_ENTRIES "bsend.inc"
#include "counted_entries.inc"
