// qpmesh-run: the ranks of a job on this host, without a launcher installed.
#include <fmt/format.h>

#include <CLI/CLI.hpp>
#include <algorithm>
#include <array>
#include <cstdio>
#include <string>
#include <string_view>
#include <vector>

#include "tools/run/job.hpp"

namespace {

constexpr int usage_code = 2;

constexpr std::array<std::string_view, 4> options_with_value{"-n", "-np", "--np", "--grace-ms"};

// Our options end at the first word that is neither an option nor its value, or at "--": the rest
// is the program's.
std::vector<std::string>::const_iterator find_program(const std::vector<std::string>& words) {
  auto word = words.begin();
  while (word != words.end() && word->starts_with('-') && *word != "--") {
    const bool takes_value = std::find(options_with_value.begin(), options_with_value.end(),
                                       *word) != options_with_value.end();
    ++word;
    if (takes_value && word != words.end()) ++word;
  }
  return word;
}

}  // namespace

int main(int argc, char** argv) {
  qpmesh::run::JobPlan plan;
  CLI::App app{
      "qpmesh-run -np N [options] [--] program [arguments…]\n"
      "Starts local ranks of a program and waits for them. Answers with the code of the first rank "
      "that fails.",
      "qpmesh-run"};
  app.add_option("-n,--np", plan.size, "number of ranks; also -np")
      ->required()
      ->check(CLI::Range(1, 65536));
  app.add_flag("--prefix", plan.prefix, "put \"[rank] \" before every line of output");
  app.add_flag("--keep-going", plan.keep_going, "a rank that fails ends no other");
  app.add_option(
         "--grace-ms", plan.grace_ms,
         "after the first failure the others get this long to end by themselves, and again between "
         "SIGTERM, that of qpmesh-run or one that it was sent, and SIGKILL")
      ->capture_default_str()
      ->check(CLI::Range(0, 3'600'000));

  const std::vector<std::string> words{argv + 1, argv + argc};
  const auto program = find_program(words);
  std::vector<std::string> ours{words.begin(), program};
  std::replace(ours.begin(), ours.end(), std::string{"-np"},
               std::string{"--np"});  // one dash, two letters: not for CLI11
  plan.command.assign(program != words.end() && *program == "--" ? program + 1 : program,
                      words.end());
  std::reverse(ours.begin(), ours.end());  // as CLI11 wants them
  try {
    app.parse(ours);
    if (plan.command.empty()) throw CLI::RequiredError{"program"};
  } catch (const CLI::Success& help) {
    return app.exit(help);
  } catch (const CLI::ParseError& error) {
    fmt::print(
        stderr,
        "qpmesh-run: {}\nqpmesh-run -np N [options] [--] program [arguments…]; --help says more\n",
        error.what());
    return usage_code;
  }

  try {
    plan.job = qpmesh::run::make_job();
    return qpmesh::run::run_job(std::move(plan));
  } catch (const qpmesh::run::RunError& error) {
    fmt::print(stderr, "qpmesh-run: {}\n", error.what());
    return error.exit_code();
  } catch (const std::exception& error) {
    fmt::print(stderr, "qpmesh-run: {}\n", error.what());
    return 1;
  }
}
