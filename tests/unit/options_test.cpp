// SPDX-License-Identifier: MIT
// Holds together what must say the same: the struct, the table, docs/options.md, and what the
// parser accepts.
#include <fmt/format.h>
#include <gtest/gtest.h>

#include <fstream>
#include <map>
#include <sstream>

#include "base/bytes.hpp"
#include "base/options_table.hpp"
#include "qpmesh/error.hpp"
#include "qpmesh/options.hpp"
#include "tests/support/expected_error.hpp"

namespace {

using qpmesh::Error;
using qpmesh::ErrorCode;
using qpmesh::Options;
using qpmesh::base::agreed_options;
using qpmesh::base::allowed_values;
using qpmesh::base::option_table;
using qpmesh::base::option_value;
using qpmesh::base::OptionRow;
using qpmesh::base::parse_options;
using qpmesh::base::require_same_options;
using qpmesh::base::unknown_variables;
using qpmesh::base::validate;

using Variables = std::map<std::string, std::string, std::less<>>;

Options parse(const Variables& variables) {
  return parse_options([&](std::string_view name) -> std::optional<std::string> {
    const auto found = variables.find(name);
    return found == variables.end() ? std::nullopt : std::optional{found->second};
  });
}

template <class F>
Error thrown_by(F&& function) {
  try {
    function();
  } catch (const Error& error) {
    return error;
  }
  ADD_FAILURE() << "nothing was thrown";
  return Error{{}};
}

// bad_config of reading options, with exactly these texts.
template <class F>
void expect_refused(F&& function, const std::string& cause, const std::string& hint) {
  EXPECT_EQ(
      qpmesh::test::difference(
          thrown_by(function),
          {.code = ErrorCode::bad_config, .operation = "options", .cause = cause, .hint = hint}),
      "");
}

const std::string list_of_variables = "docs/options.md lists every variable";

std::string read_text(const std::string& path) {
  std::ifstream file{std::string{QPMESH_SOURCE_DIR} + "/" + path};
  EXPECT_TRUE(file.good()) << path;
  std::stringstream text;
  text << file.rdbuf();
  return text.str();
}

std::string documented(const OptionRow& row) {
  const auto value = option_value(row, Options{});
  return fmt::format("| `{}` | `{}` | {} | {} | {} | {} |", row.variable, row.field,
                     value.empty() ? "empty" : value, allowed_values(row), row.agreed ? "yes" : "",
                     row.doc);
}

TEST(option_table, has_a_row_for_every_field) {
  // Does not compile when a field is added: then give it a row too, and a name here.
  const auto& [transport, require, connect, connect_when, notification, init, handshake, operation,
               stall, arena, payload_ring, network_ring, tcp_ring, register_min, rendezvous, cma,
               cooperative_copy, eager, unexpected_bytes, unexpected_messages, spin, device, rails,
               gid_index, traffic_class, service_level, flow_label, pkey_index, netdev, subnet,
               ports, encrypt, link_timeout, choice, algorithms, trace, threads, progress_thread,
               progress_core, log] = Options{};
  const std::array<const void*, 40> fields{&transport,
                                           &require,
                                           &connect,
                                           &connect_when,
                                           &notification,
                                           &init,
                                           &handshake,
                                           &operation,
                                           &stall,
                                           &arena,
                                           &payload_ring,
                                           &network_ring,
                                           &tcp_ring,
                                           &register_min,
                                           &rendezvous,
                                           &cma,
                                           &cooperative_copy,
                                           &eager,
                                           &unexpected_bytes,
                                           &unexpected_messages,
                                           &spin,
                                           &device,
                                           &rails,
                                           &gid_index,
                                           &traffic_class,
                                           &service_level,
                                           &flow_label,
                                           &pkey_index,
                                           &netdev,
                                           &subnet,
                                           &ports,
                                           &encrypt,
                                           &link_timeout,
                                           &choice,
                                           &algorithms,
                                           &trace,
                                           &threads,
                                           &progress_thread,
                                           &progress_core,
                                           &log};
  ASSERT_EQ(option_table().size(), fields.size());
}

TEST(option_table, names_each_member_once_and_after_its_field_in_the_header) {
  const auto header = read_text("include/qpmesh/options.hpp");
  std::map<const void*, std::string_view> members;
  const Options options;
  for (const auto& row : option_table()) {
    const void* const member = std::visit(
        [&](auto pointer) { return static_cast<const void*>(&(options.*pointer)); }, row.member);
    EXPECT_TRUE(members.emplace(member, row.field).second) << row.field;
    const auto comment = header.find(fmt::format("// {}", row.variable));
    ASSERT_NE(comment, std::string::npos) << row.variable;
    auto declaration = header.find('\n', comment) + 1;  // behind all lines of the comment
    while (header.compare(declaration, 4, "  //") == 0)
      declaration = header.find('\n', declaration) + 1;
    const auto line = header.substr(declaration, header.find('\n', declaration) - declaration);
    EXPECT_NE(line.find(fmt::format(" {}", row.field)), std::string::npos) << line;
    EXPECT_EQ(header.substr(comment, declaration - comment).find("(agreed)") != std::string::npos,
              row.agreed)
        << row.field;
  }
}

TEST(option_table, allows_its_own_defaults) { EXPECT_NO_THROW(validate(Options{})); }

TEST(option_table, is_the_table_of_docs_options_md) {
  std::string expected;
  for (const auto& row : option_table()) expected += documented(row) + "\n";
  const auto page = read_text("docs/options.md");
  std::string found;
  std::istringstream lines{page};
  for (std::string line; std::getline(lines, line);) {
    if (line.starts_with("| `QPMESH_") && line.find("Options") == std::string::npos)
      found += line + "\n";
    if (line == "## Identity") break;
  }
  EXPECT_EQ(found, expected);
}

TEST(parse_options, gives_the_defaults_when_nothing_is_set) {
  const auto options = parse({});
  for (const auto& row : option_table())
    EXPECT_EQ(option_value(row, options), option_value(row, Options{})) << row.field;
}

TEST(parse_options, reads_each_variable_into_its_own_field) {
  const auto options = parse({{"QPMESH_TRANSPORT", "shm"},
                              {"QPMESH_INIT_TIMEOUT_MS", "1000"},
                              {"QPMESH_TIMEOUT_MS", "0"},
                              {"QPMESH_PAYLOAD_RING_BYTES", "1MiB"},
                              {"QPMESH_EAGER_BYTES_MAX", "8KiB"},
                              {"QPMESH_ARENA_BYTES_MAX", "2GiB"},
                              {"QPMESH_SPIN_US", "-1"},
                              {"QPMESH_ALGORITHMS", "allreduce=ring"},
                              {"QPMESH_LOG", "debug"}});
  EXPECT_EQ(options.transport, qpmesh::TransportChoice::shm);
  EXPECT_EQ(options.init_timeout_ms, 1000);
  EXPECT_EQ(options.operation_timeout_ms, 0);
  EXPECT_EQ(options.payload_ring_bytes, 1024 * 1024);
  EXPECT_EQ(options.eager_bytes_max, 8 * 1024);
  EXPECT_EQ(options.arena_bytes_max, std::int64_t{2} << 30);
  EXPECT_EQ(options.spin_us, -1);
  EXPECT_EQ(options.algorithms, "allreduce=ring");
  EXPECT_EQ(options.log, qpmesh::LogLevel::debug);
  EXPECT_EQ(options.handshake_timeout_ms, Options{}.handshake_timeout_ms);
}

TEST(parse_options, accepts_both_ends_of_every_range_and_nothing_beyond) {
  for (const auto& row : option_table()) {
    if (row.unit == "name" || row.field == "payload_ring_bytes") continue;
    const auto set = [&](std::int64_t value) {
      return parse({{std::string{row.variable}, std::to_string(value)}});
    };
    EXPECT_EQ(option_value(row, set(row.lowest)), std::to_string(row.lowest));
    EXPECT_EQ(option_value(row, set(row.highest)), std::to_string(row.highest));
    for (const std::int64_t beyond : {row.lowest - 1, row.highest + 1}) {
      expect_refused([&] { set(beyond); },
                     fmt::format("{}='{}', allowed: {}", row.variable, beyond, allowed_values(row)),
                     list_of_variables);
    }
  }
}

TEST(parse_options, refuses_what_is_not_wholly_a_number_and_names_variable_value_and_range) {
  for (const std::string text :
       {"", " 5", "5 ", "5s", "0x10", "1e3", "five", "5KiB", "99999999999999999999", "+5"}) {
    expect_refused(
        [&] {
          parse({{"QPMESH_INIT_TIMEOUT_MS", text}});
        },
        "QPMESH_INIT_TIMEOUT_MS='" + text + "', allowed: 1 to 86400000 ms", list_of_variables);
  }
}

TEST(parse_options, refuses_unknown_and_overflowing_suffixes) {
  for (const std::string text :
       {"64kb", "64K", "64 KiB", "KiB", "64KiBB", "9223372036854775807GiB"}) {
    expect_refused(
        [&] {
          parse({{"QPMESH_PAYLOAD_RING_BYTES", text}});
        },
        "QPMESH_PAYLOAD_RING_BYTES='" + text +
            "', allowed: 4096 to 2097152 bytes, a power of two (KiB, MiB, GiB may follow the "
            "number)",
        list_of_variables);
  }
}

TEST(parse_options, refuses_a_payload_ring_that_is_no_power_of_two) {
  expect_refused(
      [] {
        parse({{"QPMESH_PAYLOAD_RING_BYTES", "300KiB"}});
      },
      "QPMESH_PAYLOAD_RING_BYTES='300KiB', allowed: 4096 to 2097152 bytes, a power of two (KiB, "
      "MiB, GiB may "
      "follow the number)",
      list_of_variables);
}

TEST(parse_options, takes_a_variable_set_to_nothing_for_automatic) {
  for (const std::string text : {"", "automatic"}) {
    EXPECT_EQ(parse({{"QPMESH_TRANSPORT", text}}).transport, qpmesh::TransportChoice::automatic)
        << text;
    EXPECT_EQ(parse({{"QPMESH_NOTIFICATION", text}}).notification,
              qpmesh::NotificationChoice::automatic)
        << text;
  }
}

TEST(parse_options, refuses_names_that_are_not_in_the_list) {
  expect_refused(
      [] {
        parse({{"QPMESH_TRANSPORT", "smh"}});
      },
      "QPMESH_TRANSPORT='smh', allowed: automatic, shm, verbs, verbs+shm, tcp", list_of_variables);
  expect_refused(
      [] {
        parse({{"QPMESH_LOG", "Warning"}});
      },
      "QPMESH_LOG='Warning', allowed: off, error, warning, info, debug", list_of_variables);
}

TEST(validate, names_field_and_variable_of_a_value_set_in_code) {
  Options options;
  options.handshake_timeout_ms = -7;
  expect_refused(
      [&] { validate(options); },
      "handshake_timeout_ms (QPMESH_HANDSHAKE_TIMEOUT_MS) is '-7', allowed: 1 to 86400000 ms",
      "docs/options.md lists every field");
}

TEST(validate, refuses_an_enumerator_that_there_is_not) {
  Options options;
  options.rendezvous = static_cast<qpmesh::RendezvousChoice>(7);
  expect_refused([&] { validate(options); },
                 "rendezvous (QPMESH_RENDEZVOUS) is '7', allowed: write, read",
                 "docs/options.md lists every field");
}

// A variable of this process for as long as the object lives. No other thread runs in these tests.
class ScopedVariable {
 public:
  ScopedVariable(const char* name, const char* value) : name_{name} {
    ::setenv(name_, value, 1);  // NOLINT(concurrency-mt-unsafe): one thread
  }
  ~ScopedVariable() { ::unsetenv(name_); }  // NOLINT(concurrency-mt-unsafe): one thread
  ScopedVariable(const ScopedVariable&) = delete;
  ScopedVariable& operator=(const ScopedVariable&) = delete;

 private:
  const char* name_;
};

TEST(from_environment, reads_the_process_environment) {
  const ScopedVariable variable{"QPMESH_STALL_WARNING_MS", "1234"};
  EXPECT_EQ(Options::from_environment().stall_warning_ms, 1234);
}

// Every rank reads its environment; the warning comes once, from rank 0's init
// (ranks/scenarios_test).
TEST(from_environment, leaves_the_word_about_a_misspelt_variable_to_init) {
  const ScopedVariable variable{"QPMESH_EAGER_BYTE_MAX", "8KiB"};
  ::testing::internal::CaptureStderr();
  const auto options = Options::from_environment();
  EXPECT_EQ(::testing::internal::GetCapturedStderr(), "");
  EXPECT_EQ(options.eager_bytes_max, Options{}.eager_bytes_max);
}

TEST(from_environment, throws_what_the_parser_throws) {
  const ScopedVariable variable{"QPMESH_LOG", "loud"};
  expect_refused([] { Options::from_environment(); },
                 "QPMESH_LOG='loud', allowed: off, error, warning, info, debug", list_of_variables);
}

TEST(unknown_variables, leaves_known_and_foreign_names_alone) {
  const std::vector<std::string> names{
      "PATH", "QPMESH", "QPMESH_RANK", "QPMESH_SECRET_FILE", "QPMESH_LOCAL_SIZE", "QPMESH_LOG"};
  EXPECT_TRUE(unknown_variables(names).empty());
}

TEST(unknown_variables, suggests_the_nearest_name_and_only_a_near_one) {
  const std::vector<std::string> names{"QPMESH_TRANPSORT", "QPMESH_RANKS",
                                       "QPMESH_FAVOURITE_COLOUR",
                                       "QPMESH_" + std::string(500, 'X')};
  const auto sentences = unknown_variables(names);
  ASSERT_EQ(sentences.size(), 4U);
  EXPECT_EQ(sentences[0],
            "QPMESH_TRANPSORT is set, but nothing reads it; did you mean QPMESH_TRANSPORT?");
  EXPECT_EQ(sentences[1], "QPMESH_RANKS is set, but nothing reads it; did you mean QPMESH_RANK?");
  EXPECT_EQ(sentences[2], "QPMESH_FAVOURITE_COLOUR is set, but nothing reads it");
  EXPECT_EQ(sentences[3], names[3] + " is set, but nothing reads it");
}

TEST(agreed_options, are_the_same_when_only_other_options_differ) {
  Options other;
  other.log = qpmesh::LogLevel::debug;
  other.spin_us = 5;
  EXPECT_NO_THROW(require_same_options(agreed_options(Options{}), agreed_options(other), 3));
}

TEST(agreed_options, name_the_option_both_values_and_the_peer_when_ranks_differ) {
  for (const auto& row : option_table()) {
    if (!row.agreed) continue;
    Options other;
    std::visit(
        [&](auto member) {
          auto& field = other.*member;
          using Field = std::remove_reference_t<decltype(field)>;
          if constexpr (std::is_same_v<Field, bool>) field = !field;
          else if constexpr (std::is_enum_v<Field>) field = static_cast<Field>(1);
          else if constexpr (std::is_integral_v<Field>) field += 1;
          else field = "ring";
        },
        row.member);
    EXPECT_EQ(qpmesh::test::difference(
                  thrown_by([&] {
                    require_same_options(agreed_options(Options{}), agreed_options(other), 3);
                  }),
                  {.code = ErrorCode::mismatch,
                   .peer = 3,
                   .operation = "init",
                   .cause = fmt::format("{} is '{}' on this rank and '{}' on rank 3", row.variable,
                                        option_value(row, Options{}), option_value(row, other)),
                   .hint = "give every rank the same value"}),
              "");
  }
}

TEST(agreed_options, of_a_rank_that_knows_one_option_more_differ) {
  const auto theirs = qpmesh::base::ByteWriter{}
                          .put(std::uint32_t{1})
                          .put_text("QPMESH_FUTURE")
                          .put_text("1")
                          .blob();
  const auto nothing = qpmesh::base::ByteWriter{}.put(std::uint32_t{0}).blob();
  EXPECT_EQ(thrown_by([&] { require_same_options(nothing, theirs, 1); }).cause(),
            "QPMESH_FUTURE is unknown on this rank and '1' on rank 1");
}

TEST(agreed_options, cut_short_anywhere_or_followed_by_more_are_corrupt) {
  const auto mine = agreed_options(Options{});
  for (std::size_t bytes = 0; bytes < mine.size(); ++bytes) {
    const auto error =
        thrown_by([&] { require_same_options(mine, qpmesh::BlobView{mine}.first(bytes), 2); });
    EXPECT_EQ(error.code(), ErrorCode::corrupt);
    EXPECT_EQ(error.peer(), 2);
  }
  auto longer = mine;
  longer.push_back(std::byte{0});
  EXPECT_EQ(thrown_by([&] { require_same_options(mine, longer, 2); }).code(), ErrorCode::corrupt);
}

}  // namespace
