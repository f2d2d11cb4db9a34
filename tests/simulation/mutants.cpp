// SPDX-License-Identifier: MIT
// Proves that the simulation bites: messaging is damaged in one place at a time, and the scenarios
// must notice each damage. The sound library must pass the same scenarios.
//   mutants                 every mutant in a process of its own; the last line says how many were
//   killed mutants killed NAME     is it? "survived NAME" asks the opposite mutants NAME one, in
//   this process, or "none"
#include <fmt/format.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cstdio>
#include <string>
#include <string_view>

#include "messaging/mutant.hpp"
#include "simulation/scenarios.hpp"

namespace qpmesh::test {
namespace {

using messaging::Mutant;
using simulator::polled_network;
using simulator::shared_memory_network;

constexpr unsigned seconds_max = 120;  // of one mutant, by an emulator too: it ends in virtual time

struct Named {
  std::string_view name;
  Mutant mutant;
};
constexpr std::array mutants{Named{"checksum", Mutant::checksum},
                             Named{"tail", Mutant::tail},
                             Named{"equality", Mutant::equality},
                             Named{"line_clearing", Mutant::line_clearing},
                             Named{"release_order", Mutant::release_order},
                             Named{"credit_after_last_read", Mutant::credit_after_last_read},
                             Named{"reserved_lines", Mutant::reserved_lines},
                             Named{"staging", Mutant::staging},
                             Named{"pair_order", Mutant::pair_order},
                             Named{"flag_order", Mutant::flag_order},
                             Named{"revocation", Mutant::revocation},
                             Named{"revoke_word", Mutant::revoke_word},
                             Named{"taken_count", Mutant::taken_count},
                             Named{"lost_counts", Mutant::lost_counts}};
static_assert(mutants.size() == MUTANT_COUNT, "each has its test in CMakeLists.txt");
constexpr Named sound_library{"none", Mutant::none};

const Named* find(std::string_view name) {
  if (name == sound_library.name) return &sound_library;
  const auto* const found = std::find_if(mutants.begin(), mutants.end(),
                                         [&](const Named& known) { return known.name == name; });
  if (found != mutants.end()) return found;
  std::fprintf(stderr, "no mutant of that name\n");
  return nullptr;
}

// The first verdict that something is wrong. The cheap ones first.
std::string first_wrong() {
  for (const Flavour& flavour : flavours()) {
    std::string wrong = imitated_records(flavour.config(2, 1));
    if (wrong.empty()) wrong = control_while_data_fills_the_ring(flavour.config(2, 2));
    for (std::uint64_t seed = 3; wrong.empty() && seed < 7; ++seed) {
      wrong = random_traffic({.network = flavour.config(3, seed),
                              .send_pause_max_ns = seed % 2 == 0 ? 20'000 : 0})
                  .wrong;
    }
    if (wrong.empty()) wrong = memory_taken_back(flavour.config(2, 1));
    if (wrong.empty()) wrong = memory_closed_to_a_rank_that_stands_still(flavour.config(2, 1));
    if (wrong.empty()) {
      wrong = random_traffic({.network = flavour.config(3, 7),
                              .messages_per_rank = 300,
                              .receive_after_ns = 5'000'000,
                              .send_pause_max_ns = 2'000,
                              .bytes_max = 1'024})
                  .wrong;
    }
    if (!wrong.empty()) return fmt::format("{}: {}", flavour.name, wrong);
  }
  for (const Flavour& flavour : flavours_of_rails()) {
    const std::string wrong = first_rail_lost_one_way(flavour.config(2, 1));
    if (!wrong.empty()) return fmt::format("{}, two rails: {}", flavour.name, wrong);
  }
  return {};
}

enum class Verdict : std::uint8_t { survived, killed, broken };

// A process of its own: a damaged library may leave anything behind, and may never return.
Verdict judge(const Named& named) {
  std::fflush(stdout);
  const pid_t child = ::fork();
  if (child == 0) {
    ::alarm(seconds_max);
    messaging::mutant = named.mutant;
    const std::string wrong = first_wrong();
    std::printf("  %s: %s\n", std::string{named.name}.c_str(),
                wrong.empty() ? "nothing noticed" : wrong.substr(0, wrong.find('\n')).c_str());
    std::fflush(stdout);
    ::_exit(wrong.empty() ? 0 : 1);
  }
  int status = 0;
  if (child < 0 || ::waitpid(child, &status, 0) != child) return Verdict::broken;
  if (WIFEXITED(status)) return WEXITSTATUS(status) == 0 ? Verdict::survived : Verdict::killed;
  std::printf("  %s: ended by signal %d\n", std::string{named.name}.c_str(), WTERMSIG(status));
  // An assertion is a way of noticing; running on without end is not.
  return WTERMSIG(status) == SIGABRT ? Verdict::killed : Verdict::broken;
}

int judge_all() {
  const bool sound = judge(sound_library) == Verdict::survived;
  const auto killed = std::count_if(mutants.begin(), mutants.end(), [](const Named& named) {
    return judge(named) == Verdict::killed;
  });
  std::printf("%d/%zu mutants killed%s\n", static_cast<int>(killed), mutants.size(),
              sound ? "" : ", but the sound library fails too");
  return sound && killed == static_cast<std::ptrdiff_t>(mutants.size()) ? 0 : 1;
}

int expect(std::string_view verdict, std::string_view name) {
  const Named* const named = find(name);
  if (named == nullptr || (verdict != "killed" && verdict != "survived")) return 2;
  return judge(*named) == (verdict == "killed" ? Verdict::killed : Verdict::survived) ? 0 : 1;
}

int judge_one(std::string_view name) {
  const Named* const named = find(name);
  if (named == nullptr) return 2;
  messaging::mutant = named->mutant;
  const std::string wrong = first_wrong();
  std::printf("%s\n", wrong.empty() ? "nothing noticed" : wrong.c_str());
  std::fflush(stdout);
  ::_exit(wrong.empty() ? 0 : 1);  // what a damaged library leaves behind is not worth tearing down
}

}  // namespace
}  // namespace qpmesh::test

int main(int argument_count, char** arguments) {
  if (argument_count > 2) return qpmesh::test::expect(arguments[1], arguments[2]);
  return argument_count > 1 ? qpmesh::test::judge_one(arguments[1]) : qpmesh::test::judge_all();
}
