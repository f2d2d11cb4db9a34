// qpmesh-info: what this host offers, what qpmesh would choose of it, and why.
#include <fmt/format.h>

#include <CLI/CLI.hpp>
#include <cstdio>
#include <exception>
#include <string>

#include "qpmesh/error.hpp"
#include "tools/info/facts.hpp"
#include "tools/pages/pages.hpp"

namespace {

constexpr int failure_code = 1;

}  // namespace

int main(int argc, char** argv) {
  CLI::App app{
      "qpmesh-info [options]\n"
      "Shows this host's RDMA devices, ports and GIDs, its cores and limits, and which GID qpmesh "
      "would use and why. QPMESH_DEVICE, QPMESH_GID_INDEX, QPMESH_NETDEV and QPMESH_SUBNET count "
      "as they do in a job.",
      "qpmesh-info"};
  qpmesh::pages::add_to(app, "shows what qpmesh finds on this host");
  bool json = false;
  std::string address;
  app.add_flag("--json", json, "one JSON object instead of text");
  app.add_option(
      "--address", address,
      "where the ranks of a job meet on this host, which its choice considers: an IP address");
  try {
    app.parse(argc, argv);
  } catch (const CLI::ParseError& error) {
    return app.exit(error) == 0 ? 0 : 2;
  }
  try {
    auto facts = qpmesh::info::collect();
    if (!address.empty()) {
      const auto host = qpmesh::transport::verbs::selection::parse_address(address);
      if (!host) {
        fmt::print(stderr, "qpmesh-info: --address {} is not an IP address\n", address);
        return 2;
      }
      facts.wishes.bootstrap_address = *host;
    }
    fmt::print("{}", json ? to_json(facts) : to_text(facts));
  } catch (const std::exception& error) {
    fmt::print(stderr, "{}\n", error.what());
    return failure_code;
  }
  return 0;
}
