// qpmesh-tune: measures the constants that algorithms are chosen by, and shows how well they
// predict.
#include <fmt/format.h>
#include <unistd.h>

#include <CLI/CLI.hpp>
#include <array>
#include <chrono>
#include <cstdio>
#include <exception>
#include <fstream>
#include <string>
#include <thread>

#include "qpmesh/qpmesh.hpp"
#include "tools/tune/check.hpp"
#include "tools/tune/measure.hpp"

namespace {

using namespace qpmesh;

constexpr int failure_code = 1;

struct Settings {
  std::string out_path;
  bool check = false;
  tune::CheckedSizes sizes;
  int tries = 201;
};

std::string host_name() {
  std::array<char, 256> name{};
  return ::gethostname(name.data(), name.size() - 1) == 0 ? name.data() : "unknown host";
}

std::string processor_name() {
  std::ifstream file{"/proc/cpuinfo"};
  for (std::string line; std::getline(file, line);) {
    if (line.starts_with("model name"))
      return line.substr(std::min(line.size(), line.find(':') + 2));
  }
  return "unknown processor";
}

std::string text_of(const tune::Measured& measured) {
  std::string heading =
      fmt::format("Constants of {}: {}, {} cores, measured by qpmesh-tune between two ranks.\n",
                  host_name(), processor_name(), std::thread::hardware_concurrency());
  heading += "Used by QPMESH_TUNING=FILE on rank 0; what is left out has its built-in value.";
  for (const auto& remark : measured.remarks) heading += "\n" + remark;
  std::vector<collectives::ConstantRow> rows;
  for (const auto& row : collectives::constant_table()) {
    if (std::ranges::find(measured.names, row.name) != measured.names.end()) rows.push_back(row);
  }
  return format_constants(measured.constants, heading, rows);
}

void write(const std::string& path, const std::string& text) {
  std::FILE* const file = path.empty() ? stdout : std::fopen(path.c_str(), "we");
  const bool written = file != nullptr && std::fputs(text.c_str(), file) >= 0;
  if (file != nullptr && file != stdout && std::fclose(file) == 0 && written) return;
  if (file == stdout && written) return;
  throw Error{{.code = ErrorCode::bad_config,
               .operation = "qpmesh-tune",
               .cause = fmt::format("{} cannot be written", path),
               .system_error = errno,
               .hint = "name a file in a folder of yours"}};
}

void run(const Settings& settings) {
  if (settings.check) {
    Communicator world = init();
    check(world, settings.sizes, settings.tries);
    return world.finish();
  }
  const tune::Measured measured = tune::measure(Options::from_environment(), settings.tries);
  if (measured.rank == 0) write(settings.out_path, text_of(measured));
}

}  // namespace

int main(int argc, char** argv) {
  Settings settings;
  bool quick = false;
  CLI::App app{
      "qpmesh-run -np 2 qpmesh-tune --out FILE\n"
      "Measures the constants of a machine by which algorithms are chosen, between two ranks: on "
      "one node those of a node, on two nodes those of the network. QPMESH_TUNING=FILE uses them.",
      "qpmesh-tune"};
  app.add_option("--out", settings.out_path,
                 "where rank 0 writes them; without it, to standard output");
  app.add_flag(
      "--check", settings.check,
      "measures nothing but how well the constants in use predict, on any number of ranks");
  app.add_option("--max-bytes", settings.sizes.bytes_max,
                 "longest vector of --check, in bytes (4 MiB)");
  app.add_flag("--quick", quick, "fewer tries: for trying out");
  try {
    app.parse(argc, argv);
  } catch (const CLI::ParseError& error) {
    return app.exit(error) == 0 ? 0 : 2;
  }
  if (quick) settings.tries = 5;
  try {
    run(settings);
  } catch (const std::exception& error) {
    fmt::print(stderr, "qpmesh-tune: {}\n", error.what());
    return failure_code;
  }
  return 0;
}
