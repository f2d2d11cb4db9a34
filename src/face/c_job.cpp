// SPDX-License-Identifier: MIT
// For C: how a rank joins and leaves, its groups, and memory that peers reach.
#include <algorithm>
#include <atomic>
#include <cstdlib>
#include <cstring>
#include <string>

#include "base/options_table.hpp"
#include "base/system.hpp"
#include "calls/pending_operation.hpp"
#include "face/c_interface.hpp"
#include "qpmesh/interrupt.hpp"

namespace {

using namespace qpmesh;
using namespace qpmesh::face;

static_assert(no_color == QPMESH_NO_COLOR && no_rank == QPMESH_NO_RANK);
static_assert(static_cast<int>(Collective::exscan) == QPMESH_EXSCAN);
static_assert(static_cast<int>(Collective::allreduce) == QPMESH_ALLREDUCE);

// A caller's gather of equal lengths, for blobs of any length: each begins with its length, and
// what does not fit beside that comes in a second one. A gather may take its caller milliseconds.
class CallersBootstrap final : public Bootstrap {
 public:
  explicit CallersBootstrap(const qpmesh_bootstrap& own) : own_{own} {
    if (own.all_gather == nullptr)
      bad_argument("init", "give the function that gathers", "all_gather is null");
    if (own.size < 1 || own.rank < 0 || own.rank >= own.size)
      bad_argument("init", "ranks are 0 to size - 1", "the bootstrap has rank {} of {}", own.rank,
                   own.size);
  }

  int rank() const override { return own_.rank; }
  int size() const override { return own_.size; }
  std::string local_address() const override { return own_.address == nullptr ? "" : own_.address; }

  std::vector<Blob> all_gather(BlobView mine, Deadline deadline) override {
    const auto ranks = static_cast<std::size_t>(own_.size);
    const std::uint64_t length = mine.size();
    const std::size_t head = std::min(mine.size(), head_bytes);
    std::vector<std::byte> first(first_bytes);
    std::memcpy(first.data(), &length, sizeof length);
    std::ranges::copy(mine.first(head), first.begin() + sizeof length);
    std::vector<std::byte> firsts(first_bytes * ranks);
    gather(first.data(), first_bytes, firsts.data(), deadline);
    std::vector<std::uint64_t> lengths(ranks);
    for (std::size_t rank = 0; rank < ranks; ++rank) {
      std::memcpy(&lengths[rank], &firsts[rank * first_bytes], sizeof length);
      if (lengths[rank] > blob_bytes_max ||
          (static_cast<int>(rank) == own_.rank && lengths[rank] != length)) {
        base::throw_error({ErrorCode::corrupt, static_cast<int>(rank)}, "init",
                          "all[r * bytes] on lies what rank r gave",
                          "the bootstrap's all_gather says that the rank gave {} bytes",
                          lengths[rank]);
      }
    }
    const std::size_t longest = std::ranges::max(lengths);
    const std::size_t rest_bytes = longest - std::min(longest, head_bytes);
    Blob rest{mine.begin() + static_cast<std::ptrdiff_t>(head), mine.end()};
    rest.resize(rest_bytes);
    std::vector<std::byte> rests(rest_bytes * ranks);
    if (rest_bytes > 0) gather(rest.data(), rest_bytes, rests.data(), deadline);
    std::vector<Blob> blobs;
    for (std::size_t rank = 0; rank < ranks; ++rank) {
      const std::size_t in_first = std::min<std::size_t>(lengths[rank], head_bytes);
      const auto begin = std::span{firsts}.subspan(rank * first_bytes + sizeof length, in_first);
      const auto end = std::span{rests}.subspan(rank * rest_bytes, lengths[rank] - in_first);
      Blob& blob = blobs.emplace_back(begin.begin(), begin.end());
      blob.insert(blob.end(), end.begin(), end.end());
    }
    return blobs;
  }

 private:
  static constexpr std::size_t blob_bytes_max = 64 * 1024;  // of Bootstrap
  // Those of init without RDMA are shorter.
  static constexpr std::size_t head_bytes = 1016;
  static constexpr std::size_t first_bytes = sizeof(std::uint64_t) + head_bytes;

  void gather(const void* mine, std::size_t bytes, void* all, Deadline deadline) {
    const base::System system;
    const int left_ms = base::remaining_ms(system, deadline, INT32_MAX);
    const int result = own_.all_gather(own_.context, mine, bytes, all, left_ms);
    if (result == 0) return;
    const bool late = base::remaining_ms(system, deadline) <= 0;
    base::throw_error({late ? ErrorCode::timeout : ErrorCode::internal}, "init",
                      "it returns 0 when all ranks have gathered",
                      "the bootstrap's all_gather returned {}", result);
  }

  const qpmesh_bootstrap& own_;
};

// NAME=value texts, and the environment for what they do not name.
Options read_options(const char* const* settings) {
  std::vector<std::string_view> texts;
  for (; settings != nullptr && *settings != nullptr; ++settings) texts.emplace_back(*settings);
  return base::options_of(texts);
}

// Stores the group that make() makes.
template <class Make>
int make_group(qpmesh_communicator* world, std::string_view operation, const qpmesh_call* call,
               qpmesh_communicator** group, Make&& make) {
  return guarded(operation, [&] {
    auto& parent = required_world(world, operation);
    auto& made = required(group, "group", operation);
    made =
        new qpmesh_communicator{make(parent.communicator, read_blocking(call, operation).options)};
  });
}

// The same, when the request has ended that begin() returns.
template <class Begin>
int begin_group(qpmesh_communicator* world, std::string_view operation, const qpmesh_call* call,
                qpmesh_communicator** group, qpmesh_request** request, Begin&& begin) {
  return guarded(operation, [&] {
    auto& parent = required_world(world, operation);
    auto& made = required(group, "group", operation);
    auto& begun = required(request, "request", operation);
    const Asked asked = read_call(call, operation);
    if (asked.prepared) bad_argument(operation, "begin it each time", "a group that is prepared");
    auto own = std::make_unique<qpmesh_request>();
    const Access::Take take = [&made](Communicator&& own_group) {
      made = new qpmesh_communicator{std::move(own_group)};
    };
    qpmesh_communicator* const before = std::exchange(made, nullptr);  // it may be made in begin
    try {
      own->started = begin(parent.communicator, take, asked.options);
    } catch (...) {
      made = before;
      throw;
    }
    begun = own.release();
  });
}

// Keeps what was allocated until it is freed, or its communicator goes.
void keep(qpmesh_communicator& world, Access::Allocated made, void*& data) {
  const progress::HeldTurn turn{Access::state(world.communicator)->context().turn()};
  world.allocated.emplace(made.second, std::move(made.first));
  data = made.second;
}

std::shared_ptr<context::Allocation>& allocation_at(qpmesh_communicator& world, const void* data,
                                                    std::string_view operation) {
  const auto found = world.allocated.find(data);
  if (found == world.allocated.end()) {
    bad_argument(operation, "give what qpmesh_allocate stored, of this communicator, once",
                 "nothing is allocated at {}", data);
  }
  return found->second;
}

}  // namespace

int qpmesh_init(qpmesh_communicator** world) { return qpmesh_init_with(nullptr, nullptr, world); }

int qpmesh_init_with(const char* const* options, const qpmesh_bootstrap* bootstrap,
                     qpmesh_communicator** world) {
  return guarded("init", [&] {
    if (world == nullptr) bad_argument("init", "give the address of a pointer", "world is null");
    const Options own = read_options(options);
    if (bootstrap == nullptr) {
      *world = new qpmesh_communicator{init(own)};
      return;
    }
    CallersBootstrap callers{*bootstrap};
    *world = new qpmesh_communicator{init(callers, own)};
  });
}

int qpmesh_finalize(qpmesh_communicator* world, const qpmesh_call* call) {
  const int code = guarded("finish", [&] {
    const Asked asked = read_blocking(call, "finish");
    if (world != nullptr) world->communicator.finish(asked.options);
  });
  delete world;
  return code;
}

int qpmesh_communicator_free(qpmesh_communicator* world) {
  delete world;
  return QPMESH_OK;
}

int qpmesh_abort(qpmesh_communicator* world, const char* reason) {
  return guarded("abort", [&] {
    required_world(world, "abort").communicator.abort(reason == nullptr ? "" : reason);
  });
}

int qpmesh_progress(qpmesh_communicator* world) {
  return guarded("progress", [&] { required_world(world, "progress").communicator.progress(); });
}

void qpmesh_set_interrupt_check(int (*is_interrupted)(void)) {
  static std::atomic<int (*)(void)> asked{nullptr};  // as in base/interrupt.cpp
  asked.store(is_interrupted, std::memory_order_release);
  if (is_interrupted == nullptr) return set_interrupt_check(nullptr);
  set_interrupt_check([]() noexcept {
    auto* const ask = asked.load(std::memory_order_acquire);
    return ask != nullptr && ask() != 0;
  });
}

int qpmesh_wait_fd(qpmesh_communicator* world, int* fd) {
  return guarded("wait_fd", [&] {
    auto& own = required_world(world, "wait_fd");
    auto& told = required(fd, "fd", "wait_fd");
    told = own.communicator.wait_fd();
  });
}

int qpmesh_arm_wait(qpmesh_communicator* world, int* timeout_ms) {
  return guarded("arm_wait", [&] {
    auto& own = required_world(world, "arm_wait");
    auto& told = required(timeout_ms, "timeout_ms", "arm_wait");
    told = static_cast<int>(own.communicator.arm_wait().count());
  });
}

int qpmesh_rank(const qpmesh_communicator* world) {
  int rank = -1;
  guarded("rank", [&] { rank = required_world(world, "rank").communicator.rank(); });
  return rank;
}

int qpmesh_size(const qpmesh_communicator* world) {
  int size = -1;
  guarded("size", [&] { size = required_world(world, "size").communicator.size(); });
  return size;
}

int qpmesh_explain(const qpmesh_communicator* world, int collective, size_t bytes,
                   qpmesh_candidate* candidates, size_t count_max, size_t* count) {
  return guarded("explain", [&] {
    const auto& asked = required_world(world, "explain");
    if (count_max > 0) required(candidates, "candidates", "explain");
    auto& found = required(count, "count", "explain");
    if (collective < 0 || static_cast<std::size_t>(collective) >= collective_count)
      bad_argument("explain", "take QPMESH_ALLREDUCE or one of its like",
                   "collective {} does not exist", collective);
    const auto all = asked.communicator.explain(static_cast<Collective>(collective), bytes);
    for (std::size_t i = 0; i < std::min(count_max, all.size()); ++i) {
      // The names of algorithms are literals.
      candidates[i] = {all[i].algorithm.data(), all[i].applies,     all[i].chosen,
                       all[i].predicted_us,     all[i].measured_us, all[i].samples};
    }
    found = all.size();
  });
}

int qpmesh_allocate(qpmesh_communicator* world, size_t bytes, const qpmesh_call* call,
                    void** data) {
  return guarded("allocate", [&] {
    auto& own = required_world(world, "allocate");
    auto& made = required(data, "data", "allocate");
    // Of no bytes it has an address of its own, too.
    keep(own,
         Access::allocate(own.communicator, std::max<std::size_t>(bytes, 1),
                          read_blocking(call, "allocate").options),
         made);
  });
}

int qpmesh_allocate_here(qpmesh_communicator* world, size_t bytes, void** data) {
  return guarded("allocate_here", [&] {
    auto& own = required_world(world, "allocate_here");
    auto& made = required(data, "data", "allocate_here");
    keep(own, Access::allocate_here(own.communicator, std::max<std::size_t>(bytes, 1)), made);
  });
}

int qpmesh_view_of(qpmesh_communicator* world, const void* data, int rank, const void** view) {
  return guarded("view_of", [&] {
    auto& own = required_world(world, "view_of");
    auto& seen = required(view, "view", "view_of");
    const progress::HeldTurn turn{Access::state(own.communicator)->context().turn()};
    seen = detail::view_of(allocation_at(own, data, "view_of").get(), rank);
  });
}

int qpmesh_free(qpmesh_communicator* world, void* data) {
  return guarded("free", [&] {
    if (data == nullptr) return;
    auto& own = required_world(world, "free");
    const calls::CallScope scope{Access::state(own.communicator)->context(), "free"};
    allocation_at(own, data, "free");
    own.allocated.erase(data);
  });
}

int qpmesh_split(qpmesh_communicator* world, int color, int key, const qpmesh_call* call,
                 qpmesh_communicator** group) {
  return guarded("split", [&] {
    auto& parent = required_world(world, "split");
    auto& made = required(group, "group", "split");
    auto own = parent.communicator.split(color, key, read_blocking(call, "split").options);
    made = own ? new qpmesh_communicator{std::move(*own)} : nullptr;
  });
}

int qpmesh_split_async(qpmesh_communicator* world, int color, int key, const qpmesh_call* call,
                       qpmesh_communicator** group, qpmesh_request** request) {
  return begin_group(world, "split_async", call, group, request,
                     [&](Communicator& of, const Access::Take& take, const CallOptions& options) {
                       return Access::split(of, take, color, key, options);
                     });
}

int qpmesh_duplicate_async(qpmesh_communicator* world, const qpmesh_call* call,
                           qpmesh_communicator** group, qpmesh_request** request) {
  return begin_group(world, "duplicate_async", call, group, request,
                     [](Communicator& of, const Access::Take& take, const CallOptions& options) {
                       return Access::duplicate(of, take, options);
                     });
}

int qpmesh_split_node(qpmesh_communicator* world, int key, const qpmesh_call* call,
                      qpmesh_communicator** group) {
  return make_group(
      world, "split_node", call, group,
      [&](Communicator& of, const CallOptions& options) { return of.split_node(key, options); });
}

int qpmesh_duplicate(qpmesh_communicator* world, const qpmesh_call* call,
                     qpmesh_communicator** group) {
  return make_group(
      world, "duplicate", call, group,
      [](Communicator& of, const CallOptions& options) { return of.duplicate(options); });
}

int qpmesh_independent(qpmesh_communicator* world, const qpmesh_call* call,
                       qpmesh_communicator** group) {
  return make_group(
      world, "independent", call, group,
      [](Communicator& of, const CallOptions& options) { return of.independent(options); });
}

int qpmesh_subgroup(qpmesh_communicator* world, const int* ranks, size_t count, int tag,
                    const qpmesh_call* call, qpmesh_communicator** group) {
  return make_group(world, "subgroup", call, group,
                    [&](Communicator& of, const CallOptions& options) {
                      if (count > 0) required(ranks, "ranks", "subgroup");
                      return of.subgroup({ranks, count}, tag, options);
                    });
}

int qpmesh_self(qpmesh_communicator* world, qpmesh_communicator** group) {
  return make_group(world, "self", nullptr, group,
                    [](Communicator& of, const CallOptions&) { return of.self(); });
}

int qpmesh_ranks_in(const qpmesh_communicator* world, const qpmesh_communicator* other,
                    int* ranks) {
  return guarded("ranks_in", [&] {
    const auto& own = required_world(world, "ranks_in");
    const auto& others = required(other, "other", "ranks_in");
    required(ranks, "ranks", "ranks_in");
    std::ranges::copy(own.communicator.ranks_in(others.communicator), ranks);
  });
}
