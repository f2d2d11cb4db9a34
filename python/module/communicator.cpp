// SPDX-License-Identifier: MIT
#include <pybind11/pybind11.h>
#include <pybind11/stl.h>

#include <optional>
#include <string>
#include <type_traits>
#include <vector>

#include "module/calls.hpp"
#include "module/interrupt.hpp"
#include "module/module.hpp"

namespace qpmesh::python {
namespace {

template <class Mode>
constexpr bool is_async = Mode::value;

// ---- messages ----

auto send(Communicator& world, Operation& operation, py::handle data, int destination, int tag) {
  operation.take_in(data);
  return [&world, &operation, destination, tag](auto mode, const CallOptions& options) {
    const AnyElements in = operation.in.elements();
    if constexpr (is_async<decltype(mode)>) return world.send_async(in, destination, tag, options);
    else world.send(in, destination, tag, options);
  };
}

auto receive(Communicator& world, Operation& operation, py::handle data, int source, int tag) {
  operation.take_out(data);
  operation.gives = Operation::Gives::status;
  return [&world, &operation, source, tag](auto mode, const CallOptions& options) {
    const AnyElements out = operation.out.elements();
    if constexpr (is_async<decltype(mode)>) return world.receive_async(out, source, tag, options);
    else return world.receive(out, source, tag, options);
  };
}

auto sendrecv(Communicator& world, Operation& operation, py::handle sent, int to,
              py::handle received, int from, int sent_tag, int received_tag) {
  operation.take_in(sent);
  operation.take_out(received);
  operation.may_differ = true;
  operation.gives = Operation::Gives::status;
  return [&world, &operation, to, from, tags = Tags{sent_tag, received_tag}](
             auto mode, const CallOptions& options) {
    const AnyElements in = operation.in.elements();
    const AnyElements out = operation.out.elements();
    if constexpr (is_async<decltype(mode)>)
      return world.sendrecv_async(in, to, out, from, tags, options);
    else return world.sendrecv(in, to, out, from, tags, options);
  };
}

// ---- collectives ----

auto barrier(Communicator& world, Operation& /*operation*/) {
  return [&world](auto mode, const CallOptions& options) {
    if constexpr (is_async<decltype(mode)>) return world.barrier_async(options);
    else world.barrier(options);
  };
}

auto broadcast(Communicator& world, Operation& operation, py::handle data, int root) {
  const auto use = world.rank() == root ? Array::Use::read : Array::Use::write;
  operation.take(data, py::none(), use);
  return [&world, &operation, root](auto mode, const CallOptions& options) {
    const AnyElements inout = operation.in.elements();
    if constexpr (is_async<decltype(mode)>) return world.broadcast_async(inout, root, options);
    else world.broadcast(inout, root, options);
  };
}

// Of a reduction whose result is as long as its operands: run(mode, in, out, reduction, options).
template <class Run>
auto reduction(Operation& operation, py::handle data, py::handle by, py::handle out, Run run,
               Array::Use in_place = Array::Use::write) {
  operation.take(data, out, in_place);
  operation.reduce_by(by, data);
  return [&operation, run](auto mode, const CallOptions& options) {
    return operation.with_reduction(operation.in, [&](auto range, const auto& named) {
      const auto in = range(operation.in);
      const auto into = range(operation.target());
      return run(mode, in, into, named, options);
    });
  };
}

auto allreduce(Communicator& world, Operation& operation, py::handle data, py::handle by,
               py::handle out) {
  return reduction(operation, data, by, out,
                   [&world](auto mode, const auto& in, const auto& into, const auto& named,
                            const CallOptions& options) {
                     if constexpr (is_async<decltype(mode)>)
                       return world.allreduce_async(in, into, named, options);
                     else world.allreduce(in, into, named, options);
                   });
}

auto reduce(Communicator& world, Operation& operation, py::handle data, py::handle by, int root,
            py::handle out) {
  auto run = [&world, root](auto mode, const auto& in, const auto& into, const auto& named,
                            const CallOptions& options) {
    if constexpr (is_async<decltype(mode)>)
      return world.reduce_async(in, into, named, root, options);
    else world.reduce(in, into, named, root, options);
  };
  const bool is_root = world.rank() == root;
  auto start =
      reduction(operation, data, by, out, run, is_root ? Array::Use::write : Array::Use::read);
  if (!is_root) operation.gives = Operation::Gives::nothing;
  return start;
}

auto scan(Communicator& world, Operation& operation, py::handle data, py::handle by,
          py::handle out) {
  return reduction(operation, data, by, out,
                   [&world](auto mode, const auto& in, const auto& into, const auto& named,
                            const CallOptions& options) {
                     if constexpr (is_async<decltype(mode)>)
                       return world.scan_async(in, into, named, options);
                     else world.scan(in, into, named, options);
                   });
}

auto exscan(Communicator& world, Operation& operation, py::handle data, py::handle by,
            py::handle out) {
  return reduction(operation, data, by, out,
                   [&world](auto mode, const auto& in, const auto& into, const auto& named,
                            const CallOptions& options) {
                     if constexpr (is_async<decltype(mode)>)
                       return world.exscan_async(in, into, named, options);
                     else world.exscan(in, into, named, options);
                   });
}

// Of counts, which may be read once, what can be read again; None stays that.
py::object listed(py::handle counts) {
  auto given = py::reinterpret_borrow<py::object>(counts);
  return given.is_none() ? given : py::tuple(given);
}

// What is gathered by counts has memory of its own where none is given.
py::object blocks_for(py::handle data, py::handle out, const py::object& counts) {
  if (!out.is_none() || counts.is_none()) return py::reinterpret_borrow<py::object>(out);
  std::size_t total = 0;
  for (const py::handle count : counts) total += count.cast<std::size_t>();
  return new_array(data, [&](const py::tuple&) { return py::make_tuple(total); });
}

auto allgather(Communicator& world, Operation& operation, py::handle data, py::handle wanted,
               py::handle given_counts) {
  const py::object counts = listed(given_counts);
  const py::object out = blocks_for(data, wanted, counts);
  const bool has_blocks = operation.take_blocks_out(out, counts);
  if (has_blocks) {
    operation.take_in(data);
    operation.give(out);
  } else {
    operation.take_gathered(data, out, world.size());
  }
  return [&world, &operation, has_blocks](auto mode, const CallOptions& options) {
    const auto run = [&](const auto& in, auto&& into) {
      if constexpr (is_async<decltype(mode)>) return world.allgather_async(in, into, options);
      else world.allgather(in, into, options);
    };
    if (!has_blocks) return run(operation.in.elements(), operation.out.elements());
    return Operation::with_type(operation.block_format(), [&]<class T>(std::type_identity<T>) {
      return run(std::span<const T>{Operation::typed<T>(operation.in)}, operation.blocks_out<T>());
    });
  };
}

auto gather(Communicator& world, Operation& operation, py::handle data, int root, py::handle wanted,
            py::handle given_counts) {
  const bool is_root = world.rank() == root;
  const py::object counts = listed(given_counts);
  const py::object out = is_root ? blocks_for(data, wanted, counts) : py::none();
  const bool has_blocks = is_root && operation.take_blocks_out(out, counts);
  const bool is_v_form = !counts.is_none() || is_list(wanted);
  if (has_blocks) operation.give(out);
  if (is_root && !has_blocks) operation.take_gathered(data, out, world.size());
  else operation.take_in(data);
  return [&world, &operation, root, is_root, has_blocks, is_v_form](auto mode,
                                                                    const CallOptions& options) {
    const auto run = [&](const auto& in, auto&& into) {
      if constexpr (is_async<decltype(mode)>) return world.gather_async(in, into, root, options);
      else world.gather(in, into, root, options);
    };
    if (!is_v_form) {
      return run(operation.in.elements(),
                 is_root ? operation.out.elements() : operation.in.elements(0, 0));
    }
    const ElementFormat& format = has_blocks ? operation.block_format() : operation.in.format();
    return Operation::with_type(format, [&]<class T>(std::type_identity<T>) {
      return run(std::span<const T>{Operation::typed<T>(operation.in)}, operation.blocks_out<T>());
    });
  };
}

auto scatter(Communicator& world, Operation& operation, py::handle data, py::handle out, int root,
             py::handle counts) {
  const bool is_root = world.rank() == root;
  const bool has_blocks = is_root && operation.take_blocks_in(data, counts);
  const bool is_v_form = !counts.is_none() || is_list(data);
  if (is_root && !has_blocks) operation.take_in(data);
  operation.take_out(out);
  operation.give(out);
  return [&world, &operation, root, is_root, is_v_form](auto mode, const CallOptions& options) {
    const auto run = [&](const auto& in, auto&& into) {
      if constexpr (is_async<decltype(mode)>) return world.scatter_async(in, into, root, options);
      else world.scatter(in, into, root, options);
    };
    const AnyElements out = operation.out.elements();
    if (!is_v_form)
      return run(is_root ? operation.in.elements() : operation.out.elements(0, 0), out);
    return Operation::with_type(operation.out.format(), [&]<class T>(std::type_identity<T>) {
      return run(operation.blocks_in<T>(), Operation::typed<T>(operation.out));
    });
  };
}

// Both cut into blocks, or neither.
auto alltoall(Communicator& world, Operation& operation, py::handle data, py::handle out,
              py::handle counts, py::handle out_counts) {
  const bool has_blocks = operation.take_blocks_in(data, counts);
  if (has_blocks != operation.take_blocks_out(out, out_counts))
    throw py::value_error("alltoall: both vectors are cut by counts, or lists, or neither is");
  if (!has_blocks) {
    const py::object into = out.is_none()
                                ? new_array(data, [](const py::tuple& shape) { return shape; })
                                : py::reinterpret_borrow<py::object>(out);
    operation.take_in(data);
    operation.take_out(into);
    operation.give(into);
  } else {
    operation.give(out);
  }
  return [&world, &operation, has_blocks](auto mode, const CallOptions& options) {
    const auto run = [&](const auto& in, auto&& into) {
      if constexpr (is_async<decltype(mode)>) return world.alltoall_async(in, into, options);
      else world.alltoall(in, into, options);
    };
    if (!has_blocks) return run(operation.in.elements(), operation.out.elements());
    return Operation::with_type(operation.block_format(), [&]<class T>(std::type_identity<T>) {
      return run(operation.blocks_in<T>(), operation.blocks_out<T>());
    });
  };
}

// out: None gives a new array of this rank's block, as long as a row of data.
auto reduce_scatter(Communicator& world, Operation& operation, py::handle data, py::handle by,
                    py::handle out, py::handle counts) {
  const bool has_blocks = operation.take_blocks_in(data, counts);
  py::object into = py::reinterpret_borrow<py::object>(out);
  if (into.is_none()) {
    if (has_blocks) throw py::value_error("reduce_scatter of blocks wants `out`");
    into = new_array(data, [&](const py::tuple& shape) -> py::tuple {
      if (shape.empty() || shape[0].cast<int>() != world.size())
        throw py::value_error("reduce_scatter without `out` wants a row for each rank");
      return shape[py::slice(1, std::nullopt, std::nullopt)];
    });
  }
  if (!has_blocks) operation.take_in(data);
  operation.take_out(into);
  operation.give(into);
  operation.reduce_by(by, into);
  return [&world, &operation, has_blocks](auto mode, const CallOptions& options) {
    const auto run = [&](const auto& in, auto&& to, const auto& named) {
      if constexpr (is_async<decltype(mode)>)
        return world.reduce_scatter_async(in, to, named, options);
      else world.reduce_scatter(in, to, named, options);
    };
    if (!has_blocks) {
      return operation.with_reduction(operation.out, [&](auto range, const auto& named) {
        return run(range(operation.in), range(operation.out), named);
      });
    }
    return Operation::with_type(operation.block_format(), [&]<class T>(std::type_identity<T>) {
      return run(operation.blocks_in<T>(), Operation::typed<T>(operation.out),
                 operation.named_reduction());
    });
  };
}

// ---- what is no call with data ----

// Memory that peers reach, or what one of them has in its own, by the buffer protocol. It keeps the
// memory: whoever looks into it keeps this. Its end may wait for the context's turn.
class Memory {
 public:
  explicit Memory(Buffer<std::byte> buffer)
      : buffer_{std::move(buffer)}, seen_{buffer_.data(), buffer_.size()}, is_own_{true} {}
  Memory(Memory&&) noexcept = default;
  Memory& operator=(Memory&&) = delete;
  ~Memory() {
    const Unlocked unlocked;
    buffer_ = {};
  }
  py::buffer_info info() const {
    return {const_cast<std::byte*>(seen_.data()),
            1,
            py::format_descriptor<std::uint8_t>::format(),
            1,
            {static_cast<py::ssize_t>(seen_.size())},
            {1},
            !is_own_};
  }
  Memory view_of(int rank) const {
    Memory view{buffer_};
    view.seen_ = buffer_.view_of(rank);
    view.is_own_ = false;
    return view;
  }

 private:
  Buffer<std::byte> buffer_;
  std::span<const std::byte> seen_;
  bool is_own_;
};

// A message that was taken out of the line; its end may wait for the context's turn.
struct MatchedMessage {
  std::optional<Message> message;

  explicit MatchedMessage(Message&& matched) : message{std::move(matched)} {}
  MatchedMessage(MatchedMessage&&) noexcept = default;
  MatchedMessage& operator=(MatchedMessage&&) = delete;
  ~MatchedMessage() {
    const Unlocked unlocked;
    message.reset();
  }
};

CallOptions limited(py::handle timeout) { return {.timeout = time_limit(timeout)}; }

template <class Function>
auto unlocked(Function&& function) {
  const auto call = [&] {
    const Unlocked meanwhile;
    return function();
  };
  if constexpr (std::is_void_v<decltype(call())>) {
    call();
    throw_interruption();
  } else {
    std::optional<decltype(call())> result{std::in_place, call()};
    if (is_interruption_pending()) {
      // Its end may wait for the turn of a thread that wants the interpreter.
      const Unlocked meanwhile;
      result.reset();
    }
    throw_interruption();
    return std::move(*result);
  }
}

// The last handle waits for the turn of a thread that may want the interpreter.
struct DeleteUnlocked {
  void operator()(Communicator* communicator) const {
    const Unlocked unlocked;
    delete communicator;
  }
};
using OwnedCommunicator = std::unique_ptr<Communicator, DeleteUnlocked>;

OwnedCommunicator moved(Communicator&& made) {
  return OwnedCommunicator{new Communicator{std::move(made)}};
}

// As cheap as a field of an object of Python's.
template <int (Communicator::*member)() const noexcept>
void add_property(py::handle type, const char* name, const char* text) {
  static PyGetSetDef property{name,
                              [](PyObject* self, void* /*closure*/) {
                                return PyLong_FromLong((communicator_of(self).*member)());
                              },
                              nullptr, text, nullptr};
  const auto made = py::reinterpret_steal<py::object>(
      PyDescr_NewGetSet(reinterpret_cast<PyTypeObject*>(type.ptr()), &property));
  if (!made) throw py::error_already_set();
  py::setattr(type, name, made);
}

Communicator init_with(const std::vector<std::string>& settings) {
  const std::vector<std::string_view> texts{settings.begin(), settings.end()};
  return qpmesh::init(Options::from_environment(texts));
}

}  // namespace

void add_communicator(py::module_& module) {
  using namespace py::literals;
  py::class_<Status>(module, "Status", "What a receive got, or what a probe saw.")
      .def_readonly("source", &Status::source, "The rank of the sender.")
      .def_readonly("tag", &Status::tag, "Of the message.")
      .def_readonly("bytes", &Status::bytes, "Of the message.");

  py::class_<Memory>(module, "Memory", py::buffer_protocol(), "Memory that peers reach.")
      .def_buffer([](const Memory& memory) { return memory.info(); })
      .def("view_of", &Memory::view_of, "rank"_a,
           "What a rank of this host has in its own, to be read.");

  py::class_<PendingCall>(module, "Request", "A call that was started.")
      .def("test", &PendingCall::test, "One look: whether it has ended. An error is raised.")
      .def("wait", &PendingCall::wait, "timeout"_a = py::none(),
           "Until it has ended; what the call returns. TimeoutError: not in so many seconds, and "
           "nothing has changed.")
      .def("cancel", &PendingCall::cancel,
           "Takes a receive back that no message has come for. True: it is over.")
      .def_property_readonly("communicator", &PendingCall::communicator, "Whose call it is.")
      .def_property_readonly("receives", &PendingCall::receives,
                             "Whether it is a receive whose end was not asked for yet.")
      .def_property_readonly("in_flight", &PendingCall::is_in_flight,
                             "Whether its end was not told yet.")
      .def_property_readonly("cancelled", &PendingCall::is_cancelled,
                             "Whether cancel(), or a limit of asyncio, took the receive back: no "
                             "message was received.");

  py::class_<MatchedMessage>(module, "Message", "A message that was taken out of the line.")
      .def_property_readonly(
          "status", [](const MatchedMessage& matched) { return matched.message->status(); },
          "What a probe tells of it.")
      .def(
          "receive",
          [](MatchedMessage& matched, py::handle data, py::handle limit) {
            Array out;
            take_target(out, data);
            const CallOptions options = limited(limit);
            return unlocked([&] { return matched.message->receive(out.elements(), options); });
          },
          "data"_a, py::kw_only(), "timeout"_a = py::none(), "Once.");

  py::class_<Candidate>(module, "Candidate", "An algorithm that could run.")
      .def_readonly("algorithm", &Candidate::algorithm)
      .def_readonly("applies", &Candidate::applies)
      .def_readonly("chosen", &Candidate::chosen)
      .def_readonly("predicted_us", &Candidate::predicted_us)
      .def_readonly("measured_us", &Candidate::measured_us)
      .def_readonly("samples", &Candidate::samples);

  py::class_<Communicator, OwnedCommunicator> communicator{module, "Communicator",
                                                           "An ordered group of ranks."};
  add_property<&Communicator::rank>(communicator, "rank", "Who this rank is, from 0 on.");
  add_property<&Communicator::size>(communicator, "size", "How many ranks there are.");
  const Parameter data{"data"};
  const Parameter out{"out", py::none()};
  const Parameter by{"reduction", py::str("sum")};
  const Parameter root{"root", py::int_(0)};
  const Parameter counts{"counts", py::none()};
  const Parameter of_tag{"tag", py::int_(0)};
  define<&send>(communicator, "send", "Sends an array, or a number.",
                {data, {"destination"}, of_tag});
  define<&receive>(communicator, "receive",
                   "Receives into an array; the Status tells what came. The message must fit.",
                   {data, {"source", py::int_(any_source)}, of_tag});
  define<&sendrecv>(communicator, "sendrecv", "Both at once.",
                    {{"sent"},
                     {"to"},
                     {"received"},
                     {"from_"},
                     {"sent_tag", py::int_(0)},
                     {"received_tag", py::int_(0)}});
  define<&barrier>(communicator, "barrier", "Returns when every rank has called it.", {});
  define<&broadcast>(communicator, "broadcast",
                     "Every rank gets the root's data, in place. Returns it.", {data, root});
  define<&allreduce>(communicator, "allreduce",
                     "Reduces everybody's data, in place or into `out`. Returns the result.",
                     {data, by, out});
  define<&reduce>(communicator, "reduce", "As allreduce; the root alone gets the result.",
                  {data, by, root, out});
  define<&scan>(communicator, "scan", "The reduction of the ranks up to this one.",
                {data, by, out});
  define<&exscan>(communicator, "exscan",
                  "The reduction of the ranks before this one; rank 0 keeps what it has.",
                  {data, by, out});
  define<&reduce_scatter>(communicator, "reduce_scatter",
                          "Rank r gets the reduction of everybody's block r.",
                          {data, by, out, counts});
  define<&allgather>(communicator, "allgather",
                     "Everybody's data in the order of ranks: an array with a row for each, or a "
                     "list of numbers.",
                     {data, out, counts});
  define<&gather>(communicator, "gather", "As allgather; the root alone gets the result.",
                  {data, root, out, counts});
  define<&scatter>(communicator, "scatter", "Rank r gets block r of the root's data into `out`.",
                   {data, {"out"}, root, counts});
  define<&alltoall>(communicator, "alltoall", "Block r goes to rank r.",
                    {data, out, counts, {"out_counts", py::none()}});

  const py::arg_v timeout = "timeout"_a = py::none();
  communicator
      .def(
          "probe",
          [](Communicator& world, int source, int message_tag, py::handle limit) {
            const CallOptions options = limited(limit);
            return unlocked([&] { return world.probe(source, message_tag, options); });
          },
          "source"_a = any_source, "tag"_a = any_tag, py::kw_only(), timeout,
          "Waits for a message, and tells of the first in line, which stays there.")
      .def(
          "match",
          [](Communicator& world, int source, int message_tag, py::handle limit) {
            const CallOptions options = limited(limit);
            return MatchedMessage{
                unlocked([&] { return world.match(source, message_tag, options); })};
          },
          "source"_a = any_source, "tag"_a = any_tag, py::kw_only(), timeout,
          "As probe(), but the message is taken out of the line: nobody else receives it.")
      .def("try_probe", &Communicator::try_probe, py::call_guard<Unlocked>(),
           "source"_a = any_source, "tag"_a = any_tag,
           "Tells of the first message in line, or None; one look.")
      .def(
          "split",
          [](Communicator& world, int color, int key, py::handle limit) -> OwnedCommunicator {
            const CallOptions options = limited(limit);
            auto made = unlocked([&] { return world.split(color, key, options); });
            return made ? moved(std::move(*made)) : nullptr;
          },
          "color"_a, "key"_a = 0, py::kw_only(), timeout,
          "Ranks of equal color form a group, ordered by key; None for no_color.")
      .def(
          "split_node",
          [](Communicator& world, int key, py::handle limit) {
            const CallOptions options = limited(limit);
            return moved(unlocked([&] { return world.split_node(key, options); }));
          },
          "key"_a = 0, py::kw_only(), timeout, "One group for each host.")
      .def(
          "duplicate",
          [](Communicator& world, py::handle limit) {
            const CallOptions options = limited(limit);
            return moved(unlocked([&] { return world.duplicate(options); }));
          },
          py::kw_only(), timeout, "The same ranks.")
      .def(
          "subgroup",
          [](Communicator& world, const std::vector<int>& ranks, int group_tag, py::handle limit) {
            const CallOptions options = limited(limit);
            return moved(unlocked([&] { return world.subgroup(ranks, group_tag, options); }));
          },
          "ranks"_a, "tag"_a = 0, py::kw_only(), timeout, "These ranks, who alone call it.")
      .def(
          "independent",
          [](Communicator& world, py::handle limit) {
            const CallOptions options = limited(limit);
            return moved(unlocked([&] { return world.independent(options); }));
          },
          py::kw_only(), timeout, "The same ranks, for another thread.")
      .def(
          "self", [](Communicator& world) { return moved(unlocked([&] { return world.self(); })); },
          "This rank alone.")
      .def("ranks_in", &Communicator::ranks_in, py::call_guard<Unlocked>(), "other"_a,
           "The ranks here as another communicator numbers them.")
      .def(
          "allocate_bytes",
          [](Communicator& world, std::size_t bytes, py::handle limit) {
            const CallOptions options = limited(limit);
            return Memory{unlocked([&] { return world.allocate<std::byte>(bytes, options); })};
          },
          "bytes"_a, py::kw_only(), timeout, "Memory that peers reach; every rank calls it.")
      .def(
          "allocate_bytes_here",
          [](Communicator& world, std::size_t bytes) {
            return Memory{unlocked([&] { return world.allocate_here<std::byte>(bytes); })};
          },
          "bytes"_a, "The same for this rank alone.")
      .def(
          "explain",
          [](const Communicator& world, const std::string& collective, std::size_t bytes) {
            for (std::size_t i = 0; i < collective_count; ++i) {
              const auto each = static_cast<Collective>(i);
              if (name_of(each) == collective)
                return unlocked([&] { return world.explain(each, bytes); });
            }
            throw py::value_error("there is no collective '" + collective + "'");
          },
          "collective"_a, "bytes"_a, "Which algorithms there are, and which one runs.")
      .def("progress", &Communicator::progress, py::call_guard<Unlocked>(),
           "One step of everything that is in flight.")
      .def("wait_fd", &Communicator::wait_fd, py::call_guard<Unlocked>(),
           "A descriptor for event loops.")
      .def(
          "arm_wait", [](Communicator& world) { return world.arm_wait().count(); },
          py::call_guard<Unlocked>(),
          "The loop sleeps now: for so many milliseconds at most, 0: not at all.")
      .def(
          "finish",
          [](Communicator& world, py::handle limit) {
            const CallOptions options = limited(limit);
            unlocked([&] { world.finish(options); });
          },
          py::kw_only(), timeout, "Collective goodbye.")
      .def(
          "abort",
          [](Communicator& world, const std::string& reason) {
            unlocked([&] { world.abort(reason); });
          },
          "reason"_a, "Ends all operations on every rank.");

  module.def(
      "init_with",
      [](const std::vector<std::string>& settings) {
        return moved(unlocked([&] { return init_with(settings); }));
      },
      "settings"_a);
  module.attr("any_source") = any_source;
  module.attr("any_tag") = any_tag;
  module.attr("no_rank") = no_rank;
  module.attr("no_color") = no_color;
}

}  // namespace qpmesh::python
