// The face of the library: an ordered group of ranks and what they can do together.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <ranges>
#include <string_view>

#include "qpmesh/bootstrap.hpp"
#include "qpmesh/buffer.hpp"
#include "qpmesh/element.hpp"
#include "qpmesh/error.hpp"
#include "qpmesh/options.hpp"
#include "qpmesh/reduction.hpp"
#include "qpmesh/request.hpp"

namespace qpmesh {

inline constexpr int any_source = -1;
inline constexpr int any_tag = -1;
inline constexpr int no_color = -1;  // split: this rank joins no group

namespace detail {

class CommunicatorState;

// A caller's range with its type taken off: what crosses from the templates below into the library.
struct ConstElements {
  const void* data;
  std::size_t element_count;
  std::size_t element_bytes;
  ElementType type;
};
struct Elements {
  void* data;
  std::size_t element_count;
  std::size_t element_bytes;
  ElementType type;
};

template <class R>
ConstElements const_elements(const R& range) {
  using T = std::ranges::range_value_t<R>;
  return {std::ranges::data(range), static_cast<std::size_t>(std::ranges::size(range)), sizeof(T),
          element_type_of<T>()};
}
template <class R>
Elements elements(R& range) {
  using T = std::ranges::range_value_t<R>;
  return {std::ranges::data(range), static_cast<std::size_t>(std::ranges::size(range)), sizeof(T),
          element_type_of<T>()};
}

}  // namespace detail

// Move-only. One thread at a time per context: a communicator, its children and its requests belong together,
// and a second thread takes independent(). Overlapping calls are reported as Error{bad_argument}. Only
// abort() may be called from any thread. After an error other than bad_argument, truncated, or the timeout of
// an unmatched receive, the communicator is broken: every further call throws the same error. The destructor
// is local, may run in any order, and never waits for a peer's call.
class Communicator {
 public:
  Communicator(Communicator&& other) noexcept;
  Communicator& operator=(Communicator&& other) noexcept;
  ~Communicator();

  int rank() const noexcept;
  int size() const noexcept;

  // ---- point to point: ordered per (communicator, source, tag) as MPI orders it ----

  // Returns when data may be reused; a large send may wait for its receive.
  template <Source S>
  void send(const S& data, int destination, int tag = 0, Call call = {}) {
    send_elements(detail::const_elements(data), destination, tag, call);
  }
  // The message must fit: otherwise Error{truncated} with both sizes, and it stays first in line.
  template <Target T>
  Status receive(T&& data, int source = any_source, int tag = any_tag, Call call = {}) {
    return receive_elements(detail::elements(data), source, tag, call);
  }
  // Send and receive at once, without the deadlock of doing them in turn.
  template <Source S, Target T>
  Status exchange(const S& out, int to, T&& in, int from, int tag = 0, Call call = {}) {
    return exchange_elements(detail::const_elements(out), to, detail::elements(in), from, tag, call);
  }
  template <LastingSource S>
  Request send_async(S&& data, int destination, int tag = 0, Call call = {}) {
    return send_elements_async(detail::const_elements(data), destination, tag, call);
  }
  template <Target T>
  Request receive_async(T&& data, int source = any_source, int tag = any_tag, Call call = {}) {
    return receive_elements_async(detail::elements(data), source, tag, call);
  }
  template <LastingSource S, Target T>
  Request exchange_async(S&& out, int to, T&& in, int from, int tag = 0, Call call = {}) {
    return exchange_elements_async(detail::const_elements(out), to, detail::elements(in), from, tag, call);
  }
  // The first message in line, left in line.
  Status probe(int source = any_source, int tag = any_tag, Call call = {});
  std::optional<Status> try_probe(int source = any_source, int tag = any_tag);

  // ---- collectives: every rank of the communicator calls the same ones in the same order ----

  void barrier(Call call = {});
  Request barrier_async(Call call = {});

  // out[i] = in_0[i] op in_1[i] op …, the same bits on every rank. in and out have equal counts
  // and are the same memory or do not overlap.
  template <Reducible S, Target T>
    requires std::same_as<std::ranges::range_value_t<S>, std::ranges::range_value_t<T>>
  void allreduce(const S& in, T&& out, Reduction reduction, Call call = {}) {
    allreduce_elements(detail::const_elements(in), detail::elements(out), reduction, call);
  }
  template <Target T>
    requires Reducible<T>
  void allreduce(T&& in_place, Reduction reduction, Call call = {}) {
    allreduce_elements(detail::const_elements(in_place), detail::elements(in_place), reduction, call);
  }
  template <Reducible S, Target T>
    requires LastingSource<S> && std::same_as<std::ranges::range_value_t<S>, std::ranges::range_value_t<T>>
  Request allreduce_async(S&& in, T&& out, Reduction reduction, Call call = {}) {
    return allreduce_elements_async(detail::const_elements(in), detail::elements(out), reduction, call);
  }
  template <Target T>
    requires Reducible<T>
  Request allreduce_async(T&& in_place, Reduction reduction, Call call = {}) {
    return allreduce_elements_async(detail::const_elements(in_place), detail::elements(in_place), reduction,
                                    call);
  }

  // ---- memory and groups: collective ----

  // Throws Error{no_resource} on every rank alike, with nothing half-built, when a rank cannot serve it.
  template <class T>
  Buffer<T> allocate(std::size_t count, Call call = {}) {
    auto [allocation, data] = allocate_bytes(count, sizeof(T), call);
    return Buffer<T>{std::move(allocation), static_cast<T*>(data), count};
  }
  // Ranks of equal color form a group, ordered by key, then by rank here. color
  // is ≥ 0 or no_color (returns nothing).
  std::optional<Communicator> split(int color, int key = 0, Call call = {});
  Communicator split_node(Call call = {});  // one group per host
  Communicator duplicate(Call call = {});
  Communicator independent(Call call = {});  // the same ranks in a context of its own, for another thread

  void progress();              // one step of everything in this context; never blocks
  void finish(Call call = {});  // collective goodbye; the communicator cannot be used afterwards
  // Ends this context on every rank: operations in flight and all later ones
  // throw Error{aborted} with the reason.
  void abort(std::string_view reason) noexcept;

  // Which algorithm would run, by the name that forces it: for benchmarks and logs.
  std::string_view allreduce_algorithm(std::size_t element_count, std::size_t element_bytes) const;

  explicit Communicator(std::shared_ptr<detail::CommunicatorState> state) noexcept;
  const std::shared_ptr<detail::CommunicatorState>& state() const noexcept { return state_; }

 private:
  void send_elements(detail::ConstElements data, int destination, int tag, Call call);
  Status receive_elements(detail::Elements data, int source, int tag, Call call);
  Status exchange_elements(detail::ConstElements out, int to, detail::Elements in, int from, int tag,
                           Call call);
  Request send_elements_async(detail::ConstElements data, int destination, int tag, Call call);
  Request receive_elements_async(detail::Elements data, int source, int tag, Call call);
  Request exchange_elements_async(detail::ConstElements out, int to, detail::Elements in, int from, int tag,
                                  Call call);
  std::optional<Status> find_message(int source, int tag, std::string_view operation);
  void allreduce_elements(detail::ConstElements in, detail::Elements out, Reduction reduction, Call call);
  Request allreduce_elements_async(detail::ConstElements in, detail::Elements out, Reduction reduction,
                                   Call call);
  std::pair<std::shared_ptr<detail::Allocation>, void*> allocate_bytes(std::size_t count,
                                                                       std::size_t element_bytes, Call call);

  std::shared_ptr<detail::CommunicatorState> state_;
};

// Joins the job that the launcher's environment describes (Open MPI, Hydra, srun,
// torchrun, QPMESH_ROOT/RANK/SIZE); alone, a world of one. Collective over the job.
// Throws Error within Options::init_timeout_ms.
Communicator init();
Communicator init(const Options& options);
// The same through a bootstrap of the caller's; it is used until init returns.
Communicator init(Bootstrap& bootstrap, const Options& options = Options::from_environment());

}  // namespace qpmesh
