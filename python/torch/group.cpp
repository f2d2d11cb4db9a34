// SPDX-License-Identifier: MIT
#include "group.hpp"

#include <algorithm>
#include <climits>
#include <cstring>
#include <exception>
#include <functional>
#include <optional>
#include <random>
#include <string_view>
#include <thread>
#include <utility>

namespace qpmesh_torch {
namespace {

using std::chrono::milliseconds;

// all_gather over a store: rank 0 collects what all have set, and sets it as one, so that the
// store sees about four requests a rank. The store may hold keys of an earlier attempt, whose ranks
// are gone: torchrun keeps one store for all its restarts. So each meeting has a nonce of rank 0's,
// which is part of all its keys, and each rank a nonce of its own, by which it knows that rank 0
// answers it. A value begins with the size of the world as its rank sees it; an answer that begins
// with 0 says why rank 0 gave up.
class Meeting {
 public:
  Meeting(c10d::Store& store, int rank, int size, const std::string& name)
      : store_{store}, rank_{rank}, size_{size}, doing_{"init", 0, &name}, own_{fresh_nonce()} {}

  std::string all_gather(std::string_view mine, milliseconds limit) {
    deadline_ = Clock::now() + limit;
    std::string all = rank_ == 0 ? collect(mine) : join(mine);
    ++round_;
    return all;
  }

 private:
  using Clock = std::chrono::steady_clock;
  static constexpr std::size_t nonce_bytes = 16;
  // Between two looks whether the rank that is missing has another backend, or rank 0 came anew.
  static constexpr milliseconds look_after{200};
  static constexpr const char* nonce_key = "qpmesh/nonce";

  static std::string fresh_nonce() {
    std::random_device random;
    std::string nonce;
    while (nonce.size() < nonce_bytes) nonce += "0123456789abcdef"[random() % 16];
    return nonce;
  }

  std::string collect(std::string_view mine) {
    if (round_ == 0) set(nonce_key, nonce_ = own_);
    const std::size_t bytes = nonce_bytes + mine.size();
    std::string answer = with_size(size_) + own_ + std::string{mine};
    try {
      for (int peer = 1; peer < size_; ++peer) {
        const std::string value = *get(key(peer), peer);
        require_one_size(size_, peer, size_in(value));
        if (value.size() != sizeof(int) + bytes) {
          throw_error(doing_, QPMESH_CORRUPT,
                      "rank " + std::to_string(peer) + " gave " + std::to_string(value.size()) +
                          " bytes, rank 0 " + std::to_string(sizeof(int) + bytes),
                      "ranks of different versions cannot meet");
        }
        answer += value.substr(sizeof(int));
      }
    } catch (const Error& error) {  // the others need not find out by themselves
      set(key(),
          with_size(0) + static_cast<char>(error.code()) + error.cause() + '\n' + error.hint());
      throw;
    }
    set(key(), answer);
    return without_nonces(answer, bytes);
  }

  std::string join(std::string_view mine) {
    const std::size_t bytes = nonce_bytes + mine.size();
    for (;;) {
      if (round_ == 0) nonce_ = *get(nonce_key, 0);
      const bool was_answered = has(key());
      set(key(rank_), with_size(size_) + own_ + std::string{mine});
      const std::optional<std::string> answer = get(key(), 0);
      if (!answer) continue;  // rank 0 came anew
      const int size = size_in(*answer);
      const auto answers = [&](std::string_view nonce) {
        const std::size_t at = sizeof size + static_cast<std::size_t>(rank_) * bytes;
        return answer->size() >= at + nonce_bytes &&
               std::string_view{*answer}.substr(at, nonce_bytes) == nonce;
      };
      if (answers(own_)) {
        require_one_size(size, rank_, size_);
        return without_nonces(*answer, bytes);
      }
      // An answer that is older than this rank may be one of an earlier attempt.
      if (was_answered && rank_0_came_anew()) continue;
      if (size == 0 && answer->size() > sizeof size) {
        const std::string text = answer->substr(sizeof size + 1);
        const std::size_t line_end = std::min(text.find('\n'), text.size() - 1);
        throw_error(doing_, static_cast<qpmesh_code>((*answer)[sizeof size]),
                    text.substr(0, line_end), text.substr(line_end + 1));
      }
      require_one_size(size, rank_, size_);
      throw_twice(rank_);
    }
  }

  // Waits for that.
  bool rank_0_came_anew() {
    while (Clock::now() < deadline_) {
      if (nonce_changed()) return true;
      std::this_thread::sleep_for(look_after / 4);
    }
    return false;
  }
  bool nonce_changed() { return round_ == 0 && now(nonce_key) != nonce_; }

  // Null: rank 0 came anew meanwhile, and nobody answers under this nonce.
  std::optional<std::string> get(const std::string& key, int peer) {
    for (;;) {
      const auto left = std::chrono::ceil<milliseconds>(deadline_ - Clock::now());
      if (left <= milliseconds{0}) missing(peer);
      const auto begin = Clock::now();
      const auto limit = std::min(left, look_after);
      try {
        store_.wait({key}, limit);
        return now(key);
      } catch (const std::exception& error) {
        if (Clock::now() - begin < limit) store_failed(error);
      }
      // gloo's first context sets one of these keys first. Other keys of the group's prefix are
      // ours.
      const std::string number = std::to_string(peer);
      if (has("0/" + number) || has("0/rank_" + number)) {
        throw_error(doing_, QPMESH_MISMATCH,
                    "rank " + number + " is in this group with the backend gloo",
                    "give all ranks of a group the same backend");
      }
      if (key == nonce_key || !nonce_changed()) continue;
      if (rank_ == 0) throw_twice(0);
      return std::nullopt;
    }
  }

  // ---- the store ----
  template <class F>
  auto guarded(F&& request) {
    try {
      return request();
    } catch (const std::exception& error) {
      store_failed(error);
    }
  }
  void set(const std::string& key, const std::string& value) {
    guarded([&] { store_.set(key, value); });
  }
  bool has(const std::string& key) {
    return guarded([&] { return store_.check({key}); });
  }
  std::string now(const std::string& key) {
    const auto value = guarded([&] { return store_.get(key); });
    return {value.begin(), value.end()};
  }
  std::string key() const { return "qpmesh/" + nonce_ + '/' + std::to_string(round_); }
  std::string key(int rank) const { return key() + '/' + std::to_string(rank); }

  static std::string with_size(int size) {
    return {reinterpret_cast<const char*>(&size), sizeof size};
  }
  static int size_in(const std::string& value) noexcept {
    int size = -1;
    if (value.size() >= sizeof size) std::memcpy(&size, value.data(), sizeof size);
    return size;
  }
  std::string without_nonces(const std::string& answer, std::size_t bytes) const {
    std::string all;
    for (std::size_t at = sizeof(int); at < answer.size(); at += bytes)
      all += answer.substr(at + nonce_bytes, bytes - nonce_bytes);
    return all;
  }

  // ---- errors ----
  [[noreturn]] void store_failed(const std::exception& error) const {
    const std::string text = error.what();
    throw_error(doing_, QPMESH_INTERNAL, "the store failed: " + text.substr(0, text.find('\n')),
                "the process that serves it (rank 0, or torchrun's agent) must live, and a "
                "store that was closed serves nobody");
  }
  void require_one_size(int of_root, int peer, int of_peer) const {
    if (of_root == of_peer) return;
    throw_error(doing_, QPMESH_MISMATCH,
                "the world has " + std::to_string(of_root) + " ranks for rank 0, and " +
                    std::to_string(of_peer) + " for rank " + std::to_string(peer),
                "give all ranks the same world_size (WORLD_SIZE)");
  }
  [[noreturn]] void throw_twice(int rank) const {
    throw_error(doing_, QPMESH_BAD_CONFIG,
                "rank " + std::to_string(rank) + " was there already in this store",
                "give each process a rank of its own; after a restart rank 0 must come, too");
  }
  [[noreturn]] void missing(int peer) const {
    throw_error(doing_, QPMESH_TIMEOUT,
                "rank " + std::to_string(peer) + " of " + std::to_string(size_) +
                    (rank_ == 0 ? " has not come to the store" : " has not answered in the store"),
                "it may have ended, wait in another call, or have another backend; the limit is "
                "the group's timeout");
  }

  c10d::Store& store_;
  const int rank_;
  const int size_;
  const Doing doing_;
  const std::string own_;
  std::string nonce_;  // rank 0's
  int round_ = 0;
  Clock::time_point deadline_;
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
  if (pieces_.load() > 0 || waiting_.load() > 0) return;
  qpmesh_communicator_free(std::exchange(communicator_, nullptr));
}

qpmesh_communicator* Group::communicator(const Doing& doing) const {
  if (communicator_ != nullptr) return communicator_;
  bad_argument(doing, "the group was left", "make it again by init_process_group or new_group");
}

int Group::timeout_ms(milliseconds limit) const noexcept {
  return limited_ms(limit.count() > 0 ? limit : timeout());
}

void Group::failed(int code) noexcept {
  switch (code) {
    case QPMESH_OK:
    case QPMESH_BAD_ARGUMENT:
    case QPMESH_TRUNCATED: return;
    case QPMESH_TIMEOUT: last_failure_ = 1; return;
    case QPMESH_PEER_DEAD:
    case QPMESH_ABORTED: last_failure_ = 3; return;
    default: last_failure_ = 2; return;
  }
}

namespace {

void require_timeout(const Doing& doing, milliseconds timeout) {
  if (timeout.count() <= 0)
    bad_argument(doing, "a timeout of " + std::to_string(timeout.count()) + " ms", "give one");
}

}  // namespace

void Group::set_timeout(milliseconds timeout) {
  require_timeout({"set_timeout", 0, &name_}, timeout);
  timeout_ = timeout;
}

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
  struct Seam {
    Meeting* meeting;
    std::exception_ptr error;
  } seam{&meeting, nullptr};
  const auto all_gather = [](void* context, const void* mine, std::size_t bytes, void* all,
                             int timeout_ms) -> int {
    auto& of = *static_cast<Seam*>(context);
    try {
      const std::string gathered =
          of.meeting->all_gather({static_cast<const char*>(mine), bytes}, milliseconds{timeout_ms});
      std::memcpy(all, gathered.data(), gathered.size());
      return 0;
    } catch (...) {
      of.error = std::current_exception();
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
  std::shared_ptr<Group> group = make(name, world, timeout);
  // No rank returns, and ends the store with its process perhaps, while another one reads there.
  const qpmesh_call call{.struct_bytes = sizeof call, .timeout_ms = limited_ms(timeout)};
  require_ok(qpmesh_barrier(world, &call), doing);
  return group;
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
