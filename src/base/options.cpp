#include "qpmesh/options.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <bit>
#include <cstdlib>
#include <optional>
#include <type_traits>

#include "base/log.hpp"
#include "base/options_table.hpp"
#include "base/text.hpp"
#include "qpmesh/error.hpp"

namespace qpmesh::base {
namespace {

constexpr std::int64_t day_ms = 86'400'000;
constexpr std::int64_t year_ms =
    365 * day_ms;  // far below where a deadline in nanoseconds would overflow
constexpr std::int64_t kib = 1024;
constexpr std::int64_t mib = 1024 * kib;
constexpr std::int64_t gib = 1024 * mib;

constexpr std::array<std::string_view, 4> transport_names{"", "shm", "verbs", "verbs+shm"};
constexpr std::array<std::string_view, 2> require_names{"", "rdma"};
constexpr std::array<std::string_view, 4> notification_names{"", "poll", "immediate", "mixed"};
constexpr std::array<std::string_view, 2> rendezvous_names{"write", "read"};
constexpr std::array<std::string_view, 2> bool_names{"no", "yes"};
constexpr std::array<std::string_view, 5> log_names{"off", "error", "warning", "info", "debug"};

constexpr std::array<OptionRow, 26> table{{
    {.field = "transport",
     .variable = "QPMESH_TRANSPORT",
     .member = &Options::transport,
     .unit = "name",
     .names = transport_names,
     .agreed = true,
     .doc =
         "Restricts how bytes may move. `verbs`: not through shared memory either, for measuring. "
         "`verbs+shm`: "
         "verbs between the ranks of a node too, where it can be had. Empty: shm on a node, verbs "
         "between "
         "nodes."},
    {.field = "require",
     .variable = "QPMESH_REQUIRE",
     .member = &Options::require,
     .unit = "name",
     .names = require_names,
     .agreed = true,
     .doc = "`rdma`: where verbs was asked for and cannot be had, `init` fails instead of falling "
            "back to shm."},
    {.field = "notification",
     .variable = "QPMESH_NOTIFICATION",
     .member = &Options::notification,
     .unit = "name",
     .names = notification_names,
     .agreed = true,
     .doc = "How a receiver learns of RDMA writes: `poll` looks at memory, `immediate` waits for "
            "completions, `mixed` "
            "polls records and waits for payloads. Empty: by device."},
    {.field = "init_timeout_ms",
     .variable = "QPMESH_INIT_TIMEOUT_MS",
     .member = &Options::init_timeout_ms,
     .unit = "ms",
     .lowest = 1,
     .highest = day_ms,
     .doc = "How long `init` waits for all ranks."},
    {.field = "handshake_timeout_ms",
     .variable = "QPMESH_HANDSHAKE_TIMEOUT_MS",
     .member = &Options::handshake_timeout_ms,
     .unit = "ms",
     .lowest = 1,
     .highest = day_ms,
     .doc = "How long a new connection may take to prove that it belongs to the job."},
    {.field = "operation_timeout_ms",
     .variable = "QPMESH_TIMEOUT_MS",
     .member = &Options::operation_timeout_ms,
     .unit = "ms",
     .lowest = 0,
     .highest = year_ms,
     .doc = "How long an operation may take before it throws `timeout`. 0: for ever."},
    {.field = "stall_warning_ms",
     .variable = "QPMESH_STALL_WARNING_MS",
     .member = &Options::stall_warning_ms,
     .unit = "ms",
     .lowest = 0,
     .highest = year_ms,
     .doc = "After how long a waiting operation logs whom it waits for. 0: never."},
    {.field = "arena_bytes_max",
     .variable = "QPMESH_ARENA_BYTES_MAX",
     .member = &Options::arena_bytes_max,
     .unit = "bytes",
     .lowest = mib,
     .highest = std::int64_t{16} * 1024 * gib,
     .doc = "Address space of this rank's shared memory. It is sparse: pages cost when they are "
            "touched."},
    {.field = "payload_ring_bytes",
     .variable = "QPMESH_PAYLOAD_RING_BYTES",
     .member = &Options::payload_ring_bytes,
     .unit = "bytes",
     .lowest = 4 * kib,
     .highest = 2 * mib,
     .power_of_two = true,
     .agreed = true,
     .doc = "Payload ring per peer and direction."},
    {.field = "network_ring_bytes",
     .variable = "QPMESH_NETWORK_RING_BYTES",
     .member = &Options::network_ring_bytes,
     .unit = "bytes",
     .lowest = 4 * kib,
     .highest = mib,
     .power_of_two = true,
     .agreed = true,
     .doc = "Payload ring per peer and direction between nodes, where it is registered memory."},
    {.field = "register_bytes_min",
     .variable = "QPMESH_REGISTER_BYTES_MIN",
     .member = &Options::register_bytes_min,
     .unit = "bytes",
     .lowest = 0,
     .highest = 1024 * gib,
     .doc = "Between nodes, private buffers of messages from this size on are registered for the "
            "message; "
            "smaller ones "
            "are copied."},
    {.field = "rendezvous",
     .variable = "QPMESH_RENDEZVOUS",
     .member = &Options::rendezvous,
     .unit = "name",
     .names = rendezvous_names,
     .agreed = true,
     .doc = "Between nodes, who moves the bytes of a large message: `write` lets its sender write "
            "them, "
            "`read` its receiver read them, which costs collectives their announcements."},
    {.field = "cma",
     .variable = "QPMESH_CMA",
     .member = &Options::cma,
     .unit = "name",
     .names = bool_names,
     .agreed = true,
     .doc = "On a node, `yes` lets ranks copy long data straight out of each other's private "
            "memory, where the "
            "system lets them (process_vm_readv); with `no` they go through shared memory."},
    {.field = "cooperative_copy",
     .variable = "QPMESH_COOPERATIVE_COPY",
     .member = &Options::cooperative_copy,
     .unit = "name",
     .names = bool_names,
     .agreed = true,
     .doc = "Where each rank of a node has a core and copies its neighbours' private memory, `yes` "
            "lets one "
            "that "
            "only waits for such a copy do a part of it. A neighbour that is held up in the middle "
            "may then "
            "keep "
            "a call beyond its deadline (errors.md); with `no` nobody writes another one's private "
            "memory."},
    {.field = "eager_bytes_max",
     .variable = "QPMESH_EAGER_BYTES_MAX",
     .member = &Options::eager_bytes_max,
     .unit = "bytes",
     .lowest = 0,
     .highest = mib,
     .agreed = true,
     .doc = "Messages longer than this, or than a quarter of the peer's payload ring, wait for "
            "their receive "
            "(rendezvous)."},
    {.field = "unexpected_bytes_max",
     .variable = "QPMESH_UNEXPECTED_BYTES_MAX",
     .member = &Options::unexpected_bytes_max,
     .unit = "bytes",
     .lowest = 1,
     .highest = 1024 * gib,
     .doc = "Bytes of messages kept for receives that were not called yet, per context."},
    {.field = "unexpected_messages_max",
     .variable = "QPMESH_UNEXPECTED_MESSAGES_MAX",
     .member = &Options::unexpected_messages_max,
     .unit = "messages",
     .lowest = 1,
     .highest = std::int64_t{1} << 31,
     .doc = "The same, counted in messages."},
    {.field = "spin_us",
     .variable = "QPMESH_SPIN_US",
     .member = &Options::spin_us,
     .unit = "us",
     .lowest = -1,
     .highest = 60'000'000,
     .doc = "How long a wait spins before it sleeps. -1: long when every rank has a core, briefly "
            "otherwise."},
    {.field = "device",
     .variable = "QPMESH_DEVICE",
     .member = &Options::device,
     .unit = "name",
     .doc = "The RDMA device, or `device:port`. Empty: chosen; qpmesh-info shows which and why."},
    {.field = "gid_index",
     .variable = "QPMESH_GID_INDEX",
     .member = &Options::gid_index,
     .unit = "(index)",
     .lowest = -1,
     .highest = 255,
     .doc = "The entry of the port's GID table. -1: chosen by address."},
    {.field = "netdev",
     .variable = "QPMESH_NETDEV",
     .member = &Options::netdev,
     .unit = "name",
     .doc = "The network interface whose GID is used. Empty: chosen."},
    {.field = "subnet",
     .variable = "QPMESH_SUBNET",
     .member = &Options::subnet,
     .unit = "name",
     .doc = "A network, as 10.0.0.0/8 or fd00::/16, that the GID's address must lie in. Empty: "
            "chosen."},
    {.field = "link_timeout_ms",
     .variable = "QPMESH_LINK_TIMEOUT_MS",
     .member = &Options::link_timeout_ms,
     .unit = "ms",
     .lowest = 0,
     .highest = 600'000,
     .doc = "How long a peer's RDMA device may be silent before the link has failed. 0: about 1 s, "
            "and 8 s for "
            "a "
            "software device, whose host may be slow or paused. An adapter rounds up to 4.096 us "
            "times a power "
            "of two."},
    {.field = "algorithms",
     .variable = "QPMESH_ALGORITHMS",
     .member = &Options::algorithms,
     .unit = "name",
     .agreed = true,
     .doc = "Forces algorithms of collectives, as `allreduce=ring,broadcast=chain`. Others: chosen "
            "by size."},
    {.field = "tuning",
     .variable = "QPMESH_TUNING",
     .member = &Options::tuning,
     .unit = "name",
     .doc = "A file of qpmesh-tune, from whose constants algorithms are chosen. Rank 0 reads it "
            "for all. "
            "Empty: built-in "
            "constants."},
    {.field = "log",
     .variable = "QPMESH_LOG",
     .member = &Options::log,
     .unit = "name",
     .names = log_names,
     .doc = "What is written to stderr: this level and all more severe ones."},
}};

[[noreturn]] void refuse(std::string cause, std::string hint) {
  throw Error{{.code = ErrorCode::bad_config,
               .operation = "options",
               .cause = std::move(cause),
               .hint = std::move(hint)}};
}

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
    const auto name = std::ranges::find(row.names, text);
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
    refuse(fmt::format("{}='{}', allowed: {}", row.variable, text, allowed_values(row)),
           "docs/options.md lists every variable");
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
    refuse(fmt::format("{} ({}) is '{}', allowed: {}", row.field, row.variable,
                       option_value(row, options), allowed_values(row)),
           "docs/options.md lists every field");
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

}  // namespace qpmesh::base

namespace qpmesh {

Options Options::from_environment() {
  // What nothing reads is warned about by init, which knows who is rank 0.
  return base::parse_options([](std::string_view name) -> std::optional<std::string> {
    const char* const value =
        std::getenv(std::string{name}.c_str());  // NOLINT(concurrency-mt-unsafe): no one sets it
    return value == nullptr ? std::nullopt : std::optional<std::string>{value};
  });
}

}  // namespace qpmesh
