// SPDX-License-Identifier: MIT
// The house keeps its floors: reads every own source and fails when an include goes up, or when
// something is used outside the one place it belongs to. The rules are tables; a rule that could
// not fail would show in the tests of made-up files below.
#include <fmt/format.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cctype>
#include <filesystem>
#include <fstream>
#include <map>
#include <set>
#include <sstream>

namespace {

namespace fs = std::filesystem;

struct SourceFile {
  std::string path;  // from the project's root
  std::string text;
};

// What a floor may include beside itself and the public headers: every arrow of the house.
const std::map<std::string, std::set<std::string>, std::less<>> floors{
    {"base", {}},
    {"topology", {"base"}},
    {"bootstrap", {"base"}},
    {"transport", {"base"}},
    {"progress", {"base"}},
    {"messaging", {"base", "transport", "progress"}},
    {"collectives", {"base", "transport", "progress", "messaging"}},
    {"context", {"base", "transport", "progress", "messaging", "collectives"}},
    {"startup",
     {"base", "topology", "bootstrap", "transport", "progress", "messaging", "collectives",
      "context", "calls"}},
    {"simulator", {"base", "transport"}},
    {"calls", {"base", "progress", "messaging", "collectives", "context"}},
    {"face", {"base", "topology", "messaging", "collectives", "startup", "calls"}},
    {"mpi", {}},  // the face for C alone
};
// Who sets transports up sees each of them.
const std::set<std::string, std::less<>> sees_every_transport{"startup"};

// Rooms inside a transport, and what each may include of that transport beside itself. A
// transport's own files see all of its rooms.
const std::map<std::string, std::set<std::string>, std::less<>> rooms_of_transports{
    {"verbs/selection", {}},
    {"verbs/libraries", {}},
    {"verbs/diagnosis", {"verbs/selection", "verbs/libraries"}},
};

// A text that may appear only in files whose path begins with one of these.
struct Confined {
  std::string_view text;
  std::vector<std::string_view> homes;
};
const std::vector<Confined> confined{
    {"infiniband/", {"src/transport/verbs/", "tools/"}},
    {"<rdma/", {"src/transport/verbs/"}},
    {"<mpi.h>",
     {"bootstrap/mpi.", "include/qpmesh/mpi.hpp", "bench/baselines/", "bench/bench_mpi", "tests/"}},
    {"immintrin.h", {"src/base/cpu"}},
    {"arm_neon.h", {"src/base/cpu"}},
    {"__builtin_ia32", {"src/base/cpu", "tests/vm/tsc_khz.cpp"}},
    {"getenv(",
     {"bootstrap/launcher.cpp", "src/base/options.cpp", "mpi/src/environment.cpp", "bench/",
      "tests/"}},
    {"steady_clock::now(",
     {"src/base/system.cpp", "bootstrap/mpi.cpp", "mpi/src/environment.cpp", "python/torch/",
      "bench/", "tests/"}},
    {"TO"
     "DO",
     {}},
    {"FIX"
     "ME",
     {}},
};
constexpr std::string_view this_file = "tests/unit/floors_test.cpp";  // names all of the above

std::string first_part(std::string_view path) {
  return std::string{path.substr(0, path.find('/'))};
}

// "transport" for src/transport/shm/x.cpp, "bootstrap" for bootstrap/x.cpp, "public" for include/;
// empty for what stands outside the house: tools, bench, tests, MPI's header.
std::string floor_of(std::string_view path) {
  if (path.starts_with("include/")) return "public";
  if (path.starts_with("mpi/src/")) return "mpi";
  for (const auto* beside_src : {"bootstrap", "simulator"})
    if (first_part(path) == beside_src) return beside_src;
  if (!path.starts_with("src/")) return {};
  return first_part(path.substr(4));
}

// The kind of a transport, "shm", when the path (from src/) lies in one's folder.
std::string transport_kind(std::string_view path) {
  constexpr std::string_view folder = "transport/";
  if (!path.starts_with(folder)) return {};
  path.remove_prefix(folder.size());
  return path.find('/') == std::string_view::npos ? std::string{} : first_part(path);
}

// "verbs/selection" when the path (from src/) lies in a folder of a transport's folder.
std::string transport_room(std::string_view path) {
  const auto kind = transport_kind(path);
  if (kind.empty()) return {};
  path.remove_prefix(path.find('/') + 1);
  const auto end = path.find('/', kind.size() + 1);
  return std::string{path.substr(0, end == std::string_view::npos ? kind.size() : end)};
}

// What is wrong with one include of a file, or nothing.
std::string judge_include(const SourceFile& file, std::string_view target, bool quoted) {
  const auto floor = floor_of(file.path);
  if (floor == "public") {
    const bool is_c = file.path.ends_with(".h");
    const bool standard = !quoted && (target.find_first_of("./") == std::string_view::npos ||
                                      (is_c && target == "stddef.h"));
    if (standard || target.starts_with("qpmesh/") ||
        (file.path == "include/qpmesh/detail/standard.hpp" && target.starts_with("bits/")) ||
        (file.path == "include/qpmesh/mpi.hpp" && target == "mpi.h"))
      return {};
    return "public headers include the standard library and each other only";
  }
  if (!quoted && target == "fmt/format.h" && file.path.ends_with(".hpp"))
    return "a heavy header in a header: fmt/core.h is enough";
  if (quoted && floor == "mpi") {  // its own files lie side by side
    const bool allowed = target.find('/') == std::string_view::npos || target == "qpmesh/qpmesh.h";
    return allowed ? "" : "mpi sees the face for C alone";
  }
  if (!quoted || floor.empty() || target.starts_with("qpmesh/")) return {};
  const auto rule = floors.find(floor);
  if (rule == floors.end()) return fmt::format("the folder '{}' has no floor", floor);

  const auto target_floor = first_part(target);
  if (target_floor != floor && !floors.contains(target_floor))
    return "not relative to src/, include/ or the project's root";
  if (target_floor != floor && !rule->second.contains(target_floor))
    return fmt::format("{} must not see {}", floor, target_floor);
  const auto kind = transport_kind(target);
  const auto own_kind =
      floor == "transport" ? transport_kind(std::string_view{file.path}.substr(4)) : std::string{};
  if (!kind.empty() && !sees_every_transport.contains(floor) && kind != own_kind)
    return fmt::format("{} must not see the transport {}", floor, kind);
  if (kind.empty() || kind != own_kind) return {};
  const auto room = transport_room(std::string_view{file.path}.substr(4));
  if (room == own_kind || room == transport_room(target)) return {};
  const auto below = rooms_of_transports.find(room);
  if (below == rooms_of_transports.end()) return fmt::format("the room '{}' has no floor", room);
  if (below->second.contains(transport_room(target))) return {};
  return fmt::format("{} must not see {}", room, transport_room(target));
}

// Every violation of a file: "path:line: what".
std::vector<std::string> violations(const SourceFile& file) {
  std::vector<std::string> found;
  // MPI's header is C of any age, and one of its parts is read twice.
  const bool is_header = (file.path.ends_with(".hpp") || file.path.ends_with(".h")) &&
                         !file.path.starts_with("mpi/include/");
  if (is_header && file.text.find("#pragma once\n") == std::string::npos) {
    found.push_back(fmt::format("{}:1: no #pragma once", file.path));
  }
  std::istringstream lines{file.text};
  int number = 0;
  for (std::string line; std::getline(lines, line);) {
    ++number;
    const auto report = [&](const std::string& what) {
      found.push_back(fmt::format("{}:{}: {}", file.path, number, what));
    };
    for (const auto& [text, homes] : confined) {
      const auto at_home = [&](std::string_view home) { return file.path.starts_with(home); };
      if (line.find(text) != std::string::npos && std::ranges::none_of(homes, at_home))
        report(fmt::format("{} does not belong here", text));
    }
    if (!line.starts_with("#include")) continue;
    const auto begin = line.find_first_of("<\"");
    const auto end = line.find_last_of(">\"");
    if (begin == std::string::npos || end <= begin) continue;
    const auto target = line.substr(begin + 1, end - begin - 1);
    if (const auto what = judge_include(file, target, line[begin] == '"'); !what.empty())
      report(fmt::format("includes {}: {}", target, what));
  }
  return found;
}

std::vector<SourceFile> own_sources() {
  const fs::path root{QPMESH_SOURCE_DIR};
  std::vector<SourceFile> files;
  for (const auto* folder : {"include", "src", "bootstrap", "mpi", "simulator", "tools", "bench",
                             "tests", "examples", "python"}) {
    if (!fs::exists(root / folder)) continue;
    for (const auto& entry : fs::recursive_directory_iterator{root / folder}) {
      const auto extension = entry.path().extension();
      if (extension != ".hpp" && extension != ".cpp" && extension != ".h") continue;
      const auto path = fs::relative(entry.path(), root).string();
      if (path == this_file) continue;
      std::ostringstream text;
      text << std::ifstream{entry.path()}.rdbuf();
      files.push_back({path, text.str()});
    }
  }
  return files;
}

TEST(house, keeps_its_floors_and_its_rules) {
  const auto files = own_sources();
  EXPECT_GE(files.size(), 25U) << "the sources were not found under " << QPMESH_SOURCE_DIR;
  for (const auto& file : files) {
    for (const auto& violation : violations(file)) ADD_FAILURE() << violation;
  }
}

using Arrow = std::pair<std::string, std::string>;  // a floor that includes from another one

std::set<Arrow> arrows_of(const std::vector<SourceFile>& files) {
  std::set<Arrow> arrows;
  for (const auto& file : files) {
    const auto from = floor_of(file.path);
    std::istringstream lines{file.text};
    for (std::string line; std::getline(lines, line);) {
      if (!line.starts_with("#include \"")) continue;
      const auto to = first_part(std::string_view{line}.substr(line.find('"') + 1));
      if (from != to && floors.contains(from) && floors.contains(to)) arrows.emplace(from, to);
    }
  }
  return arrows;
}

// How high a floor stands: one above the highest that it may see. More than there are floors where
// arrows run in a circle.
std::size_t height(const std::string& floor, std::size_t steps = 0) {
  std::size_t below = 0;
  if (steps > floors.size()) return 0;
  for (const auto& seen : floors.at(floor)) below = std::max(below, height(seen, steps + 1));
  return below + 1;
}

TEST(house, has_the_arrows_of_its_table_and_no_others_and_none_goes_up) {
  const auto arrows = arrows_of(own_sources());
  std::size_t highest = 0;
  std::size_t up = 0;
  for (const auto& [floor, seen] : floors) highest = std::max(highest, height(floor));
  for (const auto& [from, to] : arrows) {
    EXPECT_TRUE(floors.at(from).contains(to)) << from << " must not see " << to;
    up += height(to) >= height(from) ? 1U : 0U;
  }
  EXPECT_EQ(up, 0U);
  fmt::print("{} rooms on {} floors, {} arrows, {} up\n", floors.size(), highest, arrows.size(),
             up);
}

struct BadExample {
  const char* path;
  const char* text;
  const char* violation;
};
void PrintTo(const BadExample& example, std::ostream* out) { *out << example.path; }

class BadFile : public ::testing::TestWithParam<BadExample> {};

TEST_P(BadFile, is_reported_with_path_line_and_reason) {
  const auto& [path, text, violation] = GetParam();
  EXPECT_EQ(violations({path, text}), std::vector<std::string>{violation});
}

INSTANTIATE_TEST_SUITE_P(
    of_every_kind, BadFile,
    ::testing::Values(
        BadExample{"src/base/x.cpp", "\n#include \"transport/memory.hpp\"\n",
                   "src/base/x.cpp:2: includes transport/memory.hpp: base must not see transport"},
        BadExample{"src/transport/shm/x.cpp", "#include \"messaging/ring.hpp\"",
                   "src/transport/shm/x.cpp:1: includes messaging/ring.hpp: transport must not see "
                   "messaging"},
        BadExample{"src/transport/shm/x.cpp", "#include \"transport/tcp/link.hpp\"",
                   "src/transport/shm/x.cpp:1: includes transport/tcp/link.hpp: transport must not "
                   "see the "
                   "transport tcp"},
        BadExample{"src/transport/verbs/selection/x.cpp", "#include \"transport/verbs/device.hpp\"",
                   "src/transport/verbs/selection/x.cpp:1: includes transport/verbs/device.hpp: "
                   "verbs/selection must not see verbs"},
        BadExample{
            "src/transport/verbs/selection/x.cpp", "#include \"transport/verbs/diagnosis/x.hpp\"",
            "src/transport/verbs/selection/x.cpp:1: includes transport/verbs/diagnosis/x.hpp: "
            "verbs/selection must not see verbs/diagnosis"},
        BadExample{
            "src/transport/verbs/attic/x.cpp", "#include \"transport/verbs/device.hpp\"",
            "src/transport/verbs/attic/x.cpp:1: includes transport/verbs/device.hpp: the room "
            "'verbs/attic' has no floor"},
        BadExample{"src/transport/memory.cpp", "#include \"transport/shm/link.hpp\"",
                   "src/transport/memory.cpp:1: includes transport/shm/link.hpp: transport must "
                   "not see the "
                   "transport shm"},
        BadExample{
            "src/messaging/x.cpp", "#include \"transport/shm/link.hpp\"",
            "src/messaging/x.cpp:1: includes transport/shm/link.hpp: messaging must not see the "
            "transport shm"},
        BadExample{"src/progress/x.cpp", "#include \"collectives/group.hpp\"",
                   "src/progress/x.cpp:1: includes collectives/group.hpp: progress must not see "
                   "collectives"},
        BadExample{"src/collectives/barrier/x.cpp", "#include \"context/context.hpp\"",
                   "src/collectives/barrier/x.cpp:1: includes context/context.hpp: collectives "
                   "must not see "
                   "context"},
        BadExample{"src/context/x.cpp", "#include \"calls/pending_operation.hpp\"",
                   "src/context/x.cpp:1: includes calls/pending_operation.hpp: context must not "
                   "see calls"},
        BadExample{
            "src/face/x.cpp", "#include \"transport/shm/link.hpp\"",
            "src/face/x.cpp:1: includes transport/shm/link.hpp: face must not see transport"},
        BadExample{"mpi/src/x.cpp", "#include \"face/access.hpp\"",
                   "mpi/src/x.cpp:1: includes face/access.hpp: mpi sees the face for C alone"},
        BadExample{"mpi/src/x.cpp", "#include \"qpmesh/qpmesh.hpp\"",
                   "mpi/src/x.cpp:1: includes qpmesh/qpmesh.hpp: mpi sees the face for C alone"},
        BadExample{"src/x.cpp", "#include \"base/log.hpp\"",
                   "src/x.cpp:1: includes base/log.hpp: the folder 'x.cpp' has no floor"},
        BadExample{"src/collectives/x.cpp", "#include \"bootstrap/meeting.hpp\"",
                   "src/collectives/x.cpp:1: includes bootstrap/meeting.hpp: collectives must not "
                   "see bootstrap"},
        BadExample{
            "bootstrap/x.cpp", "#include \"transport/memory.hpp\"",
            "bootstrap/x.cpp:1: includes transport/memory.hpp: bootstrap must not see transport"},
        BadExample{
            "src/topology/x.cpp", "#include \"progress/engine.hpp\"",
            "src/topology/x.cpp:1: includes progress/engine.hpp: topology must not see progress"},
        BadExample{"src/base/x.cpp", "#include \"../base/log.hpp\"",
                   "src/base/x.cpp:1: includes ../base/log.hpp: not relative to src/, include/ or "
                   "the project's "
                   "root"},
        BadExample{"src/attic/x.cpp", "#include \"base/log.hpp\"",
                   "src/attic/x.cpp:1: includes base/log.hpp: the folder 'attic' has no floor"},
        BadExample{"include/qpmesh/x.hpp", "#pragma once\n#include \"base/log.hpp\"\n",
                   "include/qpmesh/x.hpp:2: includes base/log.hpp: public headers include the "
                   "standard library "
                   "and each other only"},
        BadExample{"include/qpmesh/x.hpp", "#pragma once\n#include <stddef.h>\n",
                   "include/qpmesh/x.hpp:2: includes stddef.h: public headers include the standard "
                   "library "
                   "and each other only"},
        BadExample{"include/qpmesh/x.h", "#include <stddef.h>\n",
                   "include/qpmesh/x.h:1: no #pragma once"},
        BadExample{"include/qpmesh/x.hpp", "#pragma once\n#include <fmt/core.h>\n",
                   "include/qpmesh/x.hpp:2: includes fmt/core.h: public headers include the "
                   "standard library "
                   "and each other only"},
        BadExample{"src/base/x.hpp", "#pragma once\n#include <fmt/format.h>\n",
                   "src/base/x.hpp:2: includes fmt/format.h: a heavy header in a header: "
                   "fmt/core.h is enough"},
        BadExample{"src/base/x.hpp", "#include <span>\n", "src/base/x.hpp:1: no #pragma once"},
        BadExample{"src/messaging/x.cpp", "#include <infiniband/verbs.h>",
                   "src/messaging/x.cpp:1: infiniband/ does not belong here"},
        BadExample{"src/transport/x.cpp", "#include <mpi.h>",
                   "src/transport/x.cpp:1: <mpi.h> does not belong here"},
        BadExample{"src/collectives/x.cpp", "#include <immintrin.h>",
                   "src/collectives/x.cpp:1: immintrin.h does not belong here"},
        BadExample{"src/progress/x.cpp", "  __builtin_ia32_pause();",
                   "src/progress/x.cpp:1: __builtin_ia32 does not belong here"},
        BadExample{"src/progress/x.cpp", "std::getenv(\"HOME\")",
                   "src/progress/x.cpp:1: getenv( does not belong here"},
        BadExample{"src/progress/x.cpp", "std::chrono::steady_clock::now()",
                   "src/progress/x.cpp:1: steady_clock::now( does not belong here"},
        BadExample{"tests/unit/x.cpp",
                   "// TO"
                   "DO later",
                   "tests/unit/x.cpp:1: TO"
                   "DO does not belong here"},
        BadExample{"tools/x.cpp",
                   "// FIX"
                   "ME",
                   "tools/x.cpp:1: FIX"
                   "ME does not belong here"}),
    [](const auto& example) {
      std::string name = example.param.violation;
      std::ranges::replace_if(
          name, [](unsigned char c) { return std::isalnum(c) == 0; }, '_');
      return name;
    });

TEST(good_file, is_not_reported) {
  for (const SourceFile& file : {
           SourceFile{"src/base/x.hpp",
                      "#pragma once\n#include <fmt/core.h>\n#include \"base/log.hpp\"\n#include "
                      "\"qpmesh/error.hpp\"\n"},
           SourceFile{
               "src/transport/shm/x.cpp",
               "#include \"transport/shm/link.hpp\"\n#include \"transport/transport.hpp\"\n"},
           SourceFile{"src/messaging/x.cpp",
                      "#include \"transport/transport.hpp\"\n#include \"progress/task.hpp\"\n"},
           SourceFile{
               "src/startup/init.cpp",
               "#include \"transport/shm/link.hpp\"\n#include \"context/communicator_state.hpp\"\n"
               "#include \"bootstrap/meeting.hpp\"\n#include <fmt/format.h>\n"},
           SourceFile{"src/transport/verbs/x.cpp", "#include <infiniband/verbs.h>\n"},
           SourceFile{"src/transport/verbs/x.cpp",
                      "#include \"transport/verbs/diagnosis/x.hpp\"\n"},
           SourceFile{"src/transport/verbs/diagnosis/x.cpp",
                      "#include \"transport/verbs/selection/x.hpp\"\n#include "
                      "\"transport/transport.hpp\"\n"},
           SourceFile{"include/qpmesh/mpi.hpp", "#pragma once\n#include <mpi.h>\n"},
           SourceFile{"include/qpmesh/x.h", "#pragma once\n#include <stddef.h>\n"},
           SourceFile{"tests/unit/x.cpp", "#include \"collectives/group.hpp\"\n"},
       }) {
    EXPECT_EQ(violations(file), std::vector<std::string>{}) << file.path;
  }
}

}  // namespace
