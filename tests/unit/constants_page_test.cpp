// docs/constants.md has a row for every time that is written into the code, and for some sizes,
// with the value as it stands there.
#include <fmt/format.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <array>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <regex>
#include <set>
#include <string>
#include <string_view>

namespace {

namespace fs = std::filesystem;

std::string read(const fs::path& path) {
  std::ifstream file{path};
  return {std::istreambuf_iterator<char>{file}, {}};
}

bool is_time(std::string_view type, std::string_view name) {
  constexpr std::array endings{"_ms", "_us", "_s", "_ms_max", "_us_max", "_s_max"};
  return type.find("std::chrono::") != std::string_view::npos ||
         (type.find("double") == std::string_view::npos &&  // doubles are costs, not limits
          std::ranges::any_of(endings, [&](const char* ending) { return name.ends_with(ending); }));
}

std::string on_one_line(std::string_view text) {
  std::string line;
  for (const char c : text) {
    const bool blank = c == ' ' || c == '\n';
    if (!blank || !line.ends_with(' ')) line += blank ? ' ' : c;
  }
  return line;
}

// The rows that a file asks for, as the page begins them.
std::set<std::string> rows_of(std::string_view path, std::string_view text) {
  constexpr std::string_view keyword = "constexpr ";
  std::set<std::string> rows;
  for (auto at = text.find(keyword); at != std::string_view::npos;
       at = text.find(keyword, at + 1)) {
    const auto begin = at + keyword.size();
    const std::string said = on_one_line(text.substr(begin, text.find(';', begin) - begin));
    const auto value = said.find_first_of("={(");
    if (value == std::string::npos || said[value] == '(') continue;
    const bool braces = said[value] == '{';
    const std::string left = said.substr(0, braces ? value : value - 1);
    const auto name = left.find_last_of(' ') + 1;
    if (!is_time(left.substr(0, name), left.substr(name))) continue;
    rows.insert(fmt::format("| `{}` | `{}` | `{}` |", left.substr(name),
                            said.substr(braces ? value : value + 2), path));
  }
  return rows;
}

TEST(constants_page, finds_times_and_nothing_else) {
  EXPECT_EQ(rows_of("a.cpp",
                    "constexpr int pause_ms_max =\n    20;\n"
                    "static constexpr std::chrono::seconds sleep_max{1};  // why\n"
                    "constexpr double line_s = 1e-6;\n"
                    "constexpr int f_ms(int a) { return a; }\n"
                    "if constexpr (x_ms) y = 1;\n"),
            (std::set<std::string>{"| `pause_ms_max` | `20` | `a.cpp` |",
                                   "| `sleep_max` | `{1}` | `a.cpp` |"}));
}

TEST(constants_page, has_each_time_of_the_code_with_its_value) {
  const fs::path root = QPMESH_SOURCE_DIR;
  std::set<std::string> wanted;
  for (const char* const folder : {"src", "bootstrap"}) {
    for (const auto& entry : fs::recursive_directory_iterator{root / folder}) {
      const auto extension = entry.path().extension();
      if (extension != ".cpp" && extension != ".hpp") continue;
      wanted.merge(rows_of(fs::relative(entry.path(), root).string(), read(entry.path())));
    }
  }
  const std::string page = read(root / "docs/constants.md");
  const std::string times = page.substr(0, page.find("## Sizes"));
  std::set<std::string> written;
  for (auto at = times.find("\n| `"); at != std::string::npos; at = times.find("\n| `", at + 1)) {
    auto end = at;
    for (int cell = 0; cell < 4; ++cell) end = times.find('|', end + 1);
    written.insert(times.substr(at + 1, end - at));
  }
  for (const std::string& row : wanted)
    EXPECT_TRUE(written.contains(row)) << "docs/constants.md lacks " << row;
  for (const std::string& row : written)
    EXPECT_TRUE(wanted.contains(row)) << "no such time: " << row;
}

// As the page writes a size: without the type that it is made of.
std::string without_types(const std::string& value) {
  static const std::regex typed{R"((std::)?\w+\{([\w.']+)\})"};
  return std::regex_replace(value, typed, "$2");
}

TEST(constants_page, gives_sizes_as_they_stand_in_the_code) {
  const fs::path root = QPMESH_SOURCE_DIR;
  const std::string page = read(root / "docs/constants.md");
  const std::string sizes = page.substr(page.find("## Sizes"));
  static const std::regex row{R"(\n\| `([^`]*)` \| `([^`]*)` \| `([^`]*)` \|)"};
  int rows = 0;
  for (auto it = std::sregex_iterator{sizes.begin(), sizes.end(), row};
       it != std::sregex_iterator{}; ++it) {
    const std::string name = (*it)[1];
    const std::string code = without_types(on_one_line(read(root / (*it)[3].str())));
    const std::string value = without_types((*it)[2]);
    const bool stands_there =
        code.find(fmt::format(" {} = {};", name, value)) != std::string::npos ||
        code.find(fmt::format(" {}{};", name, value)) != std::string::npos;
    EXPECT_TRUE(stands_there) << name << " is not " << value << " in " << (*it)[3];
    ++rows;
  }
  EXPECT_GT(rows, 50);
}

}  // namespace
