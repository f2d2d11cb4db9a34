#include "group.hpp"

#include <algorithm>
#include <climits>
#include <cstring>
#include <exception>
#include <functional>
#include <utility>

namespace qpmesh_torch {
namespace {

using std::chrono::milliseconds;

// all_gather over a store: rank 0 collects what all have set, and sets it as one, so that the
// store sees 3 requests a rank. A value begins with the size of the world as its rank sees it; one
// that begins with 0 says why rank 0 gave up.
class Meeting {
 public:
  Meeting(c10d::Store& store, int rank, int size, const std::string& name)
      : store_{store}, rank_{rank}, size_{size}, doing_{"init", 0, &name} {}

  // Two processes of one rank would take each other's values for their own.
  void claim_rank() {
    int64_t count = 0;
    guarded([&] { count = store_.add("qpmesh/rank/" + std::to_string(rank_), 1); });
    if (count == 1) return;
    throw_error(doing_, QPMESH_BAD_CONFIG,
                "rank " + std::to_string(rank_) + " was there already in this store",
                "give each process a rank of its own, and each init a store, or a prefix, that "
                "was not used before");
  }

  std::vector<char> all_gather(const char* mine, std::size_t bytes, milliseconds limit) {
    const auto deadline = Clock::now() + limit;
    const std::string round = "qpmesh/" + std::to_string(round_++);
    if (rank_ != 0) {
      set(round + "/" + std::to_string(rank_), size_, mine, bytes);
      return answer_of_root(get(round, 0, deadline));
    }
    try {
      std::vector<char> all = collect(round, mine, bytes, deadline);
      set(round, size_, all.data(), all.size());
      return all;
    } catch (const Error& error) {  // the others need not find out by themselves
      const std::string text =
          static_cast<char>(error.code()) + error.cause() + '\n' + error.hint();
      set(round, 0, text.data(), text.size());
      throw;
    }
  }

 private:
  using Clock = std::chrono::steady_clock;
  using Value = std::vector<std::uint8_t>;
  // In between it is seen whether the one who is missing has another backend.
  static constexpr milliseconds look_after{500};

  template <class F>
  void guarded(F&& request) {
    try {
      request();
    } catch (const std::exception& error) {
      throw_error(doing_, QPMESH_INTERNAL, std::string{"the store failed: "} + first_line(error),
                  "the process that serves it (rank 0, or torchrun's agent) must live, and a "
                  "store that was closed serves nobody");
    }
  }
  static std::string first_line(const std::exception& error) {
    const std::string text = error.what();
    return text.substr(0, text.find('\n'));
  }
  static int size_in(const Value& value) noexcept {
    int size = -1;
    if (value.size() >= sizeof size) std::memcpy(&size, value.data(), sizeof size);
    return size;
  }

  void set(const std::string& key, int size, const char* data, std::size_t bytes) {
    Value value(sizeof size + bytes);
    std::memcpy(value.data(), &size, sizeof size);
    if (bytes > 0) std::memcpy(value.data() + sizeof size, data, bytes);
    guarded([&] { store_.set(key, value); });
  }

  std::vector<char> collect(const std::string& round, const char* mine, std::size_t bytes,
                            Clock::time_point deadline) {
    std::vector<char> all(mine, mine + bytes);
    for (int peer = 1; peer < size_; ++peer) {
      const auto value = get(round + "/" + std::to_string(peer), peer, deadline);
      require_one_size(size_, peer, size_in(value));
      if (value.size() != sizeof(int) + bytes) {
        throw_error(doing_, QPMESH_CORRUPT,
                    "rank " + std::to_string(peer) + " gave " +
                        std::to_string(value.size() - sizeof(int)) + " bytes, rank 0 " +
                        std::to_string(bytes),
                    "ranks of different versions cannot meet");
      }
      all.insert(all.end(), value.begin() + sizeof(int), value.end());
    }
    return all;
  }

  std::vector<char> answer_of_root(const Value& value) {
    const int size = size_in(value);
    if (value.size() < sizeof size) {
      throw_error(doing_, QPMESH_CORRUPT,
                  "rank 0 answered " + std::to_string(value.size()) + " bytes in the store",
                  "give each group a store, or a prefix of one, that nobody else uses");
    }
    std::vector<char> all(value.begin() + sizeof(int), value.end());
    if (size == 0 && !all.empty()) {
      const auto line_end = std::find(all.begin() + 1, all.end(), '\n');
      throw_error(doing_, static_cast<qpmesh_code>(all.front()), {all.begin() + 1, line_end},
                  {line_end + (line_end != all.end() ? 1 : 0), all.end()});
    }
    require_one_size(size, rank_, size_);
    return all;
  }

  void require_one_size(int of_root, int peer, int of_peer) {
    if (of_root == of_peer) return;
    throw_error(doing_, QPMESH_MISMATCH,
                "the world has " + std::to_string(of_root) + " ranks for rank 0, and " +
                    std::to_string(of_peer) + " for rank " + std::to_string(peer),
                "give all ranks the same world_size (WORLD_SIZE)");
  }

  Value get(const std::string& key, int peer, Clock::time_point deadline) {
    for (;;) {
      const auto left = std::chrono::ceil<milliseconds>(deadline - Clock::now());
      if (left <= milliseconds{0}) missing(peer);
      const auto begin = Clock::now();
      const auto limit = std::min(left, look_after);
      try {
        store_.wait({key}, limit);
      } catch (const std::exception& error) {
        if (Clock::now() - begin < limit) guarded([] { throw; });
        if (uses_gloo(peer)) {
          throw_error(doing_, QPMESH_MISMATCH,
                      "rank " + std::to_string(peer) + " is in this group with the backend gloo",
                      "give all ranks of a group the same backend");
        }
        continue;
      }
      Value value;
      guarded([&] { value = store_.get(key); });
      return value;
    }
  }

  [[noreturn]] void missing(int peer) {
    throw_error(doing_, QPMESH_TIMEOUT,
                "rank " + std::to_string(peer) + " of " + std::to_string(size_) +
                    (rank_ == 0 ? " has not come to the store" : " has not answered in the store"),
                "it may have ended, wait in another call, or have another backend; the limit is "
                "the group's timeout");
  }

  // What the first context of gloo sets first; other keys of the group's prefix are ours.
  bool uses_gloo(int peer) {
    bool found = false;
    guarded([&] { found = store_.check({"0/rank_" + std::to_string(peer)}); });
    return found;
  }

  c10d::Store& store_;
  const int rank_;
  const int size_;
  const Doing doing_;
  int round_ = 0;
};

int limited_ms(milliseconds limit) noexcept {
  return static_cast<int>(std::clamp<std::int64_t>(limit.count(), 1, INT_MAX));
}

}  // namespace

Group::Group(std::string name, qpmesh_communicator* communicator, milliseconds timeout)
    : name_{std::move(name)},
      communicator_{communicator},
      timeout_{timeout},
      rank_{qpmesh_rank(communicator)},
      size_{qpmesh_size(communicator)},
      background_{Background::of_process()} {}

std::shared_ptr<Group> Group::make(std::string name, qpmesh_communicator* communicator,
                                   milliseconds timeout) {
  std::shared_ptr<Group> group{new Group{std::move(name), communicator, timeout}};
  group->background_.add(group);
  return group;
}

Group::~Group() { leave(); }

void Group::leave() noexcept {
  if (pieces_.load() > 0) return;
  qpmesh_communicator_free(std::exchange(communicator_, nullptr));
}

qpmesh_communicator* Group::communicator(const Doing& doing) const {
  if (communicator_ != nullptr) return communicator_;
  bad_argument(doing, "the group was left", "make it again by init_process_group or new_group");
}

int Group::timeout_ms(milliseconds limit) const noexcept {
  return limited_ms(limit.count() > 0 ? limit : timeout_);
}

namespace {

void require_timeout(const Doing& doing, milliseconds timeout) {
  if (timeout.count() <= 0)
    bad_argument(doing, "a timeout of " + std::to_string(timeout.count()) + " ms", "give one");
}

}  // namespace

std::shared_ptr<Group> Group::meet(const c10::intrusive_ptr<c10d::Store>& store, int rank, int size,
                                   const std::string& name, milliseconds timeout,
                                   const std::vector<std::string>& settings) {
  const Doing doing{"init", 0, &name};
  if (size < 1 || rank < 0 || rank >= size) {
    bad_argument(doing, "rank " + std::to_string(rank) + " of " + std::to_string(size),
                 "ranks are 0 to world_size - 1");
  }
  require_timeout(doing, timeout);
  Meeting meeting{*store, rank, size, name};
  meeting.claim_rank();
  struct Seam {
    Meeting* meeting;
    std::exception_ptr error;
  } seam{&meeting, nullptr};
  const auto all_gather = [](void* context, const void* mine, std::size_t bytes, void* all,
                             int timeout_ms) -> int {
    auto& seam = *static_cast<Seam*>(context);
    try {
      const auto gathered =
          seam.meeting->all_gather(static_cast<const char*>(mine), bytes, milliseconds{timeout_ms});
      std::memcpy(all, gathered.data(), gathered.size());
      return 0;
    } catch (...) {
      seam.error = std::current_exception();
      return 1;
    }
  };
  const qpmesh_bootstrap bootstrap{
      .rank = rank, .size = size, .all_gather = all_gather, .context = &seam, .address = nullptr};
  std::vector<std::string> texts{
      "QPMESH_THREADS=several",  // autograd calls from threads of its own
      "QPMESH_INIT_TIMEOUT_MS=" + std::to_string(limited_ms(timeout)),
      "QPMESH_TIMEOUT_MS=" + std::to_string(limited_ms(timeout))};
  texts.insert(texts.end(), settings.begin(), settings.end());
  std::vector<const char*> options;
  options.reserve(texts.size() + 1);
  for (const std::string& text : texts) options.push_back(text.c_str());
  options.push_back(nullptr);
  qpmesh_communicator* world = nullptr;
  const int code = qpmesh_init_with(options.data(), &bootstrap, &world);
  if (seam.error) std::rethrow_exception(seam.error);
  require_ok(code, doing);
  return make(name, world, timeout);
}

std::shared_ptr<Group> Group::subgroup(const std::vector<int>& ranks, const std::string& name,
                                       milliseconds timeout) const {
  const Doing doing{"new_group", 0, &name};
  require_timeout(doing, timeout);
  const qpmesh_call call{.struct_bytes = sizeof call, .timeout_ms = limited_ms(timeout)};
  // Groups of the same ranks that are made at a time are told apart by their names.
  const int tag = static_cast<int>(std::hash<std::string>{}(name)&INT_MAX);
  qpmesh_communicator* group = nullptr;
  require_ok(qpmesh_subgroup(communicator(doing), ranks.data(), ranks.size(), tag, &call, &group),
             doing);
  return make(name, group, timeout);
}

}  // namespace qpmesh_torch
