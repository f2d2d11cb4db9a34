// Collectives: each is described once, and made in three ways: it blocks, it begins, or it is
// prepared and begun by MPI_Start. What only moves is moved as bytes.
#include <algorithm>
#include <array>
#include <atomic>
#include <memory>
#include <optional>
#include <vector>

#include "entry.hpp"
#include "environment.hpp"
#include "request.hpp"

namespace qpmesh::mpi {
namespace {

std::size_t unsigned_of(MPI_Count count) noexcept { return static_cast<std::size_t>(count); }

// ---- arguments ----

// So many blocks of elements, one behind the other.
Elements times(const Elements& block, int count) noexcept {
  return {block.data, block.count * count, block.type};
}
Elements block_of(const Elements& block, int index) noexcept {
  const auto* const data = static_cast<const std::byte*>(block.data);
  return {data + index * block.count * block.type->extent(), block.count, block.type};
}

void check_root(const Communicator& own, int root) {
  require(root >= 0 && root < own.size, MPI_ERR_ROOT, "root ", root, " of ", own.size, " ranks");
}

// A list of counts or displacements, of int or of MPI_Count.
class Numbers {
 public:
  explicit Numbers(const int* numbers) noexcept : narrow_{numbers} {}
  explicit Numbers(const MPI_Count* numbers) noexcept : wide_{numbers} {}

  MPI_Count operator[](int index) const noexcept {
    return narrow_ != nullptr ? narrow_[index] : wide_[index];
  }

 private:
  const int* narrow_ = nullptr;
  const MPI_Count* wide_ = nullptr;
};

// Blocks of a vector argument: one for each rank, or for each neighbour.
struct Vector {
  const void* data;
  Numbers counts;
  Numbers displacements;
  const MPI_Datatype* types;  // one, or one for each block
  bool typed_blocks = false;  // then displacements are in bytes

  Elements block(int index) const {
    const MPI_Count count = counts[index];
    require(count >= 0, MPI_ERR_COUNT, "block ", index, " has a count of ", count);
    Datatype* const type =
        count == 0 ? datatype_of(MPI_BYTE) : &committed_type(types[typed_blocks ? index : 0]);
    const MPI_Aint unit = typed_blocks ? 1 : type->extent();
    return {reinterpret_cast<const std::byte*>(reinterpret_cast<std::uintptr_t>(data)) +
                displacements[index] * unit,
            count, type};
  }
};

// ---- reductions ----

// An operation on a type, as a call of qpmesh takes it.
struct How {
  qpmesh_type type;
  qpmesh_reduction reduction;
  bool packed = false;
  bool is_empty = false;                 // the type: there is nothing to reduce
  const qpmesh_call* options = nullptr;  // of the program's own operation

  std::size_t count(MPI_Count elements) const noexcept {
    return is_empty ? 0 : unsigned_of(elements);
  }
};

// Predefined operations on predefined types that qpmesh has itself: type << 8 | reduction, plus
// one; 0 is not known yet. Written with the same values by whoever comes first.
constexpr std::size_t operations_first = 0x20;
std::array<std::array<std::atomic<std::uint32_t>, predefined_datatypes>, 0x20> simple_reductions;

std::atomic<std::uint32_t>* simple_reduction(MPI_Op op, MPI_Datatype type) noexcept {
  const std::size_t row = number_of(op) - operations_first;
  const std::size_t column = number_of(type) - first_datatype;
  return row < simple_reductions.size() && column < predefined_datatypes
             ? &simple_reductions[row][column]
             : nullptr;
}

// ---- how a call is made ----

// The three ways. Memory and lists that it needs beside its arguments live as long as it does.
class Call {
 public:
  // It blocks.
  explicit Call(Communicator& own) noexcept : own_{own} {}
  // It begins, or is prepared; the handle is stored when that went well.
  Call(Communicator& own, MPI_Request* handle, bool persistent = false)
      : own_{own},
        request_{std::make_unique<Request>(&own, Request::Kind::collective)},
        handle_{handle},
        persistent_{persistent} {}
  Call(const Call&) = delete;
  Call& operator=(const Call&) = delete;

  Communicator& communicator() const noexcept { return own_; }
  int rank() const noexcept { return own_.rank; }
  int size() const noexcept { return own_.size; }

  // issue(mesh, request): the call of qpmesh; request is null where it blocks.
  template <class Issue>
  void run(const Issue& issue) {
    if (request_ == nullptr) {
      if (staging_) staging_->begin();
      check(issue(own_.mesh, nullptr));
      if (staging_) staging_->end();
      return;
    }
    if (persistent_) {
      // Those of one communicator may be started in any order: each has ranks of its own.
      RequestExtra& extra = request_->need_extra();
      check(qpmesh_duplicate(own_.mesh, nullptr, &extra.own_mesh));
      extra.start = [issue](Request& request) {
        request.extra->staging.begin();
        check(issue(request.extra->own_mesh, &request.operation));
      };
      request_->active = false;
    } else {
      if (request_->extra != nullptr) request_->extra->staging.begin();
      check(issue(own_.mesh, &request_->operation));
    }
    *handle_ = request_.release()->handle();
  }

  Staging& staging() {
    if (request_ != nullptr) return request_->need_extra().staging;
    return staging_ ? *staging_ : staging_.emplace();
  }
  const std::byte* source(const Elements& elements) {
    return elements.in_one_piece() ? elements.first_byte() : staging().packed(elements);
  }
  std::byte* target(const Elements& elements) {
    return elements.in_one_piece() ? const_cast<std::byte*>(elements.first_byte())
                                   : staging().target(elements);
  }

  How how(MPI_Op op, MPI_Datatype datatype) {
    std::atomic<std::uint32_t>* const simple = simple_reduction(op, datatype);
    if (simple != nullptr) {
      const std::uint32_t known = simple->load(std::memory_order_relaxed);
      if (known != 0)
        return {static_cast<qpmesh_type>((known - 1) >> 8),
                static_cast<qpmesh_reduction>((known - 1) & 0xff)};
    }
    const bool is_empty = committed_type(datatype).size == 0;
    How how{};
    const auto fill = [&](Reduction& reduction) {
      how = {reduction.type, reduction.reduction, reduction.packed, is_empty};
      if (how.reduction == QPMESH_USER) how.options = &user_options(reduction);
    };
    if (request_ == nullptr) {
      fill(reduction_.emplace(op, datatype));
    } else {
      auto& kept = request_->need_extra().reduction;
      kept = std::make_unique<Reduction>(op, datatype);
      fill(*kept);
    }
    if (simple != nullptr && !how.packed && how.options == nullptr && how.type < 256)
      simple->store(
          (static_cast<std::uint32_t>(how.type) << 8 | static_cast<std::uint32_t>(how.reduction)) +
              1,
          std::memory_order_relaxed);
    return how;
  }

  // The call of qpmesh of a user's reduction, which stays as long as that.
  qpmesh_call& user_options(Reduction& reduction) {
    qpmesh_call& options =
        request_ == nullptr ? user_.emplace() : request_->need_extra().user.emplace();
    options = {};
    options.struct_bytes = sizeof options;
    reduction.add_to(options);
    return options;
  }

  // A list that the call reads: of this call where it is made again, else of the thread's.
  template <class T>
  T* list(int count) {
    static_assert(sizeof(T) <= sizeof(std::size_t));
    const std::size_t entries = unsigned_of(count);
    if (persistent_) {
      return reinterpret_cast<T*>(
          staging().memory(static_cast<MPI_Count>(entries * sizeof(std::size_t))));
    }
    std::vector<std::size_t>& own = lists_[next_list_++];
    if (own.size() < entries + 1) own.resize(entries + 1);
    return reinterpret_cast<T*>(own.data());
  }

 private:
  Communicator& own_;
  std::optional<Staging> staging_{};
  std::optional<Reduction> reduction_{};
  std::optional<qpmesh_call> user_{};
  std::unique_ptr<Request> request_{};
  MPI_Request* handle_ = nullptr;
  bool persistent_ = false;
  std::size_t next_list_ = 0;
  static thread_local std::array<std::vector<std::size_t>, 8> lists_;
};
thread_local std::array<std::vector<std::size_t>, 8> Call::lists_;

// ---- vectors ----

// Have blocks that are received memory in common? MPI calls that erroneous, and programs do it: the
// last block is what stays then.
bool overlap(const Vector& vector, int count) {
  const auto end_of = [&](const Elements& block) {
    const MPI_Aint last = (block.count - 1) * block.type->extent();
    return static_cast<const std::byte*>(block.data) + last + block.type->true_bounds.upper;
  };
  const auto begin_of = [&](const Elements& block) {
    return static_cast<const std::byte*>(block.data) + block.type->true_bounds.lower;
  };
  std::vector<std::pair<const std::byte*, const std::byte*>> ranges;
  for (int i = 0; i < count; ++i) {
    const Elements block = vector.block(i);
    if (block.bytes() > 0) ranges.emplace_back(begin_of(block), end_of(block));
  }
  std::ranges::sort(ranges);
  for (std::size_t i = 1; i < ranges.size(); ++i)
    if (ranges[i].first < ranges[i - 1].second) return true;
  return false;
}

// Blocks where they lie, or, where a block's elements have gaps, packed.
enum class Use { sent, received, sent_in_place };

qpmesh_blocks blocks(Call& call, const Vector& vector, Use use) {
  const int count = call.size();
  auto* const lengths = call.list<std::size_t>(count);
  auto* const places = call.list<void*>(count);
  const bool apart = use == Use::received && overlap(vector, count);
  for (int i = 0; i < count; ++i) {
    const Elements block = vector.block(i);
    lengths[i] = unsigned_of(block.bytes());
    if (apart) places[i] = call.staging().unpacked(block);
    else if (use == Use::received) places[i] = call.target(block);
    else if (use == Use::sent) places[i] = const_cast<std::byte*>(call.source(block));
    else places[i] = const_cast<std::byte*>(call.staging().packed(block));
  }
  return {nullptr, lengths, nullptr, places};
}

// One type without gaps, no block before the buffer, and none that is received before the end of
// another one: the usual vector, without a list of places.
bool is_plain(const Vector& vector, int count, Use use) {
  // Of types of its own each, that of an empty block may be null.
  if (vector.typed_blocks || !committed_type(vector.types[0]).in_one_piece(2)) return false;
  MPI_Count end = 0;
  for (int i = 0; i < count; ++i) {
    if (vector.counts[i] == 0) continue;
    if (vector.displacements[i] < (use == Use::received ? end : 0)) return false;
    end = vector.displacements[i] + vector.counts[i];
  }
  return true;
}

qpmesh_blocks vector_blocks(Call& call, const Vector& vector, Use use) {
  const int count = call.size();
  if (use == Use::sent_in_place || !is_plain(vector, count, use)) return blocks(call, vector, use);
  const Datatype& type = committed_type(vector.types[0]);
  auto* const lengths = call.list<std::size_t>(count);
  auto* const offsets = call.list<std::size_t>(count);
  for (int i = 0; i < count; ++i) {
    require(vector.counts[i] >= 0, MPI_ERR_COUNT, "block ", i, " has a count of ",
            vector.counts[i]);
    lengths[i] = unsigned_of(vector.counts[i] * type.size);
    // An empty block may lie anywhere.
    offsets[i] = lengths[i] == 0 ? 0 : unsigned_of(vector.displacements[i] * type.size);
  }
  auto* const data = static_cast<std::byte*>(const_cast<void*>(vector.data));
  return {type.first_byte(data), lengths, offsets, nullptr};
}

std::byte* block_of(const qpmesh_blocks& blocks, int rank) {
  return blocks.ranges != nullptr
             ? static_cast<std::byte*>(blocks.ranges[rank])
             : static_cast<std::byte*>(blocks.data) + blocks.displacements[rank];
}

// ---- the collectives ----

void barrier(Call& call) {
  call.run([](qpmesh_communicator* mesh, qpmesh_request** request) {
    return request == nullptr ? qpmesh_barrier(mesh, nullptr)
                              : qpmesh_barrier_async(mesh, nullptr, request);
  });
}

void broadcast(Call& call, void* buffer, MPI_Count count, MPI_Datatype type, int root) {
  check_root(call.communicator(), root);
  const Elements elements = given(buffer, count, type);
  void* const data =
      call.rank() == root ? const_cast<std::byte*>(call.source(elements)) : call.target(elements);
  const std::size_t bytes = unsigned_of(elements.bytes());
  call.run([=](qpmesh_communicator* mesh, qpmesh_request** request) {
    return request == nullptr
               ? qpmesh_broadcast(mesh, data, bytes, QPMESH_BYTE, root, nullptr)
               : qpmesh_broadcast_async(mesh, data, bytes, QPMESH_BYTE, root, nullptr, request);
  });
}

// This rank's block of what it receives is what it sends.
const std::byte* own_block(Call& call, const Elements& block, int index, std::byte* out) {
  std::byte* const own = out + index * block.bytes();
  if (!times(block, call.size()).in_one_piece())
    call.staging().pack_to(block_of(block, index), own);
  return own;
}

void allgather(Call& call, const void* send, MPI_Count send_count, MPI_Datatype send_type,
               void* receive, MPI_Count receive_count, MPI_Datatype receive_type) {
  const Elements block = given(receive, receive_count, receive_type);
  std::byte* const out = call.target(times(block, call.size()));
  std::size_t bytes = unsigned_of(block.bytes());
  const std::byte* in = nullptr;
  if (send == MPI_IN_PLACE) {
    in = own_block(call, block, call.rank(), out);
  } else {
    const Elements sent = given(send, send_count, send_type);
    in = call.source(sent);
    bytes = unsigned_of(sent.bytes());
    require(sent.bytes() <= block.bytes(), MPI_ERR_TRUNCATE, "each rank sends ", sent.bytes(),
            " bytes, and has room for ", block.bytes(), " of each");
    require(sent.bytes() == block.bytes(), MPI_ERR_COUNT, "each rank sends ", sent.bytes(),
            " bytes, and expects ", block.bytes(), " of each");
  }
  call.run([=](qpmesh_communicator* mesh, qpmesh_request** request) {
    return request == nullptr
               ? qpmesh_allgather(mesh, in, out, bytes, QPMESH_BYTE, nullptr)
               : qpmesh_allgather_async(mesh, in, out, bytes, QPMESH_BYTE, nullptr, request);
  });
}

void allgatherv(Call& call, const void* send, MPI_Count send_count, MPI_Datatype send_type,
                const Vector& received) {
  const qpmesh_blocks out = vector_blocks(call, received, Use::received);
  const int rank = call.rank();
  const std::byte* in = nullptr;
  std::size_t bytes = out.counts[rank];
  if (send == MPI_IN_PLACE) {
    std::byte* const own = block_of(out, rank);
    const Elements block = received.block(rank);
    if (own != block.first_byte()) call.staging().pack_to(block, own);
    in = own;
  } else {
    const Elements sent = given(send, send_count, send_type);
    in = call.source(sent);
    bytes = unsigned_of(sent.bytes());
  }
  call.run([=](qpmesh_communicator* mesh, qpmesh_request** request) {
    return request == nullptr
               ? qpmesh_allgatherv(mesh, in, bytes, &out, QPMESH_BYTE, nullptr)
               : qpmesh_allgatherv_async(mesh, in, bytes, &out, QPMESH_BYTE, nullptr, request);
  });
}

void gather(Call& call, const void* send, MPI_Count send_count, MPI_Datatype send_type,
            void* receive, MPI_Count receive_count, MPI_Datatype receive_type, int root) {
  check_root(call.communicator(), root);
  std::byte* out = nullptr;
  const std::byte* in = nullptr;
  std::size_t bytes = 0;
  const bool in_place = call.rank() == root && send == MPI_IN_PLACE;
  if (call.rank() == root) {
    const Elements block = given(receive, receive_count, receive_type);
    out = call.target(times(block, call.size()));
    bytes = unsigned_of(block.bytes());
    if (in_place) in = own_block(call, block, root, out);
  }
  if (!in_place) {
    const Elements sent = given(send, send_count, send_type);
    in = call.source(sent);
    if (call.rank() != root) bytes = unsigned_of(sent.bytes());
    require(unsigned_of(sent.bytes()) == bytes, MPI_ERR_COUNT, "the root sends ", sent.bytes(),
            " bytes, and expects ", bytes, " of each rank");
  }
  call.run([=](qpmesh_communicator* mesh, qpmesh_request** request) {
    return request == nullptr
               ? qpmesh_gather(mesh, in, out, bytes, QPMESH_BYTE, root, nullptr)
               : qpmesh_gather_async(mesh, in, out, bytes, QPMESH_BYTE, root, nullptr, request);
  });
}

void gatherv(Call& call, const void* send, MPI_Count send_count, MPI_Datatype send_type,
             const Vector& received, int root) {
  check_root(call.communicator(), root);
  qpmesh_blocks out{};
  const std::byte* in = nullptr;
  std::size_t bytes = 0;
  const bool has_all = call.rank() == root;
  if (has_all) out = vector_blocks(call, received, Use::received);
  if (has_all && send == MPI_IN_PLACE) {
    std::byte* const own = block_of(out, root);
    const Elements block = received.block(root);
    if (own != block.first_byte()) call.staging().pack_to(block, own);
    in = own;
    bytes = out.counts[root];
  } else {
    const Elements sent = given(send, send_count, send_type);
    in = call.source(sent);
    bytes = unsigned_of(sent.bytes());
  }
  call.run([=](qpmesh_communicator* mesh, qpmesh_request** request) {
    const qpmesh_blocks* const all = has_all ? &out : nullptr;
    return request == nullptr
               ? qpmesh_gatherv(mesh, in, bytes, all, QPMESH_BYTE, root, nullptr)
               : qpmesh_gatherv_async(mesh, in, bytes, all, QPMESH_BYTE, root, nullptr, request);
  });
}

void scatter(Call& call, const void* send, MPI_Count send_count, MPI_Datatype send_type,
             void* receive, MPI_Count receive_count, MPI_Datatype receive_type, int root) {
  check_root(call.communicator(), root);
  const std::byte* in = nullptr;
  std::byte* out = nullptr;
  std::size_t bytes = 0;
  if (call.rank() == root) {
    const Elements block = given(send, send_count, send_type);
    in = call.source(times(block, call.size()));
    bytes = unsigned_of(block.bytes());
  }
  if (call.rank() == root && receive == MPI_IN_PLACE) {
    out = const_cast<std::byte*>(in) + unsigned_of(root) * bytes;
  } else {
    const Elements received = given(receive, receive_count, receive_type);
    out = call.target(received);
    if (call.rank() != root) bytes = unsigned_of(received.bytes());
    require(unsigned_of(received.bytes()) == bytes, MPI_ERR_COUNT, "the root sends ", bytes,
            " bytes to each rank, and expects ", received.bytes());
  }
  call.run([=](qpmesh_communicator* mesh, qpmesh_request** request) {
    return request == nullptr
               ? qpmesh_scatter(mesh, in, out, bytes, QPMESH_BYTE, root, nullptr)
               : qpmesh_scatter_async(mesh, in, out, bytes, QPMESH_BYTE, root, nullptr, request);
  });
}

void scatterv(Call& call, const Vector& sent, void* receive, MPI_Count receive_count,
              MPI_Datatype receive_type, int root) {
  check_root(call.communicator(), root);
  qpmesh_blocks in{};
  std::byte* out = nullptr;
  std::size_t bytes = 0;
  const bool has_all = call.rank() == root;
  if (has_all) in = vector_blocks(call, sent, Use::sent);
  if (has_all && receive == MPI_IN_PLACE) {
    out = block_of(in, root);
    bytes = in.counts[root];
  } else {
    const Elements received = given(receive, receive_count, receive_type);
    out = call.target(received);
    bytes = unsigned_of(received.bytes());
  }
  call.run([=](qpmesh_communicator* mesh, qpmesh_request** request) {
    const qpmesh_blocks* const all = has_all ? &in : nullptr;
    return request == nullptr
               ? qpmesh_scatterv(mesh, all, out, bytes, QPMESH_BYTE, root, nullptr)
               : qpmesh_scatterv_async(mesh, all, out, bytes, QPMESH_BYTE, root, nullptr, request);
  });
}

void alltoall(Call& call, const void* send, MPI_Count send_count, MPI_Datatype send_type,
              void* receive, MPI_Count receive_count, MPI_Datatype receive_type) {
  const Elements block = given(receive, receive_count, receive_type);
  const Elements received = times(block, call.size());
  std::byte* const out = call.target(received);
  const std::size_t bytes = unsigned_of(block.bytes());
  const std::byte* in = nullptr;
  if (send == MPI_IN_PLACE) {
    in = call.staging().packed(received);
  } else {
    const Elements sent = given(send, send_count, send_type);
    in = call.source(times(sent, call.size()));
    require(sent.bytes() == block.bytes(), MPI_ERR_COUNT, "each rank sends ", sent.bytes(),
            " bytes to each, and expects ", block.bytes());
  }
  call.run([=](qpmesh_communicator* mesh, qpmesh_request** request) {
    return request == nullptr
               ? qpmesh_alltoall(mesh, in, out, bytes, QPMESH_BYTE, nullptr)
               : qpmesh_alltoall_async(mesh, in, out, bytes, QPMESH_BYTE, nullptr, request);
  });
}

void run_alltoallv(Call& call, const qpmesh_blocks& in, const qpmesh_blocks& out) {
  call.run([=](qpmesh_communicator* mesh, qpmesh_request** request) {
    return request == nullptr
               ? qpmesh_alltoallv(mesh, &in, &out, QPMESH_BYTE, nullptr)
               : qpmesh_alltoallv_async(mesh, &in, &out, QPMESH_BYTE, nullptr, request);
  });
}

// v and w.
void alltoallv(Call& call, const Vector& sent, const Vector& received) {
  const bool in_place = sent.data == MPI_IN_PLACE;
  // Both, or none, have lists of places.
  const bool plain = !in_place && is_plain(sent, call.size(), Use::sent) &&
                     is_plain(received, call.size(), Use::received);
  const auto of = plain ? vector_blocks : blocks;
  const qpmesh_blocks in =
      in_place ? blocks(call, received, Use::sent_in_place) : of(call, sent, Use::sent);
  run_alltoallv(call, in, of(call, received, Use::received));
}

// ---- reductions ----

struct Operands {
  const std::byte* in;
  std::byte* out;
};

// in has in_count elements, out has out_count of them.
Operands operands(Call& call, const How& how, const void* send, MPI_Count in_count, void* receive,
                  MPI_Count out_count, MPI_Datatype datatype) {
  const bool in_place = send == MPI_IN_PLACE;
  const Elements out = given(receive, out_count, datatype);
  const Elements in =
      in_place ? Elements{receive, in_count, out.type} : given(send, in_count, datatype);
  if (!how.packed) {
    auto* const target = const_cast<std::byte*>(out.first_byte());
    if (!in_place) return {in.first_byte(), target};
    // The result of a part lies at the beginning of the whole.
    return {in_count == out_count ? target : call.staging().packed(in), target};
  }
  std::byte* const target = call.staging().unpacked(out);
  if (in_place && in_count == out_count) {
    call.staging().pack_to(in, target);
    return {target, target};
  }
  return {call.staging().packed(in), target};
}

void allreduce(Call& call, const void* send, void* receive, MPI_Count count, MPI_Datatype datatype,
               MPI_Op op) {
  const How how = call.how(op, datatype);
  const auto [in, out] = operands(call, how, send, count, receive, count, datatype);
  const std::size_t n = how.count(count);
  call.run([=, in = in, out = out](qpmesh_communicator* mesh, qpmesh_request** request) {
    return request == nullptr
               ? qpmesh_allreduce(mesh, in, out, n, how.type, how.reduction, how.options)
               : qpmesh_allreduce_async(mesh, in, out, n, how.type, how.reduction, how.options,
                                        request);
  });
}

void reduce(Call& call, const void* send, void* receive, MPI_Count count, MPI_Datatype datatype,
            MPI_Op op, int root) {
  check_root(call.communicator(), root);
  const How how = call.how(op, datatype);
  const bool at_root = call.rank() == root;
  Operands of{};
  if (at_root) {
    of = operands(call, how, send, count, receive, count, datatype);
  } else {
    const Elements sent = given(send, count, datatype);
    of.in = how.packed ? call.staging().packed(sent) : sent.first_byte();
  }
  const std::size_t n = how.count(count);
  call.run([=](qpmesh_communicator* mesh, qpmesh_request** request) {
    return request == nullptr
               ? qpmesh_reduce(mesh, of.in, of.out, n, how.type, how.reduction, root, how.options)
               : qpmesh_reduce_async(mesh, of.in, of.out, n, how.type, how.reduction, root,
                                     how.options, request);
  });
}

void reduce_scatter_block(Call& call, const void* send, void* receive, MPI_Count count,
                          MPI_Datatype datatype, MPI_Op op) {
  require(count >= 0, MPI_ERR_COUNT, "a count of ", count);
  const How how = call.how(op, datatype);
  const Operands of = operands(call, how, send, count * call.size(), receive, count, datatype);
  const std::size_t n = how.count(count);
  call.run([=](qpmesh_communicator* mesh, qpmesh_request** request) {
    return request == nullptr
               ? qpmesh_reduce_scatter(mesh, of.in, of.out, n, how.type, how.reduction, how.options)
               : qpmesh_reduce_scatter_async(mesh, of.in, of.out, n, how.type, how.reduction,
                                             how.options, request);
  });
}

void reduce_scatter(Call& call, const void* send, void* receive, Numbers counts,
                    MPI_Datatype datatype, MPI_Op op) {
  const How how = call.how(op, datatype);
  auto* const lengths = call.list<std::size_t>(call.size());
  MPI_Count all = 0;
  for (int i = 0; i < call.size(); ++i) {
    require(counts[i] >= 0, MPI_ERR_COUNT, "block ", i, " has a count of ", counts[i]);
    lengths[i] = how.count(counts[i]);
    all += counts[i];
  }
  const MPI_Count own = counts[call.rank()];
  Operands of{};
  if (own > 0 || send == MPI_IN_PLACE) of = operands(call, how, send, all, receive, own, datatype);
  else  // nothing comes here: the buffer may be null
    of.in = how.packed ? call.staging().packed(given(send, all, datatype))
                       : given(send, all, datatype).first_byte();
  const qpmesh_blocks in{const_cast<std::byte*>(of.in), lengths, nullptr, nullptr};
  const std::size_t n = how.count(own);
  call.run([=](qpmesh_communicator* mesh, qpmesh_request** request) {
    return request == nullptr
               ? qpmesh_reduce_scatterv(mesh, &in, of.out, n, how.type, how.reduction, how.options)
               : qpmesh_reduce_scatterv_async(mesh, &in, of.out, n, how.type, how.reduction,
                                              how.options, request);
  });
}

void scan(Call& call, const void* send, void* receive, MPI_Count count, MPI_Datatype datatype,
          MPI_Op op) {
  const How how = call.how(op, datatype);
  const Operands of = operands(call, how, send, count, receive, count, datatype);
  const std::size_t n = how.count(count);
  call.run([=](qpmesh_communicator* mesh, qpmesh_request** request) {
    return request == nullptr
               ? qpmesh_scan(mesh, of.in, of.out, n, how.type, how.reduction, how.options)
               : qpmesh_scan_async(mesh, of.in, of.out, n, how.type, how.reduction, how.options,
                                   request);
  });
}

void exscan(Call& call, const void* send, void* receive, MPI_Count count, MPI_Datatype datatype,
            MPI_Op op) {
  const How how = call.how(op, datatype);
  Operands of{};
  if (call.rank() > 0) {
    of = operands(call, how, send, count, receive, count, datatype);
  } else {  // rank 0 gets nothing: its buffer may be anything, and stays as it is
    const Elements in = given(send == MPI_IN_PLACE ? receive : send, count, datatype);
    of.in = how.packed ? call.staging().packed(in) : in.first_byte();
    of.out = const_cast<std::byte*>(of.in);
  }
  const std::size_t n = how.count(count);
  call.run([=](qpmesh_communicator* mesh, qpmesh_request** request) {
    return request == nullptr
               ? qpmesh_exscan(mesh, of.in, of.out, n, how.type, how.reduction, how.options)
               : qpmesh_exscan_async(mesh, of.in, of.out, n, how.type, how.reduction, how.options,
                                     request);
  });
}

// ---- neighbourhoods ----

// Blocks for neighbours become one block for each rank: several neighbours may be the same rank.
// Of a Cartesian dimension, what goes to the one side comes from the other.
struct Neighbourhood {
  explicit Neighbourhood(const Communicator& own) : topology{own.topology.get()} {
    require(topology != nullptr, MPI_ERR_TOPOLOGY, "the communicator has no topology");
  }
  const std::vector<int>& targets() const noexcept { return topology->targets; }
  const std::vector<int>& sources() const noexcept { return topology->sources; }
  // The place of what is sent to target number index, among those to the same rank.
  std::size_t order(std::size_t index) const noexcept {
    return topology->kind == MPI_CART ? index ^ 1U : index;
  }

  const Topology* topology;
};

// Packs blocks in the order in which they are received, or unpacks them in their own.
template <class BlockOf>
qpmesh_blocks neighbour_blocks(Call& call, const std::vector<int>& neighbours, bool sent,
                               const Neighbourhood& of, BlockOf&& block_of_neighbour) {
  const int count = call.size();
  auto* const lengths = call.list<std::size_t>(count);
  auto* const places = call.list<void*>(count);
  std::fill_n(lengths, count, 0);
  std::fill_n(places, count, nullptr);
  std::vector<std::size_t> order(neighbours.size());
  for (std::size_t i = 0; i < order.size(); ++i) order[sent ? of.order(i) : i] = i;
  std::vector<Elements> elements;
  for (std::size_t i = 0; i < neighbours.size(); ++i) {
    elements.push_back(block_of_neighbour(static_cast<int>(i)));
    if (neighbours[i] >= 0) lengths[neighbours[i]] += unsigned_of(elements.back().bytes());
  }
  std::vector<std::byte*> next(unsigned_of(count), nullptr);
  for (int rank = 0; rank < count; ++rank) {
    if (lengths[rank] == 0) continue;
    next[unsigned_of(rank)] = call.staging().memory(static_cast<MPI_Count>(lengths[rank]));
    places[rank] = next[unsigned_of(rank)];
  }
  for (const std::size_t i : order) {
    if (neighbours[i] < 0 || elements[i].bytes() == 0) continue;
    std::byte*& place = next[unsigned_of(neighbours[i])];
    if (sent) call.staging().pack_to(elements[i], place);
    else call.staging().unpack_from(place, elements[i]);
    place += elements[i].bytes();
  }
  return {nullptr, lengths, nullptr, places};
}

template <class Sent, class Received>
void neighbour_exchange(Call& call, Sent&& sent, Received&& received) {
  const Neighbourhood of{call.communicator()};
  const qpmesh_blocks in = neighbour_blocks(call, of.targets(), true, of, std::forward<Sent>(sent));
  const qpmesh_blocks out =
      neighbour_blocks(call, of.sources(), false, of, std::forward<Received>(received));
  run_alltoallv(call, in, out);
}

void neighbor_allgather(Call& call, const void* send, MPI_Count send_count, MPI_Datatype send_type,
                        void* receive, MPI_Count receive_count, MPI_Datatype receive_type) {
  const Elements sent = given(send, send_count, send_type);
  const Elements block = given(receive, receive_count, receive_type);
  neighbour_exchange(
      call, [&](int) { return sent; }, [&](int index) { return block_of(block, index); });
}

void neighbor_allgatherv(Call& call, const void* send, MPI_Count send_count, MPI_Datatype send_type,
                         const Vector& received) {
  const Elements sent = given(send, send_count, send_type);
  neighbour_exchange(
      call, [&](int) { return sent; }, [&](int index) { return received.block(index); });
}

void neighbor_alltoall(Call& call, const void* send, MPI_Count send_count, MPI_Datatype send_type,
                       void* receive, MPI_Count receive_count, MPI_Datatype receive_type) {
  const Elements sent = given(send, send_count, send_type);
  const Elements block = given(receive, receive_count, receive_type);
  neighbour_exchange(
      call, [&](int index) { return block_of(sent, index); },
      [&](int index) { return block_of(block, index); });
}

// v and w.
void neighbor_alltoallv(Call& call, const Vector& sent, const Vector& received) {
  require(sent.data != MPI_IN_PLACE, MPI_ERR_BUFFER, "a neighbourhood has no MPI_IN_PLACE");
  neighbour_exchange(
      call, [&](int index) { return sent.block(index); },
      [&](int index) { return received.block(index); });
}

// The three ways of one collective.
template <class Body>
int collective(const char* function, MPI_Comm comm, Body&& body) {
  return on_communicator(function, comm, [&](Communicator& own) {
    Call call{own};
    body(call);
  });
}
template <class Body>
int begun(const char* function, MPI_Comm comm, MPI_Request* request, bool persistent, Body&& body) {
  return on_communicator(function, comm, [&](Communicator& own) {
    Call call{own, request, persistent};
    body(call);
  });
}

}  // namespace
}  // namespace qpmesh::mpi

using namespace qpmesh::mpi;

QPMESH_MPI_ENTRY(Barrier, (MPI_Comm comm)) { return collective("MPI_Barrier", comm, barrier); }
QPMESH_MPI_ENTRY(Ibarrier, (MPI_Comm comm, MPI_Request* request)) {
  return begun("MPI_Ibarrier", comm, request, false, barrier);
}
QPMESH_MPI_ENTRY(Barrier_init, (MPI_Comm comm, MPI_Info, MPI_Request* request)) {
  return begun("MPI_Barrier_init", comm, request, true, barrier);
}

// Defines a collective in its three ways. parameters: without communicator; use: what it does with
// a Call.
#define QPMESH_MPI_COLLECTIVE(name, beginning, parameters, use)                                    \
  QPMESH_MPI_COUNTED(name, (QPMESH_MPI_LIST parameters, MPI_Comm comm)) {                          \
    return collective(QPMESH_MPI_NAME(name), comm, [&](Call& call) { use; });                      \
  }                                                                                                \
  QPMESH_MPI_COUNTED(beginning,                                                                    \
                     (QPMESH_MPI_LIST parameters, MPI_Comm comm, MPI_Request * request)) {         \
    return begun(QPMESH_MPI_NAME(beginning), comm, request, false, [&](Call& call) { use; });      \
  }                                                                                                \
  QPMESH_MPI_COUNTED(                                                                              \
      name##_init, (QPMESH_MPI_LIST parameters, MPI_Comm comm, MPI_Info, MPI_Request * request)) { \
    return begun(QPMESH_MPI_NAME(name##_init), comm, request, true, [&](Call& call) { use; });     \
  }
#define QPMESH_MPI_LIST(...) __VA_ARGS__

#define QPMESH_MPI_ENTRIES "collectives.inc"
#include "counted_entries.inc"
