// SPDX-License-Identifier: MIT
#include "qpmesh/options.hpp"

#include <fmt/format.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <bit>
#include <cstdlib>
#include <map>
#include <optional>
#include <type_traits>

#include "base/bytes.hpp"
#include "base/errors.hpp"
#include "base/log.hpp"
#include "base/options_table.hpp"
#include "base/text.hpp"

namespace qpmesh::base {
namespace {

constexpr std::int64_t day_ms = 86'400'000;
// Far below where a deadline in nanoseconds would overflow.
constexpr std::int64_t year_ms = 365 * day_ms;
constexpr std::int64_t kib = 1024;
constexpr std::int64_t mib = 1024 * kib;
constexpr std::int64_t gib = 1024 * mib;

constexpr std::array<std::string_view, 5> transport_names{"automatic", "shm", "verbs", "verbs+shm",
                                                          "tcp"};
constexpr std::array<std::string_view, 2> require_names{"", "rdma"};
constexpr std::array<std::string_view, 4> notification_names{"automatic", "poll", "immediate",
                                                             "mixed"};
constexpr std::array<std::string_view, 2> connect_names{"exchange", "cm"};
constexpr std::array<std::string_view, 2> connect_when_names{"init", "first_use"};
constexpr std::array<std::string_view, 2> rendezvous_names{"write", "read"};
constexpr std::array<std::string_view, 2> choice_names{"measured", "predicted"};
constexpr std::array<std::string_view, 2> thread_use_names{"one", "several"};
constexpr std::array<std::string_view, 2> bool_names{"no", "yes"};
constexpr std::span<const std::string_view> any;

// Whether all ranks must hold it alike.
enum class Held : bool { own, agreed };
using enum Held;

constexpr OptionRow name(std::string_view field, std::string_view variable, OptionMember member,
                         std::span<const std::string_view> names, Held held, std::string_view doc) {
  return {field, variable, member, "name", 0, 0, false, names, held == agreed, doc};
}
constexpr OptionRow number(std::string_view field, std::string_view variable, OptionMember member,
                           std::string_view unit, std::int64_t lowest, std::int64_t highest,
                           Held held, std::string_view doc) {
  return {field, variable, member, unit, lowest, highest, false, {}, held == agreed, doc};
}
constexpr OptionRow power_of_two_bytes(std::string_view field, std::string_view variable,
                                       OptionMember member, std::int64_t lowest,
                                       std::int64_t highest, Held held, std::string_view doc) {
  return {field, variable, member, "bytes", lowest, highest, true, {}, held == agreed, doc};
}

constexpr std::array table{
    name("transport", "QPMESH_TRANSPORT", &Options::transport, transport_names, agreed,
         "Restricts how bytes may move. `verbs`: not through shared memory either, for "
         "measuring. `verbs+shm`: verbs between the ranks of a node too, where it can be had. "
         "`tcp`: nothing else, between the ranks of a node too. "
         "`automatic`: for each pair shm where they share memory, else verbs, else tcp."),
    name(
        "require", "QPMESH_REQUIRE", &Options::require, require_names, agreed,
        "`rdma`: where verbs was asked for, or ranks share no memory, and it cannot be had, `init` "
        "fails instead of falling back to shm or tcp."),
    name("notification", "QPMESH_NOTIFICATION", &Options::notification, notification_names, agreed,
         "How a receiver learns of RDMA writes: `poll` looks at memory, `immediate` waits for "
         "completions, `mixed` polls records and waits for payloads. `automatic`: by device, and "
         "immediates where its self-test in `init` finds them a tenth sooner."),
    name("connect", "QPMESH_CONNECT", &Options::connect, connect_names, agreed,
         "How queue pairs are connected: `exchange` sends their addresses over the bootstrap, `cm` "
         "asks the RDMA communication manager (modules rdma_cm and rdma_ucm), as iWARP devices "
         "need."),
    name("connect_when", "QPMESH_CONNECT_WHEN", &Options::connect_when, connect_when_names, agreed,
         "When ranks are connected over tcp and verbs: all pairs in `init`, or with `first_use` "
         "each pair when it first exchanges a message, which then waits for both ranks to look. "
         "With `QPMESH_CONNECT=cm` all pairs of verbs are connected in `init`."),
    number("init_timeout_ms", "QPMESH_INIT_TIMEOUT_MS", &Options::init_timeout_ms, "ms", 1, day_ms,
           own, "How long `init` waits for all ranks."),
    number("handshake_timeout_ms", "QPMESH_HANDSHAKE_TIMEOUT_MS", &Options::handshake_timeout_ms,
           "ms", 1, day_ms, own,
           "How long a new connection may take to prove that it belongs to the job."),
    number("operation_timeout_ms", "QPMESH_TIMEOUT_MS", &Options::operation_timeout_ms, "ms", 0,
           year_ms, own, "How long an operation may take before it throws `timeout`. 0: for ever."),
    number("stall_warning_ms", "QPMESH_STALL_WARNING_MS", &Options::stall_warning_ms, "ms", 0,
           year_ms, own, "After how long a waiting operation logs whom it waits for. 0: never."),
    number("arena_bytes_max", "QPMESH_ARENA_BYTES_MAX", &Options::arena_bytes_max, "bytes", mib,
           std::int64_t{16} * 1024 * gib, own,
           "Address space of this rank's shared memory. It is sparse: pages cost when they are "
           "touched."),
    power_of_two_bytes("payload_ring_bytes", "QPMESH_PAYLOAD_RING_BYTES",
                       &Options::payload_ring_bytes, 4 * kib, 2 * mib, agreed,
                       "Payload ring per peer and direction, on one host."),
    power_of_two_bytes(
        "network_ring_bytes", "QPMESH_NETWORK_RING_BYTES", &Options::network_ring_bytes, 4 * kib,
        mib, agreed,
        "Payload ring per peer and direction over verbs, where it is registered memory. With more "
        "than 16 peers it is halved until all rings of a rank are no longer than 16 of these, down "
        "to 8 KiB."),
    power_of_two_bytes(
        "tcp_ring_bytes", "QPMESH_TCP_RING_BYTES", &Options::tcp_ring_bytes, 4 * kib, 16 * mib,
        agreed,
        "Payload ring per peer and direction over tcp, whose pages cost when messages lie there. "
        "With more than 65 ranks it is halved until 64 of these hold the rings for all, down to 8 "
        "KiB."),
    number("register_bytes_min", "QPMESH_REGISTER_BYTES_MIN", &Options::register_bytes_min, "bytes",
           0, 1024 * gib, own,
           "Over verbs, private buffers of messages from this size on are registered for the "
           "message; smaller ones are copied."),
    name("rendezvous", "QPMESH_RENDEZVOUS", &Options::rendezvous, rendezvous_names, agreed,
         "Between nodes, who moves the bytes of a large message: `write` lets its sender write "
         "them, `read` its receiver read them, which costs collectives their preposted "
         "answers."),
    name("cma", "QPMESH_CMA", &Options::cma, bool_names, agreed,
         "On a node, `yes` lets ranks copy long data straight out of each other's private "
         "memory, where the system lets them (process_vm_readv); with `no` they go through "
         "shared memory."),
    name("cooperative_copy", "QPMESH_COOPERATIVE_COPY", &Options::cooperative_copy, bool_names,
         agreed,
         "Where each rank of a node has a core and copies its neighbours' private memory, "
         "`yes` lets one that only waits for such a copy do a part of it. A neighbour that is "
         "held up in the middle may then keep a call beyond its deadline (errors.md); with "
         "`no` nobody writes another one's private memory."),
    number("eager_bytes_max", "QPMESH_EAGER_BYTES_MAX", &Options::eager_bytes_max, "bytes", -1, mib,
           agreed,
           "Messages longer than this, or than a quarter of the peer's payload ring, wait for "
           "their receive (rendezvous). -1: 32 KiB, and over tcp, where asking costs more than a "
           "copy, 256 KiB, of steps of collectives 512 KiB."),
    number("unexpected_bytes_max", "QPMESH_UNEXPECTED_BYTES_MAX", &Options::unexpected_bytes_max,
           "bytes", 1, 1024 * gib, own,
           "Bytes of messages not received yet that are copied out of the rings, where they are in "
           "the way of others, per context."),
    number("unexpected_messages_max", "QPMESH_UNEXPECTED_MESSAGES_MAX",
           &Options::unexpected_messages_max, "messages", 1, std::int64_t{1} << 31, own,
           "Messages kept for receives that were not called yet, per context."),
    number("spin_us", "QPMESH_SPIN_US", &Options::spin_us, "us", -1, 60'000'000, own,
           "How long, about, a wait spins before it offers the core to others and then sleeps. -1: "
           "long when every rank has a core, briefly otherwise."),
    name("device", "QPMESH_DEVICE", &Options::device, any, own,
         "The RDMA device, or `device:port`. Empty: chosen; qpmesh-info shows which and why."),
    number("rails", "QPMESH_RAILS", &Options::rails, "(rails)", 1, 2, agreed,
           "Over how many devices, or ports, of a host a large message goes over RDMA. With 2 "
           "either one carries on alone, and nothing is lost, when the other goes down; ranks "
           "whose hosts have one device in common use that."),
    number("gid_index", "QPMESH_GID_INDEX", &Options::gid_index, "(index)", -1, 255, own,
           "The entry of the port's GID table. -1: chosen by address."),
    number("traffic_class", "QPMESH_TRAFFIC_CLASS", &Options::traffic_class, "(class)", -1, 255,
           agreed,
           "The traffic class of RDMA packets, acknowledgements and answers to reads too; over "
           "RoCE v2 its upper six bits are the DSCP. -1: the class that the system sets for the "
           "port, else 106 (DSCP 26) over RoCE v2 and 0 elsewhere."),
    number("service_level", "QPMESH_SERVICE_LEVEL", &Options::service_level, "(level)", 0, 15,
           agreed,
           "The service level of RDMA packets; over RoCE the priority in an Ethernet frame's VLAN "
           "tag, 0 to 7."),
    number("flow_label", "QPMESH_FLOW_LABEL", &Options::flow_label, "(label)", 0, 0xfffff, own,
           "The flow label of what this rank sends over RDMA, from which RoCE v2 derives the UDP "
           "source port, and switches the path. 0: the device chooses for each queue pair."),
    number("pkey_index", "QPMESH_PKEY_INDEX", &Options::pkey_index, "(index)", -1, 65'535, own,
           "The entry of the port's table of partition keys. -1: the first one with full "
           "membership, which RoCE has at 0."),
    name("netdev", "QPMESH_NETDEV", &Options::netdev, any, own,
         "The network interface whose GID, or over tcp whose address, is used. Empty: chosen."),
    name("subnet", "QPMESH_SUBNET", &Options::subnet, any, own,
         "A network, as 10.0.0.0/8 or fd00::/16, that the GID's address, or over tcp the address, "
         "must lie in. Empty: chosen."),
    name("ports", "QPMESH_PORTS", &Options::ports, any, own,
         "The ports at which a rank listens for other ranks over TCP, as 4000-4999. Empty: the "
         "kernel chooses."),
    name("encrypt", "QPMESH_ENCRYPT", &Options::encrypt, bool_names, agreed,
         "`yes`: what goes over a network is encrypted, between ranks and on control links. "
         "Between nodes everything goes by tcp then, because RDMA is not encrypted. What stays "
         "on a host is not encrypted, nor what ranks tell each other to meet."),
    number(
        "link_timeout_ms", "QPMESH_LINK_TIMEOUT_MS", &Options::link_timeout_ms, "ms", 0, 600'000,
        own,
        "How long a peer's RDMA device, or its host over TCP, may be silent before the link has "
        "failed. 0: about 1 s for an adapter, and 8 s for a software device and TCP, whose host "
        "may be slow or paused. An adapter rounds up to 4.096 us times a power of two; an idle TCP "
        "link has 3 s at least."),
    name(
        "choice", "QPMESH_CHOICE", &Options::choice, choice_names, agreed,
        "How the algorithm of a collective, and the way of a long message, are chosen. `measured`: "
        "what gives the same bits is timed while the program runs, between nodes what only moves "
        "data. `predicted`: by formulas alone. Of reductions between nodes these decide in any "
        "case; with `measured` they go by times that `init` finds on its own links."),
    name("algorithms", "QPMESH_ALGORITHMS", &Options::algorithms, any, agreed,
         "Forces algorithms of collectives, as `allreduce=one_shot:<8KiB,direct,broadcast=chain`: "
         "up to a size, and the last one for all others. Other collectives: chosen."),
    name("trace", "QPMESH_TRACE", &Options::trace, any, own,
         "A timeline of the calls of each rank, in files of this name with `.RANK.json` behind it, "
         "for qpmesh-trace and ui.perfetto.dev (trace.md). Empty: none."),
    name("threads", "QPMESH_THREADS", &Options::threads, thread_use_names, own,
         "Who may call what one `init` has made: `one` thread at a time, or `several`, of which "
         "one is inside at a time and the others wait for their turn (threads.md)."),
    name("progress_thread", "QPMESH_PROGRESS_THREAD", &Options::progress_thread, bool_names, own,
         "`yes`: a thread of the library makes progress while the program computes. `threads` "
         "counts as `several`."),
    number("progress_core", "QPMESH_PROGRESS_CORE", &Options::progress_core, "(core)", -1, 8191,
           own, "The core of that thread. -1: those of the process."),
    name("log", "QPMESH_LOG", &Options::log, log_level_names, own,
         "What is written to stderr: this level and all more severe ones."),
};

// An enumeration, or a bool: named by its value's place in OptionRow::names.
template <class T>
inline constexpr bool is_named = std::is_enum_v<T> || std::is_same_v<T, bool>;

template <class T>
bool allows(const OptionRow& row, const T& value) {
  if constexpr (is_named<T>) {
    return static_cast<std::size_t>(value) < row.names.size();
  } else if constexpr (std::is_integral_v<T>) {
    return value >= row.lowest && value <= row.highest &&
           (!row.power_of_two || std::has_single_bit(static_cast<std::uint64_t>(value)));
  } else {
    return true;  // checked where the names are known
  }
}

template <class T>
std::optional<T> parsed(const OptionRow& row, const std::string& text) {
  if constexpr (is_named<T>) {
    // Set to nothing, as scripts do, a variable asks for nothing.
    const bool automatic = text.empty() && row.names.front() == "automatic";
    const auto name = automatic ? row.names.begin() : std::ranges::find(row.names, text);
    if (name == row.names.end()) return std::nullopt;
    return static_cast<T>(name - row.names.begin());
  } else if constexpr (std::is_integral_v<T>) {
    return parse_integer(text, row.unit == "bytes");
  } else {
    return text;
  }
}

template <class T>
void override_field(T& field, const OptionRow& row, const std::string& text) {
  const std::optional<T> value = parsed<T>(row, text);
  if (!value || !allows(row, *value)) {
    throw_error({ErrorCode::bad_config}, "options", "docs/options.md lists every variable",
                "{}='{}', allowed: {}", row.variable, text, allowed_values(row));
  }
  field = *value;
}

template <class T>
std::string text_of(const OptionRow& row, const T& value) {
  if constexpr (is_named<T>) {
    return allows(row, value) ? std::string{row.names[static_cast<std::size_t>(value)]}
                              : std::to_string(static_cast<int>(value));
  } else if constexpr (std::is_integral_v<T>) {
    return std::to_string(value);
  } else {
    return value;
  }
}

// Not options: who this rank is, what its launcher wants to know of it, and what tools read.
constexpr std::array<std::string_view, 11> other_names{
    "QPMESH_RANK",       "QPMESH_SIZE",   "QPMESH_ROOT",        "QPMESH_JOB",
    "QPMESH_LOCAL_SIZE", "QPMESH_SECRET", "QPMESH_SECRET_FILE", "QPMESH_STATES",
    "QPMESH_SSH",        "QPMESH_MPICC",  "QPMESH_MPICXX"};

std::map<std::string, std::string> read_values(BlobView blob, int peer) {
  std::map<std::string, std::string> values;
  ByteReader reader{blob};
  const auto count = reader.get<std::uint32_t>();
  for (std::uint32_t i = 0; i < count && reader.ok(); ++i) {
    std::string name{reader.get_text()};
    values[std::move(name)] = reader.get_text();
  }
  if (!reader.finished()) {
    throw_error({ErrorCode::corrupt, peer}, "init",
                "does every rank run the same version of qpmesh?",
                "the options of the rank, {} bytes, cannot be read", blob.size());
  }
  return values;
}

std::string quoted(const std::map<std::string, std::string>& values, const std::string& name) {
  const auto value = values.find(name);
  return value == values.end() ? "unknown" : fmt::format("'{}'", value->second);
}

}  // namespace

std::span<const OptionRow> option_table() noexcept { return table; }

std::string allowed_values(const OptionRow& row) {
  if (row.unit == "name") {
    if (row.names.empty()) return "a name";
    std::string text;
    for (const auto name : row.names) {
      if (!text.empty()) text += ", ";
      text += name.empty() ? "empty" : name;
    }
    return text;
  }
  return fmt::format("{} to {} {}{}{}", row.lowest, row.highest, row.unit,
                     row.power_of_two ? ", a power of two" : "",
                     row.unit == "bytes" ? " (KiB, MiB, GiB may follow the number)" : "");
}

std::string option_value(const OptionRow& row, const Options& options) {
  return std::visit([&](auto member) { return text_of(row, options.*member); }, row.member);
}

void validate(const Options& options) {
  for (const auto& row : table) {
    if (std::visit([&](auto member) { return allows(row, options.*member); }, row.member)) continue;
    throw_error({ErrorCode::bad_config}, "options", "docs/options.md lists every field",
                "{} ({}) is '{}', allowed: {}", row.field, row.variable, option_value(row, options),
                allowed_values(row));
  }
}

Options parse_options(const ReadVariable& read) {
  Options options;
  for (const auto& row : table) {
    if (const auto text = read(row.variable))
      std::visit([&](auto member) { override_field(options.*member, row, *text); }, row.member);
  }
  validate(options);
  return options;
}

// A misspelt variable would otherwise be silently without effect.
std::vector<std::string> unknown_variables(std::span<const std::string> names) {
  constexpr std::string_view prefix = "QPMESH_";
  std::vector<std::string> known{other_names.begin(), other_names.end()};
  for (const auto& row : table) known.emplace_back(row.variable);
  std::vector<std::string> sentences;
  for (const auto& name : names) {
    if (!name.starts_with(prefix) || std::ranges::find(known, name) != known.end()) continue;
    sentences.push_back(fmt::format("{} is set, but nothing reads it", name));
    if (const std::string meant = nearest(name, known, prefix.size()); !meant.empty())
      sentences.back() += fmt::format("; did you mean {}?", meant);
  }
  return sentences;
}

std::vector<std::string> environment_names() {
  std::vector<std::string> names;
  for (char** variable = environ; *variable != nullptr; ++variable) {
    const std::string_view text{*variable};
    names.emplace_back(text.substr(0, text.find('=')));
  }
  return names;
}

Options options_of(std::span<const std::string_view> settings) {
  std::map<std::string_view, std::string_view> values;
  for (const std::string_view setting : settings) {
    const std::size_t end = setting.find('=');
    const std::string_view name = setting.substr(0, end);
    if (end == std::string_view::npos ||
        std::ranges::find(table, name, &OptionRow::variable) == table.end()) {
      std::vector<std::string> known;
      known.reserve(table.size());
      for (const auto& row : table) known.emplace_back(row.variable);
      const std::string meant = nearest(name, known, std::string_view{"QPMESH_"}.size());
      throw_error({ErrorCode::bad_config}, "options", "docs/options.md lists every option",
                  "'{}' is not NAME=value of an option{}", setting,
                  meant.empty() ? "" : fmt::format("; did you mean {}?", meant));
    }
    values[name] = setting.substr(end + 1);
  }
  return parse_options([&](std::string_view name) -> std::optional<std::string> {
    if (const auto found = values.find(name); found != values.end())
      return std::string{found->second};
    // NOLINTNEXTLINE(concurrency-mt-unsafe): no one sets it
    const char* const value = std::getenv(std::string{name}.c_str());
    return value == nullptr ? std::nullopt : std::optional<std::string>{value};
  });
}

Blob agreed_options(const Options& options) {
  ByteWriter writer;
  writer.put(static_cast<std::uint32_t>(std::ranges::count_if(table, &OptionRow::agreed)));
  for (const auto& row : table) {
    if (row.agreed) writer.put_text(row.variable).put_text(option_value(row, options));
  }
  return std::move(writer).blob();
}

void require_same_options(BlobView mine, BlobView theirs, int peer) {
  const auto here = read_values(mine, no_peer);
  const auto there = read_values(theirs, peer);
  auto names = here;
  names.insert(there.begin(), there.end());
  for (const auto& [name, value] : names) {
    const auto ours = quoted(here, name);
    const auto others = quoted(there, name);
    if (ours == others) continue;
    throw_error({ErrorCode::mismatch, peer}, "init", "give every rank the same value",
                "{} is {} on this rank and {} on rank {}", name, ours, others, peer);
  }
}

}  // namespace qpmesh::base

namespace qpmesh {

// What nothing reads is warned about by init, which knows who is rank 0.
Options Options::from_environment() { return base::options_of({}); }
Options Options::from_environment(std::span<const std::string_view> settings) {
  return base::options_of(settings);
}

}  // namespace qpmesh
