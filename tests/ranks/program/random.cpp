// SPDX-License-Identifier: MIT
// Random operations in flight together, from a seed: every rank draws the same plan, and knows what
// must arrive. Where a rank's own memory lies is its own draw: private at any alignment, or in a
// Buffer.
#include <algorithm>
#include <deque>
#include <functional>
#include <numeric>
#include <random>

#include "program/scenario.hpp"

namespace qpmesh::ranks {
namespace {

constexpr std::size_t in_flight_max = 16;
constexpr std::size_t alignments = 64;

struct Draws {
  std::mt19937_64 engine;

  std::size_t below(std::size_t limit) { return engine() % limit; }
  // As many small ones as large ones in each power of two, up to 64 KiB; one of 256 up to 1 MiB.
  std::size_t bytes() { return below((std::size_t{1} << below(below(256) == 0 ? 21 : 17)) + 1); }
};

// Pieces of one Buffer, for ranges that peers can read and write where they lie.
class Pool {
 public:
  static constexpr std::size_t piece_bytes = std::size_t{512} << 10;
  static constexpr std::size_t piece_count = 24;

  explicit Pool(Communicator& world)
      : memory_{world.allocate<std::uint8_t>(piece_bytes * piece_count)} {
    for (std::size_t piece = 0; piece < piece_count; ++piece) free_.push_back(piece);
  }
  // nullptr: all are taken.
  std::uint8_t* take() {
    if (free_.empty()) return nullptr;
    const std::size_t piece = free_.back();
    free_.pop_back();
    return memory_.data() + piece * piece_bytes;
  }
  void give_back(const std::uint8_t* piece) {
    free_.push_back(static_cast<std::size_t>(piece - memory_.data()) / piece_bytes);
  }

 private:
  Buffer<std::uint8_t> memory_;
  std::vector<std::size_t> free_;
};

// A range of this rank's, with bytes around it that nobody may touch where it is private.
class Range {
 public:
  Range() = default;
  Range(Pool& pool, Draws& own, std::size_t bytes, std::size_t align)
      : pool_{&pool}, bytes_{bytes} {
    if (bytes <= Pool::piece_bytes && own.below(3) == 0) piece_ = pool.take();
    if (piece_ != nullptr) return;
    offset_ = alignments + own.below(alignments) / align * align;
    private_.assign(offset_ + bytes + alignments, untouched);
  }
  Range(Range&& other) noexcept { *this = std::move(other); }
  Range& operator=(Range&& other) noexcept {
    std::swap(pool_, other.pool_);
    std::swap(bytes_, other.bytes_);
    std::swap(piece_, other.piece_);
    std::swap(offset_, other.offset_);
    private_.swap(other.private_);  // its memory stays where it is
    return *this;
  }
  ~Range() {
    if (piece_ != nullptr) pool_->give_back(piece_);
  }

  std::span<std::uint8_t> bytes() {
    return {piece_ != nullptr ? piece_ : private_.data() + offset_, bytes_};
  }
  std::span<std::int64_t> numbers() {
    return {reinterpret_cast<std::int64_t*>(bytes().data()), bytes_ / sizeof(std::int64_t)};
  }
  void check_around() const {
    const auto is_untouched = [](std::uint8_t byte) { return byte == untouched; };
    const auto first =
        private_.begin() + static_cast<std::ptrdiff_t>(std::min(offset_, private_.size()));
    check(std::all_of(private_.begin(), first, is_untouched),
          "the bytes before a range were written");
    if (private_.empty()) return;
    check(std::all_of(private_.end() - alignments, private_.end(), is_untouched),
          "the bytes behind a range were written");
  }

 private:
  static constexpr std::uint8_t untouched = 0xa5;

  Pool* pool_ = nullptr;
  std::size_t bytes_ = 0;
  std::uint8_t* piece_ = nullptr;
  std::size_t offset_ = 0;
  Bytes private_{};
};

// One operation that this rank has begun. Its ranges live here until it is over.
struct Begun {
  Range in{};
  Range out{};
  std::function<void(Begun&, const Status&)> verify{};
  Request request{};  // goes first
};

class Plan {
 public:
  Plan(Communicator& world, std::uint64_t seed)
      : world_{world},
        pool_{world},
        common_{std::mt19937_64{seed}},
        own_{std::mt19937_64{seed * 977 + static_cast<std::uint64_t>(world.rank())}},
        ranks_{static_cast<std::size_t>(world.size())} {}

  void run(int count) {
    for (step_ = 0; step_ < count; ++step_) {
      const std::size_t window =
          common_.below(in_flight_max);  // how many may stay in flight behind it
      begin(common_.below(100));
      while (in_flight_.size() > window) end_oldest();
    }
    while (!in_flight_.empty()) end_oldest();
  }

 private:
  int me() const { return world_.rank(); }
  std::size_t index() const { return static_cast<std::size_t>(world_.rank()); }
  int any_rank() { return static_cast<int>(common_.below(ranks_)); }
  // What a block from one rank to another holds. A pattern tells seeds apart modulo 256.
  int seed_of(int from, int to = 0) const { return step_ * 97 + from * 17 + to; }

  Begun& next() { return in_flight_.emplace_back(); }
  Range range(std::size_t bytes) { return {pool_, own_, bytes, 1}; }
  Range numbers(std::size_t count) {
    return {pool_, own_, count * sizeof(std::int64_t), alignof(std::int64_t)};
  }
  static void fill(std::span<std::uint8_t> target, int seed) {
    std::ranges::copy(pattern(target.size(), seed), target.begin());
  }
  void fill_addends(Range& range) const {
    std::ranges::copy(addends(me(), range.numbers().size()), range.numbers().begin());
  }
  // Lengths of one block for each rank, some of them empty.
  std::vector<std::size_t> lengths(std::size_t bytes_max) {
    std::vector<std::size_t> all(ranks_);
    for (std::size_t& one : all) one = common_.below(4) == 0 ? 0 : common_.below(bytes_max + 1);
    return all;
  }
  static std::size_t total(const std::vector<std::size_t>& all) {
    return std::accumulate(all.begin(), all.end(), std::size_t{0});
  }
  static std::size_t first(const std::vector<std::size_t>& all, std::size_t block) {
    return std::accumulate(all.begin(), all.begin() + static_cast<std::ptrdiff_t>(block),
                           std::size_t{0});
  }

  void end_oldest() {
    Begun& begun = in_flight_.front();
    const Status status = begun.request.wait();
    if (begun.verify) begun.verify(begun, status);
    begun.in.check_around();
    begun.out.check_around();
    in_flight_.pop_front();
  }

  void begin(std::size_t kind) {
    if (kind < 4) {
      next().request = world_.barrier_async();
    } else if (kind < 50) {
      message();
    } else if (kind < 60) {
      reduce_to_all();
    } else if (kind < 65) {
      reduce();
    } else if (kind < 69) {
      reduce_scatter();
    } else if (kind < 73) {
      prefix();
    } else if (kind < 79) {
      broadcast();
    } else if (kind < 85) {
      allgather();
    } else if (kind < 90) {
      gather();
    } else if (kind < 95) {
      scatter();
    } else {
      alltoall();
    }
  }

  void message() {
    const std::size_t bytes = common_.bytes();
    const int from = any_rank();
    const int to = any_rank();
    const int tag = step_ % 1000;
    const bool blocks = from != to && common_.below(4) == 0;
    const int seed = seed_of(from, to);
    if (me() == from) {
      Begun& begun = next();
      begun.in = range(bytes);
      fill(begun.in.bytes(), seed);
      if (blocks) world_.send(begun.in.bytes(), to, tag);
      else begun.request = world_.send_async(begun.in.bytes(), to, tag);
    }
    if (me() == to) {
      Begun& begun = next();
      begun.out = range(bytes);
      const auto verify = [=](Begun& ended, const Status& status) {
        check_status(status, from, tag, bytes);
        check_pattern(ended.out.bytes(), seed);
      };
      if (blocks) return verify(begun, world_.receive(begun.out.bytes(), from, tag));
      begun.request = world_.receive_async(begun.out.bytes(), from, tag);
      begun.verify = verify;
    }
  }

  void reduce_to_all() {
    const std::size_t count = common_.bytes() / sizeof(std::int64_t);
    const bool in_place = common_.below(2) == 0;
    Begun& begun = next();
    begun.out = numbers(count);
    if (in_place) {
      fill_addends(begun.out);
      begun.request = world_.allreduce_async(begun.out.numbers(), sum);
    } else {
      begun.in = numbers(count);
      fill_addends(begun.in);
      begun.request = world_.allreduce_async(begun.in.numbers(), begun.out.numbers(), sum);
    }
    begun.verify = [size = world_.size()](Begun& ended, const Status&) {
      check_sum(ended.out.numbers(), size);
    };
  }

  void reduce() {
    const std::size_t count = common_.bytes() / sizeof(std::int64_t);
    const int root = any_rank();
    Begun& begun = next();
    begun.in = numbers(count);
    fill_addends(begun.in);
    if (me() == root) begun.out = numbers(count);
    begun.request = world_.reduce_async(begun.in.numbers(), begun.out.numbers(), sum, root);
    if (me() != root) return;
    begun.verify = [size = world_.size()](Begun& ended, const Status&) {
      check_sum(ended.out.numbers(), size);
    };
  }

  void reduce_scatter() {
    const std::size_t count = common_.bytes() / sizeof(std::int64_t) / ranks_;
    Begun& begun = next();
    begun.in = numbers(count * ranks_);
    fill_addends(begun.in);
    begun.out = numbers(count);
    begun.request = world_.reduce_scatter_async(begun.in.numbers(), begun.out.numbers(), sum);
    begun.verify = [size = world_.size(), first = count * index()](Begun& ended, const Status&) {
      const std::vector<std::int64_t> lowest(
          1, std::int64_t{size} * (size + 1) / 2);  // element 0 of the sums
      const auto values = ended.out.numbers();
      for (std::size_t i = 0; i < values.size(); ++i)
        check_equal(values[i], lowest[0] + size * static_cast<std::int64_t>(first + i));
    };
  }

  void prefix() {
    const std::size_t count = common_.bytes() / sizeof(std::int64_t);
    const bool exclusive = common_.below(2) == 0;
    Begun& begun = next();
    begun.in = numbers(count);
    fill_addends(begun.in);
    begun.out = numbers(count);
    begun.request = exclusive ? world_.exscan_async(begun.in.numbers(), begun.out.numbers(), sum)
                              : world_.scan_async(begun.in.numbers(), begun.out.numbers(), sum);
    const int summed = me() + (exclusive ? 0 : 1);
    if (summed == 0) return;
    begun.verify = [summed](Begun& ended, const Status&) {
      check_sum(ended.out.numbers(), summed);
    };
  }

  void broadcast() {
    const std::size_t bytes = common_.bytes();
    const int root = any_rank();
    Begun& begun = next();
    begun.out = range(bytes);
    if (me() == root) fill(begun.out.bytes(), seed_of(root));
    begun.request = world_.broadcast_async(begun.out.bytes(), root);
    begun.verify = [seed = seed_of(root)](Begun& ended, const Status&) {
      check_pattern(ended.out.bytes(), seed);
    };
  }

  // Checks the blocks of a range, one from each rank, in rank order.
  auto blocks_from_all(std::vector<std::size_t> counts, int to) const {
    std::vector<int> seeds;
    seeds.reserve(ranks_);
    for (int from = 0; from < world_.size(); ++from) seeds.push_back(seed_of(from, to));
    return [counts = std::move(counts), seeds = std::move(seeds)](Begun& ended, const Status&) {
      for (std::size_t from = 0; from < counts.size(); ++from)
        check_pattern(ended.out.bytes().subspan(first(counts, from), counts[from]), seeds[from]);
    };
  }
  // Blocks of equal lengths, or else as drawn: a v-form.
  std::vector<std::size_t> block_lengths(bool even) {
    const std::size_t bytes = common_.bytes() / ranks_;
    return even ? std::vector<std::size_t>(ranks_, bytes) : lengths(bytes);
  }

  void allgather() {
    const bool even = common_.below(3) != 0;
    const auto counts = block_lengths(even);
    Begun& begun = next();
    begun.in = range(counts[index()]);
    fill(begun.in.bytes(), seed_of(me()));
    begun.out = range(total(counts));
    begun.request =
        even ? world_.allgather_async(begun.in.bytes(), begun.out.bytes())
             : world_.allgather_async(begun.in.bytes(), blocks(begun.out.bytes(), counts));
    begun.verify = blocks_from_all(counts, 0);
  }

  void gather() {
    const bool even = common_.below(3) != 0;
    const auto counts = block_lengths(even);
    const int root = any_rank();
    Begun& begun = next();
    begun.in = range(counts[index()]);
    fill(begun.in.bytes(), seed_of(me()));
    if (me() == root) begun.out = range(total(counts));
    begun.request =
        even ? world_.gather_async(begun.in.bytes(), begun.out.bytes(), root)
             : world_.gather_async(begun.in.bytes(), blocks(begun.out.bytes(), counts), root);
    if (me() == root) begun.verify = blocks_from_all(counts, 0);
  }

  void scatter() {
    const bool even = common_.below(3) != 0;
    const auto counts = block_lengths(even);
    const int root = any_rank();
    Begun& begun = next();
    if (me() == root) begun.in = range(total(counts));
    if (me() == root) fill_blocks(begun.in, counts, root);
    begun.out = range(counts[index()]);
    begun.request =
        even ? world_.scatter_async(begun.in.bytes(), begun.out.bytes(), root)
             : world_.scatter_async(blocks(begun.in.bytes(), counts), begun.out.bytes(), root);
    begun.verify = [seed = seed_of(root, me())](Begun& ended, const Status&) {
      check_pattern(ended.out.bytes(), seed);
    };
  }

  void fill_blocks(Range& range, const std::vector<std::size_t>& counts, int from) const {
    for (std::size_t to = 0; to < ranks_; ++to)
      fill(range.bytes().subspan(first(counts, to), counts[to]),
           seed_of(from, static_cast<int>(to)));
  }

  void alltoall() {
    const bool even = common_.below(3) != 0;
    const std::size_t bytes = common_.bytes() / ranks_;
    std::vector<std::vector<std::size_t>> all;  // of each rank, to each
    for (std::size_t from = 0; from < ranks_; ++from)
      all.push_back(even ? std::vector<std::size_t>(ranks_, bytes) : lengths(bytes));
    const auto& to = all[index()];
    std::vector<std::size_t> from;
    from.reserve(ranks_);
    for (const auto& counts : all) from.push_back(counts[index()]);
    Begun& begun = next();
    begun.in = range(total(to));
    fill_blocks(begun.in, to, me());
    begun.out = range(total(from));
    begun.request =
        even ? world_.alltoall_async(begun.in.bytes(), begun.out.bytes())
             : world_.alltoall_async(blocks(begun.in.bytes(), to), blocks(begun.out.bytes(), from));
    begun.verify = blocks_from_all(from, me());
  }

  Communicator& world_;
  Pool pool_;
  Draws common_;  // the same on every rank
  Draws own_;
  std::size_t ranks_;
  int step_ = 0;
  std::deque<Begun> in_flight_;
};

void random_operations(Communicator& world, Arguments arguments) {
  Plan plan{world, std::stoull(arguments[1])};
  plan.run(std::stoi(arguments[0]));
  if (world.rank() == 0) say("note: " + arguments[0] + " operations, seed " + arguments[1]);
}

}  // namespace

std::vector<Scenario> random_scenarios() {
  return {in_world("random_operations", random_operations)};
}

}  // namespace qpmesh::ranks
