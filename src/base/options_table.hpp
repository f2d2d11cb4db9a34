// SPDX-License-Identifier: MIT
// The options as data: what each field of qpmesh::Options is called in the
// environment, what it may be, and what it means.
#pragma once

#include <cstdint>
#include <functional>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <variant>
#include <vector>

#include "qpmesh/bootstrap.hpp"
#include "qpmesh/options.hpp"

namespace qpmesh::base {

using OptionMember =
    std::variant<std::int64_t Options::*, std::string Options::*, bool Options::*,
                 TransportChoice Options::*, Requirement Options::*, NotificationChoice Options::*,
                 ConnectBy Options::*, ConnectWhen Options::*, RendezvousChoice Options::*,
                 ChoiceBy Options::*, ThreadUse Options::*, LogLevel Options::*>;

// The default is not here: it is Options{}'s, and there is no second copy of it.
struct OptionRow {
  std::string_view field;     // of Options
  std::string_view variable;  // QPMESH_…
  OptionMember member;
  std::string_view unit;  // "bytes" takes the suffixes KiB, MiB, GiB; "name" is text
  std::int64_t lowest;
  std::int64_t highest;
  bool power_of_two;
  std::span<const std::string_view> names;  // by value of the enumeration or bool; of a text: none
  bool agreed;                              // must be equal on all ranks
  std::string_view doc;
};

std::span<const OptionRow> option_table() noexcept;

// What a row allows, for messages and docs/options.md: "1 to 86400000 ms".
std::string allowed_values(const OptionRow& row);
// A field's value as the environment would spell it.
std::string option_value(const OptionRow& row, const Options& options);

// Returns the value of a variable, or nothing where it is not set.
using ReadVariable = std::function<std::optional<std::string>(std::string_view name)>;

// Defaults overridden by the variables that read finds, then validated. Throws Error{bad_config}
// naming variable, value and what is allowed.
Options parse_options(const ReadVariable& read);

// The variables of this process, overridden by "QPMESH_TIMEOUT_MS=1000" and its like. Throws
// Error{bad_config} as above, and for a name that is no option's.
Options options_of(std::span<const std::string_view> settings);

// The same ranges for values set in code. Throws Error{bad_config} naming
// field, variable, value and what is allowed.
void validate(const Options& options);

// One sentence for each name that begins with QPMESH_ and that nothing reads,
// with the nearest known name where one is near.
std::vector<std::string> unknown_variables(std::span<const std::string> names);
// Of all variables of this process.
std::vector<std::string> environment_names();

// The agreed fields, self-describing, for the bootstrap to carry.
Blob agreed_options(const Options& options);
// Throws Error{mismatch} naming peer, variable and both values at the first difference,
// Error{corrupt} when theirs cannot be read.
void require_same_options(BlobView mine, BlobView theirs, int peer);

}  // namespace qpmesh::base
