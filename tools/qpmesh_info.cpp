// SPDX-License-Identifier: MIT
// qpmesh-info: what this host offers, what qpmesh would choose of it, and why; and which algorithm
// runs a call.
#include <fmt/format.h>
#include <unistd.h>

#include <CLI/CLI.hpp>
#include <algorithm>
#include <array>
#include <cerrno>
#include <cstdio>
#include <exception>
#include <filesystem>
#include <string>
#include <system_error>
#include <vector>

#include "bootstrap/launcher.hpp"
#include "tools/info/explain.hpp"
#include "tools/info/facts.hpp"
#include "tools/pages/pages.hpp"
#include "tools/print.hpp"
#include "topology/cores.hpp"

namespace {

namespace info = qpmesh::info;
namespace topology = qpmesh::topology;

constexpr int failure_code = 1;
constexpr int usage_code = 2;

// Starts this program again, as the ranks of a job. Returns where that cannot be done.
void start_ranks(int ranks, char** argv) {
  const auto self = std::filesystem::read_symlink("/proc/self/exe");
  const std::string launcher = self.parent_path() / "qpmesh-run";
  std::vector<std::string> words{launcher, "-np", std::to_string(ranks), self};
  while (*++argv != nullptr) words.emplace_back(*argv);
  std::vector<char*> pointers;
  pointers.reserve(words.size() + 1);
  for (std::string& word : words) pointers.push_back(word.data());
  pointers.push_back(nullptr);
  ::execv(launcher.c_str(), pointers.data());
  throw std::system_error{errno, std::generic_category(), launcher};
}

// As a rank; the first one speaks for all.
void explain(const info::Question& question, bool json) {
  const auto options = qpmesh::Options::from_environment();
  auto world = qpmesh::init(options);
  const info::Answer answer = info::explain(world, question, options);
  if (world.rank() == 0) qpmesh::print(json ? to_json(answer) : to_text(answer));
  world.finish();
}

}  // namespace

int main(int argc, char** argv) {
  CLI::App app{
      "qpmesh-info [options]\n"
      "Shows this host's RDMA devices, ports and GIDs, its cores and limits, and which GID qpmesh "
      "would use and why. QPMESH_DEVICE, QPMESH_GID_INDEX, QPMESH_NETDEV and QPMESH_SUBNET count "
      "as they do in a job. With --explain it says which algorithm runs a call, and why.",
      "qpmesh-info"};
  qpmesh::pages::add_to(app, "shows what qpmesh finds on this host");
  bool json = false;
  std::string address;
  app.add_flag("--json", json, "one JSON object instead of text");
  app.add_option(
      "--address", address,
      "where the ranks of a job meet on this host, which its choice considers: an IP address");
  std::vector<std::string> asked;
  app.add_option("--explain", asked,
                 "which algorithm runs this collective with so many bytes of all blocks together, "
                 "as `allreduce 1MiB`, measured by a second of calls; as ranks of a job "
                 "(qpmesh-run --hosts a:4,b:4 qpmesh-info --explain allreduce 1MiB), or on this "
                 "host")
      ->expected(1, 2)
      ->type_name("COLLECTIVE BYTES");
  int ranks = 0;
  app.add_option("--ranks", ranks, "with --explain, of this host; otherwise one for each core")
      ->check(CLI::Range(1, 1024))
      ->needs("--explain");
  try {
    app.parse(argc, argv);
  } catch (const CLI::ParseError& error) {
    return app.exit(error) == 0 ? 0 : usage_code;
  }
  try {
    if (!asked.empty()) {
      const auto question = info::question_of(asked.front(), asked.size() > 1 ? asked[1] : "0");
      const auto identity = qpmesh::bootstrap::identify(qpmesh::bootstrap::process_environment());
      if (identity.launcher == "alone") {
        const std::array cores{topology::usable_cores()};
        start_ranks(ranks > 0 ? ranks : std::max(2, topology::usable_core_count(cores)), argv);
      }
      explain(question, json);
      return 0;
    }
    auto facts = qpmesh::info::collect();
    if (!address.empty()) {
      const auto host = qpmesh::transport::verbs::selection::parse_address(address);
      if (!host) {
        fmt::print(stderr, "qpmesh-info: --address {} is not an IP address\n", address);
        return usage_code;
      }
      facts.wishes.bootstrap_address = *host;
    }
    qpmesh::print(json ? to_json(facts) : to_text(facts));
  } catch (const std::exception& error) {
    fmt::print(stderr, "{}\n", error.what());
    return failure_code;
  }
  return 0;
}
