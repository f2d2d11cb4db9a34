// SPDX-License-Identifier: MIT
#include "tools/run/host_plan.hpp"

#include <algorithm>
#include <array>

namespace qpmesh::run {
namespace {

constexpr std::array<std::string_view, 14> names_of_a_host{
    "HOME",   "USER", "LOGNAME", "SHELL",  "MAIL",       "HOSTNAME", "PWD",
    "OLDPWD", "TERM", "DISPLAY", "TMPDIR", "XAUTHORITY", "SHLVL",    "_"};
constexpr std::array<std::string_view, 3> prefixes_of_a_host{"SSH_", "XDG_", "DBUS_"};

bool belongs_to_a_host(std::string_view name) {
  return std::ranges::find(names_of_a_host, name) != names_of_a_host.end() ||
         std::ranges::any_of(prefixes_of_a_host,
                             [&](auto prefix) { return name.starts_with(prefix); });
}

void put_texts(base::ByteWriter& writer, const std::vector<std::string>& texts) {
  writer.put(static_cast<std::uint32_t>(texts.size()));
  for (const std::string& text : texts) writer.put_text(text);
}

std::vector<std::string> get_texts(base::ByteReader& reader) {
  std::vector<std::string> texts;
  for (auto count = reader.get<std::uint32_t>(); count > 0 && reader.ok(); --count)
    texts.emplace_back(reader.get_text());
  return texts;
}

// Of the fields of a plan that are neither lists nor this host's own, in both directions.
void for_fields(auto& plan, const auto& visit) {
  auto& job = plan.job;
  visit(job.size, job.first_rank, job.local_size, job.prefix, job.keep_going, job.grace_ms, job.job,
        job.secret, plan.directory, plan.ports);
}

[[noreturn]] void fail_speech() {
  throw RunError{"the qpmesh-run of the other host is of another version", 1};
}

}  // namespace

std::vector<std::string> environment_for_hosts(const char* const* environment) {
  std::vector<std::string> result;
  for (const char* const* entry = environment; *entry != nullptr; ++entry) {
    const std::string_view text{*entry};
    const std::string_view name = text.substr(0, text.find('='));
    if (!belongs_to_a_host(name) && !says_who_ranks_are(name)) result.emplace_back(text);
  }
  return result;
}

Blob encode(const HostPlan& plan) {
  base::ByteWriter writer;
  for_fields(plan, [&](const auto&... fields) { writer.put_fields(fields...); });
  put_texts(writer, plan.job.command);
  put_texts(writer, plan.environment);
  return std::move(writer).blob();
}

HostPlan decode_plan(BlobView blob) {
  HostPlan plan;
  base::ByteReader reader{blob};
  for_fields(plan, [&](auto&... fields) { reader.get_fields(fields...); });
  plan.job.command = get_texts(reader);
  plan.environment = get_texts(reader);
  if (!reader.finished() || plan.job.command.empty() || plan.job.local_size < 1) fail_speech();
  return plan;
}

Blob encode(const HostHere& here) {
  base::ByteWriter writer;
  writer.put_fields(here.address, here.seen_from, here.port);
  return std::move(writer).blob();
}

HostHere decode_here(BlobView blob) {
  HostHere here;
  base::ByteReader reader{blob};
  reader.get_fields(here.address, here.seen_from, here.port);
  if (!reader.finished()) fail_speech();
  return here;
}

std::string text_of(BlobView blob) {
  return {reinterpret_cast<const char*>(blob.data()), blob.size()};
}

}  // namespace qpmesh::run
