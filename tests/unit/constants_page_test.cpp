// SPDX-License-Identifier: MIT
// docs/constants.md has a row for every time that is written into the code, and for some sizes,
// with the value as it stands there.
#include <fmt/format.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <array>
#include <cctype>
#include <filesystem>
#include <fstream>
#include <iterator>
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
  constexpr std::array endings{"_ms", "_us", "_s", "_ms_max", "_us_max", "_s_max", "_ms_min"};
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

bool is_of_word(char c) noexcept {
  return std::isalnum(static_cast<unsigned char>(c)) != 0 || c == '_' || c == ':';
}
bool is_of_number(char c) noexcept { return is_of_word(c) || c == '.' || c == '\''; }

// As the page writes a size: without the type that it is made of, `std::size_t{64}` as `64`.
std::string without_types(std::string_view text) {
  std::string shorter;
  for (std::size_t at = 0; at < text.size(); ++at) {
    const std::size_t end = text[at] == '{' ? text.find('}', at) : std::string_view::npos;
    const bool holds_number = end != std::string_view::npos && end > at + 1 && !shorter.empty() &&
                              is_of_word(shorter.back()) &&
                              std::ranges::all_of(text.substr(at + 1, end - at - 1), is_of_number);
    if (!holds_number) {
      shorter += text[at];
      continue;
    }
    while (!shorter.empty() && is_of_word(shorter.back())) shorter.pop_back();
    shorter += text.substr(at + 1, end - at - 1);
    at = end;
  }
  return shorter;
}

TEST(constants_page, takes_a_size_without_its_type) {
  EXPECT_EQ(without_types("std::size_t{64} << 10"), "64 << 10");
  EXPECT_EQ(without_types("f({1}) + int{2'000}"), "f({1}) + 2'000");
}

// What stands between the first backticks of a row of the page.
std::array<std::string, 3> cells_of(std::string_view row) {
  std::array<std::string, 3> cells;
  for (std::string& cell : cells) {
    const auto begin = row.find('`') + 1;
    const auto end = row.find('`', begin);
    cell = row.substr(begin, end - begin);
    row.remove_prefix(end + 1);
  }
  return cells;
}

TEST(constants_page, gives_sizes_as_they_stand_in_the_code) {
  const fs::path root = QPMESH_SOURCE_DIR;
  const std::string page = read(root / "docs/constants.md");
  const std::string sizes = page.substr(page.find("## Sizes"));
  int rows = 0;
  for (auto at = sizes.find("\n| `"); at != std::string::npos; at = sizes.find("\n| `", at + 1)) {
    const auto [name, written, file] = cells_of(std::string_view{sizes}.substr(at));
    const std::string code = without_types(on_one_line(read(root / file)));
    const std::string value = without_types(written);
    const bool stands_there =
        code.find(fmt::format(" {} = {};", name, value)) != std::string::npos ||
        code.find(fmt::format(" {}{};", name, value)) != std::string::npos;
    EXPECT_TRUE(stands_there) << name << " is not " << value << " in " << file;
    ++rows;
  }
  EXPECT_GT(rows, 50);
}

}  // namespace
