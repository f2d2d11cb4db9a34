// The named constants of a machine, from which times are predicted: measured by qpmesh-tune into a
// file that people can read and change, or built in.
#pragma once

#include <span>
#include <string>
#include <string_view>

namespace qpmesh::collectives {

// Seconds, seconds per byte, bytes. The defaults were measured on two cores of a virtual machine,
// and rounded.
struct Constants {
  double line_s = 0.18e-6;
  double turn_s = 1.2e-6;
  double wake_s = 20e-6;
  double system_copy_s = 1.0e-6;
  double copied_byte_s = 0.018e-9;
  double crossed_byte_s = 0.063e-9;
  double memory_byte_s = 0.15e-9;
  double reduced_byte_s = 0.026e-9;
  double cache_bytes = 16 << 20;
  double message_latency_s = 0.27e-6;
  double message_payload_s = 0.20e-6;
  double message_overhead_s = 0.20e-6;
  double message_byte_s = 0.18e-9;
  double network_latency_s = 2.0e-6;
  double network_overhead_s = 0.25e-6;
  double network_byte_s = 0.08e-9;

  bool operator==(const Constants&) const = default;
};

// How a constant stands in a file: `line = 160 ns  # doc`.
struct ConstantRow {
  std::string_view name;
  double Constants::*member;
  std::string_view unit;  // ns, ns/byte, bytes
  double lowest;          // in the unit
  double highest;
  std::string_view doc;

  double value(const Constants& constants) const noexcept;  // in the unit
};
std::span<const ConstantRow> constant_table() noexcept;

// What a name leaves out keeps its default. Throws Error{bad_config} naming source, line and
// reason.
Constants parse_constants(std::string_view text, std::string_view source);
// The file: `heading` as comments, the version, and a line for each of the rows.
std::string format_constants(const Constants& constants, std::string_view heading,
                             std::span<const ConstantRow> rows = constant_table());

}  // namespace qpmesh::collectives
