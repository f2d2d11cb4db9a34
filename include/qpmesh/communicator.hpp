// SPDX-License-Identifier: MIT
// The face of the library: an ordered group of ranks and what they can do together.
#pragma once

#include <cstddef>
#include <optional>
#include <span>
#include <string_view>
#include <type_traits>
#include <utility>
#include <vector>

#include "qpmesh/any.hpp"
#include "qpmesh/blocks.hpp"
#include "qpmesh/bootstrap.hpp"
#include "qpmesh/buffer.hpp"
#include "qpmesh/collective.hpp"
#include "qpmesh/detail/standard.hpp"
#include "qpmesh/detail/untyped.hpp"
#include "qpmesh/element.hpp"
#include "qpmesh/error.hpp"
#include "qpmesh/export.h"
#include "qpmesh/message.hpp"
#include "qpmesh/options.hpp"
#include "qpmesh/prepared.hpp"
#include "qpmesh/reduction.hpp"
#include "qpmesh/request.hpp"

namespace qpmesh {

inline constexpr int no_color = -1;  // split: this rank joins no group

namespace context {
class CommunicatorState;
}

// An ordered group of ranks, as one of them holds it. Move-only. One thread at a time per context:
// a communicator, its children, requests, messages, prepared calls and Buffers belong together, and
// a second thread takes independent(). Overlapping calls are reported as Error{bad_argument}, or
// wait for their turn where Options::threads says so; a function that a call runs may make none.
// Only abort() may be called from any thread. In a child that was forked off, all calls on what the
// parent made are Error{bad_argument}, and handles go without a trace. After an error other than
// bad_argument, truncated, the mismatch of a message's type, or the timeout of an unmatched
// receive, the communicator is broken: every further call throws the same error. The destructor is
// local, may run in any order, and never waits for a peer's call; the last one of a context waits
// until peers have what was on its way to them, for 2 s at most.
class QPMESH_API Communicator {
 public:
  // What was moved from has no ranks, and can only be assigned to and destroyed: all calls on it
  // are Error{bad_argument}.
  Communicator(Communicator&& other) noexcept;
  Communicator& operator=(Communicator&& other) noexcept;
  // Local, as above.
  ~Communicator();

  // Who this rank is here, from 0 on.
  int rank() const noexcept;
  // How many ranks there are.
  int size() const noexcept;

  // ---- point to point: ordered per (communicator, source, tag) as MPI orders it ----

  // Throughout, no_rank is a partner that is not there. Both sides' tag is 0 where none is given;
  // any_tag receives whatever comes.

  // Returns when data may be reused; a large send may wait for its receive.
  template <Source S>
  void send(const S& data, int destination, int tag = 0, const CallOptions& options = {}) {
    send_elements(detail::const_elements(data), destination, tag, options);
  }
  // The message must fit, and its elements must be of the buffer's type, or one of the two bytes:
  // otherwise Error{truncated} with both sizes, or Error{mismatch} with both types, and it stays
  // first in line.
  template <Target T>
  Status receive(T&& data, int source = any_source, int tag = 0, const CallOptions& options = {}) {
    return receive_elements(detail::elements(data), source, tag, options);
  }
  // A message of any length. Error{mismatch}, and it stays first in line, where it holds no whole
  // number of elements.
  template <class T>
    requires detail::ElementRange<std::vector<T>>
  std::vector<T> receive(int source = any_source, int tag = 0, const CallOptions& options = {}) {
    return match(source, tag, options).template receive<T>(options);
  }
  // Send and receive at once, without the deadlock of doing them in turn.
  template <Source S, Target T>
  Status sendrecv(const S& sent, int to, T&& received, int from, Tags tags = {},
                  const CallOptions& options = {}) {
    return sendrecv_elements(detail::const_elements(sent), to, detail::elements(received), from,
                             tags, options);
  }
  template <LastingSource S>
  Request send_async(S&& data, int destination, int tag = 0, const CallOptions& options = {}) {
    return send_elements_async(detail::const_elements(data), destination, tag, options);
  }
  template <Target T>
  Request receive_async(T&& data, int source = any_source, int tag = 0,
                        const CallOptions& options = {}) {
    return receive_elements_async(detail::elements(data), source, tag, options);
  }
  template <LastingSource S, Target T>
  Request sendrecv_async(S&& sent, int to, T&& received, int from, Tags tags = {},
                         const CallOptions& options = {}) {
    return sendrecv_elements_async(detail::const_elements(sent), to, detail::elements(received),
                                   from, tags, options);
  }
  // Waits for a message, and tells of the first in line, which stays there.
  Status probe(int source = any_source, int tag = any_tag, const CallOptions& options = {});
  // Tells of the first message in line, if there is one; one look.
  std::optional<Status> try_probe(int source = any_source, int tag = any_tag);
  // As probe(), but the message is taken out of the line: to be received when its length is known,
  // and by nobody else.
  Message match(int source = any_source, int tag = any_tag, const CallOptions& options = {});
  // As try_probe(), but the message is taken out of the line.
  std::optional<Message> try_match(int source = any_source, int tag = any_tag);

  // ---- collectives: every rank of the communicator calls the same ones in the same order ----

  // Throughout: `in` and `out` are the same memory where that is called in place, and have nothing
  // in common otherwise. Counts, types, reductions and roots are the same on every rank; a
  // difference is Error{mismatch} on the ranks that see it. Results are there when the call
  // returns, or its request is done; what other ranks have then is theirs to tell. Error{timeout}
  // names who is missing. Blocks of unequal lengths, or that lie apart, are made by blocks()
  // (qpmesh/blocks.hpp), where a BlockSource or a BlockTarget is taken; all ranks give blocks then,
  // or none.

  // Returns when every rank has called it.
  void barrier(const CallOptions& options = {}) {
    run_collective(detail::AnyCollective{Collective::barrier}, options);
  }
  Request barrier_async(const CallOptions& options = {}) {
    return start_collective(detail::AnyCollective{Collective::barrier}, options);
  }

  // Every rank gets the root's data. Equal counts.
  template <Target T>
  void broadcast(T&& data, int root, const CallOptions& options = {}) {
    run_collective(broadcast_of(data, root), options);
  }
  template <Target T>
  Request broadcast_async(T&& data, int root, const CallOptions& options = {}) {
    return start_collective(broadcast_of(data, root), options);
  }

  // out[i] = in_0[i] op in_1[i] op …, the same bits on every rank.
  template <Source S, Target T, ReductionOf<element_t<S>> O>
    requires SameElements<S, T>
  void allreduce(const S& in, T&& out, const O& reduction, const CallOptions& options = {}) {
    run_collective(reduction_call(Collective::allreduce, in, out, reduction), options);
  }
  template <TargetRange T, ReductionOf<element_t<T>> O>
  void allreduce(T&& in_place, const O& reduction, const CallOptions& options = {}) {
    run_collective(reduction_call(Collective::allreduce, in_place, in_place, reduction), options);
  }
  template <LastingSource S, Target T, ReductionOf<element_t<S>> O>
    requires SameElements<S, T>
  Request allreduce_async(S&& in, T&& out, const O& reduction, const CallOptions& options = {}) {
    return start_collective(reduction_call(Collective::allreduce, in, out, reduction), options);
  }
  template <Target T, ReductionOf<element_t<T>> O>
  Request allreduce_async(T&& in_place, const O& reduction, const CallOptions& options = {}) {
    return start_collective(reduction_call(Collective::allreduce, in_place, in_place, reduction),
                            options);
  }

  // In place, of each of these vectors as if by a call of its own. Those of less than 16 KiB, or 32
  // where ranks share no memory, go together, through a copy; longer ones lie where they are. All
  // ranks give as many, of the same lengths. The list is read during the call only.
  template <TargetList R, ReductionOf<detail::element_of_each_t<R>> O>
  void allreduce_each(R&& vectors, const O& reduction, const CallOptions& options = {}) {
    const auto each = elements_of_each(vectors);
    run_collective(each_call<R>(each, reduction), options);
  }
  template <LastingTargetList R, ReductionOf<detail::element_of_each_t<R>> O>
  Request allreduce_each_async(R&& vectors, const O& reduction, const CallOptions& options = {}) {
    const auto each = elements_of_each(vectors);
    return start_collective(each_call<R>(each, reduction), options);
  }

  // As allreduce(), but the root alone gets the result; on other ranks out may be empty, and in
  // place nothing changes.
  template <Source S, Target T, ReductionOf<element_t<S>> O>
    requires SameElements<S, T>
  void reduce(const S& in, T&& out, const O& reduction, int root, const CallOptions& options = {}) {
    run_collective(reduction_call(Collective::reduce, in, out, reduction, root), options);
  }
  template <TargetRange T, ReductionOf<element_t<T>> O>
  void reduce(T&& in_place, const O& reduction, int root, const CallOptions& options = {}) {
    run_collective(reduction_call(Collective::reduce, in_place, in_place, reduction, root),
                   options);
  }
  template <LastingSource S, Target T, ReductionOf<element_t<S>> O>
    requires SameElements<S, T>
  Request reduce_async(S&& in, T&& out, const O& reduction, int root,
                       const CallOptions& options = {}) {
    return start_collective(reduction_call(Collective::reduce, in, out, reduction, root), options);
  }
  template <Target T, ReductionOf<element_t<T>> O>
  Request reduce_async(T&& in_place, const O& reduction, int root,
                       const CallOptions& options = {}) {
    return start_collective(reduction_call(Collective::reduce, in_place, in_place, reduction, root),
                            options);
  }

  // Rank r gets the reduction of block r of everybody's in, which has size() blocks as long as out,
  // or blocks(in, counts) on all ranks, or other blocks on all. In place: out is block r of in.
  template <BlockSource S, Target T, ReductionOf<element_t<S>> O>
    requires SameElements<S, T>
  void reduce_scatter(const S& in, T&& out, const O& reduction, const CallOptions& options = {}) {
    run_collective(reduction_call(Collective::reduce_scatter, in, out, reduction), options);
  }
  template <LastingBlockSource S, Target T, ReductionOf<element_t<S>> O>
    requires SameElements<S, T>
  Request reduce_scatter_async(S&& in, T&& out, const O& reduction,
                               const CallOptions& options = {}) {
    return start_collective(reduction_call(Collective::reduce_scatter, in, out, reduction),
                            options);
  }

  // out[i] = in_0[i] op … op in_rank[i].
  template <Source S, Target T, ReductionOf<element_t<S>> O>
    requires SameElements<S, T>
  void scan(const S& in, T&& out, const O& reduction, const CallOptions& options = {}) {
    run_collective(reduction_call(Collective::scan, in, out, reduction), options);
  }
  template <LastingSource S, Target T, ReductionOf<element_t<S>> O>
    requires SameElements<S, T>
  Request scan_async(S&& in, T&& out, const O& reduction, const CallOptions& options = {}) {
    return start_collective(reduction_call(Collective::scan, in, out, reduction), options);
  }
  // As scan(), without this rank's own in; rank 0's out stays as it is.
  template <Source S, Target T, ReductionOf<element_t<S>> O>
    requires SameElements<S, T>
  void exscan(const S& in, T&& out, const O& reduction, const CallOptions& options = {}) {
    run_collective(reduction_call(Collective::exscan, in, out, reduction), options);
  }
  template <LastingSource S, Target T, ReductionOf<element_t<S>> O>
    requires SameElements<S, T>
  Request exscan_async(S&& in, T&& out, const O& reduction, const CallOptions& options = {}) {
    return start_collective(reduction_call(Collective::exscan, in, out, reduction), options);
  }

  // Block r of out is rank r's in. In place: in is this rank's block of out.
  template <Source S, BlockTarget T>
    requires SameElements<S, T>
  void allgather(const S& in, T&& out, const CallOptions& options = {}) {
    run_collective(moving_call(Collective::allgather, in, out), options);
  }
  template <LastingSource S, BlockTarget T>
    requires SameElements<S, T>
  Request allgather_async(S&& in, T&& out, const CallOptions& options = {}) {
    return start_collective(moving_call(Collective::allgather, in, out), options);
  }

  // As allgather(), but the root alone gets the blocks; on other ranks out and its blocks may be
  // empty.
  template <Source S, BlockTarget T>
    requires SameElements<S, T>
  void gather(const S& in, T&& out, int root, const CallOptions& options = {}) {
    run_collective(moving_call(Collective::gather, in, out, root), options);
  }
  template <LastingSource S, BlockTarget T>
    requires SameElements<S, T>
  Request gather_async(S&& in, T&& out, int root, const CallOptions& options = {}) {
    return start_collective(moving_call(Collective::gather, in, out, root), options);
  }

  // Rank r gets block r of the root's in; on other ranks that and its blocks may be empty. In
  // place: out is the root's block of in.
  template <BlockSource S, Target T>
    requires SameElements<S, T>
  void scatter(const S& in, T&& out, int root, const CallOptions& options = {}) {
    run_collective(moving_call(Collective::scatter, in, out, root), options);
  }
  template <LastingBlockSource S, Target T>
    requires SameElements<S, T>
  Request scatter_async(S&& in, T&& out, int root, const CallOptions& options = {}) {
    return start_collective(moving_call(Collective::scatter, in, out, root), options);
  }

  // Block r of in goes to rank r, block s of out comes from rank s. Never in place.
  template <BlockSource S, BlockTarget T>
    requires SameElements<S, T>
  void alltoall(const S& in, T&& out, const CallOptions& options = {}) {
    run_collective(moving_call(Collective::alltoall, in, out), options);
  }
  template <LastingBlockSource S, BlockTarget T>
    requires SameElements<S, T>
  Request alltoall_async(S&& in, T&& out, const CallOptions& options = {}) {
    return start_collective(moving_call(Collective::alltoall, in, out), options);
  }

  // ---- the same for one element of each rank, and results that are returned ----

  // The reduction of everybody's value.
  template <Element T, ReductionOf<T> O>
  [[nodiscard]] T allreduce(const T& value, const O& reduction, const CallOptions& options = {}) {
    T result = value;
    run_collective(reduction_call(Collective::allreduce, result, result, reduction), options);
    return result;
  }
  // The reduction of everybody's value at the root; other ranks get their own value back.
  template <Element T, ReductionOf<T> O>
  T reduce(const T& value, const O& reduction, int root, const CallOptions& options = {}) {
    T result = value;
    run_collective(reduction_call(Collective::reduce, result, result, reduction, root), options);
    return result;
  }
  // The reduction of the values of the ranks up to this one.
  template <Element T, ReductionOf<T> O>
  [[nodiscard]] T scan(const T& value, const O& reduction, const CallOptions& options = {}) {
    T result = value;
    run_collective(reduction_call(Collective::scan, value, result, reduction), options);
    return result;
  }
  // The reduction of the values of the ranks before this one; rank 0 gets `first`.
  template <Element T, ReductionOf<T> O>
  [[nodiscard]] T exscan(const T& value, const O& reduction, const std::type_identity_t<T>& first,
                         const CallOptions& options = {}) {
    T result = first;
    run_collective(reduction_call(Collective::exscan, value, result, reduction), options);
    return result;
  }
  // Everybody's data, in the order of ranks. Equal counts.
  template <Source S>
    requires Element<element_t<S>>
  [[nodiscard]] std::vector<element_t<S>> allgather(const S& in, const CallOptions& options = {}) {
    std::vector<element_t<S>> out(count_of(in) * block_count());
    allgather(in, out, options);
    return out;
  }
  // Everybody's data at the root alone, in the order of ranks; other ranks get nothing.
  template <Source S>
    requires Element<element_t<S>>
  std::vector<element_t<S>> gather(const S& in, int root, const CallOptions& options = {}) {
    std::vector<element_t<S>> out(rank() == root ? count_of(in) * block_count() : 0);
    gather(in, out, root, options);
    return out;
  }
  // Rank r gets element r of the root's in; on other ranks in may be empty.
  template <detail::ElementRange S>
  [[nodiscard]] element_t<S> scatter(const S& in, int root, const CallOptions& options = {}) {
    element_t<S> out{};
    scatter(in, out, root, options);
    return out;
  }
  // Element or block r of in goes to rank r; what comes, in the order of ranks.
  template <detail::ElementRange S>
  [[nodiscard]] std::vector<element_t<S>> alltoall(const S& in, const CallOptions& options = {}) {
    std::vector<element_t<S>> out(count_of(in));
    alltoall(in, out, options);
    return out;
  }

  // ---- calls that are made again and again ----

  // The call of that name, to be started by start(): then it is its _async form.
  template <LastingSource S>
  Prepared prepare_send(S&& data, int destination, int tag = 0,
                        const CallOptions& options = {}) const {
    return prepare(detail::AnyMessage::send(detail::const_elements(data), destination, tag),
                   options);
  }
  template <Target T>
  Prepared prepare_receive(T&& data, int source = any_source, int tag = 0,
                           const CallOptions& options = {}) const {
    return prepare(detail::AnyMessage::receive(detail::elements(data), source, tag), options);
  }
  template <LastingSource S, Target T>
  Prepared prepare_sendrecv(S&& sent, int to, T&& received, int from, Tags tags = {},
                            const CallOptions& options = {}) const {
    return prepare(
        detail::AnyMessage{detail::AnyMessage::Kind::sendrecv, detail::const_elements(sent), to,
                           detail::elements(received), from, tags},
        options);
  }
  Prepared prepare_barrier(const CallOptions& options = {}) const {
    return prepare(detail::AnyCollective{Collective::barrier}, options);
  }
  template <Target T>
  Prepared prepare_broadcast(T&& data, int root, const CallOptions& options = {}) const {
    return prepare(broadcast_of(data, root), options);
  }
  template <LastingSource S, Target T, ReductionOf<element_t<S>> O>
    requires SameElements<S, T>
  Prepared prepare_allreduce(S&& in, T&& out, const O& reduction,
                             const CallOptions& options = {}) const {
    return prepare(reduction_call(Collective::allreduce, in, out, reduction), options);
  }
  template <Target T, ReductionOf<element_t<T>> O>
  Prepared prepare_allreduce(T&& in_place, const O& reduction,
                             const CallOptions& options = {}) const {
    return prepare(reduction_call(Collective::allreduce, in_place, in_place, reduction), options);
  }
  template <LastingTargetList R, ReductionOf<detail::element_of_each_t<R>> O>
  Prepared prepare_allreduce_each(R&& vectors, const O& reduction,
                                  const CallOptions& options = {}) const {
    const auto each = elements_of_each(vectors);
    return prepare(each_call<R>(each, reduction), options);
  }
  template <LastingSource S, Target T, ReductionOf<element_t<S>> O>
    requires SameElements<S, T>
  Prepared prepare_reduce(S&& in, T&& out, const O& reduction, int root,
                          const CallOptions& options = {}) const {
    return prepare(reduction_call(Collective::reduce, in, out, reduction, root), options);
  }
  template <Target T, ReductionOf<element_t<T>> O>
  Prepared prepare_reduce(T&& in_place, const O& reduction, int root,
                          const CallOptions& options = {}) const {
    return prepare(reduction_call(Collective::reduce, in_place, in_place, reduction, root),
                   options);
  }
  template <LastingBlockSource S, Target T, ReductionOf<element_t<S>> O>
    requires SameElements<S, T>
  Prepared prepare_reduce_scatter(S&& in, T&& out, const O& reduction,
                                  const CallOptions& options = {}) const {
    return prepare(reduction_call(Collective::reduce_scatter, in, out, reduction), options);
  }
  template <LastingSource S, Target T, ReductionOf<element_t<S>> O>
    requires SameElements<S, T>
  Prepared prepare_scan(S&& in, T&& out, const O& reduction,
                        const CallOptions& options = {}) const {
    return prepare(reduction_call(Collective::scan, in, out, reduction), options);
  }
  template <LastingSource S, Target T, ReductionOf<element_t<S>> O>
    requires SameElements<S, T>
  Prepared prepare_exscan(S&& in, T&& out, const O& reduction,
                          const CallOptions& options = {}) const {
    return prepare(reduction_call(Collective::exscan, in, out, reduction), options);
  }
  template <LastingSource S, BlockTarget T>
    requires SameElements<S, T>
  Prepared prepare_allgather(S&& in, T&& out, const CallOptions& options = {}) const {
    return prepare(moving_call(Collective::allgather, in, out), options);
  }
  template <LastingSource S, BlockTarget T>
    requires SameElements<S, T>
  Prepared prepare_gather(S&& in, T&& out, int root, const CallOptions& options = {}) const {
    return prepare(moving_call(Collective::gather, in, out, root), options);
  }
  template <LastingBlockSource S, Target T>
    requires SameElements<S, T>
  Prepared prepare_scatter(S&& in, T&& out, int root, const CallOptions& options = {}) const {
    return prepare(moving_call(Collective::scatter, in, out, root), options);
  }
  template <LastingBlockSource S, BlockTarget T>
    requires SameElements<S, T>
  Prepared prepare_alltoall(S&& in, T&& out, const CallOptions& options = {}) const {
    return prepare(moving_call(Collective::alltoall, in, out), options);
  }

  // Which algorithms there are for a vector of so many bytes (of all blocks together), what they
  // are expected to take here, and which one runs. Local: every rank finds the same.
  // Error{bad_argument}: QPMESH_ALGORITHMS names one that does not apply.
  std::vector<Candidate> explain(Collective collective, std::size_t bytes) const;

  // ---- memory and groups: collective, unless it is said otherwise ----

  // Memory that peers reach without a copy, for every rank. It is touched when the caller does so;
  // from 2 MiB on in huge pages where the system gives them. Throws Error{no_resource} on every
  // rank alike, with nothing half-built, when a rank's arena is full or its machine or control
  // group has less left than its ranks may then touch.
  template <class T>
  Buffer<T> allocate(std::size_t count, const CallOptions& options = {}) {
    auto [allocation, data] = allocate_bytes(count, sizeof(T), options);
    return Buffer<T>{std::move(allocation), static_cast<T*>(data), count};
  }
  // Such memory for this rank alone, at any time: nobody else calls it, and an error is nobody
  // else's. Peers reach it like the others; view_of() has nothing of it. Throws Error{no_resource}.
  template <class T>
  Buffer<T> allocate_here(std::size_t count) {
    auto [allocation, data] = allocate_bytes_here(count, sizeof(T));
    return Buffer<T>{std::move(allocation), static_cast<T*>(data), count};
  }
  // Ranks of equal color form a group, ordered by key, then by rank here. color is 0 or more, or
  // no_color, which returns nothing; Error{bad_argument} otherwise.
  std::optional<Communicator> split(int color, int key = 0, const CallOptions& options = {});
  // One group for each host, ordered by key, then by rank here.
  Communicator split_node(const CallOptions& options = {});
  Communicator split_node(int key, const CallOptions& options = {});
  // The same ranks, for who must not meet others' messages and collectives.
  Communicator duplicate(const CallOptions& options = {});
  // Begins split(). group is empty until the request has ended, and stays where it is until then.
  // It is not where this communicator is: Error{bad_argument}.
  Request split_async(std::optional<Communicator>& group, int color, int key = 0,
                      const CallOptions& options = {});
  // Begins duplicate(). copy is empty until the request has ended, and stays where it is until
  // then.
  Request duplicate_async(std::optional<Communicator>& copy, const CallOptions& options = {});
  // A group of these ranks, in this order, made by them alone: the others do not call it, and do
  // not learn of it. Its members call it with the same list and tag, those of one list and tag in
  // the same order; a member that calls it with another list is one that does not come:
  // Error{timeout}, and this communicator lives on. Error{bad_argument}: a list without this rank,
  // or with one twice, or with one that is none here.
  Communicator subgroup(std::span<const int> ranks, int tag = 0, const CallOptions& options = {});
  // This rank alone. Local.
  Communicator self();
  // The same ranks in a context of its own, for another thread. Throws what init throws.
  Communicator independent(const CallOptions& options = {});

  // The ranks here as another communicator of the same init numbers them; no_rank: not a member of
  // that one. Local. Error{bad_argument}: of another init, or independent.
  std::vector<int> ranks_in(const Communicator& other) const;

  // One step of everything in this context; never blocks.
  void progress();

  // For event loops: a descriptor that poll, epoll and their like wait for, readable when
  // progress() may find something. The context's own: it is not read, written or closed.
  // Peers on this host ring only for who sleeps, so the loop says each time that it will:
  //   poll(fds, n, arm_wait().count()); progress(); …test the requests…
  // Error{bad_argument} where several threads use the context: one of them sleeps for all.
  int wait_fd();
  // The loop sleeps now. Returns how long it may, at most 1 s; 0: something has happened already.
  std::chrono::milliseconds arm_wait();
  // Collective goodbye; the communicator cannot be used afterwards. Error{bad_argument}, and it
  // can: a request is still in flight, which is named, or another thread waits for a message of it.
  void finish(const CallOptions& options = {});
  // Ends this context on every rank: operations in flight and all later ones
  // throw Error{aborted} with the reason.
  void abort(std::string_view reason) noexcept;

 private:
  friend struct detail::Access;

  explicit Communicator(std::shared_ptr<context::CommunicatorState> state) noexcept;

  template <class S>
  static std::size_t count_of(const S& data) {
    return detail::const_elements(data).element_count;
  }
  std::size_t block_count() const noexcept { return static_cast<std::size_t>(size()); }

  void send_elements(const detail::ConstElements& data, int destination, int tag,
                     const CallOptions& options);
  Status receive_elements(const detail::Elements& data, int source, int tag,
                          const CallOptions& options);
  Status sendrecv_elements(const detail::ConstElements& sent, int to,
                           const detail::Elements& received, int from, Tags tags,
                           const CallOptions& options);
  Request send_elements_async(const detail::ConstElements& data, int destination, int tag,
                              const CallOptions& options);
  Request receive_elements_async(const detail::Elements& data, int source, int tag,
                                 const CallOptions& options);
  Request sendrecv_elements_async(const detail::ConstElements& sent, int to,
                                  const detail::Elements& received, int from, Tags tags,
                                  const CallOptions& options);
  void run_collective(const detail::AnyCollective& what, const CallOptions& options);
  Request start_collective(const detail::AnyCollective& what, const CallOptions& options);
  void run_collective(const detail::AnyVectors& what, const CallOptions& options);
  Request start_collective(const detail::AnyVectors& what, const CallOptions& options);
  // take: is given the group, if there is one, when it is made.
  Request split_to(std::function<void(Communicator&&)> take, int color, int key,
                   const CallOptions& options);
  Request duplicate_to(std::function<void(Communicator&&)> take, const CallOptions& options);
  Request start_message(const detail::AnyMessage& what, const CallOptions& options);
  Prepared prepare(const detail::AnyMessage& what, const CallOptions& options) const;
  Prepared prepare(const detail::AnyCollective& what, const CallOptions& options) const;
  Prepared prepare(const detail::AnyVectors& what, const CallOptions& options) const;

  template <class T>
  static detail::AnyCollective broadcast_of(T& data, int root) {
    return detail::AnyCollective{Collective::broadcast, {}, detail::elements(data), root};
  }
  template <class S, class T>
  static detail::AnyCollective moving_call(Collective collective, const S& in, T& out,
                                           int root = 0) {
    detail::AnyCollective what{collective, detail::const_elements(in), detail::elements(out), root};
    what.in_layout = detail::layout_of(in);
    what.out_layout = detail::layout_of(out);
    return what;
  }
  template <class S, class T, class O>
  static detail::AnyCollective reduction_call(Collective collective, const S& in, T& out,
                                              const O& reduction, int root = 0) {
    detail::AnyCollective what = moving_call(collective, in, out, root);
    what.reduction = detail::any_reduction<element_t<T>>(reduction);
    return what;
  }
  template <class R>
  static std::vector<detail::Elements> elements_of_each(R& vectors) {
    std::vector<detail::Elements> each;
    each.reserve(static_cast<std::size_t>(std::ranges::distance(vectors)));
    for (auto&& vector : vectors) each.push_back(detail::elements(vector));
    return each;
  }
  template <class R, class O>
  static detail::AnyVectors each_call(std::span<const detail::Elements> each, const O& reduction) {
    return {each, detail::any_reduction<detail::element_of_each_t<R>>(reduction)};
  }
  std::pair<std::shared_ptr<context::Allocation>, void*> allocate_bytes(std::size_t count,
                                                                        std::size_t element_bytes,
                                                                        const CallOptions& options);

  std::pair<std::shared_ptr<context::Allocation>, void*> allocate_bytes_here(
      std::size_t count, std::size_t element_bytes);

  std::shared_ptr<context::CommunicatorState> state_;
};

// Joins the job that the launcher's environment describes (Open MPI, Hydra, srun,
// torchrun, QPMESH_ROOT/RANK/SIZE); alone, a world of one. Collective over the job.
// Throws Error within Options::init_timeout_ms.
QPMESH_API QPMESH_SAME_STANDARD_LIBRARY Communicator init();
QPMESH_API QPMESH_SAME_STANDARD_LIBRARY Communicator init(const Options& options);
// The same through a bootstrap of the caller's; it is used until init returns.
QPMESH_API QPMESH_SAME_STANDARD_LIBRARY Communicator
init(Bootstrap& bootstrap, const Options& options = Options::from_environment());

}  // namespace qpmesh
